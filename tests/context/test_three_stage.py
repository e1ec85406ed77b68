"""Primers, summary, recents, and the shares and rhythms that decide when."""

import json
import logging
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

from tests.context.strategy_kit import Summarizer, count, ids, plan_context, transcript_of
from tests.context.test_strategies_tool_results import LONG, steps
from unsay.context.compaction import SUMMARY_ID, Compaction, shortened
from unsay.context.strategy import plan_if_due, reduce_context
from unsay.context.windows import Proactive, Rate, Ratios, ThreeStage
from unsay.effects import drive
from unsay.errors import ConfigurationError, ContextOverflowError, SummarizationError
from unsay.messages.content import text_of
from unsay.settings.groups import clamped

TRANSCRIPT = transcript_of("ua" * 30 + "u", text="x" * 50)
"""Sixty-one messages of about seventy tokens."""


def planned_at(share: float, strategy: ThreeStage, **options: Any) -> Any:
    """A plan where the conversation fills this share of the window."""
    model = options.pop("model", Summarizer())
    ctx = plan_context(
        TRANSCRIPT, window_tokens=int(count(TRANSCRIPT) / share), ask=model.ask, **options
    )
    return ctx, drive(plan_if_due(strategy, ctx))


@pytest.mark.parametrize(
    ("share", "folds"),
    [
        pytest.param(0.74, 0, id="under the trigger"),
        pytest.param(0.7505, 1, id="over it"),
        pytest.param(1.2, 1, id="over the window"),
    ],
)
def test_it_acts_at_its_trigger_and_stops_at_its_target(share: float, folds: int) -> None:
    """Between the two nothing is compacted."""
    ctx, plan = planned_at(share, ThreeStage(summary_tokens=50))

    assert folds == len(plan.compaction.get("spans", []))
    assert (folds == 0) == (plan.after is ctx)
    if folds:
        assert 0.30 < plan.after.utilization <= 0.5625


def test_primers_and_the_newest_stay() -> None:
    """A summary replaces the middle, and as much stays as the target allows."""
    _, plan = planned_at(0.8, ThreeStage(recents=4, summary_tokens=50))
    shown_ids = ids(plan.messages)

    assert ["m0", "m1", "m2", SUMMARY_ID] == shown_ids[:4]
    assert [f"m{i}" for i in range(61 - (len(shown_ids) - 4), 61)] == shown_ids[4:]
    assert 0.375 - 0.04 < plan.after.utilization <= 0.375


def test_recents_stay_where_they_leave_room() -> None:
    """Over the target by a little they are whole."""
    _, plan = planned_at(0.8, ThreeStage(recents=30, summary_tokens=50))

    assert [f"m{i}" for i in range(31, 61)] == ids(plan.messages)[4:]
    assert plan.after.utilization > 0.375


def test_recents_give_way_where_they_leave_none() -> None:
    """Otherwise every call would compact and pay for a summary."""
    _, plan = planned_at(0.8, ThreeStage(recents=55, summary_tokens=50))

    assert plan.after.utilization <= 0.375


def test_a_compaction_that_gains_little_waits() -> None:
    """What must stay may fill the window; no summary is paid for then."""
    model = Summarizer()
    pins = frozenset(f"m{i}" for i in range(5, 60))
    ctx, plan = planned_at(0.8, ThreeStage(), pins=pins, model=model)

    assert ctx is plan.after
    assert [] == model.requests


def test_a_compaction_lasts() -> None:
    """The next calls find nothing to do until the window has filled again."""
    model = Summarizer()
    strategy = ThreeStage(recents=4, summary_tokens=50)
    messages: list[AnyMessage] = []
    compaction: Compaction = {}
    compacted_at = []
    for turn in range(120):
        messages.append(HumanMessage(f"question {turn} " + "x" * 40, id=f"q{turn}"))
        ctx = plan_context(messages, compaction=compaction, window_tokens=4_000, ask=model.ask)
        plan = drive(plan_if_due(strategy, ctx))
        if plan.compaction != compaction:
            compacted_at.append(turn)
        compaction = json.loads(json.dumps(plan.compaction))
        assert plan.after.utilization < 0.76
        messages.append(AIMessage(f"answer {turn} " + "x" * 40, id=f"a{turn}"))

    assert len(compacted_at) == len(model.requests)
    assert min(b - a for a, b in pairwise(compacted_at)) >= 8


def test_a_failed_summary_changes_nothing_and_is_told() -> None:
    """The view stays over the trigger, and under the window."""
    down = Summarizer(replies=[ValueError("down")])
    ctx, plan = planned_at(0.8, ThreeStage(), model=down)

    assert ctx is plan.after
    assert [SummarizationError] == [type(problem) for problem in plan.problems]


def test_stale_results_are_cleared_before_anything_is_summarized() -> None:
    """Where that is enough no model is asked."""
    model = Summarizer()
    messages = steps(*[LONG] * 20)
    ctx = plan_context(messages, window_tokens=int(count(messages) / 0.8), ask=model.ask)
    plan = drive(plan_if_due(ThreeStage(), ctx))

    assert [f"r{i}" for i in range(15)] == [m.id for m in plan.messages if shortened(m)]
    assert [] == model.requests
    assert ids(messages) == ids(plan.messages)


def test_new_large_results_are_truncated_where_compaction_is_not_enough() -> None:
    """A result that fills the window alone does not stop the conversation."""
    messages = [*transcript_of("uaua"), *steps("x" * 8_000)]
    ctx = plan_context(messages, window_tokens=8_000, ask=Summarizer().ask)
    plan = drive(plan_if_due(ThreeStage(primers=0, recents=2), ctx))

    assert ["r0"] == [m.id for m in plan.messages if shortened(m) == "truncated"]
    assert plan.after.utilization < 0.75


@pytest.mark.parametrize(
    ("overflows", "shown_ids"),
    [
        pytest.param(1, ["m0", "m1", "m2", SUMMARY_ID, *(f"m{i}" for i in range(41, 61))], id="20"),
        pytest.param(2, ["m0", "m1", "m2", SUMMARY_ID, *(f"m{i}" for i in range(51, 61))], id="10"),
        pytest.param(3, ["m0", "m1", "m2", SUMMARY_ID, *(f"m{i}" for i in range(56, 61))], id="5"),
    ],
)
def test_each_overflow_leaves_fewer_recents(overflows: int, shown_ids: list[str]) -> None:
    """The middle is compacted even with an unknown window."""
    ctx = plan_context(TRANSCRIPT, overflows=overflows, ask=Summarizer().ask)

    assert shown_ids == ids(drive(reduce_context(ThreeStage(), ctx)).messages)


def test_an_overflow_of_a_known_window_goes_to_the_target() -> None:
    """Of the window, or of what was sent where the count was wrong; half of it the next time."""
    goals = []
    for overflows in (1, 2):
        ctx = plan_context(
            TRANSCRIPT, overflows=overflows, window_tokens=9_000, ask=Summarizer().ask
        )
        plan = drive(reduce_context(ThreeStage(summary_tokens=50), ctx))
        goals.append(plan.after.tokens / ctx.tokens)

    assert goals[0] <= 0.375
    assert goals[1] <= 0.1875


def test_a_short_conversation_of_long_messages_is_reduced_too() -> None:
    """Recents give way, then primers; the question stays."""
    ctx = plan_context(transcript_of("uauau", text="x" * 9_000), overflows=1, ask=Summarizer().ask)
    first = drive(reduce_context(ThreeStage(), ctx))
    second = drive(
        reduce_context(ThreeStage(), replace(ctx, compaction=first.compaction, overflows=3))
    )

    assert ["m0", "m1", "m2", SUMMARY_ID, "m4"] == ids(first.messages)
    assert [SUMMARY_ID, "m4"] == ids(second.messages)


def test_an_overflow_that_shorter_results_undo_compacts_nothing() -> None:
    """Where the window is known and the view fits it then, all that was said stays."""
    model = Summarizer()
    messages = [*TRANSCRIPT, *steps("x" * 3_000)[1:]]
    ctx = plan_context(messages, overflows=1, window_tokens=count(messages) - 500, ask=model.ask)
    plan = drive(reduce_context(ThreeStage(), ctx))

    assert ids(messages) == ids(plan.messages)
    assert ["r0"] == [m.id for m in plan.messages if shortened(m)]
    assert [] == model.requests


@pytest.mark.parametrize("shape", ["u", "s", "ua"])
def test_a_conversation_that_cannot_be_split_is_left_as_it_is(shape: str) -> None:
    """However full the window is."""
    ctx = plan_context(
        transcript_of(shape, text="x" * 900), window_tokens=100, ask=Summarizer().ask
    )

    assert ctx is drive(plan_if_due(ThreeStage(), ctx)).after


def test_an_overflow_does_without_a_summarizer_that_fails() -> None:
    """The user's own questions replace what is left out, and the failure is reported."""
    down = Summarizer(replies=[ValueError("down")])
    ctx = plan_context(TRANSCRIPT, overflows=1, ask=down.ask)
    plan = drive(reduce_context(ThreeStage(), ctx))

    assert "The user asked: question 4" in text_of(plan.messages[3])
    assert [SummarizationError] == [type(problem) for problem in plan.problems]


def test_an_overflow_of_what_must_stay_is_an_error() -> None:
    """There is nothing between the primers and the question, and the error says what to do."""
    pattern = r"smaller: There is no message between .* stay\. Unpin .*, or start a new thread$"
    with pytest.raises(ContextOverflowError, match=pattern):
        drive(
            reduce_context(
                ThreeStage(), plan_context(transcript_of("su"), overflows=3, ask=Summarizer().ask)
            )
        )


@pytest.mark.parametrize(
    ("compaction", "minutes", "acts"),
    [
        pytest.param({}, None, True, id="never before"),
        pytest.param({"length": 42, "minutes": 0.0}, 60.0, False, id="too few messages"),
        pytest.param({"length": 41, "minutes": 0.0}, 29.0, False, id="too early"),
        pytest.param({"length": 41, "minutes": 0.0}, 30.0, True, id="both"),
        pytest.param({"length": 41}, 30.0, True, id="no clock then"),
        pytest.param({"length": 41, "minutes": 0.0}, None, True, id="no clock now"),
        pytest.param({"length": 500, "minutes": 0.0}, 60.0, True, id="after a rollback"),
    ],
)
def test_a_rate_limits_how_often_it_acts(
    *, compaction: dict[str, Any], minutes: float | None, acts: bool
) -> None:
    """Messages are counted in the transcript, and the count survives as JSON."""
    stored_compaction = json.loads(json.dumps(compaction))
    ctx, plan = planned_at(
        0.8, ThreeStage(rate=Rate()), compaction=stored_compaction, minutes=minutes
    )

    assert acts == (plan.after is not ctx)


@pytest.mark.parametrize(
    ("settings", "kept_settings"),
    [
        pytest.param({"trigger_ratio": 0.99}, {"trigger": 0.95}, id="trigger too high"),
        pytest.param({"target_ratio": 0.05}, {"target": 0.1}, id="target too low"),
    ],
)
def test_shares_outside_their_limits_are_brought_in_and_told(
    settings: dict[str, float], kept_settings: dict[str, float], caplog: pytest.LogCaptureFixture
) -> None:
    """Never in silence."""
    with caplog.at_level(logging.WARNING):
        strategy = ThreeStage(**settings)  # type: ignore[arg-type]

    assert (
        kept_settings.items()
        <= {
            "trigger": strategy.ratios.trigger,
            "target": strategy.ratios.target,
        }.items()
    )
    assert [f"value={next(iter(settings.values()))!r}" in line for line in caplog.messages] == [
        True
    ]


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"trigger_ratio": 0.3}, id="target over trigger"),
        pytest.param({"trigger_ratio": float("nan")}, id="no number"),
        pytest.param({"per_turn": -1}, id="never"),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, Any]) -> None:
    """They would compact at every call, or at none."""
    with pytest.raises(ConfigurationError):
        ThreeStage(**settings)


def test_counts_outside_their_limits_are_brought_in() -> None:
    """Less than no primers are none."""
    strategy = ThreeStage(primers=-1, recents=5_000)

    assert (0, 1_000) == (strategy.primers, strategy.recents)
    assert 7 == clamped("x", 7, 0, 9)


@pytest.mark.parametrize(
    ("tokens", "window", "is_reached"),
    [
        pytest.param(699, 1_000, False, id="under"),
        pytest.param(700, 1_000, True, id="at"),
        pytest.param(None, 1_000, False, id="unknown"),
        pytest.param(139_999, None, False, id="under an assumed window's"),
        pytest.param(140_000, None, True, id="at an assumed window's"),
    ],
)
def test_a_threshold_is_a_share_of_the_window(
    *, tokens: int | None, window: int | None, is_reached: bool
) -> None:
    """Inclusive; an unknown window is taken for one of 200 000 tokens."""
    assert is_reached == Proactive().reached(tokens, window)


def test_an_assumed_window_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """By each that assumes it."""
    with caplog.at_level(logging.WARNING):
        for proactive in (Proactive(), Proactive()):
            for _ in range(3):
                proactive.reached(1, None)

    assert 2 == len(caplog.messages)


@pytest.mark.parametrize("threshold", [0, -0.1, 1.5, float("nan")])
def test_a_threshold_is_over_zero_and_up_to_one(threshold: float) -> None:
    """Anything else is refused."""
    with pytest.raises(ConfigurationError, match="threshold must be above 0"):
        Proactive(threshold=threshold)


@pytest.mark.parametrize(
    ("budget", "tokens", "is_reached", "goal"),
    [
        pytest.param(50_000, 37_499, False, 18_750, id="under"),
        pytest.param(50_000, 37_500, True, 18_750, id="at"),
        pytest.param(3, 3, True, 1, id="rounded down"),
    ],
)
def test_shares_of_a_budget(*, budget: int, tokens: int, is_reached: bool, goal: int) -> None:
    """Three quarters call for compression, three eighths are left."""
    assert (is_reached, goal) == (Ratios().reached(tokens, budget), Ratios().goal(budget))
