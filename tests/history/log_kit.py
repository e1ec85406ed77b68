"""Messages and branches that are written as a step writes them: first the event log, then what refers to it."""

from collections.abc import Sequence

from langchain_core.messages import AnyMessage
from langgraph.store.base import BaseStore

from tests.events.events_kit import STAMP, events_of
from unsay.effects import Steps, drive
from unsay.events.bodies import bodies_in
from unsay.history.branch import list_stored_branches, put_branches
from unsay.storage.event_log import head_of, make_page, put_pages
from unsay.storage.pages import EMPTY, Head, Page
from unsay.types import StoredBranch


def log_messages(
    store: BaseStore, thread: str, messages: Sequence[AnyMessage], head: Head = EMPTY
) -> tuple[Head, dict[str, int]]:
    """Write messages to the event log; return its end, and their positions by id."""
    events = [event for message in messages for event in events_of(message, stamp=STAMP)]
    page = make_page(head, events)
    drive(_write(store, thread, page))
    bodies = bodies_in((event["type"], event["data"]) for event in events)
    positions = {body.message_id: place for place, body in enumerate(bodies, head["next"])}
    return head_of(page, head), positions


def _write(store: BaseStore, thread: str, page: Page) -> Steps[None]:
    yield from put_pages(store, thread, [page])


def store_branch(store: BaseStore, thread: str, branch: StoredBranch) -> None:
    """Write a branch and its messages."""
    head, positions = log_messages(store, thread, [*branch["messages"], *branch["drafts"]])
    drive(put_branches(store, thread, [branch], {branch["id"]: positions}, head))


def stored_branch(store: BaseStore, thread: str) -> StoredBranch:
    """The only stored branch, as it was before it was stored."""
    (branch,) = drive(list_stored_branches(store, thread))
    return {key: value for key, value in branch.items() if key != "positions"}  # type: ignore[return-value]
