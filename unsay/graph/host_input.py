"""What a host may pass to the compiled graph, checked before it is stored."""

from typing import Any

from langgraph.types import StateUpdate


def checked_input(value: Any) -> Any:
    """Return a host's input as the graph stores it."""
    return value


def checked_update(update: StateUpdate) -> StateUpdate:
    """Return a host's update of the state as the graph stores it."""
    return update
