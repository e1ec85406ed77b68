"""The protocol of strategies: rhythm, failures, composition, topics, a user's own."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from tests.context.strategy_kit import Broken, QuestionsOnly, Summarizer, ids, plan_context, talk
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
    now = plan_context(talk("uauau"), call=1)

    assert now is drive(plan_if_due(SlidingWindow(window_size=1), now)).after
    end = drive(plan_if_due(SlidingWindow(window_size=1), replace(now, call=None)))
    assert ["m4"] == ids(end.messages)


def test_a_strategy_that_fails_changes_nothing_and_is_told() -> None:
    """It is anyone's code."""
    now = plan_context(talk("ua"))
    plan = drive(plan_if_due(Broken(), now))

    assert now is plan.after
    assert ["no plan for 2 messages"] == [str(each) for each in plan.problems]
    with pytest.raises(
        ContextOverflowError, match="'Broken' cannot make it smaller: ValueError: no plan"
    ):
        drive(reduce_context(Broken(), now))


class Forgetful(Strategy):
    """A user's own strategy that makes no plan."""

    def __init__(self, made: Any) -> None:
        self.made = made

    def plan(self, now: PlanContext) -> Any:
        """Something else."""
        return self.made


@pytest.mark.parametrize(
    "made", [None, 3, iter(())], ids=["nothing", "a number", "no plan at last"]
)
def test_a_strategy_that_makes_no_plan_changes_nothing(made: Any) -> None:
    """The strategy gets the reason."""
    now = plan_context(talk("ua"))
    plan = drive(plan_if_due(Forgetful(made), now))

    assert now is plan.after
    assert 1 == len(plan.problems)


class ByHand(Strategy):
    """A user's own strategy that makes its plan without `leave_out`."""

    def __init__(self, **changes: Any) -> None:
        self.changes = changes

    def plan(self, now: PlanContext) -> Plan:
        """The situation, changed."""
        return Plan(after=replace(now, **self.changes))


def _span(**more: Any) -> dict[str, Any]:
    span = {"first": "m0", "through": "m4", "kept": [], "summary": None, "why": "mine"}
    return {"spans": [{**span, **more}]}


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
    now = plan_context(talk("uauau"), pins=frozenset({"m0"}), pending=frozenset({"m4"}))
    plan = drive(plan_if_due(ByHand(**changes), now))

    assert now is plan.after
    (told,) = plan.problems
    assert problem in str(told)


class Greedy(Strategy):
    """Leaves out all that it can."""

    def plan(self, now: PlanContext) -> Plan:
        """Without everything."""
        return now.leave_out(now.messages, why="mine")


def test_what_a_tool_has_just_found_is_shown() -> None:
    """With the words of its call, for else the model would ask for it again and again."""
    plan = drive(plan_if_due(Greedy(), plan_context(talk("uaucc"), pending=frozenset({"m2"}))))

    assert ["m2", "m4", "m4-result"] == ids(plan.messages)


class Rhythmless:
    """A user's own strategy that extends nothing."""

    def plan(self, now: PlanContext) -> Plan:
        """As it is."""
        return now.keep(ValueError("asked"))

    def reduce(self, now: PlanContext) -> Plan:
        """As it is."""
        return now.keep()


def test_a_strategy_without_a_rhythm_is_asked_before_every_call() -> None:
    """It need not extend the protocol."""
    check_strategy(Rhythmless())
    plan = drive(plan_if_due(Rhythmless(), plan_context(talk("u"), call=3)))  # type: ignore[arg-type]

    assert ["asked"] == [str(each) for each in plan.problems]


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
    now = plan_context(talk("uaua"), window_tokens=1)

    assert now is drive(plan_if_due(Null(), now)).after
    with pytest.raises(ContextOverflowError, match="all remaining messages must stay"):
        drive(reduce_context(Null(), now))


def test_a_users_own_strategy() -> None:
    """A class with a plan: its omissions have its own name."""
    full = plan_context(talk("ua" * 4), window_tokens=300)
    plan = drive(plan_if_due(QuestionsOnly(), full))

    assert ["m0", "m2", "m4", "m5", "m6", "m7"] == ids(plan.messages)
    assert (Omission(why="answers", message_ids=("m1", "m3")),) == plan.left_out
    assert plan.messages == drive(reduce_context(QuestionsOnly(), full)).messages
    empty = plan_context(talk("ua" * 4))
    assert empty is drive(plan_if_due(QuestionsOnly(), empty)).after


class WithAModel(Strategy):
    """A user's own strategy that asks a model."""

    def plan(self, now: PlanContext) -> Any:
        """The first message gives way to what the model says."""
        assert now.ask is not None
        reply = yield from now.ask([HumanMessage("What matters?")], "my-model")
        return now.leave_out(now.shown[:2], why="mine", summary=str(reply.content))


async def test_a_users_own_strategy_may_ask_a_model() -> None:
    """It yields the call, and runs blocking and on an event loop."""
    model = Summarizer(replies=[AIMessage("All of it.")])
    now = plan_context(talk("uau"), ask=model.ask)
    plan = drive(plan_if_due(WithAModel(), now))

    assert (SUMMARY_ID, "All of it.") == (plan.messages[0].id, plan.after.summaries[0])
    assert plan == await adrive(plan_if_due(WithAModel(), now))
    assert ["my-model", "my-model"] == model.models


class Looking(Strategy):
    """Notes what it sees."""

    def __init__(self) -> None:
        self.saw: list[int] = []

    def plan(self, now: PlanContext) -> Plan:
        """As it is."""
        self.saw.append(len(now.shown))
        return now.keep()


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
    plan = drive(plan_if_due(strategy, plan_context(talk("ua" * 5))))

    assert [10, 6, 2] == looking.saw
    assert ["m8", "m9"] == ids(plan.messages)
    assert ["no plan for 10 messages"] == [str(each) for each in plan.problems]


def test_composed_strategies_keep_their_own_rhythms() -> None:
    """A window at the turn's end does not slide before a call."""
    looking = Looking()
    strategy = Composed(strategies=(SlidingWindow(window_size=2), looking))
    drive(plan_if_due(strategy, plan_context(talk("ua" * 5), call=1)))

    assert [10] == looking.saw


def test_the_first_composed_strategy_that_helps_ends_an_overflow() -> None:
    """The others are not asked; where none helps, all reasons are reported."""
    now = plan_context(talk("ua" * 5), overflows=1)
    plan = drive(reduce_context(Composed(strategies=(Broken(), SlidingWindow(), Broken())), now))

    assert [f"m{i}" for i in range(2, 10)] == ids(plan.messages)
    assert 1 == len(plan.problems)
    with pytest.raises(
        ContextOverflowError, match=r"no plan for 10 .*; ValueError: no plan for 10"
    ):
        drive(reduce_context(Composed(strategies=(Broken(), Null(), Broken())), now))


SEGMENTS = [
    Segment(topic_id="trains", start="m0"),
    Segment(topic_id="bread", start="m4"),
    Segment(topic_id="trains", start="m8"),
]
TOPICAL = talk("suaua" + "uaua"[1:] + "uau", words="w " * 20)
"""Of trains, of bread, and of trains again; instructions first."""


def scoped(until: int, segments: Sequence[Segment], **more: Any) -> PlanContext:
    """The conversation up to a message."""
    return plan_context(TOPICAL[:until], segments=segments, **more)


@pytest.mark.parametrize(
    ("until", "segments", "more", "shown"),
    [
        pytest.param(4, [], {}, ["m0", "m1", "m2", "m3"], id="no topics"),
        pytest.param(7, SEGMENTS[:2], {}, ["m0", "m4", "m5", "m6"], id="the topic under way"),
        pytest.param(
            11, SEGMENTS, {}, ["m0", "m1", "m2", "m3", "m8", "m9", "m10"], id="the talk returned"
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
    until: int, segments: list[Segment], more: dict[str, Any], shown: list[str]
) -> None:
    """The others' messages are left out, and the plan says so."""
    strategy = TopicScoped(within=Null())
    plan = drive(plan_if_due(strategy, scoped(until, segments, **more)))
    out = [name for name in ids(TOPICAL[:until]) if name not in shown]

    assert set(shown) == {name for name in ids(plan.messages) if name and name.startswith("m")}
    assert out == [name for each in plan.left_out for name in each.message_ids]
    assert {"topic"} >= {each.why for each in plan.left_out}


def test_a_topic_finds_its_own_compaction_again() -> None:
    """What was compacted in it is compacted still when the conversation returns."""
    within = Summarizing(
        summary_ratio=0.5, preserve_recent_messages=1, proactive=Proactive(threshold=0.3)
    )
    strategy = TopicScoped(within=within)
    more: dict[str, Any] = {"window_tokens": 300, "ask": Summarizer(replies=["- of trains"]).ask}
    first = drive(plan_if_due(strategy, scoped(4, SEGMENTS[:1], **more)))
    second = drive(plan_if_due(strategy, scoped(7, SEGMENTS[:2], compaction=first.compaction)))
    third = drive(plan_if_due(strategy, scoped(11, SEGMENTS, compaction=second.compaction)))

    assert ("- of trains",) == first.after.summaries
    assert () == second.after.summaries
    assert ("- of trains",) == third.after.summaries
    assert {"trains"} == set(third.compaction["topics"])
    assert first.compaction["topics"]["trains"] == third.compaction["topics"]["trains"]


def test_the_compaction_of_a_topic_that_is_gone_is_dropped() -> None:
    """The state names only topics that the thread still tells apart."""
    compaction: Any = {"topics": {"gone": {"spans": []}, "trains": {"spans": []}}}
    strategy = TopicScoped(within=SlidingWindow(window_size=1))
    plan = drive(plan_if_due(strategy, scoped(4, SEGMENTS[:1], compaction=compaction)))

    assert {"trains"} == set(plan.compaction["topics"])


def test_an_overflow_reduces_the_topic_under_way() -> None:
    """What is left out already does not count as a gain."""
    now = scoped(11, SEGMENTS, overflows=1)
    plan = drive(reduce_context(TopicScoped(within=SlidingWindow()), now))

    assert ["m0", "m3", "m8", "m9", "m10"][-3:] == ids(plan.messages)[-3:]
    with pytest.raises(ContextOverflowError):
        drive(reduce_context(TopicScoped(within=Null()), plan.after))


def test_trying_hands_on_a_plan_that_is_no_step() -> None:
    """A strategy may return its plan or yield calls before it does."""
    now = plan_context(talk("ua"))
    stepwise = Summarizing(proactive=None)

    assert now is drive(call_strategy(Null().plan, now)).after
    assert now is drive(call_strategy(stepwise.plan, now)).after


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
    composed = Composed(strategies=strategies)

    assert at_end is plans_at_end(composed)
    assert at_end is plans_at_end(TopicScoped(within=composed))
