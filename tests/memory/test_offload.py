"""The live window: what the state lets go of, and how it takes it back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore

from tests.transcripts import valid_transcripts
from unsay.context.topics import by_topic
from unsay.effects import drive
from unsay.history.checkpoints import make_checkpoint
from unsay.judging.topic_detector import LexicalDetector
from unsay.memory.offload import (
    FIRST_MESSAGES,
    PAGE_MESSAGES,
    drop_offloaded,
    load_all,
    load_opened,
    load_segments,
    offload,
    without_page_refs,
)
from unsay.memory.topics import start_segment
from unsay.messages.annotations import annotate, is_answer
from unsay.messages.boundaries import tail_places
from unsay.moves.reconcile import load_resent
from unsay.runtime import Scope, Services, StepLog
from unsay.settings.settings import load_settings
from unsay.state import EventLogHead, State, Update, merge_messages, offloaded_of, with_update
from unsay.storage.segments import OffloadedSegment as Page
from unsay.storage.segments import read_back
from unsay.transcript.live import count_turns, live_branch
from unsay.transcript.record import EMPTY, write_ahead
from unsay.types import ExpandedTopic, Offloaded, Segment, Topic

NOW = "2026-01-01T12:00:00+00:00"
THREAD = "t"


def scope(store: BaseStore | None = None, **settings: Any) -> Scope:
    """A run with a window of four messages and local summaries."""
    services = Services(
        settings=load_settings({"live_messages": 4, **settings}),
        model_like=None,
        judge_like=None,
        summarizer_like=None,
        title_like=None,
        detector=LexicalDetector(),
        clock=lambda: datetime(2026, 1, 1, tzinfo=UTC),
    )
    return Scope(
        services=services,
        settings=services.settings,
        config={},
        store=store,
        thread_id=THREAD if store is not None else None,
        stream_writer=lambda _: None,
    )


def topic(number: int, **fields: Any) -> Topic:
    """A topic that was never left."""
    plain = Topic(id=f"topic-{number}", label=f"t{number}", summary=None, summarized_through=None)
    return {**plain, **fields}


def state_of_topics(*topics: int, turns: int = 1) -> State:
    """A transcript of N turns of each topic in turn, a checkpoint at each answer."""
    messages: list[AnyMessage] = []
    segments: list[Segment] = []
    for stretch, number in enumerate(topics):
        segments.append(Segment(topic_id=f"topic-{number}", start=f"q{stretch}.0"))
        for turn in range(turns):
            messages.append(HumanMessage(f"question {stretch}.{turn}", id=f"q{stretch}.{turn}"))
            messages.append(AIMessage(f"answer {stretch}.{turn}", id=f"a{stretch}.{turn}"))
    return _state(messages, segments, [topic(number) for number in dict.fromkeys(topics)])


def _state(
    messages: list[AnyMessage], segments: list[Segment], topics: list[Topic], **fields: Any
) -> State:
    messages = [annotate(m, outcome="passed") if is_answer(m) else m for m in messages]
    answers = [m for m in messages if is_answer(m)]
    marks = [
        make_checkpoint(
            message_id=answer.id or "",
            turn=number,
            score=0.9,
            topic="",
            reason="score",
            created_at=NOW,
        )
        for number, answer in enumerate(answers, 1)
    ]
    return State(
        messages=messages,
        segments=segments,
        topics=topics,
        checkpoints=marks,
        expanded=[],
        **fields,
    )


def with_question(state: State) -> State:
    """The state with the next question in the transcript."""
    question = HumanMessage("What else?", id="pending")
    return {**state, "messages": [*state["messages"], question]}


def offloaded_by(state: State, run: Scope) -> State:
    """The state once what is too much is offloaded."""
    step = replace(run, step_log=StepLog())
    return with_update(state, drive(write_ahead(state, step, drive(offload(state, step)))))


def visible_state(state: Mapping[str, Any]) -> dict[str, Any]:
    """What must be the same once everything offloaded is back."""
    keys = ("messages", "checkpoints", "topics", "expanded")
    messages_by_topic = by_topic(state["messages"], state["segments"])
    return {
        **{key: state.get(key, []) for key in keys},
        "said": messages_by_topic,
        "offloaded": offloaded_of(state),
    }


@dataclass(frozen=True, kw_only=True)
class PlanContext:
    """A long transcript, and a window for it."""

    state: State
    limit: int


@st.composite
def plan_contexts(draw: Any) -> PlanContext:
    """Records with tools, documents and notices, under topics that come, go and return."""
    messages = draw(valid_transcripts(min_turns=1, max_turns=6, notices=True, pending=True))
    turn_indexes = tail_places(messages)
    starts = [
        turn_indexes[0],
        *(turn_index for turn_index in turn_indexes[1:] if draw(st.booleans())),
    ]
    numbers = [draw(st.integers(1, 3)) for _ in starts]
    topic_starts = [
        (number, start)
        for index, (number, start) in enumerate(zip(numbers, starts, strict=True))
        if index == 0 or numbers[index - 1] != number
    ]
    segments = [Segment(topic_id=f"topic-{n}", start=messages[p].id or "") for n, p in topic_starts]
    topics = [
        _drawn_topic(draw, n, messages, segments) for n in sorted({n for n, _ in topic_starts})
    ]
    state = _state(messages, segments, topics)
    if draw(st.booleans()):
        expansion = ExpandedTopic(
            topic_id=draw(st.sampled_from(topics))["id"], at=segments[-1]["start"]
        )
        state["expanded"] = [expansion]
    return PlanContext(state=state, limit=draw(st.integers(4, 12)))


def _drawn_topic(
    draw: Any, number: int, messages: Sequence[AnyMessage], segments: Sequence[Segment]
) -> Topic:
    messages_of_topic = by_topic(messages, segments).get(f"topic-{number}", [])
    is_left = segments[-1]["topic_id"] != f"topic-{number}"
    if not is_left or not messages_of_topic or draw(st.booleans()):
        return topic(number)
    return topic(number, summary=f"summary {number}", summarized_through=messages_of_topic[-1].id)


@given(plan_contexts())
def test_what_was_offloaded_returns_as_it_was(ctx: PlanContext) -> None:
    """Messages, topics, checkpoints and what a person opened are as before, to the last field."""
    run = scope(InMemoryStore(), live_messages=ctx.limit)
    before = visible_state(ctx.state)
    offloaded_state = offloaded_by(ctx.state, run)
    assert before == visible_state(drive(load_all(offloaded_state, run)))
    assert before == visible_state(
        with_update(offloaded_state, drive(load_segments(offloaded_state, run, {None})))
    )


@given(plan_contexts(), st.data())
def test_any_place_can_be_reached(ctx: PlanContext, data: Any) -> None:
    """The state holds what is wanted then, and counts the same turns as before."""
    run = scope(InMemoryStore(), live_messages=ctx.limit)
    offloaded_state = offloaded_by(ctx.state, run)
    message_id = data.draw(st.sampled_from(ctx.state["messages"])).id
    loaded_state = with_update(
        offloaded_state, drive(load_segments(offloaded_state, run, {message_id}))
    )
    assert message_id in {m.id for m in loaded_state["messages"]}
    live = [m.id for m in loaded_state["messages"]]
    assert live == [m.id for m in ctx.state["messages"]][-len(live) :]
    offloaded_ids = {m.id for m in ctx.state["messages"]} - {*live}
    messages_by_topic = by_topic(ctx.state["messages"], ctx.state["segments"])
    away = {
        name
        for name, topic_messages in messages_by_topic.items()
        if offloaded_ids & {m.id for m in topic_messages}
    }
    assert away == {
        topic_entry["id"] for topic_entry in loaded_state["topics"] if "offloaded" in topic_entry
    }
    turns = count_turns(ctx.state["messages"])
    assert turns == count_turns(offloaded_state["messages"], offloaded_of(offloaded_state))
    assert turns == count_turns(loaded_state["messages"], offloaded_of(loaded_state))
    assert visible_state(ctx.state) == visible_state(drive(load_all(loaded_state, run)))


@given(plan_contexts())
def test_offloading_in_steps_is_reversed_at_once(ctx: PlanContext) -> None:
    """A transcript that is offloaded, continued and offloaded again comes back whole."""
    run = scope(InMemoryStore(), live_messages=ctx.limit)
    added_state = state_of_topics(9, 8, 9, turns=3)
    offloaded_state = offloaded_by(ctx.state, run)
    wide: State = {**ctx.state}
    for state in (offloaded_state, wide):
        state["messages"] = [*state["messages"], *added_state["messages"]]
        state["segments"] = [*state["segments"], *added_state["segments"]]
        state["topics"] = [*state["topics"], *added_state["topics"]]
    second_state = offloaded_by(offloaded_state, run)
    assert visible_state(wide) == visible_state(drive(load_all(second_state, run)))


@given(plan_contexts())
def test_pages_begin_at_the_users_words(ctx: PlanContext) -> None:
    """Messages of one turn stay together, on either side of every border."""
    run = scope(InMemoryStore(), live_messages=ctx.limit)
    offloaded_state = offloaded_by(ctx.state, run)
    pages = (
        drive(read_back(run.store, THREAD, offloaded_of(offloaded_state), None))
        if run.store
        else []
    )
    borders = [page.messages[-1].id for page in pages]
    ids = [m.id for m in ctx.state["messages"]]
    assert {ids.index(border) + 1 for border in borders} <= set(tail_places(ctx.state["messages"]))
    assert len(offloaded_state["messages"]) >= min(len(ids), ctx.limit // 2)


def pages_of(state: State, run: Scope) -> list[Page]:
    """All that is offloaded, the oldest page first."""
    assert run.store is not None
    return drive(read_back(run.store, run.thread_id or "", offloaded_of(state), None))[::-1]


@pytest.mark.parametrize(
    ("state", "settings"),
    [
        pytest.param(state_of_topics(1, 2, turns=1), {}, id="under the limit"),
        pytest.param(state_of_topics(1, 2, turns=4), {"topics": "off"}, id="no topics"),
        pytest.param(state_of_topics(1, turns=4), {}, id="the topic under way"),
        pytest.param(
            state_of_topics(1, 2, turns=30), {"live_messages": 60}, id="its window's half"
        ),
        pytest.param({**state_of_topics(1, 2, turns=8), "segments": []}, {}, id="no topic yet"),
    ],
)
def test_what_stays(state: State, settings: dict[str, Any]) -> None:
    """Nothing is offloaded that fits, that a context shows whole, or that has no summary."""
    run = scope(InMemoryStore(), **settings)
    current = {**state, "segments": state["segments"][:1]} if "live_messages" in settings else state
    assert Update() == drive(offload(current, run))


def test_nothing_is_offloaded_without_a_store() -> None:
    """Where nothing could hold the pages, the state holds the transcript."""
    assert Update() == drive(offload(state_of_topics(1, 2, 3, turns=5), scope(None)))


def test_the_oldest_compacted_part_is_offloaded() -> None:
    """Half a window stays, and the summary covers the rest."""
    run = scope(InMemoryStore(), live_messages=8)
    offloaded_state = offloaded_by(with_question(state_of_topics(1, 2, 3, turns=2)), run)
    assert ["q2.0", "a2.0", "q2.1", "a2.1", "pending"] == [
        m.id for m in offloaded_state["messages"]
    ]
    assert offloaded_state["offloaded"] == {
        **pages_of(offloaded_state, run)[-1].head,
        "messages": 8,
        "turns": 4,
    }
    summaries = {
        topic_entry["id"]: topic_entry.get("offloaded") for topic_entry in offloaded_state["topics"]
    }
    assert summaries["topic-3"] is None
    assert "question 0.0" in str(summaries["topic-1"])
    assert "question 1.1" in str(summaries["topic-2"])


@pytest.mark.parametrize(
    ("turns", "live_count"), [(3, 7), (4, 3)], ids=["one window", "two windows"]
)
def test_the_topic_under_way_stays_for_two_windows(turns: int, live_count: int) -> None:
    """Past that its oldest messages are offloaded as well, and summarized."""
    run = scope(InMemoryStore())
    offloaded_state = offloaded_by(with_question(state_of_topics(1, turns=turns)), run)
    assert live_count == len(offloaded_state["messages"])
    assert (live_count < 2 * turns) == ("offloaded" in offloaded_state["topics"][0])
    assert [] == offloaded_state["topics"][0].get("pages", [])


def test_what_waits_for_an_answer_stays() -> None:
    """Questions that came in together are answered together, however many they are."""
    state = state_of_topics(1, 2, turns=2)
    waiting = [HumanMessage(f"and {number}?", id=f"w{number}") for number in range(12)]
    state = {**state, "messages": [*state["messages"], *waiting]}
    offloaded_state = offloaded_by(state, scope(InMemoryStore()))
    assert offloaded_of(offloaded_state) is not None
    assert {m.id for m in waiting} <= {m.id for m in offloaded_state["messages"]}


def test_what_waits_for_a_verdict_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """The exchanges that this turn judges are in the transcript for it; older ones go unscored."""
    monkeypatch.setattr("unsay.memory.offload.MAX_ENTRIES", 5)
    state = state_of_topics(1, 2, 3, turns=2)
    brought: list[AnyMessage] = []
    for number in range(8):
        brought += [HumanMessage("old?", id=f"b{number}"), AIMessage("old.", id=f"c{number}")]
    state = with_question({**state, "messages": [*state["messages"], *brought]})
    offloaded_state = offloaded_by(state, scope(InMemoryStore()))
    assert ["b3", *(m.id for m in brought[7:]), "pending"] == [
        m.id for m in offloaded_state["messages"]
    ]


def test_a_long_transcript_is_offloaded_at_once() -> None:
    """One turn writes all pages, each of some messages, one behind the other."""
    run = scope(InMemoryStore())
    state = with_question(state_of_topics(*range(1, 11), turns=120))
    offloaded_state = offloaded_by(state, run)
    pages = pages_of(offloaded_state, run)
    assert 3 == len(offloaded_state["messages"])
    assert all(len(page.messages) <= PAGE_MESSAGES for page in pages)
    assert [None, *(page.head for page in pages[:-1])] == [page.before for page in pages]
    assert visible_state(state) == visible_state(drive(load_all(offloaded_state, run)))


def test_a_topic_of_many_segments_is_summarized_twice() -> None:
    """Its first and its last segment: every summary may be a call of a model."""
    requests: list[Any] = []
    run = scope(InMemoryStore(), summaries="model")
    services = replace(
        run.services, summarizer_like=lambda request: requests.append(request) or "S"
    )
    state = with_question(state_of_topics(1, turns=500))
    offloaded_state = offloaded_by(state, replace(run, services=services))
    assert 5 == len(pages_of(offloaded_state, run))
    assert ["S"] == [each["offloaded"] for each in offloaded_state["topics"]]
    assert [True, True] == [
        "question 0.99" in str(requests[0]),
        "question 0.498" in str(requests[1]),
    ]
    assert 2 == len(requests)


def test_what_came_before_the_first_question_is_of_its_topic() -> None:
    """Many messages of a host are offloaded without a topic; the question names their topic."""
    run = scope(InMemoryStore())
    plain = state_of_topics(1, turns=FIRST_MESSAGES // 2)
    state = with_question({**plain, "segments": [], "topics": []})
    offloaded_state = offloaded_by(state, run)
    assert [] == offloaded_state["segments"]
    assert [("topic-1", "")] == [(each["id"], each["label"]) for each in offloaded_state["topics"]]
    assert "question 0.0" in offloaded_state["topics"][0]["offloaded"]
    turn: Any = {"pending": ["pending"], "number": 801}
    opened: State = {**offloaded_state, "turn": turn}
    update = drive(start_segment(opened, run, live_branch(opened), None, "What else?"))
    assert ["What else?"] == [each["label"] for each in update["topics"]]
    assert [Segment(topic_id="topic-1", start="pending")] == update["segments"]
    restored = drive(load_all(with_update(opened, update), run))
    assert state["messages"] == by_topic(restored["messages"], restored["segments"])["topic-1"]
    assert "offloaded" not in restored["topics"][0]


def test_a_turn_longer_than_a_page_is_one() -> None:
    """A page has as many messages as it takes not to part a turn."""
    steps: list[AnyMessage] = []
    for number in range(PAGE_MESSAGES):
        call = {"name": "find", "args": {}, "id": f"c{number}"}
        steps.append(AIMessage("", tool_calls=[call], id=f"m{number}"))
        steps.append(ToolMessage("found", tool_call_id=f"c{number}", id=f"r{number}"))
    state = state_of_topics(1, 2, 3, turns=3)
    longer = [*state["messages"][:1], *steps, *state["messages"][1:]]
    run = scope(InMemoryStore())
    offloaded_state = offloaded_by(with_question({**state, "messages": longer}), run)
    assert len(steps) + 2 == len(pages_of(offloaded_state, run)[0].messages)


def test_the_words_of_system_messages_are_kept() -> None:
    """What a host instructed is in the state, from all pages, in order."""
    run = scope(InMemoryStore())
    state = state_of_topics(1, 2, 3, turns=3)
    first = SystemMessage("Be kind.", id="s1")
    second = SystemMessage("Be brief.", id="s2")
    messages = [first, *state["messages"][:8], second, *state["messages"][8:]]
    offloaded_state = offloaded_by(with_question({**state, "messages": messages}), run)
    assert ["Be kind.", "Be brief."] == offloaded_state["offloaded"]["instructions"]
    added_state = state_of_topics(7, 8, turns=4)
    grown: State = {
        **offloaded_state,
        "messages": [*offloaded_state["messages"], *added_state["messages"]],
        "segments": [*offloaded_state["segments"], *added_state["segments"]],
    }
    second_state = offloaded_by(grown, run)
    assert second_state["offloaded"]["messages"] > offloaded_state["offloaded"]["messages"]
    assert ["Be kind.", "Be brief."] == second_state["offloaded"]["instructions"]


def test_what_a_person_opened_stays_open() -> None:
    """A stretch whose beginning is offloaded continues under its current name."""
    run = scope(InMemoryStore())
    state = with_question(state_of_topics(1, 2, turns=8))
    state["expanded"] = [ExpandedTopic(topic_id="topic-1", at="q1.0")]
    offloaded_state = offloaded_by(state, run)
    assert [offloaded_state["segments"][-1]["start"]] == [
        expansion["at"] for expansion in offloaded_state["expanded"]
    ]
    assert "q1.0" not in {m.id for m in offloaded_state["messages"]}
    assert state["expanded"] == drive(load_all(offloaded_state, run))["expanded"]


def test_checkpoints_know_that_they_are_offloaded() -> None:
    """Those whose message is gone say so; the others are as before."""
    run = scope(InMemoryStore())
    state = with_question(state_of_topics(1, 2, 3, turns=2))
    offloaded_state = offloaded_by(state, run)
    live = {m.id for m in offloaded_state["messages"]}
    is_offloaded = [
        checkpoint["message_id"] not in live for checkpoint in offloaded_state["checkpoints"]
    ]
    assert is_offloaded == [
        checkpoint.get("offloaded", False) for checkpoint in offloaded_state["checkpoints"]
    ]
    assert state["checkpoints"] == [
        without_page_refs(checkpoint) for checkpoint in offloaded_state["checkpoints"]
    ]


@pytest.mark.parametrize("first", [1, 0], ids=["under its topic", "before any topic"])
def test_a_topic_returns_with_its_words(first: int) -> None:
    """A topic that is shown again is read from its newest pages."""
    run = scope(InMemoryStore())
    state = with_question(state_of_topics(1, 2, 3, turns=2))
    if not first:
        state["segments"] = [{**state["segments"][0], "start": "q0.1"}, *state["segments"][1:]]
    offloaded_state = offloaded_by(state, run)
    assert [] == drive(load_opened(offloaded_state, run)).messages
    segment = Segment(topic_id="topic-1", start="pending")
    state_back: State = {**offloaded_state, "segments": [*offloaded_state["segments"], segment]}
    assert ["q0.0", "a0.0", "q0.1", "a0.1"] == [
        m.id for m in drive(load_opened(state_back, run)).messages
    ]


def test_words_before_any_topic_return_with_it() -> None:
    """A page in which no stretch starts is its topic's, whole."""
    run = scope(InMemoryStore())
    state = with_question(state_of_topics(1, 2, 3, turns=110))
    start = Segment(topic_id="topic-1", start="q0.109")
    state["segments"] = [start, *state["segments"][1:]]
    offloaded_state = offloaded_by(state, run)
    assert () == pages_of(offloaded_state, run)[0].segments
    segment = Segment(topic_id="topic-1", start="pending")
    state_back: State = {**offloaded_state, "segments": [*offloaded_state["segments"], segment]}
    assert state["messages"][:220] == drive(load_opened(state_back, run)).messages


def ends(state: State, *names: str) -> State:
    """The state with an event log that knows some messages of the transcript."""
    head: EventLogHead = {**EMPTY, "length": len(state["messages"]), "ends": list(names)}
    return {**state, "event_log": head}


def test_a_host_that_empties_the_transcript_means_all_of_it() -> None:
    """Where none of the known messages is left, what is offloaded no longer counts."""
    run = scope(InMemoryStore())
    offloaded_state = ends(
        offloaded_by(with_question(state_of_topics(1, 2, 3, turns=2)), run), "q2.0", "pending"
    )
    assert Update() == drop_offloaded(offloaded_state)
    empty_state: State = {**offloaded_state, "messages": [HumanMessage("Hello", id="new")]}
    update = drop_offloaded(empty_state)
    assert update["offloaded"] is None
    assert all("offloaded" not in checkpoint for checkpoint in update["checkpoints"])
    assert all(
        "offloaded" not in topic_entry and "pages" not in topic_entry
        for topic_entry in update["topics"]
    )
    assert Update() == drop_offloaded({**empty_state, **update})


def test_what_tells_of_a_part_that_is_gone_goes_as_well() -> None:
    """A state that already says that nothing is offloaded loses summaries and checkpoints of it."""
    offloaded_state = offloaded_by(
        with_question(state_of_topics(1, 2, 3, turns=2)), scope(InMemoryStore())
    )
    empty_state: State = {**offloaded_state, "messages": [], "offloaded": None}
    update = drop_offloaded(empty_state)
    assert all("offloaded" not in entry for entry in (*update["checkpoints"], *update["topics"]))


def test_what_came_again_takes_its_old_place() -> None:
    """A front end that sends everything changes only the changed messages, with an event."""
    run = scope(InMemoryStore(), live_messages=8)
    state = state_of_topics(1, 2, 3, turns=2)
    offloaded_state = ends(offloaded_by(with_question(state), run), "q2.0")
    copies = [m.model_copy() for m in state["messages"]]
    copies[1] = AIMessage("in other words", id="a0.0")
    merged_state: State = {
        **offloaded_state,
        "messages": merge_messages(offloaded_state["messages"], [copies]),
    }
    loaded_state = with_update(merged_state, drive(load_resent(merged_state, run)))
    pending = offloaded_state["messages"][-1]
    assert [*copies, pending] == loaded_state["messages"]
    assert {m.id for m in state["messages"][:8]} - {"a0.0"} == run.step_log.returned


@pytest.mark.parametrize("new", [{"messages": 1}, {"messages": 3}], ids=["one", "several"])
def test_what_is_new_seals_nothing_back(new: dict[str, int]) -> None:
    """Words that never stood in the transcript leave it where it is."""
    run = scope(InMemoryStore())
    offloaded_state = ends(
        offloaded_by(with_question(state_of_topics(1, 2, 3, turns=2)), run), "q2.0"
    )
    new_messages = [HumanMessage("again?", id=f"new-{number}") for number in range(new["messages"])]
    merged_state: State = {
        **offloaded_state,
        "messages": [*offloaded_state["messages"], *new_messages],
    }
    assert Update() == drive(load_resent(merged_state, run))


def test_a_state_that_holds_enough_reads_nothing() -> None:
    """Pages that are not needed are not loaded."""
    run = scope(InMemoryStore(), live_messages=8)
    offloaded_state = offloaded_by(with_question(state_of_topics(1, 2, 3, turns=2)), run)
    assert Update() == drive(load_segments(offloaded_state, run, {"q2.0"}, turns=2))
    assert Update() == drive(load_segments(offloaded_state, run, {"nowhere"}))
    assert Update() == drive(load_segments(state_of_topics(1), run, {None}, turns=9))


@pytest.mark.parametrize("turns", [1, 2, 3, 4, 5, 6, 9])
def test_so_many_turns_are_there(turns: int) -> None:
    """The state holds as many answered turns as are asked for, as far as there are any."""
    run = scope(InMemoryStore())
    offloaded_state = offloaded_by(with_question(state_of_topics(1, 2, 3, turns=2)), run)
    loaded_state = with_update(
        offloaded_state, drive(load_segments(offloaded_state, run, (), turns=turns))
    )
    assert count_turns(loaded_state["messages"]) >= min(turns, 6)


def test_pages_follow_from_the_transcript() -> None:
    """A step that is run twice writes the same pages."""
    store = InMemoryStore()
    state = with_question(state_of_topics(1, 2, 3, turns=150))
    first, second = (offloaded_by(state, scope(store)) for _ in range(2))
    assert first == second
    heads: list[Offloaded] = [page.head for page in pages_of(first, scope(store))]
    assert all(a["messages"] < b["messages"] for a, b in pairwise(heads))


def test_older_pages_are_still_told_of() -> None:
    """The summary of an offloaded part stays when a newer page returns."""
    run = scope(InMemoryStore())
    older = offloaded_by(with_question(state_of_topics(1, 2, 3, turns=2)), run)
    added_state = state_of_topics(7, 8, 9, turns=2)
    later_messages = [m.model_copy(update={"id": f"later {m.id}"}) for m in added_state["messages"]]
    starts: list[Segment] = [{**s, "start": f"later {s['start']}"} for s in added_state["segments"]]
    grown: State = {
        **older,
        "messages": [*older["messages"], *later_messages],
        "segments": [*older["segments"], *starts],
        "topics": [*older["topics"], *added_state["topics"]],
    }
    newer = offloaded_by(grown, run)
    assert 2 == len(pages_of(newer, run))
    loaded_state = with_update(newer, drive(load_segments(newer, run, {"later q0.0"})))
    assert visible_state(grown) == visible_state(loaded_state)
    assert visible_state(older)["topics"] == loaded_state["topics"][:3]
