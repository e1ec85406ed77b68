"""A transcript as events change it, one by one."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, cast

from langchain_core.messages import AnyMessage, BaseMessage, message_to_dict, messages_from_dict

from unsay.errors import LedgerGapError
from unsay.events.assembly import Assembly, Step
from unsay.events.envelopes import put, put_together
from unsay.events.event_types import ENVELOPES
from unsay.messages.annotations import KEY
from unsay.types import Checkpoint

ASIDE = frozenset(
    {"planner_note", "fold", "unfold", "recall", "forget", "remember", "pin", "unpin"}
)
"""The types of event that leave the transcript as it is."""

Tree = dict[str, Any]
"""A message as `message_to_dict` gives it."""


@dataclass(slots=True, kw_only=True)
class Cut:
    """What was removed from the transcript."""

    trees: dict[str, Tree]
    drafts: frozenset[str]
    checkpoints: list[Checkpoint]

    def messages(self) -> list[AnyMessage]:
        """Return all of it, drafts too."""
        return _messages(self.trees.values())

    def restored(self, only: Collection[str] | None) -> dict[str, Tree]:
        """Return what a restore puts back: all but drafts, or those of a list."""
        return {
            key: tree
            for key, tree in self.trees.items()
            if key not in self.drafts and (only is None or key in only)
        }


@dataclass(slots=True, kw_only=True)
class _Whole:
    """A message whose pieces are not all known yet."""

    step: Step
    thinking: list[Any]
    calls: list[Any] = field(default_factory=list)
    mark: Any = None

    @property
    def name(self) -> str | None:
        """Id of the message."""
        return cast("str | None", self.step.data["message"]["data"]["id"])

    def missing(self, piece: str) -> bool:
        """Return whether a piece of this kind is still to come."""
        holes = [hole for hole in self.step.data["holes"] if hole["piece"] == piece]
        return len(holes) > (len(self.calls) if piece == "call" else self.mark is not None)


class Record:
    """A transcript in the making: messages as dicts, by id."""

    def __init__(self) -> None:
        self.places: dict[str, Tree] = {}
        self.checkpoints: dict[str, Checkpoint] = {}
        self.cuts: dict[str, Cut] = {}
        self.previews: dict[str, Mapping[str, Any]] = {}
        self.parts = Assembly()
        self.thinking: list[Step] = []
        self.open: _Whole | None = None
        self.nameless = 0

    def messages(self) -> list[AnyMessage]:
        """Return the transcript; nothing is shared with the events."""
        return _messages(self.places.values())

    def take(self, step: Step) -> None:
        """Apply one event."""
        if self._takes_piece(step) or step.kind in ASIDE:
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
        """Complete what is unfinished after the last event."""
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
            whole.calls.append(step.data["call"])
        elif step.kind == "verdict" and not whole.missing("call"):
            whole.mark = step.data["mark"]
        else:
            return False
        self._close_if_complete()
        return True

    def _open(self, step: Step) -> None:
        found, self.thinking = [thought.data for thought in self.thinking], []
        whole = _Whole(step=step, thinking=[data["block"] for data in found])
        wanted = [whole.name for hole in step.data["holes"] if hole["piece"] == "thinking"]
        if wanted != [data["message_id"] for data in found]:
            raise LedgerGapError(
                f"{step.name} does not stand behind the {len(wanted)} thinking events that were "
                "taken out of it: an event is missing; put a backup of the ledger in its place"
            )
        self.open = whole
        self._close_if_complete()

    def _close_if_complete(self) -> None:
        whole = self.open
        if whole is None or whole.missing("call") or whole.missing("mark"):
            return
        data, self.open = whole.step.data, None
        pieces = {"thinking": whole.thinking, "calls": whole.calls, "mark": whole.mark}
        self._write(put_together(data["message"], data["holes"], **pieces))

    def _check_whole(self, step: Step | None) -> None:
        begun = [self.open.step] if self.open else self.thinking
        starts = step is not None and step.kind in ENVELOPES and not _is_part(step)
        if not begun or (self.open is None and starts):
            return
        raise LedgerGapError(
            f"{begun[-1].name} is not whole before {step.name if step else 'the end'}: an event of "
            "its message is missing; put a backup of the ledger in its place"
        )

    def _settle(self, made: Iterable[BaseMessage]) -> None:
        for message in made:
            self._write(message_to_dict(message))

    def _write(self, tree: Tree) -> None:
        """Put a message on the record, in place of one with its id."""
        data = tree["data"]
        for call in data.get("tool_calls") or ():
            self.parts.expect(str(call["id"]), call["name"])
        self.parts.answered(str(data.get("tool_call_id")))
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
        metadata = {**tree["data"]["response_metadata"], KEY: deepcopy(step.data["mark"])}
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
        """Remove the messages after the base and put earlier ones back, as `put_back` does."""
        names = step.data["cut_ids"] if step.kind == "restore" else []
        if unknown := [name for name in names if name not in self.cuts]:
            raise _gap(step, f"cut {unknown[0]!r} is unknown")
        cuts = [self.cuts[name] for name in names]
        tail = self._tail(step, step.data.get("base"))
        keep = set(step.data.get("keep", ()))
        removed = {key: tree for key, tree in tail.items() if key not in keep}
        told = step.data.get("removed")
        if told is not None and list(told) != list(removed):
            raise _gap(step, f"it took {list(told)!r} off the record, where {list(removed)!r} is")
        for key in removed:
            del self.places[key]
        self.cuts[step.data["cut_id"]] = Cut(
            trees=removed,
            drafts=frozenset(step.data.get("drafts", ())),
            checkpoints=self._drop_checkpoints(),
        )
        only = step.data.get("only")
        back = {key: tree for cut in cuts for key, tree in cut.restored(only).items()}
        if back:
            moved = {key: self.places.pop(key) for key in tail if key in keep}
            self.places |= back | moved
        self._return([mark for cut in cuts for mark in cut.checkpoints], set(back))

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

    def _tail(self, step: Step, base: str | None) -> dict[str, Tree]:
        """The messages after the base; all of them for `None`."""
        if base is not None and base not in self.places:
            raise _gap(step, f"message {base!r} is not on the record")
        # From the newest on, since a tail is short and a transcript may be long.
        tail = list(takewhile(lambda key: key != base, reversed(self.places)))
        return {key: self.places[key] for key in reversed(tail)}

    def _drop_checkpoints(self) -> list[Checkpoint]:
        """Drop and return the checkpoints whose message is no longer there."""
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


def _gap(step: Step, why: str) -> LedgerGapError:
    return LedgerGapError(
        f"{step.name} builds on what is not there: {why}. An earlier event is missing; put a "
        "backup of the ledger in its place"
    )


def _messages(trees: Iterable[Tree]) -> list[AnyMessage]:
    return cast("list[AnyMessage]", messages_from_dict(list(trees)))
