"""What may happen to a thread: a registry of steps."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that happens: a method of `Stage` and its arguments."""

    name: str
    given: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Step({self.name!r}, {self.given!r})"


STEPS: dict[str, dict[str, st.SearchStrategy[Any]]] = {}
"""Every step by name, and what its arguments are drawn from."""


OFTEN: list[str] = []
"""The steps that come about more often: each as many times more as it stands here."""


def step(
    often: int = 1, **drawn: st.SearchStrategy[Any]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a method of `Stage` something that may happen."""

    def noted(method: Callable[..., None]) -> Callable[..., None]:
        STEPS[method.__name__] = drawn
        OFTEN.extend([method.__name__] * often)
        return method

    return noted
