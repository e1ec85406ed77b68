"""The protocol of strategies: rhythm, failures, composition, topics, a user's own."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from tests.context.strategy_kit import (
    Broken,
    QuestionsOnly,
    Summarizer,
    ids,
    plan_context,
    transcript_of,
)
from unsay.context.compaction import SUMMARY_ID
from unsay.context.plan import Omission, Plan, PlanContext
from unsay.context.strategy import (
    Composed,
    Null,
    Strategy,
    call_strategy,
    check_strategy,
    is_due,
    plan_if_due,
    reduce_context,
)
from unsay.context.summarizing import Summarizing
from unsay.context.topics import TopicScoped
from unsay.context.windows import Proactive, SlidingWindow
from unsay.effects import adrive, drive
from unsay.errors import ConfigurationError, ContextOverflowError
from unsay.generation.context_builder import plans_at_end
from unsay.graph.builder import build_graph
from unsay.testing import ScriptedChat
from unsay.types import ExpandedTopic, Segment


@pytest.mark.parametrize(
    ("per_turn", "due"),
    [
        pytest.param(False, [], id="at the end"),
        pytest.param(True, [1, 2, 3, 4, 5, 6], id="before every call"),
        pytest.param(1, [1, 2, 3, 4, 5, 6], id="every one"),
        pytest.param(2, [2, 4, 6], id="every second"),
        pytest.param(7, [], id="every seventh"),
    ],
)
def test_when_a_strategy_is_asked(*, per_turn: bool | int, due: list[int]) -> None:
    """At its own rhythm before calls, and always at the end of a turn."""
    assert due == [call for call in range(1, 7) if is_due(per_turn, call)]
    assert is_due(per_turn, None)


def test_a_strategy_that_is_not_due_changes_nothing() -> None:
    """It is not even asked."""
    ctx = plan_context(transcript_of("uauau"), call=1)

    assert ctx is drive(plan_if_due(SlidingWindow(window_size=1), ctx)).after
    end = drive(plan_if_due(SlidingWindow(window_size=1), replace(ctx, call=None)))
    assert ["m4"] == ids(end.messages)


def test_a_strategy_that_fails_changes_nothing_and_is_told() -> None:
    """It is anyone's code."""
    ctx = plan_context(transcript_of("ua"))
    plan = drive(plan_if_due(Broken(), ctx))

    assert ctx is plan.after
    assert ["no plan for 2 messages"] == [str(problem) for problem in plan.problems]
    with pytest.raises(
        ContextOverflowError, match="'Broken' cannot make it smaller: ValueError: no plan"
    ):
        drive(reduce_context(Broken(), ctx))


class Forgetful(Strategy):
    """A user's own strategy that makes no plan."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def plan(self, ctx: PlanContext) -> Any:
        """Something else."""
        return self.value


@pytest.mark.parametrize(
    "value", [None, 3, iter(())], ids=["nothing", "a number", "no plan at last"]
)
def test_a_strategy_that_makes_no_plan_changes_nothing(value: Any) -> None:
    """The strategy gets the reason."""
    ctx = plan_context(transcript_of("ua"))
    plan = drive(plan_if_due(Forgetful(value), ctx))

    assert ctx is plan.after
    assert 1 == len(plan.problems)


class ByHand(Strategy):
    """A user's own strategy that makes its plan without `leave_out`."""

    def __init__(self, **changes: Any) -> None:
        self.changes = changes

    def plan(self, ctx: PlanContext) -> Plan:
        """The situation, changed."""
        return Plan(after=replace(ctx, **self.changes))


def _span(**fields: Any) -> dict[str, Any]:
    span = {"first": "m0", "through": "m4", "kept": [], "summary": None, "why": "mine"}
    return {"spans": [{**span, **fields}]}


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        pytest.param({"messages": ()}, "leaves out 'm0', which is pinned", id="no messages"),
        pytest.param(
            {"compaction": _span()}, "leaves out 'm4', which is pinned or", id="all folded"
        ),
        pytest.param({"compaction": {"spans": [{"first": 3}]}}, "through", id="half a span"),
        pytest.param({"compaction": _span(summary=3)}, "int", id="no words"),
    ],
)
def test_a_plan_made_by_hand_keeps_what_must_stay(changes: dict[str, Any], problem: str) -> None:
    """Where it leaves out pins or the running question, or cannot be rendered, nothing changes."""
    ctx = plan_context(transcript_of("uauau"), pins=frozenset({"m0"}), pending=frozenset({"m4"}))
    plan = drive(plan_if_due(ByHand(**changes), ctx))

    assert ctx is plan.after
    (error,) = plan.problems
    assert problem in str(error)


class Greedy(Strategy):
    """Leaves out all that it can."""

    def plan(self, ctx: PlanContext) -> Plan:
        """Without everything."""
        return ctx.leave_out(ctx.messages, why="mine")


def test_what_a_tool_has_just_found_is_shown() -> None:
    """With the words of its call, for else the model would ask for it again and again."""
    plan = drive(
        plan_if_due(Greedy(), plan_context(transcript_of("uaucc"), pending=frozenset({"m2"})))
    )

    assert ["m2", "m4", "m4-result"] == ids(plan.messages)


class Rhythmless:
    """A user's own strategy that extends nothing."""

    def plan(self, ctx: PlanContext) -> Plan:
        """As it is."""
        return ctx.keep(ValueError("asked"))

    def reduce(self, ctx: PlanContext) -> Plan:
        """As it is."""
        return ctx.keep()


def test_a_strategy_without_a_rhythm_is_asked_before_every_call() -> None:
    """It need not extend the protocol."""
    check_strategy(Rhythmless())
    plan = drive(plan_if_due(Rhythmless(), plan_context(transcript_of("u"), call=3)))  # type: ignore[arg-type]

    assert ["asked"] == [str(problem) for problem in plan.problems]


def _with_rhythm(per_turn: Any) -> Any:
    return type("Odd", (Greedy,), {"per_turn": per_turn})()


@pytest.mark.parametrize(
    ("strategy", "match"),
    [
        pytest.param("sliding", "'sliding' is not a strategy: pass an object", id="a name"),
        pytest.param(Greedy, "such as SlidingWindow\\(\\), or of", id="a class"),
        pytest.param(_with_rhythm(0), "per_turn must be .*, got 0", id="never"),
        pytest.param(_with_rhythm("always"), "per_turn must be .*, got 'always'", id="a word"),
        pytest.param(_with_rhythm(None), "per_turn must be .*, got None", id="nothing"),
    ],
)
def test_what_could_never_plan_is_refused(strategy: Any, match: str) -> None:
    """Where the graph is built, alone or in a company, not in the middle of a turn."""
    for build in (
        lambda: build_graph(ScriptedChat(), strategy=strategy),
        lambda: Composed(strategies=(Null(), strategy)),
        lambda: TopicScoped(within=strategy),
    ):
        with pytest.raises(ConfigurationError, match=match):
            build()


def test_null_shows_everything() -> None:
    """And an overflow is an error."""
    ctx = plan_context(transcript_of("uaua"), window_tokens=1)

    assert ctx is drive(plan_if_due(Null(), ctx)).after
    with pytest.raises(ContextOverflowError, match="all remaining messages must stay"):
        drive(reduce_context(Null(), ctx))


def test_a_users_own_strategy() -> None:
    """A class with a plan: its omissions have its own name."""
    full = plan_context(transcript_of("ua" * 4), window_tokens=300)
    plan = drive(plan_if_due(QuestionsOnly(), full))

    assert ["m0", "m2", "m4", "m5", "m6", "m7"] == ids(plan.messages)
    assert (Omission(why="answers", message_ids=("m1", "m3")),) == plan.left_out
    assert plan.messages == drive(reduce_context(QuestionsOnly(), full)).messages
    empty = plan_context(transcript_of("ua" * 4))
    assert empty is drive(plan_if_due(QuestionsOnly(), empty)).after


class WithAModel(Strategy):
    """A user's own strategy that asks a model."""

    def plan(self, ctx: PlanContext) -> Any:
        """The first message gives way to what the model says."""
        assert ctx.ask is not None
        reply = yield from ctx.ask([HumanMessage("What matters?")], "my-model")
        return ctx.leave_out(ctx.shown[:2], why="mine", summary=str(reply.content))


async def test_a_users_own_strategy_may_ask_a_model() -> None:
    """It yields the call, and runs blocking and on an event loop."""
    model = Summarizer(replies=[AIMessage("All of it.")])
    ctx = plan_context(transcript_of("uau"), ask=model.ask)
    plan = drive(plan_if_due(WithAModel(), ctx))

    assert (SUMMARY_ID, "All of it.") == (plan.messages[0].id, plan.after.summaries[0])
    assert plan == await adrive(plan_if_due(WithAModel(), ctx))
    assert ["my-model", "my-model"] == model.models


class Looking(Strategy):
    """Notes what it sees."""

    def __init__(self) -> None:
        self.saw: list[int] = []

    def plan(self, ctx: PlanContext) -> Plan:
        """As it is."""
        self.saw.append(len(ctx.shown))
        return ctx.keep()


def test_composed_strategies_work_in_order() -> None:
    """Each on what the one before left; one that fails does not stop the next."""
    looking = Looking()
    strategy = Composed(
        strategies=(
            looking,
            SlidingWindow(window_size=6),
            Broken(),
            looking,
            SlidingWindow(window_size=2),
            looking,
        )
    )
    plan = drive(plan_if_due(strategy, plan_context(transcript_of("ua" * 5))))

    assert [10, 6, 2] == looking.saw
    assert ["m8", "m9"] == ids(plan.messages)
    assert ["no plan for 10 messages"] == [str(problem) for problem in plan.problems]


def test_composed_strategies_keep_their_own_rhythms() -> None:
    """A window at the turn's end does not slide before a call."""
    looking = Looking()
    strategy = Composed(strategies=(SlidingWindow(window_size=2), looking))
    drive(plan_if_due(strategy, plan_context(transcript_of("ua" * 5), call=1)))

    assert [10] == looking.saw


def test_the_first_composed_strategy_that_helps_ends_an_overflow() -> None:
    """The others are not asked; where none helps, all reasons are reported."""
    ctx = plan_context(transcript_of("ua" * 5), overflows=1)
    plan = drive(reduce_context(Composed(strategies=(Broken(), SlidingWindow(), Broken())), ctx))

    assert [f"m{i}" for i in range(2, 10)] == ids(plan.messages)
    assert 1 == len(plan.problems)
    with pytest.raises(
        ContextOverflowError, match=r"no plan for 10 .*; ValueError: no plan for 10"
    ):
        drive(reduce_context(Composed(strategies=(Broken(), Null(), Broken())), ctx))


SEGMENTS = [
    Segment(topic_id="trains", start="m0"),
    Segment(topic_id="bread", start="m4"),
    Segment(topic_id="trains", start="m8"),
]
TOPICAL = transcript_of("suaua" + "uaua"[1:] + "uau", text="w " * 20)
"""Of trains, of bread, and of trains again; instructions first."""


def topical_context(until: int, segments: Sequence[Segment], **options: Any) -> PlanContext:
    """The conversation up to a message."""
    return plan_context(TOPICAL[:until], segments=segments, **options)


@pytest.mark.parametrize(
    ("until", "segments", "options", "shown_ids"),
    [
        pytest.param(4, [], {}, ["m0", "m1", "m2", "m3"], id="no topics"),
        pytest.param(7, SEGMENTS[:2], {}, ["m0", "m4", "m5", "m6"], id="the topic under way"),
        pytest.param(
            11,
            SEGMENTS,
            {},
            ["m0", "m1", "m2", "m3", "m8", "m9", "m10"],
            id="the conversation returned",
        ),
        pytest.param(
            7, SEGMENTS[:2], {"pins": frozenset({"m2"})}, ["m0", "m2", "m4", "m5", "m6"], id="a pin"
        ),
        pytest.param(
            7,
            SEGMENTS[:2],
            {"expanded": [ExpandedTopic(topic_id="trains", at="m4")]},
            ["m0", "m1", "m2", "m3", "m4", "m5", "m6"],
            id="expanded",
        ),
        pytest.param(
            7,
            SEGMENTS[:2],
            {"loaded": frozenset({"m1"})},
            ["m0", "m1", "m4", "m5", "m6"],
            id="fetched",
        ),
    ],
)
def test_each_topic_has_its_own_context(
    until: int, segments: list[Segment], options: dict[str, Any], shown_ids: list[str]
) -> None:
    """The others' messages are left out, and the plan says so."""
    strategy = TopicScoped(within=Null())
    plan = drive(plan_if_due(strategy, topical_context(until, segments, **options)))
    omitted_ids = [name for name in ids(TOPICAL[:until]) if name not in shown_ids]

    assert set(shown_ids) == {name for name in ids(plan.messages) if name and name.startswith("m")}
    assert omitted_ids == [name for omission in plan.left_out for name in omission.message_ids]
    assert {"topic"} >= {omission.why for omission in plan.left_out}


def test_a_topic_finds_its_own_compaction_again() -> None:
    """What was compacted in it is compacted still when the conversation returns."""
    inner_strategy = Summarizing(
        summary_ratio=0.5, preserve_recent_messages=1, proactive=Proactive(threshold=0.3)
    )
    strategy = TopicScoped(within=inner_strategy)
    options: dict[str, Any] = {"window_tokens": 300, "ask": Summarizer(replies=["- of trains"]).ask}
    first = drive(plan_if_due(strategy, topical_context(4, SEGMENTS[:1], **options)))
    second = drive(
        plan_if_due(strategy, topical_context(7, SEGMENTS[:2], compaction=first.compaction))
    )
    third = drive(
        plan_if_due(strategy, topical_context(11, SEGMENTS, compaction=second.compaction))
    )

    assert ("- of trains",) == first.after.summaries
    assert () == second.after.summaries
    assert ("- of trains",) == third.after.summaries
    assert {"trains"} == set(third.compaction["topics"])
    assert first.compaction["topics"]["trains"] == third.compaction["topics"]["trains"]


def test_the_compaction_of_a_topic_that_is_gone_is_dropped() -> None:
    """The state names only topics that the thread still tells apart."""
    compaction: Any = {"topics": {"gone": {"spans": []}, "trains": {"spans": []}}}
    strategy = TopicScoped(within=SlidingWindow(window_size=1))
    plan = drive(plan_if_due(strategy, topical_context(4, SEGMENTS[:1], compaction=compaction)))

    assert {"trains"} == set(plan.compaction["topics"])


def test_an_overflow_reduces_the_topic_under_way() -> None:
    """What is left out already does not count as a gain."""
    ctx = topical_context(11, SEGMENTS, overflows=1)
    plan = drive(reduce_context(TopicScoped(within=SlidingWindow()), ctx))

    assert ["m0", "m3", "m8", "m9", "m10"][-3:] == ids(plan.messages)[-3:]
    with pytest.raises(ContextOverflowError):
        drive(reduce_context(TopicScoped(within=Null()), plan.after))


def test_trying_hands_on_a_plan_that_is_no_step() -> None:
    """A strategy may return its plan or yield calls before it does."""
    ctx = plan_context(transcript_of("ua"))
    stepwise = Summarizing(proactive=None)

    assert ctx is drive(call_strategy(Null().plan, ctx)).after
    assert ctx is drive(call_strategy(stepwise.plan, ctx)).after


@pytest.mark.parametrize(
    ("strategies", "at_end"),
    [
        pytest.param((SlidingWindow(),), True, id="one that plans at the end"),
        pytest.param((Looking(), SlidingWindow()), True, id="one of two"),
        pytest.param((Looking(),), False, id="none"),
    ],
)
def test_one_strategy_that_plans_at_the_end_is_enough(strategies: Any, *, at_end: bool) -> None:
    """Composed strategies plan at a turn's end if one of them does, within topics too."""
    composition = Composed(strategies=strategies)

    assert at_end is plans_at_end(composition)
    assert at_end is plans_at_end(TopicScoped(within=composition))
