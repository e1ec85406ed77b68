"""Find the message that a turn id names, wherever it is: in the transcript, a branch or a segment."""

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AnyMessage
from langgraph.store.base import Item

from unsay.conversation.thread import ThreadHandle
from unsay.effects import Steps
from unsay.history.branch import branches_namespace, find_place, unpack
from unsay.history.runs import find_run, run_named_after
from unsay.operations.restore import BRANCH_PREFIX
from unsay.state import offloaded_of
from unsay.storage.items import get_item
from unsay.storage.segments import read_back
from unsay.types import Checkpoint

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
    item: Item | None = yield get_item(thread.store, branches_namespace(thread.thread_id), name)
    if item is None:
        return None
    branch = unpack(item.value)
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
