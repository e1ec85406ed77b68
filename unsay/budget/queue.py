"""The queue before the models as a value: every step gives a new one, and nothing waits here."""

from dataclasses import dataclass, replace
from typing import Literal

from unsay.errors import ConfigurationError

Reception = Literal["inside", "waiting", "refused"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """The calls that stand before a model, by their tickets."""

    places: int
    most_waiting: int | None
    """How many may wait; 0 refuses those who do not get in at once, `None` refuses nobody."""

    inside: frozenset[int] = frozenset()
    waiting: tuple[int, ...] = ()
    """Who waits, the next one first."""

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

    def joined(self, ticket: int) -> "Line":
        """The line with one more caller, behind those who wait; the same line where it is refused."""
        if len(self.inside) < self.places:
            return replace(self, inside=self.inside | {ticket})
        if self.most_waiting is None or len(self.waiting) < self.most_waiting:
            return replace(self, waiting=(*self.waiting, ticket))
        return self

    def left(self, ticket: int) -> "Line":
        """The line without one, who was in or gave up waiting; who waits longest moves up."""
        inside = self.inside - {ticket}
        waiting = tuple(each for each in self.waiting if each != ticket)
        free = max(0, self.places - len(inside))
        return replace(self, inside=inside | set(waiting[:free]), waiting=waiting[free:])

    def reception(self, ticket: int) -> Reception:
        """How a ticket stands: one that was refused is in no line."""
        if ticket in self.inside:
            return "inside"
        return "waiting" if ticket in self.waiting else "refused"
