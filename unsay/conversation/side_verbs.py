"""Verbs beside the transcript: pins, ratings, lessons, events, runs and labels."""

from collections.abc import Iterable, Mapping
from typing import Any, Unpack

from unsay.conversation import audit, judgements, topic_summaries
from unsay.conversation.facade import Blocking, OpenedThread, checks_arguments
from unsay.conversation.judgements import Bisection, JudgedTurn
from unsay.conversation.topic_summaries import SAMPLE, JudgedSummary
from unsay.effects import drive
from unsay.history.runs import RunFilters, RunPage
from unsay.history.threads import ThreadInfo
from unsay.storage.base import Purged
from unsay.types import Event


@checks_arguments
class SideVerbs(OpenedThread, Blocking):
    """The verbs of a conversation beside its transcript."""

    def import_ratings(self, rows: Iterable[Mapping[str, Any]]) -> int:
        """Give the ratings of rows that `ratings` returned to the turns of this thread.

        A row belongs to the turn whose answer has its `message_id`, else to the one with its question
        and answer. Rows of other threads are skipped. Returns how many turns were rated.

        Raises:
            InputError: A row has another label than `good` or `bad`; rows before it are stored.
            ConflictError: A decision is pending.
        """
        return drive(self._handle.alone(judgements.import_ratings(self._handle, rows)))

    def judge(self, *, turn: int | None = None) -> tuple[JudgedTurn, ...]:
        """Score the answers of a thread again with the current judge, and return the verdicts.

        Without answers the result is empty. The stored verdicts stay; only the usage account changes. An answer that the judge cannot score,
        as without a model or budget, gets an `unscored` verdict with the reason.

        Args:
            turn: The number of the turn to score, from 1; `None` is all.

        Raises:
            UnknownTurnError: No answered turn has this number.
        """
        return drive(self._handle.alone(judgements.judge(self._handle, turn=turn)))

    def bisect(self) -> Bisection:
        """Find the turn from which the thread went wrong; nothing is rolled back.

        A beginning of the thread, up to some turn, is judged by its last answer. The whole thread is
        judged first: if it passes or cannot be judged, no turn is found. Then a binary search looks for the first beginning
        that fails. Scores need not fall steadily, so the turns just before the result are judged one by
        one. An unscored beginning counts as one that passes.

        Raises:
            UnknownTurnError: No turn is answered yet.
        """
        return drive(self._handle.alone(judgements.bisect(self._handle)))

    def judge_summaries(
        self, sample: int | None = SAMPLE, *, seed: int = 0
    ) -> tuple[JudgedSummary, ...]:
        """Judge the summaries that contexts hold in place of older messages.

        The judge grades each beside the messages that it replaces. Nothing changes in the thread
        except its usage account.

        Args:
            sample: How many to judge at most; `None` judges all.
            seed: Chooses the sample; the same seed chooses the same ones of the same summaries.

        Returns:
            The summaries with their verdicts, compactions first; empty if contexts hold none.

        Raises:
            InputError: `sample` is under 1.
        """
        return drive(
            self._handle.alone(topic_summaries.judge_summaries(self._handle, sample, seed=seed))
        )

    def events(self) -> list[Event]:
        """Return the event log: everything that happened in the thread, oldest first, verified.

        Each event is a dict, `unsay.types.Event`. `unsay.events.replay` rebuilds the transcript from
        them, byte for byte.

        Raises:
            EventLogGapError: An event is missing or was changed.
        """
        return drive(self._handle.reading(audit.events))

    def runs(self, **filters: Unpack[RunFilters]) -> RunPage:
        """Return one page of the thread's runs, oldest first; the filters are those of `Registry.runs`.

        Raises `InputError` if a filter is invalid. A thread without runs gives an empty page.
        """
        return drive(self._handle.reading(audit.runs, **filters))

    def note(
        self, text: str, *, event_id: str | None = None, labels: Mapping[str, str] | None = None
    ) -> bool:
        """Add a remark of the host to the event log; it is never sent to a model.

        Args:
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
        return drive(
            self._handle.alone(audit.note(self._handle, text, event_id=event_id, labels=labels))
        )

    def label(self, /, **labels: str | None) -> ThreadInfo:
        """Set labels of the thread, to find it by, and return its entry; `None` removes a label.

        Other labels stay. `undo` takes this back, unless a stopped turn waits. If the setting `commands`
        limits what users may type, the labels are the host's, and `undo` does not change them. A thread
        may have labels before its first message.

        Raises:
            InputError: A label cannot be stored.
            UnknownThreadError: Nothing was stored in the thread yet, and no label is set.
        """
        return drive(self._handle.alone(audit.label(self._handle, **labels)))

    def end(self) -> ThreadInfo:
        """End the thread for good, and return its entry: it takes no new messages, and no run starts.

        It can still be read, forked, labelled and rolled back. A thread that was ended already stays as it is.

        Raises:
            ConflictError: A turn was stopped or waits for a decision.
        """
        return drive(self._handle.alone(audit.end(self._handle)))

    def purge(self) -> Purged:
        """Delete the thread, and its words from the file's bytes; return how many rows of each kind.

        It cannot be undone. A thread that does not exist gives zeros. Forks of the thread stay. In
        Postgres, deleted bytes can remain until new rows overwrite them.

        Raises:
            DatabaseLockedError: Another process uses the file. It is not sure that anything was
                deleted, rows or bytes: purge again.
        """
        return drive(self._handle.alone(audit.purge(self._handle)))
