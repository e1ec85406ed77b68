"""A circuit breaker: a model that fails again and again is left alone for a while.

A circuit is a value; every transition gives a new one. The clock is handed in.
"""

from dataclasses import dataclass, replace
from math import isfinite
from typing import Literal

from unsay.errors import ConfigurationError

CircuitState = Literal["closed", "open", "half-open"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CircuitPolicy:
    """When a circuit opens and how it closes."""

    failures: int = 5
    """How many failures in a row open it."""

    reset_seconds: float = 60.0
    """After so long an open circuit lets probes through."""

    probes: int = 1
    """How many calls a half-open circuit lets through; when so many answered, it closes."""

    def __post_init__(self) -> None:
        for name in ("failures", "probes"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ConfigurationError(
                    f"A circuit cannot have {name} {value!r}: write a whole number from 1"
                )
        if not (isfinite(self.reset_seconds) and self.reset_seconds > 0):
            raise ConfigurationError(
                f"A circuit cannot have reset_seconds {self.reset_seconds!r}: write a time over 0"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Circuit:
    """What is known of one model's failures; new ones are closed."""

    policy: CircuitPolicy
    failures: int = 0
    """In a row, while it is closed."""

    opened_at: float | None = None
    """When it opened, by the caller's clock; `None` while it is closed."""

    probed_at: float | None = None
    """When its latest probe went out; `None` before the first."""

    probes: int = 0
    """How many were let through since it opened."""

    answers: int = 0
    """How many of them answered."""

    period: int = 0
    """Counts the changes of state: news of a call from an earlier period is stale."""

    def state(self, now: float) -> CircuitState:
        """`closed`, `open`, or `half-open` once it has been open for long enough."""
        if self.opened_at is None:
            return "closed"
        return "half-open" if now - self.opened_at >= self.policy.reset_seconds else "open"

    def admit(self, now: float) -> "Admission":
        """Whether a call may be made, and the circuit with the call in it.

        A probe of which nothing is heard for as long as the circuit was open gives up its place:
        its caller is gone.
        """
        state = self.state(now)
        if state == "closed":
            return Admission(circuit=self, admitted=True, period=self.period)
        circuit = self
        lost = self.probed_at is not None and now - self.probed_at >= self.policy.reset_seconds
        if lost and self.probes > self.answers:
            circuit = replace(self, probes=self.answers, period=self.period + 1)
        if state == "open" or circuit.probes >= self.policy.probes:
            return Admission(circuit=circuit, admitted=False, period=circuit.period)
        probing = replace(circuit, probes=circuit.probes + 1, probed_at=now)
        return Admission(circuit=probing, admitted=True, period=circuit.period)

    def succeeded(self, now: float, *, period: int | None = None) -> "Circuit":
        """The circuit after an answer: closed, or closer to it.

        `period` is that of the call's admission; `None` is the present one.
        """
        if self._is_stale(period) or self.state(now) == "open":
            return self
        if self.opened_at is None:
            return replace(self, failures=0)
        if self.answers + 1 >= self.policy.probes:
            return Circuit(policy=self.policy, period=self.period + 1)
        return replace(self, answers=self.answers + 1)

    def failed(self, now: float, *, period: int | None = None) -> "Circuit":
        """The circuit after a failure: open, or closer to it.

        A failure while it is open is late news of a call from before; it does not stay open
        the longer for it.
        """
        state = self.state(now)
        if self._is_stale(period) or state == "open":
            return self
        if state == "closed" and self.failures + 1 < self.policy.failures:
            return replace(self, failures=self.failures + 1)
        return Circuit(policy=self.policy, opened_at=now, period=self.period + 1)

    def withdrawn(self, *, period: int | None = None) -> "Circuit":
        """The circuit after a call that was broken off: a probe's place is free again."""
        if self._is_stale(period) or self.probes <= self.answers:
            return self
        return replace(self, probes=self.probes - 1)

    def _is_stale(self, period: int | None) -> bool:
        return period is not None and period != self.period


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """What a circuit says to a call that wants to be made."""

    circuit: Circuit
    admitted: bool
    period: int
    """Goes with the news of how the call went."""
