"""Words that a host removed or rewrote reach no model again, in no form that was made of them."""

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AnyMessage, BaseMessage, HumanMessage, RemoveMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.store.memory import InMemoryStore
from langgraph.types import StateUpdate

from tests.graph.kit import config
from tests.tiers import sampled
from unsay import Conversation, SlidingWindow, Summarizing, ThreeStage, build_graph
from unsay.messages.content import text_of
from unsay.testing import ScriptedChat, ScriptedDetector

WORD = "Zanzibar7"
QUESTIONS = ("Do parrots eat seeds?", f"My {WORD} is a parrot?", "Do parrots sing?", "Do they fly?")


class Listener:
    """All models of a graph, which write down what they are sent; summaries repeat everything."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.turns = 0

    def answer(self, messages: list[BaseMessage]) -> str:
        """An answer of its own words."""
        self.heard += map(text_of, messages)
        self.turns += 1
        return f"It is as the books say, in chapter {self.turns}, and there is nothing to add."

    def judge(self, messages: Any) -> float:
        """A verdict."""
        self.heard += map(text_of, messages)
        return 0.9

    def summarize(self, messages: list[BaseMessage]) -> str:
        """A summary that repeats all material, earlier summaries too."""
        self.heard += map(text_of, messages)
        return " ".join(sorted({word for m in messages[1:] for word in text_of(m).split()}))[:1_400]

    def services(self) -> dict[str, Any]:
        """What a graph of these models is built of."""
        detector = ScriptedDetector(shifts={"NEW": "new"})
        return {
            "judge": self.judge,
            "summarizer": ScriptedChat(script=self.summarize),
            "detector": detector,
        }


def place_of(listener: Listener, storage: str, **options: Any) -> Any:
    """A graph, or one around it, in which a host writes the messages."""
    store = None if storage == "no store" else InMemoryStore()
    saver = None if storage == "parent" else InMemorySaver()
    services = {**listener.services(), **options, "checkpointer": saver, "store": store}
    graph: Any = build_graph(ScriptedChat(script=listener.answer), **services)
    if storage != "parent":
        return graph
    builder = StateGraph(MessagesState)
    builder.add_node("talk", graph)
    builder.add_edge(START, "talk")
    return builder.compile(checkpointer=InMemorySaver(), store=store)


def ask(graph: Any, *texts: str, before: Any = ()) -> None:
    """Ask each question; `before` are messages in the input of the first."""
    for text in texts:
        graph.invoke({"messages": [*before, HumanMessage(text)]}, config())
        before = ()


def marked_messages(messages: list[AnyMessage]) -> list[AnyMessage]:
    """The message with the word, and its answer."""
    index = next(i for i, m in enumerate(messages) if WORD in text_of(m))
    return messages[index : index + 2]


def unmarked_messages(messages: list[AnyMessage]) -> list[AnyMessage]:
    """All messages but those with the word and its answer."""
    messages_with_mark = marked_messages(messages)
    return [m for m in messages if m not in messages_with_mark]


def update(graph: Any, writes: list[Any]) -> None:
    """Write by an update of the state."""
    graph.update_state(config(), {"messages": writes})


def bulk_update(graph: Any, writes: list[Any]) -> None:
    """Write by one of several updates of the state."""
    graph.bulk_update_state(config(), [[StateUpdate({"messages": writes})]])


def in_input(graph: Any, writes: list[Any]) -> None:
    """Write together with the next question."""
    ask(graph, "And now?", before=writes)


def removed(messages: list[AnyMessage]) -> list[Any]:
    """Both messages are removed."""
    return [RemoveMessage(id=m.id or "") for m in marked_messages(messages)]


def only_question_removed(messages: list[AnyMessage]) -> list[Any]:
    """The question is removed and its answer stays."""
    return removed(messages)[:1]


def removed_with_last(messages: list[AnyMessage]) -> list[Any]:
    """The messages and those of a turn that the same summaries cover."""
    return [*removed(messages), *(RemoveMessage(id=m.id or "") for m in messages[4:6])]


def all_replaced(messages: list[AnyMessage]) -> list[Any]:
    """All messages are removed, and the others added again."""
    return [RemoveMessage(id=REMOVE_ALL_MESSAGES), *unmarked_messages(messages)]


def rewritten(messages: list[AnyMessage]) -> list[Any]:
    """The message has other words under its id."""
    return [HumanMessage("My word is a parrot?", id=marked_messages(messages)[0].id)]


WRITES = [update, bulk_update, in_input]
CHANGES = [removed, only_question_removed, removed_with_last, all_replaced, rewritten]
MADE: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "topics": (("NEW weather in Kyoto?", "And tomorrow?"), {}),
    "topics without a model": (("NEW weather?",), {"settings": {"summaries": "local"}}),
    "compaction": (("/compact", "Are they green?"), {}),
    "compactions": (("/compact", "Are they green?", "/compact", "Are they red?"), {}),
    "summarizing": (("Are they red?",), {"strategy": Summarizing(preserve_recent_messages=2)}),
    "kept messages": (("NEW weather?",), {"settings": {"on_topic_change": "keep"}}),
    "sliding": (("Are they red?",), {"strategy": SlidingWindow(window_size=4)}),
    "three stages": (("Are they red?",), {"strategy": ThreeStage(recents=2, primers=1)}),
}


@pytest.mark.parametrize(
    ("storage", "product_name", "write", "change"),
    sampled(product(["store", "no store", "parent"], MADE, WRITES, CHANGES), every=23, full=4),
)
def test_no_model_is_sent_removed_words(
    storage: str, product_name: str, write: Callable[..., None], change: Callable[..., list[Any]]
) -> None:
    """Whatever was made of a message ends with it, however the host removes or rewrites it."""
    questions, options = MADE[product_name]
    listener = Listener()
    graph = place_of(listener, storage, **options)
    ask(graph, *QUESTIONS, *questions)
    messages = graph.get_state(config()).values["messages"]
    assert WORD in " ".join(listener.heard)

    listener.heard.clear()
    write(graph, change(messages))
    ask(graph, "Go on?", "NEW ships in Osaka?", "/compact", "And boats?", "NEW umbrellas?")

    assert [] == [text for text in listener.heard if WORD in text]


@settings(max_examples=min(25, settings().max_examples))
@given(data=st.data())
def test_a_removal_by_any_verb_ends_what_was_made_of_the_words(data: Any) -> None:
    """After removing, forgetting or rolling back, no request has the words; restoring is no matter."""
    listener = Listener()
    options = {**listener.services(), "model": ScriptedChat(script=listener.answer)}
    asides = st.lists(st.sampled_from(["/compact", "NEW weather?", "And more?", "/pin 1"]))
    with Conversation.open(":memory:", **options) as conversation:
        for text in (*QUESTIONS, *data.draw(asides)):
            conversation.say(text)
        is_typed = data.draw(st.booleans())
        verb = data.draw(st.sampled_from(["remove", "forget", "rollback", "add"]))
        messages = conversation.messages()
        listener.heard.clear()
        if verb == "add":
            change = data.draw(st.sampled_from(CHANGES))
            conversation.add(change(list(messages)))
        elif verb == "rollback":
            turns = len([m for m in messages if m.type == "human" and m.text[0] != "/"]) - 1
            conversation.say(f"/rollback {turns}")
        elif is_typed:
            conversation.say(f"/{verb} 2")
        elif verb == "remove":
            conversation.remove(2)
        else:
            conversation.forget(marked_messages(list(messages))[0].id)
        for text in ("Go on?", "/compact", "And boats?", "NEW umbrellas?", "And sails?"):
            conversation.say(text)

    assert [] == [text for text in listener.heard if WORD in text]


@pytest.mark.sample(every=4)
@pytest.mark.parametrize("storage", ["store", "parent"])
@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("change", [removed, rewritten])
def test_words_in_offloaded_messages_are_removed_too(
    storage: str, write: Callable[..., None], change: Callable[..., list[Any]]
) -> None:
    """A host that names an offloaded message removes it, and no summary or search has its words."""
    listener = Listener()
    graph = place_of(listener, storage, settings={"live_messages": 6})
    ask(graph, *QUESTIONS, "NEW weather?", "And rain?", "And snow?", "NEW boats?", "And sails?")
    messages = next(
        snapshot.values["messages"]
        for snapshot in graph.get_state_history(config())
        if WORD in " ".join(map(text_of, snapshot.values.get("messages", [])))
    )
    write(graph, change(messages))
    listener.heard.clear()
    ask(graph, "Is my word a parrot?", "NEW ships?", f"/recall {WORD.lower()}", "And umbrellas?")

    assert [] == [text for text in listener.heard if WORD in text]


@pytest.mark.parametrize("change", [only_question_removed, rewritten])
def test_a_lesson_that_quotes_a_removed_question_reaches_no_model(
    change: Callable[..., list[Any]],
) -> None:
    """The reason for which a draft was rejected ends with the question that it quotes."""
    listener = Listener()
    verdicts = iter([{"score": 0.1, "reason": f"Do not doubt {WORD}."}])
    services = {**listener.services(), "judge": lambda _: next(verdicts, 0.9)}
    saver = InMemorySaver()
    store = InMemoryStore()
    model = ScriptedChat(script=listener.answer)
    graph = build_graph(model, **services, checkpointer=saver, store=store)
    ask(graph, QUESTIONS[1], "Go on?")
    assert f"Do not doubt {WORD}." in listener.heard[-1]

    listener.heard.clear()
    update(graph, change(graph.get_state(config()).values["messages"]))
    ask(graph, "Go on?", "And more?")

    assert [] == [text for text in listener.heard if WORD in text]
