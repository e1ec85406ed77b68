"""Taking a tail off the transcript and putting it back."""

from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage

from unsay.errors import ConflictError
from unsay.events.transcript_replay import with_returned
from unsay.history.branch import Label, LiveBranch, replace_tail
from unsay.state import merge_message_update, merge_messages
from unsay.types import Checkpoint, Segment, StoredBranch, Topic

PERSON = Label(kind="person", reason="go back", created_at="2026-01-01T00:00:00+00:00")
UNDO = Label(kind="undo", reason="undo", created_at="2026-01-02T00:00:00+00:00")


def annotation(message_id: str) -> Checkpoint:
    """A checkpoint at a message."""
    return Checkpoint(
        id=f"cp-{message_id}",
        name=None,
        message_id=message_id,
        turn=1,
        score=0.9,
        topic="",
        reason="score",
        created_at="",
    )


def transcript(size: int, stem: str = "m") -> list[AnyMessage]:
    """Questions and answers in turn."""
    return [
        (HumanMessage if index % 2 == 0 else AIMessage)(f"words {index}", id=f"{stem}{index}")
        for index in range(size)
    ]


def live(size: int, *, marks: tuple[str, ...] = (), starts: tuple[str, ...] = ()) -> LiveBranch:
    """A line with checkpoints and segments at the given messages."""
    return LiveBranch(
        messages=tuple(transcript(size)),
        checkpoints=tuple(annotation(mark) for mark in marks),
        segments=tuple(Segment(topic_id=f"t-{start}", start=start) for start in starts),
    )


@dataclass(frozen=True, kw_only=True)
class PlanContext:
    """A line, a place to go back to, and what waits for an answer."""

    live: LiveBranch
    bases: tuple[str | None, ...]
    pending: tuple[str, ...]


@st.composite
def plan_contexts(draw: Any) -> PlanContext:
    """Any line with any checkpoints and segments, places on it, and a pending tail."""
    size = draw(st.integers(min_value=0, max_value=10))
    names = [f"m{index}" for index in range(size)]
    waiting = draw(st.integers(min_value=0, max_value=min(2, size)))
    settled_count = size - waiting
    marks = [name for name in names[:settled_count] if draw(st.booleans())]
    starts = [name for name in names if draw(st.booleans())]
    positions: list[str | None] = [None, *names[:settled_count]]
    bases = draw(st.lists(st.sampled_from(positions), min_size=1, max_size=4))
    return PlanContext(
        live=live(size, marks=tuple(marks), starts=tuple(starts)),
        bases=tuple(bases),
        pending=tuple(names[settled_count:]),
    )


@given(situation=plan_contexts())
def test_writes_give_the_transcript(situation: PlanContext) -> None:
    """What is written to the transcript gives exactly the line, in both reducers."""
    change = replace_tail(situation.live, situation.bases[0], label=PERSON, keep=situation.pending)

    messages_written = merge_messages(situation.live.messages, change.writes)
    assert list(change.live.messages) == messages_written
    assert messages_written == merge_message_update(situation.live.messages, change.writes)


@given(situation=plan_contexts())
def test_putting_back_what_was_removed_restores_everything(situation: PlanContext) -> None:
    """A restored branch gives the same transcript, checkpoints and segments, and no branch."""
    base = situation.bases[0]
    removal = replace_tail(situation.live, base, label=PERSON, keep=situation.pending)
    restoration = replace_tail(
        removal.live, base, [removal.branch], label=UNDO, keep=situation.pending
    )

    assert situation.live == restoration.live
    assert [] == restoration.branch["messages"]
    messages_written = merge_messages(removal.live.messages, restoration.writes)
    assert list(situation.live.messages) == messages_written


@given(situation=plan_contexts())
def test_several_branches_are_put_back_together(situation: PlanContext) -> None:
    """Cuts made one after another, each further back, return in the order they stood in."""
    bases = sorted(situation.bases, key=situation.live.index_of, reverse=True)
    current_live = situation.live
    branches = []
    messages_written = list(situation.live.messages)
    for base in bases:
        change = replace_tail(current_live, base, label=PERSON, keep=situation.pending)
        messages_written = merge_messages(messages_written, [change.writes])
        current_live = change.live
        branches = [change.branch, *branches]
    restoration = replace_tail(
        current_live, bases[-1], branches, label=UNDO, keep=situation.pending
    )

    assert situation.live == restoration.live
    assert list(situation.live.messages) == merge_messages(messages_written, [restoration.writes])


@given(situation=plan_contexts())
def test_nothing_is_lost_by_a_branch(situation: PlanContext) -> None:
    """Every message, checkpoint and segment is afterwards on the line or in the branch, once."""
    change = replace_tail(situation.live, situation.bases[0], label=PERSON, keep=situation.pending)

    def names(messages: Any) -> list[Any]:
        return sorted(message.id for message in messages)

    branch = change.branch
    after = change.live
    assert names(situation.live.messages) == names([*after.messages, *branch["messages"]])
    assert sorted(c["id"] for c in situation.live.checkpoints) == sorted(
        c["id"] for c in [*after.checkpoints, *branch["checkpoints"]]
    )
    assert sorted(s["start"] for s in situation.live.segments) == sorted(
        s["start"] for s in [*after.segments, *branch["segments"]]
    )
    standing = {message.id for message in after.messages}
    assert standing >= {c["message_id"] for c in after.checkpoints}
    assert standing >= {s["start"] for s in after.segments}


@given(situation=plan_contexts())
def test_pending_question_stays_last(situation: PlanContext) -> None:
    """A pending question stays at the end after every rollback and restore."""
    removal = replace_tail(situation.live, situation.bases[0], label=PERSON, keep=situation.pending)
    restoration = replace_tail(
        removal.live, situation.bases[0], [removal.branch], label=UNDO, keep=situation.pending
    )

    for change in (removal, restoration):
        tail = change.live.messages[len(change.live.messages) - len(situation.pending) :]
        assert list(situation.pending) == [message.id for message in tail]


@given(situation=plan_contexts())
def test_branch_ids_follow_from_what_is_removed(situation: PlanContext) -> None:
    """A node that runs twice makes the same branch; another one has another id."""
    changes = [
        replace_tail(situation.live, base, label=PERSON, keep=situation.pending)
        for base in [*situation.bases, *situation.bases]
    ]

    branches = {change.branch["base"]: change.branch["id"] for change in changes}
    assert [branches[base] for base in situation.bases] * 2 == [
        change.branch["id"] for change in changes
    ]
    assert len(branches) == len(set(branches.values()))
    label = Label(kind="person", reason="", created_at="", drafts=(AIMessage("no", id="d"),))
    assert (
        branches[situation.bases[0]]
        != replace_tail(situation.live, situation.bases[0], label=label).branch["id"]
    )


@given(situation=plan_contexts(), size=st.integers(min_value=1, max_value=3))
def test_replacing_an_answer_keeps_it(situation: PlanContext, size: int) -> None:
    """Messages in the place of a restored branch become a branch, and both can be restored."""
    base = situation.bases[0]
    removal = replace_tail(situation.live, base, label=PERSON, keep=situation.pending)
    messages = [m for m in removal.live.messages if m.id in situation.pending]
    settled_messages = removal.live.messages[: len(removal.live.messages) - len(messages)]
    newer = LiveBranch(
        messages=(*settled_messages, *transcript(size, "n"), *messages),
        checkpoints=(*removal.live.checkpoints, annotation("n0")),
        segments=removal.live.segments,
    )
    swap = replace_tail(newer, base, [removal.branch], label=UNDO, keep=situation.pending)

    assert situation.live == swap.live
    assert [f"n{index}" for index in range(size)] == [m.id for m in swap.branch["messages"]]
    assert list(situation.live.messages) == merge_messages(newer.messages, swap.writes)
    return_swap = replace_tail(swap.live, base, [swap.branch], label=UNDO, keep=situation.pending)
    assert newer.messages == return_swap.live.messages
    assert newer.checkpoints == return_swap.live.checkpoints


def test_a_branch_in_words() -> None:
    """The parts of a rollback that keeps the pending question, as they are."""
    before = live(5, marks=("m1", "m3"), starts=("m0", "m2", "m4"))
    change = replace_tail(before, "m1", label=PERSON, keep=["m4"])

    m = transcript(5)
    assert live(2, marks=("m1",), starts=("m0",)).segments == change.live.segments[:1]
    assert (m[0], m[1], m[4]) == change.live.messages
    assert (annotation("m1"),) == change.live.checkpoints
    assert ["m0", "m4"] == [segment["start"] for segment in change.live.segments]
    assert [RemoveMessage(id="m2"), RemoveMessage(id="m3")] == change.writes
    assert (
        StoredBranch(
            id="branch-b5b0bf8e076a36e9",
            kind="person",
            base="m1",
            reason="go back",
            created_at="2026-01-01T00:00:00+00:00",
            messages=[m[2], m[3]],
            drafts=[],
            checkpoints=[annotation("m3")],
            segments=[Segment(topic_id="t-m2", start="m2")],
        )
        == change.branch
    )


def test_unknown_base_is_refused() -> None:
    """A place that is no longer in the transcript is named, and nothing changes."""
    with pytest.raises(ConflictError, match="Message 'gone' is no longer in the transcript"):
        replace_tail(live(4), "gone", label=PERSON)


def test_places_have_names_and_back() -> None:
    """`None` is the place before the first message."""
    current_live = live(3)

    assert [-1, 0, 1, 2] == [current_live.index_of(item) for item in (None, "m0", "m1", "m2")]
    assert [None, "m0", "m1", "m2"] == [current_live.id_at(number) for number in range(-1, 3)]
    assert {"m0": 0, "m1": 1, "m2": 2} == current_live.positions()


def test_what_stands_already_is_not_put_back_twice() -> None:
    """A message that a host sent again stays where it is; the rest of the branch returns."""
    removal = replace_tail(live(6, marks=("m5",)), "m1", label=PERSON)
    branch = LiveBranch(messages=(*removal.live.messages, transcript(6)[3]))

    change = replace_tail(branch, "m3", [removal.branch], label=UNDO)

    assert ["m0", "m1", "m3", "m2", "m4", "m5"] == [m.id for m in change.live.messages]
    assert ("m2", "m4", "m5") == change.only
    assert (annotation("m5"),) == change.live.checkpoints
    assert list(change.live.messages) == merge_messages(branch.messages, change.writes)


def test_a_part_of_a_branch_returns_among_what_stays() -> None:
    """One message is restored to its place with its checkpoint; the removed ones follow it."""
    removal = replace_tail(live(6, marks=("m3", "m5")), "m1", label=PERSON)
    branch = LiveBranch(messages=(*removal.live.messages, *transcript(2, "n")))

    change = replace_tail(
        branch, "m1", [removal.branch], label=UNDO, keep=["n0", "n1"], only=["m3"]
    )

    assert ["m0", "m1", "m3", "n0", "n1"] == [m.id for m in change.live.messages]
    assert ([], ("m3",)) == (change.branch["messages"], change.only)
    assert (annotation("m3"),) == change.live.checkpoints
    assert list(change.live.messages) == merge_messages(branch.messages, change.writes)


ORDER = ["m1", "m3", "m5"]


def test_a_name_stays_with_the_checkpoint_that_has_it() -> None:
    """Of several checkpoints with one name the first keeps it."""
    checkpoints = [
        Checkpoint(**{**annotation(item), "name": "home"}) for item in ("m1", "m3", "m5")
    ]
    nameless = [Checkpoint(**{**checkpoint, "name": None}) for checkpoint in checkpoints]

    assert [checkpoints[0], *nameless[1:]] == with_returned(
        checkpoints[:1], checkpoints[1:], {"m3", "m5"}, ORDER
    )
    assert [checkpoints[1], nameless[2]] == with_returned([], checkpoints[1:], {"m3", "m5"}, ORDER)
    assert [checkpoints[2]] == with_returned([], checkpoints, {"m5"}, ORDER)


def test_a_summary_goes_and_returns_with_its_words() -> None:
    """A compaction refers to messages; without the last of them it shows nothing."""
    topic = Topic(id="t", label="Kyoto", summary="Of Kyoto.", summarized_through="m3")
    silent = Topic(id="t", label="Kyoto", summary=None, summarized_through=None)
    branch = LiveBranch(messages=tuple(transcript(6)), topics=(topic,))

    short_removal = replace_tail(branch, "m3", label=PERSON)
    removal = replace_tail(branch, "m1", label=PERSON)
    restoration = replace_tail(removal.live, "m1", [removal.branch], label=UNDO)

    assert ((topic,), (silent,), (topic,)) == (
        short_removal.live.topics,
        removal.live.topics,
        restoration.live.topics,
    )
    assert ("topics" not in short_removal.branch, [topic]) == (True, removal.branch["topics"])


SEALED = "m99"


def with_offloaded_part(situation: LiveBranch) -> LiveBranch:
    """The same line, its older part offloaded."""
    old = {**annotation(SEALED), "offloaded": True}
    return replace(situation, before=SEALED, checkpoints=(old, *situation.checkpoints))


@given(plan_contexts())
def test_messages_after_the_offloaded_part_are_removed_and_restored(at: PlanContext) -> None:
    """Cuts and what they bring back are those of a line that begins here, but for its start."""
    base = at.bases[0]
    plain = replace_tail(at.live, base, label=PERSON, keep=at.pending)
    there = replace_tail(
        with_offloaded_part(at.live), base or SEALED, label=PERSON, keep=at.pending
    )
    assert plain.writes == there.writes
    assert with_offloaded_part(plain.live) == there.live
    assert base or SEALED == there.branch["base"]
    assert {**plain.branch, "id": "", "base": ""} == {**there.branch, "id": "", "base": ""}
    removal = replace_tail(there.live, base or SEALED, [there.branch], label=UNDO, keep=at.pending)
    assert with_offloaded_part(at.live).messages == removal.live.messages
    assert {checkpoint["id"] for checkpoint in with_offloaded_part(at.live).checkpoints} == {
        checkpoint["id"] for checkpoint in removal.live.checkpoints
    }


def test_the_place_before_the_first_is_behind_what_is_offloaded() -> None:
    """The place has the name of the last message that is offloaded, and no other place is there."""
    situation = with_offloaded_part(live(2))
    assert -1 == situation.index_of(SEALED)
    assert SEALED == situation.id_at(-1)
    assert [0, 1] == [situation.index_of(item) for item in ("m0", "m1")]


@pytest.mark.parametrize(
    "base", [None, "m5"], ids=["the transcript's beginning", "an older message"]
)
def test_a_place_in_the_offloaded_part_is_refused(base: str | None) -> None:
    """A rollback to that place needs the messages loaded first: nothing is removed instead."""
    with pytest.raises(ConflictError, match=repr(base)):
        replace_tail(with_offloaded_part(live(4)), base, label=PERSON)


def test_a_checkpoint_in_the_offloaded_part_stays() -> None:
    """A branch takes the checkpoints of what it takes, and no other."""
    change = replace_tail(with_offloaded_part(live(4, marks=("m1", "m3"))), SEALED, label=PERSON)
    assert [f"cp-{SEALED}"] == [checkpoint["id"] for checkpoint in change.live.checkpoints]
    assert ["cp-m1", "cp-m3"] == [checkpoint["id"] for checkpoint in change.branch["checkpoints"]]


def test_a_summary_returns_when_its_messages_are_offloaded_by_now() -> None:
    """The summary of a topic's offloaded part is the newest one, not that of the branch."""
    old = Topic(id="t-m0", label="cats", summary="of cats", summarized_through="m1")
    situation = replace(live(4, starts=("m0", "m2")), topics=(old,))
    change = replace_tail(situation, None, label=PERSON)
    pages: Topic = {**change.live.topics[0], "offloaded": "of older cats", "pages": ["p"]}
    removal = replace_tail(replace(change.live, topics=(pages,)), None, [change.branch], label=UNDO)
    assert ({**old, "offloaded": "of older cats", "pages": ["p"]},) == removal.live.topics
