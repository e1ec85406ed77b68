"""Going back: where to, and what becomes of the state."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
)
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore

from unsay.effects import drive
from unsay.errors import (
    AmbiguousCheckpointError,
    ConflictError,
    InputError,
    NothingToRedoError,
    NothingToUndoError,
    UnknownCheckpointError,
)
from unsay.history.branch import Label, LiveBranch, list_stored_branches
from unsay.history.checkpoints import make_checkpoint
from unsay.judging.topic_detector import LexicalDetector
from unsay.messages.annotations import DOCUMENT, notice
from unsay.prompts.catalogue import Texts
from unsay.runtime import Scope, Services
from unsay.settings.settings import load_settings
from unsay.state import State, Update, merge_messages
from unsay.transcript.live import (
    OPERATIONS,
    count_changes,
    count_turns,
    go_back,
    last_operation,
    last_undone,
    live_branch,
    load_branches,
    place_name,
    redo_last,
    redoable,
    target_of,
    target_of_context,
    target_of_drafts,
    turns_typed,
    undo_last,
)
from unsay.transcript.record import add_note, write_ahead
from unsay.types import Checkpoint, Note, Operation, Segment, Topic, Undone

NOW = "2026-01-01T12:00:00+00:00"
PERSON = Label(kind="person", reason="/rollback", created_at=NOW)


def scope(store: BaseStore | None = None, **settings: Any) -> Scope:
    """What a move may use: a clock, settings, and perhaps a store."""
    services = Services(
        settings=load_settings(settings),
        model_like=None,
        judge_like=None,
        summarizer_like=None,
        title_like=None,
        detector=LexicalDetector(),
        clock=lambda: datetime(2026, 1, 1, 12, tzinfo=UTC),
    )
    return Scope(
        services=services,
        settings=services.settings,
        config={},
        store=store,
        thread_id="t",
        stream_writer=lambda _: None,
    )


def annotation(
    message_id: str, *, name: str | None = None, score: float | None = 0.9
) -> Checkpoint:
    """A checkpoint at an answer of `talk`."""
    return make_checkpoint(
        message_id=message_id,
        turn=int(message_id[1:]) if message_id[1:].isdecimal() else 1,
        score=score,
        topic="",
        reason="score",
        created_at=NOW,
        name=name,
    )


def transcript_of(turns: int, *, pending: bool = False) -> list[AnyMessage]:
    """Answered questions, and perhaps one that waits."""
    messages: list[AnyMessage] = []
    for turn in range(1, turns + 1):
        messages += [
            HumanMessage(f"Question {turn}?", id=f"q{turn}"),
            AIMessage(f"Answer {turn}.", id=f"a{turn}"),
        ]
    return [*messages, HumanMessage("Pending?", id="p")] if pending else messages


def live(messages: Sequence[AnyMessage], *marks: str) -> LiveBranch:
    """A transcript with checkpoints at these messages."""
    return LiveBranch(
        messages=tuple(messages), checkpoints=tuple(annotation(mark) for mark in marks)
    )


def test_a_live_branch_is_the_part_of_a_state_that_changes() -> None:
    """The transcript, the checkpoints and the segments, whichever there are."""
    segments = [Segment(topic_id="t1", start="q1")]
    state = State(messages=transcript_of(1), checkpoints=[annotation("a1")], segments=segments)

    assert LiveBranch(messages=()) == live_branch(State())
    assert LiveBranch(
        messages=tuple(transcript_of(1)), checkpoints=(annotation("a1"),), segments=tuple(segments)
    ) == live_branch(state)


@pytest.mark.parametrize(
    ("marks", "base", "failures", "target"),
    [
        pytest.param([], "a2", 1, "a2", id="no checkpoint: the turn's start"),
        pytest.param([], None, 1, None, id="first turn"),
        pytest.param(["a1"], "a2", 1, "a1", id="the last checkpoint"),
        pytest.param(["a1", "a2"], "a2", 1, "a2", id="at the turn's start"),
        pytest.param(["a1", "a2"], "a2", 2, "a1", id="the second failure goes further"),
        pytest.param(["a1", "a2"], "a1", 3, "a1", id="no older one: stays"),
        pytest.param(["a2"], "a2", 2, "a2", id="the only one: stays"),
        pytest.param(["a3"], "a2", 1, "a2", id="never forwards"),
        pytest.param([], "a2", 5, "a2", id="many failures without checkpoints"),
        pytest.param(["gone"], "a2", 1, "a2", id="a checkpoint off the transcript"),
    ],
)
def test_a_failed_draft_goes_back_ever_further(
    marks: list[str], base: str | None, failures: int, target: str | None
) -> None:
    """To the last checkpoint first, then to older ones, as far as there are any."""
    assert target == target_of_drafts(live(transcript_of(3), *marks), base, failures)


@given(
    turns=st.integers(min_value=0, max_value=5),
    marks=st.sets(st.integers(min_value=1, max_value=5)),
    failures=st.integers(min_value=1, max_value=4),
)
def test_targets_are_never_ahead(turns: int, marks: set[int], failures: int) -> None:
    """Failure after failure each target is a place in the transcript, at or before the last one."""
    current_live = live(
        transcript_of(turns), *(f"a{turn}" for turn in sorted(marks) if turn <= turns)
    )
    base = current_live.id_at(len(current_live.messages) - 1)
    positions = [current_live.index_of(base)]
    for failure in range(1, failures + 1):
        base = target_of_drafts(current_live, base, failure)
        positions.append(current_live.index_of(base))

    assert sorted(positions, reverse=True) == positions


@pytest.mark.parametrize(
    ("marks", "start", "target"),
    [
        pytest.param([], 2, "a1", id="no checkpoint: just before"),
        pytest.param([], 0, None, id="the first exchange"),
        pytest.param(["a1"], 4, "a1", id="the last checkpoint before"),
        pytest.param(["a1", "a2"], 2, "a1", id="none inside"),
        pytest.param(["a3"], 2, "a1", id="never forwards"),
    ],
)
def test_a_rejected_exchange_goes_before_itself(
    marks: list[str], start: int, target: str | None
) -> None:
    """To the last checkpoint before it, else to where it began."""
    assert target == target_of_context(live(transcript_of(3), *marks), start)


DOCUMENTED = [
    *transcript_of(1),
    HumanMessage("Gold.", id="d1", name=DOCUMENT),
    HumanMessage("Silver.", id="d2", name=DOCUMENT),
    *transcript_of(2)[2:],
]
TWICE = [*transcript_of(1), HumanMessage("One more thing:", id="q0"), *transcript_of(2)[2:]]
COMMANDED = [*transcript_of(1), HumanMessage("/help", id="c"), notice("Help.", "n", ["c"])]


@pytest.mark.parametrize(
    ("transcript", "marks", "pending", "target"),
    [
        pytest.param(transcript_of(2), [], [], "a1", id="no checkpoint: before the last turn"),
        pytest.param(transcript_of(1), [], [], None, id="before the only turn"),
        pytest.param(
            transcript_of(2, pending=True), [], ["p"], "a1", id="a question that waits stays"
        ),
        pytest.param(transcript_of(3), ["a1"], [], "a1", id="the last checkpoint"),
        pytest.param(transcript_of(2), ["a1", "a2"], [], "a1", id="not where it stands already"),
        pytest.param(
            transcript_of(1), ["a1"], [], None, id="only where it stands: the turn's beginning"
        ),
        pytest.param(COMMANDED, [], [], None, id="commands are no turns"),
        pytest.param(DOCUMENTED, [], [], "a1", id="documents go with their question"),
        pytest.param(TWICE, [], [], "a1", id="a question of two messages goes whole"),
        pytest.param([AIMessage("Hi!", id="g")], [], [], None, id="a greeting alone"),
        pytest.param([*transcript_of(1), AIMessage("!", id="x")], [], [], None, id="two answers"),
    ],
)
def test_a_person_goes_back_by_default(
    transcript: list[AnyMessage], marks: list[str], pending: list[str], target: str | None
) -> None:
    """To the last checkpoint before the newest answer, without one before the last turn."""
    assert target == target_of(live(transcript, *marks), pending=pending)


def test_a_person_goes_where_they_say() -> None:
    """A name, an id, the beginning of an id."""
    marks = (annotation("a1", name="lunch"), annotation("a2"))
    branch = LiveBranch(messages=tuple(transcript_of(2)), checkpoints=marks)

    targets = [
        target_of(branch, target) for target in ("lunch", marks[1]["id"], marks[1]["id"][:8])
    ]
    assert ["a1", "a2", "a2"] == targets
    with pytest.raises(UnknownCheckpointError, match="'dinner'"):
        target_of(branch, "dinner")
    with pytest.raises(AmbiguousCheckpointError, match="'cp-'"):
        target_of(branch, "cp-")


@pytest.mark.parametrize(
    ("transcript", "pending"),
    [
        pytest.param([], [], id="nothing said"),
        pytest.param(transcript_of(0, pending=True), ["p"], id="a first question waits"),
        pytest.param(COMMANDED[2:], [], id="a command alone"),
    ],
)
def test_there_may_be_nothing_to_go_back_from(
    transcript: list[AnyMessage], pending: list[str]
) -> None:
    """An empty conversation is reported."""
    with pytest.raises(NothingToUndoError, match="no turns to roll back yet"):
        target_of(live(transcript), pending=pending)


@pytest.mark.parametrize(
    ("transcript", "turns", "pending", "target"),
    [
        pytest.param(transcript_of(3), 1, [], "a2", id="one"),
        pytest.param(transcript_of(3), 3, [], None, id="all"),
        pytest.param(
            transcript_of(3, pending=True), 2, ["p"], "a1", id="a question that waits is none"
        ),
        pytest.param(
            transcript_of(3, pending=True), 1, [], "a2", id="an unanswered one goes along"
        ),
        pytest.param(DOCUMENTED, 1, [], "a1", id="documents go with their question"),
        pytest.param(TWICE, 1, [], "a1", id="a question of two messages goes whole"),
        pytest.param([*COMMANDED, *transcript_of(2)[2:]], 1, [], "a1", id="commands before it go"),
        pytest.param([*COMMANDED, *transcript_of(2)[2:]], 2, [], None, id="commands between go"),
        pytest.param(
            [SystemMessage("Hi", id="s"), *transcript_of(1)], 1, [], "s", id="the preamble stays"
        ),
        pytest.param(
            [AIMessage("Hi!", id="g"), *transcript_of(1)], 2, [], None, id="a greeting is a turn"
        ),
    ],
)
def test_so_many_turns_back(
    transcript: list[AnyMessage], turns: int, pending: list[str], target: str | None
) -> None:
    """To before the question of the first turn that goes."""
    assert target == target_of(live(transcript), None, turns, pending)


@pytest.mark.parametrize(
    ("turns", "error"),
    [
        pytest.param(3, NothingToUndoError, id="too many"),
        pytest.param(0, InputError, id="none"),
        pytest.param(1.0, InputError, id="no whole number"),
    ],
)
def test_turns_that_are_not_there(turns: Any, error: type[Exception]) -> None:
    """The error says how many were asked for."""
    with pytest.raises(error, match=f"^{turns!r} "):
        target_of(live(transcript_of(2)), None, turns)


@pytest.mark.parametrize(
    ("argument", "target"),
    [
        pytest.param("", "a2", id="nothing"),
        pytest.param("2", "a1", id="a number"),
        pytest.param("２", "a1", id="a wide number"),
        pytest.param("3", "a2", id="a checkpoint's name"),
        pytest.param("lunch", "a1", id="another name"),
    ],
)
def test_what_is_typed_behind_a_rollback(argument: str, target: str) -> None:
    """A number is turns, unless a checkpoint is named so."""
    marks = (annotation("a1", name="lunch"), annotation("a2", name="3"))
    branch = LiveBranch(messages=tuple(transcript_of(3)), checkpoints=marks)

    turns = turns_typed(branch, argument)

    assert target == target_of(branch, (argument or None) if turns is None else None, turns)


def test_one_place_is_ordered() -> None:
    """A host gives a checkpoint or a number of turns, not both."""
    current_live = live(transcript_of(3), "a1")

    assert ["a1", "a2"] == [target_of(current_live, None, None), target_of(current_live, None, 1)]
    with pytest.raises(InputError, match=r"checkpoint \('x'\).*turns \(1\), not both"):
        target_of(current_live, "x", 1)


def test_an_undo_takes_the_newest_step() -> None:
    """Without one it says so."""
    steps = [Operation(kind="turn", base=item, branches=[]) for item in ("a1", "a2")]

    assert steps[1] == last_operation(steps)
    with pytest.raises(NothingToUndoError, match="no step left to undo"):
        last_operation([])


@pytest.mark.parametrize(
    ("limit", "limit_reached"),
    [pytest.param(20, 3, id="room"), pytest.param(2, 2, id="full")],
)
def test_a_note_says_what_a_node_did(
    limit: int, limit_reached: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest lines, without a word of the conversation."""
    monkeypatch.setattr("unsay.transcript.record.HISTORY_LIMIT", limit)
    line_before = Note(node="n", event="e", description="d", turn=1, score=None, topic="", at="")
    state: Any = {
        "state_history": [line_before] * 2,
        "turn": {"number": 4},
        "current_topic": "Kyoto",
    }
    new = Note(
        node="rollback",
        event="draft",
        description="Low quality: the draft was removed.",
        turn=4,
        score=0.1,
        topic="Kyoto",
        at=scope().now(),
    )
    notes = add_note(state, scope(), "rollback", "draft", 0.1)

    assert [line_before, line_before, new][3 - limit_reached :] == notes
    assert [{**new, "turn": 0, "topic": ""}] == add_note(State(), scope(), "rollback", "draft", 0.1)


@pytest.mark.parametrize(
    ("base", "name"),
    [
        pytest.param(None, "the start of the conversation", id="start"),
        pytest.param("a1", "checkpoint lunch", id="a named checkpoint"),
        pytest.param("a2", f"checkpoint {annotation('a2')['id']}", id="an unnamed checkpoint"),
        pytest.param("a3", "the answer to “Question 3?”", id="an answer"),
        pytest.param("q3", "“Question 3?”", id="a question"),
        pytest.param("gone", "“”", id="a message that is gone"),
    ],
)
def test_a_place_has_a_name(base: str | None, name: str) -> None:
    """What a person would call it."""
    state = State(
        messages=transcript_of(3), checkpoints=[annotation("a1", name="lunch"), annotation("a2")]
    )

    assert name == place_name(state, base, Texts("en"))


def test_counts_are_of_the_conversation() -> None:
    """What goes and what comes, without notices, commands and what merely moves to the end."""
    writes = [
        *(RemoveMessage(id=item) for item in ("a1", "c", "n", "q1")),
        AIMessage("back", id="b"),
        HumanMessage("Question 1?", id="q1"),
    ]

    assert (1, 1) == count_changes(COMMANDED, writes)
    assert (0, 0) == count_changes(COMMANDED, [])
    assert [0, 1, 3] == [
        count_turns(item) for item in ([], COMMANDED, transcript_of(3, pending=True))
    ]


def full(*, pending: bool = False) -> State:
    """Three turns on two topics, all marked."""
    return State(
        messages=transcript_of(3, pending=pending),
        checkpoints=[
            annotation("a1", score=0.8),
            annotation("a2", name="lunch", score=0.7),
            annotation("a3"),
        ],
        segments=[Segment(topic_id="x", start="q1"), Segment(topic_id="y", start="q3")],
        topics=[
            Topic(id="x", label="Kyoto", summary="Of Kyoto.", summarized_through="a2"),
            Topic(id="y", label="Bread", summary=None, summarized_through=None),
        ],
        current_topic="Bread",
        quality_score=0.9,
        operations=[Operation(kind="turn", base="a2", branches=[])],
    )


def after(state: State, update: Update) -> State:
    """The state with an update in it, as the graph would have it."""
    options: State = {**state, **update}
    options["messages"] = merge_messages(state["messages"], [update.get("messages", [])])
    return options


STORES = pytest.mark.parametrize("stored", [True, False], ids=["a store", "no store"])


@STORES
def test_a_person_goes_back(*, stored: bool) -> None:
    """Record, checkpoints, topics and score are as they were there; the rest is kept."""
    store = InMemoryStore() if stored else None
    state = full(pending=True)
    current_scope = scope(store)
    update = go_back(state, current_scope, "a1", PERSON, ["p"])
    drive(write_ahead(state, current_scope, update))
    final_state = after(state, update)
    (ref,) = update["branches"]

    assert ["q1", "a1", "p"] == [message.id for message in final_state["messages"]]
    assert [annotation("a1", score=0.8)] == final_state["checkpoints"]
    assert [Segment(topic_id="x", start="q1")] == final_state["segments"]
    assert [
        Topic(id="x", label="Kyoto", summary=None, summarized_through=None),
        state["topics"][1],
    ] == final_state["topics"]
    assert ("Kyoto", 0.8) == (final_state["current_topic"], final_state["quality_score"])
    assert [
        *state["operations"],
        Operation(kind="rollback", base="a1", branches=[ref["id"]]),
    ] == final_state["operations"]
    assert (4, "a1", "/rollback") == (ref["size"], ref["base"], ref["reason"])
    (body,) = [ref["body"]] if store is None else drive(list_stored_branches(store, "t"))
    assert transcript_of(3)[2:] == body["messages"]
    assert stored == ("body" not in ref)


@STORES
def test_an_undo_brings_it_all_back(*, stored: bool) -> None:
    """What a rollback took returns before the pending question, and the step is used up."""
    current_scope = scope(InMemoryStore() if stored else None)
    state = full(pending=True)
    restored_state = after(state, go_back(state, current_scope, "a1", PERSON, ["p"]))
    second_state = after(
        restored_state, drive(undo_last(restored_state, current_scope, ["p"], "/undo"))
    )

    for key in ("messages", "checkpoints", "segments", "operations", "current_topic"):
        assert state[key] == second_state[key]  # type: ignore[literal-required]
    assert 0.9 == second_state["quality_score"]


@STORES
def test_an_undo_takes_a_turn_back(*, stored: bool) -> None:
    """A turn is removed and kept as a separate branch."""
    current_scope = scope(InMemoryStore() if stored else None)
    state = full()
    undone = after(state, drive(undo_last(state, current_scope, [], "/undo")))

    assert transcript_of(2) == undone["messages"]
    assert [] == undone["operations"]
    assert [("undo", 2, "a2", current_scope.now())] == [
        (ref["kind"], ref["size"], ref["base"], ref["created_at"]) for ref in undone["branches"]
    ]
    with pytest.raises(NothingToUndoError):
        drive(undo_last(undone, current_scope, [], "/undo"))


@pytest.mark.parametrize("kind", ["draft", "context"])
def test_only_a_persons_order_can_be_undone_by_itself(kind: Any) -> None:
    """What the graph takes back on its own belongs to its turn."""
    cause = Label(kind=kind, reason="", created_at=NOW)

    assert "operations" not in go_back(full(), scope(), "a1", cause, [])


def test_going_nowhere_changes_nothing() -> None:
    """A rollback to the current position is no step and makes no branch."""
    state = full()
    update = go_back(state, scope(InMemoryStore()), "a3", PERSON, [])

    assert ([], []) == (update["messages"], update["branches"])
    assert "operations" not in update


def test_a_rollback_to_the_start_forgets_topic_and_score() -> None:
    """An empty transcript has neither."""
    final_state = after(full(), go_back(full(), scope(), None, PERSON, []))

    assert ([], [], [], "", None) == (
        final_state["messages"],
        final_state["checkpoints"],
        final_state["segments"],
        final_state["current_topic"],
        final_state["quality_score"],
    )


def test_steps_are_bounded() -> None:
    """The oldest step is forgotten past the limit."""
    state = full()
    state["operations"] = [
        Operation(kind="turn", base=f"b{i}", branches=[]) for i in range(OPERATIONS)
    ]
    update = go_back(state, scope(), "a1", PERSON, [])

    assert OPERATIONS == len(update["operations"])
    assert ("b1", "rollback") == (update["operations"][0]["base"], update["operations"][-1]["kind"])


def test_a_branch_that_is_no_longer_kept_is_reported() -> None:
    """Without a store the oldest branches go; an undo that needs one raises an error."""
    state = full()
    state["operations"] = [Operation(kind="rollback", base="a3", branches=["branch-gone"])]

    for current_scope in (scope(), scope(InMemoryStore())):
        with pytest.raises(ConflictError, match="'branch-gone' is no longer kept: without a store"):
            drive(undo_last(state, current_scope, [], "/undo"))


@STORES
@given(positions=st.lists(st.integers(min_value=0, max_value=7), min_size=1, max_size=5))
def test_any_way_back_can_be_gone_again(positions: list[int], *, stored: bool) -> None:
    """After several rollbacks and as many undos, the transcript is as before."""
    current_scope = scope(InMemoryStore() if stored else None)
    state = full(pending=True)
    state["operations"] = []
    before = state
    for position in positions:
        base = live_branch(state).id_at(min(position, len(state["messages"]) - 1) - 1)
        state = after(state, go_back(state, current_scope, base, PERSON, ["p"]))
    while state["operations"]:
        state = after(state, drive(undo_last(state, current_scope, ["p"], "/undo")))

    assert before["messages"] == state["messages"]
    assert before["checkpoints"] == state["checkpoints"]
    assert before["segments"] == state["segments"]
    assert "Bread" == state["current_topic"]


def test_branches_are_fetched_in_the_order_asked_for() -> None:
    """Those the state carries and those the store keeps, together."""
    store = InMemoryStore()
    state = full()
    current_scope = scope(store)
    first = go_back(state, current_scope, "a2", PERSON, [])
    drive(write_ahead(state, current_scope, first))
    second = go_back(state, scope(), "a1", PERSON, [])
    refs = [*first["branches"], *second["branches"]]
    names = [ref["id"] for ref in refs]

    branches = drive(load_branches(names[::-1], scope(store), refs))

    assert names[::-1] == [branch["id"] for branch in branches]
    assert [4, 2] == [len(branch["messages"]) for branch in branches]


@STORES
@given(
    positions=st.lists(st.integers(min_value=0, max_value=7), min_size=1, max_size=5),
    undo_count=st.integers(min_value=1, max_value=5),
)
def test_redo_is_the_way_back_of_undo(
    positions: list[int], undo_count: int, *, stored: bool
) -> None:
    """N undos and N redos restore the transcript exactly, within the bound."""
    current_scope = scope(InMemoryStore() if stored else None)
    state = full(pending=True)
    for position in positions:
        base = live_branch(state).id_at(min(position, len(state["messages"]) - 1) - 1)
        state = after(state, go_back(state, current_scope, base, PERSON, ["p"]))
    before = state
    steps = min(undo_count, len(state["operations"]))
    for _ in range(steps):
        state = after(state, drive(undo_last(state, current_scope, ["p"], "/undo")))
    assert steps == len(redoable(state, ["p"]))
    for _ in range(steps):
        state = after(state, drive(redo_last(state, current_scope, ["p"], "/redo")))

    for key in ("messages", "checkpoints", "segments", "topics", "current_topic"):
        assert before[key] == state[key]  # type: ignore[literal-required]
    assert (len(before["operations"]), []) == (len(state["operations"]), state["redo"])
    with pytest.raises(NothingToRedoError, match="nothing to redo"):
        drive(redo_last(state, current_scope, ["p"], "/redo"))


def test_what_was_undone_is_redone_only_where_it_was() -> None:
    """Once the transcript ends elsewhere nothing is redone, and undo starts over."""
    current_scope = scope(InMemoryStore())
    state = full()
    undone = after(state, drive(undo_last(state, current_scope, [], "undo")))
    went_on: State = {**undone, "messages": [*undone["messages"], AIMessage("Put in.", id="x")]}

    assert (1, 0) == (len(redoable(undone, [])), len(redoable(went_on, [])))
    with pytest.raises(NothingToRedoError):
        last_undone(went_on, [])


def test_steps_that_were_undone_are_bounded() -> None:
    """As many as can be undone, the newest."""
    current_scope = scope(InMemoryStore())
    state = full()
    state["redo"] = [
        Undone(kind="turn", base=f"b{i}", branches=[], at="a3") for i in range(OPERATIONS)
    ]
    undone = drive(undo_last(state, current_scope, [], "undo"))

    assert (OPERATIONS, "b1") == (len(undone["redo"]), undone["redo"][0]["base"])


def test_an_unanswered_turn_is_not_redone() -> None:
    """Its words are said again instead."""
    current_scope = scope(InMemoryStore())
    state = full(pending=True)
    state["operations"] = [Operation(kind="turn", base="a3", branches=[])]

    undone = drive(undo_last(state, current_scope, [], "undo"))

    assert ([], []) == (undone["redo"], undone["operations"])
