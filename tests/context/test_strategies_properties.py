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
    messages = [_longer(message) for message in draw(CONVERSATIONS)]
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


def _plans(strategy: Strategy, ctx: PlanContext) -> list[Plan]:
    """A routine plan, and one after an overflow."""
    routine = drive(plan_if_due(strategy, ctx))
    return [routine, drive(call_strategy(strategy.reduce, routine.after))]


def _request_for(view: Any, provider: Provider) -> list[AnyMessage]:
    return sendable(summaries_as_user(view), texts=TEXTS, provider=provider)


ANSWERED = frozenset({"no_thinking_at_end"})
"""A conversation that ends in an answer is not sent; another answer may be last in its context."""


@pytest.mark.sample(every=4)
@EACH_STRATEGY
@given(ctx=plan_contexts())
def test_a_context_is_valid_for_every_provider(strategy: Strategy, ctx: PlanContext) -> None:
    """For any omission, providers accept the rest, except for what they never accept."""
    for plan in _plans(strategy, ctx):
        for provider in PROVIDERS:
            rules_before = {
                fault.rule for fault in faults(_request_for(ctx.messages, provider), provider)
            }
            request = _request_for(plan.messages, provider)
            if any(message.type != "system" for message in request):
                assert (
                    set()
                    == {fault.rule for fault in faults(request, provider)} - rules_before - ANSWERED
                )


@EACH_STRATEGY
@given(ctx=plan_contexts())
def test_what_must_stay_stays(strategy: Strategy, ctx: PlanContext) -> None:
    """Instructions, pins with their partners and the running question are unchanged."""
    running = running_question(ctx.messages)
    firm = with_partners(ctx.messages, ctx.pins) | {
        i for i, m in enumerate(ctx.messages) if m.type == "system" or m.id in running
    }
    for plan in _plans(strategy, ctx):
        messages_by_id = {message.id: message for message in plan.messages}
        assert [ctx.messages[i] for i in sorted(firm)] == [
            messages_by_id.get(ctx.messages[i].id) for i in sorted(firm)
        ]


@given(strategy=ANY_STRATEGY, ctx=plan_contexts())
def test_what_is_shown_has_the_order_of_the_transcript(
    strategy: Strategy, ctx: PlanContext
) -> None:
    """A view adds nothing but summaries and the user's opening, and turns nothing round."""
    for plan in _plans(strategy, ctx):
        shown_ids = [name for name in ids(plan.messages) if name not in (SUMMARY_ID, OPENING_ID)]
        assert shown_ids == [name for name in ids(ctx.messages) if name in set(shown_ids)]


@given(strategy=ANY_STRATEGY, ctx=plan_contexts())
def test_nothing_vanishes_untold(strategy: Strategy, ctx: PlanContext) -> None:
    """Each message is in the view, or the plan says that it was left out, and by which rule."""
    for plan in _plans(strategy, ctx):
        omitted_ids = [name for omission in plan.left_out for name in omission.message_ids]
        shown_ids = {message.id for message in plan.messages}
        short = {
            n for o in plan.left_out if o.why in ("cleared", "truncated") for n in o.message_ids
        }
        assert set(ids(ctx.messages)) == (shown_ids | set(omitted_ids)) - {SUMMARY_ID, OPENING_ID}
        assert short == shown_ids & set(omitted_ids)
        assert len(omitted_ids) == len(set(omitted_ids))


@given(strategy=ANY_STRATEGY, ctx=plan_contexts())
def test_the_transcript_is_never_edited(strategy: Strategy, ctx: PlanContext) -> None:
    """Neither the messages nor the compaction that a plan starts from are changed."""
    before = [message.model_dump_json() for message in ctx.messages], json.dumps(ctx.compaction)
    for plan in _plans(strategy, ctx):
        json.dumps(plan.compaction)

    assert before == (
        [message.model_dump_json() for message in ctx.messages],
        json.dumps(ctx.compaction),
    )


@given(strategy=ANY_STRATEGY, ctx=plan_contexts())
def test_a_compaction_survives_as_json(strategy: Strategy, ctx: PlanContext) -> None:
    """What the state keeps makes the same view in the next process."""
    for plan in _plans(strategy, ctx):
        after = plan.after
        compaction: Compaction = json.loads(json.dumps(after.own_compaction))
        context = render(after.messages, compaction, pins=after.pins, texts=TEXTS)
        assert plan.messages == context


@pytest.mark.sample(every=2)
@EACH_STRATEGY
@given(ctx=plan_contexts(), added_messages=valid_transcripts(max_turns=2, pending=True))
def test_between_compactions_a_context_only_grows(
    strategy: Strategy, ctx: PlanContext, added_messages: list[AnyMessage]
) -> None:
    """With the same compaction the next context begins with the bytes of the last one."""
    for plan in _plans(strategy, ctx):
        after = plan.after
        compaction = plan.after.own_compaction
        with_question = [*after.messages, HumanMessage("And then?", id="asked")]
        new_messages = [message for message in added_messages if message.type != "system"]
        next_messages = [
            message.model_copy(update={"id": f"later-{message.id}"}) for message in new_messages
        ]
        grown = [*with_question, AIMessage("An answer.", id="answered"), *next_messages]
        before, next_one = (
            _request_for(render(messages, compaction, pins=after.pins, texts=TEXTS), "openai")
            for messages in (with_question, grown)
        )
        assert [message.model_dump_json() for message in before] == [
            message.model_dump_json() for message in next_one[: len(before)]
        ]


@given(strategy=ANY_STRATEGY, ctx=plan_contexts())
def test_an_overflow_leaves_less_or_is_an_error(strategy: Strategy, ctx: PlanContext) -> None:
    """A call is never made again with the view that was too long."""
    tried_to = drive(call_strategy(strategy.reduce, ctx)).after
    is_smaller = len(tried_to.shown) < len(ctx.shown) or tried_to.tokens < ctx.tokens

    if is_smaller:
        assert tried_to == drive(reduce_context(strategy, ctx)).after
    else:
        with pytest.raises(ModelError):
            drive(reduce_context(strategy, ctx))


@given(strategy=ANY_STRATEGY, ctx=plan_contexts(), branch=st.integers(0, 20))
def test_a_rollback_leaves_a_context_of_what_is_left(
    strategy: Strategy, ctx: PlanContext, branch: int
) -> None:
    """A compaction from before a rollback tells nothing of what was taken back."""
    for plan in _plans(strategy, ctx):
        after = plan.after
        messages = list(after.messages)[:branch]
        view = render(messages, after.own_compaction, pins=after.pins, texts=TEXTS)
        spans = after.own_compaction.get("spans", [])
        lost_spans = [s for s in spans if s["through"] not in set(ids(messages)) and s["summary"]]
        shown_ids = {message.id for message in view}

        assert shown_ids <= {*ids(messages), SUMMARY_ID, OPENING_ID}
        if lost_spans and len(lost_spans) == len(spans):
            assert SUMMARY_ID not in shown_ids
