"""All threads and runs of a database or a store, for dashboards and for keeping house."""

import os
from typing import Any, Self

from langgraph.store.base import BaseStore

from unsay.effects import adrive, drive
from unsay.history.run import Run
from unsay.history.runs import RunPage, children, get_run, list_runs
from unsay.history.threads import SessionPage, ThreadEntry, get_session, search_sessions
from unsay.storage.base import Database
from unsay.storage.sqlite import open_database


class _Listed:
    """What both forms of a registry share."""

    def __init__(self, store: BaseStore, database: Database | None = None) -> None:
        self._store = store
        self._database = database

    @classmethod
    def open(cls, path_or_url: str | os.PathLike[str] | Database | BaseStore) -> Self:
        """A registry over what a file, an open database, or a host's store holds.

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


class Registry(_Listed):
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

    def sessions(self, **asked: Any) -> SessionPage:
        """Threads, the one begun last first.

        Args:
            **asked: `status`, `labels`, `since`, `until`, `cursor`, `limit`: see
                `unsay.history.threads.search_sessions`.
        """
        return drive(search_sessions(self._store, **asked))

    def session(self, thread_id: str) -> ThreadEntry:
        """One thread.

        Raises:
            UnknownThreadError: Nobody ever began it.
        """
        return drive(get_session(self._store, thread_id))

    def runs(self, **asked: Any) -> RunPage:
        """Runs, the one opened first first.

        Args:
            **asked: `thread_id`, `status`, `phase`, `labels`, `parent_run_id`, `since`,
                `until`, `cursor`, `limit`: see `unsay.history.runs.list_runs`.
        """
        return drive(list_runs(self._store, **asked))

    def run(self, thread_id: str, run_id: str) -> Run:
        """One run.

        Raises:
            UnknownRunError: There is no such run.
        """
        return drive(get_run(self._store, thread_id, run_id))

    def children(self, run_id: str) -> list[Run]:
        """The runs that this one started, in any thread."""
        return drive(children(self._store, run_id))

    def close(self) -> None:
        """Close the file, where the registry opened it."""
        self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class AsyncRegistry(_Listed):
    """The same registry for async code, such as a route beside a server's graph."""

    async def sessions(self, **asked: Any) -> SessionPage:
        """See `Registry.sessions`."""
        return await adrive(search_sessions(self._store, **asked))

    async def session(self, thread_id: str) -> ThreadEntry:
        """See `Registry.session`."""
        return await adrive(get_session(self._store, thread_id))

    async def runs(self, **asked: Any) -> RunPage:
        """See `Registry.runs`."""
        return await adrive(list_runs(self._store, **asked))

    async def run(self, thread_id: str, run_id: str) -> Run:
        """See `Registry.run`."""
        return await adrive(get_run(self._store, thread_id, run_id))

    async def children(self, run_id: str) -> list[Run]:
        """See `Registry.children`."""
        return await adrive(children(self._store, run_id))

    async def close(self) -> None:
        """See `Registry.close`."""
        self._close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()
