"""The conversation: one thread of one database, for scripts, notebooks and async code."""

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Sequence
from contextlib import aclosing, closing
from functools import partial
from typing import Any, Self, TypeVar, Unpack

from langgraph.store.base import BaseStore

from unsay.arguments import checked
from unsay.conversation.results import Event, Reply, event_of, reply_event
from unsay.conversation.svg import mimebundle
from unsay.conversation.thread import ThreadHandle, checked_id
from unsay.conversation.timeline import timeline_of
from unsay.conversation.turn_lifecycle import close_turn, open_resumed, open_turn
from unsay.conversation.verbs import Blocking, ConversationVerbs, OnLoop, RegistryVerbs
from unsay.effects import Steps, adrive, drive
from unsay.errors import UnknownThreadError
from unsay.graph.builder import GraphOptions, compile_graph, make_services
from unsay.graph.compiled import HostGraph, Trusted
from unsay.model_factory import ModelLike
from unsay.settings import Context
from unsay.storage.base import Database, translated
from unsay.storage.sqlite import open_database
from unsay.storage.writer_lock import reading

T = TypeVar("T")


class _Opened:
    """What `Conversation` and `AsyncConversation` share: their thread, and how they are opened.

    `opened` is the database if `open` opened it; `None` if the caller or another conversation did.
    """

    def __init__(self, handle: ThreadHandle, opened: Database | None = None) -> None:
        self._handle = handle
        self._database = opened

    @classmethod
    @checked
    def open(
        cls,
        path_or_url: str | os.PathLike[str] | Database,
        *,
        thread: str | None = None,
        model: ModelLike | None = None,
        title: ModelLike | None = None,
        context: Context | None = None,
        **options: Unpack[GraphOptions],
    ) -> Self:
        """Open a conversation in a file, which is created if there is none, or in Postgres.

        Args:
            path_or_url: A path, `sqlite:///path`, `:memory:`, an open database, or
                `postgresql://user:password@host:port/name`, which needs the extra `postgres`.
            thread: The thread's id, of 1 to 200 printable characters; `None` starts a new thread.
            model: Answers, as in `build_graph`. Reading and rolling back need none.
            title: A model that names new threads. `None` reads `UNSAY_TITLE_MODEL`; without it the
                title is the first question's words.
            context: Overrides settings for this conversation's runs.
            **options: `judge`, `summarizer`, `tools`, `detector`, `reminders`, `strategy`,
                `embeddings`, `prompts`, `settings` and `commands`, as in `build_graph`.

        Raises:
            StorageError: The file or the server cannot be used; the message says why.
            ConfigurationError: A setting, an override, a tool, the strategy, the prompts or the URL
                cannot be used. A missing model is an error of `say`, not of `open`.
            MissingExtraError: The URL is a Postgres URL and the extra is not installed.
            InvalidNameError: The thread's id is not allowed.
            InputError: An option is unknown or has the wrong type.
        """
        thread_id = checked_id(thread)
        services = make_services(model, title=title, **options)
        services.settings.for_run(context)  # for its errors
        shared = isinstance(path_or_url, Database)  # then the caller opened it, and closes it
        database = path_or_url if isinstance(path_or_url, Database) else open_database(path_or_url)
        graph = compile_graph(
            services, deltas=True, checkpointer=database.saver, store=database.store
        )
        handle = ThreadHandle(
            graph=graph, services=services, database=database, thread_id=thread_id, context=context
        )
        return cls(handle, None if shared else database)

    def __repr__(self) -> str:
        database = self._handle.database.path
        return f"{type(self).__name__}(thread={self.thread_id!r}, database={database!r})"

    @property
    def thread_id(self) -> str:
        """The id of this conversation's thread."""
        return self._handle.thread_id

    @property
    def graph(self) -> HostGraph:
        """The graph that `open` compiled, with this database's checkpointer and store."""
        return self._handle.graph


class Conversation(_Opened, ConversationVerbs, Blocking):
    """A conversation for scripts and notebooks.

    Verbs that need messages raise `UnknownThreadError` while the thread is empty. Every verb raises
    `StorageError` if the database fails, and a verb that writes raises `ThreadBusyError` if another
    writer has the thread for too long.

    Example:
        >>> from unsay.testing import ScriptedChat, ScriptedJudge
        >>> model = ScriptedChat(replies={"Capital of France?": "Paris."})
        >>> handle = Conversation.open(":memory:", model=model, judge=ScriptedJudge())
        >>> print(handle.say("Capital of France?"))
        Paris.
        >>> handle.undo().turns
        0
        >>> handle.close()
    """

    @checked
    def stream(
        self,
        text: str,
        *,
        documents: Sequence[str] = (),
        images: Sequence[str] = (),
        turn_id: str | None = None,
        answer: str | None = None,
    ) -> Generator[Event, None, None]:
        """Stream a turn's events: tokens, verdicts, rollbacks, and at the end the reply.

        Nothing happens before the first event is read; then the thread is locked until the last.
        Closing the generator early stops the turn, which `resume` can continue. With
        `budget_mode="ask"`, the default, a used-up budget gives a reply that is a `decision`.

        Args:
            text: The user's message, or a slash command.
            documents: Texts that a search found for the message. The last ten are
                judged first, none with `judging="off"`; the model is not sent one that fails.
            images: URLs of images, or images as `data:image/png;base64,…`.
            turn_id: An id of 1 to 200 printable characters, so that the message may be sent again;
                an answer that is already stored gives one event, the reply. `None` makes one.
            answer: The text in the attribute `answer` of an error, as for `say`; with its `turn_id`.

        Raises:
            InputError: An argument has the wrong type: raised by the call. Or the message cannot be
                answered: raised, as all other errors, when events are read. Nothing was stored.
            ConfigurationError: There is no model; the question is kept.
            ModelError: The model failed; the question is kept.
            StorageError: The database failed; what was stored before is intact. If the model had
                answered, the error's `answer` is the text.
            ConflictError: The thread waits for a decision, was ended, or is used by another writer
                for too long; a budget is used up, with `budget_mode="hard"`; or the `turn_id` was
                used for another text.
        """
        return self._streamed(
            lambda thread: open_turn(thread, text, documents, turn_id, answer, images), turn_id
        )

    @checked
    def stream_resumed(self, decision: Any = None) -> Generator[Event, None, None]:
        """Resume a stopped turn, and stream its events; the last one is the reply.

        `decision` is a person's, as for `resume`; `None` resumes a turn that waits for none. The errors
        of `resume` are raised when events are read: `NothingToResumeError` if no turn was stopped.
        """
        return self._streamed(partial(open_resumed, decision=decision))

    def _streamed(
        self, begin: Callable[[ThreadHandle], Steps[Any]], turn_id: str | None = None
    ) -> Generator[Event, None, None]:
        handle = self._handle
        hold = drive(handle.take())
        try:
            with translated(handle.database.path), reading(hold):
                opened = drive(begin(handle))
                if isinstance(opened, Reply):
                    reply = opened
                else:
                    chunks: Any = handle.graph.stream(
                        Trusted(opened), handle.config, **handle.streaming()
                    )
                    # A reader that leaves early stops the graph before the lock is released.
                    with closing(chunks):
                        for mode, chunk in chunks:
                            if (event := event_of(mode, chunk)) is not None:
                                yield event
                    reply = drive(close_turn(handle, turn_id))
        finally:
            hold.release()
        # After the release: a reader that stops at the reply must not keep the thread locked.
        yield reply_event(reply)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """Return scores and tree for a notebook, as a picture and as text; a new thread gives a hint.

        Raises `DatabaseCorruptError` if an offloaded segment is missing or damaged.
        """
        del include, exclude
        try:
            return mimebundle(self.timeline())
        except UnknownThreadError:
            return mimebundle(timeline_of(self._handle, {}))


class AsyncConversation(_Opened, ConversationVerbs, OnLoop):
    """The same conversation for async code; every verb has the same parameters and result.

    Example:
        >>> import asyncio
        >>> from unsay.testing import ScriptedChat, ScriptedJudge
        >>> async def main() -> str:
        ...     model = ScriptedChat(default="Hello!")
        ...     async with AsyncConversation.open(
        ...         ":memory:", model=model, judge=ScriptedJudge()
        ...     ) as conversation:
        ...         return (await conversation.say("Hi there")).text
        >>> asyncio.run(main())
        'Hello!'
    """

    @checked
    def stream(
        self,
        text: str,
        *,
        documents: Sequence[str] = (),
        images: Sequence[str] = (),
        turn_id: str | None = None,
        answer: str | None = None,
    ) -> AsyncGenerator[Event, None]:
        """Stream a turn's events; the last one is the reply.

        The arguments and errors are those of `Conversation.stream`. Nothing happens before the first
        event is read; closing the generator early stops the turn, which `resume` can continue.
        """
        return self._streamed(
            lambda thread: open_turn(thread, text, documents, turn_id, answer, images), turn_id
        )

    @checked
    def stream_resumed(self, decision: Any = None) -> AsyncGenerator[Event, None]:
        """Resume a stopped turn, and stream its events; the last one is the reply.

        `decision` is a person's, as for `resume`; `None` resumes a turn that waits for none. The errors
        of `resume` are raised when events are read: `NothingToResumeError` if no turn was stopped.
        """
        return self._streamed(partial(open_resumed, decision=decision))

    async def _streamed(
        self, begin: Callable[[ThreadHandle], Steps[Any]], turn_id: str | None = None
    ) -> AsyncGenerator[Event, None]:
        handle = self._handle
        hold = await adrive(handle.take())
        try:
            with translated(handle.database.path):
                opened = await adrive(begin(handle))
                if isinstance(opened, Reply):
                    reply = opened
                else:
                    chunks: Any = handle.graph.astream(
                        Trusted(opened), handle.config, **handle.streaming()
                    )
                    # A reader that leaves early stops the graph before the lock is released.
                    async with aclosing(pumped(chunks)) as read:
                        async for mode, chunk in read:
                            if (event := event_of(mode, chunk)) is not None:
                                yield event
                    reply = await adrive(close_turn(handle, turn_id))
        finally:
            hold.release()
        yield reply_event(reply)


_END: Any = object()


async def pumped(source: AsyncIterator[T]) -> AsyncGenerator[T, None]:
    """Yield the items of a source that a separate task reads; its errors are raised here.

    Closing an async generator of LangGraph waits for the running step, and a slow model or judge
    can hold that up for long. Cancelling the task that reads it stops the step at once.
    """
    ready: asyncio.Queue[T] = asyncio.Queue()

    async def read() -> None:
        try:
            async for item in source:
                ready.put_nowait(item)
        finally:
            ready.put_nowait(_END)  # also after an error, which `await reader` raises

    reader = asyncio.create_task(read())
    try:
        while (item := await ready.get()) is not _END:
            yield item
        await reader
    finally:
        reader.cancel()
        await asyncio.wait([reader])  # does not raise what the task raised


class _Listed:
    """What `Registry` and `AsyncRegistry` share: the store, and the database if it was opened here."""

    def __init__(self, place: Database | BaseStore, opened: Database | None = None) -> None:
        self._place = place
        self._store = place if isinstance(place, BaseStore) else place.store
        self._path = "the store" if isinstance(place, BaseStore) else place.path
        self._database = opened

    def __repr__(self) -> str:
        return f"{type(self).__name__}(database={self._path!r})"

    @classmethod
    @checked
    def open(cls, path_or_url: str | os.PathLike[str] | Database | BaseStore) -> Self:
        """Open a registry over a file, which is created if there is none, a database, or a host's store.

        Args:
            path_or_url: As for `Conversation.open`, or a LangGraph store.

        Raises:
            StorageError: The file or the server cannot be used; the message says why.
            ConfigurationError: The URL cannot be used.
            MissingExtraError: The URL is a Postgres URL and the extra is not installed.
            InputError: It is none of these.
        """
        if isinstance(path_or_url, Database | BaseStore):
            return cls(path_or_url)  # the caller opened it, and closes it
        database = open_database(path_or_url)
        return cls(database, database)


class Registry(_Listed, RegistryVerbs, Blocking):
    """The threads and runs of a database, for scripts.

    Example:
        >>> from unsay import Conversation
        >>> from unsay.storage.sqlite import open_database
        >>> from unsay.testing import ScriptedChat, ScriptedJudge
        >>> file = open_database(":memory:")
        >>> model = ScriptedChat(default="Two days are enough.")
        >>> handle = Conversation.open(file, thread="trip", model=model, judge=ScriptedJudge())
        >>> _ = handle.say("How long should I stay in Kyoto?")
        >>> registry = Registry.open(file)
        >>> [each.thread_id for each in registry.sessions(status="active").sessions]
        ['trip']
        >>> [each.status for each in registry.runs(thread_id="trip").runs]
        ['completed']
        >>> file.close()
    """


class AsyncRegistry(_Listed, RegistryVerbs, OnLoop):
    """The same registry for async code, such as a route beside a server's graph."""
