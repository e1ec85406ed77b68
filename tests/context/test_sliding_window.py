"""The sliding window."""

from typing import Any

import pytest
from langchain_core.messages import AnyMessage

from tests.context.strategy_kit import ids, plan_context, transcript_of
from tests.context.test_strategies_tool_results import LONG, steps
from unsay.context.compaction import shortened
from unsay.context.strategy import plan_if_due, reduce_context
from unsay.context.windows import SlidingWindow
from unsay.effects import drive
from unsay.errors import ConfigurationError, ContextOverflowError
from unsay.messages.conformance import OPENING_ID


@pytest.mark.parametrize(
    ("shape", "window", "shown_ids"),
    [
        pytest.param("uaua", 4, ["m0", "m1", "m2", "m3"], id="it fits"),
        pytest.param("uauau", 3, ["m2", "m3", "m4"], id="whole turns"),
        pytest.param("uauau", 2, ["m4"], id="from the user's words on"),
        pytest.param("suauau", 3, ["m0", "m3", "m4", "m5"], id="instructions do not count"),
        pytest.param("ucaucau", 4, ["m6"], id="steps are not parted"),
        pytest.param(
            "ucccc", 5, ["m0", "m3", "m3-result", "m4", "m4-result"], id="the running question"
        ),
        pytest.param("uacca", 3, ["m0", "m4"], id="the newest question before an answer's end"),
        pytest.param("uaua", 1, ["m2", "m3"], id="at least the newest turn"),
        pytest.param("cccc", 4, [OPENING_ID, "m3", "m3-result"], id="no question at all"),
        pytest.param("c", 1, ["m0", "m0-result"], id="no place to cut"),
        pytest.param("ua", 0, [], id="nothing"),
        pytest.param("uau", 0, ["m2"], id="nothing but what is asked"),
        pytest.param("", 0, [], id="an empty transcript"),
    ],
)
def test_a_window_shows_the_newest(shape: str, window: int, shown_ids: list[str]) -> None:
    """In whole steps, begun by the user; the running question is always there."""
    plan = drive(plan_if_due(SlidingWindow(window_size=window), plan_context(transcript_of(shape))))

    assert shown_ids == ids(plan.messages)
    assert () == plan.problems


def test_pins_come_on_top() -> None:
    """The first messages by number, others by name; they are not counted."""
    ctx = plan_context(transcript_of("uauauaua"), pins=frozenset({"m4"}))
    plan = drive(plan_if_due(SlidingWindow(window_size=2, pin_first=1), ctx))

    assert ["m0", "m4", "m6", "m7"] == ids(plan.messages)


def test_a_routine_window_leaves_results_alone() -> None:
    """Results inside the window are shown whole."""
    ctx = plan_context(steps(LONG), window_tokens=10)
    plan = drive(plan_if_due(SlidingWindow(), ctx))

    assert ctx is plan.after


@pytest.mark.parametrize(
    ("shape", "overflows", "shown_ids"),
    [
        pytest.param("uauauauau", 1, ["m2", "m3", "m4", "m5", "m6", "m7", "m8"], id="a turn"),
        pytest.param("uauauauau", 2, ["m4", "m5", "m6", "m7", "m8"], id="half"),
        pytest.param("uauauauau", 3, ["m8"], id="all but the question"),
    ],
)
def test_each_overflow_takes_more(shape: str, overflows: int, shown_ids: list[str]) -> None:
    """Without a known window the steps grow, so that three are enough."""
    ctx = plan_context(transcript_of(shape), overflows=overflows)

    assert shown_ids == ids(drive(reduce_context(SlidingWindow(), ctx)).messages)


def test_an_overflow_of_a_known_window_takes_what_it_needs() -> None:
    """As much goes as makes it fit."""
    ctx = plan_context(
        transcript_of("ua" * 20 + "u", text="x" * 50), overflows=1, window_tokens=600
    )
    plan = drive(reduce_context(SlidingWindow(), ctx))

    assert plan.after.tokens < 600
    assert 5 <= len(plan.messages)


@pytest.mark.parametrize(
    ("messages", "options"),
    [
        pytest.param(
            transcript_of("uauaua"), {"pins": frozenset(f"m{i}" for i in range(6))}, id="all pinned"
        ),
        pytest.param(transcript_of("u"), {}, id="only the question"),
        pytest.param(transcript_of("s"), {}, id="only instructions"),
    ],
)
def test_an_overflow_that_cannot_be_helped_is_an_error(
    messages: list[AnyMessage], options: dict[str, Any]
) -> None:
    """And says what to do."""
    with pytest.raises(ContextOverflowError, match="must stay"):
        drive(
            reduce_context(
                SlidingWindow(window_size=2), plan_context(messages, overflows=1, **options)
            )
        )


@pytest.mark.parametrize(
    ("truncate_results", "removed_count", "short"),
    [pytest.param(True, 0, ["r0"], id="first"), pytest.param(False, 2, [], id="not at all")],
)
def test_results_are_shortened_before_messages_go(
    *, truncate_results: bool, removed_count: int, short: list[str]
) -> None:
    """Unless the window's setting says otherwise."""
    ctx = plan_context([*steps(LONG), *transcript_of("aua")], overflows=1)
    plan = drive(reduce_context(SlidingWindow(truncate_results=truncate_results), ctx))

    assert short == [m.id for m in plan.messages if shortened(m)]
    assert (removed_count > 0) == (len(plan.messages) < len(ctx.messages))


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"window_size": -1}, id="window"),
        pytest.param({"pin_first": -1}, id="pins"),
        pytest.param({"per_turn": 0}, id="never"),
        pytest.param({"per_turn": -5}, id="less than never"),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, int]) -> None:
    """With the value and what would be right."""
    with pytest.raises(ConfigurationError, match=str(next(iter(settings.values())))):
        SlidingWindow(**settings)  # type: ignore[arg-type]
