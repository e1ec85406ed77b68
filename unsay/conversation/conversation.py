"""The conversation: one thread of one file, for scripts and notebooks."""

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import closing
from typing import Any, Self

from langchain_core.messages import AnyMessage

from unsay.conversation.audit import (
    end_session,
    events,
    label_session,
    note,
    purge,
    replay_request,
    runs,
    tool_result,
)
from unsay.conversation.request_replay import Replay
from unsay.conversation.results import Event as StreamEvent
from unsay.conversation.results import Reply, event_of
from unsay.conversation.svg import mimebundle
from unsay.conversation.thread import Talk
from unsay.conversation.timeline import Timeline
from unsay.conversation.turn_lifecycle import answer, close_turn, open_turn
from unsay.conversation.verbs import Moving
from unsay.effects import drive
from unsay.history.runs import RunPage
from unsay.history.threads import ThreadEntry
from unsay.model_factory import ModelLike
from unsay.storage.base import Purged, translated
from unsay.types import Event


class Conversation(Moving):
    """A conversation for scripts and notebooks.

    Example:
        >>> from unsay.testing import ScriptedChat, ScriptedJudge
        >>> model = ScriptedChat(replies={"Capital of France?": "Paris."})
        >>> talk = Conversation.open(":memory:", model=model, judge=ScriptedJudge())
        >>> print(talk.say("Capital of France?"))
        Paris.
        >>> talk.undo().turns
        0
    """

    def say(self, text: str, *, documents: Sequence[str] = (), turn_id: str | None = None) -> Reply:
        """The answer to a message, judged, and taken back as often as it must be.

        A message that was said before and never answered, because of a crash or
        an error, goes on where it stopped.

        With a `turn_id` the same message may be sent as often as need be, by any
        process: it stands on the record once, its answer is paid for once, and whoever
        sends it again is given that answer. So it is also for a command such as `/undo`,
        which is obeyed once. The answer is the one that was stored first, also when a
        rollback or a retry has taken it off the record since: to ask anew, use a new id.
        Only `purge` forgets ids.

        Args:
            text: The user's words, or a slash command.
            documents: What a search found for them; each is judged first, and set
                aside if it does not bear on the question.
            turn_id: The caller's name for this turn, of 1 to 200 printable characters,
                the message's id on the record; `None` makes one, which the reply tells.

        Raises:
            InputError: The message cannot be answered; nothing was stored.
            ModelError: The model failed; the question is kept.
            StorageError: The file failed; what was stored before is intact.
            ConflictError: A decision is due first, or other words have this `turn_id`.
        """
        talk = self._talk
        return drive(talk.alone(answer(talk, text, documents=documents, turn_id=turn_id)))

    def resume(self, decision: Any = None) -> Reply:
        """The end of a turn that an error, a crash or a due decision stopped.

        Args:
            decision: For drafts that all failed: `"approve"`, `"reject"` or
                `{"decisions": [{"type": …}]}`; `None` just goes on.

        Raises:
            NothingToUndoError: No turn was stopped.
        """
        return drive(self._talk.alone(answer(self._talk, None, decision=decision)))

    def stream(
        self, text: str, *, documents: Sequence[str] = (), turn_id: str | None = None
    ) -> Generator[StreamEvent, None, None]:
        """What happens while a message is answered: tokens, verdicts, rollbacks, the reply.

        Args:
            text: See `say`.
            documents: See `say`.
            turn_id: See `say`; an answer that was stored before is one event, the reply.

        Raises:
            UnsayError: As `say`.
        """
        talk = self._talk
        talk.waiting().blocking()
        try:
            with translated(talk.database.path):
                opening = drive(open_turn(talk, text, documents, turn_id))
                reply = opening.reply
                if reply is None:
                    chunks: Any = talk.graph.stream(opening.value, talk.config, **talk.streaming())
                    with closing(chunks):  # left early, the graph stops before the lock is free
                        for mode, chunk in chunks:
                            if (event := event_of(mode, chunk)) is not None:
                                yield event
                    reply = drive(close_turn(talk, turn_id))
        finally:
            talk.lock.release()
        yield StreamEvent(kind="reply", text=reply.text, message_id=reply.message_id, reply=reply)

    def add(self, messages: Iterable[Any]) -> None:
        """Put messages on the record without a model call.

        The next turn judges the answers among them, and takes them back if they fail.

        Args:
            messages: Anything that LangChain reads as messages.
        """
        drive(self._talk.alone(self._talk.add(messages)))

    def timeline(self) -> Timeline:
        """The turns, their scores and topics, the checkpoints and the cuts.

        Raises:
            UnknownThreadError: Nothing was ever said.
        """
        return drive(self._talk.reading(Talk.timeline))

    def messages(self) -> list[AnyMessage]:
        """The record: the whole current branch, oldest first; empty for a new thread."""
        return drive(self._talk.reading(Talk.record))

    def events(self) -> list[Event]:
        """The ledger: everything that happened in the thread, oldest first, verified.

        `unsay.events.replay.replay` makes the record of it again, byte for byte.

        Raises:
            UnknownThreadError: Nothing was ever said.
            LedgerGapError: An event is missing or was changed.
        """
        return drive(self._talk.reading(events))

    def note(
        self, text: str, *, event_id: str | None = None, labels: Mapping[str, str] | None = None
    ) -> bool:
        """Write a remark of the host's own into the ledger; no model is sent it.

        Args:
            text: The remark.
            event_id: Of the host's own: the same note twice is one event.
            labels: To find it by.

        Returns:
            Whether it was new.

        Raises:
            EventConflictError: Another event has this id.
            ConflictError: A turn is under way.
        """
        return drive(self._talk.alone(note(self._talk, text, event_id, labels)))

    def runs(self, **asked: Any) -> RunPage:
        """The thread's runs, the one opened first first.

        Args:
            **asked: `status`, `phase`, `labels`, `parent_run_id`, `since`, `until`, `cursor`,
                `limit`: see `unsay.history.runs.list_runs`.
        """
        return drive(self._talk.reading(lambda talk: runs(talk, **asked)))

    def end(self) -> ThreadEntry:
        """End the thread for good: it can be read, and no new run may start in it.

        Raises:
            ConflictError: A turn is under way.
        """
        return drive(self._talk.alone(end_session(self._talk)))

    def label(self, /, **labels: str | None) -> ThreadEntry:
        """Set labels of the thread, to find it by; `None` takes one off."""
        return drive(self._talk.alone(label_session(self._talk, labels)))

    def purge(self) -> Purged:
        """Remove the thread everywhere, and its words from the file's bytes; nothing undoes it."""
        return drive(self._talk.alone(purge(self._talk)))

    def tool_result(self, tool_call_id: str) -> str:
        """The words of a tool's result, whole, also where views show only their beginning.

        Raises:
            UnknownToolResultError: No tool call of the record has this id.
        """
        return drive(self._talk.reading(lambda talk: tool_result(talk, tool_call_id)))

    def replay(
        self,
        *,
        turn: int | None = None,
        run_id: str | None = None,
        attempt: int | None = None,
        model: ModelLike | None = None,
    ) -> Replay:
        """What a turn's model was sent, and what another model makes of it.

        Args:
            turn: Its number; `None` is the newest attempt that failed, without one the
                last turn.
            run_id: Of the failed attempt.
            attempt: Of the failed attempt, from 1.
            model: Is asked the same; `None` asks none. Nothing enters the record.

        Raises:
            UnknownRunError: No failed attempt fits.
            NothingToUndoError: No turn fits.
        """
        return drive(
            self._talk.reading(
                lambda talk: replay_request(
                    talk, turn=turn, run_id=run_id, attempt=attempt, model=model
                )
            )
        )

    def close(self) -> None:
        """Close the file."""
        self._talk.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """How a notebook shows it: the scores and the tree as a picture, and as text."""
        del include, exclude
        state = drive(self._talk.reading(Talk.read))
        bundle: dict[str, str] = mimebundle(self._talk.timeline_now(state))
        return bundle
