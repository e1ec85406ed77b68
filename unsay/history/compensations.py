"""The log of compensations: each tool call is undone once, also after a crash.

The store has one item for each call, written before anything runs: `pending`, then `running`, then
`done`, `failed` or `skipped`. A call of a turn that has not ended is `made`. What a crash left
`running` is reported and not run again, unless its tool is idempotent.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Literal

from langgraph.store.base import BaseStore

from unsay.effects import Call, Steps
from unsay.storage.items import freeze, get_items, put_items, thaw, thread_namespace
from unsay.storage.pagination import read_items

Status = Literal["made", "pending", "running", "done", "failed", "skipped"]
Result = Literal["undone", "failed", "unknown", "skipped", "returned"]

ERROR_CHARS = 500

_namespace = partial(thread_namespace, "compensations")


@dataclass(frozen=True, slots=True, kw_only=True)
class Compensation:
    """A tool call that a change removed from the transcript and that may have to be undone."""

    key: str
    """Names the call in its thread for good; some servers give two calls the same id."""

    tool_call_id: str
    message_id: str
    tool: str
    args: Mapping[str, Any]
    """Arguments of the call, with the tool's defaults."""

    result: str | None
    """Text that the call returned; `None` if no result is known."""

    description: str
    confirm: bool = False
    obstacle: str = ""
    """Why the call cannot be undone; empty when it can."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A compensation as it is stored."""

    compensation: Compensation
    status: Status
    error: str = ""
    turn_id: str = ""
    """Id of the question during which the call was made; empty except for `made`."""

    def to(self, status: Status, error: str = "") -> "Entry":
        """Return the entry in its next status."""
        return replace(self, status=status, error=error[:ERROR_CHARS], turn_id="")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of one compensation.

    `failed` and `skipped` left the call as it is, `unknown` follows a crash, and `returned` means
    that the call is in the transcript again although it was undone and not made again.
    """

    compensation: Compensation
    result: Result
    reason: str = ""
    """Why the call was not undone; empty when it was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The results for all calls that a change removed from the transcript, newest first."""

    outcomes: tuple[Outcome, ...] = ()

    @property
    def undone(self) -> tuple[Outcome, ...]:
        """Outcomes of calls that were undone."""
        return self.of("undone")

    @property
    def left(self) -> tuple[Outcome, ...]:
        """Outcomes that a person must look at: the world and the transcript may differ."""
        return tuple(each for each in self.outcomes if each.result != "undone")

    def of(self, *results: Result) -> tuple[Outcome, ...]:
        """Outcomes with one of these results."""
        return tuple(each for each in self.outcomes if each.result in results)


def put_entries(store: BaseStore, thread_id: str, entries: Sequence[Entry]) -> Call:
    """Write entries, all at once."""
    values = {each.compensation.key: pack(each) for each in entries}
    return put_items(store, _namespace(thread_id), values)


def get_entries(store: BaseStore, thread_id: str, keys: Sequence[str]) -> Steps[dict[str, Entry]]:
    """Read the entries with these keys, by key; one that does not exist is left out."""
    found = yield from get_items(store, _namespace(thread_id), keys)
    return {key: unpack(value) for key, value in found.items()}


def list_entries(store: BaseStore, thread_id: str) -> Steps[list[Entry]]:
    """Read all entries of a thread."""
    return (yield from read_items(store, _namespace(thread_id), lambda item: unpack(item.value)))


def pack(entry: Entry) -> dict[str, Any]:
    """Return an entry as plain JSON; the call is frozen, since a model or tool may say any text."""
    body = {**asdict(entry.compensation), "error": entry.error, "turn_id": entry.turn_id}
    return {"status": entry.status, "call": freeze(body)}


def unpack(value: Mapping[str, Any]) -> Entry:
    """Return the entry that was packed."""
    body = thaw(value["call"])
    entry = {"status": value["status"], "error": body.pop("error"), "turn_id": body.pop("turn_id")}
    return Entry(compensation=Compensation(**body), **entry)
