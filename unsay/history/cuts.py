"""Where cuts are kept: whole in the store, by reference in the state."""

from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import Any, cast
from urllib.parse import quote

from langchain_core.messages import BaseMessage, message_to_dict, messages_from_dict
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from unsay.types import Cut, CutRef

CUT_REFS = 20
"""How many cuts a thread's state names; with a store all of them stay there."""

INLINE_CUTS = 20
"""How many whole cuts the state carries where no store is given."""

_SERIALIZER = JsonPlusSerializer(allowed_msgpack_modules=None)


def cuts_namespace(thread_id: str) -> tuple[str, ...]:
    """The store's namespace for a thread's cuts, safe for any thread id."""
    return ("unsay", "cuts", quote(thread_id, safe="").replace(".", "%2E"))


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
    """A cut as plain JSON for the store.

    Its messages become text made of the bytes that a checkpoint would hold:
    JSON has no bytes, no NaN and no half surrogate pairs, and a message may.
    """
    return {**cut, "messages": _frozen(cut["messages"]), "drafts": _frozen(cut["drafts"])}


def unpack(value: dict[str, Any]) -> Cut:
    """A cut from the store, its messages as they were."""
    whole = {key: _thawed(value[key]) for key in ("messages", "drafts")}
    return cast("Cut", {**value, **whole})


def _frozen(messages: Sequence[BaseMessage]) -> str:
    _, data = _SERIALIZER.dumps_typed([message_to_dict(each) for each in messages])
    return b64encode(data).decode("ascii")


def _thawed(text: str) -> list[BaseMessage]:
    return messages_from_dict(_SERIALIZER.loads_typed(("msgpack", b64decode(text))))
