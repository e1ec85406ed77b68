"""The circuit breaker: closed, open, half-open."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from unsay.budget.limits import Circuit, CircuitPolicy, CircuitState

POLICY = CircuitPolicy(failures=3, reset_seconds=60.0, probes=2)
OPEN = Circuit(policy=POLICY).failed(1.0).failed(2.0).failed(3.0)


def test_failures_in_a_row_open_it() -> None:
    """The last of them, and not before."""
    circuit = Circuit(policy=POLICY)
    states: list[CircuitState] = []
    for seconds in range(4):
        states.append(circuit.state(seconds))
        circuit = circuit.failed(seconds)

    assert ["closed", "closed", "closed", "open"] == states


def test_an_answer_between_failures_restarts_the_count() -> None:
    """They must be in a row."""
    circuit = Circuit(policy=POLICY).failed(1).failed(2).succeeded(3).failed(4).failed(5)

    assert "closed" == circuit.state(6)
    assert "open" == circuit.failed(6).state(6)


@pytest.mark.parametrize(
    ("seconds", "state", "is_admitted"),
    [(3.0, "open", False), (62.9, "open", False), (63.0, "half-open", True)],
)
def test_an_open_circuit_lets_nothing_through_until_its_time(
    seconds: float,
    state: CircuitState,
    is_admitted: bool,  # noqa: FBT001 - a column of the table
) -> None:
    """Then it is half-open."""
    assert (state, is_admitted) == (OPEN.state(seconds), OPEN.admit(seconds) is not None)


def test_failures_while_open_do_not_keep_it_open() -> None:
    """They are of calls that were made before."""
    assert OPEN is OPEN.failed(50.0)
    assert OPEN is OPEN.succeeded(50.0)


def test_half_open_lets_only_probes_through() -> None:
    """As many as the policy says, whether or not they have answered."""
    first = OPEN.admit(63.0)
    second = first.admit(63.0)

    assert second.admit(64.0) is None
    assert second.succeeded(65.0).admit(65.0) is None


def test_probes_that_answer_close_it() -> None:
    """All of them; it then counts failures from none."""
    probing = OPEN.admit(63.0).admit(63.0)
    closed_circuit = probing.succeeded(64.0).succeeded(65.0)

    assert ["half-open", "closed"] == [
        probing.succeeded(64.0).state(64.0),
        closed_circuit.state(65.0),
    ]
    assert "closed" == closed_circuit.failed(66.0).failed(67.0).state(67.0)


def test_a_probe_that_fails_opens_it_again() -> None:
    """It stays open for the whole time again, after any result of another probe."""
    open_circuit = OPEN.admit(63.0).admit(63.0).succeeded(64.0).failed(65.0)

    assert ["open", "open", "half-open"] == [
        open_circuit.state(seconds) for seconds in (65.0, 124.9, 125.0)
    ]
    assert open_circuit.admit(125.0).admit(125.0) is not None


def test_a_probe_that_was_broken_off_gives_its_place_back() -> None:
    """Its caller went away; nothing was learned."""
    probing = OPEN.admit(63.0).admit(63.0)
    free_circuit = probing.withdrawn(period=probing.period)

    assert [True, False] == [trial.admit(64.0) is None for trial in (probing, free_circuit)]


def test_a_probe_that_answered_gives_nothing_back() -> None:
    """Only what is under way can be broken off."""
    closed_circuit = OPEN.admit(63.0).succeeded(64.0)

    assert closed_circuit is closed_circuit.withdrawn()


def test_a_probe_of_which_nothing_is_heard_gives_its_place_up() -> None:
    """After as long as the circuit was open; its late news then counts no more."""
    trial = OPEN.admit(63.0).admit(63.0)
    early_trial = trial.admit(122.9)
    late = trial.admit(123.0)

    assert [True, False] == [early_trial is None, late is None]
    assert late is late.failed(124.0, period=trial.period)


def test_an_answer_is_remembered_while_another_probe_is_waited_for() -> None:
    """A model that is seldom asked closes its circuit as well."""
    circuit = OPEN.admit(63.0).succeeded(64.0)
    seldom = circuit.admit(500.0).succeeded(501.0)

    assert "closed" == seldom.state(501.0)


@pytest.mark.parametrize("news", ["succeeded", "failed", "withdrawn"])
def test_news_from_before_it_opened_changes_nothing(news: str) -> None:
    """A call that was let through while it was closed says nothing of the probes."""
    before = Circuit(policy=POLICY).admit(0.0)
    probing = OPEN.admit(63.0)
    tell: Any = getattr(probing, news)
    arguments = () if news == "withdrawn" else (64.0,)

    assert probing is tell(*arguments, period=before.period)


class CircuitMachine(RuleBasedStateMachine):
    """Calls begin and end in any order while time passes."""

    def __init__(self) -> None:
        super().__init__()
        self.circuit = Circuit(policy=POLICY)
        self.now = 0.0
        self.calls: list[int] = []

    @rule(seconds=st.sampled_from([0.5, 10.0, 59.5, 61.0]))
    def wait(self, seconds: float) -> None:
        """Time passes."""
        self.now += seconds

    @rule()
    def begin(self) -> None:
        """A call asks to be made."""
        state = self.circuit.state(self.now)
        trial = self.circuit.admit(self.now)
        assert (state == "closed") <= (trial is not None)
        assert (state == "open") <= (trial is None)
        if trial is not None:
            self.circuit = trial
            self.calls.append(trial.period)

    @rule(index=st.integers(0, 50), news=st.sampled_from(["succeeded", "failed", "withdrawn"]))
    def end(self, index: int, news: str) -> None:
        """A call that was made ends, perhaps long after."""
        if not self.calls:
            return
        period = self.calls.pop(index % len(self.calls))
        before = self.circuit
        state = self.circuit.state(self.now)
        tell: Any = getattr(before, news)
        arguments = () if news == "withdrawn" else (self.now,)
        self.circuit = tell(*arguments, period=period)
        if period != before.period:
            assert before is self.circuit
        elif news == "failed" and state == "half-open":
            assert "open" == self.circuit.state(self.now)
        elif news != "failed" and state == "closed":
            assert "closed" == self.circuit.state(self.now)

    @invariant()
    def probes_are_bounded(self) -> None:
        """While it is half-open, at most the number of probes are running or answered."""
        if self.circuit.state(self.now) != "closed":
            current = sum(period == self.circuit.period for period in self.calls)
            assert current + self.circuit.answers <= POLICY.probes
            assert self.circuit.answers < POLICY.probes

    @invariant()
    def it_is_closed_only_under_its_failures(self) -> None:
        """A closed circuit has fewer failures in a row than open it, an open one counts none."""
        assert self.circuit.failures < POLICY.failures
        assert (self.circuit.opened_at is None) or 0 == self.circuit.failures

    @invariant()
    def time_always_lets_a_call_through(self) -> None:
        """No circuit stays open for ever, even if a caller disappears."""
        much_later = self.now + 2 * POLICY.reset_seconds
        assert self.circuit.admit(much_later) is not None


TestCircuitMachine = CircuitMachine.TestCase


@given(
    failures=st.integers(1, 6),
    probes=st.integers(1, 4),
    reset=st.floats(0.01, 1_000),
)
def test_a_model_that_is_well_again_serves_everybody(
    failures: int, probes: int, reset: float
) -> None:
    """Under every policy: the number of failures, the time, the number of answers."""
    circuit = Circuit(policy=CircuitPolicy(failures=failures, reset_seconds=reset, probes=probes))
    for _ in range(failures):
        circuit = circuit.failed(0.0)
    assert circuit.admit(reset / 2) is None
    for _ in range(probes):
        trial = circuit.admit(reset)
        assert trial is not None
        circuit = trial.succeeded(reset, period=trial.period)

    assert Circuit(policy=circuit.policy, period=2) == circuit
