"""Written by `docs/generate_async.py` from `registry.py`."""

from collections.abc import Mapping
from datetime import datetime
from typing import Unpack

from unsay.conversation import audit
from unsay.conversation.facade import OnLoop, OpenedStore, checks_arguments
from unsay.effects import adrive
from unsay.history import runs, threads
from unsay.history.runs import Run, RunFilters, RunPage
from unsay.history.threads import SessionPage, SessionStatus, ThreadInfo
from unsay.storage.base import Purged
from unsay.types import Event


@checks_arguments
class AsyncRegistry(OpenedStore, OnLoop):
    """`Registry` for async code."""

    async def sessions(
        self,
        *,
        status: SessionStatus | None = None,
        labels: Mapping[str, str] | None = None,
        since: str | datetime | None = None,
        until: str | datetime | None = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> SessionPage:
        """As `Registry.sessions`."""
        page = threads.search_sessions(
            self._store,
            status=status,
            labels=labels,
            since=since,
            until=until,
            cursor=cursor,
            limit=limit,
        )
        return await adrive(self._listed(page))

    async def session(self, thread_id: str) -> ThreadInfo:
        """As `Registry.session`."""
        return await adrive(self._listed(threads.get_session(self._store, thread_id)))

    async def runs(self, thread_id: str | None = None, **filters: Unpack[RunFilters]) -> RunPage:
        """As `Registry.runs`."""
        return await adrive(
            self._listed(runs.list_runs(self._store, thread_id=thread_id, **filters))
        )

    async def run(self, thread_id: str, run_id: str) -> Run:
        """As `Registry.run`."""
        return await adrive(self._listed(runs.get_run(self._store, thread_id, run_id)))

    async def children(self, run_id: str, *, thread_id: str | None = None) -> list[Run]:
        """As `Registry.children`."""
        return await adrive(self._listed(runs.children(self._store, run_id, thread_id=thread_id)))

    async def events(self, thread_id: str) -> list[Event]:
        """As `Registry.events`."""
        return await adrive(self._thread(thread_id).reading(audit.events))

    async def note(
        self,
        thread_id: str,
        text: str,
        *,
        event_id: str | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> bool:
        """As `Registry.note`."""
        thread = self._thread(thread_id)
        return await adrive(
            thread.alone(audit.note(thread, text, event_id=event_id, labels=labels))
        )

    async def label(self, thread_id: str, /, **labels: str | None) -> ThreadInfo:
        """As `Registry.label`."""
        thread = self._thread(thread_id)
        return await adrive(thread.alone(audit.label(thread, **labels)))

    async def end(self, thread_id: str) -> ThreadInfo:
        """As `Registry.end`."""
        thread = self._thread(thread_id)
        return await adrive(thread.alone(audit.end(thread)))

    async def purge(self, thread_id: str) -> Purged:
        """As `Registry.purge`."""
        return await adrive(self._listed(audit.purge_in(self._place, thread_id)))
