"""Circuit breaker: a model that fails several times in a row is not called for a while.

A circuit is a value; every transition returns a new one. `now` is the caller's clock in seconds.
"""

from dataclasses import dataclass, replace
from typing import Literal

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
