"""Restoring what was removed or forgotten, and copying messages of other branches."""

from collections.abc import Sequence
from dataclasses import replace

from langchain_core.messages import AnyMessage

from unsay.conversation.memory import remember
from unsay.conversation.navigation import Confirm, settle
from unsay.conversation.results import Moved
from unsay.conversation.thread import Talk
from unsay.effects import Steps
from unsay.history.branch import list_cuts
from unsay.operations import restore as operation
from unsay.operations.restore import CUT, find_cut, source_of


def restore(talk: Talk, what: str, *, confirm: Confirm | None = None) -> Steps[Moved]:
    """Restore a branch, one of its messages, a summarized topic, or what was forgotten.

    `undo` removes it again.

    Args:
        talk: The thread.
        what: A branch's id: its messages return to their place, and what is there now becomes a
            branch. The id of a message of a branch: it returns to its place, everything else
            stays. A topic's id or label: contexts hold its words until the topic changes. An id
            of `forgotten()`, or of a message or topic that was forgotten: contexts hold it again;
            of several messages only this one, with what belongs to it.
        confirm: As for `rollback`.

    Raises:
        UnknownBranchError: No branch, topic or message has this id.
        ConflictError: It is there already, its place is gone, or a turn is under way.
    """
    state = yield from talk.settled()
    scope = talk.scope(confirm)
    if (shown := (yield from remember(talk, state, what))) is not None:
        return shown
    cuts = yield from list_cuts(talk.database.store, talk.thread_id)
    if (source := source_of(cuts, what)) is not None:
        state = yield from talk.reached(state, {source["base"]})
    update = yield from operation.restore(state, scope, what, cuts)
    return (yield from settle(talk, state, scope, update))


def pick(talk: Talk, message_ids: Sequence[str], from_: str) -> Steps[Moved]:
    """Copy messages of another branch to the end of the transcript; `undo` removes them.

    Args:
        talk: The thread.
        message_ids: In the order wanted; tool calls come with their results. The last must be an
            answer.
        from_: The id of a branch or of a thread.

    Raises:
        UnknownBranchError: There is no such branch, or a message is not in it.
        UnknownThreadError: There is no such thread.
        InputError: They do not end in an answer.
        ConflictError: A turn is under way.
    """
    state = yield from talk.settled()
    messages: list[AnyMessage] = []
    if message_ids and not isinstance(message_ids, str):
        messages = yield from _messages_of(talk, from_)
    update = operation.pick(state, messages, message_ids, from_)
    return (yield from settle(talk, state, talk.scope(), update))


def _messages_of(talk: Talk, source: str) -> Steps[list[AnyMessage]]:
    """The messages of a cut, drafts too, or of a thread."""
    if source.startswith(CUT):
        cuts = yield from list_cuts(talk.database.store, talk.thread_id)
        cut = find_cut(cuts, source)
        return [*cut["messages"], *cut["drafts"]]
    other = replace(talk, thread_id=source, writes=False)
    return (yield from other.whole())["messages"]
