"""Conversations that can take things back.

The public names are loaded when they are first used, so that `import unsay`
and `unsay --help` stay instant.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unsay.context.reminders import Reminder
    from unsay.conversation.conversation import (
        AsyncConversation,
        AsyncRegistry,
        Conversation,
        Registry,
    )
    from unsay.graph.builder import build_graph
    from unsay.settings import Context, Settings
    from unsay.tools import reversible

__all__ = [
    "AsyncConversation",
    "AsyncRegistry",
    "Context",
    "Conversation",
    "Registry",
    "Reminder",
    "Settings",
    "build_graph",
    "reversible",
]

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


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'unsay' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
