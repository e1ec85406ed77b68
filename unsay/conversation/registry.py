"""All threads and runs of a database or a store, for dashboards and maintenance."""

import os
from typing import Self

from langgraph.store.base import BaseStore

from unsay.conversation.facade import Blocking, OnLoop
from unsay.conversation.verbs import RegistryVerbs
from unsay.storage.base import Database
from unsay.storage.sqlite import open_database


class _Listed:
    def __init__(self, store: BaseStore, database: Database | None = None) -> None:
        self._store = store
        self._database = database

    @classmethod
    def open(cls, path_or_url: str | os.PathLike[str] | Database | BaseStore) -> Self:
        """Open a registry over a file, an open database, or a host's store.

        Args:
            path_or_url: As for `Conversation.open`, or a LangGraph store.

        Raises:
            StorageError: The file cannot be used; the message says why.
        """
        if isinstance(path_or_url, BaseStore):
            return cls(path_or_url)
        given = isinstance(path_or_url, Database)
        database = path_or_url if isinstance(path_or_url, Database) else open_database(path_or_url)
        return cls(database.store, None if given else database)

    def _close(self) -> None:
        if self._database is not None:
            self._database.close()


class Registry(_Listed, RegistryVerbs, Blocking):
    """The threads and runs of a database, for scripts.

    Example:
        >>> from unsay import Conversation
        >>> from unsay.storage.sqlite import open_database
        >>> from unsay.testing import ScriptedChat, ScriptedJudge
        >>> file = open_database(":memory:")
        >>> model = ScriptedChat(default="Two days are enough.")
        >>> talk = Conversation.open(file, thread="trip", model=model, judge=ScriptedJudge())
        >>> _ = talk.say("How long should I stay in Kyoto?")
        >>> registry = Registry.open(file)
        >>> [each.thread_id for each in registry.sessions(status="active").sessions]
        ['trip']
        >>> [each.status for each in registry.runs(thread_id="trip").runs]
        ['completed']
    """


class AsyncRegistry(_Listed, RegistryVerbs, OnLoop):
    """The same registry for async code, such as a route beside a server's graph."""
