"""What happened in a thread, as events, and the transcript that they lead to."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unsay.events.event_builder import EventBuilder
    from unsay.events.transcript_replay import Replayed, replay

__all__ = ["EventBuilder", "Replayed", "replay"]

_HOMES = {
    "EventBuilder": "event_builder",
    "Replayed": "transcript_replay",
    "replay": "transcript_replay",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
