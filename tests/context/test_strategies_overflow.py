"""Overflows: told from other failures, and asked again with less."""

from typing import Any

import pytest

from tests.context.strategy_kit import Summarizer, ids, plan_context, transcript_of
from unsay.context.compaction import SUMMARY_ID
from unsay.context.plan import Plan, PlanContext
from unsay.context.strategy import (
    MAX_RETRIES,
    Null,
    Strategy,
    ask_with_strategy,
    is_context_overflow,
)
from unsay.context.topics import TopicScoped
from unsay.context.windows import ThreeStage
from unsay.effects import Call, Steps, adrive, drive
from unsay.errors import ContextOverflowError
from unsay.types import Segment

TOO_LONG = ValueError("prompt is too long: 205000 tokens > 200000 maximum")


class Model:
    """Ends its calls as scripted, and records its input."""

    def __init__(self, *ends: Any) -> None:
        self.ends = list(ends)
        self.sent: list[list[str | None]] = []

    def send(self, plan: Plan) -> Steps[Any]:
        """The call with a plan's view."""

        def reply() -> Any:
            self.sent.append(ids(plan.messages))
            end = self.ends.pop(0)
            if isinstance(end, Exception):
                raise end
            return end

        async def areply() -> Any:
            return reply()

        return (yield from Call(blocking=reply, awaitable=areply))


class Dropping(Strategy):
    """Leaves out the oldest turn on each overflow."""

    per_turn = False

    def reduce(self, ctx: PlanContext) -> Plan:
        """Without it."""
        return ctx.leave_out(ctx.shown[:2], why="dropped")

    def plan(self, ctx: PlanContext) -> Plan:
        """As it is."""
        return ctx.keep()


def ask_model(model: Model, **options: Any) -> tuple[Any, Plan]:
    """What the model says in a conversation of five turns and a question."""
    ctx = plan_context(transcript_of("ua" * 5 + "u"), call=1)
    return drive(ask_with_strategy(Dropping(), ctx, model.send, **options))


@pytest.mark.parametrize("times", range(MAX_RETRIES + 1))
def test_an_overflow_is_asked_again_with_less(times: int) -> None:
    """Up to three times, each time with a smaller view; the compaction is that of the answer."""
    model = Model(*[TOO_LONG] * times, "hello")
    reply, plan = ask_model(model)

    assert "hello" == reply
    assert [11 - 2 * nth for nth in range(times + 1)] == [len(messages) for messages in model.sent]
    assert model.sent[-1] == ids(plan.messages)


def test_the_fourth_overflow_is_an_error() -> None:
    """It says how often it was tried."""
    model = Model(*[TOO_LONG] * 4)
    with pytest.raises(
        ContextOverflowError, match=r"too long 4 times, although .* 3 times"
    ) as caught:
        ask_model(model)

    assert TOO_LONG is caught.value.__cause__
    assert 4 == len(model.sent)


def test_nothing_is_asked_again_that_did_not_shrink() -> None:
    """One call is enough to know."""
    model = Model(TOO_LONG)
    ctx = plan_context(transcript_of("ua"))
    with pytest.raises(ContextOverflowError, match="cannot make it smaller") as caught:
        drive(ask_with_strategy(Null(), ctx, model.send))

    assert TOO_LONG is caught.value.__context__
    assert 1 == len(model.sent)


def test_what_other_topics_leave_out_is_no_gain() -> None:
    """A topic's view that cannot shrink is not asked again."""
    model = Model(TOO_LONG)
    segments = [Segment(topic_id="x", start="m0"), Segment(topic_id="y", start="m2")]
    ctx = plan_context(transcript_of("uau"), segments=segments)
    with pytest.raises(ContextOverflowError, match="cannot make it smaller"):
        drive(ask_with_strategy(TopicScoped(within=Null()), ctx, model.send))

    assert [["m2"]] == model.sent


def test_each_overflow_of_a_topic_counts() -> None:
    """The topic's compaction grows from one to the next."""
    model = Model(TOO_LONG, TOO_LONG, "hello")
    segments = [Segment(topic_id="x", start="m0"), Segment(topic_id="y", start="m2")]
    ctx = plan_context(transcript_of("ua" * 5 + "u"), segments=segments)
    _, plan = drive(ask_with_strategy(TopicScoped(within=Dropping()), ctx, model.send))

    assert [9, 7, 5] == [len(messages) for messages in model.sent]
    assert ["y"] == list(plan.compaction["topics"])


def test_other_failures_are_raised_at_once() -> None:
    """A smaller view would not help."""
    model = Model(ValueError("the key is wrong"))
    with pytest.raises(ValueError, match="the key is wrong"):
        ask_model(model)

    assert 1 == len(model.sent)


async def test_overflows_are_dealt_with_on_an_event_loop() -> None:
    """The same step runs both ways, a summary included."""
    ctx = plan_context(transcript_of("ua" * 20 + "u"), ask=Summarizer().ask, call=1)
    model = Model(TOO_LONG, "hello")
    reply, _ = await adrive(ask_with_strategy(ThreeStage(), ctx, model.send))

    assert "hello" == reply
    assert ["m0", "m1", "m2", SUMMARY_ID] == model.sent[1][:4]


def http_error(status: int, text: str) -> Exception:
    """What a client raises."""
    error = RuntimeError(text)
    error.status_code = status  # type: ignore[attr-defined]
    return error


@pytest.mark.parametrize(
    ("error", "overflow"),
    [
        pytest.param(http_error(400, "Input is too long for requested model."), True, id="bedrock"),
        pytest.param(
            http_error(
                400, "The input token count (9) exceeds the maximum number of tokens allowed (8)."
            ),
            True,
            id="gemini",
        ),
        pytest.param(
            http_error(
                400, "Prompt contains 9 tokens, too large for model with 8 maximum context length"
            ),
            True,
            id="mistral",
        ),
        pytest.param(
            http_error(
                400,
                "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
            ),
            True,
            id="xai",
        ),
        pytest.param(
            http_error(400, "Please reduce the length of the messages or completion."),
            True,
            id="groq",
        ),
        pytest.param(
            http_error(
                400, "Input length (265330) exceeds model's maximum context length (262144)."
            ),
            True,
            id="parenthesized",
        ),
        pytest.param(
            http_error(413, "prompt too long; exceeded max context length by 4 tokens"),
            True,
            id="ollama",
        ),
        pytest.param(http_error(400, "invalid parameter format"), False, id="another refusal"),
        pytest.param(http_error(429, "prompt is too long"), False, id="busy"),
        pytest.param(
            http_error(400, "Too many input tokens, please wait before trying again"),
            False,
            id="throttled",
        ),
        pytest.param(ContextOverflowError("full"), True, id="our own"),
    ],
)
def test_overflows_are_told_from_other_refusals(*, error: Exception, overflow: bool) -> None:
    """This holds for every provider's words."""
    assert overflow == is_context_overflow(error)
