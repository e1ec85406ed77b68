"""The complete requests of failed attempts, stored so that they can be repeated."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

from langchain_core.messages import BaseMessage, message_to_dict, messages_from_dict
from langgraph.store.base import BaseStore, Item

from unsay.effects import Steps
from unsay.storage.items import drop_items, freeze, put_item, thaw, thread_namespace
from unsay.storage.pagination import read_items

MOST_KEPT = 8

requests_namespace = partial(thread_namespace, "requests")


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedRequest:
    """The last request of an attempt, and how the attempt ended.

    `payload` is the body of the request to the provider, without its streaming options. `error` is
    the class of the model's error, then without an answer and a score; `None` for a rejected draft.
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


def keep_request(store: BaseStore, thread_id: str, kept: FailedRequest) -> Steps[None]:
    """Store a request, in place of that of the same attempt; the newest `MOST_KEPT` stay."""
    place = requests_namespace(thread_id)
    key = f"{kept.turn_id}-{kept.attempt:03}"  # padded: keys of equal times sort by attempt
    value = {each.name: getattr(kept, each.name) for each in fields(kept)}
    sent = {
        "messages": [message_to_dict(each) for each in value.pop("messages")],
        "payload": value.pop("payload"),
    }
    yield put_item(store, place, key, {**value, "sent": freeze(sent, dense=True)})
    ages = yield from read_items(store, place, lambda item: (item.value["at"], item.key))
    oldest = [name for _, name in sorted(ages)][:-MOST_KEPT]
    if oldest:
        yield drop_items(store, place, oldest)


def list_requests(store: BaseStore, thread_id: str) -> Steps[list[FailedRequest]]:
    """Read the stored requests of failed attempts of a thread, oldest first."""

    def read(item: Item) -> FailedRequest:
        value = dict(item.value)
        sent = thaw(value.pop("sent"))
        messages = messages_from_dict(sent["messages"])
        return FailedRequest(**value, messages=messages, payload=sent["payload"])

    kept = yield from read_items(store, requests_namespace(thread_id), read)
    return sorted(kept, key=lambda each: (each.at, each.attempt))
