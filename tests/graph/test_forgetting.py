import asyncio
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from tests.graph.back_kit import SHIFTS, Opening, entry, three
from tests.graph.kit import Numbered, config, scores
from tests.reading import (
    detector_of,
    model_of,
    offloaded_messages,
    offloaded_turns,
    redo_steps,
    replayed,
    state_of,
    topics,
    undo_steps,
)
from tests.threads import registry_of
from unsay import AsyncConversation, Conversation
from unsay.errors import (
    ConflictError,
    InputError,
    NotFoundError,
    UnknownBranchError,
    UnknownTurnError,
)
from unsay.messages.annotations import is_answer
from unsay.messages.content import text_of
from unsay.protocols import TopicMemory, TopicShift
from unsay.testing import ScriptedChat, ToolCalls
from unsay.transcript.forget import FORGOTTEN, FORGOTTEN_MESSAGES, PINS

WINDOW = {"live_messages": 4}


class Listener:
    """A detector that looks for a word, and records its input."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def detect(
        self, question: str, current: TopicMemory, others: Sequence[TopicMemory]
    ) -> TopicShift:
        """NEW begins a topic, BACK returns to the one left last."""
        self.told += [text for item in (current, *others) for text in item.texts]
        if "BACK" in question and others:
            return TopicShift(kind="back", similarity=0.9, topic_id=others[0].topic_id)
        return TopicShift(kind="new" if "NEW" in question else "same", similarity=0.5)


def looks(*lookups: str) -> Any:
    """A tool that finds these, one after the other."""
    results = list(lookups)

    def look(word: str) -> str:
        """Look a word up."""
        return results.pop(0)

    return look


def caller() -> ScriptedChat:
    """A model that looks a word up in each turn."""
    look: Any = {"name": "look", "args": {"word": "x"}}
    return ScriptedChat(default=ToolCalls(calls=[look], then="What was found is: {result}."))


def ids(conversation: Conversation) -> list[str]:
    """Of the transcript's messages."""
    return [message.id or "" for message in conversation.messages()]


def probe(conversation: Conversation, question: str = "And now?") -> list[tuple[str, str]]:
    """What the model is sent for a question; the question is gone afterwards."""
    model: Any = model_of(conversation)
    conversation.say(question)
    conversation.undo()
    return [(m.type, text_of(m)) for m in model.inputs[-1]]


def request_text(conversation: Conversation, question: str = "And now?") -> str:
    """What the model is sent for a question, as one text."""
    return "\n".join(text for _, text in probe(conversation, question))


def test_a_message_is_forgotten_and_restored(open_thread: Opening) -> None:
    """Views leave it out, the transcript keeps it, and restored it is where it was."""
    conversation = three(open_thread)
    before = probe(conversation)
    transcript = conversation.messages()
    entry = conversation.forget(ids(conversation)[2], reason="wrong")

    assert (entry,) == conversation.forgotten()
    assert ("message", [ids(conversation)[2]], "wrong") == (
        entry["kind"],
        entry["message_ids"],
        entry["reason"],
    )
    assert "q2" not in request_text(conversation)
    assert "draft 2" in request_text(conversation)
    assert 1 == conversation.restore(entry["id"]).restored
    assert () == conversation.forgotten()
    assert before == probe(conversation)
    assert transcript == conversation.messages()
    assert transcript == replayed(conversation).messages


def test_undo_and_redo_of_forgetting(open_thread: Opening) -> None:
    """Forgetting is a step: undo reverts it and redo repeats it, any number of times."""
    conversation = three(open_thread)
    before = probe(conversation)
    entry = conversation.forget(turns=2)
    after = undo_steps(conversation)

    assert 3 == conversation.undo().turns
    assert () == conversation.forgotten()
    conversation.redo()
    assert (entry,) == conversation.forgotten()
    assert after == undo_steps(conversation)
    assert ["q1", "q3"] == [text for kind, text in probe(conversation) if kind == "human"][:2]
    conversation.undo()
    assert before == probe(conversation)
    assert 2 == conversation.undo().turns


def test_undo_of_a_restore(open_thread: Opening) -> None:
    """What was restored is forgotten again when that is undone."""
    conversation = three(open_thread)
    entry = conversation.forget(turns="1-2")
    conversation.restore(entry["id"])
    conversation.undo()

    assert (entry,) == conversation.forgotten()


def test_one_message_of_a_span_is_restored(open_thread: Opening) -> None:
    """Restoring a message of a span leaves the others forgotten; undo forgets it again."""
    conversation = three(open_thread)
    names = ids(conversation)
    entry = conversation.forget(names[0], names[3])
    assert names[:4] == entry["message_ids"]
    assert 1 == conversation.restore(names[2]).restored

    assert [names[0], names[1], names[3]] == conversation.forgotten()[0]["message_ids"]
    assert "q2" in request_text(conversation)
    assert "q1" not in request_text(conversation)
    conversation.undo()
    assert (entry,) == conversation.forgotten()


def test_tool_calls_and_results_go_together(open_thread: Opening) -> None:
    """Who forgets a result forgets its call; the answer stays."""
    model = caller()
    conversation = open_thread(model, tools=[looks("Alpha", "Beta", "Gamma")])
    conversation.say("q1")
    result = next(m for m in conversation.messages() if isinstance(m, ToolMessage))
    entry = conversation.forget(result.id or "")

    assert 2 == len(entry["message_ids"])
    conversation.say("q2")
    view = model.calls[2]
    assert ["human", "ai", "human"] == [m.type for m in view]
    assert [] == [m for m in view if isinstance(m, ToolMessage)]


@pytest.mark.parametrize(
    ("limit", "forgotten_results"), [(0.1, ""), (0.3, "Beta"), (1.0, "Alpha Beta")], ids=str
)
def test_results_that_bear_on_no_question(
    open_thread: Opening, limit: float, forgotten_results: str
) -> None:
    """Results under a score are shown as cleared, their calls stay, and undo shows them again."""
    model = caller()
    conversation = open_thread(
        model, tools=[looks("Alpha is large", "Beta", "Gamma")], settings={"judging": "off"}
    )
    conversation.say("How large is alpha, and who discovered it?")
    conversation.say("Tell me more.")
    transcript = conversation.messages()
    entry = conversation.forget(tool_results_below=limit)
    conversation.say("Go on.")

    texts = [text_of(m) for m in model.calls[-2] if isinstance(m, ToolMessage)]
    assert 2 == len(texts)
    for word in ("Alpha", "Beta"):
        assert (word not in forgotten_results) == any(word in text for text in texts)
    assert transcript == conversation.messages()[: len(transcript)]
    assert len(forgotten_results.split()) == (0 if entry is None else len(entry["message_ids"]))


def test_the_judge_weighs_results(open_thread: Opening) -> None:
    """With a model for a judge it is asked about each result; one that fails forgets nothing."""
    model = caller()
    judge = scores(0.9, 0.9, 0.1, RuntimeError("down"))
    conversation = open_thread(model, judge, tools=[looks("Alpha", "Beta")])
    conversation.say("q1")
    conversation.say("q2")
    entry = conversation.forget(tool_results_below=0.5)

    results = [m.id for m in conversation.messages() if isinstance(m, ToolMessage)]
    assert entry is not None
    assert results[:1] == entry["message_ids"]


def test_pinned_results_are_kept(open_thread: Opening) -> None:
    """A result that a pin holds is not forgotten."""
    conversation = open_thread(caller(), tools=[looks("Alpha")], settings={"judging": "off"})
    conversation.say("q1")
    conversation.pins.add()

    assert [] == conversation.forget(tool_results_below=1.0)["message_ids"]


def two_topics(open_thread: Opening, **options: Any) -> Conversation:
    """A conversation of two topics, the second under way."""
    conversation = open_thread(detector=Listener(), **options)
    for text in ("apples one", "apples two", "NEW pears", "pears two"):
        conversation.say(text)
    return conversation


def test_a_topic_is_forgotten(open_thread: Opening) -> None:
    """Neither its words nor its summary reach the model or the detector, until it is restored."""
    conversation = two_topics(open_thread)
    before = probe(conversation)
    assert any("apples" in text for _, text in before)
    entry = conversation.forget("topic-1")

    detector: Any = detector_of(conversation)
    detector.told.clear()
    assert "apples" not in request_text(conversation)
    assert not [text for text in detector.told if "apples" in text]
    assert [True, False] == [topic.forgotten for topic in conversation.timeline().topics]
    conversation.restore("topic-1")
    assert before == probe(conversation)
    assert entry["id"] not in {entry["id"] for entry in conversation.forgotten()}


def test_a_topic_is_named_by_a_person(open_thread: Opening) -> None:
    """A whole label goes before a part of one, in any letter case; an unclear one lists both."""
    conversation = open_thread(detector=Listener())
    for text in ("Kyoto", "NEW Kyoto hotels", "NEW pears"):
        conversation.say(text)
    labels = [topic.label for topic in conversation.timeline().topics]
    assert 2 == len([label for label in labels if "kyoto" in label.casefold()]), labels
    shortest = min((label for label in labels if "kyoto" in label.casefold()), key=len)
    unclear = conversation.say("/forget yoto").text
    assert all(label in unclear for label in labels[:2])

    conversation.say(f"/forget {shortest.upper()}")

    assert [shortest] == [
        topic.label for topic in conversation.timeline().topics if topic.forgotten
    ]


def test_the_topic_under_way_is_forgotten(open_thread: Opening) -> None:
    """Later messages begin a new topic, which is shown."""
    conversation = two_topics(open_thread)
    conversation.forget("topic-2")
    conversation.say("more of it")
    conversation.say("and more")

    assert "pears" not in request_text(conversation)
    assert "more of it" in request_text(conversation)
    assert 3 == len(conversation.timeline().topics)


def test_nobody_returns_to_a_forgotten_topic(open_thread: Opening) -> None:
    """Who comes back to its subject begins a new topic."""
    conversation = two_topics(open_thread)
    conversation.forget("topic-1")
    conversation.say("BACK to apples")

    assert "apples one" not in request_text(conversation)
    assert "BACK to apples" in request_text(conversation)


def test_summaries_are_made_again(open_thread: Opening) -> None:
    """A summary that told of a message tells nothing of it, and again when it is restored."""
    conversation = two_topics(open_thread)
    conversation.forget(ids(conversation)[0])

    assert "apples one" not in request_text(conversation)
    assert "apples two" in request_text(conversation)
    conversation.undo()
    assert "apples one" in request_text(conversation)


def test_the_first_message_of_a_topic(open_thread: Opening) -> None:
    """Where it is forgotten, the topic's other words are its own as before."""
    conversation = two_topics(open_thread)
    conversation.forget(ids(conversation)[4])
    request = request_text(conversation)

    assert "NEW pears" not in request
    assert "pears two" in request
    assert 1 == request.count("draft 1")  # in the summary of the other topic


def test_summaries_leave_out_what_is_forgotten(open_thread: Opening) -> None:
    """A summary of older messages that mentioned one is made again without it."""
    settings = {
        "topics": "off",
        "context_window_tokens": 1_000,
        "recents": 2,
        "primers": 0,
        "recall_tokens": 0,
    }
    conversation = open_thread(settings=settings)
    for number in range(12):
        conversation.say(f"question {number} " + "on and on " * 30)
    assert state_of(conversation)["compaction"]["spans"]
    assert "question 1 " in request_text(conversation)
    conversation.forget(ids(conversation)[2])

    assert "question 1 " not in request_text(conversation)


def test_recall_does_not_find_what_is_forgotten(open_thread: Opening) -> None:
    """What no view shows is not recalled either, live or offloaded."""
    conversation = open_thread(detector=SHIFTS, settings=WINDOW)
    conversation.say("The zanzibar treaty of 1890?")
    first = ids(conversation)[0]
    for number in range(5):
        conversation.say(f"NEW subject {number}")
    conversation.forget(first)
    conversation.say("NEW Which treaty of zanzibar?")
    model: Any = model_of(conversation)
    view = "\n".join(text_of(m) for m in model.inputs[-1])

    assert "of 1890" not in view


def test_offloaded_words_of_a_forgotten_topic_are_not_recalled(open_thread: Opening) -> None:
    """A topic that was offloaded and is forgotten is not recalled."""
    conversation = open_thread(detector=SHIFTS, settings=WINDOW)
    conversation.say("The zanzibar treaty of 1890?")
    for number in range(6):
        conversation.say(f"NEW subject {number}")
    assert offloaded_messages(conversation) > 2
    conversation.forget("topic-1")
    conversation.say("NEW Which treaty of zanzibar?")
    model: Any = model_of(conversation)

    assert "of 1890" not in "\n".join(text_of(m) for m in model.inputs[-1])


def test_no_judge_reads_what_is_forgotten(open_thread: Opening) -> None:
    """Not as an earlier exchange of answers that an app put in, nor as such an answer itself."""
    texts_read: list[str] = []

    def judge(request: Sequence[AnyMessage]) -> float:
        texts_read.append("\n".join(text_of(item) for item in request))
        return 0.9

    conversation = open_thread(judge=judge)
    conversation.say("Where is the SECRET kept?")
    conversation.forget(conversation.messages()[0].id or "")
    conversation.add(
        [HumanMessage("And the house?", id="q"), AIMessage("It is red, with doors.", id="a")]
    )
    conversation.add(
        [HumanMessage("And the car?", id="q2"), AIMessage("It is HIDDEN in a barn.", id="a2")]
    )
    conversation.forget("a2")
    texts_read.clear()
    conversation.say("How many doors are there?")

    assert any("It is red, with doors." in item for item in texts_read)
    assert [] == [item for item in texts_read if "SECRET" in item or "HIDDEN" in item]


def test_no_title_is_made_of_a_forgotten_question(open_thread: Opening) -> None:
    """The first one that is left gives the thread its name."""
    conversation = open_thread()
    conversation.graph.invoke(
        {"messages": [HumanMessage("The SECRET place?", id="q")]}, config(conversation.thread_id)
    )
    conversation.forget("q")
    conversation.say("What is a garden?")

    assert "What is a garden?" == entry(conversation).title


def test_an_offloaded_message_is_forgotten_and_restored(open_thread: Opening) -> None:
    """An offloaded message is rolled back, forgotten, offloaded again, and restored."""
    conversation = open_thread(detector=Listener(), settings=WINDOW)
    for number in range(6):
        conversation.say(f"{'NEW ' if number % 2 == 0 else ''}subject {number}")
    transcript = conversation.messages()
    assert offloaded_messages(conversation) > 2
    entry = conversation.forget(transcript[0].id or "")
    for number in range(6, 10):
        conversation.say(f"{'NEW ' if number % 2 == 0 else ''}subject {number}")
    assert transcript[0].id not in {m.id for m in state_of(conversation)["messages"]}

    assert "subject 0" not in request_text(conversation)
    assert transcript == conversation.messages()[: len(transcript)]
    conversation.restore(entry["id"])
    assert () == conversation.forgotten()
    assert transcript == conversation.messages()[: len(transcript)]


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("question", ["call", "command"])
@pytest.mark.parametrize("later_turns", [0, 6], ids=["live", "offloaded"])
def test_a_message_of_a_forgotten_topic_brings_the_topic_back(
    open_thread: Opening, question: str, later_turns: int
) -> None:
    """The id of a message restores the topic that was forgotten with it, also an offloaded one."""
    conversation = open_thread(detector=Listener(), settings=WINDOW)
    conversation.say("NEW subject 0")
    name = ids(conversation)[0]
    for number in range(1, 2 + later_turns):
        conversation.say(f"NEW subject {number}")
    assert (later_turns == 0) is (name in {m.id for m in state_of(conversation)["messages"]})
    conversation.forget("topic-1")
    if question == "call":
        with pytest.raises(ConflictError, match="restore it first"):
            conversation.pins.add(name)
        conversation.restore(name)
    else:
        conversation.say(f"/restore {name}")

    assert () == conversation.forgotten()
    conversation.pins.add(name)


def test_a_message_both_forgotten_and_rolled_back_returns_once(open_thread: Opening) -> None:
    """It returns from its branch; the event log, the topics and the transcript agree afterwards."""
    conversation = open_thread(detector=Listener(), settings={"live_messages": 8})
    for number in range(4):
        conversation.say(f"NEW subject {number}")
    names = ids(conversation)
    entry = conversation.forget(names[0], names[-1])
    conversation.rollback(turns=1)
    for number in range(4, 6):
        conversation.say(f"NEW subject {number}")
    live = {message.id for message in state_of(conversation)["messages"]}
    assert (False, True) == (names[0] in live, names[5] in live)
    conversation.restore(names[-1])

    assert [*names[:6], names[-1]] == ids(conversation)[:7]
    assert conversation.messages() == replayed(conversation).messages
    assert (entry,) == conversation.forgotten()
    state = state_of(conversation)
    starts = [run.start for run in topics(conversation)]
    assert state["messages"][0].id == starts[0]
    assert sorted(set(starts), key=ids(conversation).index) == starts


def test_a_pin_holds_through_topics_and_offloading(open_thread: Opening) -> None:
    """A pinned message is in every view, wherever it lies; unpinned it is not."""
    conversation = open_thread(detector=Listener(), settings={**WINDOW, "recall_tokens": 0})
    conversation.say("The answer is 42, remember?")
    name = ids(conversation)[0]
    conversation.pins.add(name)
    for number in range(8):
        conversation.say(f"{'NEW ' if number % 2 == 0 else ''}subject {number}")
        model: Any = model_of(conversation)
        assert "The answer is 42" in "\n".join(text_of(m) for m in model.inputs[-1])
    (pin,) = conversation.pins.list()
    assert "page" in pin
    conversation.rollback(turns=9)
    assert ({"message_id": name},) == conversation.pins.list()
    conversation.undo()
    assert "The answer is 42" in request_text(conversation, "NEW and now?")
    conversation.pins.remove(name)
    assert 1 >= request_text(conversation).count("The answer is 42")
    assert () == conversation.pins.list()


def test_a_pin_on_what_is_offloaded_already(open_thread: Opening) -> None:
    """A pin on an offloaded message brings it back with its call."""
    model = caller()
    settings = {**WINDOW, "recall_tokens": 0}
    conversation = open_thread(
        model,
        tools=[looks(*(f"found {n}" for n in range(9)))],
        detector=Listener(),
        settings=settings,
    )
    for number in range(6):
        conversation.say(f"NEW subject {number}")
    result = next(m for m in conversation.messages() if isinstance(m, ToolMessage))
    before = state_of(conversation)["messages"]
    assert result.id not in {m.id for m in before}
    (pin,) = conversation.pins.add(result.id)
    assert before == state_of(conversation)["messages"]
    assert "page" in pin
    conversation.say("NEW and now?")

    view = model.calls[-2]
    assert ["found 0"] == [text_of(m) for m in view if isinstance(m, ToolMessage)]
    calls = [m for m in view if isinstance(m, AIMessage) and m.tool_calls]
    assert result.tool_call_id == calls[0].tool_calls[0]["id"]


def test_a_pin_goes_quiet_and_returns(open_thread: Opening) -> None:
    """A rollback takes the pinned message away; when it returns, so does the pin."""
    conversation = two_topics(open_thread)
    name = ids(conversation)[2]
    conversation.pins.add(name)
    conversation.rollback(turns=3)
    assert "apples two" not in request_text(conversation)
    conversation.undo()

    assert "apples two" in request_text(conversation, "NEW plums")
    assert ({"message_id": name},) == conversation.pins.list()


def test_forgetting_takes_the_pin_off(open_thread: Opening) -> None:
    """Who forgets a pinned message unpins it; undo sets the pin again."""
    conversation = three(open_thread)
    name = ids(conversation)[0]
    pins = conversation.pins.add(name)
    conversation.forget(name)

    assert () == conversation.pins.list()
    with pytest.raises(ConflictError, match="restore it first"):
        conversation.pins.add(name)
    conversation.undo()
    assert pins == conversation.pins.list()


def test_a_turn_is_pinned_by_its_number(open_thread: Opening) -> None:
    """The question and the answer of a turn are pinned, by default of the newest."""
    conversation = three(open_thread)
    names = ids(conversation)

    assert names[4:] == [pin["message_id"] for pin in conversation.pins.add()]
    assert [*names[4:], *names[:2]] == [pin["message_id"] for pin in conversation.pins.add(turn=1)]
    assert names[:2] == [pin["message_id"] for pin in conversation.pins.remove()]
    assert [True, False, False] == [turn.pinned for turn in conversation.timeline().turns]


def test_a_turn_with_tools_is_pinned_once_for_each_step(open_thread: Opening) -> None:
    """The pin on a tool call stands for the call and its results."""
    conversation = open_thread(caller(), tools=[looks("a pier")])
    conversation.say("Where?")
    question, call, result, answer = ids(conversation)

    assert [question, call, answer] == [pin["message_id"] for pin in conversation.pins.add(turn=1)]
    assert result not in {pin["message_id"] for pin in conversation.pins.list()}


def test_commands_and_notices_cannot_be_pinned(open_thread: Opening) -> None:
    """No model is shown them, so a pin would have no effect."""
    conversation = three(open_thread)
    conversation.graph.invoke({"messages": [("user", "/help")]}, config(conversation.thread_id))
    for message_id in ids(conversation)[-2:]:
        with pytest.raises(InputError, match=message_id):
            conversation.pins.add(message_id)

    assert () == conversation.pins.list()


def test_a_fork_has_the_pins_and_what_is_forgotten(open_thread: Opening) -> None:
    """A fork begins with the same views."""
    conversation = three(open_thread)
    conversation.pins.add()
    conversation.forget(turns=1)
    fork = conversation.fork()

    assert conversation.pins.list() == fork.pins.list()
    assert conversation.forgotten() == fork.forgotten()
    assert probe(conversation) == probe(fork)


def test_a_forgotten_question_that_is_asked_again(open_thread: Opening) -> None:
    """The question that waits is never left out, also when it was forgotten and is retried."""
    conversation = three(open_thread)
    conversation.forget(turns=3)
    conversation.retry()
    model: Any = model_of(conversation)

    assert "q3" in text_of(model.inputs[-1][-1])


@pytest.mark.sample(every=2)
@pytest.mark.parametrize(
    ("act", "error", "text"),
    [
        pytest.param(lambda t: t.forget("nothing"), UnknownBranchError, "nothing", id="unknown"),
        pytest.param(lambda t: t.forget("a", "b"), UnknownBranchError, "'a'", id="no span"),
        pytest.param(lambda t: t.forget(turns=9), UnknownTurnError, "turns 1 to 3", id="no turn"),
        pytest.param(lambda t: t.forget(turns="2-1"), InputError, "2-1", id="no range"),
        pytest.param(lambda t: t.forget(), InputError, "exactly one of the two", id="nothing said"),
        pytest.param(
            lambda t: t.forget("a", turns=1), InputError, "exactly one of the two", id="both"
        ),
        pytest.param(lambda t: t.forget(tool_results_below=2), InputError, "2", id="no score"),
        pytest.param(
            lambda t: t.pins.add("nothing"), UnknownBranchError, "nothing", id="no message"
        ),
        pytest.param(
            lambda t: t.pins.remove("nothing"), UnknownBranchError, "nothing", id="no pin"
        ),
        pytest.param(lambda t: t.restore("forgot-x"), UnknownBranchError, "forgot-x", id="restore"),
    ],
)
def test_what_cannot_be(open_thread: Opening, act: Any, error: type[Exception], text: str) -> None:
    """An order that names nothing says so and changes nothing."""
    conversation = three(open_thread)
    before = state_of(conversation)
    with pytest.raises(error, match=text):
        act(conversation)

    assert before == state_of(conversation)


def test_the_waiting_question_is_not_forgotten(open_thread: Opening) -> None:
    """A question without an answer can be undone, not forgotten."""
    conversation = three(open_thread)
    conversation.add([("user", "waiting?")])
    with pytest.raises(InputError, match="waits for its answer"):
        conversation.forget(ids(conversation)[-1])


def test_twice(open_thread: Opening) -> None:
    """What is forgotten or pinned is not so again."""
    conversation = two_topics(open_thread)
    name = ids(conversation)[0]
    conversation.pins.add(name)
    with pytest.raises(ConflictError, match="pinned already"):
        conversation.pins.add(name)
    conversation.forget("topic-1")
    for target in ("topic-1", name):
        with pytest.raises(ConflictError, match="forgotten already"):
            conversation.forget(target)


def test_pins_are_bounded(open_thread: Opening) -> None:
    """One pin too many is refused, with the limit."""
    conversation = open_thread()
    conversation.add([(role, f"{role} {n}") for n in range(PINS) for role in ("user", "assistant")])
    names = ids(conversation)
    for name in names[:PINS]:
        conversation.pins.add(name)

    with pytest.raises(ConflictError, match=str(PINS)):
        conversation.pins.add(names[PINS])


@pytest.mark.full
def test_what_is_forgotten_is_bounded(open_thread: Opening) -> None:
    """One thing or one message too many is refused, with the limit; a whole topic is one thing."""
    conversation = open_thread()
    half = FORGOTTEN_MESSAGES // 2
    conversation.add(
        [(role, f"{role} {n}") for n in range(half + 1) for role in ("user", "assistant")]
    )
    conversation.say("now")
    names = ids(conversation)
    with pytest.raises(ConflictError, match=str(FORGOTTEN_MESSAGES)):
        conversation.forget(names[0], names[FORGOTTEN_MESSAGES])
    for name in names[:FORGOTTEN]:
        conversation.forget(name)
    with pytest.raises(ConflictError, match=str(FORGOTTEN)):
        conversation.forget(names[FORGOTTEN])


ACTS = st.tuples(
    st.sampled_from(("message", "span", "topic", "undo", "redo", "restore", "pin", "unpin")),
    st.integers(0, 7),
)


@settings(max_examples=min(20, settings().max_examples))
@given(st.lists(ACTS, min_size=1, max_size=6))
def test_whatever_was_forgotten_can_be_restored(acts: list[tuple[str, int]]) -> None:
    """After forgetting, pinning, restoring and unpinning, the context is as before."""
    with Conversation.open(
        ":memory:", model=Numbered(), judge=scores(), detector=Listener()
    ) as conversation:
        for text in ("apples one", "apples two", "NEW pears", "pears two"):
            conversation.say(text)
        transcript = conversation.messages()
        before = probe(conversation)
        for act in acts:
            with suppress(ConflictError, NotFoundError):
                _do(conversation, *act)
            assert transcript == conversation.messages()
        for entry in conversation.forgotten():
            conversation.restore(entry["id"])
        for pin in conversation.pins.list():
            conversation.pins.remove(pin["message_id"])
        assert before == probe(conversation)
        assert transcript == replayed(conversation).messages


def _do(conversation: Conversation, act: str, position: int) -> None:
    """One thing that changes views alone."""
    names = ids(conversation)
    entries = conversation.forgotten()
    steps = {"undo": undo_steps(conversation), "redo": redo_steps(conversation)}.get(act)
    if steps is not None and (not steps or steps[-1]["kind"] != "forget"):
        return
    if act == "span":
        conversation.forget(*sorted((names[position], names[-1]), key=names.index))
    elif act == "restore":
        for entry in entries[:1]:
            conversation.restore(entry["id"])
    else:
        {
            "message": lambda: conversation.forget(names[position]),
            "topic": lambda: conversation.forget(f"topic-{1 + position % 2}"),
            "undo": conversation.undo,
            "redo": conversation.redo,
            "pin": lambda: conversation.pins.add(names[position]),
            "unpin": lambda: conversation.pins.remove(names[position]),
        }[act]()


@pytest.mark.parametrize("language", ["en", "ja"])
def test_commands(open_thread: Opening, language: str) -> None:
    """A typed command is answered by a notice, and the model never sees it."""
    conversation = three(open_thread, settings={"language": language})
    model: Any = model_of(conversation)
    question = len(model.inputs)
    annotation = {"en": "[pinned]", "ja": "[ピン留め]"}[language]

    assert "q1" in conversation.say("/pin 1").text
    assert annotation in conversation.say("/timeline").text.splitlines()[0]
    assert "q1" in conversation.say("/unpin 1").text
    assert "q1 / q2" in conversation.say("/forget 1-2").text
    (entry,) = conversation.forgotten()
    assert entry["id"] in conversation.say("/forgotten").text
    assert ["span", 4, "/forget 1-2"] == [
        entry["kind"],
        len(entry["message_ids"]),
        entry["reason"],
    ]
    assert question == len(model.inputs)
    assert "q1" not in request_text(conversation)
    conversation.say("/undo")
    assert () == conversation.forgotten()
    conversation.say("/redo")
    assert (entry,) == conversation.forgotten()
    assert conversation.messages() == replayed(conversation).messages


def test_a_topic_is_forgotten_by_its_words(open_thread: Opening) -> None:
    """`/forget` matches a part of a topic's label in any case."""
    conversation = two_topics(open_thread)
    (label, _) = [topic.label for topic in conversation.timeline().topics]
    conversation.say(f"/forget {label.upper()}")

    assert ["topic-1"] == [entry.get("topic_id") for entry in conversation.forgotten()]


@pytest.mark.parametrize(
    "order", ["/forget 9", "/forget nowhere", "/pin 0", "/unpin 2", "/forget 3-2"]
)
def test_orders_that_lead_nowhere(open_thread: Opening, order: str) -> None:
    """An order that cannot be carried out says why and changes nothing."""
    conversation = three(open_thread)

    assert conversation.say(order).text.endswith(". Nothing was changed.")
    assert ((), ()) == (conversation.pins.list(), conversation.forgotten())
    assert {"pin", "unpin", "forget"}.isdisjoint(
        event["type"] for event in registry_of(conversation).events()
    )


def test_a_topic_that_a_rollback_removed_cannot_be_forgotten(open_thread: Opening) -> None:
    """It is refused like one that does not exist: nothing of it waits for an answer."""
    conversation = open_thread(detector=SHIFTS)
    conversation.say("NEW gardens")
    conversation.say("NEW weather")
    topic = conversation.timeline().topics[-1].label
    conversation.rollback(turns=1)
    assert conversation.say(f"/forget {topic}").text.startswith("No message or topic")


def test_commands_about_offloaded_turns(open_thread: Opening) -> None:
    """The numbers are those of the timeline, for offloaded turns as well."""
    conversation = open_thread(detector=SHIFTS, settings=WINDOW)
    for number in range(6):
        conversation.say(f"NEW subject {number}")
    assert offloaded_turns(conversation) > 1

    assert "subject 1" in conversation.say("/pin 2").text
    assert "subject 0" in conversation.say("/forget 1").text
    assert [True, False] == [turn.forgotten for turn in conversation.timeline().turns[:2]]
    conversation.say("NEW subject 6")
    assert "subject 1" in request_text(conversation, "NEW subject 7")


def test_async(tmp_path: Path) -> None:
    """The async form does the same."""

    async def main() -> list[AnyMessage]:
        model = Numbered()
        async with AsyncConversation.open(
            tmp_path / "a.db", thread="a", model=model, judge=scores()
        ) as conversation:
            for number in (1, 2):
                await conversation.say(f"q{number}")
            transcript = await conversation.messages()
            assert 2 == len(await conversation.pins.add())
            assert 1 == len(await conversation.pins.remove(transcript[2].id))
            assert (await conversation.pins.list())[0]["message_id"] == transcript[3].id
            entry = await conversation.forget(turns=1)
            assert (entry,) == await conversation.forgotten()
            assert [] == (await conversation.forget(tool_results_below=0.3))["message_ids"]
            await conversation.say("q3")
            assert "q1" not in model.texts()
            await conversation.restore(entry["id"])
            assert () == await conversation.forgotten()
            return transcript

    assert 2 == sum(map(is_answer, asyncio.run(main())))


def test_purge_takes_all_of_it(tmp_path: Path) -> None:
    """A purged thread has neither pins nor anything forgotten, and no byte of its words is left."""
    path = tmp_path / "p.db"
    with Conversation.open(path, thread="p", model=Numbered(), judge=scores()) as conversation:
        conversation.say("A secret question?")
        conversation.pins.add()
        conversation.forget(turns=1, reason="my secret reason")
        registry_of(conversation).purge()
        assert {} == state_of(conversation)
    text = b"".join(path.read_bytes() for path in tmp_path.iterdir())

    assert b"secret reason" not in text
