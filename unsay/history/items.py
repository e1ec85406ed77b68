"""Items of a LangGraph store: where those of a thread lie, and the calls that write and read one."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from langgraph.store.base import BaseStore

from unsay.effects import Call


def thread_namespace(kind: str, thread_id: str) -> tuple[str, ...]:
    """The store's namespace for one kind of a thread's items, safe for any thread id."""
    return ("unsay", kind, quote(thread_id, safe="").replace(".", "%2E"))


def put_item(store: BaseStore, place: tuple[str, ...], key: str, value: Mapping[str, Any]) -> Call:
    """A call that writes an item for good: not indexed, and never expiring."""
    plain = dict(value)
    return Call(
        blocking=lambda: store.put(place, key, plain, index=False, ttl=None),
        awaitable=lambda: store.aput(place, key, plain, index=False, ttl=None),
    )


def get_item(store: BaseStore, place: tuple[str, ...], key: str) -> Call:
    """A call that gives an `Item`, `None` where there is none."""
    return Call(blocking=lambda: store.get(place, key), awaitable=lambda: store.aget(place, key))
