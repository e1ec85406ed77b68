"""A thread's entry in the registry of its conversation's database."""

from functools import partial
from types import SimpleNamespace
from typing import Any

from unsay import AsyncConversation, AsyncRegistry, Registry

VERBS = ("events", "note", "label", "end", "runs", "purge")


def recorded(conversation: Any) -> Any:
    """The verbs of a registry that take a thread's id, for the thread of a conversation."""
    kind: Any = AsyncRegistry if isinstance(conversation, AsyncConversation) else Registry
    handle = conversation._handle
    registry = kind(handle.database, settings=handle.services.settings)
    verbs = {name: partial(getattr(registry, name), handle.thread_id) for name in VERBS}
    return SimpleNamespace(**verbs)
