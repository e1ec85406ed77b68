"""Events of a thread: building them, and replaying them into the transcript."""

from unsay.events.event_builder import EventBuilder
from unsay.events.transcript_replay import Replayed, replay

__all__ = ["EventBuilder", "Replayed", "replay"]


def __dir__() -> list[str]:
    return sorted(__all__)
