"""The transcript again, from what happened."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.store.memory import InMemoryStore

from tests.events.events_kit import MARKS, SAMPLES, STAMP, as_stored, events_of
from unsay.effects import drive
from unsay.errors import EventConflictError, EventLogGapError, TranscriptError
from unsay.events import event_types as ev
from unsay.events import replay
from unsay.events.event_types import Stamp, distinct, make_event
from unsay.history.branch import Label, LiveBranch, replace_tail
from unsay.history.checkpoints import make_checkpoint
from unsay.messages.annotations import annotate
from unsay.storage.event_log import head_of, make_page, put_pages, read_events
from unsay.storage.pages import EMPTY
from unsay.types import Checkpoint, Event, StoredBranch

LABEL = Label(kind="person", reason="go back", created_at="2026-01-01T00:00:00+00:00")


@dataclass(kw_only=True)
class Model:
    """A plain list of messages, with the events of all operations on it."""

    draw: Callable[[Any], Any]
    live: LiveBranch = field(default_factory=lambda: LiveBranch(messages=()))
    branches: dict[str, StoredBranch] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    made: int = 0

    @property
    def stamp(self) -> Stamp:
        """Where the next events stand."""
        return Stamp(thread_id="t", at="2026", turn_id="q", after=len(self.events))

    def log(self, *events: Event) -> None:
        """These things happened."""
        self.events += distinct(events)

    def name(self) -> str | None:
        """A place in the transcript."""
        return self.draw(st.sampled_from([None, *(m.id for m in self.live.messages)]))

    def new(self) -> AnyMessage:
        """A message that is not there yet."""
        self.made += 1
        return self.draw(st.sampled_from(SAMPLES)).model_copy(update={"id": f"m{self.made}"})

    def keep(self, base: str | None) -> list[str]:
        """Some of the messages after a place."""
        tail = self.live.messages[self.live.index_of(base) + 1 :]
        return [m.id or "" for m in tail if self.draw(st.booleans())]

    def say(self) -> None:
        """A message is added."""
        message = self.new()
        self.live = LiveBranch(
            messages=(*self.live.messages, message), checkpoints=self.live.checkpoints
        )
        self.log(*events_of(message, stamp=self.stamp))

    def rewrite(self) -> None:
        """A message is replaced by another with its id."""
        if name := self.name():
            message = self.new().model_copy(update={"id": name})
            self.replace(name, message)
            self.log(*events_of(message, stamp=self.stamp))

    def judge(self) -> None:
        """A message is stamped."""
        if name := self.name():
            annotation = self.draw(MARKS)
            message = self.live.messages[self.live.index_of(name)]
            plain = {k: v for k, v in message.response_metadata.items() if k != "unsay"}
            if isinstance(message.response_metadata.get("unsay"), dict):
                annotation = {**message.response_metadata["unsay"], **annotation}
                plain = message.response_metadata
            stamped_message = message.model_copy(update={"response_metadata": plain})
            stamped_message = annotate(stamped_message, **annotation)
            self.replace(name, stamped_message)
            self.log(
                make_event(
                    *ev.verdict(name, stamped_message.response_metadata["unsay"]), stamp=self.stamp
                )
            )

    def replace(self, name: str, message: AnyMessage) -> None:
        """Another message replaces one."""
        new = tuple(message if m.id == name else m for m in self.live.messages)
        self.live = LiveBranch(messages=new, checkpoints=self.live.checkpoints)

    def checkpoint(self) -> None:
        """A good point is marked."""
        name = self.name()
        if name and all(checkpoint["message_id"] != name for checkpoint in self.live.checkpoints):
            free = all(checkpoint["name"] != "home" for checkpoint in self.live.checkpoints)
            annotation = make_checkpoint(
                message_id=name,
                turn=1,
                score=None,
                topic="",
                reason="order",
                created_at=f"{len(self.events):04}" if self.draw(st.booleans()) else "",
                name="home" if free and self.draw(st.booleans()) else None,
            )
            self.live = LiveBranch(
                messages=self.live.messages, checkpoints=(*self.live.checkpoints, annotation)
            )
            self.log(make_event(*ev.checkpoint(annotation), stamp=self.stamp))

    def go_back(self) -> None:
        """A rollback, with or without a draft that never was in the transcript."""
        base = self.name()
        keep = self.keep(base)
        drafts = (self.new(),) if self.draw(st.booleans()) else ()
        for draft in drafts:
            self.log(*events_of(draft, stamp=self.stamp))
        label = Label(kind="draft", reason="bad", created_at="2026", drafts=drafts)
        change = replace_tail(self.live, base, label=label, keep=keep)
        self.live = change.live
        self.branches[change.branch["id"]] = change.branch
        ids = [m.id or "" for m in drafts]
        self.log(
            make_event(
                *ev.rollback(
                    change.branch["id"],
                    "draft",
                    base,
                    removed=[*(m.id for m in change.branch["messages"]), *ids],
                    keep=keep,
                    drafts=ids,
                    reason="bad",
                ),
                stamp=self.stamp,
            )
        )

    def put_back(self) -> None:
        """A restore of one branch or two, whole or in part, into any transcript."""
        base = self.name()
        keep = self.keep(base)
        chosen_branches = self.draw(st.permutations(list(self.branches.values())))[:2]
        ids = [m.id or "" for branch in chosen_branches for m in branch["messages"]]
        chosen_ids = [name for name in ids if self.draw(st.booleans())]
        restored_ids = chosen_ids if self.draw(st.booleans()) else None
        change = replace_tail(
            self.live, base, chosen_branches, label=LABEL, keep=keep, only=restored_ids
        )
        self.live = change.live
        self.branches[change.branch["id"]] = change.branch
        self.log(
            make_event(
                *ev.rollback(
                    change.branch["id"],
                    "person",
                    base,
                    restored=change.restored,
                    removed=[m.id for m in change.branch["messages"]],
                    keep=keep,
                    only=change.only,
                    reason="go back",
                ),
                stamp=self.stamp,
            )
        )

    def fork(self) -> None:
        """The thread becomes another's copy, as a fork's event log begins."""
        live = self.live
        self.log(
            make_event(*ev.fork(live.messages, live.checkpoints, source="t"), stamp=self.stamp)
        )

    def edit(self) -> None:
        """The host changes the transcript."""
        stay = [m for m in self.live.messages if self.draw(st.booleans())]
        new = (*stay, self.new()) if self.draw(st.booleans()) else tuple(stay)
        names = {m.id for m in new}
        marks = tuple(c for c in self.live.checkpoints if c["message_id"] in names)
        self.live = LiveBranch(messages=new, checkpoints=marks)
        self.log(make_event(*ev.edit(new), stamp=self.stamp))

    def remark(self) -> None:
        """Something that leaves the transcript as it is."""
        self.log(
            make_event(*ev.planner_note("again"), stamp=self.stamp),
            make_event(*ev.planner_note("again"), stamp=self.stamp),
            make_event(*ev.recall([], None), stamp=self.stamp),
        )


ACTS = (
    "say",
    "say",
    "say",
    "rewrite",
    "judge",
    "checkpoint",
    "go_back",
    "put_back",
    "fork",
    "edit",
    "remark",
)


@st.composite
def histories(draw: Any) -> Model:
    """Anything that can happen to a transcript."""
    model = Model(draw=draw)
    for act in draw(st.lists(st.sampled_from(ACTS), max_size=14)):
        getattr(model, act)()
    return model


@given(model=histories())
def test_a_replay_is_the_record_byte_for_byte(model: Model) -> None:
    """After any operations, the events give the same messages, checkpoints and branches."""
    found_replay = replay(model.events)

    assert as_stored(model.live.messages) == as_stored(found_replay.messages)
    assert sorted(c["id"] for c in model.live.checkpoints) == sorted(
        c["id"] for c in found_replay.checkpoints
    )
    assert set(model.branches) == set(found_replay.branches)
    for name, branch in model.branches.items():
        assert as_stored([*branch["messages"], *branch["drafts"]]) == as_stored(
            found_replay.branches[name]
        )


@given(model=histories(), data=st.data())
def test_a_replay_from_the_store_is_the_record(model: Model, data: st.DataObject) -> None:
    """The same holds for events that were written on pages and read again."""
    store = InMemoryStore()
    head = EMPTY
    events_left = list(model.events)
    while events_left:
        size = data.draw(st.integers(1, len(events_left)))
        page = make_page(head, events_left[:size])
        drive(_one(put_pages(store, "t", [page])))
        head = head_of(page)
        events_left = events_left[size:]

    assert as_stored(model.live.messages) == as_stored(
        replay(drive(read_events(store, "t", head))).messages
    )


def _one(call: Any) -> Any:
    return (yield from call)


@given(model=histories(), data=st.data())
def test_any_prefix_twice_changes_nothing(model: Model, data: st.DataObject) -> None:
    """Events that a retry sent again count once."""
    size = data.draw(st.integers(0, len(model.events)))
    copies = [Event(**event) for event in model.events[:size]]
    second_copies = [*copies, *model.events, *copies]

    assert as_stored(model.live.messages) == as_stored(replay(second_copies).messages)


@given(model=histories(), data=st.data())
def test_a_message_that_lost_a_piece_is_refused(model: Model, data: st.DataObject) -> None:
    """Without one of its events a message is an error, never another message."""
    pieces = [e for e in model.events if e["type"] in ("thinking", "tool_call")]
    if pieces:
        lost_piece = data.draw(st.sampled_from(pieces))

        with pytest.raises(EventLogGapError):
            replay([event for event in model.events if event is not lost_piece])


def person(text: str, name: str) -> list[Event]:
    """A question."""
    return events_of(HumanMessage(text, id=name), stamp=STAMP)


def rollback_event(base: str | None, **data: Any) -> Event:
    """A rollback."""
    options = {"removed": ["b"], "reason": "", **data}
    return make_event(*ev.rollback("x", "person", base, **options), stamp=STAMP)


MARK = Checkpoint(
    id="cp",
    name=None,
    message_id="nowhere",
    turn=1,
    score=None,
    topic="",
    reason="order",
    created_at="",
)
CALLER = AIMessage("", id="b", tool_calls=[{"name": "add", "args": {}, "id": "c1"}])
DEEP = AIMessage([{"type": "thinking", "thinking": "hm"}], id="b")
JUDGED = annotate(AIMessage("4", id="b"), outcome="passed")
GAPS = {
    "rollback to an unknown base": [*person("hi", "b"), rollback_event("nowhere")],
    "rollback of what is not there": [*person("hi", "a"), rollback_event("a")],
    "rollback of more than was told": [
        *person("hi", "a"),
        *person("hi", "b"),
        rollback_event(None),
    ],
    "restore of an unknown cut": [
        *person("hi", "a"),
        make_event(
            *ev.rollback("y", "person", "a", restored=["nowhere"], removed=[], reason=""),
            stamp=STAMP,
        ),
    ],
    "verdict on an unknown message": [
        make_event(*ev.verdict("nowhere", {"outcome": "passed"}), stamp=STAMP)
    ],
    "checkpoint at an unknown message": [make_event(*ev.checkpoint(MARK), stamp=STAMP)],
    "thinking without its message": events_of(DEEP, stamp=STAMP)[:1],
    "a message without its thinking": events_of(DEEP, stamp=STAMP)[1:],
    "another message's thinking": [
        events_of(DEEP, stamp=STAMP)[0],
        events_of(DEEP.model_copy(update={"id": "c"}), stamp=STAMP)[1],
    ],
    "another message's call": [
        events_of(CALLER, stamp=STAMP)[0],
        events_of(CALLER.model_copy(update={"id": "c"}), stamp=STAMP)[1],
    ],
    "another message's verdict": [
        *person("hi", "a"),
        events_of(JUDGED, stamp=STAMP)[0],
        make_event(*ev.verdict("a", {"outcome": "passed"}), stamp=STAMP),
    ],
    "a piece of no message": events_of(CALLER, stamp=STAMP)[1:],
    "thinking within a message": [
        events_of(CALLER, stamp=STAMP)[0],
        events_of(DEEP, stamp=STAMP)[0],
    ],
    "a message without its call": [*events_of(CALLER, stamp=STAMP)[:1], *person("hi", "z")],
    "a part of a result without a call": [{"type": "tool_result", "id": "c9", "content": ""}],
    "a part answered twice": [
        {"type": "tool_call", "id": "c9", "name": "add"},
        {"type": "tool_result", "id": "c9"},
        {"type": "tool_result", "id": "c9"},
    ],
}


@pytest.mark.parametrize("events", GAPS.values(), ids=GAPS)
def test_events_that_build_on_nothing_are_refused(events: list[Any]) -> None:
    """A missing event is an error that names the one which needs it."""
    with pytest.raises(EventLogGapError, match=r"Event '?(ev-|[0-9])"):
        replay(events)


def test_a_restore_brings_back_messages_checkpoints_and_what_was_kept() -> None:
    """Restored messages return to their place, kept ones follow, and a draft stays out."""
    annotation = Checkpoint(**{**MARK, "message_id": "b", "turn": 0})
    draft = person("draft", "d")
    data = {"removed": ["b", "d"], "keep": ["c"], "drafts": ["d"]}
    event = make_event(
        *ev.rollback("y", "person", "a", restored=["x"], removed=["e"], keep=["c"], reason=""),
        stamp=STAMP,
    )
    before = [
        *person("one", "a"),
        *person("two", "b"),
        make_event(*ev.checkpoint(annotation), stamp=STAMP),
        *person("three", "c"),
        *draft,
        rollback_event("a", **data),
        *person("four", "e"),
    ]
    branch = replay(before)
    restored = replay([*before, event])

    assert (["a", "c", "e"], ()) == ([m.id for m in branch.messages], branch.checkpoints)
    assert ["b", "d"] == [m.id for m in branch.branches["x"]]
    assert (["a", "b", "c"], (annotation,)) == (
        [m.id for m in restored.messages],
        restored.checkpoints,
    )
    assert ["e"] == [m.id for m in restored.branches["y"]]


def test_a_whole_result_without_its_call_stays() -> None:
    """A host's transcript may have one."""
    orphan = ToolMessage("4", tool_call_id="c1", id="r")

    assert [orphan] == replay(events_of(orphan, stamp=STAMP)).messages


def test_one_id_for_two_events_is_refused() -> None:
    """Which of the two happened cannot be told."""
    (event,) = person("hi", "a")

    with pytest.raises(EventConflictError, match=event["id"]):
        replay([event, {**event, "run_id": "r9"}])


def test_an_unknown_type_is_refused() -> None:
    """What cannot be understood is not left out."""
    with pytest.raises(TranscriptError, match="gossip"):
        replay([{"type": "gossip"}])


@pytest.mark.parametrize(
    "chosen_ids",
    [
        {"type": "tool_call", "name": "add"},
        {"type": "tool_call", "id": "c1"},
        {"type": "tool_call", "id": "c1", "name": "add", "args": [1]},
        {"type": "tool_result", "content": "4"},
        {"type": "rollback", "base": None},
        {**make_event(*ev.planner_note("x"), stamp=STAMP), "type": "verdict"},
    ],
    ids=[
        "no id",
        "no name",
        "arguments without names",
        "result without id",
        "rollback without cut",
        "verdict without message",
    ],
)
def test_a_part_that_lacks_its_fields_is_refused(chosen_ids: dict[str, Any]) -> None:
    """The error says which event and what it lacks."""
    with pytest.raises(TranscriptError, match=r"Event '?(ev-|0)"):
        replay([chosen_ids])


def test_a_run_without_transcript_events_is_an_error() -> None:
    """An empty log is a lost log, not an empty conversation."""
    note = make_event(*ev.planner_note("hm"), stamp=STAMP)
    for events in ([], [note], person("hi", "a")):
        with pytest.raises(EventLogGapError, match="r9"):
            replay(events, run_id="r9")


def test_a_run_is_replayed_up_to_its_end() -> None:
    """What later runs did to the transcript does not show."""
    first, second = (Stamp(thread_id="t", at="", run_id=run, turn_id=run) for run in ("r1", "r2"))
    events = [
        *events_of(HumanMessage("one", id="a"), stamp=first),
        *events_of(HumanMessage("two", id="b"), stamp=second),
        make_event(*ev.rollback("x", "person", None, removed=["a", "b"], reason=""), stamp=second),
    ]

    assert ["one"] == [m.content for m in replay(events, run_id="r1").messages]
    assert [] == replay(events, run_id="r2").messages


PARTS = [
    {"type": "user_message", "text": "How warm?"},
    {"type": "tool_call", "id": "c1", "name": "find", "args": {"q": 1}},
    {"type": "assistant_message", "text": "I look."},
    {"type": "tool_call", "id": "c2", "name": "add"},
    {"type": "thinking", "text": "hm", "signature": "s"},
    {"type": "user_message", "text": "Be quick!"},
    {"type": "tool_result", "id": "c2", "content": {"é": 1}, "is_error": True},
    {"type": "planner_note", "text": "slow tool"},
    {"type": "tool_result", "id": "c1", "content": "4"},
    {"type": "tool_call", "id": "c3", "name": "add"},
    {"type": "tool_result", "id": "c3", "content": [{"type": "text", "text": "5"}]},
    {"type": "assistant_message", "text": "Nine."},
]


def test_parts_are_put_into_the_sacred_order() -> None:
    """Thinking, text, calls; results in the order of the calls; the user is heard after them."""
    texts = [(m.type, m.content) for m in replay(PARTS).messages]

    assert [
        ("human", "How warm?"),
        (
            "ai",
            [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "text", "text": "I look."},
            ],
        ),
        ("tool", "4"),
        ("tool", '{"é": 1}'),
        ("human", "Be quick!"),
        ("ai", ""),
        ("tool", [{"type": "text", "text": "5"}]),
        ("ai", "Nine."),
    ] == texts


def test_results_keep_tool_name_and_status() -> None:
    """A result says which tool it came from and whether it failed."""
    results = [m for m in replay(PARTS).messages if isinstance(m, ToolMessage)]

    assert [("find", "success"), ("add", "error"), ("add", "success")] == [
        (m.name, m.status) for m in results
    ]


def test_a_call_that_was_never_answered_hides_nothing() -> None:
    """After an interruption all that was said is still there."""
    event_parts = [
        *PARTS[:2],
        {"type": "user_message", "text": "Hello?"},
        {"type": "assistant_message", "text": "Here."},
        {"type": "tool_call", "id": "c2", "name": "add"},
        {"type": "tool_result", "id": "c2", "content": "3"},
    ]

    assert ["How warm?", "", "Hello?", "Here.", "3"] == [
        m.content for m in replay(event_parts).messages
    ]


def test_parts_with_one_message_id_are_one_message() -> None:
    """A builder that gives ids says where a message ends."""
    event_parts = [
        {"type": "assistant_message", "text": "a", "message_id": "m1"},
        {"type": "assistant_message", "text": "b", "message_id": "m1"},
        {"type": "assistant_message", "text": "c", "message_id": "m2"},
    ]

    assert [("m1", 2), ("m2", 1)] == [(m.id, len(m.content)) for m in replay(event_parts).messages]


def test_a_part_may_answer_a_call_of_a_whole_message() -> None:
    """Both shapes of event can stand in one event log."""
    events = [
        *events_of(CALLER, stamp=STAMP),
        make_event(*ev.planner_note("hm"), stamp=STAMP),
        {"type": "tool_result", "id": "c1", "content": "4"},
    ]

    assert ["", "4"] == [m.content for m in replay(events).messages]


def test_a_late_result_is_taken_after_a_rollback_between() -> None:
    """A call whose message was settled early still gets its result."""
    events: list[Any] = [
        {"type": "user_message", "text": "hi", "message_id": "u"},
        {"type": "tool_call", "id": "c1", "name": "add", "message_id": "a"},
        make_event(*ev.checkpoint({**MARK, "message_id": "u"}), stamp=STAMP),
        {"type": "tool_result", "id": "c1", "content": "4"},
    ]

    assert ["human", "ai", "tool"] == [m.type for m in replay(events).messages]


@pytest.mark.parametrize(
    ("result", "shown"),
    [
        ({"content": "k" * 600, "preview": "first rows"}, "first rows"),
        ({"content": "k" * 600}, "kkk"),
        ({"omitted": True, "preview": "first rows", "bounds": {"total": 9}}, "first rows"),
    ],
    ids=["its own preview", "its beginning", "omitted before"],
)
def test_large_results_are_shown_as_omitted(result: dict[str, Any], shown: str) -> None:
    """The note of an omission names the reason and shows something."""
    events = [PARTS[1], {"type": "tool_result", "id": "c1", **result}]
    text = str(replay(events, max_tool_result_bytes=300).messages[-1].content)

    assert '"omitted": true, "reason": "size_limit"' in text
    assert shown in text


def test_the_record_keeps_large_results_whole() -> None:
    """Only who asks for a limit gets one."""
    large = ToolMessage("k" * 100_000, tool_call_id="c1", id="r")

    assert [large] == replay(events_of(large, stamp=STAMP)).messages
