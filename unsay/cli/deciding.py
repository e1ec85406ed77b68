"""A person's decision about rejected drafts, as typed on a command line."""

from typing import Any

EDIT = "edit:"
"""Begins a decision that carries the answer itself."""


def decision_of(words: str) -> dict[str, Any]:
    """What to resume the conversation with.

    >>> decision_of("approve")
    {'decisions': [{'type': 'approve'}]}
    >>> decision_of("shorter, please")
    {'decisions': [{'type': 'respond', 'message': 'shorter, please'}]}
    """
    said = words.strip()
    if said in ("approve", "reject"):
        return {"decisions": [{"type": said}]}
    if said.startswith(EDIT):
        action = {"name": "deliver_answer", "args": {"answer": said.removeprefix(EDIT).strip()}}
        return {"decisions": [{"type": "edit", "edited_action": action}]}
    return {"decisions": [{"type": "respond", "message": said}]}
