"""What a thread keeps, to list and read: checkpoints, pins, ratings, events, runs, usage, labels."""

from collections.abc import Iterable, Mapping
from typing import Any

from langchain_core.messages import AnyMessage, ToolMessage
from langgraph.store.base import BaseStore

from unsay.context.manifest import Key, key_of, tokens_of
from unsay.conversation.thread import ThreadHandle, checked_id, locked
from unsay.effects import Steps
from unsay.errors import InputError, UnknownToolResultError
from unsay.events.event_types import Stamp, make_event, planner_note
from unsay.events.transcript_replay import replay as rebuilt
from unsay.generation.judge import exchange_of
from unsay.history import threads
from unsay.history.branch import Label, list_stored_branches, replace_tail
from unsay.history.checkpoints import find_checkpoint
from unsay.history.threads import ThreadInfo, find_session, purge_items, purge_thread
from unsay.memory.lessons import Lesson, lessons_in, rating_of
from unsay.messages import annotations
from unsay.messages.content import calls_of, language_of, text_of
from unsay.moves.compensate import compensations_of
from unsay.protocols import Exchange
from unsay.results.results import Checkpoint, Preview, Rows
from unsay.results.usage import Usage, status_of, usage_of
from unsay.settings.settings import load_settings
from unsay.state import State, Update
from unsay.storage.base import Database, Purged
from unsay.storage.event_log import append, read_events
from unsay.storage.pagination import check_labels
from unsay.transcript.live import live_branch, place_name, target_of, with_step
from unsay.transcript.record import EMPTY, unlogged_events
from unsay.transcript.undo import label_step
from unsay.types import Event, Forgotten, Pin


def events(thread: ThreadHandle) -> Steps[list[Event]]:
    """Return the event log: everything that happened in the thread, oldest first, verified."""
    state = yield from thread.load_state()
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
    state = yield from thread.load_settled_state()
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
    yield from thread.load_settled_state()
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
    state = yield from thread.load_whole_state()
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
    state, scope = (yield from thread.load_whole_state()), thread.scope()
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


def checkpoints(
    thread: ThreadHandle, *, limit: int | None = None, start_after: str | None = None
) -> Steps[tuple[Checkpoint, ...]]:
    """List the checkpoints of the current branch, oldest first."""
    if limit is not None and limit < 0:
        raise InputError(f"limit={limit!r}: write 0 or more, or none for all")
    all_checkpoints = (yield from thread.load_state()).get("checkpoints", [])
    start = 0
    if start_after is not None:
        start = all_checkpoints.index(find_checkpoint(all_checkpoints, start_after)) + 1
    chosen = all_checkpoints[start:] if limit is None else all_checkpoints[start : start + limit]
    return Rows(map(Checkpoint.of, chosen))


def preview(
    thread: ThreadHandle, to: str | None = None, *, turns: int | None = None
) -> Steps[Preview]:
    """Return what `rollback` with the same arguments would remove; nothing is written."""
    state = yield from thread.load_whole_state()
    live = live_branch(state)
    base = target_of(live, to, turns)
    label = Label(kind="person", reason="preview", created_at="")
    change = replace_tail(live, base, label=label)
    removed = change.branch["messages"]
    messages = annotations.spoken(removed)
    return Preview(
        at=place_name(state, base, thread.scope().texts(state["messages"])).strip(),
        turns=len(annotations.answered_turns(removed)),
        questions=tuple(text_of(m) for m in messages if annotations.is_question(m)),
        message_ids=tuple(m.id or "" for m in messages),
        checkpoints=tuple(map(Checkpoint.of, change.branch["checkpoints"])),
        tool_calls=tuple(call.name for m in messages for call in calls_of(m)),
        compensations=tuple(compensations_of(change, thread.services)),
        tokens=tokens_of(removed),
    )


def pins(thread: ThreadHandle) -> Steps[tuple[Pin, ...]]:
    """List the pins, oldest first."""
    return Rows((yield from thread.load_state()).get("pins", []))


def forgotten(thread: ThreadHandle) -> Steps[tuple[Forgotten, ...]]:
    """List what is forgotten, oldest first; `restore` takes the `id` of an entry."""
    return Rows((yield from thread.load_state()).get("forgotten", []))


def ratings(thread: ThreadHandle) -> Steps[tuple[Mapping[str, Any], ...]]:
    """Return the rated turns as plain JSON, oldest first: the lines that `unsay calibrate` reads."""
    state = yield from thread.load_whole_state()
    rows = []
    for number, question, answer, exchange in exchanges(state):
        rating = rating_of(answer)
        if rating is not None:
            rows.append(
                {
                    "thread": thread.thread_id,
                    "turn": number,
                    "message_id": answer.id,
                    "lang": language_of(question or text_of(answer)),
                    "question": question,
                    "answer": exchange.answer,
                    "earlier": [list(pair) for pair in exchange.earlier],
                    "label": rating["label"],
                    "note": rating["note"],
                    "score": annotations.annotation_of(answer).get("score"),
                    "source": annotations.annotation_of(answer).get("source"),
                }
            )
    return Rows(rows)


def lessons(thread: ThreadHandle) -> Steps[tuple[Lesson, ...]]:
    """List why drafts were rejected, oldest first; later turns on the same topic are sent this."""
    return Rows(lessons_in((yield from thread.load_state())["messages"]))


Answered = tuple[int, str, AnyMessage, Exchange]


def exchanges(state: State) -> Iterable[Answered]:
    """Yield each answered turn: its number, question (maybe empty), answer, and what a judge is sent."""
    messages = annotations.in_turns(state["messages"])
    places = {message.id: place for place, message in enumerate(messages)}
    start = 0
    for number, answers in enumerate(annotations.answers_by_turn(messages), 1):
        answer = annotations.answer_of_turn(answers)
        steps = messages[start : places[answer.id]]
        question = next((m for m in reversed(steps) if annotations.is_question(m)), None)
        tools = [m for m in steps if isinstance(m, ToolMessage) or m.type == "ai"]
        exchange = exchange_of(question, answer, messages[:start], tools)
        yield number, exchange.question, answer, exchange
        start = places[answers[-1].id] + 1
