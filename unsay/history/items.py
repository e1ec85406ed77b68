"""Items of a LangGraph store: where those of a thread lie, and the calls that write and read one."""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from langgraph.store.base import BaseStore, PutOp

from unsay.effects import Call


def thread_namespace(kind: str, thread_id: str) -> tuple[str, ...]:
    """The store's namespace for one kind of a thread's items, safe for any thread id."""
    return ("unsay", kind, quote(thread_id, safe="").replace(".", "%2E"))


def put_item(store: BaseStore, place: tuple[str, ...], key: str, value: Mapping[str, Any]) -> Call:
    """A call that writes an item for good: not indexed, and never expiring.

    Half a surrogate pair, which a store's JSON cannot hold, becomes `?` as in a checkpoint.
    """
    plain = {name: _storable(each) for name, each in value.items()}
    return Call(
        blocking=lambda: store.put(place, key, plain, index=False, ttl=None),
        awaitable=lambda: store.aput(place, key, plain, index=False, ttl=None),
    )


def get_item(store: BaseStore, place: tuple[str, ...], key: str) -> Call:
    """A call that gives an `Item`, `None` where there is none."""
    return Call(blocking=lambda: store.get(place, key), awaitable=lambda: store.aget(place, key))


def drop_items(store: BaseStore, place: tuple[str, ...], keys: Sequence[str]) -> Call:
    """A call that deletes items, all of them or none."""
    ops = [PutOp(namespace=place, key=key, value=None) for key in keys]
    return Call(blocking=lambda: store.batch(ops), awaitable=lambda: store.abatch(ops))


def _storable(value: Any) -> Any:
    """A plain value with no text that JSON in UTF-8 cannot hold."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, Mapping):
        return {_storable(name): _storable(each) for name, each in value.items()}
    return [_storable(each) for each in value] if isinstance(value, list | tuple) else value
