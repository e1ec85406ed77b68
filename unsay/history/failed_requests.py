"""The complete requests of failed attempts, stored so that they can be repeated."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

from langchain_core.messages import BaseMessage, message_to_dict, messages_from_dict
from langgraph.store.base import BaseStore, Item

from unsay.effects import Steps
from unsay.storage.items import drop_items, freeze, put_item, reading, thaw, thread_namespace
from unsay.storage.pagination import read_items

MOST_KEPT = 8

requests_namespace = partial(thread_namespace, "requests")


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedRequest:
    """The last request of an attempt, and how the attempt ended; `keep_failed_request` makes it.

    `payload` is the body of the request to the provider, without its streaming options. For a
    failed call `error` is the class of its error, and there is neither an answer nor a score. For a
    rejected draft `error` is `None`.
    """

    run_id: str
    turn_id: str
    turn: int
    attempt: int
    at: str
    messages: Sequence[BaseMessage]
    payload: dict[str, Any]
    question: str
    answer: str
    score: float | None
    reason: str
    error: str | None


def keep_request(store: BaseStore, thread_id: str, request: FailedRequest) -> Steps[None]:
    """Store a failed request, and delete all but the newest `MOST_KEPT` of the thread.

    An older request of the same turn and attempt is replaced. `replay` reads these requests.
    Raises `InputError` if a part of the request cannot be stored.
    """
    namespace = requests_namespace(thread_id)
    key = f"{request.turn_id}-{request.attempt:03}"  # padded: keys of equal times sort by attempt
    value = {field.name: getattr(request, field.name) for field in fields(request)}
    sent = {
        "messages": [message_to_dict(message) for message in value.pop("messages")],
        "payload": value.pop("payload"),
    }
    yield put_item(store, namespace, key, {**value, "sent": freeze(sent, dense=True)})
    times = yield from read_items(
        store, namespace, lambda item: (item.value.get("at", ""), item.key)
    )
    oldest = [old_key for _, old_key in sorted(times)][:-MOST_KEPT]
    if oldest:
        yield drop_items(store, namespace, oldest)


def list_requests(store: BaseStore, thread_id: str) -> Steps[list[FailedRequest]]:
    """Read the stored requests of failed attempts of a thread, oldest first.

    Raises `DatabaseCorruptError` if one is damaged.
    """

    def read(item: Item) -> FailedRequest:
        value = dict(item.value)
        with reading("A stored request"):
            sent = thaw(value.pop("sent"))
            messages = messages_from_dict(sent["messages"])
            return FailedRequest(**value, messages=messages, payload=sent["payload"])

    requests = yield from read_items(store, requests_namespace(thread_id), read)
    return sorted(requests, key=lambda request: (request.at, request.attempt))
