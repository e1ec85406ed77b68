"""What a thread holds, read in one place.

No other test names a private channel of the state, a namespace of the store or the type of a stored
branch, except the test of the module that has it. A thread is that of a conversation, or one of a
compiled graph by its id.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from langchain_core.messages import AnyMessage
from langgraph.store.base import BaseStore, SearchItem
from langgraph.store.memory import InMemoryStore

from tests.graph.kit import config
from unsay.conversation.conversation import Conversation
from unsay.conversation.facade import OpenedThread
from unsay.conversation.registry import Registry
from unsay.conversation.thread import ThreadHandle
from unsay.effects import drive
from unsay.errors import UnsayError
from unsay.events.transcript_replay import Replayed, replay
from unsay.history.branch import list_stored_branches
from unsay.hosts.entry import HostGraph
from unsay.hosts.time_travel import place_of
from unsay.memory.offload import load_segments
from unsay.messages.annotations import spoken
from unsay.messages.content import text_of
from unsay.moves.restore import restore
from unsay.state import offloaded_of, with_update
from unsay.storage.base import Database
from unsay.storage.event_log import read_events
from unsay.storage.items import Kind, thread_namespace
from unsay.storage.pages import RECENT
from unsay.storage.segments import read_back
from unsay.types import Checkpoint, Event

Source = Conversation | HostGraph
"""Of a thread; with a graph the id is an argument of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedBranch:
    """Messages that left the transcript, or drafts that were never in it."""

    id: str
    kind: str
    base: str | None
    reason: str
    messages: Sequence[AnyMessage]
    drafts: Sequence[AnyMessage]

    @property
    def size(self) -> int:
        """The number of its messages and drafts, without commands and notices."""
        messages = [] if self.kind == "order" else spoken(self.messages)
        return len(messages) + len(self.drafts)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRun:
    """Messages of the transcript with one topic, from the first one of them on."""

    topic_id: str
    label: str
    start: str


def said(messages: Iterable[AnyMessage]) -> list[str]:
    """A transcript as `role: words`."""
    return [f"{message.type}: {text_of(message)}" for message in messages]


def transcript(source: Source, thread: str = "t") -> list[str]:
    """A transcript as `role: words`; that of a graph without offloaded messages."""
    if isinstance(source, Conversation):
        return said(source.messages())
    return said(state_of(source, thread)["messages"])


def questions(conversation: Conversation) -> list[str]:
    """The questions of a transcript."""
    return [text_of(m) for m in conversation.messages() if m.type == "human"]


def messages(source: Source, thread: str = "t") -> list[AnyMessage]:
    """A whole transcript, offloaded messages included."""
    if isinstance(source, Conversation):
        return source.messages()
    values: Any = state_of(source, thread)
    live = values.get("messages", [])
    if source.store is None:
        return list(live)
    pages = drive(read_back(source.store, thread, offloaded_of(values), None))
    return [*(message for page in reversed(pages) for message in page.messages), *live]


def state_of(source: Source, thread: str = "t") -> dict[str, Any]:
    """The values of a thread's newest state."""
    if isinstance(source, Conversation):
        return state_of(source.graph, source.thread_id)
    return dict(source.get_state(config(thread)).values)


def checkpoints(source: Source, thread: str = "t") -> list[Checkpoint]:
    """The checkpoints of a transcript as a host sees them, oldest first."""
    return list(state_of(source, thread).get("checkpoints", []))


def topics(source: Source, thread: str = "t") -> list[TopicRun]:
    """The topics of the messages in the state, oldest first."""
    return topic_runs(state_of(source, thread))


def topic_runs(values: Mapping[str, Any]) -> list[TopicRun]:
    """The topics of the messages in the values of a state, oldest first."""
    labels = {topic["id"]: topic["label"] for topic in values.get("topics", [])}
    return [
        TopicRun(
            topic_id=segment["topic_id"],
            label=labels[segment["topic_id"]],
            start=segment["start"],
        )
        for segment in values.get("segments", [])
    ]


def offloaded_messages(source: Source, thread: str = "t") -> int:
    """The number of messages of the transcript that the store has instead of the state."""
    return _offloaded(source, thread).get("messages", 0)


def offloaded_turns(source: Source, thread: str = "t") -> int:
    """The number of turns of which the store has the messages."""
    return _offloaded(source, thread).get("turns", 0)


def newest_offloaded_page(source: Source, thread: str = "t") -> str:
    """The id of the newest stored page of offloaded messages."""
    return str(_offloaded(source, thread)["page_id"])


def _offloaded(source: Source, thread: str) -> Mapping[str, Any]:
    return state_of(source, thread).get("offloaded") or {}


def expanded_topics(source: Source, thread: str = "t") -> list[Mapping[str, Any]]:
    """The earlier topics that contexts include again."""
    return list(state_of(source, thread).get("expanded", []))


def undo_steps(source: Source, thread: str = "t") -> list[Mapping[str, Any]]:
    """The steps in memory that undo can reverse, newest last; each has its `kind` and `base`."""
    return list(state_of(source, thread).get("operations", []))


def redo_steps(source: Source, thread: str = "t") -> list[Mapping[str, Any]]:
    """The undone steps, newest last."""
    return list(state_of(source, thread).get("redo", []))


def undo_depth(source: Source, thread: str = "t") -> int:
    """The number of steps in memory that undo can reverse."""
    return len(undo_steps(source, thread))


def redo_depth(source: Source, thread: str = "t") -> int:
    """The number of undone steps."""
    return len(redo_steps(source, thread))


def branches(source: Source, thread: str = "t") -> list[RemovedBranch]:
    """All branches of which the thread has the messages, oldest first."""
    if isinstance(source, Conversation):
        return branches(source.graph, source.thread_id)
    if source.store is None:
        return [_branch(ref["body"]) for ref in _references(state_of(source, thread))]
    return list(map(_branch, drive(list_stored_branches(source.store, thread))))


def listed_branches(source: Source, thread: str = "t") -> list[RemovedBranch]:
    """The branches that the state lists, in its order; each must be one of `branches`."""
    if isinstance(source, Conversation):
        return listed_branches(source.graph, source.thread_id)
    by_id = {branch.id: branch for branch in branches(source, thread)}
    return [by_id[branch_id] for branch_id in listed_ids(state_of(source, thread))]


def listed_ids(values: Mapping[str, Any]) -> list[str]:
    """The ids of the branches that the values of a state list."""
    return [ref["id"] for ref in _references(values)]


def listed_kinds(values: Mapping[str, Any]) -> list[str]:
    """The kinds of the branches that the values of a state list."""
    return [ref["kind"] for ref in _references(values)]


def branches_in(stored: Iterable[Mapping[str, Any]], thread: str) -> list[RemovedBranch]:
    """The branches of a thread whose items a server returned: those of branches and event log."""
    store = InMemoryStore()
    for item in stored:
        store.put(tuple(item["namespace"]), item["key"], item["value"])
    return list(map(_branch, drive(list_stored_branches(store, thread))))


def _references(values: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return list(values.get("branches", []))


def _branch(body: Mapping[str, Any]) -> RemovedBranch:
    return RemovedBranch(**{field.name: body[field.name] for field in fields(RemovedBranch)})


def messages_with_branch(graph: HostGraph, branch_id: str, thread: str = "t") -> list[AnyMessage]:
    """The messages that the state would have after a restore of a branch; nothing is stored."""
    values: Any = state_of(graph, thread)
    place = place_of(graph, graph.services, config(thread))
    assert place is not None
    if graph.store is None:
        bodies = [ref["body"] for ref in _references(values) if ref["id"] == branch_id]
    else:
        bodies = drive(list_stored_branches(graph.store, thread))
        values = with_update(values, drive(load_segments(values, place.scope(), {None})))
    update = drive(restore(values, place.scope(), branch_id, bodies))
    return with_update(values, update)["messages"]


def calls_to_undo(source: Source, thread: str = "t") -> list[Mapping[str, Any]]:
    """The tool calls that the next run undoes."""
    return list(state_of(source, thread).get("pending_compensations", []))


def branch_of(conversation: Conversation, kind: str) -> str:
    """The id of the newest branch of a kind."""
    return next(branch.id for branch in conversation.branches() if branch.kind == kind)


def events(source: Source, thread: str = "t") -> list[Event]:
    """The events of a thread, oldest first."""
    if isinstance(source, Conversation):
        registry = Registry(database_of(source), settings=handle_of(source).services.settings)
        return registry.events(source.thread_id)
    return events_of(state_of(source, thread), source.store, thread)


def events_of(values: Mapping[str, Any], store: BaseStore | None, thread: str = "t") -> list[Event]:
    """The events up to the state with these values, oldest first."""
    assert store is not None
    head = values["event_log"]
    return drive(read_events(store, thread, head))


def replayed(source: Source | Iterable[Event], thread: str = "t", **options: Any) -> Replayed:
    """The transcript and branches that events lead to: those given, or those of a thread."""
    if isinstance(source, Conversation | HostGraph):
        source = events(source, thread)
    return replay(source, **options)


def damage(conversation: Conversation) -> dict[str, type[UnsayError]]:
    """The kind of error of each public reading that is refused in a new process, by the reading's name."""
    RECENT.clear()
    readings: dict[str, Callable[[], object]] = {
        "messages": conversation.messages,
        "branches": conversation.branches,
        "checkpoints": conversation.checkpoints,
        "timeline": conversation.timeline,
        "events": lambda: events(conversation),
    }
    errors: dict[str, type[UnsayError]] = {}
    for name, read in readings.items():
        try:
            read()
        except UnsayError as error:
            errors[name] = type(error)
    return errors


Stored = Literal[
    "branches",
    "compensations",
    "events",
    "offloaded messages",
    "places of turns",
    "tool steps",
    "undo steps",
    "unsaved question",
]
"""What a store keeps of a thread."""

_KINDS: dict[Stored, Kind] = {
    "branches": "branches",
    "compensations": "compensations",
    "events": "event_log",
    "offloaded messages": "offloaded",
    "places of turns": "turns",
    "tool steps": "tool_steps",
    "undo steps": "steps",
    "unsaved question": "stopped",
}


def namespace_of(what: Stored, thread: str = "t") -> tuple[str, ...]:
    """The namespace in which a store keeps what it has of a thread."""
    return thread_namespace(_KINDS[what], thread)


def stored_items(store: BaseStore | None, what: Stored, thread: str = "t") -> list[SearchItem]:
    """The items that a store keeps of a thread."""
    assert store is not None
    return store.search(namespace_of(what, thread), limit=1_000)


def handle_of(conversation: OpenedThread) -> ThreadHandle:
    """What the verbs of a conversation work on."""
    return conversation._handle


def database_of(conversation: OpenedThread) -> Database:
    """The database of a conversation."""
    return handle_of(conversation).database


def model_of(conversation: Conversation) -> Any:
    """The model that a conversation was opened with."""
    return handle_of(conversation).services.model_like


def detector_of(conversation: Conversation) -> Any:
    """The detector of topics that a conversation was opened with."""
    return handle_of(conversation).services.detector


def in_thread(conversation: Conversation, thread: str) -> Conversation:
    """Another thread of the same database, with the same models."""
    return Conversation._of(replace(handle_of(conversation), thread_id=thread))


def settle(conversation: Conversation) -> None:
    """Commit what a crash left, as every verb does that may write."""
    handle = handle_of(conversation)
    drive(handle.alone(handle.snapshot()))
