"""Whole turns, and a summary for the others."""

import pytest

from tests.context.strategy_kit import Summarizer, ids, plan_context, transcript_of
from unsay.context.compaction import SUMMARY_ID
from unsay.context.strategy import plan_if_due, reduce_context
from unsay.context.summarizing import ByTurns
from unsay.effects import drive
from unsay.errors import ConfigurationError, ContextOverflowError


@pytest.mark.parametrize(
    ("settings", "shown_ids"),
    [
        pytest.param(
            {"compress_at_turns": 4, "keep_turns": 2},
            [SUMMARY_ID, "m4", "m5", "m6", "m7"],
            id="turns",
        ),
        pytest.param(
            {"compress_at_turns": 5, "keep_turns": 2}, [f"m{i}" for i in range(8)], id="too few"
        ),
        pytest.param(
            {"compress_at_tokens": 100, "keep_tokens": 100},
            [SUMMARY_ID, "m4", "m5", "m6", "m7"],
            id="tokens beside the newest turn",
        ),
        pytest.param(
            {"compress_at_tokens": 100, "keep_turns": 3, "keep_tokens": 10},
            [SUMMARY_ID, "m6", "m7"],
            id="both limits hold",
        ),
        pytest.param(
            {"compress_at_tokens": 999, "keep_turns": 1}, [f"m{i}" for i in range(8)], id="fits"
        ),
    ],
)
def test_whole_turns_are_kept(settings: dict[str, int], shown_ids: list[str]) -> None:
    """The newest ones stay, and a summary replaces the others."""
    ctx = plan_context(transcript_of("ua" * 4), ask=Summarizer().ask)

    assert shown_ids == ids(drive(plan_if_due(ByTurns(**settings), ctx)).messages)


def test_the_token_ceiling_is_exclusive() -> None:
    """A request of exactly this number of tokens is not changed."""
    ctx = plan_context(transcript_of("ua" * 4), ask=Summarizer().ask)
    at_ceiling = ByTurns(compress_at_tokens=ctx.tokens, keep_turns=1)
    over_ceiling = ByTurns(compress_at_tokens=ctx.tokens - 1, keep_turns=1)

    assert ctx is drive(plan_if_due(at_ceiling, ctx)).after
    assert ctx is not drive(plan_if_due(over_ceiling, ctx)).after


def test_a_ceiling_that_the_newest_turn_cannot_meet_is_told() -> None:
    """With the real cause; no summary is paid for."""
    model = Summarizer()
    ctx = plan_context(transcript_of("suaua"), overhead_tokens=1_000, ask=model.ask)
    plan = drive(plan_if_due(ByTurns(compress_at_tokens=1_010, keep_turns=1), ctx))

    assert ctx == plan.after
    assert "The newest turn" in str(plan.problems[0])
    assert [] == model.requests


def test_an_overflow_leaves_only_the_kept_turns() -> None:
    """Whether or not there is another reason to compress."""
    ctx = plan_context(transcript_of("ua" * 4), overflows=1, ask=Summarizer().ask)
    plan = drive(reduce_context(ByTurns(compress_at_turns=99, keep_turns=1), ctx))

    assert [SUMMARY_ID, "m6", "m7"] == ids(plan.messages)
    nothing = plan_context([], overflows=1)
    with pytest.raises(ContextOverflowError):
        drive(reduce_context(ByTurns(compress_at_tokens=1, keep_turns=1), nothing))


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"keep_turns": 1}, id="no trigger"),
        pytest.param({"compress_at_turns": 0, "compress_at_tokens": 0, "keep_turns": 1}, id="zero"),
        pytest.param({"compress_at_turns": 4}, id="nothing kept"),
        pytest.param({"compress_at_turns": 4, "keep_turns": 1, "per_turn": 0}, id="never due"),
        pytest.param({"compress_at_turns": 4, "keep_turns": 4}, id="all kept"),
        pytest.param({"compress_at_turns": 4, "keep_turns": -1}, id="less than nothing kept"),
    ],
)
def test_a_turn_policy_needs_a_trigger_and_something_to_keep(settings: dict[str, int]) -> None:
    """Else it is refused."""
    with pytest.raises(ConfigurationError):
        ByTurns(**settings)
