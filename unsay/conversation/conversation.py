"""The conversation: one thread of one database, for scripts and notebooks."""

from collections.abc import Generator, Iterable, Sequence
from typing import Any, Self

from langchain_core.messages import AnyMessage

from unsay.context.plan import Omission
from unsay.conversation import branching, model_calls, records, timeline, turn_lifecycle
from unsay.conversation.branching import LIVE
from unsay.conversation.collections import Lessons, Pins, Ratings
from unsay.conversation.facade import Blocking, OpenedThread, checks_arguments, streamed
from unsay.conversation.model_calls import Replay, TurnCalls
from unsay.conversation.thread import Confirm, ThreadHandle
from unsay.conversation.timeline import Timeline, timeline_of
from unsay.effects import drive
from unsay.errors import InputError, UnknownThreadError
from unsay.memory.recall import Find
from unsay.models.factory import ModelLike
from unsay.orders import order as orders
from unsay.results.lists import Branch, Diff
from unsay.results.results import Checkpoint, Event, Preview, Reply, RollbackResult, Target, id_of
from unsay.results.svg import mimebundle
from unsay.results.usage import Usage
from unsay.types import Forgotten


@checks_arguments
class Conversation(OpenedThread, Blocking):
    """A conversation for scripts and notebooks.

    Verbs that need messages raise `UnknownThreadError` while the thread is empty, and those that take
    a checkpoint `UnknownCheckpointError` if none matches, `AmbiguousCheckpointError` if several do.
    Every verb raises `StorageError` if the database fails or stored data is damaged, and a verb that
    writes raises `ThreadBusyError` if another writer has the thread for too long.

    Example:
        >>> from unsay.testing import ScriptedChat, ScriptedJudge
        >>> model = ScriptedChat(replies={"Capital of France?": "Paris."})
        >>> conversation = Conversation(":memory:", model=model, judge=ScriptedJudge())
        >>> print(conversation.say("Capital of France?"))
        Paris.
        >>> conversation.undo().turns
        0
        >>> conversation.close()
    """

    def say(
        self,
        text: str,
        *,
        documents: Sequence[str] = (),
        images: Sequence[str] = (),
        turn_id: str | None = None,
        answer: str | None = None,
    ) -> Reply:
        """Answer a message: judge each draft, and roll back those that fail.

        If all drafts fail, the reply is the best one with a `flag`, or a `decision` for a person. With
        `budget_mode="ask"` a used-up budget gives a `decision` as well. A message whose turn was
        stopped by a crash or an error resumes that turn.

        With a `turn_id` any process may send the same message several times: the transcript holds it
        once, one answer is paid for, and every call returns that answer, even after a rollback
        removed it. A command such as `/undo` runs once. To ask again, use a new id.

        Args:
            text: The user's message, or a slash command.
            documents: Texts that a search found for the message. The last ten are
                judged first, none with `judging="off"`; the model is not sent one that fails.
            images: URLs of images, or images as `data:image/png;base64,…`.
            turn_id: An id of 1 to 200 printable characters, which becomes the message's id. `None`
                makes one, which the reply holds.
            answer: The text that an error has in its attribute `answer`, because saving failed after
                the model had answered. With the same `turn_id` it is saved, in this process or
                another, and no model is called. In the process of the error it is not needed.

        Raises:
            InputError: The message cannot be answered; nothing was stored.
            ConfigurationError: There is no model; the question is kept.
            ModelError: The model failed; the question is kept.
            StorageError: The database failed; what was stored before is intact. If the model had
                answered, the error's `answer` is the text.
            ConflictError: The thread waits for a decision, was ended, or is used by another writer
                for too long; a budget is used up, with `budget_mode="hard"`; or the `turn_id` was used
                for another text.
        """
        steps = turn_lifecycle.say(
            self._handle, text, documents=documents, images=images, turn_id=turn_id, answer=answer
        )
        return drive(self._handle.alone(steps))

    def stream(
        self,
        text: str | None = None,
        *,
        documents: Sequence[str] = (),
        images: Sequence[str] = (),
        turn_id: str | None = None,
        answer: str | None = None,
        decision: Any = None,
    ) -> Generator[Event, None, None]:
        """Stream a turn's events: tokens, verdicts, rollbacks, and at the end the reply.

        Without a text a stopped turn is resumed, as by `resume`, with the `decision` of a person. The
        other arguments are those of `say`. The errors of both are raised when events are read; only an
        `InputError` for an argument of the wrong type is raised by the call.

        Nothing happens before the first event is read; then the thread is locked until the last.
        Closing the generator early stops the turn, which `resume` can continue.
        """
        return streamed(
            self._handle,
            lambda thread: turn_lifecycle.open_stream(
                thread, text, decision, documents, turn_id, answer, images
            ),
            turn_id,
        )

    def resume(self, decision: Any = None) -> Reply:
        """Resume a turn that an error, a crash or a pending decision stopped, and return its reply.

        Args:
            decision: `"approve"`, `"reject"` or `{"decisions": [{"type": …}]}`; if a tool or an agent
                of yours asks, the answer that it expects; if several calls ask, the answer to the one
                that the reply shows, and the next reply shows the next. `None` resumes a turn that waits for none.
                If the decision cannot be read, the reply asks for it again.

        Raises:
            NothingToResumeError: No turn was stopped; or a decision is given and none is awaited.
            ConflictError: The turn waits for a decision and none is given, the thread was ended or is
                used by another writer for too long, or a budget is used up.
            InputError: The decision is a mapping with a key that is not text, or cannot be stored.
            ConfigurationError, ModelError: As for `say`; the question is kept.
        """
        return drive(self._handle.alone(turn_lifecycle.resume(self._handle, decision)))

    def add(self, messages: Iterable[Any]) -> None:
        """Add messages to the transcript without a model call.

        A message with the id of one in the transcript replaces it, and a `RemoveMessage` removes
        one. `undo` takes all of this back as one step. The next turn judges the answers among the
        new messages, and rolls them back if they fail.

        Args:
            messages: Anything that LangChain reads as messages.

        Raises:
            InputError: LangChain cannot read them as messages, or a text cannot be stored.
            ConflictError: The thread waits for a decision, or was ended.
        """
        drive(self._handle.alone(self._handle.add(messages)))

    def messages(self) -> list[AnyMessage]:
        """Return the transcript: the whole current branch, oldest first; empty for a new thread."""
        return drive(self._handle.reading(ThreadHandle.transcript))

    def checkpoint(self, name: str | None = None, *, task: bool = False) -> Checkpoint:
        """Make a checkpoint at the newest answer and return it; `undo` takes it back.

        An unnamed checkpoint that is there already gets the `name`, or is returned for `None`. If there
        are more unnamed checkpoints than 32, old ones are removed.

        Args:
            name: 1 to 64 printable characters.
            task: Mark the start of a task, to which `rollback(name)` goes back: also at the beginning
                of a thread without answers.

        Raises:
            CheckpointExistsError: Another checkpoint has this name.
            InvalidNameError: The name is not allowed.
            InputError: A task has no name.
            UnknownCheckpointError: There is no answer yet.
            ConflictError: A decision is pending, or too many checkpoints have names.
        """
        return drive(self._handle.result_of(orders.SaveCheckpoint(name=name, task=task)))

    def checkpoints(
        self, *, limit: int | None = None, start_after: Target | None = None
    ) -> tuple[Checkpoint, ...]:
        """List the checkpoints of the current branch, oldest first.

        Args:
            limit: How many to return at most; `None` returns all.
            start_after: The list begins after this checkpoint, its name, its id or the beginning of its
                id. `None` begins with the oldest.

        Raises:
            InputError: `limit` is negative.
        """
        after = id_of(start_after)
        return drive(self._handle.reading(records.checkpoints, limit=limit, start_after=after))

    def rollback(
        self, to: Target | None = None, *, turns: int | None = None, confirm: Confirm | None = None
    ) -> RollbackResult:
        """Roll back to a checkpoint or by N turns; what is removed is kept, and `undo` restores it.

        The tool calls among the removed messages are undone, as their tools declare.

        Args:
            to: A checkpoint, its name, its id or the beginning of its id; `None` is the last checkpoint
                before the last message, but none at a tool step within a turn, or without one the start
                of the last turn. A question that has no answer counts as a turn here.
            turns: Roll back N answered turns instead of to a checkpoint; their documents, and a
                question after them, go too.
            confirm: Decides whether a tool call is undone, for tools that ask first. After a no the
                call stays in effect, and the rollback goes on.

        Raises:
            InputError: Both `to` and `turns` are given, or `turns` is under 1.
            NothingToUndoError: The thread has fewer answered turns, or no message is left in it.
            ConflictError: A decision is pending, or a tool asks first and `confirm` is not given;
                nothing was changed.
        """
        order = orders.Rollback(to=id_of(to), turns=turns)
        return drive(self._handle.result_of(order, confirm=confirm))

    def preview(self, to: Target | None = None, *, turns: int | None = None) -> Preview:
        """Return what `rollback` with the same arguments would remove; nothing is written.

        Raises:
            InputError: Both `to` and `turns` are given, or `turns` is under 1.
            NothingToUndoError: The thread has fewer answered turns, or no message.
        """
        return drive(self._handle.reading(records.preview, id_of(to), turns=turns))

    def undo(self, *, confirm: Confirm | None = None) -> RollbackResult:
        """Undo the newest step: remove a turn, restore what a rollback removed, or reverse a change.

        A turn that was stopped counts as the newest step. `confirm` decides about tools that ask before
        they are undone. `redo` makes the step again, except a question without an answer.

        Raises:
            NothingToUndoError: No step is left.
            ConflictError: A decision is pending, a branch is no longer kept, or a tool asks first and
                `confirm` is not given; nothing was changed.
        """
        return drive(self._handle.result_of(orders.Undo(), confirm=confirm))

    def redo(self, *, confirm: Confirm | None = None) -> RollbackResult:
        """Redo the step that was undone last; the same messages return, but no tool call is made again.

        If the step removed messages, their tool calls are compensated once more where needed;
        `confirm` decides about tools that ask first.

        Raises:
            NothingToRedoError: Nothing was undone, a new message or another step (such as a pin or a
                checkpoint) came after it, or what was undone is a question without an answer.
            ConflictError: A decision is pending, a branch is no longer kept, or a tool asks first and
                `confirm` is not given; nothing was changed.
        """
        return drive(self._handle.result_of(orders.Redo(), confirm=confirm))

    def retry(self) -> Reply:
        """Answer the last question again; `undo` restores the old answer.

        A turn that an error or a crash stopped is resumed instead.

        Raises:
            NothingToUndoError: The thread has no question.
            InputError: The question is empty or longer than the settings allow now.
            ConfigurationError, ModelError: As for `say`; the question is kept.
            ConflictError: The thread waits for a decision, was ended, or is used by another writer for
                too long; or a budget is used up.
        """
        return drive(self._handle.alone(turn_lifecycle.retry(self._handle)))

    def edit(self, turn: int, text: str) -> Reply:
        """Replace the question of an earlier turn, answer it, and remove all later turns.

        The old question and all that followed are kept as a branch; `undo` puts them back.

        Args:
            turn: The turn's number, from 1.
            text: The new question; the turn's documents, and images beside the text, stay.

        Raises:
            UnknownTurnError: No answered turn has this number.
            InputError: The text is empty or too long, or the turn has no question.
            ConfigurationError, ModelError: As for `say`; the question is kept.
            ConflictError: A turn was stopped or waits for a decision, the thread was ended, or a budget
                is used up.
        """
        return drive(self._handle.alone(turn_lifecycle.edit(self._handle, turn, text)))

    def remove(self, turn: int, *, confirm: Confirm | None = None) -> RollbackResult:
        """Take one turn out, undo its tool calls, and keep the later turns; `undo` puts the turn back.

        Args:
            turn: The turn's number, from 1; the later turns get new numbers.
            confirm: As for `rollback`.

        Raises:
            UnknownTurnError: No answered turn has this number.
            InputError: A later message needs one of the turn, as a tool's result needs its call.
            ConflictError: A turn was stopped or waits for a decision, or a tool asks first and
                `confirm` is not given; nothing was changed.
        """
        return drive(self._handle.result_of(orders.Remove(turn=turn), confirm=confirm))

    def restore(self, what: str | None = None, *, confirm: Confirm | None = None) -> RollbackResult:
        """Restore a branch, a message, a summarized topic or what was forgotten; `undo` reverts it.

        Args:
            what: A branch's id: its messages return, and what is in their place becomes a branch. The
                id of a message of a branch: it returns to its place, everything else stays. A topic's
                id or label: contexts hold its words until the topic changes. An id of `forgotten()`, or
                of a forgotten message or topic: contexts hold it again; of several messages only this
                one, with its tool calls and results, but a topic as a whole. `None`: the newest branch that is not only drafts.
            confirm: As for `rollback`.

        Raises:
            UnknownBranchError: No branch, topic or message has this id, or there is no branch.
            ConflictError: It is there already, its place was removed, several match, a tool asks first
                and `confirm` is not given, or a turn was stopped or waits for a decision.
        """
        return drive(self._handle.result_of(orders.Restore(what=what), confirm=confirm))

    def branches(self) -> tuple[Branch, ...]:
        """List the current branch, then the removed ones (newest first), then the forks.

        A branch that was restored as a whole is left out.
        """
        return drive(self._handle.reading(branching.branches))

    def diff(self, a: Target, b: Target = LIVE) -> Diff:
        """Compare two branches: messages in common, messages and topics of one alone, scores, tokens.

        Args:
            a: `live`, a checkpoint, its name or id, or the id of a branch or a thread.
            b: The same.

        Raises:
            UnknownBranchError: No branch, checkpoint or thread has this name.
            ConflictError: Several branches or checkpoints match.
        """
        return drive(self._handle.reading(branching.diff, id_of(a), id_of(b)))

    def pick(self, message_ids: Sequence[str], from_: str) -> RollbackResult:
        """Copy messages of a branch or a thread to the end of the transcript; `undo` removes them.

        Args:
            message_ids: In the order wanted; the last must be an answer. What belongs to a message is
                added: to a tool call its results, to a question its documents.
            from_: A branch's id or the beginning of it, `branch-…`; else the id of a thread.

        Raises:
            UnknownBranchError: No branch has this id, or a message is not in the branch or thread.
            UnknownThreadError: No thread has the id `from_`, or one of the two has no messages yet.
            InputError: There are no messages, or they do not end in an answer.
            ConflictError: A turn was stopped, a decision is pending, or several branches match.
        """
        return drive(self._handle.result_of(orders.Pick(message_ids=message_ids, source=from_)))

    def fork(
        self, at: Target | None = None, *, turns: int | None = None, thread: str | None = None
    ) -> Self:
        """Start a thread in this database with a copy of this transcript; return its conversation.

        Args:
            at: The copy ends at this checkpoint, its name, its id or the beginning of its id. `None` is
                the newest answer.
            turns: End it N answered turns back instead of at a checkpoint.
            thread: The new thread's id; `None` makes one.

        Raises:
            ConflictError: A thread has this id already.
            InvalidNameError: The thread's id is not allowed.
            InputError: Both `at` and `turns` are given, or `turns` is under 1.
            NothingToUndoError: The thread has fewer answered turns.
        """
        return self._of(drive(branching.fork(self._handle, id_of(at), turns=turns, thread=thread)))

    @property
    def pins(self) -> Pins:
        """The pins: messages that are in every context; `add`, `remove`, `list`."""
        return Pins(self._handle)

    @property
    def lessons(self) -> Lessons:
        """Why drafts were rejected, which later turns are sent; `list`, `change`, `remove`."""
        return Lessons(self._handle)

    @property
    def ratings(self) -> Ratings:
        """Which answers a person found good or bad; `add`, `list`."""
        return Ratings(self._handle)

    def forget(
        self,
        what: str | None = None,
        through: str | None = None,
        *,
        turns: str | int | None = None,
        tool_results_below: float | None = None,
        question: str | None = None,
        reason: str = "",
    ) -> Forgotten:
        """Forget messages: never send them to a model again; the transcript keeps them.

        Contexts, recall, topic detection and the summaries of other topics leave them out, and tool
        calls go together with their results. Pins on them are removed. Summaries that include them are
        written again; a summarizer that fails raises no error. `restore` or `undo` makes them visible again.

        Args:
            what: A message's id, or a topic's id or label: all messages of the topic until now. Later
                messages on the same subject are a new topic.
            through: Id of the last message of a span that begins at the message `what`.
            turns: A turn's number, or a range such as `"3-5"`, instead of `what`.
            tool_results_below: Instead of `what`, the tool results of the current topic that score less
                than this, from 0 to 1; contexts show a short line for each. With `judging="model"` the
                judge scores them; otherwise the words do that result and question share: 0.2 for none.
                Pinned results stay, and those that cannot be scored or that the state does not hold.
            question: What the results are compared with; `None` takes the topic's questions, of which
                the best counts.
            reason: In your words, for the list of what is forgotten.

        Returns:
            The new entry in that list; `restore` takes its `id`. If no result scores less, nothing is
            stored, and its `message_ids` are empty.

        Raises:
            UnknownBranchError: No message or topic has this id or label.
            UnknownTurnError: No answered turn has this number.
            InputError: The question that waits for its answer is meant, `turns` is not a number or a
                range, or not exactly one of `what`, `turns` and `tool_results_below` is given.
            ConflictError: It is forgotten already, a turn was stopped or waits for a decision, a label
                is ambiguous, or 64 things or 1,000 messages are forgotten already.
        """
        if tool_results_below is None:
            order = orders.Forget(what=what, through=through, turns=turns, reason=reason)
            return drive(self._handle.result_of(order))
        if what is not None or turns is not None:
            raise InputError("forget: tool_results_below=… goes without a message, topic or turns")
        below = orders.ForgetToolResults(below=tool_results_below, question=question, reason=reason)
        return drive(self._handle.result_of(below))

    def forgotten(self) -> tuple[Forgotten, ...]:
        """List what is forgotten, oldest first; `restore` takes the `id` of an entry."""
        return drive(self._handle.reading(records.forgotten))

    def compact(self, up_to: int | Target | None = None) -> Omission:
        """Summarize the messages of the context up to a turn or a checkpoint; `undo` reverses this.

        The transcript stays as it is, and pinned messages are still sent in full. The summarizer is the
        configured one; with `summaries="local"`, or without a model, the summary is made without one.
        The result has the messages that the summary replaces, and the summary.

        Args:
            up_to: A turn's number, a checkpoint, its name or its id's beginning; `None` is the newest answer.

        Raises:
            UnknownTurnError: No answered turn in the state has this number.
            InputError: The context has no message up to there that a summary could replace.
            SummarizationError: The summarizer failed, or its summary is longer than the messages.
            ConfigurationError: The summarizer that the settings name cannot be made, as without a key.
            ConflictError: A turn was stopped and waits, or a decision is pending.
        """
        return drive(self._handle.result_of(orders.Compact(up_to=id_of(up_to))))

    def recall(self, words: str) -> tuple[Find, ...]:
        """Search earlier messages and add the matches to the next question's context.

        Args:
            words: What to search for; with `embeddings`, also what means the same.

        Returns:
            At most 20 messages in the transcript's order, each with its turn's number and why it
            matched; empty if nothing matches.

        Raises:
            InputError: The text is empty.
            ConflictError: A decision is pending.
        """
        return drive(self._handle.result_of(orders.Recall(words=words)))

    def same_topic(self) -> str:
        """Say that the topic did not change, and return the label of the topic that goes on.

        The newest topic is joined to the one before, so that contexts include the messages of both
        again. `undo` separates them. `retry` answers the last question again with these messages.

        Raises:
            ConflictError: The conversation has only one topic, the topic before is forgotten, or a
                decision is pending.
        """
        return drive(self._handle.result_of(orders.JoinTopics()))

    def timeline(self) -> Timeline:
        """Return what a page shows of the thread: turns, rejected drafts, checkpoints, branches, topics.

        It prints as a tree. The messages themselves, with tool calls and results, are `messages()`.
        A damaged branch or stored tool call is left out, with a warning in the log.
        """
        return drive(self._handle.reading(timeline.timeline))

    def context(self, turn: int | None = None, *, attempt: int | None = None) -> TurnCalls:
        """Return what the model was sent in a turn, call by call, rejected drafts included.

        Args:
            turn: The turn's number, from 1; `None` is the last turn.
            attempt: Only the calls of this attempt, from 1; `None` is all.

        Raises:
            UnknownTurnError: No turn has this number.
            UnknownContextError: The turn has no such attempt, or nothing is kept of it, because a host
                or an older version answered.
        """
        return drive(self._handle.reading(model_calls.context, turn, attempt=attempt))

    def replay(
        self,
        *,
        turn: int | None = None,
        run_id: str | None = None,
        attempt: int | None = None,
        model: ModelLike | None = None,
    ) -> Replay:
        """Return what a turn's model was sent, and with `model` what another model answers to the same.

        The request of an attempt that failed is stored; that of an attempt that succeeded is planned
        again. A stored request must fit all of `turn`, `run_id` and `attempt` that are given.

        Args:
            turn: The turn's number; `None` is the newest attempt that failed, or the last turn if none
                failed.
            run_id: Of the failed attempt; `None` is any.
            attempt: Of the failed attempt, from 1; `None` is the newest.
            model: Receives the same request; `None` asks none. The transcript is not changed, and an
                error of the model is in the result.

        Raises:
            UnknownRunError: No failed attempt matches.
            UnknownTurnError: No turn has this number.
            ConfigurationError: `model` is not a model, or it is a name without a key.
            TranscriptError: A provider would refuse the request that was planned again.
        """
        steps = self._handle.reading(
            model_calls.replay, turn=turn, run_id=run_id, attempt=attempt, model=model
        )
        return drive(steps)

    def tool_result(self, tool_call_id: str) -> str:
        """Return the whole text of a tool's result, also if contexts show it cut or not at all.

        Raises `UnknownToolResultError` if no result in the transcript has this tool call's id.
        """
        return drive(self._handle.reading(records.tool_result, tool_call_id))

    def tokens(self, *, spent: bool = True) -> Usage:
        """Return how the context window is used, the tokens and cost of each purpose, and the budgets.

        With `spent=False` no tokens are added up, so that the work does not grow with the thread, such
        as for a status line: an unknown thread raises no error, and if the newest call was sent
        offloaded messages, `window.fits` is false.
        """
        return drive(self._handle.reading(records.tokens, spent=spent))

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        del include, exclude
        try:
            return mimebundle(self.timeline())
        except UnknownThreadError:
            return mimebundle(timeline_of(self._handle, {}))
