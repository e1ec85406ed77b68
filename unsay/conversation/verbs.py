"""The tables of verbs: the name of each, the steps behind it, and what it needs."""

from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

from unsay.conversation import (
    audit,
    branching,
    memory,
    model_calls,
    navigation,
    request_replay,
    topic_summaries,
    turn_lifecycle,
)
from unsay.conversation.facade import Opener, Verb
from unsay.conversation.thread import Talk
from unsay.effects import Steps
from unsay.history.runs import children as children_of
from unsay.history.runs import get_run, list_runs
from unsay.history.threads import get_session, search_sessions

P = ParamSpec("P")
T = TypeVar("T")


def _changes(steps: Callable[Concatenate[Talk, P], Steps[T]]) -> Verb[P, T]:
    """A verb that runs with the thread's lock."""
    return Verb(steps, lambda facade, ask: facade._talk.alone(ask(facade._talk)))


def _reads(steps: Callable[Concatenate[Talk, P], Steps[T]]) -> Verb[P, T]:
    """A verb that writes nothing and waits for no writer."""
    return Verb(steps, lambda facade, ask: facade._talk.reading(ask))


def _lists(steps: Callable[Concatenate[Any, P], Steps[T]]) -> Verb[P, T]:
    """A verb over the store of a registry."""
    return Verb(steps, lambda facade, ask: ask(facade._store))


class ConversationVerbs:
    """The verbs of a conversation."""

    say = _changes(turn_lifecycle.say)
    resume = _changes(turn_lifecycle.resume)
    add = _changes(Talk.add)
    timeline = _reads(Talk.timeline)
    messages = _reads(Talk.record)

    checkpoint = _changes(navigation.checkpoint)
    checkpoints = _reads(navigation.checkpoints)
    rollback = _changes(navigation.rollback)
    preview = _reads(navigation.preview)
    undo = _changes(navigation.undo)
    redo = _changes(navigation.redo)
    retry = _changes(navigation.retry)
    restore = _changes(branching.restore)
    pick = _changes(branching.pick)
    fork = Opener(branching.fork)
    branches = _reads(branching.branches)
    diff = _reads(branching.diff)

    pin = _changes(memory.pin)
    unpin = _changes(memory.unpin)
    pins = _reads(memory.pins)
    forget = _changes(memory.forget)
    forget_tool_results = _changes(memory.forget_tool_results)
    forgotten = _reads(memory.forgotten)
    recall = _changes(navigation.recall)

    view = _reads(model_calls.view)
    replay = _reads(request_replay.replay)
    tool_result = _reads(audit.tool_result)
    tokens = _reads(audit.tokens)
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
