"""Compactions over a transcript, and what a plan reports of them."""

import json
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from tests.context.strategy_kit import TEXTS, ids, plan_context, talk
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


def without(now: PlanContext, *places: int, **more: Any) -> Plan:
    """The plan that leaves out the messages in these places."""
    return now.leave_out([now.messages[each] for each in places], **{"why": "test", **more})


@pytest.mark.parametrize(
    ("shape", "places", "more", "shown"),
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
    shape: str, places: tuple[int, ...], more: dict[str, Any], shown: list[str]
) -> None:
    """For any choice, what must stay stays and steps are whole."""
    assert shown == ids(without(plan_context(talk(shape), **more), *places).messages)


def test_a_question_stays_with_its_documents() -> None:
    """The running question's documents are part of it."""
    page = HumanMessage("A page.", name=DOCUMENT, id="page")
    messages = [*talk("ua"), page, HumanMessage("And this?", id="asked")]
    plan = plan_context(messages).leave_out(messages, why="test")

    assert ["page", "asked"] == ids(plan.messages)


def test_a_summary_stands_where_the_first_message_was_left_out() -> None:
    """One message for all summaries, fenced as data, and the user's own before it is sent."""
    now = plan_context(talk("suauauaua"))
    once = without(now, 3, 4, summary="- first")
    plan = without(once.after, 5, 6, summary="- second")
    fenced = [Fence.around(each).wrap("summary", each) for each in ("- first", "- second")]
    told = "\n".join([TEXTS.say("compaction_heading"), *fenced])

    assert ["m0", "m1", "m2", SUMMARY_ID, "m7", "m8"] == ids(plan.messages)
    assert ("system", told) == (plan.messages[3].type, plan.messages[3].content)
    sent = summaries_as_user(plan.messages)
    assert ("human", told, SUMMARY_ID) == (sent[3].type, sent[3].content, sent[3].id)
    assert is_summary(sent[3])
    assert [*plan.messages[:3], *plan.messages[4:]] == [*sent[:3], *sent[4:]]


def test_a_rolling_summary_replaces_the_earlier_ones() -> None:
    """Then it replaces all that was left out."""
    once = without(plan_context(talk("uauaua")), 0, 1, summary="- first")
    plan = without(once.after, 2, 3, summary="- all", rolling=True)

    assert ("- all",) == plan.after.summaries
    assert [Omission(why="test", message_ids=("m0", "m1", "m2", "m3"), summary="- all")] == list(
        plan.left_out
    )


def test_a_window_that_slides_keeps_one_span() -> None:
    """What is left out without words, time after time, is one stretch."""
    now = plan_context(talk("ua" * 40))
    for place in range(60):
        now = without(now, place).after

    assert ["m59"] == [each["through"] for each in now.compaction["spans"]]
    assert [60] == [len(each.message_ids) for each in now.left_out]


def test_spans_run_together_when_there_are_too_many() -> None:
    """The state stays small, and no summary is lost by it."""
    now = plan_context(talk("ua" * 20))
    for turn in range(20):
        now = without(now, 2 * turn, 2 * turn + 1, summary=f"- turn {turn}").after

    assert MAX_SPANS == len(now.compaction["spans"])
    assert "\n".join(f"- turn {turn}" for turn in range(20)) == "\n".join(now.summaries)
    assert [SUMMARY_ID] == ids(now.context)


def test_single_messages_out_of_a_long_stretch_are_refused() -> None:
    """A span that would name too many messages that stay is a problem, and changes nothing."""
    now = plan_context(talk("ua" * (MAX_KEPT + 2)))
    plan = without(now, 0, len(now.messages) - 1)

    assert now == plan.after
    assert [InputError] == [type(each) for each in plan.problems]

    most = plan_context([*talk("u" * (MAX_KEPT + 2)), *talk("a")])
    assert () == without(most, 0, MAX_KEPT + 1).problems


def test_a_pin_brings_a_message_back() -> None:
    """Pinning a compacted message shows it again, and the summary still covers the others."""
    plan = without(plan_context(talk("uauaua")), 0, 1, 2, 3, summary="- two turns")
    view = render(plan.after.messages, plan.compaction, pins={"m1"}, texts=TEXTS)

    assert [SUMMARY_ID, "m1", "m4", "m5"] == ids(view)


def test_a_message_that_stayed_in_a_span_may_go_later() -> None:
    """The running question of one turn is left out with the others when it is old."""
    messages = talk("uau")
    once = without(plan_context(messages), 0, 1, 2)
    later = plan_context(
        [*messages, *(m.model_copy(update={"id": f"n{m.id}"}) for m in talk("auau"))]
    )
    now = PlanContext(
        messages=later.messages, count=later.count, texts=TEXTS, compaction=once.compaction
    )

    assert ["m2", "nm0", "nm1", "nm2", "nm3"] == ids(now.context)
    assert ["nm1", "nm2", "nm3"] == ids(without(now, 2, 3, summary="- both").messages)[1:]


@pytest.mark.parametrize(
    ("left", "told"),
    [
        pytest.param(8, ["- one", "- two"], id="before the fold's end nothing was cut"),
        pytest.param(4, ["- one", "- two"], id="up to the fold's end"),
        pytest.param(3, ["- one"], id="into the second span"),
        pytest.param(1, [], id="into the first span"),
        pytest.param(0, [], id="all of it"),
    ],
)
def test_a_rollback_takes_along_the_summaries_of_what_it_took(left: int, told: list[str]) -> None:
    """A summary never covers messages that were rolled back."""
    once = without(plan_context(talk("uauauaua")), 0, 1, summary="- one")
    compaction = without(once.after, 2, 3, summary="- two").compaction

    assert told == list(plan_context(talk("uauauaua")[:left], compaction=compaction).summaries)


@pytest.mark.parametrize(
    ("gone", "told", "shown"),
    [
        pytest.param(0, [], [SUMMARY_ID, "m4", "m5"], id="nothing"),
        pytest.param(2, [], [SUMMARY_ID, "m4", "m5"], id="the first half of a span"),
        pytest.param(4, ["- two turns"], ["m4", "m5"], id="a span"),
        pytest.param(5, ["- two turns"], ["m5"], id="more than it"),
    ],
)
def test_a_span_goes_with_its_messages(gone: int, told: list[str], shown: list[str]) -> None:
    """Offloading a span's messages returns its summary; half a span stays one."""
    messages = talk("uauaua")
    plan = without(plan_context(messages), 0, 1, 2, 3, summary="- two turns")
    names = {each.id or "" for each in messages[:gone]}
    left = without_spans(plan.compaction, lambda span: span["through"] in names)
    now = plan_context(messages[gone:], compaction=json.loads(json.dumps(left)))

    assert told == summaries_of(plan.compaction, names)
    assert shown == ids(now.context)


def test_spans_of_topics_go_too() -> None:
    """Each topic's compaction loses the removed messages."""
    inner = without(plan_context(talk("uaua")), 0, 1, summary="- a turn").compaction
    compaction = without_spans({"topics": {"x": inner}}, lambda span: span["through"] == "m1")

    assert [] == compaction["topics"]["x"]["spans"]


def test_japanese_contexts_are_headed_in_japanese() -> None:
    """The catalogue of the conversation's language is used."""
    plan = without(plan_context(talk("uaua")), 0, 1, summary="- 要点")
    view = render(plan.after.messages, plan.compaction, pins=(), texts=Texts("ja"))

    assert is_summary(view[0])
    assert text_of(view[0]).startswith("会話のこの部分は省かれています")


@pytest.mark.parametrize(
    ("messages", "running"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param(talk("s"), [], id="instructions"),
        pytest.param(talk("ua"), [], id="answered"),
        pytest.param(talk("uau"), ["m2"], id="asked"),
        pytest.param(talk("uc"), ["m0"], id="at work"),
        pytest.param(talk("c"), [], id="no question at all"),
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
    now = plan_context(talk("u", words="12345"), overhead_tokens=7)

    assert 7 + 10 + len("question 0: 12345") == now.tokens
    assert now.tokens / 200_000 == now.utilization
