"""Where cuts are kept: whole in the store, by reference in the state."""

from collections.abc import Sequence
from typing import Any, Literal, cast

from langgraph.store.base import BaseStore

from unsay.effects import Steps
from unsay.history.frozen import freeze_messages, thaw_messages
from unsay.history.items import thread_namespace
from unsay.history.paging import scan
from unsay.types import Cut, CutRef

CUT_REFS = 20
"""How many cuts a thread's state names; with a store all of them stay there."""

MANY = 8
"""From so many messages on a cut is worth the time to store it densely. Source: own measurement."""

INLINE_CUTS = 20
"""How many whole cuts the state carries where no store is given."""

_MESSAGES: tuple[Literal["messages", "drafts"], ...] = ("messages", "drafts")


def cuts_namespace(thread_id: str) -> tuple[str, ...]:
    """The store's namespace for a thread's cuts."""
    return thread_namespace("cuts", thread_id)


def reference(cut: Cut, *, inline: bool) -> CutRef:
    """How the state names a cut; with its body where no store keeps it."""
    ref = CutRef(
        id=cut["id"],
        kind=cut["kind"],
        base=cut["base"],
        reason=cut["reason"],
        created_at=cut["created_at"],
        size=len(cut["messages"]) + len(cut["drafts"]),
    )
    return {**ref, "body": cut} if inline else ref


def add_reference(refs: Sequence[CutRef], new: CutRef) -> list[CutRef]:
    """The references with one more, bounded; a cut made again replaces itself."""
    kept = [*(ref for ref in refs if ref["id"] != new["id"]), new]
    return kept[-(INLINE_CUTS if "body" in new else CUT_REFS) :]


def pack(cut: Cut) -> dict[str, Any]:
    """A cut as plain JSON for the store."""
    dense = len(cut["messages"]) >= MANY
    return {**cut, **{str(key): freeze_messages(cut[key], dense=dense) for key in _MESSAGES}}


def unpack(value: dict[str, Any]) -> Cut:
    """A cut from the store, its messages as they were."""
    whole = {key: thaw_messages(value[key]) for key in _MESSAGES}
    return cast("Cut", {**value, **whole})


def list_cuts(store: BaseStore, thread_id: str) -> Steps[list[Cut]]:
    """All cuts of a thread that a store keeps, the oldest first."""
    place = cuts_namespace(thread_id)
    found = yield from scan(
        store, place, lambda item: unpack(item.value) if tuple(item.namespace) == place else None
    )
    return sorted(found, key=lambda cut: (cut["created_at"], cut["id"]))
