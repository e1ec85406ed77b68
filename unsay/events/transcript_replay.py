"""Transcript replay: compute the transcript from its events."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import chain, takewhile
from typing import Any, cast, get_args

from langchain_core.messages import (
    AnyMessage,
    BaseMessage,
    HumanMessage,
    ToolMessage,
    message_to_dict,
    messages_from_dict,
)

from unsay.errors import EventConflictError, EventLogGapError, TranscriptError
from unsay.events.event_types import ENVELOPES, body_of, join_message, put
from unsay.messages.annotations import KEY, turn_numbers
from unsay.messages.content import (
    REASON,
    Part,
    Text,
    Thinking,
    ToolCall,
    message_of,
    shortened_result,
)
from unsay.types import Checkpoint, Event, EventType


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One event to replay, with its `name` in errors; without an envelope `data` is the whole event."""

    kind: EventType
    data: Mapping[str, Any]
    name: str

    def text(self) -> str:
        """Return the text of a part, or the content of a tool result, as text; empty without both."""
        return str(self.data.get("text", self.data.get("content", "")))

    def need(self, key: str) -> str:
        """Return a field; `TranscriptError` unless it is a text that is not empty."""
        value = self.data.get(key)
        if not isinstance(value, str) or not value:
            raise TranscriptError(f"{self.name} has {key}={value!r}: give a text that is not empty")
        return value


@dataclass(slots=True, kw_only=True)
class _Draft:
    message_id: str | None
    parts: list[Part] = field(default_factory=list)

    def calls(self) -> dict[str, str]:
        """Return the tools' names by the calls' ids, in the order of declaration."""
        return {part.id: part.name for part in self.parts if isinstance(part, ToolCall)}


class Assembly:
    """Makes messages out of parts, one part at a time; `replay` uses it.

    Results directly follow their calls: parts between a call and its result wait until all results
    are known.
    """

    def __init__(self) -> None:
        self._draft: _Draft | None = None  # the assistant's message in progress
        self._asked: dict[str, str] = {}  # open calls of the last message: tool names by id
        self._given: dict[str, AnyMessage] = {}  # their results so far
        self._waiting: list[Step] = []  # parts that follow once all results are known
        self._late: dict[str, str] = {}  # open calls of other messages: tool names by id

    def note(self, data: Mapping[str, Any]) -> None:
        """Record the calls of a whole message as open, or the call that it answers as done."""
        self._late |= {str(call["id"]): call["name"] for call in data.get("tool_calls") or ()}
        self._late.pop(str(data.get("tool_call_id")), None)

    def feed(self, step: Step) -> list[AnyMessage]:
        """Add one part, and return the messages that it completes, often none.

        Raises `EventLogGapError` for a result without an open call, `TranscriptError` for a part
        with a missing or wrong field.
        """
        if step.kind == "tool_result":
            return self._result(step)
        if self._asked:
            self._waiting.append(step)
            return []
        name, draft = step.data.get("message_id"), self._draft
        other = draft is not None and name not in (None, draft.message_id)
        if draft is not None and (step.kind == "user_message" or other):
            return [*self._flush(draft), *self.feed(step)]
        if step.kind == "user_message":
            return [HumanMessage(step.text(), id=name)]
        self._draft = draft or _Draft(message_id=name)
        self._draft.parts.append(_part(step))
        return []

    def rest(self) -> list[AnyMessage]:
        """Return the unfinished messages with the parts that they have; a second call returns none.

        A call without its result stays open, so that `feed` still accepts the result. Parts that
        waited for results follow, and can raise the errors of `feed`.
        """
        messages: list[AnyMessage] = []
        while self._asked or self._draft:
            messages += self._flush(self._draft) if self._draft else self._settle()
        return messages

    def _flush(self, draft: _Draft) -> list[AnyMessage]:
        """End a draft and return its one message, in a list; its calls now wait for their results."""
        self._draft, self._asked = None, draft.calls()
        return [message_of(draft.parts, message_id=draft.message_id)]

    def _result(self, step: Step) -> list[AnyMessage]:
        name = step.need("id")
        draft = self._draft
        messages = self._flush(draft) if draft is not None and name in draft.calls() else []
        if name in self._asked and name not in self._given:
            self._given[name] = _result_message(step, self._asked[name])
            complete = len(self._given) == len(self._asked)
            return [*messages, *(self._settle() if complete else [])]
        if name in self._late:
            return [_result_message(step, self._late.pop(name))]
        if any(part.kind == "tool_call" and part.data.get("id") == name for part in self._waiting):
            self._waiting.append(step)
            return messages
        raise EventLogGapError(
            f"{step.name} is the result of call {name!r}, which is not open: its tool_call event is "
            "missing, or it has a result already"
        )

    def _settle(self) -> list[AnyMessage]:
        """Return the known results in the order of their calls, then what the waiting parts complete.

        Raises the errors of `feed` for the waiting parts.
        """
        messages = [self._given[name] for name in self._asked if name in self._given]
        self._late |= {k: tool for k, tool in self._asked.items() if k not in self._given}
        self._asked, self._given = {}, {}
        waiting, self._waiting = self._waiting, []
        for step in waiting:
            messages += self.feed(step)
        return messages


def _part(step: Step) -> Part:
    if step.kind == "thinking":
        return Thinking(
            text=step.text(),
            signature=step.data.get("signature"),
            redacted=step.data.get("redacted"),
        )
    if step.kind == "tool_call":
        args = step.data.get("args") or {}
        if not isinstance(args, Mapping):
            raise TranscriptError(
                f"{step.name} has args={args!r}: give a dict of arguments by name"
            )
        return ToolCall(id=step.need("id"), name=step.need("name"), args=dict(args))
    return Text(text=step.text())


def _result_message(step: Step, tool: str) -> ToolMessage:
    return ToolMessage(
        content=_content(step.data),
        tool_call_id=step.need("id"),
        name=tool,
        status="error" if step.data.get("is_error") else "success",
        id=step.data.get("message_id"),
    )


def _content(data: Mapping[str, Any]) -> Any:
    """Return a tool result's content: text or blocks as they are, anything else as JSON.

    If the event says that the content was omitted, the JSON says so, with a preview if there is
    one.
    """
    content = data.get("content", "")
    if data.get("omitted"):
        details = {key: data[key] for key in ("bytes", "preview", "bounds") if key in data}
        content = {"omitted": True, "reason": data.get("reason", REASON), **details}
    elif isinstance(content, str) or (
        isinstance(content, list)
        and content
        and all(isinstance(block, dict) and isinstance(block.get("type"), str) for block in content)
    ):
        return content
    return json.dumps(content, ensure_ascii=False, default=repr)


# The types of event that leave the transcript as it is.
_ASIDE = frozenset(
    {"planner_note", "compaction", "expand", "recall", "forget", "remember", "pin", "unpin"}
)

_Tree = dict[str, Any]  # a message as `message_to_dict` gives it

_Given = Event | Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """Result of a replay.

    Attributes:
        messages: The transcript, oldest first.
        checkpoints: The checkpoints of its messages, oldest first. The state may have fewer: it drops
            the oldest unnamed ones past its limit.
        branches: The messages that each rollback or restore removed, by the id of the branch.
    """

    messages: list[AnyMessage]
    checkpoints: tuple[Checkpoint, ...]
    branches: Mapping[str, tuple[AnyMessage, ...]]


def replay(
    events: Iterable[_Given], *, run_id: str | None = None, max_tool_result_bytes: int | None = None
) -> Replayed:
    """Return the transcript that the events lead to, byte for byte as it was, with its branches.

    An event that occurs twice counts once. The events may hold whole messages, or the parts of
    messages that `EventBuilder` writes.

    Args:
        events: Oldest first; an event without a thread id has a `type` and the fields of `data`.
        run_id: Replay up to the end of this run; `None` replays all events.
        max_tool_result_bytes: Truncate larger tool results; `None` truncates none.

    Raises:
        InputError: `max_tool_result_bytes` is under 1.
        EventLogGapError: An event needs one that is missing, or the run has no event that changed
            the transcript.
        EventConflictError: Two different events have the same id.
        TranscriptError: An event has no known shape.
    """
    transcript = _Transcript()
    events_by_id: dict[str, Event] = {}
    for index, event in enumerate(events if run_id is None else _until_end(list(events), run_id)):
        if not _repeats(event, events_by_id):
            step = _step(event, index)
            try:
                transcript.take(step)
            except KeyError as error:
                raise TranscriptError(
                    f"{step.name} has no {error.args[0]!r}, which its type requires: see the table in "
                    "unsay.events.event_types"
                ) from error
    transcript.end()
    messages = _messages(transcript.places.values())
    for index, message in enumerate(messages):
        if max_tool_result_bytes is not None and isinstance(message, ToolMessage):
            preview_data = transcript.previews.get(message.tool_call_id, {})
            extent: Any = {key: preview_data.get(key) for key in ("preview", "bounds")}
            messages[index] = shortened_result(message, max_tool_result_bytes, **extent)
    turns = {None: 0, **turn_numbers(messages)}
    checkpoints = transcript.checkpoints.values()
    return Replayed(
        messages=messages,
        # Messages before a checkpoint may have left or returned after it was made.
        checkpoints=tuple({**each, "turn": turns[each["message_id"]]} for each in checkpoints),
        branches={
            name: tuple(_messages(branch.trees.values()))
            for name, branch in transcript.branches.items()
        },
    )


def _until_end(events: Sequence[_Given], run_id: str) -> Sequence[_Given]:
    """Return the events up to the last one of a run that changed the transcript.

    Raises `EventLogGapError` if the run changed nothing.
    """
    own = (event.get("run_id") == run_id and event["type"] not in _ASIDE for event in events)
    ends = [index for index, is_own in enumerate(own, start=1) if is_own]
    if not ends:
        raise EventLogGapError(
            f"The event log has no transcript event of run {run_id!r}: check the run's id, or restore "
            "the event log from a backup"
        )
    return events[: ends[-1]]


def _is_event(event: _Given) -> bool:
    return "thread_id" in event and isinstance(event.get("data"), Mapping)


def _repeats(event: _Given, seen: dict[str, Event]) -> bool:
    """Return whether an event was `seen` before, and add it otherwise.

    Raises `EventConflictError` if a different event has its id.
    """
    if not _is_event(event):
        return False
    whole = cast("Event", event)
    first = seen.get(whole["id"])
    if first is None:
        seen[whole["id"]] = whole
        return False
    if first is not whole and body_of(first) != body_of(whole):
        raise EventConflictError(
            f"Two different events have the id {whole['id']!r}: give each event its own id"
        )
    return True


def _step(event: _Given, index: int) -> Step:
    kind = cast("EventType", event.get("type"))
    if kind not in get_args(EventType):
        raise TranscriptError(
            f"Event {index} has type={kind!r}; use one of {', '.join(get_args(EventType))}"
        )
    if _is_event(event):
        return Step(kind=kind, data=event["data"], name=f"Event {event['id']!r} ({kind})")
    return Step(kind=kind, data=event, name=f"Event {index} ({kind})")


@dataclass(slots=True, kw_only=True)
class _Branch:
    trees: dict[str, _Tree]
    drafts: frozenset[str]
    checkpoints: list[Checkpoint]


@dataclass(slots=True, kw_only=True)
class _Whole:
    step: Step
    pieces: dict[str, list[Any]]

    @property
    def name(self) -> str | None:
        return cast("str | None", self.step.data["message"]["data"]["id"])

    def missing(self, piece: str) -> bool:
        holes = [hole for hole in self.step.data["holes"] if hole["piece"] == piece]
        return len(holes) > len(self.pieces[piece])


class _Transcript:
    """A transcript that events change one by one: its messages as dicts, by id."""

    def __init__(self) -> None:
        self.places: dict[str, _Tree] = {}
        self.checkpoints: dict[str, Checkpoint] = {}
        self.branches: dict[str, _Branch] = {}
        self.previews: dict[str, Mapping[str, Any]] = {}  # data of result events, by call id
        self.parts = Assembly()  # for events of `EventBuilder`, which hold parts
        self.thinking: list[Step] = []  # thinking whose message has not come yet
        self.open: _Whole | None = None  # a message whose pieces are not complete
        self.nameless = 0  # messages without an id, which get a number as their key

    def take(self, step: Step) -> None:
        """Apply one event. The errors are those of `replay`, or a `KeyError` for missing data."""
        if self._takes_piece(step) or step.kind in _ASIDE:
            return
        self._check_whole(step)
        if _is_part(step):
            if step.kind == "tool_result":
                self.previews[step.need("id")] = step.data
            self._settle(self.parts.feed(step))
            return
        self._settle(self.parts.rest())
        acts = {
            **dict.fromkeys(ENVELOPES, self._open),
            "verdict": self._verdict,
            "checkpoint": self._checkpoint,
            "checkpoint_removed": self._remove_checkpoint,
            "rollback": self._replace,
            "restore": self._replace,
            "edit": self._edit,
            "fork": self._fork,
        }
        if step.kind not in acts:
            raise _gap(step, "the message that it is a piece of is missing")
        acts[step.kind](step)

    def end(self) -> None:
        """Write the message in progress; raises the errors of `replay` if it is not complete."""
        self._check_whole(None)
        self._settle(self.parts.rest())

    def _takes_piece(self, step: Step) -> bool:
        """Keep an event that is a piece of the message in progress or the next; return if it was."""
        if step.kind == "thinking" and "block" in step.data and self.open is None:
            self._settle(self.parts.rest())
            self.thinking.append(step)
            return True
        whole = self.open
        if whole is None or step.data.get("message_id") != whole.name:
            return False
        if step.kind == "tool_call" and "call" in step.data and whole.missing("call"):
            whole.pieces["call"].append(step.data["call"])
        elif step.kind == "verdict" and not whole.missing("call"):
            whole.pieces["annotation"].append(step.data["annotation"])
        else:
            return False
        self._close_if_complete()
        return True

    def _open(self, step: Step) -> None:
        """Begin a whole message; the events of its tool calls and its verdict follow.

        Raises `EventLogGapError` if its events of thinking did not come directly before.
        """
        thoughts, self.thinking = [thought.data for thought in self.thinking], []
        blocks = [data["block"] for data in thoughts]
        whole = _Whole(step=step, pieces={"thinking": blocks, "call": [], "annotation": []})
        expected_ids = [whole.name for hole in step.data["holes"] if hole["piece"] == "thinking"]
        if expected_ids != [data["message_id"] for data in thoughts]:
            raise EventLogGapError(
                f"{step.name} needs {len(expected_ids)} thinking events directly before it, and one is "
                "missing: restore the event log from a backup"
            )
        self.open = whole
        self._close_if_complete()

    def _close_if_complete(self) -> None:
        whole = self.open
        if whole is None or whole.missing("call") or whole.missing("annotation"):
            return
        data, self.open = whole.step.data, None
        self._write(join_message(data["message"], data["holes"], whole.pieces))

    def _check_whole(self, step: Step | None) -> None:
        """Raise `EventLogGapError` if a message lacks a piece before `step`; `None` is the end."""
        begun = [self.open.step] if self.open else self.thinking
        starts = step is not None and step.kind in ENVELOPES and not _is_part(step)
        if not begun or (self.open is None and starts):
            return
        raise EventLogGapError(
            f"{begun[-1].name} is incomplete before {step.name if step else 'the end'}: an event of "
            "its message is missing; restore the event log from a backup"
        )

    def _settle(self, made: Iterable[BaseMessage]) -> None:
        for message in made:
            self._write(message_to_dict(message))

    def _write(self, tree: _Tree) -> None:
        data = tree["data"]
        self.parts.note(data)
        key = data["id"]
        if not key:
            self.nameless += 1
            key = f"\x00{self.nameless}"
        self.places[key] = tree

    def _verdict(self, step: Step) -> None:
        name = step.data["message_id"]
        tree = self.places.get(name)
        if tree is None:
            raise _gap(step, f"message {name!r} is not in the transcript")
        metadata = {**tree["data"]["response_metadata"], KEY: deepcopy(step.data["annotation"])}
        self.places[name] = put(tree, ["data", "response_metadata"], metadata)

    def _checkpoint(self, step: Step) -> None:
        checkpoint = cast("Checkpoint", dict(step.data["checkpoint"]))
        if checkpoint["message_id"] is not None and checkpoint["message_id"] not in self.places:
            raise _gap(step, f"message {checkpoint['message_id']!r} is not in the transcript")
        self.checkpoints[checkpoint["id"]] = checkpoint

    def _remove_checkpoint(self, step: Step) -> None:
        self.checkpoints.pop(step.data["checkpoint_id"], None)

    def _edit(self, step: Step) -> None:
        for key in self._tail(step, step.data.get("after")):
            del self.places[key]
        for tree in deepcopy(step.data["messages"]):
            self._write(tree)
        self._drop_checkpoints()

    def _fork(self, step: Step) -> None:
        self._edit(step)
        checkpoints = deepcopy(step.data["checkpoints"])
        self.checkpoints = {checkpoint["id"]: checkpoint for checkpoint in checkpoints}

    def _replace(self, step: Step) -> None:
        """Carry out a rollback or restore: move the end to a branch, put other messages back.

        Raises `EventLogGapError` if a branch is unknown or other messages were removed.
        """
        names = step.data["branch_ids"] if step.kind == "restore" else []
        if unknown := [name for name in names if name not in self.branches]:
            raise _gap(step, f"branch {unknown[0]!r} is unknown")
        branches = [self.branches[name] for name in names]
        tail = self._tail(step, step.data.get("base"))
        keep = set(step.data.get("keep", ()))
        removed = {key: tree for key, tree in tail.items() if key not in keep}
        expected = step.data.get("removed")
        if expected is not None and list(expected) != list(removed):
            raise _gap(
                step, f"it removed {list(expected)!r}, and the transcript has {list(removed)!r}"
            )
        for key in removed:
            del self.places[key]
        self.branches[step.data["branch_id"]] = _Branch(
            trees=removed,
            drafts=frozenset(step.data.get("drafts", ())),
            checkpoints=self._drop_checkpoints(),
        )
        only = step.data.get("only")
        back = {
            key: tree
            for branch in branches
            for key, tree in branch.trees.items()
            if key not in branch.drafts and (only is None or key in only)
        }
        if back:
            moved_tail = {key: self.places.pop(key) for key in tail if key in keep}
            self.places |= back | moved_tail
        returning = chain.from_iterable(branch.checkpoints for branch in branches)
        checkpoints = with_returned(self.checkpoints.values(), returning, back, self.places)
        self.checkpoints = {checkpoint["id"]: checkpoint for checkpoint in checkpoints}

    def _tail(self, step: Step, base: str | None) -> dict[str, _Tree]:
        """Return by id all messages, or those after `base`; `EventLogGapError` if it is unknown."""
        if base is not None and base not in self.places:
            raise _gap(step, f"message {base!r} is not in the transcript")
        # From the newest backwards: a tail is short, and a transcript may be long.
        tail = list(takewhile(lambda key: key != base, reversed(self.places)))
        return {key: self.places[key] for key in reversed(tail)}

    def _drop_checkpoints(self) -> list[Checkpoint]:
        """Remove and return the checkpoints whose messages are no longer in the transcript."""
        checkpoints, message_ids = self.checkpoints, {None, *self.places}
        dropped = [key for key, c in checkpoints.items() if c["message_id"] not in message_ids]
        return [checkpoints.pop(key) for key in dropped]


def _is_part(step: Step) -> bool:
    """Return whether `EventBuilder` wrote the event: a part, not a whole message or its piece."""
    if step.kind in ENVELOPES:
        return not isinstance(step.data.get("message"), Mapping)
    if step.kind == "thinking":
        return "block" not in step.data
    return step.kind == "tool_call" and "call" not in step.data


def _gap(step: Step, why: str) -> EventLogGapError:
    return EventLogGapError(
        f"{step.name} does not fit the events before it: {why}. Restore the event log from a backup"
    )


def with_returned(
    checkpoints: Collection[Checkpoint],
    returning: Iterable[Checkpoint],
    message_ids: Collection[str | None],
    order: Iterable[str | None],
) -> list[Checkpoint]:
    """Return the checkpoints, oldest first, with those of `returning` that are at `message_ids`.

    A returning checkpoint loses its name if another one has it. `order` has the ids of the whole
    transcript; a checkpoint of a message that is not there comes first.
    """
    names = {checkpoint["name"] for checkpoint in checkpoints}
    restored = {c["id"]: c for c in returning if c["message_id"] in message_ids}
    additions: list[Checkpoint] = []
    for checkpoint in restored.values():
        additions.append(
            {**checkpoint, "name": None} if checkpoint["name"] in names else checkpoint
        )
        names.add(checkpoint["name"])
    if not additions:
        return list(checkpoints)
    # Not by time, since clocks jump.
    places = {name: place for place, name in enumerate(order)}
    return sorted([*checkpoints, *additions], key=lambda each: places.get(each["message_id"], -1))


def _messages(trees: Iterable[_Tree]) -> list[AnyMessage]:
    return cast("list[AnyMessage]", messages_from_dict(list(trees)))
