"""The transcript again, from its events."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, cast, get_args

from langchain_core.messages import (
    AnyMessage,
    BaseMessage,
    ToolMessage,
    message_to_dict,
    messages_from_dict,
)

from unsay.errors import EventConflictError, EventLogGapError, TranscriptError
from unsay.events.assembly import Assembly, Step
from unsay.events.envelopes import join_message, put
from unsay.events.event_types import ENVELOPES, body_of
from unsay.messages.annotations import KEY
from unsay.messages.truncation import shortened_result
from unsay.types import Checkpoint, Event, EventType

# The types of event that leave the transcript as it is.
_ASIDE = frozenset(
    {"planner_note", "compaction", "expand", "recall", "forget", "remember", "pin", "unpin"}
)

_Tree = dict[str, Any]  # a message as `message_to_dict` gives it

_Given = Event | Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """What an event log leads to."""

    messages: list[AnyMessage]
    """The transcript, oldest first."""

    checkpoints: tuple[Checkpoint, ...]
    """Those whose message is in the transcript, in the order in which they entered it.

    The event log keeps them all; the state drops the oldest unnamed ones past its limit.
    """

    branches: Mapping[str, tuple[AnyMessage, ...]]
    """What each rollback or restore removed from the transcript, by the id of the cut."""


def replay(
    events: Iterable[_Given], *, run_id: str | None = None, max_tool_result_bytes: int | None = None
) -> Replayed:
    """Return the transcript that the events lead to, byte for byte.

    An event that occurs twice counts once. Parts of messages, as `EventBuilder` writes them, are put
    together in their fixed order; whole messages stay as they are.

    Args:
        events: Oldest first; plain ones have a `type` and the fields of `data` next to it.
        run_id: Replays the events of the whole thread up to the end of this run; `None` replays
            all of them.
        max_tool_result_bytes: A larger tool result becomes a record of what was left out; `None`
            shows all of them whole.

    Raises:
        EventLogGapError: An event builds on one that is missing, or the run left no event that
            changed the transcript: its log is lost, and is not an empty conversation.
        EventConflictError: Two events have one id.
        TranscriptError: An event is of no known shape.
    """
    transcript = _Record()
    seen: dict[str, Event] = {}
    for index, event in enumerate(events if run_id is None else _until_end(list(events), run_id)):
        if not _repeats(event, seen):
            step = _step(event, index)
            try:
                transcript.take(step)
            except KeyError as error:
                raise TranscriptError(
                    f"{step.name} has no {error.args[0]!r}: its type asks for it, see the table of "
                    "shapes in unsay.events.event_types"
                ) from error
    transcript.end()
    messages = _messages(transcript.places.values())
    for index, message in enumerate(messages):
        if max_tool_result_bytes is not None and isinstance(message, ToolMessage):
            told = transcript.previews.get(message.tool_call_id, {})
            preview, bounds = told.get("preview"), told.get("bounds")
            messages[index] = shortened_result(
                message, max_tool_result_bytes, preview=preview, bounds=bounds
            )
    return Replayed(
        messages=messages,
        checkpoints=tuple(transcript.checkpoints.values()),
        branches={
            name: tuple(_messages(branch.trees.values()))
            for name, branch in transcript.branches.items()
        },
    )


def _until_end(events: Sequence[_Given], run_id: str) -> Sequence[_Given]:
    own = (event.get("run_id") == run_id and event["type"] not in _ASIDE for event in events)
    ends = [index for index, is_own in enumerate(own, start=1) if is_own]
    if not ends:
        raise EventLogGapError(
            f"The ledger has no transcript event of run {run_id!r}: look the run's id up, or put "
            "a backup of the ledger in its place"
        )
    return events[: ends[-1]]


def _is_event(event: _Given) -> bool:
    return "thread_id" in event and isinstance(event.get("data"), Mapping)


def _repeats(event: _Given, seen: dict[str, Event]) -> bool:
    """Whether an event occurs a second time; it is noted otherwise."""
    if not _is_event(event):
        return False
    whole = cast("Event", event)
    first = seen.get(whole["id"])
    if first is None:
        seen[whole["id"]] = whole
        return False
    if first is not whole and body_of(first) != body_of(whole):
        raise EventConflictError(
            f"Two events have the id {whole['id']!r} and say different things: "
            "give each event an id of its own"
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
class _Cut:
    trees: dict[str, _Tree]
    drafts: frozenset[str]
    checkpoints: list[Checkpoint]


@dataclass(slots=True, kw_only=True)
class _Whole:
    """A message whose pieces are not all known yet."""

    step: Step
    pieces: dict[str, list[Any]]

    @property
    def name(self) -> str | None:
        return cast("str | None", self.step.data["message"]["data"]["id"])

    def missing(self, piece: str) -> bool:
        holes = [hole for hole in self.step.data["holes"] if hole["piece"] == piece]
        return len(holes) > len(self.pieces[piece])


class _Record:
    """A transcript as events change it, one by one: messages as dicts, by id."""

    def __init__(self) -> None:
        self.places: dict[str, _Tree] = {}
        self.checkpoints: dict[str, Checkpoint] = {}
        self.branches: dict[str, _Cut] = {}
        self.previews: dict[str, Mapping[str, Any]] = {}
        self.parts = Assembly()
        self.thinking: list[Step] = []
        self.open: _Whole | None = None
        self.nameless = 0

    def take(self, step: Step) -> None:
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
            "rollback": self._replace,
            "restore": self._replace,
            "edit": self._edit,
            "fork": self._fork,
        }
        if step.kind not in acts:
            raise _gap(step, "it is a piece of a message that did not begin")
        acts[step.kind](step)

    def end(self) -> None:
        self._check_whole(None)
        self._settle(self.parts.rest())

    def _takes_piece(self, step: Step) -> bool:
        """Whether the event is a piece of a message, which then has it."""
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
        found, self.thinking = [thought.data for thought in self.thinking], []
        blocks = [data["block"] for data in found]
        whole = _Whole(step=step, pieces={"thinking": blocks, "call": [], "annotation": []})
        wanted = [whole.name for hole in step.data["holes"] if hole["piece"] == "thinking"]
        if wanted != [data["message_id"] for data in found]:
            raise EventLogGapError(
                f"{step.name} does not stand behind the {len(wanted)} thinking events that were "
                "taken out of it: an event is missing; put a backup of the ledger in its place"
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
        begun = [self.open.step] if self.open else self.thinking
        starts = step is not None and step.kind in ENVELOPES and not _is_part(step)
        if not begun or (self.open is None and starts):
            return
        raise EventLogGapError(
            f"{begun[-1].name} is not whole before {step.name if step else 'the end'}: an event of "
            "its message is missing; put a backup of the ledger in its place"
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
            raise _gap(step, f"message {name!r} is not on the record")
        metadata = {**tree["data"]["response_metadata"], KEY: deepcopy(step.data["annotation"])}
        self.places[name] = put(tree, ["data", "response_metadata"], metadata)

    def _checkpoint(self, step: Step) -> None:
        made = cast("Checkpoint", dict(step.data["checkpoint"]))
        if made["message_id"] is not None and made["message_id"] not in self.places:
            raise _gap(step, f"message {made['message_id']!r} is not on the record")
        self.checkpoints[made["id"]] = made

    def _edit(self, step: Step) -> None:
        for key in self._tail(step, step.data.get("after")):
            del self.places[key]
        for tree in deepcopy(step.data["messages"]):
            self._write(tree)
        self._drop_checkpoints()

    def _fork(self, step: Step) -> None:
        self._edit(step)
        self.checkpoints = {each["id"]: each for each in deepcopy(step.data["checkpoints"])}

    def _replace(self, step: Step) -> None:
        """Remove the messages after the base and put earlier ones back, as `replace_tail` does."""
        names = step.data["branch_ids"] if step.kind == "restore" else []
        if unknown := [name for name in names if name not in self.branches]:
            raise _gap(step, f"cut {unknown[0]!r} is unknown")
        branches = [self.branches[name] for name in names]
        tail = self._tail(step, step.data.get("base"))
        keep = set(step.data.get("keep", ()))
        removed = {key: tree for key, tree in tail.items() if key not in keep}
        told = step.data.get("removed")
        if told is not None and list(told) != list(removed):
            raise _gap(step, f"it took {list(told)!r} off the record, where {list(removed)!r} is")
        for key in removed:
            del self.places[key]
        self.branches[step.data["branch_id"]] = _Cut(
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
            moved = {key: self.places.pop(key) for key in tail if key in keep}
            self.places |= back | moved
        self._return(
            [annotation for branch in branches for annotation in branch.checkpoints], set(back)
        )

    def _return(self, marks: Sequence[Checkpoint], messages: Collection[str]) -> None:
        """Put checkpoints back, as `with_returned` does; a name in use stays where it is."""
        names = {each["name"] for each in self.checkpoints.values()}
        returning = {each["id"]: each for each in marks if each["message_id"] in messages}
        for key, each in returning.items():
            nameless = cast("Checkpoint", {**each, "name": None})
            self.checkpoints[key] = nameless if each["name"] in names else each
            names.add(each["name"])
        if returning:
            made = sorted(self.checkpoints.items(), key=lambda item: item[1]["created_at"])
            self.checkpoints = dict(made)

    def _tail(self, step: Step, base: str | None) -> dict[str, _Tree]:
        """The messages after the base; all of them for `None`."""
        if base is not None and base not in self.places:
            raise _gap(step, f"message {base!r} is not on the record")
        # From the newest on, since a tail is short and a transcript may be long.
        tail = list(takewhile(lambda key: key != base, reversed(self.places)))
        return {key: self.places[key] for key in reversed(tail)}

    def _drop_checkpoints(self) -> list[Checkpoint]:
        gone = [
            each
            for each in self.checkpoints.values()
            if each["message_id"] is not None and each["message_id"] not in self.places
        ]
        for each in gone:
            del self.checkpoints[each["id"]]
        return gone


def _is_part(step: Step) -> bool:
    """Whether a builder wrote a part of a message, not a whole one or a piece of it."""
    if step.kind in ENVELOPES:
        return not isinstance(step.data.get("message"), Mapping)
    if step.kind == "thinking":
        return "block" not in step.data
    return step.kind == "tool_call" and "call" not in step.data


def _gap(step: Step, why: str) -> EventLogGapError:
    return EventLogGapError(
        f"{step.name} builds on what is not there: {why}. An earlier event is missing; put a "
        "backup of the ledger in its place"
    )


def _messages(trees: Iterable[_Tree]) -> list[AnyMessage]:
    return cast("list[AnyMessage]", messages_from_dict(list(trees)))
