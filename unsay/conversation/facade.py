"""What the public classes share: how they are opened and closed, their arguments, and streams."""

import asyncio
import inspect
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Mapping
from contextlib import aclosing, closing
from dataclasses import replace
from typing import Any, ParamSpec, Self, TypeVar, Unpack

from langgraph.store.base import BaseStore, InvalidNamespaceError

from unsay.arguments import checked
from unsay.conversation.thread import ThreadHandle, checked_id
from unsay.conversation.turn_lifecycle import close_turn
from unsay.effects import Steps, adrive, drive
from unsay.errors import InputError
from unsay.graph.builder import GraphOptions, compile_graph, make_services
from unsay.hosts.entry import HostGraph, Trusted
from unsay.models.factory import ModelLike
from unsay.results.results import Event, Reply, event_of, reply_event
from unsay.settings.settings import Context, Settings
from unsay.storage.base import Database, translated
from unsay.storage.sqlite import open_database
from unsay.storage.writer_lock import reading

P = ParamSpec("P")
T = TypeVar("T")


def checks_arguments(cls: type[T]) -> type[T]:
    """Decorate a class: wrong names or types of arguments of its public methods raise `InputError`."""
    part = f"{cls.__name__.removeprefix('Async').lower()}." if issubclass(cls, Part) else ""
    for name, member in list(vars(cls).items()):
        if inspect.isfunction(member) and not name.startswith("_"):
            setattr(cls, name, checked(member, label=part + name))
    make = checked(cls.__init__, label=cls.__name__)
    cls.__init__ = make  # type: ignore[method-assign]
    return cls


class Blocking:
    """A base of the classes whose methods block; a `with` statement closes what they opened."""

    _database: Database | None

    def close(self) -> None:
        """Close the database that this object opened; one that was passed to it stays open.

        A fork uses the database of its conversation, and leaves it open.
        """
        if self._database is not None:
            self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class OnLoop:
    """A base of the classes for async code; an `async with` statement closes what they opened."""

    _database: Database | None

    async def close(self) -> None:
        """Close the database that this object opened; one that was passed to it stays open.

        A fork uses the database of its conversation, and leaves it open.
        """
        if self._database is not None:
            self._database.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()


class Part:
    """A base of what belongs to a conversation and has verbs of its own, such as its pins."""

    def __init__(self, handle: ThreadHandle) -> None:
        self._handle = handle


class OpenOptions(GraphOptions, total=False):
    """Options of `Conversation.open`; the constructor explains them."""

    thread: str | None
    model: ModelLike | None
    title: ModelLike | None
    context: Context | None


class OpenedThread:
    """What `Conversation` and `AsyncConversation` share: their thread, and how they are opened."""

    _handle: ThreadHandle
    _database: Database | None

    def __init__(
        self,
        path: str | os.PathLike[str] | Database,
        *,
        thread: str | None = None,
        model: ModelLike | None = None,
        title: ModelLike | None = None,
        context: Context | None = None,
        **options: Unpack[GraphOptions],
    ) -> None:
        """Open a conversation in a file, which is created if there is none, or in Postgres.

        Args:
            path: A path, `sqlite:///path`, `:memory:`, an open database, or
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
                cannot be used. A missing model is an error of `say`, not of this call.
            MissingExtraError: The URL is a Postgres URL and the extra is not installed.
            InvalidNameError: The thread's id is not allowed.
            InputError: An option is unknown or has the wrong type.
        """
        thread_id = checked_id(thread)
        services = make_services(model, title=title, **options)
        services.settings.for_run(context)  # for its errors
        shared = isinstance(path, Database)  # then the caller opened it, and closes it
        database = path if isinstance(path, Database) else open_database(path)
        graph = compile_graph(
            services, deltas=True, checkpointer=database.saver, store=database.store
        )
        self._database = None if shared else database
        self._handle = ThreadHandle(
            graph=graph, services=services, database=database, thread_id=thread_id, context=context
        )

    @classmethod
    def open(cls, path: str | os.PathLike[str] | Database, **options: Unpack[OpenOptions]) -> Self:
        """Return a new object of this class; the arguments and errors are those of the class."""
        return cls(path, **options)

    @classmethod
    def _of(cls, handle: ThreadHandle) -> Self:
        """Return the conversation of a thread whose database another object closes."""
        conversation = cls.__new__(cls)
        conversation._handle, conversation._database = handle, None
        return conversation

    def __repr__(self) -> str:
        database = self._handle.database.path
        return f"{type(self).__name__}(thread={self.thread_id!r}, database={database!r})"

    @property
    def thread_id(self) -> str:
        """The id of this conversation's thread."""
        return self._handle.thread_id

    @property
    def graph(self) -> HostGraph:
        """The compiled graph of this conversation, with its database's checkpointer and store."""
        return self._handle.graph


class OpenedStore:
    """What `Registry` and `AsyncRegistry` share: the store, and the database if they opened it."""

    def __init__(
        self,
        path: str | os.PathLike[str] | Database | BaseStore,
        *,
        settings: Settings | Mapping[str, Any] | None = None,
    ) -> None:
        """Open a registry over a file, which is created if there is none, a database, or a host's store.

        Args:
            path: As for `Conversation`, or a LangGraph store, which has no transcripts: verbs that need
                one raise `InputError`.
            settings: Override the environment and the settings file.

        Raises:
            StorageError: The file or the server cannot be used; the message says why.
            ConfigurationError: The URL cannot be used.
            MissingExtraError: The URL is a Postgres URL and the extra is not installed.
            InputError: It is none of these.
        """
        shared = isinstance(path, Database | BaseStore)  # then the caller opened it, and closes it
        place = path if isinstance(path, Database | BaseStore) else open_database(path)
        self._database = None if shared or isinstance(place, BaseStore) else place
        self._place, self._settings = place, settings
        self._handle: ThreadHandle | None = None
        self._store = place if isinstance(place, BaseStore) else place.store
        self._path = "the store" if isinstance(place, BaseStore) else place.path

    @classmethod
    def open(cls, path: str | os.PathLike[str] | Database | BaseStore, **options: Any) -> Self:
        """Return a new object of this class; the arguments and errors are those of the class."""
        return cls(path, **options)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(database={self._path!r})"

    def _thread(self, thread_id: str) -> ThreadHandle:
        """Return a thread; `InputError` over a host's store, which has no transcripts."""
        if isinstance(self._place, BaseStore):
            raise InputError("A store has no transcripts: open the registry with the database")
        if self._handle is None:  # one graph serves all threads
            self._handle = OpenedThread(self._place, settings=self._settings)._handle
        return replace(self._handle, thread_id=checked_id(thread_id))

    def _listed(self, steps: Steps[T]) -> Steps[T]:
        """Return the result of steps over the store; `InputError` for an empty thread id."""
        try:
            with translated(self._path):
                return (yield from steps)
        # LangGraph refuses an empty part of a namespace, and thread ids are parts of namespaces.
        except InvalidNamespaceError as error:
            raise InputError("thread_id must not be empty, got ''") from error


def streamed(
    handle: ThreadHandle, begin: Callable[[ThreadHandle], Steps[Any]], turn_id: str | None = None
) -> Generator[Event, None, None]:
    """Yield the events of the turn that `begin` opens; the thread is locked while it runs."""
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


async def astreamed(
    handle: ThreadHandle, begin: Callable[[ThreadHandle], Steps[Any]], turn_id: str | None = None
) -> AsyncGenerator[Event, None]:
    """As `streamed`, on an event loop."""
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
