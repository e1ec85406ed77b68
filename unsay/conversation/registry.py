"""The registry: all threads and runs of a database."""

from collections.abc import Mapping
from datetime import datetime
from typing import Unpack

from unsay.conversation import records
from unsay.conversation.facade import Blocking, OpenedStore, checks_arguments
from unsay.effects import drive
from unsay.history import runs, threads
from unsay.history.runs import Run, RunFilters, RunPage
from unsay.history.threads import SessionPage, SessionStatus, ThreadInfo
from unsay.storage.base import Purged
from unsay.types import Event as LoggedEvent


@checks_arguments
class Registry(OpenedStore, Blocking):
    """The threads and runs of a database, for scripts.

    Example:
        >>> from unsay import Conversation, open_database
        >>> from unsay.testing import ScriptedChat, ScriptedJudge
        >>> file = open_database(":memory:")
        >>> model = ScriptedChat(default="Two days are enough.")
        >>> trip = Conversation(file, thread="trip", model=model, judge=ScriptedJudge())
        >>> _ = trip.say("How long should I stay in Kyoto?")
        >>> registry = Registry(file)
        >>> [each.thread_id for each in registry.sessions(status="active").sessions]
        ['trip']
        >>> [each.status for each in registry.runs(thread_id="trip").runs]
        ['completed']
        >>> file.close()
    """

    def sessions(
        self,
        *,
        status: SessionStatus | None = None,
        labels: Mapping[str, str] | None = None,
        since: str | datetime | None = None,
        until: str | datetime | None = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> SessionPage:
        """Return one page of sessions, the last begun first; damaged entries are skipped.

        Every session that exists when the first page is read comes once, also while others write.

        Args:
            status: `None` means any.
            labels: All of them must match.
            since: Earliest beginning of a session, included; a `datetime` or ISO 8601, with a zone.
            until: Latest beginning of a session, excluded, in the same forms.
            cursor: The cursor of the page before; `None` for the first page.
            limit: 1 to 1,000.

        Raises:
            InputError: An argument is invalid.
        """
        page = threads.search_sessions(
            self._store,
            status=status,
            labels=labels,
            since=since,
            until=until,
            cursor=cursor,
            limit=limit,
        )
        return drive(self._listed(page))

    def session(self, thread_id: str) -> ThreadInfo:
        """Return a thread's session.

        Raises:
            UnknownThreadError: It was never begun, or its item is not an entry.
            DatabaseCorruptError: The item is damaged.
        """
        return drive(self._listed(threads.get_session(self._store, thread_id)))

    def runs(self, thread_id: str | None = None, **filters: Unpack[RunFilters]) -> RunPage:
        """Return one page of runs, in the order in which they were opened.

        Every run that exists when the first page is read comes once, also while others write; newer
        runs come at the end. Damaged items, and those that are not runs, are skipped.

        Args:
            thread_id: `None` means all threads.
            **filters: `status`: one, or several of which any matches. `phase`. `labels`: all of them
                must match. `parent_run_id`: only runs that this run started. `since` (included) and
                `until` (excluded): when a run started, a `datetime` or ISO 8601, with a zone.
                `cursor`: that of the page before. `limit`: 1 to 1,000, by default 50. `None` sets no
                filter.

        Raises:
            InputError: An argument is invalid.
        """
        return drive(self._listed(runs.list_runs(self._store, thread_id=thread_id, **filters)))

    def run(self, thread_id: str, run_id: str) -> Run:
        """Return a run; raise `UnknownRunError` if it does not exist.

        Raises `DatabaseCorruptError` if what is stored of it is damaged.
        """
        return drive(self._listed(runs.get_run(self._store, thread_id, run_id)))

    def children(self, run_id: str, *, thread_id: str | None = None) -> list[Run]:
        """Return all runs that a run started, in one thread or in all, oldest first; maybe none."""
        return drive(self._listed(runs.children(self._store, run_id, thread_id=thread_id)))

    def events(self, thread_id: str) -> list[LoggedEvent]:
        """Return the event log: everything that happened in the thread, oldest first, verified.

        Each event is a dict, `unsay.types.Event`. `unsay.events.replay` rebuilds the transcript from
        them, byte for byte.

        Raises:
            EventLogGapError: An event is missing or was changed.
        """
        return drive(self._thread(thread_id).reading(records.events))

    def note(
        self,
        thread_id: str,
        text: str,
        *,
        event_id: str | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> bool:
        """Add a remark of the host to the event log; it is never sent to a model.

        Args:
            thread_id: The thread's id.
            text: The remark.
            event_id: An id of your own, so that a repeated call adds nothing; `None` makes one.
            labels: Names and values that `events()` shows with the note.

        Returns:
            Whether the note is new; `False` if the log has it under this id already.

        Raises:
            InputError: The note is empty, or its id or a label cannot be stored.
            EventConflictError: A different event has this id.
            ConflictError: A turn was stopped or waits for a decision.
            EventLogGapError: The id is known, and a part of the event log is missing or was changed.
        """
        thread = self._thread(thread_id)
        return drive(thread.alone(records.note(thread, text, event_id=event_id, labels=labels)))

    def label(self, thread_id: str, /, **labels: str | None) -> ThreadInfo:
        """Set labels of the thread, to find it by, and return its entry; `None` removes a label.

        Other labels stay. `undo` takes this back, unless a stopped turn waits. If the setting `commands`
        limits what users may type, the labels are the host's, and `undo` does not change them. A thread
        may have labels before its first message.

        Raises:
            InputError: A label cannot be stored.
            UnknownThreadError: Nothing was stored in the thread yet, and no label is set.
        """
        thread = self._thread(thread_id)
        return drive(thread.alone(records.label(thread, **labels)))

    def end(self, thread_id: str) -> ThreadInfo:
        """End the thread for good, and return its entry: it takes no new messages, and no run starts.

        It can still be read, forked, labelled and rolled back. A thread that was ended already stays as it is.

        Raises:
            ConflictError: A turn was stopped or waits for a decision.
        """
        thread = self._thread(thread_id)
        return drive(thread.alone(records.end(thread)))

    def purge(self, thread_id: str) -> Purged:
        """Delete everything that unsay stored for a thread, and return how many rows, by kind.

        Over a host's LangGraph store only its items are deleted; the host deletes the checkpoints. It
        cannot be undone. A thread that does not exist gives zeros, and an interrupted purge can be
        repeated.

        Args:
            thread_id: The thread's id.

        Raises:
            ThreadBusyError: Another turn or verb is writing to the thread. Never over a host's store.
            DatabaseLockedError: Another process reads the file: purge again, to delete the bytes too.
        """
        return drive(self._listed(records.purge_in(self._place, thread_id)))
