"""The conversation: one thread of one file, for scripts and for async code."""

import os
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Mapping, Sequence
from typing import Any, Self
from uuid import uuid4

from langchain_core.messages import AnyMessage
from langchain_core.tools import BaseTool

from unsay.effects import adrive, drive
from unsay.errors import InvalidNameError
from unsay.graph.builder import Graph, compile_graph, make_services
from unsay.graph.pictures import mimebundle
from unsay.graph.reply import Event, Moved, Reply, event_of
from unsay.graph.talk import Talk
from unsay.graph.timeline import Timeline
from unsay.history.database import Database, open_database, translated
from unsay.services import ModelLike
from unsay.settings import Context, Settings
from unsay.types import Checkpoint, TopicDetector

THREAD_CHARS = 200
"""Longest thread id."""


def _open_talk(
    path_or_url: str | os.PathLike[str] | Database,
    thread: str | None,
    model: ModelLike | None,
    context: Context | None,
    options: Mapping[str, Any],
) -> Talk:
    name = str(uuid4()) if thread is None else thread
    if not name.strip() or len(name) > THREAD_CHARS or not name.isprintable():
        raise InvalidNameError(
            f"{name!r} cannot name a thread: use 1 to {THREAD_CHARS} printable characters"
        )
    services = make_services(model, **options)
    database = path_or_url if isinstance(path_or_url, Database) else open_database(path_or_url)
    graph = compile_graph(services, deltas=True, checkpointer=database.saver, store=database.store)
    return Talk(graph=graph, services=services, database=database, thread_id=name, context=context)


class _Opened:
    """What both forms of a conversation share."""

    def __init__(self, talk: Talk) -> None:
        self._talk = talk

    @classmethod
    def open(
        cls,
        path_or_url: str | os.PathLike[str] | Database,
        *,
        thread: str | None = None,
        model: ModelLike | None = None,
        judge: ModelLike | None = None,
        summarizer: ModelLike | None = None,
        title: ModelLike | None = None,
        tools: Sequence[BaseTool | Callable[..., Any]] = (),
        detector: TopicDetector | None = None,
        settings: Settings | Mapping[str, Any] | None = None,
        context: Context | None = None,
    ) -> Self:
        """A conversation in a file, made if there is none.

        Args:
            path_or_url: A path, `sqlite:///path`, `:memory:`, or an open database.
            thread: Its id; `None` begins a new one.
            model: Answers; see `build_graph`. Reading and going back need none.
            judge: See `build_graph`.
            summarizer: See `build_graph`.
            title: Names the thread; `None` takes `UNSAY_TITLE_MODEL`, else the
                first question's words.
            tools: See `build_graph`.
            detector: See `build_graph`.
            settings: See `build_graph`.
            context: Overrides settings for this conversation's runs.

        Raises:
            StorageError: The file cannot be used; the message says why.
            ConfigurationError: A setting is impossible.
            InvalidNameError: The thread's id cannot be one.
        """
        options = {
            "judge": judge,
            "summarizer": summarizer,
            "title": title,
            "tools": tools,
            "detector": detector,
            "settings": settings,
        }
        return cls(_open_talk(path_or_url, thread, model, context, options))

    @property
    def thread_id(self) -> str:
        """This conversation's thread."""
        return self._talk.thread_id

    @property
    def graph(self) -> Graph:
        """The compiled graph, with this file's checkpointer and store."""
        return self._talk.graph


class Conversation(_Opened):
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

    def say(self, text: str, *, documents: Sequence[str] = ()) -> Reply:
        """The answer to a message, judged, and taken back as often as it must be.

        A message that was said before and never answered, because of a crash or
        an error, goes on where it stopped.

        Args:
            text: The user's words, or a slash command.
            documents: What a search found for them; each is judged first, and set
                aside if it does not bear on the question.

        Raises:
            InputError: The message cannot be answered; nothing was stored.
            ModelError: The model failed; the question is kept.
            StorageError: The file failed; what was stored before is intact.
            ConflictError: A decision is due first.
        """
        return drive(self._talk.alone(self._talk.answer(text, documents=documents)))

    def resume(self, decision: Any = None) -> Reply:
        """The end of a turn that an error, a crash or a due decision stopped.

        Args:
            decision: For drafts that all failed: `"approve"`, `"reject"` or
                `{"decisions": [{"type": …}]}`; `None` just goes on.

        Raises:
            NothingToUndoError: No turn was stopped.
        """
        return drive(self._talk.alone(self._talk.answer(None, decision=decision)))

    def stream(self, text: str, *, documents: Sequence[str] = ()) -> Generator[Event, None, None]:
        """What happens while a message is answered: tokens, verdicts, rollbacks, the reply.

        Args:
            text: See `say`.
            documents: See `say`.

        Raises:
            UnsayError: As `say`.
        """
        talk = self._talk
        talk.waiting().blocking()
        try:
            with translated(talk.database.path):
                value = drive(talk.opening(text, documents))
                chunks = talk.graph.stream(
                    value, talk.config, stream_mode=["messages", "custom"], **talk.run_options()
                )
                for mode, chunk in chunks:
                    if (event := event_of(mode, chunk)) is not None:
                        yield event
                reply = drive(talk.closing())
        finally:
            talk.lock.release()
        yield Event(kind="reply", text=reply.text, message_id=reply.message_id, reply=reply)

    def add(self, messages: Iterable[Any]) -> None:
        """Put messages on the record without a model call.

        The next turn judges the answers among them, and takes them back if they fail.

        Args:
            messages: Anything that LangChain reads as messages.
        """
        drive(self._talk.alone(self._talk.add(messages)))

    def checkpoint(self, name: str | None = None) -> Checkpoint:
        """A checkpoint at the newest message.

        Raises:
            UnknownThreadError: Nothing was ever said.
            CheckpointExistsError: Another checkpoint has this name.
        """
        return drive(self._talk.alone(self._talk.mark(name)))

    def checkpoints(self) -> tuple[Checkpoint, ...]:
        """The checkpoints of the current branch, oldest first.

        Raises:
            UnknownThreadError: Nothing was ever said.
        """
        return self.timeline().checkpoints

    def rollback(self, to: str | None = None) -> Moved:
        """Go back; what is taken off the record is kept, and `undo` brings it back.

        Args:
            to: A checkpoint's name, its id or the beginning of it; `None` is the
                last checkpoint before the newest answer, without one the
                beginning of the last turn.

        Raises:
            UnknownThreadError: Nothing was ever said.
            UnknownCheckpointError: No checkpoint answers to it.
            AmbiguousCheckpointError: Several do.
        """
        return drive(self._talk.alone(self._talk.roll_back(to)))

    def undo(self) -> Moved:
        """Take back the newest step: a turn goes, what a rollback took returns.

        Raises:
            NothingToUndoError: No step is left.
        """
        return drive(self._talk.alone(self._talk.undo()))

    def timeline(self) -> Timeline:
        """The turns, their scores and topics, the checkpoints and the cuts.

        Raises:
            UnknownThreadError: Nothing was ever said.
        """
        return drive(self._talk.alone(self._talk.timeline()))

    def messages(self) -> list[AnyMessage]:
        """The record: the whole current branch, oldest first; empty for a new thread."""
        snapshot = drive(self._talk.alone(self._talk.snapshot()))
        return list(snapshot.values.get("messages", []))

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
        state = drive(self._talk.alone(self._talk.snapshot())).values
        bundle: dict[str, str] = mimebundle(self._talk.timeline_now(state))
        return bundle


class AsyncConversation(_Opened):
    """The same conversation for async code; every verb means what it means there.

    Example:
        >>> import asyncio
        >>> from unsay.testing import ScriptedChat, ScriptedJudge
        >>> async def main() -> str:
        ...     model = ScriptedChat(default="Hello!")
        ...     async with AsyncConversation.open(
        ...         ":memory:", model=model, judge=ScriptedJudge()
        ...     ) as talk:
        ...         return (await talk.say("Hi there")).text
        >>> asyncio.run(main())
        'Hello!'
    """

    async def say(self, text: str, *, documents: Sequence[str] = ()) -> Reply:
        """See `Conversation.say`."""
        return await adrive(self._talk.alone(self._talk.answer(text, documents=documents)))

    async def resume(self, decision: Any = None) -> Reply:
        """See `Conversation.resume`."""
        return await adrive(self._talk.alone(self._talk.answer(None, decision=decision)))

    async def stream(
        self, text: str, *, documents: Sequence[str] = ()
    ) -> AsyncGenerator[Event, None]:
        """See `Conversation.stream`."""
        talk = self._talk
        await talk.waiting().awaitable()
        try:
            with translated(talk.database.path):
                value = await adrive(talk.opening(text, documents))
                chunks = talk.graph.astream(
                    value, talk.config, stream_mode=["messages", "custom"], **talk.run_options()
                )
                async for mode, chunk in chunks:
                    if (event := event_of(mode, chunk)) is not None:
                        yield event
                reply = await adrive(talk.closing())
        finally:
            talk.lock.release()
        yield Event(kind="reply", text=reply.text, message_id=reply.message_id, reply=reply)

    async def add(self, messages: Iterable[Any]) -> None:
        """See `Conversation.add`."""
        await adrive(self._talk.alone(self._talk.add(messages)))

    async def checkpoint(self, name: str | None = None) -> Checkpoint:
        """See `Conversation.checkpoint`."""
        return await adrive(self._talk.alone(self._talk.mark(name)))

    async def checkpoints(self) -> tuple[Checkpoint, ...]:
        """See `Conversation.checkpoints`."""
        return (await self.timeline()).checkpoints

    async def rollback(self, to: str | None = None) -> Moved:
        """See `Conversation.rollback`."""
        return await adrive(self._talk.alone(self._talk.roll_back(to)))

    async def undo(self) -> Moved:
        """See `Conversation.undo`."""
        return await adrive(self._talk.alone(self._talk.undo()))

    async def timeline(self) -> Timeline:
        """See `Conversation.timeline`."""
        return await adrive(self._talk.alone(self._talk.timeline()))

    async def messages(self) -> list[AnyMessage]:
        """See `Conversation.messages`."""
        snapshot = await adrive(self._talk.alone(self._talk.snapshot()))
        return list(snapshot.values.get("messages", []))

    async def close(self) -> None:
        """See `Conversation.close`."""
        self._talk.database.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()
