"""Compactions over a transcript, and what a plan reports of them."""

import json
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from tests.context.strategy_kit import TEXTS, ids, plan_context, transcript_of
from unsay.context.compaction import (
    MAX_KEPT,
    MAX_SPANS,
    SUMMARY_ID,
    is_summary,
    render,
    summaries_as_user,
    summaries_of,
    without_spans,
)
from unsay.context.plan import Omission, Plan, PlanContext, running_question
from unsay.errors import ConfigurationError, InputError
from unsay.messages.annotations import DOCUMENT
from unsay.messages.conformance import OPENING_ID
from unsay.messages.content import text_of
from unsay.prompts.catalogue import Texts
from unsay.prompts.fence import Fence


def leave_out(ctx: PlanContext, *indexes: int, **options: Any) -> Plan:
    """The plan that leaves out the messages in these places."""
    return ctx.leave_out([ctx.messages[index] for index in indexes], **{"why": "test", **options})


@pytest.mark.parametrize(
    ("shape", "indexes", "options", "shown_ids"),
    [
        pytest.param("uaua", (0, 1), {}, ["m2", "m3"], id="a turn"),
        pytest.param("suaua", (0, 1, 2), {}, ["m0", "m3", "m4"], id="instructions stay"),
        pytest.param("uaua", (0,), {}, [OPENING_ID, "m1", "m2", "m3"], id="opened by the user"),
        pytest.param("uca", (1,), {}, ["m0", "m1", "m1-result", "m2"], id="half a step stays"),
        pytest.param("uca", (1, 2), {}, ["m0", "m2"], id="a whole step goes"),
        pytest.param("uau", (0, 1, 2), {}, ["m2"], id="the running question stays"),
        pytest.param("ucc", (0, 1, 2, 3, 4), {}, ["m0", "m2", "m2-result"], id="and its last step"),
        pytest.param("ua", (0, 1), {}, [], id="a question with its answer is not running"),
        pytest.param(
            "uaua", (0, 1, 2), {"pins": frozenset({"m1"})}, [OPENING_ID, "m1", "m3"], id="pins"
        ),
        pytest.param(
            "uaca",
            (0, 1, 2, 3),
            {"pins": frozenset({"m2-result"})},
            [OPENING_ID, "m2", "m2-result", "m3"],
            id="a pin's partner",
        ),
        pytest.param(
            "uaua", (0, 3), {"pending": frozenset({"m0"})}, ["m0", "m1", "m2"], id="told to run"
        ),
        pytest.param("uaua", (), {}, ["m0", "m1", "m2", "m3"], id="nothing"),
    ],
)
def test_what_is_left_out(
    shape: str, indexes: tuple[int, ...], options: dict[str, Any], shown_ids: list[str]
) -> None:
    """For any choice, what must stay stays and steps are whole."""
    assert shown_ids == ids(
        leave_out(plan_context(transcript_of(shape), **options), *indexes).messages
    )


def test_a_question_stays_with_its_documents() -> None:
    """The running question's documents are part of it."""
    page = HumanMessage("A page.", name=DOCUMENT, id="page")
    messages = [*transcript_of("ua"), page, HumanMessage("And this?", id="asked")]
    plan = plan_context(messages).leave_out(messages, why="test")

    assert ["page", "asked"] == ids(plan.messages)


def test_a_summary_stands_where_the_first_message_was_left_out() -> None:
    """One message for all summaries, fenced as data, and the user's own before it is sent."""
    ctx = plan_context(transcript_of("suauauaua"))
    once = leave_out(ctx, 3, 4, summary="- first")
    plan = leave_out(once.after, 5, 6, summary="- second")
    blocks = [Fence.around(summary).wrap("summary", summary) for summary in ("- first", "- second")]
    text = "\n".join([TEXTS.say("compaction_heading"), *blocks])

    assert ["m0", "m1", "m2", SUMMARY_ID, "m7", "m8"] == ids(plan.messages)
    assert ("system", text) == (plan.messages[3].type, plan.messages[3].content)
    request = summaries_as_user(plan.messages)
    assert ("human", text, SUMMARY_ID) == (request[3].type, request[3].content, request[3].id)
    assert is_summary(request[3])
    assert [*plan.messages[:3], *plan.messages[4:]] == [*request[:3], *request[4:]]


def test_a_rolling_summary_replaces_the_earlier_ones() -> None:
    """Then it replaces all that was left out."""
    once = leave_out(plan_context(transcript_of("uauaua")), 0, 1, summary="- first")
    plan = leave_out(once.after, 2, 3, summary="- all", rolling=True)

    assert ("- all",) == plan.after.summaries
    assert [Omission(why="test", message_ids=("m0", "m1", "m2", "m3"), summary="- all")] == list(
        plan.left_out
    )


def test_a_window_that_slides_keeps_one_span() -> None:
    """What is left out without words, time after time, is one stretch."""
    ctx = plan_context(transcript_of("ua" * 40))
    for index in range(60):
        ctx = leave_out(ctx, index).after

    assert ["m59"] == [span["through"] for span in ctx.compaction["spans"]]
    assert [60] == [len(omission.message_ids) for omission in ctx.left_out]


def test_spans_run_together_when_there_are_too_many() -> None:
    """The state stays small, and no summary is lost by it."""
    ctx = plan_context(transcript_of("ua" * 20))
    for turn in range(20):
        ctx = leave_out(ctx, 2 * turn, 2 * turn + 1, summary=f"- turn {turn}").after

    assert MAX_SPANS == len(ctx.compaction["spans"])
    assert "\n".join(f"- turn {turn}" for turn in range(20)) == "\n".join(ctx.summaries)
    assert [SUMMARY_ID] == ids(ctx.context)


def test_single_messages_out_of_a_long_stretch_are_refused() -> None:
    """A span that would name too many messages that stay is a problem, and changes nothing."""
    ctx = plan_context(transcript_of("ua" * (MAX_KEPT + 2)))
    plan = leave_out(ctx, 0, len(ctx.messages) - 1)

    assert ctx == plan.after
    assert [InputError] == [type(problem) for problem in plan.problems]

    at_limit = plan_context([*transcript_of("u" * (MAX_KEPT + 2)), *transcript_of("a")])
    assert () == leave_out(at_limit, 0, MAX_KEPT + 1).problems


def test_a_pin_brings_a_message_back() -> None:
    """Pinning a compacted message shows it again, and the summary still covers the others."""
    plan = leave_out(plan_context(transcript_of("uauaua")), 0, 1, 2, 3, summary="- two turns")
    view = render(plan.after.messages, plan.compaction, pins={"m1"}, texts=TEXTS)

    assert [SUMMARY_ID, "m1", "m4", "m5"] == ids(view)


def test_a_message_that_stayed_in_a_span_may_go_later() -> None:
    """The running question of one turn is left out with the others when it is old."""
    messages = transcript_of("uau")
    once = leave_out(plan_context(messages), 0, 1, 2)
    next_ctx = plan_context(
        [*messages, *(m.model_copy(update={"id": f"n{m.id}"}) for m in transcript_of("auau"))]
    )
    ctx = PlanContext(
        messages=next_ctx.messages, count=next_ctx.count, texts=TEXTS, compaction=once.compaction
    )

    assert ["m2", "nm0", "nm1", "nm2", "nm3"] == ids(ctx.context)
    assert ["nm1", "nm2", "nm3"] == ids(leave_out(ctx, 2, 3, summary="- both").messages)[1:]


@pytest.mark.parametrize(
    ("length", "summaries"),
    [
        pytest.param(8, ["- one", "- two"], id="before the fold's end nothing was cut"),
        pytest.param(4, ["- one", "- two"], id="up to the fold's end"),
        pytest.param(3, ["- one"], id="into the second span"),
        pytest.param(1, [], id="into the first span"),
        pytest.param(0, [], id="all of it"),
    ],
)
def test_a_rollback_takes_along_the_summaries_of_what_it_took(
    length: int, summaries: list[str]
) -> None:
    """A summary never covers messages that were rolled back."""
    once = leave_out(plan_context(transcript_of("uauauaua")), 0, 1, summary="- one")
    compaction = leave_out(once.after, 2, 3, summary="- two").compaction

    assert summaries == list(
        plan_context(transcript_of("uauauaua")[:length], compaction=compaction).summaries
    )


@pytest.mark.parametrize(
    ("removed_count", "summaries", "shown_ids"),
    [
        pytest.param(0, [], [SUMMARY_ID, "m4", "m5"], id="nothing"),
        pytest.param(2, [], [SUMMARY_ID, "m4", "m5"], id="the first half of a span"),
        pytest.param(4, ["- two turns"], ["m4", "m5"], id="a span"),
        pytest.param(5, ["- two turns"], ["m5"], id="more than it"),
    ],
)
def test_a_span_goes_with_its_messages(
    removed_count: int, summaries: list[str], shown_ids: list[str]
) -> None:
    """Offloading a span's messages returns its summary; half a span stays one."""
    messages = transcript_of("uauaua")
    plan = leave_out(plan_context(messages), 0, 1, 2, 3, summary="- two turns")
    names = {message.id or "" for message in messages[:removed_count]}
    compaction = without_spans(plan.compaction, lambda span: span["through"] in names)
    ctx = plan_context(messages[removed_count:], compaction=json.loads(json.dumps(compaction)))

    assert summaries == summaries_of(plan.compaction, names)
    assert shown_ids == ids(ctx.context)


def test_spans_of_topics_go_too() -> None:
    """Each topic's compaction loses the removed messages."""
    inner = leave_out(plan_context(transcript_of("uaua")), 0, 1, summary="- a turn").compaction
    compaction = without_spans({"topics": {"x": inner}}, lambda span: span["through"] == "m1")

    assert [] == compaction["topics"]["x"]["spans"]


def test_japanese_contexts_are_headed_in_japanese() -> None:
    """The catalogue of the conversation's language is used."""
    plan = leave_out(plan_context(transcript_of("uaua")), 0, 1, summary="- 要点")
    view = render(plan.after.messages, plan.compaction, pins=(), texts=Texts("ja"))

    assert is_summary(view[0])
    assert text_of(view[0]).startswith("会話のこの部分は省かれています")


@pytest.mark.parametrize(
    ("messages", "running"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param(transcript_of("s"), [], id="instructions"),
        pytest.param(transcript_of("ua"), [], id="answered"),
        pytest.param(transcript_of("uau"), ["m2"], id="asked"),
        pytest.param(transcript_of("uc"), ["m0"], id="at work"),
        pytest.param(transcript_of("c"), [], id="no question at all"),
    ],
)
def test_the_running_question_is_found(messages: list[Any], running: list[str]) -> None:
    """It is the newest one, unless an answer ends the conversation."""
    assert running == sorted(running_question(messages))


def test_a_message_without_an_id_is_refused() -> None:
    """A compaction could not name it."""
    with pytest.raises(InputError, match="message 1 has no id"):
        plan_context([HumanMessage("a", id="m0"), AIMessage("b")])


@pytest.mark.parametrize("window_tokens", [0, -1])
def test_a_window_without_room_is_refused(window_tokens: int) -> None:
    """There is none of no tokens."""
    with pytest.raises(ConfigurationError, match="window_tokens must be 1 or more"):
        plan_context([], window_tokens=window_tokens)


def test_a_situation_counts_what_a_request_costs() -> None:
    """The context with the overhead of every request; an unknown window is a large one."""
    ctx = plan_context(transcript_of("u", text="12345"), overhead_tokens=7)

    assert 7 + 10 + len("question 0: 12345") == ctx.tokens
    assert ctx.tokens / 200_000 == ctx.utilization
