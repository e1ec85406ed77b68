"""The queue of model calls as a value: every step returns a new queue."""

from dataclasses import dataclass, replace
from typing import Literal

from unsay.errors import ConfigurationError

Reception = Literal["running", "waiting", "refused"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitQueue:
    """Calls that run or wait, each with a ticket number that the caller chooses."""

    places: int  # most calls that run at the same time
    max_waiting: int | None  # `None` sets no limit
    running: frozenset[int] = frozenset()  # calls that run
    waiting: tuple[int, ...] = ()  # the call that runs next comes first

    def __post_init__(self) -> None:
        for name, least in (("places", 1), ("max_waiting", 0)):
            value = getattr(self, name)
            unlimited = value is None and name == "max_waiting"
            if not unlimited and (
                not isinstance(value, int) or isinstance(value, bool) or value < least
            ):
                raise ConfigurationError(
                    f"A queue cannot have {name} {value!r}: write a whole number from {least}"
                )

    def joined(self, ticket: int) -> "WaitQueue":
        """Return the queue in which the call runs or waits; the same queue if it is refused."""
        if len(self.running) < self.places:
            return replace(self, running=self.running | {ticket})
        if self.max_waiting is None or len(self.waiting) < self.max_waiting:
            return replace(self, waiting=(*self.waiting, ticket))
        return self

    def left(self, ticket: int) -> "WaitQueue":
        """Return the queue without a call that has ended; those that wait longest take its place."""
        running = self.running - {ticket}
        waiting = tuple(other for other in self.waiting if other != ticket)
        free = max(0, self.places - len(running))
        return replace(self, running=running | set(waiting[:free]), waiting=waiting[free:])

    def reception(self, ticket: int) -> Reception:
        """Return `running`, `waiting`, or `refused` for a ticket that the queue does not have."""
        if ticket in self.running:
            return "running"
        return "waiting" if ticket in self.waiting else "refused"
