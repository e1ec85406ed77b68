"""What each provider accepts, repair of a transcript, and where one may be split."""

from unsay.messages.boundaries import keep_recent, repair, safe_split
from unsay.messages.conformance import conform, faults, validate

__all__ = ["conform", "faults", "keep_recent", "repair", "safe_split", "validate"]


def __dir__() -> list[str]:
    return sorted(__all__)
