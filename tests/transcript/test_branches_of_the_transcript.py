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
        checkpoints=tuple(annotation(each) for each in marks),
        segments=tuple(Segment(topic_id=f"t-{each}", start=each) for each in starts),
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
    settled = size - waiting
    marks = [each for each in names[:settled] if draw(st.booleans())]
    starts = [each for each in names if draw(st.booleans())]
    places: list[str | None] = [None, *names[:settled]]
    bases = draw(st.lists(st.sampled_from(places), min_size=1, max_size=4))
    return PlanContext(
        live=live(size, marks=tuple(marks), starts=tuple(starts)),
        bases=tuple(bases),
        pending=tuple(names[settled:]),
    )


@given(at=plan_contexts())
def test_writes_give_the_transcript(at: PlanContext) -> None:
    """What is written to the transcript gives exactly the line, in both reducers."""
    change = replace_tail(at.live, at.bases[0], label=PERSON, keep=at.pending)

    written = merge_messages(at.live.messages, change.writes)
    assert list(change.live.messages) == written
    assert written == merge_message_update(at.live.messages, change.writes)


@given(at=plan_contexts())
def test_putting_back_what_was_removed_restores_everything(at: PlanContext) -> None:
    """A restored branch gives the same transcript, checkpoints and segments, and no branch."""
    base = at.bases[0]
    back = replace_tail(at.live, base, label=PERSON, keep=at.pending)
    again = replace_tail(back.live, base, [back.branch], label=UNDO, keep=at.pending)

    assert at.live == again.live
    assert [] == again.branch["messages"]
    written = merge_messages(back.live.messages, again.writes)
    assert list(at.live.messages) == written


@given(at=plan_contexts())
def test_several_branches_are_put_back_together(at: PlanContext) -> None:
    """Cuts made one after another, each further back, return in the order they stood in."""
    places = sorted(at.bases, key=at.live.index_of, reverse=True)
    here, branches, written = at.live, [], list(at.live.messages)
    for base in places:
        change = replace_tail(here, base, label=PERSON, keep=at.pending)
        written = merge_messages(written, [change.writes])
        here, branches = change.live, [change.branch, *branches]
    again = replace_tail(here, places[-1], branches, label=UNDO, keep=at.pending)

    assert at.live == again.live
    assert list(at.live.messages) == merge_messages(written, [again.writes])


@given(at=plan_contexts())
def test_nothing_is_lost_by_a_branch(at: PlanContext) -> None:
    """Every message, checkpoint and segment is afterwards on the line or in the branch, once."""
    change = replace_tail(at.live, at.bases[0], label=PERSON, keep=at.pending)

    def names(messages: Any) -> list[Any]:
        return sorted(each.id for each in messages)

    branch, after = change.branch, change.live
    assert names(at.live.messages) == names([*after.messages, *branch["messages"]])
    assert sorted(c["id"] for c in at.live.checkpoints) == sorted(
        c["id"] for c in [*after.checkpoints, *branch["checkpoints"]]
    )
    assert sorted(s["start"] for s in at.live.segments) == sorted(
        s["start"] for s in [*after.segments, *branch["segments"]]
    )
    standing = {message.id for message in after.messages}
    assert standing >= {c["message_id"] for c in after.checkpoints}
    assert standing >= {s["start"] for s in after.segments}


@given(at=plan_contexts())
def test_pending_question_stays_last(at: PlanContext) -> None:
    """A pending question stays at the end after every rollback and restore."""
    back = replace_tail(at.live, at.bases[0], label=PERSON, keep=at.pending)
    again = replace_tail(back.live, at.bases[0], [back.branch], label=UNDO, keep=at.pending)

    for change in (back, again):
        tail = change.live.messages[len(change.live.messages) - len(at.pending) :]
        assert list(at.pending) == [message.id for message in tail]


@given(at=plan_contexts())
def test_branch_ids_follow_from_what_is_removed(at: PlanContext) -> None:
    """A node that runs twice makes the same branch; another one has another id."""
    changes = [
        replace_tail(at.live, base, label=PERSON, keep=at.pending)
        for base in [*at.bases, *at.bases]
    ]

    branches = {change.branch["base"]: change.branch["id"] for change in changes}
    assert [branches[each] for each in at.bases] * 2 == [change.branch["id"] for change in changes]
    assert len(branches) == len(set(branches.values()))
    drafted = Label(kind="person", reason="", created_at="", drafts=(AIMessage("no", id="d"),))
    assert branches[at.bases[0]] != replace_tail(at.live, at.bases[0], label=drafted).branch["id"]


@given(at=plan_contexts(), size=st.integers(min_value=1, max_value=3))
def test_replacing_an_answer_keeps_it(at: PlanContext, size: int) -> None:
    """Messages in the place of a restored branch become a branch, and both can be restored."""
    base = at.bases[0]
    back = replace_tail(at.live, base, label=PERSON, keep=at.pending)
    kept = [m for m in back.live.messages if m.id in at.pending]
    settled = back.live.messages[: len(back.live.messages) - len(kept)]
    newer = LiveBranch(
        messages=(*settled, *transcript(size, "n"), *kept),
        checkpoints=(*back.live.checkpoints, annotation("n0")),
        segments=back.live.segments,
    )
    swapped = replace_tail(newer, base, [back.branch], label=UNDO, keep=at.pending)

    assert at.live == swapped.live
    assert [f"n{index}" for index in range(size)] == [m.id for m in swapped.branch["messages"]]
    assert list(at.live.messages) == merge_messages(newer.messages, swapped.writes)
    returned = replace_tail(swapped.live, base, [swapped.branch], label=UNDO, keep=at.pending)
    assert newer.messages == returned.live.messages
    assert newer.checkpoints == returned.live.checkpoints


def test_a_branch_in_words() -> None:
    """The parts of a rollback that keeps the pending question, as they are."""
    before = live(5, marks=("m1", "m3"), starts=("m0", "m2", "m4"))
    change = replace_tail(before, "m1", label=PERSON, keep=["m4"])

    m = transcript(5)
    assert live(2, marks=("m1",), starts=("m0",)).segments == change.live.segments[:1]
    assert (m[0], m[1], m[4]) == change.live.messages
    assert (annotation("m1"),) == change.live.checkpoints
    assert ["m0", "m4"] == [each["start"] for each in change.live.segments]
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
    here = live(3)

    assert [-1, 0, 1, 2] == [here.index_of(each) for each in (None, "m0", "m1", "m2")]
    assert [None, "m0", "m1", "m2"] == [here.id_at(each) for each in range(-1, 3)]
    assert {"m0": 0, "m1": 1, "m2": 2} == here.positions()


def test_what_stands_already_is_not_put_back_twice() -> None:
    """A message that a host sent again stays where it is; the rest of the branch returns."""
    back = replace_tail(live(6, marks=("m5",)), "m1", label=PERSON)
    again = LiveBranch(messages=(*back.live.messages, transcript(6)[3]))

    change = replace_tail(again, "m3", [back.branch], label=UNDO)

    assert ["m0", "m1", "m3", "m2", "m4", "m5"] == [m.id for m in change.live.messages]
    assert ("m2", "m4", "m5") == change.only
    assert (annotation("m5"),) == change.live.checkpoints
    assert list(change.live.messages) == merge_messages(again.messages, change.writes)


def test_a_part_of_a_branch_returns_among_what_stays() -> None:
    """One message is restored to its place with its checkpoint; the removed ones follow it."""
    back = replace_tail(live(6, marks=("m3", "m5")), "m1", label=PERSON)
    here = LiveBranch(messages=(*back.live.messages, *transcript(2, "n")))

    change = replace_tail(here, "m1", [back.branch], label=UNDO, keep=["n0", "n1"], only=["m3"])

    assert ["m0", "m1", "m3", "n0", "n1"] == [m.id for m in change.live.messages]
    assert ([], ("m3",)) == (change.branch["messages"], change.only)
    assert (annotation("m3"),) == change.live.checkpoints
    assert list(change.live.messages) == merge_messages(here.messages, change.writes)


ORDER = ["m1", "m3", "m5"]


def test_a_name_stays_with_the_checkpoint_that_has_it() -> None:
    """Of several checkpoints with one name the first keeps it."""
    named = [Checkpoint(**{**annotation(each), "name": "home"}) for each in ("m1", "m3", "m5")]
    nameless = [Checkpoint(**{**each, "name": None}) for each in named]

    assert [named[0], *nameless[1:]] == with_returned(named[:1], named[1:], {"m3", "m5"}, ORDER)
    assert [named[1], nameless[2]] == with_returned([], named[1:], {"m3", "m5"}, ORDER)
    assert [named[2]] == with_returned([], named, {"m5"}, ORDER)


def test_a_summary_goes_and_returns_with_its_words() -> None:
    """A compaction refers to messages; without the last of them it shows nothing."""
    told = Topic(id="t", label="Kyoto", summary="Of Kyoto.", summarized_through="m3")
    silent = Topic(id="t", label="Kyoto", summary=None, summarized_through=None)
    here = LiveBranch(messages=tuple(transcript(6)), topics=(told,))

    kept = replace_tail(here, "m3", label=PERSON)
    gone = replace_tail(here, "m1", label=PERSON)
    again = replace_tail(gone.live, "m1", [gone.branch], label=UNDO)

    assert ((told,), (silent,), (told,)) == (kept.live.topics, gone.live.topics, again.live.topics)
    assert ("topics" not in kept.branch, [told]) == (True, gone.branch["topics"])


SEALED = "m99"


def behind(at: LiveBranch) -> LiveBranch:
    """The same line, its older part offloaded."""
    old = {**annotation(SEALED), "offloaded": True}
    return replace(at, before=SEALED, checkpoints=(old, *at.checkpoints))


@given(plan_contexts())
def test_messages_after_the_offloaded_part_are_removed_and_restored(at: PlanContext) -> None:
    """Cuts and what they bring back are those of a line that begins here, but for its start."""
    base = at.bases[0]
    plain = replace_tail(at.live, base, label=PERSON, keep=at.pending)
    there = replace_tail(behind(at.live), base or SEALED, label=PERSON, keep=at.pending)
    assert plain.writes == there.writes
    assert behind(plain.live) == there.live
    assert base or SEALED == there.branch["base"]
    assert {**plain.branch, "id": "", "base": ""} == {**there.branch, "id": "", "base": ""}
    back = replace_tail(there.live, base or SEALED, [there.branch], label=UNDO, keep=at.pending)
    assert behind(at.live).messages == back.live.messages
    assert {each["id"] for each in behind(at.live).checkpoints} == {
        each["id"] for each in back.live.checkpoints
    }


def test_the_place_before_the_first_is_behind_what_is_offloaded() -> None:
    """The place has the name of the last message that is offloaded, and no other place is there."""
    at = behind(live(2))
    assert -1 == at.index_of(SEALED)
    assert SEALED == at.id_at(-1)
    assert [0, 1] == [at.index_of(each) for each in ("m0", "m1")]


@pytest.mark.parametrize("base", [None, "m5"], ids=["the record's beginning", "an older message"])
def test_a_place_in_the_offloaded_part_is_refused(base: str | None) -> None:
    """A rollback to that place needs the messages loaded first: nothing is removed instead."""
    with pytest.raises(ConflictError, match=repr(base)):
        replace_tail(behind(live(4)), base, label=PERSON)


def test_a_checkpoint_in_the_offloaded_part_stays() -> None:
    """A branch takes the checkpoints of what it takes, and no other."""
    change = replace_tail(behind(live(4, marks=("m1", "m3"))), SEALED, label=PERSON)
    assert [f"cp-{SEALED}"] == [each["id"] for each in change.live.checkpoints]
    assert ["cp-m1", "cp-m3"] == [each["id"] for each in change.branch["checkpoints"]]


def test_a_summary_returns_when_its_messages_are_offloaded_by_now() -> None:
    """The summary of a topic's offloaded part is the newest one, not that of the branch."""
    old = Topic(id="t-m0", label="cats", summary="of cats", summarized_through="m1")
    at = replace(live(4, starts=("m0", "m2")), topics=(old,))
    change = replace_tail(at, None, label=PERSON)
    pages: Topic = {**change.live.topics[0], "offloaded": "of older cats", "pages": ["p"]}
    back = replace_tail(replace(change.live, topics=(pages,)), None, [change.branch], label=UNDO)
    assert ({**old, "offloaded": "of older cats", "pages": ["p"]},) == back.live.topics
