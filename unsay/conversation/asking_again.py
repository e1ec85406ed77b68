"""Ask a question again: retry the last one, or edit an earlier one."""

from unsay.conversation.results import Reply
from unsay.conversation.thread import ThreadHandle
from unsay.conversation.turn_lifecycle import resume, run_turn, say
from unsay.effects import Steps
from unsay.operations.dispatch import messages_needed
from unsay.operations.offload import load_segments
from unsay.operations.pending import find_pending
from unsay.operations.retry import check_retry, parse_edit
from unsay.state import Command, with_update


def retry(thread: ThreadHandle) -> Steps[Reply]:
    """Answer the last question again; `undo` restores the old answer.

    A turn that an error or a crash stopped is resumed instead.

    Raises:
        UnknownThreadError: The thread has no messages yet.
        NothingToUndoError: The thread has no question.
        InputError: The question is empty or longer than the settings allow now.
        ConfigurationError: There is no model; the question is kept.
        ModelError: The model failed; the question is kept.
        StorageError: The database failed; what was stored before is intact.
        ConflictError: The thread waits for a decision, was ended, or is used by another writer for
            too long; or a budget is used up.
    """
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
    """Replace the question of an earlier turn, answer it, and remove all later turns.

    The old question and all that followed are kept as a branch; `undo` puts them back.

    Args:
        thread: The thread.
        turn: The turn's number, from 1.
        text: The new question; the turn's documents, and images beside the text, stay.

    Raises:
        UnknownThreadError: The thread has no messages yet.
        UnknownTurnError: No answered turn has this number.
        InputError: The text is empty or too long, or the turn has no question.
        ConfigurationError: There is no model; the new question is kept.
        ModelError: The model failed; the new question is kept, and `resume` asks it again.
        StorageError: The database failed; what was stored before is intact.
        ConflictError: A turn was stopped or waits for a decision, the thread was ended, or a budget
            is used up.
    """
    state = yield from thread.settled()
    argument = f"{turn} {text}"
    command = Command(verb="edit", argument=argument)
    message_ids, turns = messages_needed(state, command)
    loaded = yield from load_segments(state, thread.scope(), message_ids, turns=turns)
    state = with_update(state, loaded)
    # For its errors: nothing is stored if one is raised.
    parse_edit(state, argument, ())
    return (yield from say(thread, f"/edit {argument}"))
