"""What a thread keeps beside its transcript: events, runs, usage, labels."""

from collections.abc import Mapping

from langchain_core.messages import ToolMessage
from langgraph.store.base import BaseStore

from unsay.context.manifest import Key, key_of
from unsay.conversation.thread import ThreadHandle, checked_id, locked
from unsay.effects import Steps
from unsay.errors import InputError, UnknownToolResultError
from unsay.events.event_types import Stamp, make_event, planner_note
from unsay.events.transcript_replay import replay as rebuilt
from unsay.history import threads
from unsay.history.branch import list_stored_branches
from unsay.history.threads import ThreadInfo, find_session, purge_items, purge_thread
from unsay.messages.content import text_of
from unsay.results.usage import Usage, status_of, usage_of
from unsay.settings.settings import load_settings
from unsay.state import State, Update
from unsay.storage.base import Database, Purged
from unsay.storage.event_log import append, read_events
from unsay.storage.pagination import check_labels
from unsay.transcript.live import with_step
from unsay.transcript.record import EMPTY, unlogged_events
from unsay.transcript.undo import label_step
from unsay.types import Event


def events(thread: ThreadHandle) -> Steps[list[Event]]:
    """Return the event log: everything that happened in the thread, oldest first, verified."""
    state = yield from thread.known()
    stored_events = yield from read_events(*thread.address, state.get("event_log", EMPTY))
    return [*stored_events, *unlogged_events(state, thread.scope())]


def note(
    thread: ThreadHandle,
    text: str,
    *,
    event_id: str | None = None,
    labels: Mapping[str, str] | None = None,
) -> Steps[bool]:
    """Add a remark of the host to the event log; it is never sent to a model."""
    if not text.strip():
        raise InputError("The note is empty; write something to find later")
    if event_id is not None:
        checked_id(event_id, "note")
    labels = check_labels(labels)
    state = yield from thread.settled()
    head = state.get("event_log", EMPTY)
    # With its own id a note must be the same event in a later turn, so it names none.
    turn = state.get("turn") if event_id is None else None
    stamp = Stamp(
        thread_id=thread.thread_id,
        at=thread.scope().now(),
        turn_id=turn["question_id"] if turn else None,
        labels=labels,
        after=head["count"],
    )
    event = make_event(*planner_note(text), stamp=stamp, event_id=event_id)
    appended = yield from append(*thread.address, head, event)
    if appended.inserted:
        yield from thread.commit(Update(event_log={**head, **appended.head}))
    return appended.inserted


def end(thread: ThreadHandle) -> Steps[ThreadInfo]:
    """End the thread for good, and return its entry: it takes no new messages, and no run starts."""
    yield from thread.settled()
    return (yield from threads.end(*thread.address, now=thread.scope().now()))


def label(thread: ThreadHandle, /, **labels: str | None) -> Steps[ThreadInfo]:
    """Set labels of the thread, to find it by, and return its entry; `None` removes a label."""
    session = yield from find_session(*thread.address)
    step = label_step({} if session is None else session.labels, labels)
    snapshot = yield from thread.snapshot()
    state: State = snapshot.values  # type: ignore[assignment]
    check_labels({name: value for name, value in labels.items() if value is not None})
    scope = thread.scope()
    # A user's /undo would otherwise remove a host's label instead of the last turn. And a commit would
    # end a stopped turn, which undo removes first anyway.
    if step is not None and not snapshot.next and scope.settings.commands == "all":
        state = state or State(messages=[])
        yield from thread.write(state, scope, with_step(state, step))
    return (yield from threads.label(*thread.address, labels, now=thread.scope().now()))


def purge_in(place: Database | BaseStore, /, thread_id: str) -> Steps[Purged]:
    """Delete everything that unsay stored for a thread, and return how many rows, by kind."""
    if isinstance(place, BaseStore):
        return (yield from purge_items(place, thread_id))
    steps = purge_thread(place, thread_id)
    return (yield from locked(place, thread_id, load_settings(), steps))


def tool_result(thread: ThreadHandle, tool_call_id: str) -> Steps[str]:
    """Return the whole text of a tool's result, also if contexts show it cut or not at all."""
    state = yield from thread.whole()
    for message in reversed(state["messages"]):
        if isinstance(message, ToolMessage) and message.tool_call_id == tool_call_id:
            return text_of(message)
    raise UnknownToolResultError(
        f"No tool result in this thread has the tool_call_id {tool_call_id!r}: take an id from the "
        "messages of the transcript"
    )


def tokens(thread: ThreadHandle, *, spent: bool = True) -> Steps[Usage]:
    """Return how the context window is used, the tokens and cost of each purpose, and the budgets."""
    if not spent:
        known: State = (yield from thread.snapshot()).values  # type: ignore[assignment]
        return (yield from status_of(known, thread.scope()))
    # Transcript and branches are added up on request: a total in the state would need a list of all
    # messages that it includes, which grows without bound. What a fork began with was paid for in
    # the thread that it came from.
    state, scope = (yield from thread.whole()), thread.scope()
    inherited: set[Key] = set()
    entry = yield from find_session(*thread.address)
    if entry is not None and entry.forked_from is not None:
        stored_events = yield from read_events(*thread.address, state.get("event_log", EMPTY))
        inherited = {key_of(m) for m in rebuilt(stored_events[:1]).messages}
    branches = yield from list_stored_branches(*thread.address)
    own = [m for m in state["messages"] if key_of(m) not in inherited]
    removed = [m for branch in branches for m in (*branch["messages"], *branch["drafts"])]
    removed = [m for m in removed if key_of(m) not in inherited]
    return (yield from usage_of(state, scope, own, removed))
