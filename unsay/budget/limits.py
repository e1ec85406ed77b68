"""Budgets of a session, a task and an agent, and the check of a call against them.

Source: Zhang 2026, chapter 7.5 (three layers, three modes, a warning at 80 %).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

from unsay.budget.accounts import (
    LAYERS,
    AccountKey,
    Layer,
    Unit,
    UsageAccount,
    held,
    hold,
    knows,
    release,
    since_of,
    times_of,
    used_of,
    with_times,
)
from unsay.errors import BudgetExceededError, ConfigurationError
from unsay.settings.groups import BACKPRESSURE
from unsay.settings.settings import BudgetMode, Settings
from unsay.tokens.pricing import MICROS, Amount

Outcome = Literal["granted", "ask", "refused"]

# Factors of an agent's budget by its priority. Source: Shannon, budget manager.
PRIORITIES: Mapping[str, float] = MappingProxyType(
    {"critical": 2.0, "high": 1.5, "normal": 1.0, "low": 0.5}
)

# The end of a setting's name by unit.
_UNITS: Mapping[Unit, str] = MappingProxyType({"tokens": "tokens", "micros": "cost"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """The most that one layer may spend; `None` means no limit."""

    tokens: int | None = None
    micros: int | None = None  # cost in millionths of the prices' currency

    def __post_init__(self) -> None:
        for name, value in (("tokens", self.tokens), ("micros", self.micros)):
            if value is not None and (not isinstance(value, int) or value < 1):
                raise ConfigurationError(
                    f"A budget cannot have {name} {value!r}: write a whole number from 1, or None"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of the three layers, and what happens to a call that exceeds one."""

    session: Limit = Limit()
    task: Limit = Limit()
    agent: Limit = Limit()
    mode: BudgetMode = "ask"  # `hard` refuses the call, `ask` asks a person, `soft` warns
    warning: float = 0.8  # share of a limit from which a call gets a warning

    @property
    def is_set(self) -> bool:
        """Whether any layer has a limit."""
        return any(self.of(layer) != Limit() for layer in LAYERS)

    @property
    def counts_costs(self) -> bool:
        """Whether any layer has a limit in money."""
        return any(self.of(layer).micros is not None for layer in LAYERS)

    def of(self, layer: Layer) -> Limit:
        """Return the limit of the session, task or agent; an empty `Limit` if it has none."""
        limit: Limit = getattr(self, layer)
        return limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauge:
    """One limit of one layer, with what is used and what a call asks for; `check` makes it."""

    layer: Layer
    unit: Unit
    used: int  # before the call, including the holds of other calls
    asked: int  # what the call needs at most
    limit: int  # including a person's extensions
    since: str | None = None  # time of the first call in `used`, ISO 8601, UTC; `None` before one
    raised: int = 0  # the limit once a person allows the call

    @property
    def share(self) -> float:
        """Use as a share of the limit, from 0; above 1 the limit is exceeded."""
        return (self.used + self.asked) / self.limit

    @property
    def is_exceeded(self) -> bool:
        """Whether the call exceeds the limit; reaching it is allowed."""
        return self.used + self.asked > self.limit

    @property
    def setting(self) -> str:
        """Name of the setting with the limit, such as `session_budget_tokens`."""
        return f"{self.layer}_budget_{_UNITS[self.unit]}"

    def amount(self, number: int) -> str:
        """Return a number of the gauge as a person reads it, without its unit."""
        return f"{number:,}" if self.unit == "tokens" else f"{number / MICROS:g}"

    def __str__(self) -> str:
        usage, call_amount, limit = map(self.amount, (self.used, self.asked, self.limit))
        unit = " tokens" if self.unit == "tokens" else ""
        return (
            f"{self.layer} budget: {usage} used, {call_amount} for this call, limit {limit}{unit}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The result of `check`: whether a call has room in every layer."""

    outcome: Outcome
    gauges: tuple[Gauge, ...] = ()  # one for each limit, session before task before agent
    warnings: tuple[Gauge, ...] = ()  # gauges whose share reaches `Limits.warning`

    @property
    def usage(self) -> float:
        """The highest share, with the call included; it determines the backpressure. 0 without limits."""
        return max((gauge.share for gauge in self.gauges), default=0.0)

    @property
    def exceeded(self) -> tuple[Gauge, ...]:
        """The limits that the call would exceed."""
        return tuple(gauge for gauge in self.gauges if gauge.is_exceeded)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """The result of `reserve`: the check, and the account with the call's hold if it was granted."""

    account: UsageAccount
    check: Check


def limits_of(settings: Settings) -> Limits:
    """Return the limits of the settings; a cost becomes whole millionths, rounded down."""

    def limit(layer: Layer) -> Limit:
        cost = getattr(settings, f"{layer}_budget_cost")
        tokens = getattr(settings, f"{layer}_budget_tokens")
        return Limit(tokens=tokens, micros=None if cost is None else int(cost * MICROS + 1e-6))

    layers = {layer: limit(layer) for layer in LAYERS}
    return Limits(**layers, mode=settings.budget_mode, warning=settings.budget_warning)


def check(account: UsageAccount, limits: Limits, amount: Amount, *, place: AccountKey) -> Check:
    """Compare a call with the limits at its `place`; nothing is held.

    `amount` is for its prompt and its longest reply. Above a limit the outcome follows the mode:
    `refused`, `ask`, or in the mode `soft` still `granted`.
    """
    gauges = tuple(
        Gauge(
            layer=layer,
            unit=unit,
            used=(usage := getattr(used_of(account, layer, place), unit)),
            asked=(call_amount := getattr(amount, unit)),
            limit=most * times_of(account, layer, unit, place),
            since=since_of(account, layer, unit, place),
            # Rounded up: a person approves a call, so the new limit must have room for it.
            raised=most * -(-(usage + call_amount) // most),
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


def reserve(
    account: UsageAccount,
    limits: Limits,
    amount: Amount,
    *,
    key: str,
    place: AccountKey,
    at: str | None = None,
) -> Reservation:
    """Check a call at `place` and, if it is granted, hold its amount under `key`.

    `at` is the time, as for `hold`.

    A call that is repeated with the same key, for example after a crash, is granted and held once.
    """
    # Check and hold are one step, so that the second of two concurrent calls sees the first one's
    # hold; `unsay.llm.usage_account` makes the step atomic.
    if knows(account, key):
        limit_check = check(release(account, key), limits, held(account, key), place=place)
        return Reservation(account=account, check=replace(limit_check, outcome="granted"))
    limit_check = check(account, limits, amount, place=place)
    if limit_check.outcome != "granted":
        return Reservation(account=account, check=limit_check)
    return Reservation(
        account=hold(account, amount, key=key, place=place, at=at), check=limit_check
    )


def extend(
    account: UsageAccount, limits: Limits, amount: Amount, *, place: AccountKey
) -> UsageAccount:
    """Return the account with the limits of each exceeded layer multiplied, so that a call fits.

    The tokens and the cost of a layer get the same factor: the smallest whole number that is
    enough. `amount` and `place` are those of the approved call, which is not held here: `reserve`
    it afterwards. Extensions of tasks and agents end with the task.
    """
    times: dict[tuple[Layer, Unit], int] = {}
    for gauge in check(account, limits, amount, place=place).exceeded:
        own = getattr(limits.of(gauge.layer), gauge.unit)
        times[gauge.layer, gauge.unit] = gauge.raised // own
    return with_times(account, times, place) if times else account


def exceeded_settings(result: Check) -> list[str]:
    """Return the names of the settings whose limits are exceeded, each once; maybe none."""
    return sorted({gauge.setting for gauge in result.exceeded})


def demand(result: Check) -> None:
    """Raise a `BudgetExceededError` with each exceeded limit if the check refused the call.

    Nothing happens if the outcome is `granted` or `ask`.
    """
    if result.outcome != "refused":
        return
    raise BudgetExceededError(
        f"The model was not asked: {'; '.join(map(str, result.exceeded))}. Raise "
        f"{' and '.join(exceeded_settings(result))}, set budget_mode to 'ask' or 'soft', or begin a new "
        f"{result.exceeded[0].layer}"
    )


def allotment(tokens: int, priority: str, table: Mapping[str, float] = PRIORITIES) -> int:
    """Return an agent's budget in tokens by its priority; an unknown priority counts as normal.

    `table` has the factor of each priority. It is for hosts, which give the result as
    `agent_budget_tokens`.
    """
    return int(tokens * table.get(priority, 1.0))


Pressure = Literal["low", "medium", "high", "critical"]
Step = tuple[float, int]  # from this share of a budget on, a call waits this many milliseconds

# Source: Shannon, budget manager, `calculatePressureLevel`.
_LEVELS: tuple[tuple[float, Pressure], ...] = ((0.9, "critical"), (0.75, "high"), (0.5, "medium"))


def delay_ms(usage: float, steps: Sequence[Step] = BACKPRESSURE) -> int:
    """Return for how many milliseconds a call waits at a share of a budget; 0 below the first step."""
    return max((delay for share, delay in steps if usage >= share), default=0)


def pressure(usage: float) -> Pressure:
    """Return the name of the pressure for a share of a budget: `low` to `critical`.

    It is shown to users with the delay.
    """
    return next((word for share, word in _LEVELS if usage >= share), "low")
