"""The requests of attempts that failed, kept whole so that they can be made again."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from langchain_core.messages import BaseMessage
from langgraph.store.base import BaseStore, Item

from unsay.effects import Call, Steps
from unsay.history.frozen import freeze, freeze_messages, thaw, thaw_messages
from unsay.history.items import put_item, thread_namespace
from unsay.history.paging import scan


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptRequest:
    """One attempt's last request to the model, and how the attempt ended."""

    run_id: str
    """Of the run that made it."""

    turn_id: str
    """Id of the question."""

    turn: int
    """The turn's number when it was made."""

    attempt: int
    """From 1, within the turn."""

    at: str
    """ISO 8601, UTC."""

    messages: Sequence[BaseMessage]
    """As the model was given them."""

    payload: dict[str, Any]
    """As the provider was sent them: the request's body, without how it was streamed."""

    question: str
    """The user's words."""

    answer: str
    """The draft's words; empty when the model gave none."""

    score: float | None
    """The draft's; `None` when the model failed."""

    reason: str
    """Why the draft was taken back, or what the model's error said."""

    error: str | None
    """Class of the model's error; `None` for a draft that was judged and failed."""


def requests_namespace(thread_id: str) -> tuple[str, ...]:
    """The store's namespace for a thread's failed requests."""
    return thread_namespace("requests", thread_id)


def put_request(store: BaseStore, thread_id: str, kept: KeptRequest) -> Call:
    """A call that keeps a request; the same attempt made again replaces its own."""
    place = requests_namespace(thread_id)
    key = f"{kept.turn_id}-{kept.attempt:03}"
    plain = {each.name: getattr(kept, each.name) for each in fields(kept)}
    frozen = {"messages": freeze_messages(kept.messages), "payload": freeze(kept.payload)}
    value = {**plain, **frozen}
    return put_item(store, place, key, value)


def list_requests(store: BaseStore, thread_id: str) -> Steps[list[KeptRequest]]:
    """The failed requests that a thread keeps, oldest first."""
    place = requests_namespace(thread_id)
    kept = yield from scan(
        store, place, lambda item: _thawed(item) if item.namespace == place else None
    )
    return sorted(kept, key=lambda each: (each.at, each.attempt))


def _thawed(item: Item) -> KeptRequest:
    whole = {
        "messages": thaw_messages(item.value["messages"]),
        "payload": thaw(item.value["payload"]),
    }
    return KeptRequest(**{**item.value, **whole})
