"""Conversations that can take things back.

The public names are loaded when they are first used, so that `import unsay`
and `unsay --help` stay instant.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unsay.graph.builder import build_graph
    from unsay.graph.conversation import AsyncConversation, Conversation
    from unsay.settings import Context, Settings

__all__ = ["AsyncConversation", "Context", "Conversation", "Settings", "build_graph"]

_HOMES = {
    "AsyncConversation": "unsay.graph.conversation",
    "Context": "unsay.settings",
    "Conversation": "unsay.graph.conversation",
    "Settings": "unsay.settings",
    "build_graph": "unsay.graph.builder",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'unsay' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
