import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage

from tests.context.strategy_kit import (
    TEXTS,
    QuestionsOnly,
    Sparse,
    count,
    ids,
    plan_context,
    transcript_of,
)
from tests.transcripts import valid_transcripts
from unsay.context.compaction import summaries_as_user, summary_message, with_partners
from unsay.context.manifest import (
    EXTRA_RULES,
    OFFLOADED,
    RECALLED,
    CallContext,
    Manifest,
    ModelCall,
    WindowUse,
    manifest_in,
    manifest_of,
    parts_of,
    read_manifest,
    with_manifest,
)
from unsay.context.plan import Omission, Plan, PlanContext
from unsay.context.strategy import Strategy, plan_if_due
from unsay.context.summarizing import Summarizing
from unsay.context.topics import TopicScoped
from unsay.context.view import sendable
from unsay.context.windows import Proactive, SlidingWindow, ThreeStage
from unsay.effects import drive
from unsay.errors import DatabaseCorruptError
from unsay.messages.annotations import DOCUMENT, annotate, notice
from unsay.tokens.pricing import Usage
from unsay.types import Segment

OCCASION: dict[str, Any] = {"question_id": "q", "attempt": 1, "call": 1, "model": "a-model"}
ROOM = WindowUse(prompt=1_000, tools=100, reply=50, window=8_000)

STRATEGIES: dict[str, Strategy] = {
    "a window": SlidingWindow(window_size=3, pin_first=1),
    "summarizing": Summarizing(
        summary_ratio=0.6, preserve_recent_messages=1, proactive=Proactive(threshold=0.05)
    ),
    "three stages": ThreeStage(primers=1, recents=2, trigger_ratio=0.2, target_ratio=0.1),
    "topics": TopicScoped(within=SlidingWindow(window_size=4)),
    "one of a user's own": QuestionsOnly(),
    "one that wants too much": Sparse(),
}


def _sent_messages(view: Sequence[AnyMessage], limit: int = 65_536) -> list[AnyMessage]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("unsay.context.view.RESULT_BYTES", limit)
        return sendable(view, texts=TEXTS, provider=None)


def _model_call(
    ctx: PlanContext, plan: Plan, transcript: Sequence[AnyMessage] = (), **options: Any
) -> ModelCall:
    """A call that is sent a plan's view as it is."""
    view = summaries_as_user(plan.messages)
    return ModelCall(
        transcript=transcript or ctx.messages,
        context=view,
        sent=_sent_messages(view),
        left_out=plan.left_out,
        pins=ctx.pins,
        **(OCCASION | options),
    )


def _call_with_context(
    transcript: Sequence[AnyMessage], view: Sequence[AnyMessage], **options: Any
) -> ModelCall:
    """A call that is sent any view of a transcript."""
    return ModelCall(
        transcript=transcript, context=view, sent=_sent_messages(view), **(OCCASION | options)
    )


def _manifest(call: ModelCall, room: WindowUse = ROOM) -> Manifest:
    return manifest_of(call, room, count)


def _read_manifest(
    manifest: Manifest, transcript: Sequence[AnyMessage], answer: AIMessage | None = None
) -> CallContext:
    return read_manifest(answer or AIMessage("done", id="answer"), manifest, transcript)


def _ids_by_rule(view: CallContext) -> dict[str, tuple[str, ...]]:
    """The ids that each rule names."""
    return {rule.name: rule.message_ids for rule in (view.sent, *view.rules)}


@st.composite
def plan_contexts(draw: Callable[[st.SearchStrategy], Any]) -> PlanContext:
    """Any transcript with a few pins and topics, and a window that is soon full."""
    messages = draw(valid_transcripts(max_turns=6))
    few = st.sets(st.sampled_from(ids(messages)), max_size=2) if messages else st.just(set())
    starts = [m.id for m in messages if m.type == "human"]
    topics = draw(st.lists(st.sampled_from("xyz"), max_size=len(starts)))
    return plan_context(
        messages,
        pins=frozenset(draw(few)),
        window_tokens=draw(st.sampled_from([200, 2_000])),
        segments=[Segment(topic_id=t, start=s) for t, s in zip(topics, starts, strict=False)],
    )


@pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=list(STRATEGIES))
@given(ctx=plan_contexts())
def test_each_message_is_sent_or_under_one_rule(strategy: Strategy, ctx: PlanContext) -> None:
    """Every message of the transcript is listed exactly once."""
    plan = drive(plan_if_due(strategy, ctx))
    view = _read_manifest(_manifest(_model_call(ctx, plan)), ctx.messages)
    named_ids = [
        i
        for name, rule_ids in _ids_by_rule(view).items()
        if name not in EXTRA_RULES
        for i in rule_ids
    ]
    assert sorted(ids(ctx.messages)) == sorted(named_ids)


@pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=list(STRATEGIES))
@given(ctx=plan_contexts())
def test_a_manifest_says_what_the_plan_did(strategy: Strategy, ctx: PlanContext) -> None:
    """Each omission is under its rule, with summarized and pinned messages as well."""
    plan = drive(plan_if_due(strategy, ctx))
    ids_by_rule = _ids_by_rule(_read_manifest(_manifest(_model_call(ctx, plan)), ctx.messages))
    for rule in {omission.why for omission in plan.left_out}:
        omitted_ids = {
            i for omission in plan.left_out if omission.why == rule for i in omission.message_ids
        }
        assert omitted_ids == set(ids_by_rule[rule])
    summarized_ids = {
        i for omission in plan.left_out if omission.summary for i in omission.message_ids
    }
    assert summarized_ids == set(ids_by_rule.get("summarized", ()))
    assert ctx.pins == set(ids_by_rule.get("pinned", ()))


@given(ctx=plan_contexts())
def test_pins_and_their_partners_are_sent(ctx: PlanContext) -> None:
    """A manifest of a strategy that wants too much still has every pin among what was sent."""
    plan = drive(plan_if_due(Sparse(), ctx))
    view = _read_manifest(_manifest(_model_call(ctx, plan)), ctx.messages)
    pinned_ids = {ctx.messages[index].id for index in with_partners(ctx.messages, ctx.pins)}
    assert pinned_ids <= {i for rule in (view.sent, *view.rules) for i in rule.message_ids}
    assert pinned_ids.isdisjoint(i for omission in plan.left_out for i in omission.message_ids)


@given(
    ctx=plan_contexts(),
    strategy=st.sampled_from(sorted(STRATEGIES)),
    offloaded_count=st.integers(0, 9),
    newer_count=st.integers(0, 3),
)
def test_places_are_those_of_the_whole_transcript(
    ctx: PlanContext, strategy: str, offloaded_count: int, newer_count: int
) -> None:
    """Offloaded messages count, and later ones change nothing."""
    plan = drive(plan_if_due(STRATEGIES[strategy], ctx))
    manifest = _manifest(_model_call(ctx, plan, before=offloaded_count))
    older = [HumanMessage("long ago", id=f"old{index}") for index in range(offloaded_count)]
    newer = [AIMessage("later", id=f"new{index}") for index in range(newer_count)]
    view = _read_manifest(manifest, [*older, *ctx.messages, *newer])
    assert view.fits
    assert tuple(ids(older)) == _ids_by_rule(view).get(OFFLOADED, ())
    assert (
        _ids_by_rule(_read_manifest(_manifest(_model_call(ctx, plan)), ctx.messages))["sent"]
        == view.sent.message_ids
    )


def _long_messages(turns: int) -> list[AnyMessage]:
    messages: list[AnyMessage] = []
    for turn in range(turns):
        messages += [HumanMessage(f"Question {turn}?", id=f"{turn:036}")]
        messages += [AIMessage("x" * 300, id=f"a{turn:035}")]
    return [*messages, HumanMessage("And now?", id="q" * 36)]


@pytest.mark.parametrize(
    ("strategy", "turns", "min_shown"),
    [
        (ThreeStage(), 500, 200),
        (SlidingWindow(window_size=200), 500, 200),
        (TopicScoped(within=ThreeStage()), 500, 100),
        (Sparse(), 300, 200),
    ],
    ids=["three stages", "a window", "two topics in turn", "every other message"],
)
def test_a_manifest_is_small(strategy: Strategy, turns: int, min_shown: int) -> None:
    """Under 400 bytes for a view of 200 messages, however they lie."""
    transcript = _long_messages(turns)
    starts = [m.id or "" for m in transcript if m.type == "human"]
    segments = [Segment(topic_id="xy"[i % 2], start=start) for i, start in enumerate(starts)]
    ctx = plan_context(
        transcript,
        window_tokens=100_000,
        pins=frozenset({f"{3:036}"}),
        segments=segments if isinstance(strategy, TopicScoped) else (),
    )
    plan = drive(plan_if_due(strategy, ctx))
    call = _model_call(
        ctx,
        plan,
        before=100_000,
        recalled={f"a{number:035}" for number in range(7, 27, 2)},
        question_id="q" * 36,
        attempt=2,
        call=12,
        model="gpt-4.1-mini-2025-04-14",
    )
    room = WindowUse(prompt=90_000, tools=12_000, reply=16_000, window=200_000)
    manifest = manifest_of(call, room, count)
    assert len(plan.messages) >= min_shown
    assert len(json.dumps(manifest, separators=(",", ":"))) < 400


def test_the_parts_are_told_apart() -> None:
    """System prompt, tools, summaries, quotes and the rest add up to the prompt."""
    quote = annotate(HumanMessage("r" * 20, id="quote"), kind=RECALLED)
    view = [
        SystemMessage("s" * 40),
        *summaries_as_user([summary_message(["told"], TEXTS)]),
        quote,
        HumanMessage("Now?", id="q"),
    ]
    tokens_by_part = parts_of(view, WindowUse(prompt=1_000, tools=100, summary=30, reply=64), count)
    assert {"system": 20, "tools": 100, "recalled": 30, "reply": 64} == {
        name: tokens
        for name, tokens in tokens_by_part.items()
        if name not in ("summary", "recents")
    }
    assert 1_000 == sum(tokens_by_part.values()) - tokens_by_part["reply"]
    assert count([view[1]]) + 30 == tokens_by_part["summary"]


def test_parts_without_tokens_are_left_out() -> None:
    """A part that uses nothing takes no room in the manifest either."""
    assert {"recents": 12} == parts_of([HumanMessage("hi")], WindowUse(prompt=12), count)


@pytest.mark.parametrize(
    ("transcript", "fits"),
    [
        (transcript_of("uauau"), True),
        (transcript_of("uauaua"), True),
        (transcript_of("uaua"), False),
        (transcript_of("uauau")[1:], False),
        (transcript_of("uauau")[:2] + transcript_of("uauau")[3:], False),
        ([*transcript_of("uauau")[:2], HumanMessage("put in", id="x"), *transcript_of("uauau")[2:]], False),
        (transcript_of("uauau")[::-1], False),
    ],
    ids=["the same", "more behind", "the end gone", "the beginning gone", "one gone", "one put in",
         "another order"],
)  # fmt: skip
def test_a_transcript_that_has_changed_is_reported(
    transcript: list[AnyMessage], *, fits: bool
) -> None:
    """Where other messages stand in the places that are meant, none is named."""
    manifest = _manifest(_call_with_context(transcript_of("uauau"), transcript_of("uauau")))
    view = _read_manifest(manifest, transcript)
    assert fits == view.fits
    assert (("m0", "m1", "m2", "m3", "m4") if fits else ()) == view.sent.message_ids
    assert (1, 2, 3, 4, 5) == view.sent.places


def test_neighbours_that_were_joined_were_sent() -> None:
    """A document and its question go as one message, and both were sent."""
    page = HumanMessage("A page.", id="page", name=DOCUMENT)
    question = HumanMessage("What does it say?", id="q")
    ids_by_rule = _ids_by_rule(
        _read_manifest(
            _manifest(_call_with_context([page, question], [page, question])), [page, question]
        )
    )
    assert {"sent": ("page", "q")} == ids_by_rule


@pytest.mark.parametrize(
    ("message", "rule"),
    [
        (AIMessage("  ", id="x"), "unsendable"),
        (notice("Rolled back.", "x", ["m1"]), "notice"),
        (SystemMessage("Speak softly.", id="x"), "sent"),
        (SystemMessage(" ", id="x"), "sent"),
    ],
    ids=["blank", "unsay's own words", "an instruction", "an instruction without words"],
)
def test_what_no_strategy_left_out_has_a_rule_too(message: AnyMessage, rule: str) -> None:
    """What a provider cannot be sent, or must not see, is named."""
    transcript = [*transcript_of("ua"), message, HumanMessage("Go on", id="q")]
    head = [SystemMessage("You are kind.\n\nSpeak softly.")]
    view = [
        message
        for message in transcript
        if message.type == "ai" and message.id == "x" and rule != "notice"
    ]
    messages = [message for message in transcript if message.id != "x"]
    ids_by_rule = _ids_by_rule(
        _read_manifest(
            _manifest(_call_with_context(transcript, [*head, *messages[:2], *view, messages[2]])),
            transcript,
        )
    )
    assert "x" in ids_by_rule[rule]


def test_large_and_shortened_results_are_not_whole() -> None:
    """A result that is shown by its beginning alone is under the rule that did it."""
    transcript = transcript_of("ucacu", text="row " * 400)
    ctx = plan_context(transcript)
    plan = ctx.shorten(truncate=transcript[2])
    view = summaries_as_user(plan.messages)
    call = replace(_model_call(ctx, plan), context=view, sent=_sent_messages(view, limit=1_000))
    ids_by_rule = _ids_by_rule(_read_manifest(_manifest(call), transcript))
    assert ("m1-result",) == ids_by_rule["truncated"]
    assert ("m3-result",) == ids_by_rule["size_limit"]


def test_of_two_rules_the_first_counts() -> None:
    """A forgotten message stays forgotten inside a compaction, and so in its summary."""
    transcript = transcript_of("uauau")
    left_out = [
        Omission(why="forgotten", message_ids=("m1",)),
        Omission(why="middle", message_ids=("m1", "m2"), summary="told"),
    ]
    view = [transcript[0], *transcript[3:]]
    ids_by_rule = _ids_by_rule(
        _read_manifest(
            _manifest(_call_with_context(transcript, view, left_out=left_out)), transcript
        )
    )
    assert ("m1",) == ids_by_rule["forgotten"]
    assert ("m2",) == ids_by_rule["middle"]
    assert ("m2",) == ids_by_rule["summarized"]


def test_what_was_recalled_stays_under_its_rule() -> None:
    """A quote of a folded message says that it was recalled, and why it was out; lost ones count."""
    transcript = transcript_of("uauau")
    left_out = [Omission(why="middle", message_ids=("m1", "m2"))]
    call = _call_with_context(
        transcript,
        [transcript[0], *transcript[3:]],
        left_out=left_out,
        recalled={"m1", "old1", "nobody"},
        before=2,
        offloaded_places={"old1": 2},
    )
    older = [HumanMessage("then", id="old0"), AIMessage("so", id="old1")]
    view = _read_manifest(_manifest(call), [*older, *transcript])
    ids_by_rule = _ids_by_rule(view)
    assert ("m1", "m2") == ids_by_rule["middle"]
    assert ("old1", "m1") == ids_by_rule[RECALLED]
    assert ("old0", "old1") == ids_by_rule[OFFLOADED]
    assert 1 == view.unplaced


def test_offloaded_words_that_are_shown_were_sent() -> None:
    """What was fetched for a topic that is shown counts as sent, in its own place."""
    transcript = transcript_of("u")
    earlier = AIMessage("so", id="old1")
    call = _call_with_context(
        transcript, [earlier, *transcript], before=3, offloaded_places={"old1": 2}
    )
    manifest = _manifest(call)
    assert ("2,4", "1,3") == (manifest["sent"], manifest["by_rule"][OFFLOADED])


@pytest.mark.parametrize(
    ("usage", "expected_usage"),
    [
        (None, None),
        (
            {"input_tokens": 9, "output_tokens": 2, "total_tokens": 11},
            Usage(input=9, output=2),
        ),
        (
            {
                "input_tokens": 9,
                "output_tokens": 2,
                "total_tokens": 11,
                "input_token_details": {"cache_read": 6},
            },
            Usage(input=3, output=2, cache_read=6),
        ),
    ],
    ids=["none", "no cache", "a cache"],
)
def test_the_models_own_report_is_read_with_it(usage: Any, expected_usage: Usage | None) -> None:
    """The count before the call is listed with what the model reported."""
    answer = AIMessage("done", id="answer", usage_metadata=usage)
    view = _read_manifest(
        _manifest(_call_with_context(transcript_of("u"), transcript_of("u"))),
        transcript_of("u"),
        answer,
    )
    assert (expected_usage, 1_000) == (view.usage, view.prompt)
    assert ("answer", 1, 1, "a-model", 8_000) == (
        view.message_id,
        view.attempt,
        view.call,
        view.model,
        view.window,
    )


def test_a_message_without_a_manifest_has_none() -> None:
    """An answer of an older version, or of a host, is recognized."""
    assert manifest_in(AIMessage("hi")) is None
    manifest = _manifest(_call_with_context(transcript_of("u"), transcript_of("u")))
    assert manifest == manifest_in(with_manifest(AIMessage("hi"), manifest))


def test_a_manifest_that_was_changed_is_refused() -> None:
    """Ranges that were not written by unsay are refused."""
    manifest = _manifest(_call_with_context(transcript_of("u"), transcript_of("u")))
    with pytest.raises(DatabaseCorruptError, match="'all' is not a list of places"):
        _read_manifest({**manifest, "sent": "all"}, transcript_of("u"))
