"""Attempts of the turn under way, in the store: a crash does not run a finished tool again.

LangGraph stores a turn at its start and at its end; between them, the tool steps and the rejected
drafts are only here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any, NamedTuple

from langchain_core.messages import AIMessage
from langgraph.store.base import BaseStore

from unsay.effects import Call, Steps
from unsay.history.compensations import Entry, entry_items
from unsay.storage.items import (
    freeze,
    freeze_messages,
    get_item,
    put_in_namespaces,
    thaw,
    thaw_messages,
    thread_namespace,
)
from unsay.verdicts import Verdict

# Values of a draft that are messages.
_MESSAGES = ("messages", "quoted")
_namespace = partial(thread_namespace, "tool_steps")


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
    items = {_namespace(thread_id): {attempt.key: value}}
    return put_in_namespaces(store, {**entry_items(thread_id, made), **items})


def find_draft(
    store: BaseStore, thread_id: str, attempt: AttemptName
) -> Steps[tuple[dict[str, Any], Verdict | None] | None]:
    """Return an attempt's stored draft and the verdict that rejected it; `None` if none is stored.

    The verdict is `None` if the draft was not finished; the draft may then end with the results of
    some calls of its last message. Raises `DatabaseCorruptError` if an item is damaged.
    """
    item = yield from get_item(store, _namespace(thread_id), attempt.key)
    if item is None or item.value["attempt"] != attempt.name:
        return None
    draft = {**thaw(item.value["values"]), "messages": thaw_messages(item.value["messages"])}
    if quoted := thaw_messages(item.value["quoted"]):
        draft["quoted"] = quoted[0]
    step = draft["messages"][-1]
    if isinstance(step, AIMessage) and len(step.tool_calls) > 1:
        for place in range(len(step.tool_calls)):
            found = yield from find_draft(store, thread_id, attempt.of_call(step, place))
            draft["messages"] += found[0]["messages"] if found else []
    if "verdict" not in item.value:
        return draft, None
    verdict = thaw(item.value["verdict"])
    return draft, Verdict(**{**verdict, "blamed": tuple(verdict["blamed"])})
