"""Limits of calls: budgets of a session, a task and an agent; a queue, and a circuit breaker.

Source: Zhang 2026, chapter 7.5 (three layers, three modes, a warning at 80 %).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from types import MappingProxyType
from typing import Any, Literal

from unsay.budget import accounts
from unsay.errors import BudgetExceededError, ConfigurationError
from unsay.phrases import Phrase
from unsay.settings.groups import BACKPRESSURE
from unsay.settings.settings import BudgetMode, Settings
from unsay.tokens.pricing import MICROS, Amount

Outcome = Literal["granted", "ask", "refused"]

# Factors of an agent's budget by its priority. Source: Shannon, budget manager.
PRIORITIES: Mapping[str, float] = MappingProxyType(
    {"critical": 2.0, "high": 1.5, "normal": 1.0, "low": 0.5}
)

# The end of a setting's name by unit.
_UNITS: Mapping[accounts.Unit, str] = MappingProxyType({"tokens": "tokens", "micros": "cost"})


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
        return any(self.of(layer) != Limit() for layer in accounts.LAYERS)

    @property
    def counts_costs(self) -> bool:
        """Whether any layer has a limit in money."""
        return any(self.of(layer).micros is not None for layer in accounts.LAYERS)

    def of(self, layer: accounts.Layer) -> Limit:
        """Return the limit of the session, task or agent; an empty `Limit` if it has none."""
        limit: Limit = getattr(self, layer)
        return limit


NAMES: Mapping[accounts.Layer, Phrase] = {
    "session": Phrase(code="session"),
    "task": Phrase(code="task"),
    "agent": Phrase(code="agent"),
}
"""The layers in texts for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauge:
    """One limit of one layer, with what is used and what a call asks for; `check` makes it."""

    layer: accounts.Layer
    unit: accounts.Unit
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

    @property
    def phrase(self) -> Phrase:
        """The limit and its use in words."""
        usage, call_amount, limit = map(self.amount, (self.used, self.asked, self.limit))
        values: dict[str, Any] = {
            "layer": NAMES[self.layer],
            "used": usage,
            "asked": call_amount,
            "limit": limit,
        }
        if self.unit == "tokens":
            return Phrase(code="token_gauge", **values)
        return Phrase(code="gauge", **values)

    def __str__(self) -> str:
        return str(self.phrase)


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

    account: accounts.UsageAccount
    check: Check


def limits_of(settings: Settings) -> Limits:
    """Return the limits of the settings; a cost becomes whole millionths, rounded down."""

    def limit(layer: accounts.Layer) -> Limit:
        cost = getattr(settings, f"{layer}_budget_cost")
        tokens = getattr(settings, f"{layer}_budget_tokens")
        return Limit(tokens=tokens, micros=None if cost is None else int(cost * MICROS + 1e-6))

    layers = {layer: limit(layer) for layer in accounts.LAYERS}
    return Limits(**layers, mode=settings.budget_mode, warning=settings.budget_warning)


def check(
    account: accounts.UsageAccount, limits: Limits, amount: Amount, *, place: accounts.AccountKey
) -> Check:
    """Compare a call with the limits at its `place`; nothing is held.

    `amount` is for its prompt and its longest reply. Above a limit the outcome follows the mode:
    `refused`, `ask`, or in the mode `soft` still `granted`.
    """
    gauges = tuple(
        Gauge(
            layer=layer,
            unit=unit,
            used=(usage := getattr(accounts.used_of(account, layer, place), unit)),
            asked=(call_amount := getattr(amount, unit)),
            limit=most * accounts.times_of(account, layer, unit, place),
            since=accounts.since_of(account, layer, unit, place),
            # Rounded up: a person approves a call, so the new limit must have room for it.
            raised=most * -(-(usage + call_amount) // most),
        )
        for layer in accounts.LAYERS
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
    account: accounts.UsageAccount,
    limits: Limits,
    amount: Amount,
    *,
    key: str,
    place: accounts.AccountKey,
    at: str | None = None,
) -> Reservation:
    """Check a call at `place` and, if it is granted, hold its amount under `key`.

    `at` is the time, as for `hold`.

    A call that is repeated with the same key, for example after a crash, is granted and held once.
    """
    # Check and hold are one step, so that the second of two concurrent calls sees the first one's
    # hold; `unsay.llm.usage_account` makes the step atomic.
    if accounts.knows(account, key):
        limit_check = check(
            accounts.release(account, key), limits, accounts.held(account, key), place=place
        )
        return Reservation(account=account, check=replace(limit_check, outcome="granted"))
    limit_check = check(account, limits, amount, place=place)
    if limit_check.outcome == "granted":
        account = accounts.hold(account, amount, key=key, place=place, at=at)
    return Reservation(account=account, check=limit_check)


def extend(
    account: accounts.UsageAccount, limits: Limits, amount: Amount, *, place: accounts.AccountKey
) -> accounts.UsageAccount:
    """Return the account with the limits of each exceeded layer multiplied, so that a call fits.

    The tokens and the cost of a layer get the same factor: the smallest whole number that is
    enough. `amount` and `place` are those of the approved call, which is not held here: `reserve`
    it afterwards. Extensions of tasks and agents end with the task.
    """
    times: dict[tuple[accounts.Layer, accounts.Unit], int] = {}
    for gauge in check(account, limits, amount, place=place).exceeded:
        own = getattr(limits.of(gauge.layer), gauge.unit)
        times[gauge.layer, gauge.unit] = gauge.raised // own
    return accounts.with_times(account, times, place) if times else account


def exceeded_settings(result: Check) -> list[str]:
    """Return the names of the settings whose limits are exceeded, each once; maybe none."""
    return sorted({gauge.setting for gauge in result.exceeded})


def gauges_text(gauges: Iterable[Gauge]) -> Phrase:
    """Return the texts of gauges, of which there is at least one, in one text."""
    return reduce(
        lambda first, rest: Phrase("{first}; {rest}", first=first, rest=rest),
        (gauge.phrase for gauge in gauges),
    )


def settings_text(result: Check) -> Phrase:
    """Return the names of the settings whose limits are exceeded, at least one, in one text."""
    return reduce(
        lambda first, rest: Phrase(code="both", first=first, rest=rest),
        map(Phrase, exceeded_settings(result)),
    )


def demand(result: Check) -> None:
    """Raise a `BudgetExceededError` with each exceeded limit if the check refused the call.

    Nothing happens if the outcome is `granted` or `ask`.
    """
    if result.outcome != "refused":
        return
    raise BudgetExceededError(
        code="budget_exceeded",
        limits=gauges_text(result.exceeded),
        settings=settings_text(result),
        layer=NAMES[result.exceeded[0].layer],
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


Reception = Literal["running", "waiting", "refused"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitQueue:
    """Calls that run or wait, each with a ticket number that the caller chooses."""

    places: int  # most calls that run at the same time
    max_waiting: int | None  # `None` sets no limit
    running: frozenset[int] = frozenset()  # calls that run
    waiting: tuple[int, ...] = ()  # the call that runs next comes first

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


CircuitState = Literal["closed", "open", "half-open"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CircuitPolicy:
    """When a circuit opens and how it closes."""

    failures: int = 5  # failures in a row that open the circuit
    reset_seconds: float = 60.0  # after this time an open circuit becomes half-open
    probes: int = 1  # calls that a half-open circuit admits; it closes when all have succeeded


@dataclass(frozen=True, slots=True, kw_only=True)
class Circuit:
    """The circuit of one model, which counts its failures; a new circuit is closed. `Gate` keeps it."""

    policy: CircuitPolicy
    failures: int = 0  # failures in a row while the circuit is closed
    opened_at: float | None = None  # `None` while the circuit is closed
    probed_at: float | None = None  # time of the latest probe; `None` before the first
    probes: int = 0  # probes admitted since the circuit opened
    answers: int = 0  # probes that have succeeded
    period: int = 0  # number of state changes; outcomes of calls from an earlier period are ignored

    def state(self, now: float) -> CircuitState:
        """Return `closed` or `open`; `half-open` from `reset_seconds` after it opened.

        `now` is the time in seconds, by the same clock as for the other methods.
        """
        if self.opened_at is None:
            return "closed"
        return "half-open" if now - self.opened_at >= self.policy.reset_seconds else "open"

    def admit(self, now: float) -> "Circuit | None":
        """Return the circuit with a call admitted, or `None` if the call must not be made.

        Pass the `period` of the returned circuit to `succeeded`, `failed` or `withdrawn`
        afterwards.
        """
        if self.opened_at is None:
            return self
        if self.state(now) == "open":
            return None
        circuit = self
        # A caller that has not reported for `reset_seconds` has probably crashed: free its place.
        lost = self.probed_at is not None and now - self.probed_at >= self.policy.reset_seconds
        if lost and self.probes > self.answers:
            circuit = replace(self, probes=self.answers, period=self.period + 1)
        if circuit.probes >= self.policy.probes:
            return None
        return replace(circuit, probes=circuit.probes + 1, probed_at=now)

    def succeeded(self, now: float, *, period: int | None = None) -> "Circuit":
        """Return the circuit after a success: half-open, it closes after `policy.probes` successes.

        A closed one forgets its failures. `period` is that of the circuit after `admit`; `None` is
        the current one. An open circuit, and one of another period, is returned unchanged.
        """
        if self._is_stale(period) or self.state(now) == "open":
            return self
        if self.opened_at is None:
            return replace(self, failures=0)
        if self.answers + 1 >= self.policy.probes:
            return Circuit(policy=self.policy, period=self.period + 1)
        return replace(self, answers=self.answers + 1)

    def failed(self, now: float, *, period: int | None = None) -> "Circuit":
        """Return the circuit after a failure.

        A half-open one opens again, a closed one after `policy.failures` failures in a row. `period`
        is that of the circuit after `admit`; `None` is the current one. An open circuit, and one of
        another period, is returned unchanged.
        """
        state = self.state(now)
        if self._is_stale(period) or state == "open":
            return self
        if state == "closed" and self.failures + 1 < self.policy.failures:
            return replace(self, failures=self.failures + 1)
        return Circuit(policy=self.policy, opened_at=now, period=self.period + 1)

    def withdrawn(self, *, period: int | None = None) -> "Circuit":
        """Return the circuit after a call that says nothing about the model: it was cancelled, say.

        The place of a probe is free again. `period` is as for `succeeded`. A circuit of another
        period is returned unchanged.
        """
        if self._is_stale(period) or self.probes <= self.answers:
            return self
        return replace(self, probes=self.probes - 1)

    def _is_stale(self, period: int | None) -> bool:
        return period is not None and period != self.period
