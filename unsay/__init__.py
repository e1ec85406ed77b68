"""Conversations that can take things back.

The public names are loaded when they are first used, so that `import unsay`
and `unsay --help` stay instant. `docs/api.md` describes each of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from unsay.errors import *  # noqa: F403 - every error can be imported from here

if TYPE_CHECKING:
    from unsay.context.strategy import Composed as Composed
    from unsay.context.strategy import Null as Null
    from unsay.context.strategy import Strategy as Strategy
    from unsay.context.summarizing import ByTurns as ByTurns
    from unsay.context.summarizing import Summarizing as Summarizing
    from unsay.context.topics import TopicScoped as TopicScoped
    from unsay.context.view import Reminder as Reminder
    from unsay.context.windows import SlidingWindow as SlidingWindow
    from unsay.context.windows import ThreeStage as ThreeStage
    from unsay.conversation.asynchronous import AsyncConversation as AsyncConversation
    from unsay.conversation.asynchronous import AsyncRegistry as AsyncRegistry
    from unsay.conversation.conversation import Conversation as Conversation
    from unsay.conversation.model_calls import Replay as Replay
    from unsay.conversation.model_calls import TurnCalls as TurnCalls
    from unsay.conversation.registry import Registry as Registry
    from unsay.conversation.timeline import Timeline as Timeline
    from unsay.events.stream_events import StreamEvent as StreamEvent
    from unsay.graph.builder import build_graph as build_graph
    from unsay.history.runs import Run as Run
    from unsay.history.runs import RunPage as RunPage
    from unsay.history.threads import SessionPage as SessionPage
    from unsay.history.threads import ThreadInfo as ThreadInfo
    from unsay.judging.calibration import metric_judge as metric_judge
    from unsay.judging.verdict import judged_parts as judged_parts
    from unsay.protocols import TopicDetector as TopicDetector
    from unsay.protocols import TopicMemory as TopicMemory
    from unsay.protocols import TopicShift as TopicShift
    from unsay.results.lists import Branch as Branch
    from unsay.results.lists import Diff as Diff
    from unsay.results.results import Checkpoint as Checkpoint
    from unsay.results.results import Event as Event
    from unsay.results.results import Preview as Preview
    from unsay.results.results import Reply as Reply
    from unsay.results.results import RollbackResult as RollbackResult
    from unsay.results.usage import Usage as Usage
    from unsay.settings.settings import Context as Context
    from unsay.settings.settings import Settings as Settings
    from unsay.state import State as State
    from unsay.storage.sqlite import open_database as open_database
    from unsay.tools import reversible as reversible
    from unsay.tools import risky as risky

_NAMES_BY_MODULE = {
    "context": "ByTurns Composed Null Reminder SlidingWindow Strategy Summarizing ThreeStage TopicScoped",
    "results.lists": "Branch Diff",
    "conversation.asynchronous": "AsyncConversation AsyncRegistry",
    "conversation.conversation": "Conversation",
    "conversation.registry": "Registry",
    "conversation.model_calls": "Replay TurnCalls",
    "results.results": "Checkpoint Event Preview Reply RollbackResult",
    "conversation.timeline": "Timeline",
    "errors": "UnsayError",
    "events.stream_events": "StreamEvent",
    "graph.builder": "build_graph",
    "history.runs": "Run RunPage",
    "history.threads": "SessionPage ThreadInfo",
    "judging.calibration": "metric_judge",
    "judging.verdict": "judged_parts",
    "results.usage": "Usage",
    "settings": "Context Settings",
    "state": "State",
    "storage.sqlite": "open_database",
    "tools": "reversible risky",
    "protocols": "TopicDetector TopicMemory TopicShift",
}
_MODULES = {
    name: f"unsay.{home}" for home, names in _NAMES_BY_MODULE.items() for name in names.split()
}
__all__ = sorted(_MODULES)  # noqa: PLE0605 - one list of the names


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'unsay' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return __all__
