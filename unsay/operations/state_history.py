"""`state_history`: what the nodes and a person's orders did to a thread, for a host."""

from unsay.runtime import Scope
from unsay.state import State
from unsay.types import Note


def add_note(
    state: State,
    scope: Scope,
    node: str,
    event: str,
    score: float | None,
    *,
    number: int | None = None,
) -> list[Note]:
    """Return `state_history` with one more entry, cut to the newest `history_limit` entries.

    `event` is what the node did, and `number` the turn that the entry is about; `None` is the one
    under way. Empty if the limit is 0.
    """
    turn, texts = state.get("turn"), scope.texts(state.get("messages", []))
    if number is None:
        number = turn["number"] if turn else 0
    described = "first" if event == "new" and not state.get("segments") else event
    added = Note(
        node=node,
        event=event,
        description=texts.history.get(described, event),
        turn=number,
        score=score,
        topic=state.get("current_topic", ""),
        at=scope.now(),
    )
    limit = scope.settings.history_limit
    return [*state.get("state_history", []), added][-limit:] if limit else []
