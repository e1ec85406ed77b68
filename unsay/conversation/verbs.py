"""The verbs of going back and forth, for scripts and for async code."""

from collections.abc import Sequence
from typing import Self

from unsay.conversation.branching import LIVE, Branch, Diff, branches, diff, fork
from unsay.conversation.memory_verbs import AsyncKeeping, Keeping
from unsay.conversation.model_calls import TurnCalls, view
from unsay.conversation.navigation import (
    Confirm,
    mark,
    marks,
    preview,
    recall,
    redo,
    retry,
    roll_back,
    undo,
)
from unsay.conversation.restoration import pick, restore
from unsay.conversation.results import Moved, Preview, Reply
from unsay.conversation.topic_summaries import SAMPLE, JudgedSummary, judge_summaries
from unsay.conversation.usage_totals import totals
from unsay.effects import adrive, drive
from unsay.operations.recall_search import Find
from unsay.operations.usage_report import Totals
from unsay.types import Checkpoint


class Moving(Keeping):
    """How a conversation goes back and forth."""

    def checkpoint(self, name: str | None = None) -> Checkpoint:
        """A checkpoint at the newest message.

        Raises:
            UnknownThreadError: Nothing was ever said.
            CheckpointExistsError: Another checkpoint has this name.
        """
        return drive(self._talk.alone(mark(self._talk, name)))

    def checkpoints(
        self, *, limit: int | None = None, start_after: str | None = None
    ) -> tuple[Checkpoint, ...]:
        """The checkpoints of the current branch, the one made first first.

        Args:
            limit: Most to give; `None` gives all.
            start_after: Name or id of the last one that is not wanted.

        Raises:
            UnknownThreadError: Nothing was ever said.
            UnknownCheckpointError: No checkpoint answers to `start_after`.
        """
        return drive(self._talk.reading(lambda talk: marks(talk, limit, start_after)))

    def rollback(
        self, to: str | None = None, *, turns: int | None = None, confirm: Confirm | None = None
    ) -> Moved:
        """Go back; what is taken off the record is kept, and `undo` brings it back.

        Args:
            to: A checkpoint's name, its id or the beginning of it; `None` is the
                last checkpoint before the newest answer, without one the
                beginning of the last turn.
            turns: So many answered turns back, in place of `to`; their documents go with them.
            confirm: Whether what a tool's call did may be taken back, for tools that ask first.

        Raises:
            UnknownThreadError: Nothing was ever said.
            UnknownCheckpointError: No checkpoint answers to it.
            AmbiguousCheckpointError: Several do.
            InputError: Both are given, or it is no number of turns.
            NothingToUndoError: There are fewer turns.
            ConflictError: A tool asks first and `confirm` is not given; nothing was changed.
        """
        return drive(self._talk.alone(roll_back(self._talk, to, turns, confirm)))

    def preview(self, to: str | None = None, *, turns: int | None = None) -> Preview:
        """What such a rollback would take off the record; nothing is written.

        Args:
            to: See `rollback`.
            turns: See `rollback`.

        Raises:
            UnsayError: As `rollback`.
        """
        return drive(self._talk.reading(lambda talk: preview(talk, to, turns)))

    def undo(self, *, confirm: Confirm | None = None) -> Moved:
        """Take back the newest step: a turn goes, what a rollback took returns.

        Raises:
            NothingToUndoError: No step is left.
        """
        return drive(self._talk.alone(undo(self._talk, confirm)))

    def redo(self, *, confirm: Confirm | None = None) -> Moved:
        """Make the step again that was undone last; exactly what was there returns.

        Raises:
            NothingToRedoError: Nothing was undone since the last turn or rollback.
        """
        return drive(self._talk.alone(redo(self._talk, confirm)))

    def recall(self, words: str) -> tuple[Find, ...]:
        """What was said that bears on some words; the model is shown it with the next question.

        Args:
            words: That it may have; with `embeddings`, also what means the same.

        Returns:
            At most 20 messages in the record's order, each with its turn's number and why.

        Raises:
            UnknownThreadError: Nothing was ever said.
            InputError: There are no words.
        """
        return drive(self._talk.alone(recall(self._talk, words)))

    def retry(self) -> Reply:
        """A new answer to the last question; `undo` brings the old one back.

        A turn that an error or a crash stopped goes on.

        Raises:
            NothingToUndoError: Nothing was asked.
            UnsayError: As `say`.
        """
        return drive(self._talk.alone(retry(self._talk)))

    def restore(self, what: str, *, confirm: Confirm | None = None) -> Moved:
        """Bring back what was cut, folded or forgotten; `undo` takes it away again.

        Args:
            what: A cut's id: what it took returns to its place, and what stands there now is
                cut. A message's id, of a cut: it returns to its place, everything else stays.
                A topic's id or label: views show its words until the talk changes its topic.
                An id of `forgotten()`, or that of a message or a topic which was forgotten: views
                show it again; of several messages the one alone, with what belongs to it.
            confirm: See `rollback`.

        Raises:
            UnknownBranchError: Nothing is called so.
            ConflictError: It is there already, its place is gone, or a turn is under way.
        """
        return drive(self._talk.alone(restore(self._talk, what, confirm)))

    def pick(self, message_ids: Sequence[str], from_: str) -> Moved:
        """Put messages of another branch at the end of the record; `undo` takes them away.

        Args:
            message_ids: In the order wanted; tool calls come with their results. The last must
                be an answer.
            from_: A cut's id, or a thread's.

        Raises:
            UnknownBranchError: There is no such cut, or a message is not in it.
            UnknownThreadError: There is no such thread.
            InputError: They do not end in an answer.
            ConflictError: A turn is under way.
        """
        return drive(self._talk.alone(pick(self._talk, message_ids, from_)))

    def fork(
        self, at: str | None = None, *, turns: int | None = None, thread: str | None = None
    ) -> Self:
        """A conversation of its own, in the same database, that begins as this one was.

        Args:
            at: A checkpoint, as for `rollback`; `None` is where the talk stands.
            turns: So many answered turns back, in place of `at`.
            thread: The new thread's id; `None` makes one.

        Raises:
            ConflictError: There is such a thread already.
            InvalidNameError: The thread's id cannot be one.
            UnsayError: As `rollback`.
        """
        return type(self)(drive(fork(self._talk, at, turns, thread)))

    def branches(self) -> tuple[Branch, ...]:
        """The live line, those that were left, the newest first, and the threads forked from it.

        Raises:
            UnknownThreadError: Nothing was ever said.
        """
        return drive(self._talk.reading(branches))

    def diff(self, a: str, b: str = LIVE) -> Diff:
        """How two lines differ; it prints readably.

        Args:
            a: `live`, a checkpoint's name or id, a cut's id, or a thread's.
            b: The same.

        Raises:
            UnknownBranchError: One of them is none of these.
            AmbiguousCheckpointError: Several checkpoints answer to it.
        """
        return drive(self._talk.reading(lambda talk: diff(talk, a, b)))

    def tokens(self) -> Totals:
        """Who uses the window, what was spent on what, and how much of the budgets is left.

        Raises:
            UnknownThreadError: Nothing was ever said.
        """
        return drive(self._talk.reading(totals))

    def judge_summaries(
        self, sample: int | None = SAMPLE, *, seed: int = 0
    ) -> tuple[JudgedSummary, ...]:
        """How good the summaries are that views show in the place of what was said.

        The judge grades each beside the messages that it stands for. Nothing of the thread
        changes but what was spent on judging.

        Args:
            sample: How many are judged at most; `None` is all.
            seed: Another one chooses others.

        Raises:
            UnknownThreadError: Nothing was ever said.
            InputError: `sample` is under 1.
        """
        return drive(self._talk.alone(judge_summaries(self._talk, sample, seed)))

    def view(self, turn: int | None = None, *, attempt: int | None = None) -> TurnCalls:
        """What the model was sent in a turn, call by call, also for drafts that were taken back.

        Args:
            turn: Its number; `None` is the last one.
            attempt: Only the calls of this attempt, from 1.

        Raises:
            NothingToUndoError: There is no such turn.
            UnknownViewError: Nothing tells, because a host or an older version answered.
        """
        return drive(self._talk.reading(lambda talk: view(talk, turn, attempt)))


class AsyncMoving(AsyncKeeping):
    """How a conversation goes back and forth, for async code."""

    async def checkpoint(self, name: str | None = None) -> Checkpoint:
        """See `Conversation.checkpoint`."""
        return await adrive(self._talk.alone(mark(self._talk, name)))

    async def checkpoints(
        self, *, limit: int | None = None, start_after: str | None = None
    ) -> tuple[Checkpoint, ...]:
        """See `Conversation.checkpoints`."""
        return await adrive(self._talk.reading(lambda talk: marks(talk, limit, start_after)))

    async def rollback(
        self, to: str | None = None, *, turns: int | None = None, confirm: Confirm | None = None
    ) -> Moved:
        """See `Conversation.rollback`."""
        return await adrive(self._talk.alone(roll_back(self._talk, to, turns, confirm)))

    async def preview(self, to: str | None = None, *, turns: int | None = None) -> Preview:
        """See `Conversation.preview`."""
        return await adrive(self._talk.reading(lambda talk: preview(talk, to, turns)))

    async def undo(self, *, confirm: Confirm | None = None) -> Moved:
        """See `Conversation.undo`."""
        return await adrive(self._talk.alone(undo(self._talk, confirm)))

    async def redo(self, *, confirm: Confirm | None = None) -> Moved:
        """See `Conversation.redo`."""
        return await adrive(self._talk.alone(redo(self._talk, confirm)))

    async def recall(self, words: str) -> tuple[Find, ...]:
        """See `Conversation.recall`."""
        return await adrive(self._talk.alone(recall(self._talk, words)))

    async def retry(self) -> Reply:
        """See `Conversation.retry`."""
        return await adrive(self._talk.alone(retry(self._talk)))

    async def restore(self, what: str, *, confirm: Confirm | None = None) -> Moved:
        """See `Conversation.restore`."""
        return await adrive(self._talk.alone(restore(self._talk, what, confirm)))

    async def pick(self, message_ids: Sequence[str], from_: str) -> Moved:
        """See `Conversation.pick`."""
        return await adrive(self._talk.alone(pick(self._talk, message_ids, from_)))

    async def fork(
        self, at: str | None = None, *, turns: int | None = None, thread: str | None = None
    ) -> Self:
        """See `Conversation.fork`."""
        return type(self)(await adrive(fork(self._talk, at, turns, thread)))

    async def branches(self) -> tuple[Branch, ...]:
        """See `Conversation.branches`."""
        return await adrive(self._talk.reading(branches))

    async def diff(self, a: str, b: str = LIVE) -> Diff:
        """See `Conversation.diff`."""
        return await adrive(self._talk.reading(lambda talk: diff(talk, a, b)))

    async def tokens(self) -> Totals:
        """See `Conversation.tokens`."""
        return await adrive(self._talk.reading(totals))

    async def judge_summaries(
        self, sample: int | None = SAMPLE, *, seed: int = 0
    ) -> tuple[JudgedSummary, ...]:
        """See `Conversation.judge_summaries`."""
        return await adrive(self._talk.alone(judge_summaries(self._talk, sample, seed)))

    async def view(self, turn: int | None = None, *, attempt: int | None = None) -> TurnCalls:
        """See `Conversation.view`."""
        return await adrive(self._talk.reading(lambda talk: view(talk, turn, attempt)))
