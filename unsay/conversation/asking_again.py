"""Ask a question again: retry the last one, or edit an earlier one."""

from unsay.conversation.thread import ThreadHandle
from unsay.conversation.turn_lifecycle import resume, run_turn, say
from unsay.effects import Steps
from unsay.memory.offload import load_segments
from unsay.moves.rollback import check_retry, parse_edit
from unsay.results.results import Reply
from unsay.state import Command, with_update
from unsay.transcript.pending import find_pending
from unsay.verbs.dispatch import messages_needed


def retry(thread: ThreadHandle) -> Steps[Reply]:
    """Answer the last question again; `undo` restores the old answer."""
    state = yield from thread.known()
    snapshot = yield from thread.snapshot()
    if snapshot.next:
        return (yield from resume(thread))
    if find_pending(state["messages"], state.get("turn")).question is not None:
        return (yield from run_turn(thread, {"messages": []}))
    state = with_update(state, (yield from load_segments(state, thread.scope(), (), turns=1)))
    # For its errors: nothing is stored if one is raised.
    check_retry(state, ())
    # The graph's own command, so that the question is removed and asked again in one run.
    return (yield from say(thread, "/retry"))


def edit(thread: ThreadHandle, turn: int, text: str) -> Steps[Reply]:
    """Replace the question of an earlier turn, answer it, and remove all later turns."""
    state = yield from thread.settled()
    argument = f"{turn} {text}"
    command = Command(verb="edit", argument=argument)
    message_ids, turns = messages_needed(state, command)
    update = yield from load_segments(state, thread.scope(), message_ids, turns=turns)
    state = with_update(state, update)
    # For its errors: nothing is stored if one is raised.
    parse_edit(state, argument, ())
    return (yield from say(thread, f"/edit {argument}"))
