"""The circuit breaker: a model that fails several times in a row is not called for a while.

A circuit is a value; every transition returns a new one. Times are the caller's, in seconds.
"""

from dataclasses import dataclass, replace
from math import isfinite
from typing import Literal

from unsay.errors import ConfigurationError

CircuitState = Literal["closed", "open", "half-open"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CircuitPolicy:
    """When a circuit opens and how it closes."""

    failures: int = 5  # in a row, until it opens
    reset_seconds: float = 60.0  # after which an open circuit becomes half-open
    probes: int = 1  # calls that a half-open circuit lets through; it closes once all answered

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
    """The failures of one model; a new circuit is closed."""

    policy: CircuitPolicy
    failures: int = 0  # in a row, while it is closed
    opened_at: float | None = None  # `None` while it is closed
    probed_at: float | None = None  # time of the latest probe, `None` before the first
    probes: int = 0  # let through since it opened
    answers: int = 0  # to these probes
    period: int = 0  # counts the changes of state: news of a call from an earlier one is stale

    def state(self, now: float) -> CircuitState:
        """Return `closed`, `open`, or `half-open` after `reset_seconds`."""
        if self.opened_at is None:
            return "closed"
        return "half-open" if now - self.opened_at >= self.policy.reset_seconds else "open"

    def admit(self, now: float) -> "Admission":
        """Return whether a call may be made, and the circuit with that call."""
        state = self.state(now)
        if state == "closed":
            return Admission(circuit=self, admitted=True)
        circuit = self
        # The caller of a probe that did not report for `reset_seconds` is gone: free its place.
        lost = self.probed_at is not None and now - self.probed_at >= self.policy.reset_seconds
        if lost and self.probes > self.answers:
            circuit = replace(self, probes=self.answers, period=self.period + 1)
        if state == "open" or circuit.probes >= self.policy.probes:
            return Admission(circuit=circuit, admitted=False)
        probing = replace(circuit, probes=circuit.probes + 1, probed_at=now)
        return Admission(circuit=probing, admitted=True)

    def succeeded(self, now: float, *, period: int | None = None) -> "Circuit":
        """Return the circuit after an answer; `period` is that of the call's admission."""
        if self._is_stale(period) or self.state(now) == "open":
            return self
        if self.opened_at is None:
            return replace(self, failures=0)
        if self.answers + 1 >= self.policy.probes:
            return Circuit(policy=self.policy, period=self.period + 1)
        return replace(self, answers=self.answers + 1)

    def failed(self, now: float, *, period: int | None = None) -> "Circuit":
        """Return the circuit after a failure; one that is open does not stay open for longer."""
        state = self.state(now)
        if self._is_stale(period) or state == "open":
            return self
        if state == "closed" and self.failures + 1 < self.policy.failures:
            return replace(self, failures=self.failures + 1)
        return Circuit(policy=self.policy, opened_at=now, period=self.period + 1)

    def withdrawn(self, *, period: int | None = None) -> "Circuit":
        """Return the circuit after a call was cancelled: a probe's place is free again."""
        if self._is_stale(period) or self.probes <= self.answers:
            return self
        return replace(self, probes=self.probes - 1)

    def _is_stale(self, period: int | None) -> bool:
        return period is not None and period != self.period


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """Whether a call may be made, and the circuit with it."""

    circuit: Circuit
    admitted: bool

    @property
    def period(self) -> int:
        """The period to report the call's outcome with."""
        return self.circuit.period
