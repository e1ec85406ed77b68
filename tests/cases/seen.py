"""What a case is and what its operation led to."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from langchain_core.messages import BaseMessage

from tests.cases.world import World

Case = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What an operation led to."""

    value: Any = None
    """What it returned."""

    messages: Sequence[BaseMessage] | None = None
    """The message list that it made."""

    given: Sequence[BaseMessage] | None = None
    """The message list that it was given, where a case may expect it unchanged."""

    state: dict[str, Any] | None = None
    """Counters and attributes afterwards, by the names that cases use."""

    world: World | None = None
    worlds: dict[str, World] | None = None


Operation = Callable[[Case, Path], Seen]
