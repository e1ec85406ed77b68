"""Tool steps of the attempt under way, in the store: a crash does not run a finished tool again.

LangGraph stores a turn at its start and at its end; between them, the steps are only here.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from langgraph.store.base import BaseStore

from unsay.effects import Call, Steps
from unsay.storage.items import (
    freeze,
    freeze_messages,
    get_item,
    put_item,
    thaw,
    thaw_messages,
    thread_namespace,
)

# The one item of a thread: each step replaces it.
KEY = "newest"
# Values of a draft that are messages.
_MESSAGES = ("messages", "quoted")
_namespace = partial(thread_namespace, "tool_steps")


def put_draft(store: BaseStore, thread_id: str, attempt: str, draft: Mapping[str, Any]) -> Call:
    """Return a call that stores an attempt's draft in place of the one that the thread has stored.

    `attempt` is the name of the attempt, and `draft` the state of the tool loop. Raises `InputError`
    if a part of the draft cannot be stored.
    """
    quoted = draft.get("quoted")
    value = {
        "attempt": attempt,
        "messages": freeze_messages(draft["messages"]),
        "quoted": freeze_messages([] if quoted is None else [quoted]),
        "values": freeze({key: draft[key] for key in draft if key not in _MESSAGES}),
    }
    return put_item(store, _namespace(thread_id), KEY, value)


def find_draft(store: BaseStore, thread_id: str, attempt: str) -> Steps[dict[str, Any]]:
    """Return the stored messages and values of an attempt's draft; empty if none is stored.

    Raises `DatabaseCorruptError` if it is damaged.
    """
    item = yield get_item(store, _namespace(thread_id), KEY)
    if item is None or item.value["attempt"] != attempt:
        return {}
    draft = {**thaw(item.value["values"]), "messages": thaw_messages(item.value["messages"])}
    quoted = thaw_messages(item.value["quoted"])
    return {**draft, "quoted": quoted[0]} if quoted else draft
