import asyncio
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from tests.graph.back_kit import SHIFTS, Opening, entry, state, three
from tests.graph.kit import Numbered, scores
from unsay.conversation.conversation import AsyncConversation, Conversation
from unsay.errors import (
    ConflictError,
    InputError,
    NotFoundError,
    UnknownBranchError,
    UnknownTurnError,
)
from unsay.events.transcript_replay import replay
from unsay.messages.annotations import is_answer
from unsay.messages.content import text_of
from unsay.operations.forget import FORGOTTEN, FORGOTTEN_MESSAGES
from unsay.operations.pin import PINS
from unsay.testing import ScriptedChat, ToolCalls
from unsay.topic_shift import TopicMemory, TopicShift

WINDOW = {"live_messages": 4}


class Listener:
    """A detector that looks for a word, and records its input."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def detect(
        self, question: str, current: TopicMemory, others: Sequence[TopicMemory]
    ) -> TopicShift:
        """NEW begins a topic, BACK returns to the one left last."""
        self.told += [words for each in (current, *others) for words in each.texts]
        if "BACK" in question and others:
            return TopicShift(kind="back", similarity=0.9, topic_id=others[0].topic_id)
        return TopicShift(kind="new" if "NEW" in question else "same", similarity=0.5)


def looks(*found: str) -> Any:
    """A tool that finds these, one after the other."""
    left = list(found)

    def look(word: str) -> str:
        """Look a word up."""
        return left.pop(0)

    return look


def caller() -> ScriptedChat:
    """A model that looks a word up in each turn."""
    look: Any = {"name": "look", "args": {"word": "x"}}
    return ScriptedChat(default=ToolCalls(calls=[look], then="What was found is: {result}."))


def ids(talk: Conversation) -> list[str]:
    """Of the transcript's messages."""
    return [message.id or "" for message in talk.messages()]


def probe(talk: Conversation, question: str = "And now?") -> list[tuple[str, str]]:
    """What the model is sent for a question; the question is gone afterwards."""
    model: Any = talk._handle.services.model_like
    talk.say(question)
    talk.undo()
    return [(m.type, text_of(m)) for m in model.inputs[-1]]


def sent(talk: Conversation, question: str = "And now?") -> str:
    """What the model is sent for a question, as one text."""
    return "\n".join(words for _, words in probe(talk, question))


def test_a_message_is_forgotten_and_restored(opened: Opening) -> None:
    """Views leave it out, the transcript keeps it, and restored it is where it was."""
    talk = three(opened)
    before, transcript = probe(talk), talk.messages()
    entry = talk.forget(ids(talk)[2], reason="wrong")

    assert (entry,) == talk.forgotten()
    assert ("message", [ids(talk)[2]], "wrong") == (
        entry["kind"],
        entry["message_ids"],
        entry["reason"],
    )
    assert "q2" not in sent(talk)
    assert "draft 2" in sent(talk)
    assert 1 == talk.restore(entry["id"]).restored
    assert () == talk.forgotten()
    assert before == probe(talk)
    assert transcript == talk.messages()
    assert transcript == replay(talk.events()).messages


def test_undo_and_redo_of_forgetting(opened: Opening) -> None:
    """Forgetting is a step: undo reverts it and redo repeats it, any number of times."""
    talk = three(opened)
    before = probe(talk)
    (entry,) = (talk.forget(turns=2),)
    after = state(talk)["operations"]

    assert 3 == talk.undo().turns
    assert () == talk.forgotten()
    talk.redo()
    assert (entry,) == talk.forgotten()
    assert after == state(talk)["operations"]
    assert ["q1", "q3"] == [words for kind, words in probe(talk) if kind == "human"][:2]
    talk.undo()
    assert before == probe(talk)
    assert 2 == talk.undo().turns


def test_undo_of_a_restore(opened: Opening) -> None:
    """What was restored is forgotten again when that is undone."""
    talk = three(opened)
    entry = talk.forget(turns="1-2")
    talk.restore(entry["id"])
    talk.undo()

    assert (entry,) == talk.forgotten()


def test_one_message_of_a_span_is_restored(opened: Opening) -> None:
    """Restoring a message of a span leaves the others forgotten; undo forgets it again."""
    talk = three(opened)
    names = ids(talk)
    entry = talk.forget(names[0], names[3])
    assert names[:4] == entry["message_ids"]
    assert 1 == talk.restore(names[2]).restored

    assert [names[0], names[1], names[3]] == talk.forgotten()[0]["message_ids"]
    assert "q2" in sent(talk)
    assert "q1" not in sent(talk)
    talk.undo()
    assert (entry,) == talk.forgotten()


def test_tool_calls_and_results_go_together(opened: Opening) -> None:
    """Who forgets a result forgets its call; the answer stays."""
    model = caller()
    talk = opened(model, tools=[looks("Alpha", "Beta", "Gamma")])
    talk.say("q1")
    result = next(m for m in talk.messages() if isinstance(m, ToolMessage))
    entry = talk.forget(result.id or "")

    assert 2 == len(entry["message_ids"])
    talk.say("q2")
    view = model.calls[2]
    assert ["human", "ai", "human"] == [m.type for m in view]
    assert [] == [m for m in view if isinstance(m, ToolMessage)]


@pytest.mark.parametrize(
    ("below", "gone"), [(0.1, ""), (0.3, "Beta"), (1.0, "Alpha Beta")], ids=str
)
def test_results_that_bear_on_no_question(opened: Opening, below: float, gone: str) -> None:
    """Results under a score are shown as cleared, their calls stay, and undo shows them again."""
    model = caller()
    talk = opened(
        model, tools=[looks("Alpha is large", "Beta", "Gamma")], settings={"judging": "off"}
    )
    talk.say("How large is alpha, and who discovered it?")
    talk.say("Tell me more.")
    transcript = talk.messages()
    entry = talk.forget_tool_results(below)
    talk.say("Go on.")

    shown = [text_of(m) for m in model.calls[-2] if isinstance(m, ToolMessage)]
    assert 2 == len(shown)
    for word in ("Alpha", "Beta"):
        assert (word not in gone) == any(word in each for each in shown)
    assert transcript == talk.messages()[: len(transcript)]
    assert len(gone.split()) == (0 if entry is None else len(entry["message_ids"]))


def test_the_judge_weighs_results(opened: Opening) -> None:
    """With a model for a judge it is asked about each result; one that fails forgets nothing."""
    model = caller()
    judge = scores(0.9, 0.9, 0.1, RuntimeError("down"))
    talk = opened(model, judge, tools=[looks("Alpha", "Beta")])
    talk.say("q1")
    talk.say("q2")
    entry = talk.forget_tool_results(0.5)

    results = [m.id for m in talk.messages() if isinstance(m, ToolMessage)]
    assert entry is not None
    assert results[:1] == entry["message_ids"]


def test_pinned_results_are_kept(opened: Opening) -> None:
    """A result that a pin holds is not forgotten."""
    talk = opened(caller(), tools=[looks("Alpha")], settings={"judging": "off"})
    talk.say("q1")
    talk.pin()

    assert talk.forget_tool_results(1.0) is None


def topics(opened: Opening, **options: Any) -> Conversation:
    """A conversation of two topics, the second under way."""
    talk = opened(detector=Listener(), **options)
    for words in ("apples one", "apples two", "NEW pears", "pears two"):
        talk.say(words)
    return talk


def test_a_topic_is_forgotten(opened: Opening) -> None:
    """Neither its words nor its summary reach the model or the detector, until it is restored."""
    talk = topics(opened)
    before = probe(talk)
    assert any("apples" in words for _, words in before)
    entry = talk.forget("topic-1")

    detector: Any = talk._handle.services.detector
    detector.told.clear()
    assert "apples" not in sent(talk)
    assert not [words for words in detector.told if "apples" in words]
    assert [True, False] == [each.forgotten for each in talk.timeline().topics]
    talk.restore("topic-1")
    assert before == probe(talk)
    assert entry["id"] not in {each["id"] for each in talk.forgotten()}


def test_the_topic_under_way_is_forgotten(opened: Opening) -> None:
    """Later messages begin a new topic, which is shown."""
    talk = topics(opened)
    talk.forget("topic-2")
    talk.say("more of it")
    talk.say("and more")

    assert "pears" not in sent(talk)
    assert "more of it" in sent(talk)
    assert 3 == len(talk.timeline().topics)


def test_nobody_returns_to_a_forgotten_topic(opened: Opening) -> None:
    """Who comes back to its subject begins a new topic."""
    talk = topics(opened)
    talk.forget("topic-1")
    talk.say("BACK to apples")

    assert "apples one" not in sent(talk)
    assert "BACK to apples" in sent(talk)


def test_summaries_are_made_anew(opened: Opening) -> None:
    """A summary that told of a message tells nothing of it, and again when it is restored."""
    talk = topics(opened)
    talk.forget(ids(talk)[0])

    assert "apples one" not in sent(talk)
    assert "apples two" in sent(talk)
    talk.undo()
    assert "apples one" in sent(talk)


def test_the_first_message_of_a_topic(opened: Opening) -> None:
    """Where it is forgotten, the topic's other words are its own as before."""
    talk = topics(opened)
    talk.forget(ids(talk)[4])
    seen = sent(talk)

    assert "NEW pears" not in seen
    assert "pears two" in seen
    assert 1 == seen.count("draft 1")  # in the summary of the other topic


def test_folds_tell_nothing_of_what_is_forgotten(opened: Opening) -> None:
    """A summary of older messages that mentioned one is made again without it."""
    settings = {
        "topics": "off",
        "context_window_tokens": 1_000,
        "recents": 2,
        "primers": 0,
        "recall_tokens": 0,
    }
    talk = opened(settings=settings)
    for number in range(12):
        talk.say(f"question {number} " + "on and on " * 30)
    assert state(talk)["compaction"]["spans"]
    assert "question 1 " in sent(talk)
    talk.forget(ids(talk)[2])

    assert "question 1 " not in sent(talk)


def test_recall_does_not_find_what_is_forgotten(opened: Opening) -> None:
    """What no view shows is not recalled either, live or offloaded."""
    talk = opened(detector=SHIFTS, settings=WINDOW)
    talk.say("The zanzibar treaty of 1890?")
    first = ids(talk)[0]
    for number in range(5):
        talk.say(f"NEW subject {number}")
    talk.forget(first)
    talk.say("NEW Which treaty of zanzibar?")
    model: Any = talk._handle.services.model_like
    view = "\n".join(text_of(m) for m in model.inputs[-1])

    assert "1890" not in view


def test_sealed_words_of_a_forgotten_topic_are_not_recalled(opened: Opening) -> None:
    """A topic that was offloaded and is forgotten is not recalled."""
    talk = opened(detector=SHIFTS, settings=WINDOW)
    talk.say("The zanzibar treaty of 1890?")
    for number in range(6):
        talk.say(f"NEW subject {number}")
    assert state(talk)["offloaded"]["messages"] > 2
    talk.forget("topic-1")
    talk.say("NEW Which treaty of zanzibar?")
    model: Any = talk._handle.services.model_like

    assert "1890" not in "\n".join(text_of(m) for m in model.inputs[-1])


def test_no_judge_reads_what_is_forgotten(opened: Opening) -> None:
    """Not as an earlier exchange of answers that an app put in, nor as such an answer itself."""
    read: list[str] = []

    def judge(request: Sequence[AnyMessage]) -> float:
        read.append("\n".join(text_of(each) for each in request))
        return 0.9

    talk = opened(judge=judge)
    talk.say("Where is the SECRET kept?")
    talk.forget(talk.messages()[0].id or "")
    talk.add([HumanMessage("And the house?", id="q"), AIMessage("It is red, with doors.", id="a")])
    talk.add([HumanMessage("And the car?", id="q2"), AIMessage("It is HIDDEN in a barn.", id="a2")])
    talk.forget("a2")
    read.clear()
    talk.say("How many doors are there?")

    assert any("It is red, with doors." in each for each in read)
    assert [] == [each for each in read if "SECRET" in each or "HIDDEN" in each]


def test_no_title_is_made_of_a_forgotten_question(opened: Opening) -> None:
    """The first one that is left gives the thread its name."""
    talk = opened()
    talk.graph.invoke(
        {"messages": [HumanMessage("The SECRET place?", id="q")]}, talk._handle.config
    )
    talk.forget("q")
    talk.say("What is a garden?")

    assert "What is a garden?" == entry(talk).title


def test_a_sealed_message_is_forgotten_and_restored(opened: Opening) -> None:
    """An offloaded message is rolled back, forgotten, offloaded again, and restored."""
    talk = opened(detector=Listener(), settings=WINDOW)
    for number in range(6):
        talk.say(f"{'NEW ' if number % 2 == 0 else ''}subject {number}")
    transcript = talk.messages()
    assert state(talk)["offloaded"]["messages"] > 2
    entry = talk.forget(transcript[0].id or "")
    for number in range(6, 10):
        talk.say(f"{'NEW ' if number % 2 == 0 else ''}subject {number}")
    assert transcript[0].id not in {m.id for m in state(talk)["messages"]}

    assert "subject 0" not in sent(talk)
    assert transcript == talk.messages()[: len(transcript)]
    talk.restore(entry["id"])
    assert () == talk.forgotten()
    assert transcript == talk.messages()[: len(transcript)]


def test_a_pin_holds_through_topics_and_sealing(opened: Opening) -> None:
    """A pinned message is in every view, wherever it lies; unpinned it is not."""
    talk = opened(detector=Listener(), settings={**WINDOW, "recall_tokens": 0})
    talk.say("The answer is 42, remember?")
    name = ids(talk)[0]
    talk.pin(name)
    for number in range(8):
        talk.say(f"{'NEW ' if number % 2 == 0 else ''}subject {number}")
        model: Any = talk._handle.services.model_like
        assert "The answer is 42" in "\n".join(text_of(m) for m in model.inputs[-1])
    (pin,) = talk.pins()
    assert "page" in pin
    talk.rollback(turns=9)
    assert ({"message_id": name},) == talk.pins()
    talk.undo()
    assert "The answer is 42" in sent(talk, "NEW and now?")
    talk.unpin(name)
    assert 1 >= sent(talk).count("The answer is 42")
    assert () == talk.pins()


def test_a_pin_on_what_is_sealed_already(opened: Opening) -> None:
    """A pin on an offloaded message brings it back with its call."""
    model = caller()
    settings = {**WINDOW, "recall_tokens": 0}
    talk = opened(
        model,
        tools=[looks(*(f"found {n}" for n in range(9)))],
        detector=Listener(),
        settings=settings,
    )
    for number in range(6):
        talk.say(f"NEW subject {number}")
    result = next(m for m in talk.messages() if isinstance(m, ToolMessage))
    before = state(talk)["messages"]
    assert result.id not in {m.id for m in before}
    (pin,) = talk.pin(result.id)
    assert before == state(talk)["messages"]
    assert "page" in pin
    talk.say("NEW and now?")

    view = model.calls[-2]
    assert ["found 0"] == [text_of(m) for m in view if isinstance(m, ToolMessage)]
    calls = [m for m in view if isinstance(m, AIMessage) and m.tool_calls]
    assert result.tool_call_id == calls[0].tool_calls[0]["id"]


def test_a_pin_goes_quiet_and_returns(opened: Opening) -> None:
    """A rollback takes the pinned message away; when it returns, so does the pin."""
    talk = topics(opened)
    name = ids(talk)[2]
    talk.pin(name)
    talk.rollback(turns=3)
    assert "apples two" not in sent(talk)
    talk.undo()

    assert "apples two" in sent(talk, "NEW plums")
    assert ({"message_id": name},) == talk.pins()


def test_forgetting_takes_the_pin_off(opened: Opening) -> None:
    """Who forgets a pinned message unpins it; undo sets the pin again."""
    talk = three(opened)
    name = ids(talk)[0]
    pins = talk.pin(name)
    talk.forget(name)

    assert () == talk.pins()
    with pytest.raises(ConflictError, match="restore it first"):
        talk.pin(name)
    talk.undo()
    assert pins == talk.pins()


def test_a_turn_is_pinned_by_its_number(opened: Opening) -> None:
    """The question and the answer of a turn are pinned, by default of the newest."""
    talk = three(opened)
    names = ids(talk)

    assert names[4:] == [each["message_id"] for each in talk.pin()]
    assert [*names[4:], *names[:2]] == [each["message_id"] for each in talk.pin(turn=1)]
    assert names[:2] == [each["message_id"] for each in talk.unpin()]
    assert [True, False, False] == [turn.pinned for turn in talk.timeline().turns]


def test_a_turn_with_tools_is_pinned_once_for_each_step(opened: Opening) -> None:
    """The pin on a tool call stands for the call and its results."""
    talk = opened(caller(), tools=[looks("a pier")])
    talk.say("Where?")
    question, call, result, answer = ids(talk)

    assert [question, call, answer] == [each["message_id"] for each in talk.pin(turn=1)]
    assert result not in {each["message_id"] for each in talk.pins()}


def test_commands_and_notices_cannot_be_pinned(opened: Opening) -> None:
    """No model is shown them, so a pin would have no effect."""
    talk = three(opened)
    talk.graph.invoke({"messages": [("user", "/help")]}, talk._handle.config)
    for message_id in ids(talk)[-2:]:
        with pytest.raises(InputError, match=message_id):
            talk.pin(message_id)

    assert () == talk.pins()


def test_a_fork_has_the_pins_and_what_is_forgotten(opened: Opening) -> None:
    """A fork begins with the same views."""
    talk = three(opened)
    talk.pin()
    talk.forget(turns=1)
    other = talk.fork()

    assert talk.pins() == other.pins()
    assert talk.forgotten() == other.forgotten()
    assert probe(talk) == probe(other)


def test_a_forgotten_question_that_is_asked_again(opened: Opening) -> None:
    """The question that waits is never left out, also when it was forgotten and is retried."""
    talk = three(opened)
    talk.forget(turns=3)
    talk.retry()
    model: Any = talk._handle.services.model_like

    assert "q3" in text_of(model.inputs[-1][-1])


@pytest.mark.parametrize(
    ("act", "error", "words"),
    [
        pytest.param(lambda t: t.forget("nothing"), UnknownBranchError, "nothing", id="unknown"),
        pytest.param(lambda t: t.forget("a", "b"), UnknownBranchError, "'a'", id="no span"),
        pytest.param(lambda t: t.forget(turns=9), UnknownTurnError, "turns 1 to 3", id="no turn"),
        pytest.param(lambda t: t.forget(turns="2-1"), InputError, "2-1", id="no range"),
        pytest.param(lambda t: t.forget(), InputError, "exactly one of the two", id="nothing said"),
        pytest.param(
            lambda t: t.forget("a", turns=1), InputError, "exactly one of the two", id="both"
        ),
        pytest.param(lambda t: t.forget_tool_results(2), InputError, "2", id="no score"),
        pytest.param(lambda t: t.pin("nothing"), UnknownBranchError, "nothing", id="no message"),
        pytest.param(lambda t: t.unpin("nothing"), UnknownBranchError, "nothing", id="no pin"),
        pytest.param(lambda t: t.restore("forgot-x"), UnknownBranchError, "forgot-x", id="restore"),
    ],
)
def test_what_cannot_be(opened: Opening, act: Any, error: type[Exception], words: str) -> None:
    """An order that names nothing says so and changes nothing."""
    talk = three(opened)
    before = state(talk)
    with pytest.raises(error, match=words):
        act(talk)

    assert before == state(talk)


def test_the_waiting_question_is_not_forgotten(opened: Opening) -> None:
    """A question without an answer can be undone, not forgotten."""
    talk = three(opened)
    talk.add([("user", "waiting?")])
    with pytest.raises(InputError, match="waits for its answer"):
        talk.forget(ids(talk)[-1])


def test_twice(opened: Opening) -> None:
    """What is forgotten or pinned is not so again."""
    talk = topics(opened)
    name = ids(talk)[0]
    talk.pin(name)
    with pytest.raises(ConflictError, match="pinned already"):
        talk.pin(name)
    talk.forget("topic-1")
    for what in ("topic-1", name):
        with pytest.raises(ConflictError, match="forgotten already"):
            talk.forget(what)


def test_pins_are_bounded(opened: Opening) -> None:
    """One pin too many is refused, with the limit."""
    talk = opened()
    talk.add([(role, f"{role} {n}") for n in range(PINS) for role in ("user", "assistant")])
    names = ids(talk)
    for name in names[:PINS]:
        talk.pin(name)

    with pytest.raises(ConflictError, match=str(PINS)):
        talk.pin(names[PINS])


@pytest.mark.full
def test_what_is_forgotten_is_bounded(opened: Opening) -> None:
    """One thing or one message too many is refused, with the limit; a whole topic is one thing."""
    talk = opened()
    half = FORGOTTEN_MESSAGES // 2
    talk.add([(role, f"{role} {n}") for n in range(half + 1) for role in ("user", "assistant")])
    talk.say("now")
    names = ids(talk)
    with pytest.raises(ConflictError, match=str(FORGOTTEN_MESSAGES)):
        talk.forget(names[0], names[FORGOTTEN_MESSAGES])
    for name in names[:FORGOTTEN]:
        talk.forget(name)
    with pytest.raises(ConflictError, match=str(FORGOTTEN)):
        talk.forget(names[FORGOTTEN])


ACTS = st.tuples(
    st.sampled_from(("message", "span", "topic", "undo", "redo", "restore", "pin", "unpin")),
    st.integers(0, 7),
)


@settings(max_examples=20)
@given(st.lists(ACTS, min_size=1, max_size=6))
def test_whatever_was_forgotten_can_be_restored(acts: list[tuple[str, int]]) -> None:
    """After forgetting, pinning, restoring and unpinning, the context is as before."""
    with Conversation.open(
        ":memory:", model=Numbered(), judge=scores(), detector=Listener()
    ) as talk:
        for words in ("apples one", "apples two", "NEW pears", "pears two"):
            talk.say(words)
        transcript, before = talk.messages(), probe(talk)
        for act in acts:
            with suppress(ConflictError, NotFoundError):
                _do(talk, *act)
            assert transcript == talk.messages()
        for entry in talk.forgotten():
            talk.restore(entry["id"])
        for pin in talk.pins():
            talk.unpin(pin["message_id"])
        assert before == probe(talk)
        assert transcript == replay(talk.events()).messages


def _do(talk: Conversation, act: str, place: int) -> None:
    """One thing that changes views alone."""
    names, entries = ids(talk), talk.forgotten()
    steps = {"undo": state(talk)["operations"], "redo": state(talk)["redo"]}.get(act)
    if steps is not None and (not steps or steps[-1]["kind"] != "forget"):
        return
    if act == "span":
        talk.forget(*sorted((names[place], names[-1]), key=names.index))
    elif act == "restore":
        for entry in entries[:1]:
            talk.restore(entry["id"])
    else:
        {
            "message": lambda: talk.forget(names[place]),
            "topic": lambda: talk.forget(f"topic-{1 + place % 2}"),
            "undo": talk.undo,
            "redo": talk.redo,
            "pin": lambda: talk.pin(names[place]),
            "unpin": lambda: talk.unpin(names[place]),
        }[act]()


@pytest.mark.parametrize("language", ["en", "ja"])
def test_commands(opened: Opening, language: str) -> None:
    """A typed command is answered by a notice, and the model never sees it."""
    talk = three(opened, settings={"language": language})
    model: Any = talk._handle.services.model_like
    asked = len(model.inputs)
    annotation = {"en": "[pinned]", "ja": "[ピン留め]"}[language]

    assert "q1" in talk.say("/pin 1").text
    assert annotation in talk.say("/timeline").text.splitlines()[0]
    assert "q1" in talk.say("/unpin 1").text
    assert "q1 / q2" in talk.say("/forget 1-2").text
    (entry,) = talk.forgotten()
    assert entry["id"] in talk.say("/forgotten").text
    assert ["span", 4, "/forget 1-2"] == [
        entry["kind"],
        len(entry["message_ids"]),
        entry["reason"],
    ]
    assert asked == len(model.inputs)
    assert "q1" not in sent(talk)
    talk.say("/undo")
    assert () == talk.forgotten()
    talk.say("/redo")
    assert (entry,) == talk.forgotten()
    assert talk.messages() == replay(talk.events()).messages


def test_a_topic_is_forgotten_by_its_words(opened: Opening) -> None:
    """`/forget` matches a part of a topic's label in any case."""
    talk = topics(opened)
    (label, _) = [each.label for each in talk.timeline().topics]
    talk.say(f"/forget {label.upper()}")

    assert ["topic-1"] == [each.get("topic_id") for each in talk.forgotten()]


@pytest.mark.parametrize(
    "order", ["/forget 9", "/forget nowhere", "/pin 0", "/unpin 2", "/forget 3-2"]
)
def test_orders_that_lead_nowhere(opened: Opening, order: str) -> None:
    """An order that cannot be carried out says why and changes nothing."""
    talk = three(opened)

    assert talk.say(order).text.startswith("Nothing was changed")
    assert ((), ()) == (talk.pins(), talk.forgotten())
    assert {"pin", "unpin", "forget"}.isdisjoint(each["type"] for each in talk.events())


def test_orders_about_sealed_turns(opened: Opening) -> None:
    """The numbers are those of the timeline, for offloaded turns as well."""
    talk = opened(detector=SHIFTS, settings=WINDOW)
    for number in range(6):
        talk.say(f"NEW subject {number}")
    assert state(talk)["offloaded"]["turns"] > 1

    assert "subject 1" in talk.say("/pin 2").text
    assert "subject 0" in talk.say("/forget 1").text
    assert [True, False] == [turn.forgotten for turn in talk.timeline().turns[:2]]
    talk.say("NEW subject 6")
    assert "subject 1" in sent(talk, "NEW subject 7")


def test_async(tmp_path: Path) -> None:
    """The async form does the same."""

    async def main() -> list[AnyMessage]:
        model = Numbered()
        async with AsyncConversation.open(
            tmp_path / "a.db", thread="a", model=model, judge=scores()
        ) as talk:
            for number in (1, 2):
                await talk.say(f"q{number}")
            transcript = await talk.messages()
            assert 2 == len(await talk.pin())
            assert 1 == len(await talk.unpin(transcript[2].id))
            assert (await talk.pins())[0]["message_id"] == transcript[3].id
            entry = await talk.forget(turns=1)
            assert (entry,) == await talk.forgotten()
            assert await talk.forget_tool_results() is None
            await talk.say("q3")
            assert "q1" not in model.texts()
            await talk.restore(entry["id"])
            assert () == await talk.forgotten()
            return transcript

    assert 2 == sum(map(is_answer, asyncio.run(main())))


def test_purge_takes_all_of_it(tmp_path: Path) -> None:
    """A purged thread has neither pins nor anything forgotten, and no byte of its words is left."""
    path = tmp_path / "p.db"
    with Conversation.open(path, thread="p", model=Numbered(), judge=scores()) as talk:
        talk.say("A secret question?")
        talk.pin()
        talk.forget(turns=1, reason="my secret reason")
        talk.purge()
        assert {} == state(talk)
    left = b"".join(each.read_bytes() for each in tmp_path.iterdir())

    assert b"secret reason" not in left
