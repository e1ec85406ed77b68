"""The journal of compensations: what was taken back in the world, once, through crashes.

One item a call, in the store, written before anything runs: `pending`, then `running`, then `done`,
`failed` or `skipped`. A call whose answer is still under way is `made`: its turn may never
end. What a crash leaves `running` may have run or not, so it is reported and not run again, unless
its tool says that this does no harm.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from langgraph.store.base import BaseStore

from unsay.effects import Call, Steps
from unsay.storage.items import freeze, get_items, put_items, thaw, thread_namespace
from unsay.storage.pagination import read_items

Status = Literal["made", "pending", "running", "done", "failed", "skipped"]
Result = Literal["undone", "failed", "unknown", "skipped", "returned"]

ERROR_CHARS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Compensation:
    """One call of a tool that a change takes off the record, and what becomes of it."""

    key: str
    """Of the call in its thread, for good: some servers give two calls the same id."""

    tool_call_id: str
    message_id: str
    tool: str
    args: Mapping[str, Any]
    """Of the call, the tool's defaults included."""

    result: str | None
    """What the call gave, in words; `None` where no result is known."""

    description: str
    confirm: bool = False
    obstacle: str = ""
    """Why it cannot be taken back; empty when it can."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A compensation as the journal has it."""

    compensation: Compensation
    status: Status
    error: str = ""
    turn_id: str = ""
    """The question that was being answered when a call was made; empty for later entries."""

    def to(self, status: Status, error: str = "") -> "Entry":
        """The entry in its next state."""
        return replace(self, status=status, error=error[:ERROR_CHARS], turn_id="")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one call."""

    compensation: Compensation
    result: Result
    """`undone`; `failed` or `skipped`, which left it as it is; `unknown` after a crash; `returned` to
    the record although it was undone before, and not made again."""

    reason: str = ""
    """Why it was not undone; empty when it was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What became of the calls that a change took off the record, the newest first."""

    outcomes: tuple[Outcome, ...] = ()

    @property
    def undone(self) -> tuple[Outcome, ...]:
        """The calls that were taken back."""
        return self.of("undone")

    @property
    def left(self) -> tuple[Outcome, ...]:
        """The calls that a person must look after: the world and the record may differ."""
        return tuple(each for each in self.outcomes if each.result != "undone")

    def of(self, *results: Result) -> tuple[Outcome, ...]:
        """The calls of which one of these became."""
        return tuple(each for each in self.outcomes if each.result in results)


def compensations_namespace(thread_id: str) -> tuple[str, ...]:
    """The store's namespace for a thread's journal of compensations."""
    return thread_namespace("compensations", thread_id)


def put_entries(store: BaseStore, thread_id: str, entries: Sequence[Entry]) -> Call:
    """A call that writes entries, all at once."""
    values = {each.compensation.key: pack(each) for each in entries}
    return put_items(store, compensations_namespace(thread_id), values)


def get_entries(store: BaseStore, thread_id: str, keys: Sequence[str]) -> Steps[dict[str, Entry]]:
    """The entries that there are, by their keys."""
    found = yield from get_items(store, compensations_namespace(thread_id), keys)
    return {key: unpack(value) for key, value in found.items()}


def list_entries(store: BaseStore, thread_id: str) -> Steps[list[Entry]]:
    """The thread's whole journal."""
    place = compensations_namespace(thread_id)
    return (yield from read_items(store, place, lambda item: unpack(item.value)))


def pack(entry: Entry) -> dict[str, Any]:
    """An entry as plain JSON; what a model or a tool said is frozen, since it may be any text."""
    body = {**asdict(entry.compensation), "error": entry.error, "turn_id": entry.turn_id}
    return {"status": entry.status, "call": freeze(body)}


def unpack(value: Mapping[str, Any]) -> Entry:
    """The entry that was packed."""
    body = thaw(value["call"])
    entry = {"status": value["status"], "error": body.pop("error"), "turn_id": body.pop("turn_id")}
    return Entry(compensation=Compensation(**body), **entry)
