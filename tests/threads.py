"""One way to open a conversation, and a thread's entry in the registry of its database."""

from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.graph.kit import Numbered, scores
from tests.reading import database_of, handle_of
from unsay import AsyncConversation, AsyncRegistry, Conversation, Registry
from unsay.storage.base import Database

VERBS = ("events", "note", "label", "end", "runs", "purge")


def open_conversation(
    database: Database | Path | str = ":memory:",
    *,
    model: Any = None,
    judge: Any = None,
    **options: Any,
) -> Conversation:
    """Open the thread `t` of a database; without a model the drafts have numbers and pass."""
    services = {"model": model or Numbered(), "judge": judge or scores()}
    return Conversation.open(database, **{"thread": "t", **services, **options})


def registry_of(conversation: Any) -> Any:
    """The verbs of a registry that take a thread's id, for the thread of a conversation."""
    kind: Any = AsyncRegistry if isinstance(conversation, AsyncConversation) else Registry
    settings = handle_of(conversation).services.settings
    registry = kind(database_of(conversation), settings=settings)
    verbs = {name: partial(getattr(registry, name), conversation.thread_id) for name in VERBS}
    return SimpleNamespace(**verbs)
