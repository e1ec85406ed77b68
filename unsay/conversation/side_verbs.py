"""Verbs beside the transcript: pins, ratings, lessons, events, runs and labels."""

from collections.abc import Iterable, Mapping
from typing import Any, Unpack

from unsay.conversation import audit, judgements, memory, navigation, topic_summaries
from unsay.conversation.facade import Blocking, OpenedThread, checks_arguments
from unsay.conversation.judgements import Bisection, JudgedTurn
from unsay.conversation.results import Checkpoint
from unsay.conversation.topic_summaries import SAMPLE, JudgedSummary
from unsay.effects import drive
from unsay.history.runs import RunFilters, RunPage
from unsay.history.threads import ThreadInfo
from unsay.operations.lessons import Lesson, Rating
from unsay.operations.usage_report import Status
from unsay.storage.base import Purged
from unsay.types import Event, Forgotten, Pin


@checks_arguments
class SideVerbs(OpenedThread, Blocking):
    """The verbs of a conversation beside its transcript."""

    def start_task(self, name: str) -> Checkpoint:
        """Make a checkpoint before the first question of a task, and return it; `undo` takes it back.

        It is at the newest answer, or at the beginning of a thread without answers. `name` has 1 to 64
        printable characters: `rollback(name)` goes back to where the task started.

        Raises:
            CheckpointExistsError: Another checkpoint has this name.
            InvalidNameError: The name is not allowed.
            ConflictError: The thread waits for a decision, or too many checkpoints have names.
        """
        return drive(self._handle.alone(navigation.start_task(self._handle, name)))

    def pin(self, message_id: str | None = None, *, turn: int | None = None) -> tuple[Pin, ...]:
        """Pin a message: always include it in the context, with its tool calls and results.

        The pin has no effect while a rollback has the message removed. Of a whole turn, irrelevant
        documents are not pinned.

        Args:
            message_id: Of any message of the conversation; `None` pins a whole turn.
            turn: The turn's number, from 1; `None` is the newest. Not used with a `message_id`.

        Returns:
            All pins, the new ones last.

        Raises:
            UnknownBranchError: The message is not in the transcript.
            UnknownTurnError: No answered turn has this number.
            InputError: It is a command or a notice.
            ConflictError: It is pinned already, it is forgotten, it is an irrelevant document or search
                result, there are 64 pins, or a decision is pending.
        """
        return drive(self._handle.alone(memory.pin(self._handle, message_id, turn=turn)))

    def unpin(self, message_id: str | None = None, *, turn: int | None = None) -> tuple[Pin, ...]:
        """Remove a pin, or the pins of a whole turn.

        Args:
            message_id: Of the pinned message; `None` removes the pins of a turn.
            turn: The turn's number, from 1; `None` is the newest. Not used with a `message_id`.

        Returns:
            The pins that are left.

        Raises:
            UnknownBranchError: The message is not pinned, or no message of the turn is.
            UnknownTurnError: No answered turn has this number.
            ConflictError: A decision is pending.
        """
        return drive(self._handle.alone(memory.unpin(self._handle, message_id, turn=turn)))

    def pins(self) -> tuple[Pin, ...]:
        """List the pins, oldest first.

        A pin's `page` is the id of the offloaded segment with the message; a live message has none.
        """
        return drive(self._handle.reading(memory.pins))

    def forget_tool_results(
        self, below: float = 0.3, *, question: str | None = None, reason: str = ""
    ) -> Forgotten | None:
        """Replace irrelevant tool results in contexts by a short line; the transcript keeps them.

        Only results of the current topic that the state holds are scored. Pinned and forgotten ones
        stay. With `judging="model"` the judge scores each result. Otherwise the score is by the words
        that result and question share: 0.2 for none, 0.5 and more for some. A result that cannot be
        scored stays.

        Args:
            below: A result with a lower score is forgotten, from 0 to 1.
            question: What the results are compared with; `None` takes the topic's questions, of which
                the best counts.
            reason: In your words, for the list of what is forgotten.

        Returns:
            What was forgotten; `None` if no result scored lower.

        Raises:
            InputError: `below` is not from 0 to 1.
            ConflictError: A turn was stopped or waits for a decision, or over 64 things or 1,000
                messages would be forgotten.
        """
        return drive(
            self._handle.alone(
                memory.forget_tool_results(self._handle, below, question=question, reason=reason)
            )
        )

    def rate(self, turn: int, label: str, *, note: str = "") -> Rating:
        """Rate the answer of a turn; ratings are labels for `unsay calibrate`.

        Args:
            turn: The turn's number, from 1.
            label: `good` or `bad`.
            note: Why. That of a bad answer is a lesson for later turns.

        Returns:
            The rating, which replaces an earlier one.

        Raises:
            UnknownTurnError: No answered turn has this number.
            InputError: The label is another word.
            ConflictError: A decision is pending.
        """
        return drive(self._handle.alone(judgements.rate(self._handle, turn, label, note=note)))

    def ratings(self) -> tuple[Mapping[str, Any], ...]:
        """Return the rated turns as plain JSON, oldest first: the lines that `unsay calibrate` reads.

        Each has the question, the answer, the `earlier` exchanges, the language, the label with its
        note, and the score of the stored verdict (`None` for an unscored one). Empty if no turn is
        rated.
        """
        return drive(self._handle.reading(judgements.ratings))

    def import_ratings(self, rows: Iterable[Mapping[str, Any]]) -> int:
        """Give the ratings of rows that `ratings` returned to the turns of this thread.

        A row belongs to the turn whose answer has its `message_id`, else to the one with its question
        and answer. Rows of other threads are skipped. Returns how many turns were rated.

        Raises:
            InputError: A row has another label than `good` or `bad`; rows before it are stored.
            ConflictError: A decision is pending.
        """
        return drive(self._handle.alone(judgements.import_ratings(self._handle, rows)))

    def lessons(self) -> tuple[Lesson, ...]:
        """List why drafts were rejected, oldest first; later turns on the same topic are sent this.

        Lessons of offloaded answers are not listed.
        """
        return drive(self._handle.reading(judgements.lessons))

    def edit_lesson(self, lesson: str | int, text: str) -> Lesson:
        """Change the text of a lesson, and return the lesson.

        Args:
            lesson: Its id, or its number in the list, from 1.
            text: At most 500 characters.

        Raises:
            NotFoundError: There is no such lesson.
            InputError: The text is blank or too long.
            ConflictError: A decision is pending.
        """
        return drive(self._handle.alone(judgements.edit_lesson(self._handle, lesson, text)))

    def remove_lesson(self, lesson: str | int) -> Lesson:
        """Remove a lesson, and return it; no later turn is sent it.

        Args:
            lesson: Its id, or its number in the list, from 1.

        Raises:
            NotFoundError: There is no such lesson.
            ConflictError: A decision is pending.
        """
        return drive(self._handle.alone(judgements.remove_lesson(self._handle, lesson)))

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

    def status(self) -> Status:
        """Return the topic, the newest call's context (`window`) and the budgets, for a status line.

        The topic is empty before the first question, and `window` is `None` until a model has answered;
        an unknown thread raises no error.
        Offloaded messages and branches are not loaded, so the work does not grow with the thread. If the
        newest call was sent offloaded messages, `window.fits` is false; `tokens` and `context` tell it.
        """
        return drive(self._handle.reading(audit.status))

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
