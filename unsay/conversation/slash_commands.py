"""Slash commands that a user sends through `say`: carried out and answered outside of the transcript.

A command that is typed into another front end reaches the graph as a message; `verbs/dispatch.py`
carries it out there.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from langchain_core.messages import AIMessage, AnyMessage, RemoveMessage

from unsay.conversation.branching import restore
from unsay.conversation.navigation import checkpoint, redo, remove, rollback, start_task, undo
from unsay.conversation.thread import ThreadHandle
from unsay.decisions import refuse_undecided
from unsay.effects import Steps
from unsay.errors import (
    ConfirmationNeededError,
    ConflictError,
    StorageError,
    UnsayError,
)
from unsay.history.branch import find_place, put_places
from unsay.history.threads import find_session, refuse_ended
from unsay.memory.offload import load_segments
from unsay.messages.content import preview, text_of
from unsay.moves.compensate import report_text
from unsay.moves.rollback import turn_number
from unsay.orders.orders import check_argument, in_terms_of
from unsay.orders.parse import changes_nothing, command_of
from unsay.prompts.catalogue import Texts
from unsay.results.results import Reply, RollbackResult
from unsay.runtime import Scope
from unsay.state import Command, SentCommand, State, StateDraft, Update, with_update
from unsay.transcript.live import live_branch, turns_typed
from unsay.transcript.pending import commands_answered, unanswered_ids, with_waiting
from unsay.transcript.undo import step_notice
from unsay.verbs.dispatch import messages_needed, obey


def answer_command(
    thread: ThreadHandle, message: AnyMessage, *, once: bool = False
) -> Steps[Reply | None]:
    """Carry out a message that is a slash command, and return the notice about it.

    A command that only shows something changes nothing: a stopped turn or a waiting decision stays
    as it is. If a command is refused, the notice says why. With `once`, the notice of a command
    that changes something is stored under the message's id, so that `known_notice` finds it if the
    message comes again.

    Returns:
        `None` if the message is a question. Also `None` if the graph must carry out the command:
        `/retry`, `/edit`, and one that undoes a tool call that a person must confirm.

    Raises:
        ConflictError: A decision waits, and the command would change something.
        SessionEndedError: The thread was ended, and the command would change something.
        StorageError: The database failed.
    """
    command = command_of([message], message, thread.scope().settings)
    if command is None:
        return None
    changes = not changes_nothing(command)
    snapshot = yield from (thread if changes else replace(thread, writes=False)).snapshot()
    if changes:
        refuse_undecided(snapshot)
        refuse_ended((yield from find_session(*thread.address)))
    messages = snapshot.values.get("messages", [])
    if not messages:
        messages = yield from _words_before(thread, snapshot.values)
    texts = thread.scope().texts(messages)
    try:
        if changes:
            order = SentCommand(id=message.id or "", text=text_of(message))
            text = yield from _changed(replace(thread, order=order), command, texts)
        else:
            text = yield from _shown(thread, command, texts)
        after = yield from replace(thread, writes=False).snapshot()
        if text:
            decides = bool(after.interrupts)
            text = with_waiting(text, cast("State", after.values), texts, decides=decides)
    except ConfirmationNeededError:
        return None
    except StorageError:
        raise
    except UnsayError as error:
        text = texts.refusal(in_terms_of("chat", str(error)))
    if once and changes and text:
        yield from _store_notice(thread, message, text)
    return Reply(kind="notice", text=text, message_id=None, turn_id=message.id) if text else None


def _words_before(thread: ThreadHandle, state: Mapping[str, Any]) -> Steps[list[AnyMessage]]:
    """Return one message of words by which the language of an emptied conversation is known.

    They are the thread's title and topic labels, for a thread whose messages were all removed. The
    text is empty in a new thread.
    """
    session = yield from find_session(*thread.address)
    topics = [entry["topic"] for entry in state.get("state_history", [])]
    words = [session.title if session else "", *topics]
    return [AIMessage(" ".join(filter(None, words)))]


def _store_notice(thread: ThreadHandle, message: AnyMessage, text: str) -> Steps[None]:
    record = {"text": text_of(message), "notice": text}
    yield from put_places(*thread.address, {message.id or "": json.dumps(record)})


def clear_command(thread: ThreadHandle, state: Mapping[str, Any], reply: Reply) -> Steps[Reply]:
    """Remove a command that the graph carried out, and its notice, from the transcript.

    The notice is stored under the command's id, for `known_notice`. Returns the turn's reply, which
    has no `message_id` then; a reply that is not about a command is returned unchanged.
    """
    messages = state["messages"]
    names = commands_answered(messages, len(messages) - 1) if reply.kind == "notice" else set()
    commands = [message for message in messages if message.id in names]
    if not commands:
        return reply
    for command in commands:
        yield from _store_notice(thread, command, reply.text)
    gone = [RemoveMessage(id=message.id or "") for message in (*commands, messages[-1])]
    newest_state = yield from thread.known()
    yield from thread.write(newest_state, thread.scope(), Update(messages=gone))
    return replace(reply, message_id=None)


def known_notice(
    thread: ThreadHandle, state: Mapping[str, Any], message: AnyMessage
) -> Steps[Reply | None]:
    """Return the notice of the command that had this message's id; `None` if there was none.

    It keeps a repeated message from being carried out twice. If a crash came before the notice was
    stored, it only says that the command was carried out. Raises `ConflictError` if the text of the
    earlier command was another one.
    """
    place = yield from find_place(*thread.address, message.id or "")
    order = state.get("last_order")
    if place is not None and place.startswith("{"):
        record = json.loads(place)
    elif order is not None and order["id"] == message.id:
        # The process died after the change, before it stored the notice.
        texts = thread.scope().texts(state.get("messages", []))
        notice = texts.say("command_done", command=order["text"])
        record = {"text": order["text"], "notice": notice}
    else:
        return None
    if record["text"] != text_of(message):
        raise used_for_another(record["text"], message)
    return Reply(kind="notice", text=record["notice"], message_id=None, turn_id=message.id)


def used_for_another(text: str, message: AnyMessage) -> ConflictError:
    """Return the error to raise for a message whose id was used for another `text` before."""
    return ConflictError(
        f"The turn id {message.id!r} was used for {preview(text)!r}, so it cannot be used for "
        f"{preview(text_of(message))!r}: send the same words to get their answer, or give the "
        "new ones a new id. Nothing was stored"
    )


def _shown(thread: ThreadHandle, command: Command, texts: Texts) -> Steps[str]:
    """Return the notice of a command that changes nothing, without writing anything.

    Raises `DatabaseCorruptError` if what it shows is missing or damaged. Only `/tokens` with a
    budget can be refused, by `QueueFullError`.
    """
    reader = replace(thread, writes=False)
    scope, values = reader.scope(), (yield from reader.snapshot()).values
    state: Any = {"messages": [], **values}
    message_ids, turns = messages_needed(state, command)
    state = with_update(state, (yield from load_segments(state, scope, message_ids, turns=turns)))
    return (yield from obey(state, scope, unanswered_ids(state), command, texts)).notice or ""


def _checked(
    thread: ThreadHandle, command: Command, texts: Texts
) -> Steps[tuple[State, Scope, Any]]:
    """Return a thread's state, the scope of a command, and the `Orders` that `obey` makes of it.

    Nothing is stored, but `/compact` and `/forget` may ask a model for a summary. An update of the
    orders also loads the offloaded messages that the command needs. The state is the stored one,
    empty if the thread is unknown. Raises the error that refuses the command.
    """
    scope, state = thread.scope(), (yield from thread.known())
    message_ids, turns = messages_needed(state, command)
    draft = StateDraft(state)
    draft.apply((yield from load_segments(state, scope, message_ids, turns=turns)))
    orders = yield from obey(draft.state, scope, unanswered_ids(draft.state), command, texts)
    if orders.update:
        draft.apply(orders.update)
        orders = replace(orders, update=draft.update)
    return state, scope, orders


def _changed(thread: ThreadHandle, command: Command, texts: Texts) -> Steps[str]:
    """Carry out a command that changes something, and return its notice.

    The notice is empty if the graph must carry out the command: a retry or an edit. Raises the
    error that refuses the command.
    """
    verb, argument = command["verb"], command["argument"]
    check_argument(verb, argument, texts.language)
    if verb in ("undo", "redo"):
        result = yield from (undo if verb == "undo" else redo)(thread)
        return _moved(result, texts, undone=verb == "undo")
    if verb in ("remove", "restore", "rollback"):
        return (yield from _change_of_messages(thread, command, texts))
    if verb in ("checkpoint", "task"):
        adding = (
            start_task(thread, argument) if verb == "task" else checkpoint(thread, argument or None)
        )
        made = yield from adding
        return texts.say("checkpoint_made", name=made["name"] or made["id"])
    if verb in ("retry", "edit") and unanswered_ids((yield from thread.snapshot()).values):
        return ""
    if verb in ("forget", "compact"):
        yield from thread.settled()
    state, scope, orders = yield from _checked(thread, command, texts)
    if orders.update:
        yield from thread.write(state, scope, orders.update)
    return orders.notice or ""


def _change_of_messages(thread: ThreadHandle, command: Command, texts: Texts) -> Steps[str]:
    """Carry out `/remove`, `/restore` or `/rollback`, and return its notice.

    Raises the error that refuses the command.
    """
    verb, argument = command["verb"], command["argument"]
    if verb == "remove":
        result = yield from remove(thread, turn_number(argument))
        return _moved_to(result, "removed_turn", texts, turn=argument)
    if verb == "restore":
        result = yield from restore(thread, argument or None)
        return _moved_to(result, "restored", texts)
    turns = turns_typed(live_branch((yield from thread.known())), argument)
    to = argument or None if turns is None else None
    result = yield from rollback(thread, to, turns=turns)
    return _moved_to(result, "rolled_back" if result.removed else "already_there", texts)


def _moved_to(result: RollbackResult, name: str, texts: Texts, **values: str) -> str:
    """Return the notice of a removal, a restore or a rollback, with what became of tool calls."""
    counts = {"turns": result.turns, "removed": result.removed, "restored": result.restored}
    text = texts.say(name, where=result.at, changes=texts.changes(**counts), **values)
    return texts.sentences([text, report_text(result.report, texts)])


def _moved(result: RollbackResult, texts: Texts, *, undone: bool) -> str:
    """Return the notice of an undo (`undone`) or a redo, with what became of tool calls."""
    notice = step_notice(texts, result.change, undone=undone) if result.change else ""
    return texts.sentences([notice, report_text(result.report, texts)])
