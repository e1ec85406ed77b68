"""The live window: what the state lets go of, and how it takes it back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
    PAGE_MESSAGES,
    PAGES,
    drop_offloaded,
    load_all,
    load_opened,
    load_segments,
    offload,
    without_page_refs,
)
from unsay.messages.annotations import annotate, is_answer
from unsay.messages.boundaries import tail_places
from unsay.moves.reconcile import load_resent
from unsay.runtime import Scope, Services
from unsay.settings.settings import load_settings
from unsay.state import EventLogHead, State, Update, merge_messages, offloaded_of, with_update
from unsay.storage.pages import OffloadedSegment as Page
from unsay.storage.pages import read_back
from unsay.transcript.live import count_turns
from unsay.transcript.record import EMPTY
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


def topic(number: int, **told: Any) -> Topic:
    """A topic that was never left."""
    plain = Topic(id=f"topic-{number}", label=f"t{number}", summary=None, summarized_through=None)
    return {**plain, **told}


def talked(*topics: int, turns: int = 1) -> State:
    """A transcript of N turns of each topic in turn, a checkpoint at each answer."""
    messages: list[AnyMessage] = []
    segments: list[Segment] = []
    for stretch, number in enumerate(topics):
        segments.append(Segment(topic_id=f"topic-{number}", start=f"q{stretch}.0"))
        for turn in range(turns):
            messages.append(HumanMessage(f"question {stretch}.{turn}", id=f"q{stretch}.{turn}"))
            messages.append(AIMessage(f"answer {stretch}.{turn}", id=f"a{stretch}.{turn}"))
    return _state(messages, segments, [topic(each) for each in dict.fromkeys(topics)])


def _state(
    messages: list[AnyMessage], segments: list[Segment], topics: list[Topic], **more: Any
) -> State:
    messages = [annotate(m, outcome="passed") if is_answer(m) else m for m in messages]
    answers = [m for m in messages if is_answer(m)]
    marks = [
        make_checkpoint(
            message_id=each.id or "",
            turn=number,
            score=0.9,
            topic="",
            reason="score",
            created_at=NOW,
        )
        for number, each in enumerate(answers, 1)
    ]
    return State(
        messages=messages,
        segments=segments,
        topics=topics,
        checkpoints=marks,
        expanded=[],
        **more,
    )


def asked(state: State) -> State:
    """The state with the next question in the transcript."""
    question = HumanMessage("What else?", id="pending")
    return {**state, "messages": [*state["messages"], question]}


def offloaded_by(state: State, run: Scope) -> State:
    """The state once what is too much is offloaded."""
    return with_update(state, drive(offload(state, run)))


def shown(state: Mapping[str, Any]) -> dict[str, Any]:
    """What must be the same once everything offloaded is back."""
    keys = ("messages", "checkpoints", "topics", "expanded")
    said = by_topic(state["messages"], state["segments"])
    return {
        **{key: state.get(key, []) for key in keys},
        "said": said,
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
    places = tail_places(messages)
    starts = [places[0], *(each for each in places[1:] if draw(st.booleans()))]
    numbers = [draw(st.integers(1, 3)) for _ in starts]
    kept = [
        (number, place)
        for index, (number, place) in enumerate(zip(numbers, starts, strict=True))
        if index == 0 or numbers[index - 1] != number
    ]
    segments = [Segment(topic_id=f"topic-{n}", start=messages[p].id or "") for n, p in kept]
    topics = [_drawn_topic(draw, n, messages, segments) for n in sorted({n for n, _ in kept})]
    state = _state(messages, segments, topics)
    if draw(st.booleans()):
        expanded = ExpandedTopic(
            topic_id=draw(st.sampled_from(topics))["id"], at=segments[-1]["start"]
        )
        state["expanded"] = [expanded]
    return PlanContext(state=state, limit=draw(st.integers(4, 12)))


def _drawn_topic(
    draw: Any, number: int, messages: Sequence[AnyMessage], segments: Sequence[Segment]
) -> Topic:
    said = by_topic(messages, segments).get(f"topic-{number}", [])
    left = segments[-1]["topic_id"] != f"topic-{number}"
    if not left or not said or draw(st.booleans()):
        return topic(number)
    return topic(number, summary=f"summary {number}", summarized_through=said[-1].id)


@given(plan_contexts())
def test_what_was_offloaded_returns_as_it_was(at: PlanContext) -> None:
    """Messages, topics, checkpoints and what a person opened are as before, to the last field."""
    run = scope(InMemoryStore(), live_messages=at.limit)
    before = shown(at.state)
    now = offloaded_by(at.state, run)
    assert before == shown(drive(load_all(now, run)))
    assert before == shown(with_update(now, drive(load_segments(now, run, {None}))))


@given(plan_contexts(), st.data())
def test_any_place_can_be_reached(at: PlanContext, data: Any) -> None:
    """The state holds what is wanted then, and counts the same turns as before."""
    run = scope(InMemoryStore(), live_messages=at.limit)
    now = offloaded_by(at.state, run)
    wanted = data.draw(st.sampled_from(at.state["messages"])).id
    there = with_update(now, drive(load_segments(now, run, {wanted})))
    assert wanted in {m.id for m in there["messages"]}
    live = [m.id for m in there["messages"]]
    assert live == [m.id for m in at.state["messages"]][-len(live) :]
    left = {m.id for m in at.state["messages"]} - {*live}
    said = by_topic(at.state["messages"], at.state["segments"])
    away = {name for name, some in said.items() if left & {m.id for m in some}}
    assert away == {each["id"] for each in there["topics"] if "offloaded" in each}
    turns = count_turns(at.state["messages"])
    assert turns == count_turns(now["messages"], offloaded_of(now))
    assert turns == count_turns(there["messages"], offloaded_of(there))
    assert shown(at.state) == shown(drive(load_all(there, run)))


@given(plan_contexts())
def test_offloading_in_steps_is_reversed_at_once(at: PlanContext) -> None:
    """A transcript that is offloaded, continued and offloaded again comes back whole."""
    run = scope(InMemoryStore(), live_messages=at.limit)
    more = talked(9, 8, 9, turns=3)
    now = offloaded_by(at.state, run)
    wide: State = {**at.state}
    for state in (now, wide):
        state["messages"] = [*state["messages"], *more["messages"]]
        state["segments"] = [*state["segments"], *more["segments"]]
        state["topics"] = [*state["topics"], *more["topics"]]
    again = offloaded_by(now, run)
    assert shown(wide) == shown(drive(load_all(again, run)))


@given(plan_contexts())
def test_pages_begin_at_the_users_words(at: PlanContext) -> None:
    """Messages of one turn stay together, on either side of every border."""
    run = scope(InMemoryStore(), live_messages=at.limit)
    now = offloaded_by(at.state, run)
    pages = drive(read_back(run.store, THREAD, offloaded_of(now), None)) if run.store else []
    borders = [page.messages[-1].id for page in pages]
    ids = [m.id for m in at.state["messages"]]
    assert {ids.index(each) + 1 for each in borders} <= set(tail_places(at.state["messages"]))
    assert len(now["messages"]) >= min(len(ids), at.limit // 2)


def pages_of(state: State, run: Scope) -> list[Page]:
    """All that is offloaded, the oldest page first."""
    assert run.store is not None
    return drive(read_back(run.store, run.thread_id or "", offloaded_of(state), None))[::-1]


@pytest.mark.parametrize(
    ("state", "settings"),
    [
        pytest.param(talked(1, 2, turns=1), {}, id="under the limit"),
        pytest.param(talked(1, 2, turns=4), {"topics": "off"}, id="no topics"),
        pytest.param(talked(1, turns=4), {}, id="the topic under way"),
        pytest.param(talked(1, 2, turns=30), {"live_messages": 60}, id="its window's half"),
        pytest.param({**talked(1, 2, turns=8), "segments": []}, {}, id="no topic yet"),
    ],
)
def test_what_stays(state: State, settings: dict[str, Any]) -> None:
    """Nothing is offloaded that fits, that a context shows whole, or that has no summary."""
    run = scope(InMemoryStore(), **settings)
    current = {**state, "segments": state["segments"][:1]} if "live_messages" in settings else state
    assert Update() == drive(offload(current, run))


def test_nothing_is_offloaded_without_a_store() -> None:
    """Where nothing could hold the pages, the state holds the transcript."""
    assert Update() == drive(offload(talked(1, 2, 3, turns=5), scope(None)))


def test_the_oldest_compacted_part_is_offloaded() -> None:
    """Half a window stays, and the summary covers the rest."""
    run = scope(InMemoryStore(), live_messages=8)
    now = offloaded_by(asked(talked(1, 2, 3, turns=2)), run)
    assert ["q2.0", "a2.0", "q2.1", "a2.1", "pending"] == [m.id for m in now["messages"]]
    assert now["offloaded"] == {**pages_of(now, run)[-1].head, "messages": 8, "turns": 4}
    told = {each["id"]: each.get("offloaded") for each in now["topics"]}
    assert told["topic-3"] is None
    assert "question 0.0" in str(told["topic-1"])
    assert "question 1.1" in str(told["topic-2"])


@pytest.mark.parametrize(("turns", "held"), [(3, 7), (4, 3)], ids=["one window", "two windows"])
def test_the_topic_under_way_stays_for_two_windows(turns: int, held: int) -> None:
    """Past that its oldest messages are offloaded as well, and summarized."""
    run = scope(InMemoryStore())
    now = offloaded_by(asked(talked(1, turns=turns)), run)
    assert held == len(now["messages"])
    assert (held < 2 * turns) == ("offloaded" in now["topics"][0])
    assert [] == now["topics"][0].get("pages", [])


def test_what_waits_for_an_answer_stays() -> None:
    """Questions that came in together are answered together, however many they are."""
    state = talked(1, 2, turns=2)
    waiting = [HumanMessage(f"and {each}?", id=f"w{each}") for each in range(12)]
    state = {**state, "messages": [*state["messages"], *waiting]}
    now = offloaded_by(state, scope(InMemoryStore()))
    assert offloaded_of(now) is not None
    assert {m.id for m in waiting} <= {m.id for m in now["messages"]}


def test_what_waits_for_a_verdict_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """The exchanges that this turn judges are in the transcript for it; older ones go unscored."""
    monkeypatch.setattr("unsay.memory.offload.MAX_ENTRIES", 5)
    state = talked(1, 2, 3, turns=2)
    brought: list[AnyMessage] = []
    for each in range(8):
        brought += [HumanMessage("old?", id=f"b{each}"), AIMessage("old.", id=f"c{each}")]
    state = asked({**state, "messages": [*state["messages"], *brought]})
    now = offloaded_by(state, scope(InMemoryStore()))
    assert ["b3", *(m.id for m in brought[7:]), "pending"] == [m.id for m in now["messages"]]


def test_a_long_transcript_is_offloaded_bit_by_bit() -> None:
    """A turn writes no more than some pages of some messages, one behind the other."""
    run = scope(InMemoryStore())
    state = asked(talked(*range(1, 11), turns=120))
    now = offloaded_by(state, run)
    pages = pages_of(now, run)
    assert PAGES == len(pages)
    assert all(len(page.messages) <= PAGE_MESSAGES for page in pages)
    assert [None, *(page.head for page in pages[:-1])] == [page.before for page in pages]
    assert sum(len(page.messages) for page in pages) + len(now["messages"]) == 2401
    rest = offloaded_by(now, run)
    assert len(rest["messages"]) <= 242
    assert shown(state) == shown(drive(load_all(rest, run)))


def test_a_turn_longer_than_a_page_is_one() -> None:
    """A page has as many messages as it takes not to part a turn."""
    steps: list[AnyMessage] = []
    for number in range(PAGE_MESSAGES):
        call = {"name": "find", "args": {}, "id": f"c{number}"}
        steps.append(AIMessage("", tool_calls=[call], id=f"m{number}"))
        steps.append(ToolMessage("found", tool_call_id=f"c{number}", id=f"r{number}"))
    state = talked(1, 2, 3, turns=3)
    longer = [*state["messages"][:1], *steps, *state["messages"][1:]]
    run = scope(InMemoryStore())
    now = offloaded_by(asked({**state, "messages": longer}), run)
    assert len(steps) + 2 == len(pages_of(now, run)[0].messages)


def test_the_words_of_system_messages_are_kept() -> None:
    """What a host instructed is in the state, from all pages, in order."""
    run = scope(InMemoryStore())
    state = talked(1, 2, 3, turns=3)
    first, later = SystemMessage("Be kind.", id="s1"), SystemMessage("Be brief.", id="s2")
    messages = [first, *state["messages"][:8], later, *state["messages"][8:]]
    now = offloaded_by(asked({**state, "messages": messages}), run)
    assert ["Be kind.", "Be brief."] == now["offloaded"]["instructions"]
    more = talked(7, 8, turns=4)
    grown: State = {
        **now,
        "messages": [*now["messages"], *more["messages"]],
        "segments": [*now["segments"], *more["segments"]],
    }
    again = offloaded_by(grown, run)
    assert again["offloaded"]["messages"] > now["offloaded"]["messages"]
    assert ["Be kind.", "Be brief."] == again["offloaded"]["instructions"]


def test_what_a_person_opened_stays_open() -> None:
    """A stretch whose beginning is offloaded continues under its current name."""
    run = scope(InMemoryStore())
    state = asked(talked(1, 2, turns=8))
    state["expanded"] = [ExpandedTopic(topic_id="topic-1", at="q1.0")]
    now = offloaded_by(state, run)
    assert [now["segments"][-1]["start"]] == [each["at"] for each in now["expanded"]]
    assert "q1.0" not in {m.id for m in now["messages"]}
    assert state["expanded"] == drive(load_all(now, run))["expanded"]


def test_checkpoints_know_that_they_are_offloaded() -> None:
    """Those whose message is gone say so; the others are as before."""
    run = scope(InMemoryStore())
    state = asked(talked(1, 2, 3, turns=2))
    now = offloaded_by(state, run)
    live = {m.id for m in now["messages"]}
    gone = [each["message_id"] not in live for each in now["checkpoints"]]
    assert gone == [each.get("offloaded", False) for each in now["checkpoints"]]
    assert state["checkpoints"] == [without_page_refs(each) for each in now["checkpoints"]]


@pytest.mark.parametrize("first", [1, 0], ids=["under its topic", "before any topic"])
def test_a_topic_returns_with_its_words(first: int) -> None:
    """A topic that is shown again is read from its newest pages."""
    run = scope(InMemoryStore())
    state = asked(talked(1, 2, 3, turns=2))
    if not first:
        state["segments"] = [{**state["segments"][0], "start": "q0.1"}, *state["segments"][1:]]
    now = offloaded_by(state, run)
    assert [] == drive(load_opened(now, run)).messages
    here = Segment(topic_id="topic-1", start="pending")
    back: State = {**now, "segments": [*now["segments"], here]}
    assert ["q0.0", "a0.0", "q0.1", "a0.1"] == [
        m.id for m in drive(load_opened(back, run)).messages
    ]


def test_words_before_any_topic_return_with_it() -> None:
    """A page in which no stretch starts is its topic's, whole."""
    run = scope(InMemoryStore())
    state = asked(talked(1, 2, 3, turns=110))
    start = Segment(topic_id="topic-1", start="q0.109")
    state["segments"] = [start, *state["segments"][1:]]
    now = offloaded_by(state, run)
    assert () == pages_of(now, run)[0].segments
    here = Segment(topic_id="topic-1", start="pending")
    back: State = {**now, "segments": [*now["segments"], here]}
    assert state["messages"][:220] == drive(load_opened(back, run)).messages


def ends(state: State, *names: str) -> State:
    """The state with an event log that knows some messages of the transcript."""
    head: EventLogHead = {**EMPTY, "length": len(state["messages"]), "ends": list(names)}
    return {**state, "event_log": head}


def test_a_host_that_empties_the_record_means_all_of_it() -> None:
    """Where none of the known messages is left, what is offloaded no longer counts."""
    run = scope(InMemoryStore())
    now = ends(offloaded_by(asked(talked(1, 2, 3, turns=2)), run), "q2.0", "pending")
    assert Update() == drop_offloaded(now)
    emptied: State = {**now, "messages": [HumanMessage("Hello", id="new")]}
    update = drop_offloaded(emptied)
    assert update["offloaded"] is None
    assert all("offloaded" not in each for each in update["checkpoints"])
    assert all("offloaded" not in each and "pages" not in each for each in update["topics"])
    assert Update() == drop_offloaded({**emptied, **update})


def test_what_tells_of_a_part_that_is_gone_goes_as_well() -> None:
    """A state that already says that nothing is offloaded loses summaries and checkpoints of it."""
    now = offloaded_by(asked(talked(1, 2, 3, turns=2)), scope(InMemoryStore()))
    emptied: State = {**now, "messages": [], "offloaded": None}
    update = drop_offloaded(emptied)
    assert all("offloaded" not in each for each in (*update["checkpoints"], *update["topics"]))


def test_what_came_again_takes_its_old_place() -> None:
    """A front end that sends everything changes only the changed messages, with an event."""
    run = scope(InMemoryStore(), live_messages=8)
    state = talked(1, 2, 3, turns=2)
    now = ends(offloaded_by(asked(state), run), "q2.0")
    again = [m.model_copy() for m in state["messages"]]
    again[1] = AIMessage("in other words", id="a0.0")
    both: State = {**now, "messages": merge_messages(now["messages"], [again])}
    there = with_update(both, drive(load_resent(both, run)))
    pending = now["messages"][-1]
    assert [*again, pending] == there["messages"]
    assert {m.id for m in state["messages"][:8]} - {"a0.0"} == run.step_log.returned


@pytest.mark.parametrize("new", [{"messages": 1}, {"messages": 3}], ids=["one", "several"])
def test_what_is_new_seals_nothing_back(new: dict[str, int]) -> None:
    """Words that never stood in the transcript leave it where it is."""
    run = scope(InMemoryStore())
    now = ends(offloaded_by(asked(talked(1, 2, 3, turns=2)), run), "q2.0")
    more = [HumanMessage("again?", id=f"new-{each}") for each in range(new["messages"])]
    both: State = {**now, "messages": [*now["messages"], *more]}
    assert Update() == drive(load_resent(both, run))


def test_a_state_that_holds_enough_reads_nothing() -> None:
    """Pages that are not needed are not loaded."""
    run = scope(InMemoryStore(), live_messages=8)
    now = offloaded_by(asked(talked(1, 2, 3, turns=2)), run)
    assert Update() == drive(load_segments(now, run, {"q2.0"}, turns=2))
    assert Update() == drive(load_segments(now, run, {"nowhere"}))
    assert Update() == drive(load_segments(talked(1), run, {None}, turns=9))


@pytest.mark.parametrize("turns", [1, 2, 3, 4, 5, 6, 9])
def test_so_many_turns_are_there(turns: int) -> None:
    """The state holds as many answered turns as are asked for, as far as there are any."""
    run = scope(InMemoryStore())
    now = offloaded_by(asked(talked(1, 2, 3, turns=2)), run)
    there = with_update(now, drive(load_segments(now, run, (), turns=turns)))
    assert count_turns(there["messages"]) >= min(turns, 6)


def test_pages_follow_from_the_record() -> None:
    """A step that is run twice writes the same pages."""
    store = InMemoryStore()
    state = asked(talked(1, 2, 3, turns=150))
    first, second = (offloaded_by(state, scope(store)) for _ in range(2))
    assert first == second
    heads: list[Offloaded] = [page.head for page in pages_of(first, scope(store))]
    assert all(a["messages"] < b["messages"] for a, b in pairwise(heads))


def test_older_pages_are_still_told_of() -> None:
    """The summary of an offloaded part stays when a newer page returns."""
    run = scope(InMemoryStore())
    older = offloaded_by(asked(talked(1, 2, 3, turns=2)), run)
    more = talked(7, 8, 9, turns=2)
    later = [m.model_copy(update={"id": f"later {m.id}"}) for m in more["messages"]]
    starts: list[Segment] = [{**s, "start": f"later {s['start']}"} for s in more["segments"]]
    grown: State = {
        **older,
        "messages": [*older["messages"], *later],
        "segments": [*older["segments"], *starts],
        "topics": [*older["topics"], *more["topics"]],
    }
    newer = offloaded_by(grown, run)
    assert 2 == len(pages_of(newer, run))
    back = with_update(newer, drive(load_segments(newer, run, {"later q0.0"})))
    assert shown(grown) == shown(back)
    assert shown(older)["topics"] == back["topics"][:3]
