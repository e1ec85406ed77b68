"""What carrying out an order leads to, and how a verb loads what it needs."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from unsay.effects import Steps
from unsay.memory.offload import load_segments
from unsay.prompts.catalogue import Texts
from unsay.runtime import Scope
from unsay.state import StateDraft, Update

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome(Generic[T]):
    """What an order leads to; nothing is stored before the caller commits `update`.

    Attributes:
        result: What the order's method returns.
        notice: Returns what a person is told, in the texts of the door.
        update: Of the state; empty for an order that changes nothing.
    """

    result: T
    notice: Callable[[Texts], str]
    update: Update = field(default_factory=Update)


def load(
    draft: StateDraft, scope: Scope, ids: Collection[str | None] = (), turns: int = 0
) -> Steps[None]:
    """Load offloaded messages into the draft: those with `ids`, and a number of newest turns.

    The id `None` is the transcript's start. Raises `DatabaseCorruptError` for damaged messages.
    """
    draft.apply((yield from load_segments(draft.state, scope, ids, turns=turns)))
