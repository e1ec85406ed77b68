"""Begin a turn: with a new message, where it stopped, or with the reply that is stored."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.constants import START
from langgraph.types import Command, StateSnapshot, StateUpdate

from unsay.conversation.slash_commands import (
    answer_command,
    clear_command,
    known_notice,
    used_for_another,
)
from unsay.conversation.thread import ThreadHandle, checked_id
from unsay.decisions import refuse_undecided
from unsay.effects import Call, Steps
from unsay.errors import ConflictError, InputError, NothingToResumeError
from unsay.history.branch import answers_in, branches_namespace, find_place, read_branches
from unsay.history.runs import find_run, run_named_after
from unsay.history.threads import (
    TITLE_CHARS,
    find_session,
    load_pending_input,
    refuse_ended,
    revise,
)
from unsay.history.unsaved_answers import UNSAVED, UnsavedAnswer, with_answer
from unsay.hosts.entry import Trusted
from unsay.hosts.time_travel import drop_failed_decision
from unsay.judging.verdict import unscored
from unsay.messages.annotations import (
    DOCUMENT,
    annotation_of,
    is_answer,
    is_notice,
    is_question,
    spoken,
)
from unsay.messages.content import preview, question_content, text_of
from unsay.moves.restore import BRANCH_PREFIX
from unsay.orders.order import Edit, Retry
from unsay.orders.parse import command_of, parse_command
from unsay.results.results import Reply, reply_of, reply_to
from unsay.state import Update, offloaded_of
from unsay.storage.items import freeze_messages, get_item
from unsay.storage.segments import read_back
from unsay.transcript.pending import check_blocks, check_message, commands_answered, find_pending
from unsay.turn.runs import resume_run
from unsay.types import Checkpoint


def check_decision(decision: Any) -> None:
    """Raise `InputError` if a decision is a mapping with a key that is not text."""
    # LangGraph searches such keys for the ids of interrupts.
    if isinstance(decision, Mapping) and not all(isinstance(key, str) for key in decision):
        raise InputError(f"resume: the keys of the decision must be text, got {decision!r}")


def decision_input(
    thread: ThreadHandle, snapshot: StateSnapshot, decision: Any
) -> Steps[Command[Any]]:
    """Return the graph's input that continues a waiting turn with a decision.

    If several calls ask at once, the decision answers the first, which the reply has shown, or by
    its keys those with these ids.

    Raises `NothingToResumeError` if the thread waits for none.
    """
    if not snapshot.interrupts:
        raise NothingToResumeError(code="no_decision_waits")
    yield from drop_failed_decision(thread.database.saver, snapshot)
    ids = [each.id for each in snapshot.interrupts]
    by_id = isinstance(decision, Mapping) and decision and decision.keys() <= set(ids)
    return Command(resume=decision if len(ids) == 1 or by_id else {ids[0]: decision})


Place = tuple[str, Sequence[AnyMessage], Sequence[Checkpoint]]
"""A message's id, the messages among which it is, and their checkpoints."""


def find_turn(thread: ThreadHandle, state: Mapping[str, Any], turn_id: str) -> Steps[Place | None]:
    """Find a turn's message in the transcript, a branch or an offloaded segment.

    The result is its id, the messages around it and their checkpoints; `None` if nothing is stored of it.
    For a `/retry` command it is the place of the question under its new id. Raises
    `DatabaseCorruptError` if the branch or segment is damaged.
    """
    transcript: Sequence[AnyMessage] = state.get("messages", ())
    name: str | None = turn_id
    while name is not None and not name.startswith(BRANCH_PREFIX):
        if any(each.id == name for each in transcript):
            return name, transcript, state.get("checkpoints", ())
        turn_id, name = name, (yield from find_place(*thread.address, name))
    if name is None:
        return (yield from _find_offloaded(thread, state, turn_id))
    item = yield from get_item(thread.store, branches_namespace(thread.thread_id), name)
    if item is None:
        return None
    (branch,) = yield from read_branches(*thread.address, [item.value])
    return turn_id, branch["messages"], branch["checkpoints"]


def _find_offloaded(
    thread: ThreadHandle, state: Mapping[str, Any], turn_id: str
) -> Steps[Place | None]:
    """Return the place of a turn's message in the offloaded segments; `None` if it is not there.

    Raises `DatabaseCorruptError` if a segment is missing or damaged.
    """
    head, run_id = offloaded_of(state), run_named_after(thread.thread_id, turn_id)
    # Reading segments is expensive, and none has a turn without a run.
    if head is None or (yield from find_run(*thread.address, run_id)) is None:
        return None
    pages = yield from read_back(*thread.address, head, {turn_id})
    messages = [message for page in reversed(pages) for message in page.messages]
    if all(each.id != turn_id for each in messages):
        return None
    return turn_id, messages, state.get("checkpoints", ())


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """What is stored of a turn whose id is sent again.

    `name` is the id of the message that is answered: the turn's id, or after `/retry` the new id of
    the question. `reply` is `None` if the turn has not ended, or nothing is stored.
    """

    name: str
    reply: Reply | None = None


def open_turn(
    thread: ThreadHandle,
    text: str,
    documents: Sequence[str] = (),
    turn_id: str | None = None,
    answer: str | None = None,
    images: Sequence[str] = (),
) -> Steps[Reply | dict[str, Any] | None]:
    """Begin a turn so that a message is answered once: return its reply, or else the graph's input.

    The reply is that of a slash command, which is carried out here, or the stored one of a turn
    that has ended. The input is `None` to resume a turn that stopped before its message was
    answered; a new message is stored first. `say` and `stream` call this with the thread's lock
    held. Raises `InputError` for a message that cannot be answered, `ConflictError` if the thread
    waits for a decision or was ended, or its id was used for another message, `StorageError` if the
    database failed or what is stored under the id is damaged.
    """
    content = question_content(text, images)
    message = HumanMessage(content, id=checked_id(turn_id, "turn", ", such as a UUID"))
    check_message(message)
    check_blocks([message], thread.services)
    if answer is not None and (turn_id is None or not answer.strip()):
        raise InputError(
            f"answer={preview(answer)!r} needs the turn_id of the message that it answers, and a text: that "
            "of the error's attribute `answer`"
        )
    if turn_id is not None and parse_command(text) is not None:
        # A command that ran before must not run again. It is looked up without writes: a command
        # that only shows something leaves a stopped turn as it is.
        reader = replace(thread, writes=False)
        command_turn = yield from _stored_turn(reader, (yield from reader.snapshot()), message)
        if command_turn.reply is not None:
            return command_turn.reply
    notice = yield from answer_command(thread, message, once=turn_id is not None)
    if notice is not None:
        return notice
    # No id to look up and nothing stopped: the transcript need not be loaded.
    if turn_id is None and (yield from is_at_rest(thread)):
        return (yield from _store_input(thread, message, documents))
    snapshot = yield from thread.snapshot()
    stored_turn = None if turn_id is None else (yield from _stored_turn(thread, snapshot, message))
    if answer is not None:
        _hand_back(thread, (stored_turn and stored_turn.name) or message.id or "", text, answer)
    if (yield from _resume_stopped(thread, snapshot, text, stored_turn)):
        return None
    if stored_turn is not None and stored_turn.reply is not None:
        return stored_turn.reply
    refuse_undecided(snapshot)
    if stored_turn is not None:
        _refuse_passed(snapshot.values, stored_turn.name)
    return (yield from _store_input(thread, message, documents))


def _refuse_passed(state: Mapping[str, Any], question_id: str) -> None:
    """Raise `ConflictError` if the question got no answer of its own and other messages follow it."""
    messages = state.get("messages", [])
    waiting = messages[find_pending(messages, state.get("turn")).start :]
    if question_id in {m.id for m in messages} - {m.id for m in waiting}:
        raise ConflictError(code="turn_unanswered", turn_id=question_id)


def _hand_back(thread: ThreadHandle, question_id: str, question: str, answer: str) -> None:
    """Keep the `answer` of a caller in memory, so that its turn saves it and calls no model.

    If this process still has the same answer with its verdict, it uses what it has instead.
    """
    unsaved_answer = UNSAVED.find(
        UnsavedAnswer, thread.store, thread.thread_id, question_id, question
    )
    if unsaved_answer is None or text_of(unsaved_answer.draft[-1]) != answer:
        draft = (AIMessage(answer, id=str(uuid4())),)
        verdict = unscored("the answer could not be saved, and was handed back")
        unsaved_answer = UnsavedAnswer(question=question, draft=draft, verdict=verdict)
    UNSAVED.keep(thread.store, thread.thread_id, question_id, unsaved_answer, is_of_run=False)


def _resume_stopped(
    thread: ThreadHandle, snapshot: StateSnapshot, text: str | None, stored: Stored | None
) -> Steps[bool]:
    """Return whether a message resumes a stopped turn; the caller then runs the graph.

    If so, the turn's run is stored as running again. `text` is the message's text; `None` fits any
    question. `stored` is what the message's id names, `None` without an id; with an id, the text is
    not compared.
    """
    waits = resumes_turn(snapshot, text, stored)
    if waits and not snapshot.next:
        start: Any = Trusted({})
        yield from thread.commit(Update(), StateUpdate(start, START))
    # The first node counts the attempt itself.
    at_start = not snapshot.next or "evaluate_quality" in snapshot.next
    if waits and is_turn_open(snapshot.values) and not at_start:
        yield from resume_run(thread.scope(run_id=snapshot.values["turn"].get("run_id")))
    return waits


def _store_input(
    thread: ThreadHandle, message: AnyMessage, documents: Sequence[str]
) -> Steps[dict[str, Any]]:
    """Store a message and its documents as pending input, and return the graph's input.

    A new thread is listed from now on. Raises `SessionEndedError` if the thread was ended,
    `DatabaseCorruptError` if its entry is damaged.
    """
    # Pending input is stored before the graph is run, and gives a new thread its title, so that it
    # is listed even if its first turn never ends.
    retrieved = [HumanMessage(each, name=DOCUMENT, id=str(uuid4())) for each in documents]
    messages: list[AnyMessage] = [*retrieved, message]
    session = yield from find_session(*thread.address)
    refuse_ended(session)
    is_command = command_of([message], message, thread.scope().settings) is not None
    words = "" if is_command else preview(text_of(message), TITLE_CHARS)
    title = (session and session.title) or words
    pending_input = freeze_messages(messages)
    yield from revise(
        *thread.address, now=thread.scope().now(), title=title, pending_input=pending_input
    )
    return {"messages": messages}


def is_at_rest(thread: ThreadHandle) -> Steps[bool]:
    """Return whether the thread's last turn ended and nothing followed; `False` if uncertain.

    The transcript is not loaded for this. If it is at rest, no stopped turn can fit a new message.
    """
    saver = thread.database.saver
    saved = yield from Call.of(saver.get_tuple, saver.aget_tuple, thread.config)
    # The source of an update by a host or a verb is not "loop".
    if saved is None or saved.pending_writes or saved.metadata.get("source") != "loop":
        return False
    values = saved.checkpoint["channel_values"]
    turn = values.get("turn")
    due = values.get("pending_compensations") or values.get("should_rollback")
    if due or turn is None or not turn["done"] or turn["checkpoints_due"]:
        return False
    return not (yield from load_pending_input(*thread.address))


def is_turn_open(state: Mapping[str, Any]) -> bool:
    """Return whether the last turn has not ended and its question, the newest, has no answer yet.

    Commands that a notice has answered are skipped; without a question it is `False`.
    """
    turn, messages = state.get("turn"), state.get("messages", [])
    newest = next((m for m in reversed(spoken(messages)) if is_question(m) or is_answer(m)), None)
    if newest is None or turn is None or turn["done"]:
        return False
    return is_question(newest) and newest.id == turn["question_id"]


def resumes_turn(snapshot: StateSnapshot, text: str | None, stored: Stored | None) -> bool:
    """Return whether a message would resume a stopped turn; nothing is changed.

    It does if it has the id of the turn's question (`stored`), or has no id and the question's
    text. A `text` of `None` fits every question. `False` if no turn was stopped, or a decision is
    pending.
    """
    messages: Sequence[AnyMessage] = snapshot.values.get("messages", [])
    turn = snapshot.values.get("turn")
    # A command that a host's page sent ended a run, and left the stopped turn open.
    behind = bool(messages) and commands_answered(messages, len(messages) - 1)
    beside = bool(behind) and is_turn_open(snapshot.values)
    if snapshot.interrupts or not (snapshot.next or beside):
        return False
    question = next((m for m in reversed(messages) if is_question(m)), None)
    if beside or "evaluate_quality" in snapshot.next:
        # That node opens another turn, for what no answer or notice follows.
        question = find_pending(messages, turn).question
        if question is None:
            return text is None and bool(snapshot.values.get("should_rollback"))
    elif turn and turn["done"]:
        # Only its checkpoint is missing, unless a host wrote something behind its answer.
        if not messages or answers_in(messages).get(turn["question_id"]) is not messages[-1]:
            return False
    elif messages and is_answer(messages[-1]):
        return False  # a host wrote an answer behind the question of the stopped turn
    if stored is not None:
        return question is not None and question.id == stored.name
    return text is None or text == ("" if question is None else text_of(question))


def say(
    thread: ThreadHandle,
    text: str,
    *,
    documents: Sequence[str] = (),
    images: Sequence[str] = (),
    turn_id: str | None = None,
    answer: str | None = None,
) -> Steps[Reply]:
    """Answer a message: judge each draft, and roll back those that fail."""
    turn_input = yield from open_turn(thread, text, documents, turn_id, answer, images)
    if isinstance(turn_input, Reply):
        return turn_input
    return (yield from run_turn(thread, turn_input, turn_id))


def retry(thread: ThreadHandle) -> Steps[Reply]:
    """Answer the last question again; `undo` restores the old answer."""
    state = yield from thread.load_state()
    snapshot = yield from thread.snapshot()
    if snapshot.next:
        return (yield from resume(thread))
    if find_pending(state["messages"], state.get("turn")).question is not None:
        return (yield from run_turn(thread, {"messages": []}))
    # For its errors: nothing is stored if one is raised.
    yield from thread.carry_out(Retry(), preview=True)
    # As a command, so that the graph removes the question and asks it again in one run.
    return (yield from say(thread, "/retry"))


def edit(thread: ThreadHandle, turn: int, text: str) -> Steps[Reply]:
    """Replace the question of an earlier turn, answer it, and remove all later turns."""
    # For its errors: nothing is stored if one is raised.
    yield from thread.carry_out(Edit(turn=turn, text=text), preview=True)
    return (yield from say(thread, f"/edit {turn} {text}"))


def resume(thread: ThreadHandle, decision: Any = None) -> Steps[Reply]:
    """Resume a turn that an error, a crash or a pending decision stopped, and return its reply."""
    return (yield from run_turn(thread, (yield from open_resumed(thread, decision))))


def open_stream(
    thread: ThreadHandle, text: str | None, decision: Any, *given: Any
) -> Steps[Reply | Command[Any] | dict[str, Any] | None]:
    """Begin a turn as `open_turn` does, or without a text a resumed one; a decision needs no text."""
    if text is None:
        return (yield from open_resumed(thread, decision))
    if decision is not None:
        raise InputError("stream: a decision resumes a turn, so it goes without a text")
    return (yield from open_turn(thread, text, *given))


def open_resumed(thread: ThreadHandle, decision: Any = None) -> Steps[Command[Any] | None]:
    """Begin a resumed turn: return the graph's input, which is a decision or `None`.

    It is called with the thread's lock held. Raises `NothingToResumeError` if no turn was stopped, or
    a decision is given and none is awaited; `ConflictError` if a decision is missing; `InputError`
    if a key of the decision is not text.
    """
    check_decision(decision)
    snapshot = yield from thread.snapshot()
    if decision is not None:
        return (yield from decision_input(thread, snapshot, decision))
    if not (yield from _resume_stopped(thread, snapshot, None, None)):
        refuse_undecided(snapshot)
        raise NothingToResumeError(code="nothing_stopped")
    return None


def run_turn(thread: ThreadHandle, value: Any, turn_id: str | None = None) -> Steps[Reply]:
    """Run the graph on an input until its turn ends or waits for a person; return the reply.

    The thread's entry in the list of threads is updated. `value` is a state, a LangGraph
    command, or `None` to resume. `turn_id` is the id that the caller gave to the message; `None`
    if it gave none. Errors of the run, such as `ModelError`, are raised.
    """
    graph: Any = thread.graph
    options = {**thread.run_options(), "output_keys": thread.graph.stream_channels_list}
    run = Call.of(graph.invoke, graph.ainvoke, Trusted(value), thread.config, **options)
    state = yield from run
    return (yield from _ended_turn(thread, state, tuple(state.get("__interrupt__", ())), turn_id))


def close_turn(thread: ThreadHandle, turn_id: str | None = None) -> Steps[Reply]:
    """List the thread after a stream ended its turn, and return the reply of the turn.

    `turn_id` is the id that the caller gave to the message; `None` if it gave none.
    """
    snapshot = yield from thread.snapshot()
    return (yield from _ended_turn(thread, snapshot.values, snapshot.interrupts, turn_id))


def _ended_turn(
    thread: ThreadHandle, state: Mapping[str, Any], interrupts: tuple[Any, ...], turn_id: str | None
) -> Steps[Reply]:
    reply = reply_of(state, interrupts)
    try:
        yield from thread.list_thread(state)
    except Exception as error:  # of any database
        if reply.kind == "answer":
            with_answer(error, reply.text)
        raise
    if not interrupts:
        reply = yield from clear_command(thread, state, reply)
    return replace(reply, turn_id=turn_id or reply.turn_id)


def _stored_turn(
    thread: ThreadHandle, snapshot: StateSnapshot, message: AnyMessage
) -> Steps[Stored]:
    """Return what is stored of the turn with a message's id.

    Its `reply` is `None` if nothing is stored, or the turn has no answer of its own yet. Raises
    `ConflictError` if the id was used for another text, `DatabaseCorruptError` as `find_turn` does.
    """
    turn_id = message.id or ""
    if (notice := (yield from known_notice(thread, snapshot.values, message))) is not None:
        return Stored(name=turn_id, reply=notice)
    place = yield from find_turn(thread, snapshot.values, turn_id)
    if place is None:
        return Stored(name=turn_id)
    name, messages, checkpoints = place
    stored_message = next((each for each in messages if each.id == name), None)
    stored_text = "" if stored_message is None else text_of(stored_message)
    same = (
        stored_message is not None
        and is_question(stored_message)
        and stored_text == text_of(message)
    )
    command = parse_command(text_of(message))
    if name != message.id and command is not None:
        same = command["verb"] in ("retry", "edit")
    if not same:
        raise used_for_another(stored_text, message)
    turn = snapshot.values.get("turn") or {}
    if snapshot.interrupts and turn.get("question_id") == name:
        reply = reply_of(snapshot.values, snapshot.interrupts)
    else:
        answer = answers_in(messages).get(name)
        # Only answers that a turn delivered have this annotation; a host's answer is not the turn's.
        if answer is None or not (is_notice(answer) or "rollbacks" in annotation_of(answer)):
            return Stored(name=name)
        reply = reply_to(answer, checkpoints)
    return Stored(name=name, reply=replace(reply, turn_id=turn_id))
