"""Bodies: the whole messages in a list of events, in their order.

A body is a message of the log as it was at one time: it entered, a host replaced it, or its annotation
changed. The bodies of a thread are counted from 0, and their numbers are its positions.
"""

from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from unsay.events.event_types import ENVELOPES, join_message, put
from unsay.messages.annotations import KEY

_EDITS = ("edit", "fork")

Given: TypeAlias = tuple[str, Mapping[str, Any]]
"""The type and the data of an event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """A message in a list of events; `envelope` is `None` if only its `annotation` is new."""

    message_id: str
    envelope: Mapping[str, Any] | None = None
    holes: list[Any] = field(default_factory=list)
    pieces: Mapping[str, list[Any]] = field(default_factory=dict)
    annotation: Mapping[str, Any] | None = None

    def missing(self, piece: str) -> bool:
        """Return whether events with pieces of this kind are still to come."""
        if not self.holes:
            return False
        wanted = [hole for hole in self.holes if hole["piece"] == piece]
        return len(wanted) > len(self.pieces.get(piece, ()))

    def tree(self, earlier: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return the message as a dict; `earlier` is the same with the annotation that it had."""
        if self.envelope is not None and not self.pieces:
            return deepcopy(dict(self.envelope))
        if self.envelope is not None:
            return join_message(self.envelope, self.holes, self.pieces)
        metadata = (earlier or {})["data"]["response_metadata"]
        changed = {**metadata, KEY: dict(self.annotation or {})}
        return dict(put(earlier, ["data", "response_metadata"], changed))


def bodies_and_rest(events: Iterable[Given]) -> Iterator[Body | Given]:
    """Yield the bodies of events, and the events that are no part of a body, in their order."""
    thoughts: list[Any] = []
    body: Body | None = None
    for kind, data in events:
        if body is not None and kind == "tool_call":
            body.pieces["call"].append(data["call"])
        elif body is not None:
            body.pieces["annotation"].append(data["annotation"])
        elif kind == "thinking" and "block" in data:
            thoughts.append(data["block"])
        elif kind in ENVELOPES and isinstance(data.get("message"), Mapping):
            tree = data["message"]
            pieces = {"thinking": thoughts, "call": [], "annotation": []}
            name = tree["data"]["id"] or ""
            body = Body(message_id=name, envelope=tree, holes=data["holes"], pieces=pieces)
            thoughts = []
        elif kind == "verdict":
            body = Body(message_id=data["message_id"], annotation=data["annotation"])
        elif kind in _EDITS:
            for tree in data["messages"]:
                yield Body(message_id=tree["data"]["id"] or "", envelope=tree)
            yield kind, data
        else:
            yield kind, data
        if body is not None and not body.missing("call") and not body.missing("annotation"):
            yield body
            body = None


def bodies_in(events: Iterable[Given]) -> Iterator[Body]:
    """Yield the bodies of events, in their order: their positions follow one another."""
    return (each for each in bodies_and_rest(events) if isinstance(each, Body))
