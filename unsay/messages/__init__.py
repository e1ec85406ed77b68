"""What each provider accepts, repair of a transcript, and where one may be split."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unsay.messages.boundaries import keep_recent, safe_cut
    from unsay.messages.conformance import conform
    from unsay.messages.tool_pairs import repair
    from unsay.messages.validation import faults, validate

__all__ = ["conform", "faults", "keep_recent", "repair", "safe_cut", "validate"]

_HOMES = {
    "conform": "conformance",
    "faults": "validation",
    "keep_recent": "boundaries",
    "repair": "tool_pairs",
    "safe_cut": "boundaries",
    "validate": "validation",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
