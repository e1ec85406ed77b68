"""Slash commands that a user sends through `say`: carried out and answered outside of the transcript.

A command that is typed into another front end reaches the graph as a message; `verbs/carry_out.py`
carries it out there.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from langchain_core.messages import AIMessage, AnyMessage, RemoveMessage

from unsay.conversation.thread import ThreadHandle
from unsay.decisions import refuse_undecided
from unsay.effects import Steps
from unsay.errors import ConfirmationNeededError, ConflictError, StorageError, UnsayError
from unsay.history.branch import find_place, put_places
from unsay.history.threads import find_session, refuse_ended
from unsay.messages.content import preview, text_of
from unsay.moves.compensate import report_text
from unsay.orders.parse import changes_nothing, command_of
from unsay.prompts.catalogue import Texts
from unsay.results.results import Reply, RollbackResult
from unsay.state import Command, SentCommand, State, Update
from unsay.transcript.pending import commands_answered, unanswered_ids, with_waiting
from unsay.verbs.carry_out import not_an_order, order_typed


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
        text = yield from _carried_out(thread, command, message, texts)
        if text is None:
            return None
        after = yield from replace(thread, writes=False).snapshot()
        decides = bool(after.interrupts)
        text = with_waiting(text, cast("State", after.values), texts, decides=decides)
    except ConfirmationNeededError:
        return None
    except StorageError:
        raise
    except UnsayError as error:
        text = texts.refusal(error)
    if once and changes:
        yield from _store_notice(thread, message, text)
    return Reply(kind="notice", text=text, message_id=None, turn_id=message.id)


def _carried_out(
    thread: ThreadHandle, command: Command, message: AnyMessage, texts: Texts
) -> Steps[str | None]:
    """Return the notice of a command that is carried out; `None` if only the graph can do it."""
    if (text := not_an_order(command, texts)) is not None:
        return text
    order = order_typed(command, texts)
    sent = SentCommand(id=message.id or "", text=text_of(message))
    if order.asks and unanswered_ids((yield from thread.snapshot()).values):
        return None
    outcome = yield from thread.carry_out(order, sent=sent, preview=order.asks)
    if order.asks:  # it was carried out only for its errors
        return None
    text = outcome.notice(texts)
    if isinstance(outcome.result, RollbackResult):
        text = texts.sentences([text, report_text(outcome.result.report, texts)])
    return text


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
    newest_state = yield from thread.load_state()
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
        code="turn_id_used",
        turn_id=message.id,
        earlier=preview(text),
        text=preview(text_of(message)),
    )
