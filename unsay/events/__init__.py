"""What happened in a thread, as events, and the transcript that they lead to."""

from unsay.events.event_builder import EventBuilder
from unsay.events.transcript_replay import Replayed, replay

__all__ = ["EventBuilder", "Replayed", "replay"]


def __dir__() -> list[str]:
    return sorted(__all__)
