"""What holds for every strategy over every transcript."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from tests.context.strategy_kit import (
    TEXTS,
    Broken,
    QuestionsOnly,
    Sparse,
    Summarizer,
    ids,
    plan_context,
)
from tests.transcripts import valid_transcripts
from unsay.context.compaction import (
    SUMMARY_ID,
    Compaction,
    render,
    summaries_as_user,
    with_partners,
)
from unsay.context.plan import Plan, PlanContext, running_question
from unsay.context.strategy import (
    Composed,
    Null,
    Strategy,
    call_strategy,
    plan_if_due,
    reduce_context,
)
from unsay.context.summarizing import ByTurns, Summarizing
from unsay.context.topics import TopicScoped
from unsay.context.view import sendable
from unsay.context.windows import Proactive, SlidingWindow, ThreeStage
from unsay.effects import drive
from unsay.errors import ModelError
from unsay.messages.conformance import OPENING_ID, faults
from unsay.types import Provider, Segment

PROVIDERS: tuple[Provider, ...] = ("openai", "anthropic", "bedrock", "gemini")
EAGER = Proactive(threshold=0.05)

STRATEGIES: dict[str, Strategy] = {
    "null": Null(),
    "window of 3": SlidingWindow(window_size=3, pin_first=1),
    "window of 0": SlidingWindow(window_size=0),
    "summarizing": Summarizing(
        summary_ratio=0.6, preserve_recent_messages=1, proactive=EAGER, pin_first=1
    ),
    "summarizing tokens": Summarizing(
        preserve_recent_messages=0, proactive=EAGER, measure="tokens"
    ),
    "three stages": ThreeStage(primers=1, recents=2, trigger_ratio=0.2, target_ratio=0.1),
    "by turns": ByTurns(compress_at_turns=2, keep_turns=1),
    "topics": TopicScoped(within=SlidingWindow(window_size=4)),
    "composed": Composed(
        strategies=(
            Broken(),
            Summarizing(summary_ratio=0.3, preserve_recent_messages=2, proactive=EAGER),
            SlidingWindow(window_size=5),
        )
    ),
    "one of a user's own": QuestionsOnly(),
    "one that wants too much": Sparse(),
    "one that fails": Broken(),
}

EACH_STRATEGY = pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=list(STRATEGIES))
ANY_STRATEGY = st.sampled_from(sorted(STRATEGIES)).map(STRATEGIES.__getitem__)
CONVERSATIONS = valid_transcripts(max_turns=5)
ENDS = st.sampled_from(["- a summary", "", "a summary that is longer than everything " * 90])


@st.composite
def plan_contexts(draw: Callable[[st.SearchStrategy], Any]) -> PlanContext:
    """Any transcript with a few pins and topics, a window that is soon full, a summarizer."""
    messages = [_longer(each) for each in draw(CONVERSATIONS)]
    names = ids(messages)
    few = st.sets(st.sampled_from(names), max_size=2) if names else st.just(set())
    starts = [m.id for m in messages if m.type == "human"]
    topics = draw(st.lists(st.sampled_from("xyz"), max_size=len(starts)))
    return plan_context(
        messages,
        pins=frozenset(draw(few)),
        window_tokens=draw(st.sampled_from([None, 200, 2_000])),
        overflows=draw(st.integers(0, 3)),
        minutes=1.0,
        ask=draw(st.sampled_from([None, Summarizer(replies=[AIMessage(draw(ENDS))]).ask])),
        segments=[Segment(topic_id=t, start=s) for t, s in zip(topics, starts, strict=False)],
    )


def _longer(message: AnyMessage) -> AnyMessage:
    """The message; every third tool result is a large one."""
    if isinstance(message, ToolMessage) and int((message.id or "m0")[1:]) % 3 == 0:
        return message.model_copy(update={"content": "row " * 300})
    return message


def _plans(strategy: Strategy, now: PlanContext) -> list[Plan]:
    """A routine plan, and one after an overflow."""
    routine = drive(plan_if_due(strategy, now))
    return [routine, drive(call_strategy(strategy.reduce, routine.after))]


def _sent(view: Any, provider: Provider) -> list[AnyMessage]:
    return sendable(summaries_as_user(view), texts=TEXTS, provider=provider)


ANSWERED = frozenset({"no_thinking_at_end"})
"""A conversation that ends in an answer is not sent; another answer may be last in its context."""


@pytest.mark.sample(every=4)
@EACH_STRATEGY
@given(now=plan_contexts())
def test_a_context_is_valid_for_every_provider(strategy: Strategy, now: PlanContext) -> None:
    """For any omission, providers accept the rest, except for what they never accept."""
    for plan in _plans(strategy, now):
        for provider in PROVIDERS:
            whole = {each.rule for each in faults(_sent(now.messages, provider), provider)}
            sent = _sent(plan.messages, provider)
            if any(each.type != "system" for each in sent):
                assert set() == {each.rule for each in faults(sent, provider)} - whole - ANSWERED


@EACH_STRATEGY
@given(now=plan_contexts())
def test_what_must_stay_stays(strategy: Strategy, now: PlanContext) -> None:
    """Instructions, pins with their partners and the running question are unchanged."""
    running = running_question(now.messages)
    firm = with_partners(now.messages, now.pins) | {
        i for i, m in enumerate(now.messages) if m.type == "system" or m.id in running
    }
    for plan in _plans(strategy, now):
        shown = {each.id: each for each in plan.messages}
        assert [now.messages[i] for i in sorted(firm)] == [
            shown.get(now.messages[i].id) for i in sorted(firm)
        ]


@given(strategy=ANY_STRATEGY, now=plan_contexts())
def test_what_is_shown_stands_in_the_records_order(strategy: Strategy, now: PlanContext) -> None:
    """A view adds nothing but summaries and the user's opening, and turns nothing round."""
    for plan in _plans(strategy, now):
        shown = [name for name in ids(plan.messages) if name not in (SUMMARY_ID, OPENING_ID)]
        assert shown == [name for name in ids(now.messages) if name in set(shown)]


@given(strategy=ANY_STRATEGY, now=plan_contexts())
def test_nothing_vanishes_untold(strategy: Strategy, now: PlanContext) -> None:
    """Each message is in the view, or the plan says that it was left out, and by which rule."""
    for plan in _plans(strategy, now):
        told = [name for each in plan.left_out for name in each.message_ids]
        shown = {each.id for each in plan.messages}
        short = {
            n for o in plan.left_out if o.why in ("cleared", "truncated") for n in o.message_ids
        }
        assert set(ids(now.messages)) == (shown | set(told)) - {SUMMARY_ID, OPENING_ID}
        assert short == shown & set(told)
        assert len(told) == len(set(told))


@given(strategy=ANY_STRATEGY, now=plan_contexts())
def test_the_record_is_never_edited(strategy: Strategy, now: PlanContext) -> None:
    """Neither the messages nor the compaction that a plan starts from are changed."""
    before = [each.model_dump_json() for each in now.messages], json.dumps(now.compaction)
    for plan in _plans(strategy, now):
        json.dumps(plan.compaction)

    assert before == ([each.model_dump_json() for each in now.messages], json.dumps(now.compaction))


@given(strategy=ANY_STRATEGY, now=plan_contexts())
def test_a_compaction_survives_as_json(strategy: Strategy, now: PlanContext) -> None:
    """What the state keeps makes the same view in the next process."""
    for plan in _plans(strategy, now):
        after = plan.after
        kept: Compaction = json.loads(json.dumps(after.own_compaction))
        again = render(after.messages, kept, pins=after.pins, texts=TEXTS)
        assert plan.messages == again


@pytest.mark.sample(every=2)
@EACH_STRATEGY
@given(now=plan_contexts(), more=valid_transcripts(max_turns=2, pending=True))
def test_between_compactions_a_context_only_grows(
    strategy: Strategy, now: PlanContext, more: list[AnyMessage]
) -> None:
    """With the same compaction the next context begins with the bytes of the last one."""
    for plan in _plans(strategy, now):
        after, compaction = plan.after, plan.after.own_compaction
        asked = [*after.messages, HumanMessage("And then?", id="asked")]
        said = [each for each in more if each.type != "system"]
        later = [each.model_copy(update={"id": f"later-{each.id}"}) for each in said]
        grown = [*asked, AIMessage("An answer.", id="answered"), *later]
        before, next_one = (
            _sent(render(messages, compaction, pins=after.pins, texts=TEXTS), "openai")
            for messages in (asked, grown)
        )
        assert [each.model_dump_json() for each in before] == [
            each.model_dump_json() for each in next_one[: len(before)]
        ]


@given(strategy=ANY_STRATEGY, now=plan_contexts())
def test_an_overflow_leaves_less_or_is_an_error(strategy: Strategy, now: PlanContext) -> None:
    """A call is never made again with the view that was too long."""
    tried_to = drive(call_strategy(strategy.reduce, now)).after
    less = len(tried_to.shown) < len(now.shown) or tried_to.tokens < now.tokens

    if less:
        assert tried_to == drive(reduce_context(strategy, now)).after
    else:
        with pytest.raises(ModelError):
            drive(reduce_context(strategy, now))


@given(strategy=ANY_STRATEGY, now=plan_contexts(), branch=st.integers(0, 20))
def test_a_rollback_leaves_a_context_of_what_is_left(
    strategy: Strategy, now: PlanContext, branch: int
) -> None:
    """A compaction from before a rollback tells nothing of what was taken back."""
    for plan in _plans(strategy, now):
        after = plan.after
        left = list(after.messages)[:branch]
        view = render(left, after.own_compaction, pins=after.pins, texts=TEXTS)
        spans = after.own_compaction.get("spans", [])
        gone = [s for s in spans if s["through"] not in set(ids(left)) and s["summary"]]
        shown = {each.id for each in view}

        assert shown <= {*ids(left), SUMMARY_ID, OPENING_ID}
        if gone and len(gone) == len(spans):
            assert SUMMARY_ID not in shown
