"""What each provider accepts, repair of a transcript, and where one may be split."""

from unsay.messages.boundaries import keep_recent, safe_split
from unsay.messages.conformance import conform
from unsay.messages.tool_pairs import repair
from unsay.messages.validation import faults, validate

__all__ = ["conform", "faults", "keep_recent", "repair", "safe_split", "validate"]


def __dir__() -> list[str]:
    return sorted(__all__)
