"""The log of compensations: each tool call is undone at most once, also after a crash.

The store has one item for each call, written before anything runs. Its status is `pending`, then
`running`, then `done`, `failed` or `skipped`. A call that nothing has undone is `made`. A
compensation that a crash left `running` is reported and not run again, unless its tool is idempotent.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Literal, NamedTuple

from langchain_core.messages import AIMessage
from langgraph.store.base import BaseStore, SearchItem

from unsay.effects import Call, Steps
from unsay.errors import DatabaseCorruptError
from unsay.protocols import Verdict
from unsay.storage.items import (
    freeze,
    freeze_messages,
    get_item,
    get_items,
    put_in_namespaces,
    reading,
    thaw,
    thaw_messages,
    thread_namespace,
)
from unsay.storage.pagination import read_items

Status = Literal["made", "pending", "running", "done", "failed", "skipped"]
Result = Literal["undone", "failed", "unknown", "skipped", "returned"]

ERROR_CHARS = 500
LOG = logging.getLogger(__name__)

_namespace = partial(thread_namespace, "compensations")


@dataclass(frozen=True, slots=True, kw_only=True)
class Compensation:
    """A tool call with what its undo needs; `calls_to_undo` makes it.

    `args` include the tool's defaults. `result` is the text that the call returned, `None` if it is
    unknown. `obstacle` says in English why the call cannot be undone; it is empty if it can.
    `obstacle_code` is its row of the texts' `undo_reasons`, empty if it has none.
    """

    # Identifies the call in its thread: some servers give two calls the same `tool_call_id`.
    key: str
    tool_call_id: str
    message_id: str
    tool: str
    args: Mapping[str, Any]
    result: str | None
    description: str
    confirm: bool = False
    obstacle: str = ""
    obstacle_code: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A compensation as it is stored; `error` says why it failed or was skipped.

    `error_code` is its row of the texts' `undo_reasons`, empty if it has none. `turn_id`, the id of the question, is set only for the status `made`.
    """

    compensation: Compensation
    status: Status
    error: str = ""
    error_code: str = ""
    turn_id: str = ""

    def to(self, status: Status, error: str = "", error_code: str = "") -> "Entry":
        """Return the entry with its next status, which is not checked, and without `turn_id`.

        The error is shortened to `ERROR_CHARS`.
        """
        error = error[:ERROR_CHARS]
        return replace(self, status=status, error=error, error_code=error_code, turn_id="")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of one compensation.

    After `failed` and `skipped` the call is still in effect. `unknown` follows a crash. `returned`
    means that the call is in the transcript again, but was undone and not repeated. `reason` says
    in English, or in the words of a tool's error, why the call was not undone; it is empty if it was.
    `reason_code` is its row of the texts' `undo_reasons`, empty if it has none.
    """

    compensation: Compensation
    result: Result
    reason: str = ""
    reason_code: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The outcomes of the tool calls that a step had to undo; `run_compensations` makes it."""

    outcomes: tuple[Outcome, ...] = ()

    @property
    def undone(self) -> tuple[Outcome, ...]:
        """Outcomes of calls that were undone."""
        return self.of("undone")

    @property
    def left(self) -> tuple[Outcome, ...]:
        """All outcomes but those of calls that were undone: a person must check these effects."""
        return tuple(outcome for outcome in self.outcomes if outcome.result != "undone")

    def of(self, *results: Result) -> tuple[Outcome, ...]:
        """Return the outcomes with any of these results."""
        return tuple(outcome for outcome in self.outcomes if outcome.result in results)


def put_entries(store: BaseStore, thread_id: str, entries: Sequence[Entry]) -> Call[object]:
    """Return a `Call` that stores entries in one transaction; one of the same key is replaced.

    Raises `InputError` if an argument or a result in an entry cannot be stored.
    """
    return put_in_namespaces(store, entry_items(thread_id, entries))


def entry_items(
    thread_id: str, entries: Sequence[Entry]
) -> dict[tuple[str, ...], dict[str, dict[str, Any]]]:
    """Return the items of entries by namespace and key, for a batch with other items.

    Raises `InputError` if an argument or a result in an entry cannot be stored.
    """
    return {_namespace(thread_id): {entry.compensation.key: pack(entry) for entry in entries}}


def find_entries(
    store: BaseStore, thread_id: str, keys: Sequence[str]
) -> Steps[dict[str, Entry | None]]:
    """Read the entries with these keys; missing ones are left out, and `None` is a damaged one.

    A damaged one is logged as a warning.
    """
    try:
        values = yield from get_items(store, _namespace(thread_id), keys)
        return {key: unpack(value) for key, value in values.items()}
    except DatabaseCorruptError as error:
        if len(keys) == 1:
            _warn(keys[0], error)
            return {keys[0]: None}
    entries: dict[str, Entry | None] = {}
    for key in keys:  # one damaged entry fails the whole batch, so each is read alone
        entries |= yield from find_entries(store, thread_id, [key])
    return entries


def list_entries(
    store: BaseStore, thread_id: str, *, skip_damaged: bool = False
) -> Steps[list[Entry]]:
    """Read the entries of all calls of a thread, of every status, in no certain order.

    Raises `DatabaseCorruptError` if one is damaged. With `skip_damaged` it is left out instead, and
    logged as a warning.
    """

    def read(item: SearchItem) -> Entry | None:
        try:
            return unpack(item.value)
        except DatabaseCorruptError as error:
            if not skip_damaged:
                raise
            _warn(item.key, error)
            return None

    return (yield from read_items(store, _namespace(thread_id), read))


def _warn(key: str, error: DatabaseCorruptError) -> None:
    LOG.warning("call=%r reason=%r the stored entry of a call is damaged", key, str(error))


_NOTED = ("error", "error_code", "turn_id")


def pack(entry: Entry) -> dict[str, Any]:
    """Return an entry as plain JSON for the store; `unpack` restores it.

    Raises `InputError` if an argument or the result of its call cannot be stored.
    """
    # Frozen, since the text of a model or tool can have characters that a store's JSON cannot hold.
    body = {**asdict(entry.compensation), **{name: getattr(entry, name) for name in _NOTED}}
    return {"status": entry.status, "call": freeze(body)}


def unpack(value: Mapping[str, Any]) -> Entry:
    """Return the entry that `pack` returned; `DatabaseCorruptError` if it is damaged."""
    with reading("A stored tool call"):
        body = thaw(value["call"])
        facts = {name: body.pop(name, "") for name in _NOTED}
        return Entry(compensation=Compensation(**body), status=value["status"], **facts)


# Values of a draft that are messages.
_MESSAGES = ("messages", "quoted")
_steps_namespace = partial(thread_namespace, "tool_steps")


class AttemptName(NamedTuple):
    """An attempt of a thread: its item at `key` replaces that of an earlier turn.

    No other attempt has its `name`.
    """

    key: str
    name: str

    def of_call(self, step: AIMessage, place: int) -> "AttemptName":
        """Return the name for the results of one call; `place` is its index in the message `step`."""
        return AttemptName(key=f"{self.key}-call-{place}", name=f"{self.name} {step.id}")


def put_draft(
    store: BaseStore,
    thread_id: str,
    attempt: AttemptName,
    draft: Mapping[str, Any],
    *,
    verdict: Verdict | None = None,
    made: Sequence[Entry] = (),
) -> Call[object]:
    """Return a call that stores an attempt's draft so far.

    `draft` is the state of the tool loop. `verdict` is the one that rejected the draft; `None` if
    the draft is not finished. `made` are entries of its calls, which are stored in the same
    transaction: a crash leaves no entry of a call whose result is lost.
    """
    quoted = draft.get("quoted")
    value = {
        "attempt": attempt.name,
        "messages": freeze_messages(draft["messages"]),
        "quoted": freeze_messages([] if quoted is None else [quoted]),
        "values": freeze({key: draft[key] for key in draft if key not in _MESSAGES}),
    }
    if verdict is not None:
        value["verdict"] = freeze(asdict(verdict))
    items = {_steps_namespace(thread_id): {attempt.key: value}}
    return put_in_namespaces(store, {**entry_items(thread_id, made), **items})


def find_draft(
    store: BaseStore, thread_id: str, attempt: AttemptName
) -> Steps[tuple[dict[str, Any], Verdict | None] | None]:
    """Return an attempt's stored draft and the verdict that rejected it; `None` if none is stored.

    The verdict is `None` if the draft was not finished; the draft may then end with the results of
    some calls of its last message. Raises `DatabaseCorruptError` if an item is damaged.
    """
    item = yield from get_item(store, _steps_namespace(thread_id), attempt.key)
    if item is None or item.value["attempt"] != attempt.name:
        return None
    draft = {**thaw(item.value["values"]), "messages": thaw_messages(item.value["messages"])}
    if quoted := thaw_messages(item.value["quoted"]):
        draft["quoted"] = quoted[0]
    step = draft["messages"][-1]
    if isinstance(step, AIMessage) and len(step.tool_calls) > 1:
        for place in range(len(step.tool_calls)):
            call_draft = yield from find_draft(store, thread_id, attempt.of_call(step, place))
            draft["messages"] += call_draft[0]["messages"] if call_draft else []
    if "verdict" not in item.value:
        return draft, None
    verdict = thaw(item.value["verdict"])
    return draft, Verdict(**{**verdict, "blamed": tuple(verdict["blamed"])})
