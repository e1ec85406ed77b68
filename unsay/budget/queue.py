"""The queue of calls to the models as a value: every step returns a new one."""

from dataclasses import dataclass, replace
from typing import Literal

from unsay.errors import ConfigurationError

Reception = Literal["inside", "waiting", "refused"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitQueue:
    """Calls that run or wait, by their tickets."""

    places: int
    most_waiting: int | None  # `None` sets no limit
    inside: frozenset[int] = frozenset()
    waiting: tuple[int, ...] = ()  # the next one first

    def __post_init__(self) -> None:
        for name, least in (("places", 1), ("most_waiting", 0)):
            value = getattr(self, name)
            unlimited = value is None and name == "most_waiting"
            if not unlimited and (
                not isinstance(value, int) or isinstance(value, bool) or value < least
            ):
                raise ConfigurationError(
                    f"A waiting line cannot have {name} {value!r}: write a whole number from {least}"
                )

    def joined(self, ticket: int) -> "WaitQueue":
        """Return the line with one more call; the same line if it is refused."""
        if len(self.inside) < self.places:
            return replace(self, inside=self.inside | {ticket})
        if self.most_waiting is None or len(self.waiting) < self.most_waiting:
            return replace(self, waiting=(*self.waiting, ticket))
        return self

    def left(self, ticket: int) -> "WaitQueue":
        """Return the line without a call that ended or gave up; those that wait longest move up."""
        inside = self.inside - {ticket}
        waiting = tuple(each for each in self.waiting if each != ticket)
        free = max(0, self.places - len(inside))
        return replace(self, inside=inside | set(waiting[:free]), waiting=waiting[free:])

    def reception(self, ticket: int) -> Reception:
        """Return the state of a ticket; a refused one is not in the line."""
        if ticket in self.inside:
            return "inside"
        return "waiting" if ticket in self.waiting else "refused"
