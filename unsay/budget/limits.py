"""What a session, a task and an agent may spend, and whether a call has room.

Checking and booking are one step, so that of two calls that come at the same time the second
finds what the first has taken; `unsay.llm.usage_account` makes that step atomic.

Source:
    Zhang 2026, chapter 7.5 (three layers, three modes, a warning at 80 %).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

from unsay.budget.accounts import (
    LAYERS,
    Book,
    Layer,
    Place,
    account_of,
    held,
    hold,
    knows,
    release,
    used_of,
    with_times,
)
from unsay.errors import BudgetExceededError, ConfigurationError
from unsay.settings import BACKPRESSURE, BudgetMode, Settings
from unsay.tokens.pricing import MICROS, Amount

Unit = Literal["tokens", "micros"]
Outcome = Literal["granted", "ask", "refused"]

PRIORITIES: Mapping[str, float] = MappingProxyType(
    {"critical": 2.0, "high": 1.5, "normal": 1.0, "low": 0.5}
)
"""By how much an agent's priority widens its budget. Source: Shannon, budget manager."""

_UNITS: Mapping[Unit, str] = MappingProxyType({"tokens": "tokens", "micros": "cost"})
"""By unit, how its settings end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """The most that one layer may spend; `None` is no limit."""

    tokens: int | None = None
    micros: int | None = None
    """Cost in millionths of the prices' currency."""

    def __post_init__(self) -> None:
        for name, value in (("tokens", self.tokens), ("micros", self.micros)):
            if value is not None and (not isinstance(value, int) or value < 1):
                raise ConfigurationError(
                    f"A budget cannot have {name} {value!r}: write a whole number from 1, or None"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What the three layers may spend, and what happens when one has spent it."""

    session: Limit = Limit()
    task: Limit = Limit()
    agent: Limit = Limit()
    mode: BudgetMode = "ask"
    """`hard` refuses a call that goes over, `ask` wants a person's word first, `soft` warns."""

    warning: float = 0.8
    """From this share on, that share included, a call is granted with a warning."""

    @property
    def is_set(self) -> bool:
        """Whether any layer has a limit."""
        return any(self.of(layer) != Limit() for layer in LAYERS)

    def of(self, layer: Layer) -> Limit:
        """The limit of one layer."""
        return {"session": self.session, "task": self.task, "agent": self.agent}[layer]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauge:
    """Where one limit of one layer stands once a call is made."""

    layer: Layer
    unit: Unit
    used: int
    """Before the call, with what other calls hold."""

    asked: int
    limit: int
    """With a person's extensions."""

    @property
    def share(self) -> float:
        """From 0; over 1 the limit is exceeded."""
        return (self.used + self.asked) / self.limit

    @property
    def is_exceeded(self) -> bool:
        """Whether the call goes over; exactly to the limit is within it."""
        return self.used + self.asked > self.limit

    def __str__(self) -> str:
        if self.unit == "tokens":
            return f"{self.layer} budget: {self.used} + {self.asked} of {self.limit} tokens"
        used, asked, limit = (n / MICROS for n in (self.used, self.asked, self.limit))
        return f"{self.layer} budget: {used:g} + {asked:g} of {limit:g} in cost"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """Whether a call has room in every layer."""

    outcome: Outcome
    gauges: tuple[Gauge, ...] = ()
    """Each limit that is set, session before task before agent."""

    warnings: tuple[Gauge, ...] = ()
    """Those at or over the share of warning."""

    @property
    def usage(self) -> float:
        """The highest share, which backpressure goes by; 0 without limits."""
        return max((gauge.share for gauge in self.gauges), default=0.0)

    @property
    def exceeded(self) -> tuple[Gauge, ...]:
        """The limits that the call would go over."""
        return tuple(gauge for gauge in self.gauges if gauge.is_exceeded)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """A check, and the book with the call in it if it was granted."""

    book: Book
    """As it was where the call was not granted, or is in it already."""

    check: Check
    known: bool = False
    """Whether the key was in the book already: nothing was booked a second time."""


def limits_of(settings: Settings) -> Limits:
    """The limits that the settings name; costs in millionths, rounded down."""

    def limit(layer: Layer) -> Limit:
        cost = getattr(settings, f"{layer}_budget_cost")
        tokens = getattr(settings, f"{layer}_budget_tokens")
        return Limit(tokens=tokens, micros=None if cost is None else int(cost * MICROS + 1e-6))

    return Limits(
        session=limit("session"),
        task=limit("task"),
        agent=limit("agent"),
        mode=settings.budget_mode,
        warning=settings.budget_warning,
    )


def check(book: Book, limits: Limits, amount: Amount, *, place: Place) -> Check:
    """Whether a call has room; nothing is booked.

    `amount` is the most that the call may come to: its prompt and the longest reply.
    """
    gauges = tuple(
        Gauge(
            layer=layer,
            unit=unit,
            used=getattr(used_of(book, layer, place), unit),
            asked=getattr(amount, unit),
            limit=most * account_of(book, layer, place)["times"],
        )
        for layer in LAYERS
        for unit in _UNITS
        if (most := getattr(limits.of(layer), unit)) is not None
    )
    over = any(gauge.is_exceeded for gauge in gauges)
    outcomes: dict[BudgetMode, Outcome] = {"hard": "refused", "ask": "ask", "soft": "granted"}
    return Check(
        outcome=outcomes[limits.mode] if over else "granted",
        gauges=gauges,
        warnings=tuple(gauge for gauge in gauges if gauge.share >= limits.warning),
    )


def reserve(book: Book, limits: Limits, amount: Amount, *, key: str, place: Place) -> Reservation:
    """Check a call and, if it is granted, hold what it may come to: one step.

    A hard limit holds as far as no call comes to more than `amount`. A call with the same key, made
    again after a crash, is held once.
    """
    if knows(book, key):
        found = check(release(book, key), limits, held(book, key), place=place)
        return Reservation(book=book, check=replace(found, outcome="granted"), known=True)
    found = check(book, limits, amount, place=place)
    if found.outcome != "granted":
        return Reservation(book=book, check=found)
    return Reservation(book=hold(book, amount, key=key, place=place), check=found)


def extend(book: Book, limits: Limits, amount: Amount, *, place: Place) -> Book:
    """The book after a person's yes: each exceeded limit counts as often as the call needs.

    A task's and an agent's extension end with the task. The call itself is not booked: it is
    reserved again, and then has room.
    """
    times: dict[Layer, int] = {}
    for gauge in check(book, limits, amount, place=place).exceeded:
        own = gauge.limit // account_of(book, gauge.layer, place)["times"]
        needed = -(-(gauge.used + gauge.asked) // own)
        times[gauge.layer] = max(times.get(gauge.layer, 1), needed)
    return with_times(book, times, place) if times else book


def demand(found: Check) -> None:
    """Let a call through that is not refused.

    Raises:
        BudgetExceededError: It is; the message names each limit, and what may be done.
    """
    if found.outcome != "refused":
        return
    names = sorted({f"{each.layer}_budget_{_UNITS[each.unit]}" for each in found.exceeded})
    raise BudgetExceededError(
        f"The model was not asked: {'; '.join(map(str, found.exceeded))}. Raise "
        f"{' and '.join(names)}, set budget_mode to 'ask' or 'soft', or begin a new "
        f"{found.exceeded[0].layer}"
    )


def allotment(tokens: int, priority: str, table: Mapping[str, float] = PRIORITIES) -> int:
    """An agent's budget by its priority; one that the table lacks counts as normal."""
    return int(tokens * table.get(priority, 1.0))


Pressure = Literal["low", "medium", "high", "critical"]
Step = tuple[float, int]
"""From this share of a budget on, a call waits this many milliseconds."""

_LEVELS: tuple[tuple[float, Pressure], ...] = ((0.9, "critical"), (0.75, "high"), (0.5, "medium"))
"""Source: Shannon, budget manager, calculatePressureLevel."""


def delay_ms(usage: float, steps: Sequence[Step] = BACKPRESSURE) -> int:
    """How many milliseconds a call waits: the longest of the steps at or under the usage, else 0."""
    return max((delay for share, delay in steps if usage >= share), default=0)


def pressure(usage: float) -> Pressure:
    """How close a budget is to its end, in one word."""
    return next((word for share, word in _LEVELS if usage >= share), "low")
