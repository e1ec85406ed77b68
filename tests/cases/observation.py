"""What a case is and what its operation led to."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from langchain_core.messages import BaseMessage

from tests.cases.world import World

Case = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Observation:
    """What an operation led to."""

    value: Any = None
    """What it returned."""

    messages: Sequence[BaseMessage] | None = None
    """The message list that it made."""

    given: Sequence[BaseMessage] | None = None
    """The message list that it was given, where a case may expect it unchanged."""

    state: dict[str, Any] | None = None
    """Counters and attributes afterwards, by the names that cases use."""

    error: Exception | None = None
    """The error that it ended with; the other fields then describe what it left behind."""

    world: World | None = None
    worlds: dict[str, World] | None = None

    @property
    def model_calls(self) -> int | None:
        """Number of calls of the answering model; `None` for operations without one."""
        if self.world is not None:
            return len(self.world.model_inputs)
        return (self.state or {}).get("model_calls")

    @property
    def summarizer_calls(self) -> int | None:
        """Number of calls of the summarizer; `None` for operations without one."""
        if self.world is not None:
            return len(self.world.summarizer_inputs)
        return (self.state or {}).get("summarizer_calls")


Operation = Callable[[Case, Path], Observation]
