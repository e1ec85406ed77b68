"""Finding a turn, by the id of its user message, after the message has left the state.

The place is written before the message leaves, so that a crash loses no turn. Read the state first:
while the message is there, the place does not count.
"""

import hashlib
from collections.abc import Mapping, Sequence
from functools import partial

from langchain_core.messages import AnyMessage
from langgraph.store.base import BaseStore, Item

from unsay.effects import Steps
from unsay.messages.annotations import annotation_of, is_answer, is_notice, is_question
from unsay.storage.items import get_item, get_items, put_items, thread_namespace

# Items that hold the places of a thread's turns. A place takes 50 bytes there, and 250 as a separate
# item; with 10,000 turns an item has 8 KB. Source: own measurement.
BUCKETS = 64
# Length of the digest of a turn id.
DIGEST_CHARS = 20


_namespace = partial(thread_namespace, "turns")


def put_places(store: BaseStore, thread_id: str, places: Mapping[str, str]) -> Steps[None]:
    """Write the places of turns; the caller must be the thread's only writer.

    `places` has, by turn id, the id of a branch, or of the message that repeats the turn's question.
    """
    buckets: dict[str, dict[str, str]] = {}
    for turn_id, place in places.items():
        digest = _digest(turn_id)
        buckets.setdefault(_bucket(digest), {})[digest] = place
    if not buckets:
        return
    old = yield from get_items(store, _namespace(thread_id), list(buckets))
    values = {key: {**old.get(key, {}), **buckets[key]} for key in buckets}
    yield put_items(store, _namespace(thread_id), values)


def find_place(store: BaseStore, thread_id: str, turn_id: str) -> Steps[str | None]:
    """Return the place of a turn that has left the state; `None` if it has not."""
    digest = _digest(turn_id)
    item: Item | None = yield get_item(store, _namespace(thread_id), _bucket(digest))
    return None if item is None else item.value.get(digest)


def answers_in(messages: Sequence[AnyMessage]) -> dict[str, AnyMessage]:
    """Return the answer to each user message, by the message's id.

    Unanswered messages are left out; several that waited together share one answer.
    """
    answers: dict[str, AnyMessage] = {}
    waiting: dict[str, None] = {}
    for message in messages:
        if is_question(message):
            waiting[message.id or ""] = None
        elif is_answer(message):
            answers |= dict.fromkeys(waiting, message)
            waiting = {}
        elif is_notice(message):
            named = [each for each in annotation_of(message).get("answers", ()) if each in waiting]
            answers |= dict.fromkeys(named, message)
            waiting = {name: None for name in waiting if name not in named}
    return answers


def _digest(turn_id: str) -> str:
    return hashlib.sha256(turn_id.encode("utf-8", "surrogatepass")).hexdigest()[:DIGEST_CHARS]


def _bucket(digest: str) -> str:
    return f"{int(digest[:4], 16) % BUCKETS:02}"
