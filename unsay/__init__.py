"""Conversations that can take things back.

The public names are loaded when they are first used, so that `import unsay`
and `unsay --help` stay instant.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unsay.context.reminders import Reminder as Reminder
    from unsay.conversation.conversation import AsyncConversation as AsyncConversation
    from unsay.conversation.conversation import AsyncRegistry as AsyncRegistry
    from unsay.conversation.conversation import Conversation as Conversation
    from unsay.conversation.conversation import Registry as Registry
    from unsay.graph.builder import build_graph as build_graph
    from unsay.settings import Context as Context
    from unsay.settings import Settings as Settings
    from unsay.tools import reversible as reversible

_HOMES = {
    "AsyncConversation": "unsay.conversation.conversation",
    "AsyncRegistry": "unsay.conversation.conversation",
    "Context": "unsay.settings",
    "Conversation": "unsay.conversation.conversation",
    "Registry": "unsay.conversation.conversation",
    "Reminder": "unsay.context.reminders",
    "Settings": "unsay.settings",
    "build_graph": "unsay.graph.builder",
    "reversible": "unsay.tools",
}
__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'unsay' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
