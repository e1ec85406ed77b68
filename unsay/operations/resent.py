"""Resent messages: offloaded ones that a front end sends again with its question."""

import logging

from langchain_core.messages import RemoveMessage

from unsay.effects import Steps
from unsay.errors import DatabaseCorruptError
from unsay.history.runs import run_named_after
from unsay.messages.annotations import is_document
from unsay.operations.offload import put_back
from unsay.operations.record_events import EMPTY
from unsay.runtime import Scope
from unsay.state import State, Update, offloaded_of
from unsay.storage.segments import offloaded_ids

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
