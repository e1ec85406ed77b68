"""Where a turn went, found by its id once its words are no longer in the state.

A turn's id is the id of its user message. While that message is in the state nothing is kept
here. Before it leaves, its place is written: so what is found here is a place to look, and the
state, which is looked at first, is what counts.
"""

import hashlib
from collections.abc import Mapping, Sequence

from langchain_core.messages import AnyMessage
from langgraph.store.base import BaseStore, Item

from unsay.effects import Steps
from unsay.messages.annotations import is_answer, is_notice, is_question, mark_of
from unsay.storage.items import get_item, get_items, put_items, thread_namespace

BUCKETS = 64
"""Items that share a thread's places. A place takes some 50 bytes in one, 250 as an item of its own;
at 10,000 turns that left the state an item is 8 KB long."""

DIGEST_CHARS = 20
"""Length of the digest of a turn id; what is found is compared with the id itself."""


def turns_namespace(thread_id: str) -> tuple[str, ...]:
    """The store's namespace for the places of a thread's turns."""
    return thread_namespace("turns", thread_id)


def put_places(store: BaseStore, thread_id: str, places: Mapping[str, str]) -> Steps[None]:
    """Write where turns will be found; the caller is the thread's only writer.

    A place is, by turn id, the id of a cut or of the message that the turn asks again.
    """
    found: dict[str, dict[str, str]] = {}
    for turn_id, place in places.items():
        digest = _digest(turn_id)
        found.setdefault(_bucket(digest), {})[digest] = place
    if not found:
        return
    namespace = turns_namespace(thread_id)
    old = yield from get_items(store, namespace, list(found))
    values = {key: {**old.get(key, {}), **found[key]} for key in found}
    yield put_items(store, namespace, values)


def find_place(store: BaseStore, thread_id: str, turn_id: str) -> Steps[str | None]:
    """Where a turn's words went when they left the state; `None` when they never did."""
    digest = _digest(turn_id)
    item: Item | None = yield get_item(store, turns_namespace(thread_id), _bucket(digest))
    return None if item is None else item.value.get(digest)


def answers_in(messages: Sequence[AnyMessage]) -> dict[str, AnyMessage]:
    """What answered each of the user's messages, by the message's id.

    Messages that nothing answered are left out; several that waited together have one answer.
    """
    found: dict[str, AnyMessage] = {}
    waiting: dict[str, None] = {}
    for message in messages:
        if is_question(message):
            waiting[message.id or ""] = None
        elif is_answer(message):
            found |= dict.fromkeys(waiting, message)
            waiting = {}
        elif is_notice(message):
            named = [each for each in mark_of(message).get("answers", ()) if each in waiting]
            found |= dict.fromkeys(named, message)
            waiting = {name: None for name in waiting if name not in named}
    return found


def _digest(turn_id: str) -> str:
    return hashlib.sha256(turn_id.encode("utf-8", "surrogatepass")).hexdigest()[:DIGEST_CHARS]


def _bucket(digest: str) -> str:
    return f"{int(digest[:4], 16) % BUCKETS:02}"
