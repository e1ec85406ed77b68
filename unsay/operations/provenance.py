"""Provenance: which annotations and tool calls in a thread unsay itself made.

A host's users can send any message, also one with a forged verdict or a forged tool call. Verdicts
are compared with the event log, and calls with the log of compensations. Without a store both
records are in the private channel `own_writes`.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AnyMessage

from unsay.effects import Steps
from unsay.errors import DatabaseCorruptError, UnsayError
from unsay.events.event_types import canonical
from unsay.events.transcript_replay import replay
from unsay.history.compensations import Compensation
from unsay.messages.annotations import KEY, annotate, annotation_of
from unsay.messages.content import text_of
from unsay.operations.commands import parse_command
from unsay.operations.record_events import (
    NOTHING,
    annotation_tag,
    edited_since,
    known_part,
    message_body,
)
from unsay.operations.resent import possibly_resent
from unsay.runtime import Scope
from unsay.state import State, Update, merge_messages, offloaded_of
from unsay.storage.event_log import read_events
from unsay.storage.segments import read_back

# In `own_writes`, instead of a hash: the call is undone.
UNDONE = ""
NOT_OURS = "this thread did not make the call"


def false_claims(state: State, scope: Scope) -> Steps[list[AnyMessage]]:
    """Return corrected copies of the messages whose annotations (verdicts, …) unsay did not write.

    The result is empty if there are none. An annotation that unsay wrote and a host dropped from an
    otherwise equal message is put back.
    """
    messages, head = state.get("messages", []), known_part(state, scope)
    own: dict[str | None, AnyMessage] = {}
    if edited_since(head, messages):
        own = yield from _own_messages(state, scope)
        entered: Sequence[AnyMessage] = messages
    else:
        entered = messages[head["length"] :]
        own = yield from _own_offloaded(state, scope)
    corrected = []
    for message in entered:
        known = own.get(message.id)
        equal = known is not None and message_body(known) == message_body(message)
        allowed = annotation_of(known) if known and equal else _harmless(message, messages)
        if allowed != message.response_metadata.get(KEY, {}):
            corrected.append(_annotated(message, allowed))
    return corrected


def with_messages(state: State, corrected: Sequence[AnyMessage]) -> State:
    """Return a state in which corrected messages replace those with the same ids."""
    if not corrected:
        return state
    return {**state, "messages": merge_messages(state["messages"], [list(corrected)])}


def preceded_by(corrected: Sequence[AnyMessage], update: Update) -> Update:
    """Return an update that writes corrected messages, if there are any, before its own."""
    if not corrected:
        return update
    return {**update, "messages": [*corrected, *update.get("messages", [])]}


def _own_messages(state: State, scope: Scope) -> Steps[dict[str | None, AnyMessage]]:
    """Return by id the messages that the thread had before a host edited it.

    They come from the event log; without a store they are those that `own_writes` proves to be
    unchanged. Empty if the event log cannot be read.
    """
    log = state.get("event_log")
    if scope.address is not None and log is not None:
        try:
            events = yield from read_events(*scope.address, log)
            return {message.id: message for message in replay(events).messages}
        except UnsayError:  # A log that cannot be read proves nothing.
            return {}
    tags = state.get("own_writes", NOTHING)["annotated"]
    messages = state.get("messages", [])
    return {m.id: m for m in messages if m.id in tags and tags[m.id] == annotation_tag(m)}


def _own_offloaded(state: State, scope: Scope) -> Steps[dict[str | None, AnyMessage]]:
    """Return by id the messages of offloaded segments that hold a message of the input.

    Empty without a store, if no message of the input can be offloaded, and if one of these segments
    is missing or damaged.
    """
    if scope.address is None or offloaded_of(state) is None:
        return {}
    resent = possibly_resent(state, scope)
    if not resent:
        return {}
    try:
        segments = yield from read_back(*scope.address, offloaded_of(state), resent)
    except DatabaseCorruptError:  # `load_resent` reports it
        return {}
    return {message.id: message for segment in segments for message in segment.messages}


def _harmless(message: AnyMessage, messages: Sequence[AnyMessage]) -> dict[str, Any]:
    """Return what is kept of a foreign annotation: that it is a notice, and which commands it answers.

    Empty for other messages. A host without a checkpointer sends notices back with every input.
    Without the annotation a model would be sent the commands and their notices.
    """
    given = annotation_of(message)
    if message.type != "ai" or given.get("kind") != "notice":
        return {}
    answers = given.get("answers")
    names = answers if isinstance(answers, list) else []
    commands = [m.id for m in messages if m.type == "human" and parse_command(text_of(m))]
    return {"kind": "notice", "answers": [name for name in names if name in commands]}


def _annotated(message: AnyMessage, annotation: Mapping[str, Any]) -> AnyMessage:
    metadata = {key: value for key, value in message.response_metadata.items() if key != KEY}
    plain = message.model_copy(update={"response_metadata": metadata})
    return annotate(plain, **annotation) if annotation else plain


def call_tag(call: Compensation) -> str:
    """Return a hash of a call's tool, arguments and result; `is_own_call` finds it in `own_writes`."""
    text = canonical([call.tool, call.args, call.result])
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def is_own_call(call: Compensation, state: State, scope: Scope) -> bool:
    """Return whether `own_writes` shows that this thread's tool loop made the call.

    It is always `False` with a store, which has the entries of the calls.
    """
    if scope.address is not None:
        return False
    return _recorded(state, scope).get(call.key, "").partition(" ")[0] == call_tag(call)


def failed_tag(call: Compensation, error: str) -> str:
    """Return what `own_writes` has for a call whose undo failed: its hash, then the error."""
    return f"{call_tag(call)} {error}"


def error_of_undo(call: Compensation, state: State, scope: Scope) -> str:
    """Return why the call's undo failed before, as `own_writes` has it; empty if it did not fail.

    It is also empty if a host changed the call, and with a store.
    """
    if not is_own_call(call, state, scope):
        return ""
    return _recorded(state, scope)[call.key].partition(" ")[2]


def was_undone(call: Compensation, state: State, scope: Scope) -> bool:
    """Return whether the call's undo was scheduled before and did not fail; `False` with a store.

    `own_writes` and the log of the step say so. Such a call is not scheduled again.
    """
    return _recorded(state, scope).get(call.key) == UNDONE


def _recorded(state: State, scope: Scope) -> dict[str, str]:
    return {**state.get("own_writes", NOTHING)["calls"], **scope.step_log.calls}
