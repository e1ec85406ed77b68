"""Provenance: which annotations, summaries and tool calls of a thread may be believed.

A host's users can send any message, also one with a forged verdict or a forged tool call. Verdicts
are compared with the event log, and calls with the log of compensations. Without a store both
records are in the private channel `own_writes`.
"""

import hashlib
import logging
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from langchain_core.messages import AnyMessage, RemoveMessage
from langgraph.constants import CONFIG_KEY_CHECKPOINTER

from unsay.context.compaction import without_spans
from unsay.context.topics import live_topics, without_summary
from unsay.effects import Steps
from unsay.errors import DatabaseCorruptError, UnsayError
from unsay.events.event_types import canonical
from unsay.events.transcript_replay import replay
from unsay.history.compensations import Compensation
from unsay.history.runs import run_named_after
from unsay.messages.annotations import KEY, annotate, annotation_of, is_document
from unsay.messages.content import text_of
from unsay.messages.sources import has_sources, sources_of
from unsay.operations.commands import parse_command
from unsay.operations.offload import put_back
from unsay.operations.record_events import (
    EMPTY,
    NOTHING,
    annotation_tag,
    edited_since,
    known_part,
    message_body,
)
from unsay.runtime import Scope
from unsay.state import State, Update, merge_messages, offloaded_of
from unsay.storage.event_log import read_events
from unsay.storage.segments import offloaded_ids, read_back

LOG = logging.getLogger(__name__)


def load_resent(state: State, scope: Scope) -> Steps[Update]:
    """Return the update that loads offloaded messages which a front end sent again; maybe empty.

    If one of the segments is missing or damaged, nothing is loaded, and the update removes the copies
    that were sent: at the end of the transcript they would be new messages. The event `segment_lost`
    reports it.
    """
    resent = possibly_resent(state, scope)
    if not resent:
        return Update()
    try:
        return (yield from put_back(state, scope, resent))
    except DatabaseCorruptError as error:
        LOG.warning("thread=%r reason=%r resent messages are left out", scope.thread_id, str(error))
        scope.emit("segment_lost", error=str(error))
    assert scope.address is not None  # noqa: S101 - only a store has segments
    newest = state["messages"][-1].id  # the question, whatever its id is
    copies = yield from offloaded_ids(*scope.address, offloaded_of(state), resent - {newest})
    return Update(messages=[RemoveMessage(id=name) for name in copies]) if copies else Update()


def possibly_resent(state: State, scope: Scope) -> set[str | None]:
    """Return the ids of the messages that entered in this step: each may be offloaded already.

    Some front ends send all of their messages with each question. The result is empty if only one
    question entered and it is new: no run for it was completed. It does not depend on a store.
    """
    entered = state["messages"][state.get("event_log", EMPTY)["length"] :]
    spoken_now = [message for message in entered if not is_document(message)]
    fresh = {run_named_after(scope.thread_id, message.id) for message in spoken_now}
    if len(spoken_now) <= 1 and (scope.named or scope.run_id in fresh):
        return set()
    return {message.id for message in entered}


# In `own_writes`, instead of a hash: the call is undone.
UNDONE = ""
NOT_OURS = "this thread did not make the call"


def false_claims(state: State, scope: Scope) -> Steps[list[AnyMessage]]:
    """Return corrected copies of the messages whose annotations (verdicts, …) unsay did not write.

    The result is empty if there are none. An annotation that unsay wrote and a host dropped from an
    otherwise equal message is put back.
    """
    messages, head = state.get("messages", []), known_part(state, scope)
    own: dict[tuple[str | None, str], AnyMessage] = {}
    left = state.get("left_behind") if scope.address is not None else None
    # Messages to which a host went back are not new, although they come after the logged ones.
    if edited_since(head, messages) or (left and left["returned"]):
        own = yield from _own_messages(state, scope)
        entered: Sequence[AnyMessage] = messages
    else:
        entered = messages[head["length"] :]
        own = yield from _own_offloaded(state, scope)
    place = scope.config.get("configurable", {})
    is_alone = "|" not in place.get("checkpoint_ns", "") and place.get(CONFIG_KEY_CHECKPOINTER)
    is_logged = head["length"] or is_alone or not scope.in_graph
    corrected = []
    for message in entered:
        known = own.get((message.id, message_body(message)))
        allowed = annotation_of(known) if known else {}
        if not is_logged and known is None:
            allowed = _harmless(message, messages)
        if allowed != message.response_metadata.get(KEY, {}):
            corrected.append(_annotated(message, allowed))
    return corrected


def trusted(state: State, scope: Scope) -> Steps[State]:
    """Return a stored state as readers may believe it.

    It has only annotations that unsay wrote, and no summary of a message that was removed.
    """
    return without_stale(with_messages(state, (yield from false_claims(state, scope))))


def without_stale(state: State) -> State:
    """Return the state without summaries of messages that somebody removed or rewrote.

    A host can change messages between any two nodes, and so can the graph around this one. What an
    earlier version summarized names no sources, and is summarized again.
    """
    messages, topics = state.get("messages", []), state.get("topics", [])
    compaction = state.get("compaction")
    if not compaction and not any(each["summary"] for each in topics):
        return state
    sources = set(sources_of(messages, offloaded_of(state)))
    known = [each if "sources" in each else without_summary(each) for each in topics]
    fresh: State = {**state, "topics": live_topics(messages, known, sources)}
    if compaction:
        fresh["compaction"] = without_spans(
            compaction,
            lambda span: "sources" not in span or not has_sources(span, sources),
            later=True,
        )
    return fresh


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


def _own_messages(state: State, scope: Scope) -> Steps[dict[tuple[str | None, str], AnyMessage]]:
    """Return by id and body the messages that the thread had before a host edited it.

    They come from the event log, with those of branches, to which a host can go back; without a
    store they are those that `own_writes` proves to be unchanged. Empty if the event log cannot be
    read.
    """
    log = state.get("event_log")
    if scope.address is not None and log is not None:
        try:
            found = replay((yield from read_events(*scope.address, log)))
            return _by_body([*chain.from_iterable(found.branches.values()), *found.messages])
        except UnsayError:  # A log that cannot be read proves nothing.
            return {}
    tags = state.get("own_writes", NOTHING)["annotated"]
    messages = state.get("messages", [])
    return _by_body([m for m in messages if m.id in tags and tags[m.id] == annotation_tag(m)])


def _by_body(messages: Iterable[AnyMessage]) -> dict[tuple[str | None, str], AnyMessage]:
    return {(message.id, message_body(message)): message for message in messages}


def _own_offloaded(state: State, scope: Scope) -> Steps[dict[tuple[str | None, str], AnyMessage]]:
    """Return by id and body the messages of offloaded segments that hold a message of the input.

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
    return _by_body(message for segment in segments for message in segment.messages)


def _harmless(message: AnyMessage, messages: Sequence[AnyMessage]) -> dict[str, Any]:
    """Return what is kept of an annotation where no log is: that a notice answers commands.

    Empty for other messages. A host without a checkpointer sends notices back with every input.
    Without the annotation a model would be sent the commands and their notices.
    """
    given = annotation_of(message)
    names = given.get("answers") if given.get("kind") == "notice" else []
    commands = [m.id for m in messages if m.type == "human" and parse_command(text_of(m))]
    answers = [name for name in names if name in commands] if isinstance(names, list) else []
    return {"kind": "notice", "answers": answers} if answers and message.type == "ai" else {}


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
