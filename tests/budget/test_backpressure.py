"""Backpressure: how long a call waits when a budget comes to its end."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unsay.budget.limits import Pressure, Step, delay_ms, pressure
from unsay.settings.groups import BACKPRESSURE

USAGES = st.floats(0, 3)
STEPS = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 10_000)), max_size=6)


@pytest.mark.parametrize(
    ("usage", "delay"),
    [
        (0.0, 0),
        (0.5, 0),
        (0.79, 0),
        (799 / 1_000, 0),
        (0.8, 50),
        (800 / 1_000, 50),
        (0.849, 50),
        (0.85, 300),
        (0.89, 300),
        (0.9, 750),
        (0.949, 750),
        (0.95, 1_500),
        (0.999, 1_500),
        (1.0, 5_000),
        (7.5, 5_000),
    ],
)
def test_a_call_waits_the_longer_the_fuller_its_budget_is(usage: float, delay: int) -> None:
    """Each step holds from its share on."""
    assert delay == delay_ms(usage)


@pytest.mark.parametrize(
    ("steps", "usage", "delay"),
    [
        pytest.param([], 1.0, 0, id="no steps"),
        pytest.param([(0.5, 20)], 0.5, 20, id="an earlier step"),
        pytest.param([(0.5, 20)], 0.49, 0, id="before it"),
        pytest.param([(1.0, 9), (0.5, 3)], 0.6, 3, id="in another order"),
        pytest.param([(0.5, 0)], 0.7, 0, id="a step that does not wait"),
        pytest.param([(0.0, 7)], 0.0, 7, id="always"),
    ],
)
def test_the_steps_can_be_others(steps: list[Step], usage: float, delay: int) -> None:
    """Between a lowered first step and the next the first one's delay holds, not none."""
    assert delay == delay_ms(usage, steps)


@pytest.mark.parametrize(
    ("usage", "level"),
    [
        (0.0, "low"),
        (0.49, "low"),
        (0.5, "medium"),
        (0.74, "medium"),
        (0.75, "high"),
        (0.89, "high"),
        (0.9, "critical"),
        (2.0, "critical"),
    ],
)
def test_the_pressure_has_a_word(usage: float, level: Pressure) -> None:
    """Four of them, each from its share on."""
    assert level == pressure(usage)


@given(low=USAGES, increase=USAGES, steps=STEPS)
def test_a_fuller_budget_never_waits_less(low: float, increase: float, steps: list[Step]) -> None:
    """This holds for any steps in any order."""
    assert delay_ms(low, steps) <= delay_ms(low + increase, steps)


@given(usage=USAGES, steps=STEPS)
def test_a_wait_is_one_of_the_steps(usage: float, steps: list[Step]) -> None:
    """And none is longer than the longest."""
    assert delay_ms(usage, steps) in {0, *(delay for _, delay in steps)}


def test_the_steps_rise() -> None:
    """As the text that they come from has them."""
    assert all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(BACKPRESSURE))
