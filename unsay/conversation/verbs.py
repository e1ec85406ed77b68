"""The tables of verbs, and how they become a class for scripts and a class for async code.

A verb is written once, as steps over a thread or a store. A table names each verb and says how
its steps are run. `Blocking` and `OnLoop` make the methods of the public classes from a table.
"""

import inspect
import re
from collections.abc import Callable, Coroutine
from typing import (
    Any,
    Concatenate,
    Generic,
    ParamSpec,
    Self,
    TypeVar,
    overload,
)

from langgraph.store.base import InvalidNamespaceError

from unsay.arguments import check_call
from unsay.conversation import (
    asking_again,
    audit,
    branching,
    judgements,
    memory,
    model_calls,
    navigation,
    timeline,
    topic_summaries,
    turn_lifecycle,
)
from unsay.conversation.thread import ThreadHandle
from unsay.effects import Steps, adrive, drive
from unsay.errors import InputError
from unsay.history.runs import children as children_of
from unsay.history.runs import get_run, list_runs
from unsay.history.threads import get_session, search_sessions
from unsay.storage.base import Database, translated

P = ParamSpec("P")
T = TypeVar("T")


class Blocking:
    """A base of `Conversation` and `Registry`: their verbs block and return their results."""

    _database: Database | None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        _make_methods(cls, _blocking)

    def close(self) -> None:
        """Close the database that `open` opened; one that was passed to it stays open.

        A fork uses the database of its conversation, and leaves it open.
        """
        if self._database is not None:
            self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class OnLoop:
    """A base of `AsyncConversation` and `AsyncRegistry`: their verbs are coroutines."""

    _database: Database | None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        _make_methods(cls, _on_loop)

    async def close(self) -> None:
        """Close the database that `open` opened; one that was passed to it stays open.

        A fork uses the database of its conversation, and leaves it open.
        """
        if self._database is not None:
            self._database.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()


B = TypeVar("B", bound=Blocking)
L = TypeVar("L", bound=OnLoop)


class Verb(Generic[P, T]):
    """One verb of a table: its `steps`, and how `run` gives them a thread or a store.

    On the public classes it is replaced by a method, so `__get__` exists for type checkers: it
    gives the verb's own parameters, and its result or a coroutine of it.
    """

    def __init__(
        self,
        steps: Callable[Concatenate[Any, P], Steps[T]],
        run: Callable[[Any, Callable[[Any], Steps[Any]]], Steps[Any]],
    ) -> None:
        self.steps: Callable[..., Steps[Any]] = steps
        self._run = run
        self._name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def started(self, facade: Any, args: Any, kwargs: Any) -> Steps[Any]:
        """Return the steps of one call, which run when they are driven.

        Raises `InputError` at once if the arguments do not fit the verb.
        """
        check_call(self.steps, args, kwargs, label=self._name)
        return self._run(facade, lambda subject: self.steps(subject, *args, **kwargs))

    @overload
    def __get__(self, facade: None, owner: type[B]) -> Callable[Concatenate[B, P], T]: ...
    @overload
    def __get__(
        self, facade: None, owner: type[L]
    ) -> Callable[Concatenate[L, P], Coroutine[Any, Any, T]]: ...
    @overload
    def __get__(self, facade: Blocking, owner: object) -> Callable[P, T]: ...
    @overload
    def __get__(self, facade: OnLoop, owner: object) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, facade: object, owner: object) -> Any:
        return self


class Opener(Verb[P, Any]):
    """A verb whose result is another object of the same class."""

    @overload
    def __get__(self, facade: None, owner: type[B]) -> Callable[Concatenate[B, P], B]: ...
    @overload
    def __get__(
        self, facade: None, owner: type[L]
    ) -> Callable[Concatenate[L, P], Coroutine[Any, Any, L]]: ...
    @overload
    def __get__(self, facade: B, owner: object) -> Callable[P, B]: ...
    @overload
    def __get__(self, facade: L, owner: object) -> Callable[P, Coroutine[Any, Any, L]]: ...
    def __get__(self, facade: object, owner: object) -> Any:
        return self


def _blocking(verb: Verb[..., Any]) -> Callable[..., Any]:

    def method(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        return drive(verb.started(self, args, kwargs))

    return method


def _on_loop(verb: Verb[..., Any]) -> Callable[..., Any]:

    async def method(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        return await adrive(verb.started(self, args, kwargs))

    return method


def _make_methods(cls: type, make: Callable[[Verb[..., Any]], Callable[..., Any]]) -> None:
    """Give a class a method for each verb in the tables it inherits; `make` makes the method."""
    for table in cls.__bases__:
        for name, verb in vars(table).items():
            if isinstance(verb, Verb):
                method: Any = make(verb)
                method.__name__, method.__qualname__ = name, f"{cls.__qualname__}.{name}"
                own = inspect.signature(verb.steps)
                subject, *parameters = own.parameters.values()
                # Without the docstring's line of the subject, which is `self` here.
                doc = re.sub(rf"\n +{subject.name}: [^\n]*", "", verb.steps.__doc__ or "")
                method.__module__, method.__doc__ = cls.__module__, doc
                # For `inspect.getsource`; the signature is taken from `__signature__`.
                method.__wrapped__ = verb.steps
                first = subject.replace(name="self", annotation=inspect.Parameter.empty)
                result = cls if isinstance(verb, Opener) else own.return_annotation.__args__[-1]
                method.__signature__ = own.replace(
                    parameters=[first, *parameters], return_annotation=result
                )
                setattr(cls, name, method)


def _changes(steps: Callable[Concatenate[ThreadHandle, P], Steps[T]]) -> Verb[P, T]:
    """Make a verb that runs as the thread's only writer.

    Its call waits until other writers are done, and raises `ThreadBusyError` if that takes too long.
    """
    return Verb(steps, lambda facade, ask: facade._handle.alone(ask(facade._handle)))


def _reads(steps: Callable[Concatenate[ThreadHandle, P], Steps[T]]) -> Verb[P, T]:
    """Make a verb that writes nothing and waits for no writer."""
    return Verb(steps, lambda facade, ask: facade._handle.reading(ask))


def _lists(steps: Callable[Concatenate[Any, P], Steps[T]]) -> Verb[P, T]:
    """Make a verb over the store of a registry; its call raises `InputError` for an empty thread id."""

    def run(facade: Any, ask: Callable[[Any], Steps[T]]) -> Steps[T]:
        try:
            with translated(facade._path):
                return (yield from ask(facade._store))
        # LangGraph refuses an empty part of a namespace, and thread ids are parts of namespaces.
        except InvalidNamespaceError as error:
            raise InputError("thread_id must not be empty, got ''") from error

    return Verb(steps, run)


def _purges(steps: Callable[Concatenate[Any, P], Steps[T]]) -> Verb[P, T]:
    """Make a verb over a registry's database, or over the host's store that it was opened with."""

    def run(facade: Any, ask: Callable[[Any], Steps[T]]) -> Steps[T]:
        with translated(facade._path):
            return (yield from ask(facade._place))

    return Verb(steps, run)


def _opens(steps: Callable[Concatenate[ThreadHandle, P], Steps[ThreadHandle]]) -> Opener[P]:
    """Make a verb that opens another thread; it runs without a lock."""

    def run(facade: Any, ask: Callable[[ThreadHandle], Steps[ThreadHandle]]) -> Steps[Any]:
        return type(facade)((yield from ask(facade._handle)))

    return Opener(steps, run)


class ConversationVerbs:
    """The verbs of a conversation; each docstring is at the function with the verb's steps."""

    say = _changes(turn_lifecycle.say)
    resume = _changes(turn_lifecycle.resume)
    add = _changes(ThreadHandle.add)
    timeline = _reads(timeline.timeline)
    messages = _reads(ThreadHandle.transcript)

    checkpoint = _changes(navigation.checkpoint)
    start_task = _changes(navigation.start_task)
    checkpoints = _reads(navigation.checkpoints)
    rollback = _changes(navigation.rollback)
    preview = _reads(navigation.preview)
    undo = _changes(navigation.undo)
    redo = _changes(navigation.redo)
    retry = _changes(asking_again.retry)
    edit = _changes(asking_again.edit)
    remove = _changes(navigation.remove)
    compact = _changes(memory.compact)
    restore = _changes(branching.restore)
    pick = _changes(branching.pick)
    fork = _opens(branching.fork)
    branches = _reads(branching.branches)
    diff = _reads(branching.diff)

    pin = _changes(memory.pin)
    unpin = _changes(memory.unpin)
    pins = _reads(memory.pins)
    forget = _changes(memory.forget)
    forget_tool_results = _changes(memory.forget_tool_results)
    forgotten = _reads(memory.forgotten)
    same_topic = _changes(memory.same_topic)
    recall = _changes(memory.recall)

    rate = _changes(judgements.rate)
    ratings = _reads(judgements.ratings)
    import_ratings = _changes(judgements.import_ratings)
    lessons = _reads(judgements.lessons)
    edit_lesson = _changes(judgements.edit_lesson)
    remove_lesson = _changes(judgements.remove_lesson)
    judge = _changes(judgements.judge)
    bisect = _changes(judgements.bisect)

    context = _reads(model_calls.context)
    replay = _reads(model_calls.replay)
    tool_result = _reads(audit.tool_result)
    tokens = _reads(audit.tokens)
    status = _reads(audit.status)
    judge_summaries = _changes(topic_summaries.judge_summaries)
    events = _reads(audit.events)
    runs = _reads(audit.runs)
    note = _changes(audit.note)
    label = _changes(audit.label)
    end = _changes(audit.end)
    purge = _changes(audit.purge)


class RegistryVerbs:
    """The verbs of a registry."""

    sessions = _lists(search_sessions)
    session = _lists(get_session)
    runs = _lists(list_runs)
    run = _lists(get_run)
    children = _lists(children_of)
    purge = _purges(audit.purge_in)
