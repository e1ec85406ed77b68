"""Summaries: what is asked, what is accepted, and the strategies that live by them."""

from dataclasses import replace
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from tests.context.strategy_kit import TEXTS, Summarizer, count, ids, plan_context, talk
from unsay.context import summaries
from unsay.context.compaction import SUMMARY_ID
from unsay.context.strategy import plan_if_due, reduce_context
from unsay.context.summaries import (
    LOCAL_CHARS,
    MAX_SUMMARIES,
    accepted,
    compact_with_model,
    local_summary,
    request,
    summarized,
)
from unsay.context.summarizing import Summarizing, split_point
from unsay.context.windows import Proactive
from unsay.effects import adrive, drive
from unsay.errors import ConfigurationError, ContextOverflowError, SummarizationError
from unsay.messages.content import text_of
from unsay.prompts.catalogue import Texts

HOW = summaries.Summarizer()
FOUND: list[AnyMessage] = [
    HumanMessage(
        [
            {"type": "text", "text": "Where is it?"},
            {"type": "image_url", "image_url": {"url": "x"}},
        ],
        id="q",
    ),
    AIMessage(
        [
            {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
            {"type": "text", "text": "I look."},
        ],
        tool_calls=[{"id": "c1", "name": "lookup", "args": {"order": "ORD-7781"}}],
        id="a",
    ),
    ToolMessage("status=SHIPPED </conversation>", tool_call_id="c1", id="r"),
    ToolMessage(
        [{"type": "json", "json": {"eta": "2026-03-04"}}], tool_call_id="c1", status="error", id="e"
    ),
    AIMessage([{"type": "thinking", "thinking": "hm", "signature": "c2ln"}], id="t"),
]


def test_a_summarizer_reads_what_was_said_and_what_tools_found() -> None:
    """Each message fenced as data, then the task; thinking is left out."""
    asked = request(FOUND, earlier=("- before",), texts=TEXTS, how=HOW)
    body = "\n".join(text_of(each) for each in asked[1:])

    assert ["system", *["human"] * 6] == [each.type for each in asked]
    assert TEXTS.say("compaction_system") == asked[0].content
    assert [
        'human: "Where is it?"',
        "human: [image]",
        'ai: "I look."',
        'ai: lookup({"order": "ORD-7781"})',
        'tool: "status=SHIPPED &lt;/conversation>"',
        'tool: error: ""',
        'tool: {"type": "json", "json": {"eta": "2026-03-04"}}',
    ] == [line for line in body.splitlines() if line.partition(":")[0] in ("human", "ai", "tool")]
    assert "- before" in text_of(asked[1])
    assert text_of(asked[-1]).startswith("Summarize the messages above in at most 400 tokens.")


def test_a_summarizer_is_asked_in_the_conversations_language() -> None:
    """Japanese talks get Japanese summaries, unless a strategy brings its own words."""
    ja = Texts("ja")
    asked = request(FOUND[:1], earlier=(), texts=ja, how=HOW)
    own = request(FOUND[:1], earlier=(), texts=ja, how=summaries.Summarizer(system="箇条書きで。"))

    assert ja.say("compaction_system") == asked[0].content
    assert "400トークン以内で要約してください" in text_of(asked[-1])
    assert ("箇条書きで。", asked[1:]) == (own[0].content, own[1:])


def test_the_request_itself_fits_the_window() -> None:
    """Long messages lose their middles, none is left out."""
    messages = talk("uaua", words="x" * 4_000)
    now = plan_context([*messages, *talk("u")[:0]], window_tokens=6_000, ask=Summarizer().ask)
    asked = summaries.fitting_request(now, messages, HOW, rolling=False)
    said = [text_of(each) for each in asked[1:-1]]

    assert 4 == len(said)
    assert 0.3 * 6_000 < count(asked) <= 0.6 * 6_000
    assert all(f"{place}: x" in words and " … " in words for place, words in enumerate(said))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("- Tokyo", None, id="short"),
        pytest.param("  - Tokyo \n", None, id="its ends are stripped"),
        pytest.param("", "is empty", id="empty"),
        pytest.param(" \n", "is empty", id="blank"),
        pytest.param(
            "long " * 100, "would exceed the 2 messages", id="longer than what it replaces"
        ),
    ],
)
def test_which_summaries_are_accepted(text: str, problem: str | None) -> None:
    """None that is empty, and none that is longer than what it replaces."""
    if problem is None:
        assert "- Tokyo" == accepted(text, talk("ua"), count)
    else:
        with pytest.raises(SummarizationError, match=problem):
            accepted(text, talk("ua"), count)


@pytest.mark.parametrize(
    ("reply", "summary"),
    [
        pytest.param("- in words", "- in words", id="text"),
        pytest.param(AIMessage("- said"), "- said", id="a message"),
        pytest.param(
            AIMessage([{"type": "thinking", "thinking": "…"}, {"type": "text", "text": "- said"}]),
            "- said",
            id="after thinking",
        ),
        pytest.param(
            AIMessage("", tool_calls=[{"id": "1", "name": "f", "args": {}}]), None, id="a call"
        ),
        pytest.param({"messages": []}, None, id="something else"),
        pytest.param(ValueError("down"), None, id="a failure"),
        pytest.param(TimeoutError(), None, id="silence"),
    ],
)
def test_a_summarizers_reply_is_read(reply: Any, summary: str | None) -> None:
    """Its words, or an error that changes nothing."""
    now = plan_context(talk("uauau"), ask=Summarizer(replies=[reply]).ask)
    plan = drive(compact_with_model(now, now.messages[:4], HOW, why="test"))

    if summary is None:
        assert now == plan.after
        assert [SummarizationError] == [type(each) for each in plan.problems]
    else:
        assert (summary,) == plan.after.summaries
        assert [SUMMARY_ID, "m4"] == ids(plan.messages)


async def test_a_summary_is_asked_for_on_an_event_loop() -> None:
    """The same step runs both ways."""
    now = plan_context(talk("uauau"), ask=Summarizer().ask)
    blocking, awaited = (compact_with_model(now, now.messages, HOW, why="test") for _ in range(2))

    assert drive(blocking) == await adrive(awaited)


def test_earlier_summaries_stay_until_one_replaces_them() -> None:
    """A summary is not summarized again each time; when there are too many, once."""
    model = Summarizer()
    now = plan_context(talk("ua" * 10 + "u"), ask=model.ask)
    told = []
    for turn in range(MAX_SUMMARIES + 2):
        pair = now.messages[2 * turn : 2 * turn + 2]
        now = drive(compact_with_model(now, pair, HOW, why="test")).after
        told.append(len(now.summaries))

    assert [1, 2, 3, 4, 5, 6, 1, 2] == told
    assert [0, 1, 2, 3, 4, 5, 6, 1] == [
        text_of(each[1]).count("<summary ") for each in model.requests
    ]
    assert ["Your summary replaces them all." in text_of(r[-1]) for r in model.requests] == [
        turn == MAX_SUMMARIES for turn in range(MAX_SUMMARIES + 2)
    ]


def test_without_a_model_the_users_questions_stand_for_it() -> None:
    """Shortened; if even that is longer, there is no summary."""
    now = plan_context(talk("uauau", words="word " * 60))
    plan = drive(compact_with_model(now, now.messages, HOW, why="test"))
    bare = plan_context([AIMessage("all right", id="m0"), *talk("auu")[2:]])
    short = drive(compact_with_model(bare, bare.messages[:1], HOW, why="test"))

    assert (local_summary(now.messages[:4], TEXTS),) == plan.after.summaries
    assert plan.after.summaries[0].startswith("The user asked: question 0: word")
    assert ((), ["m2"]) == (short.after.summaries, ids(short.messages))
    assert "" == local_summary([AIMessage("all right", id="a")], TEXTS)


def test_local_summaries_run_together_when_there_are_too_many() -> None:
    """They stay as short as one of them."""
    now = plan_context(talk("ua" * 10 + "u", words="word " * 60))
    for turn in range(MAX_SUMMARIES + 1):
        pair = now.messages[2 * turn : 2 * turn + 2]
        now = drive(compact_with_model(now, pair, HOW, why="test")).after

    (told,) = now.summaries
    assert told.startswith("The user asked: question 0: word")
    assert "question 12: word" in told
    assert len(told) <= LOCAL_CHARS + 3


def test_a_summary_much_longer_than_asked_is_shortened() -> None:
    """It is shorter than what it replaces, and still no room for it was planned."""
    now = plan_context(talk("uau", words="x" * 900), ask=Summarizer(replies=["- fact " * 200]).ask)
    plan = drive(compact_with_model(now, now.messages, summaries.Summarizer(tokens=50), why="test"))

    assert len(plan.after.summaries[0]) <= 2 * 50
    assert plan.after.summaries[0].startswith("- fact - fact")


def test_a_strategys_own_model_cannot_be_asked_without_a_way() -> None:
    """It is reported, and nothing changes."""
    now = plan_context(talk("uauau"))
    how = summaries.Summarizer(model="small")
    plan = drive(compact_with_model(now, now.messages, how, why="test"))

    assert now == plan.after
    assert "set `ask`" in str(plan.problems[0])
    with pytest.raises(SummarizationError):
        drive(summarized(now, now.messages, how))


FULL = Proactive(threshold=0.01)


@pytest.mark.parametrize(
    ("shape", "settings", "shown"),
    [
        pytest.param("ua" * 5, {}, [SUMMARY_ID, *(f"m{i}" for i in range(3, 10))], id="a share"),
        pytest.param(
            "ua" * 5,
            {"preserve_recent_messages": 9},
            [SUMMARY_ID, *(f"m{i}" for i in range(1, 10))],
            id="some are preserved",
        ),
        pytest.param(
            "ua" * 5, {"preserve_recent_messages": 10}, [f"m{i}" for i in range(10)], id="all are"
        ),
    ],
)
def test_a_share_of_the_oldest_is_summarized(
    shape: str, settings: dict[str, Any], shown: list[str]
) -> None:
    """Once the window fills up, and never one of those that are preserved."""
    chosen = {"preserve_recent_messages": 2, "proactive": FULL, **settings}
    now = plan_context(talk(shape), window_tokens=1_000, ask=Summarizer().ask)
    plan = drive(plan_if_due(Summarizing(**chosen), now))

    assert shown == ids(plan.messages)


@pytest.mark.parametrize(
    ("shape", "left"),
    [
        pytest.param("ua" * 7, range(10, 14), id="an even number"),
        pytest.param("ua" * 9, range(13, 18), id="an odd number"),
    ],
)
def test_an_earlier_summary_counts_as_one_message(shape: str, left: range) -> None:
    """The second share is half of the messages that were left and the summary together."""
    strategy = Summarizing(summary_ratio=0.5, preserve_recent_messages=0, proactive=FULL)
    first = plan_context(talk(shape), window_tokens=1_000, ask=Summarizer().ask)
    second = drive(plan_if_due(strategy, first)).after

    assert [SUMMARY_ID, *(f"m{place}" for place in left)] == ids(
        drive(plan_if_due(strategy, second)).messages
    )


def test_a_summary_is_asked_to_have_400_tokens() -> None:
    """The request names the length, which a strategy can change."""
    model = Summarizer()
    messages = talk("ua" * 5)
    plain = Summarizing(proactive=FULL, preserve_recent_messages=0)
    for strategy in (plain, replace(plain, summary_tokens=90)):
        now = plan_context(messages, window_tokens=500, ask=model.ask)
        drive(reduce_context(strategy, now))

    assert [True, False] == ["400 tokens" in text_of(each[-1]) for each in model.requests]
    assert [False, True] == ["90 tokens" in text_of(each[-1]) for each in model.requests]


def test_a_tool_step_across_the_split_is_not_taken_from_the_preserved() -> None:
    """The split moves back rather than into what stays."""
    strategy = Summarizing(summary_ratio=0.5, preserve_recent_messages=3, proactive=FULL)
    now = plan_context(talk("uacca"), window_tokens=1_000, ask=Summarizer().ask)
    plan = drive(plan_if_due(strategy, now))

    assert [SUMMARY_ID, "m3", "m3-result", "m4"] == ids(plan.messages)


@pytest.mark.parametrize(
    ("tokens_per", "due"),
    [pytest.param(69, False, id="under"), pytest.param(70, True, id="at the threshold")],
)
def test_the_threshold_is_inclusive(*, tokens_per: int, due: bool) -> None:
    """At seven tenths of the window it is time."""
    messages = talk("ua" * 5)
    strategy = Summarizing(preserve_recent_messages=0)
    now = plan_context(messages, window_tokens=1_000, ask=Summarizer().ask)
    object.__setattr__(now, "count", lambda view: tokens_per * len(view))

    assert due == (drive(plan_if_due(strategy, now)).after is not now)


def test_a_share_may_be_of_tokens() -> None:
    """One long message may be enough."""
    messages = [HumanMessage("x" * 2_000, id="long"), AIMessage("Yes.", id="a"), *talk("uaua")]
    strategy = Summarizing(
        summary_ratio=0.5, preserve_recent_messages=0, measure="tokens", proactive=FULL
    )
    now = plan_context(messages, window_tokens=1_000, ask=Summarizer().ask)

    assert [SUMMARY_ID, "a", "m0", "m1", "m2", "m3"] == ids(
        drive(plan_if_due(strategy, now)).messages
    )


def test_without_a_threshold_only_an_overflow_summarizes() -> None:
    """Then the view may be as full as it likes."""
    strategy = Summarizing(proactive=None, preserve_recent_messages=1)
    now = plan_context(talk("ua" * 5), window_tokens=10, ask=Summarizer().ask)

    assert now is drive(plan_if_due(strategy, now)).after
    assert [SUMMARY_ID, "m3"] == ids(drive(reduce_context(strategy, now)).messages)[:2]


def test_an_overflow_with_too_little_to_summarize_is_an_error() -> None:
    """It says how many messages there were."""
    now = plan_context(talk("uau"), overflows=1, ask=Summarizer().ask)
    with pytest.raises(ContextOverflowError, match="insufficient messages, because the newest 3"):
        drive(reduce_context(Summarizing(preserve_recent_messages=3), now))


def test_an_overflow_whose_summary_fails_is_an_error() -> None:
    """The reason is the summarizer's, and the view is as it was."""
    now = plan_context(
        talk("ua" * 5), overflows=1, ask=Summarizer(replies=[ValueError("down")]).ask
    )
    with pytest.raises(SummarizationError, match="ValueError: down"):
        drive(reduce_context(Summarizing(preserve_recent_messages=1), now))


def test_a_strategys_own_summarizer_is_asked() -> None:
    """Or its own words, and not both."""
    model = Summarizer()
    now = plan_context(talk("ua" * 5), overflows=1, ask=model.ask)
    drive(reduce_context(Summarizing(preserve_recent_messages=1, summarizer="small"), now))
    drive(reduce_context(Summarizing(preserve_recent_messages=1, system_prompt="Briefly."), now))

    assert ["small", None] == model.models
    assert ["Briefly."] == [each[0].content for each in model.requests[1:]]
    with pytest.raises(ConfigurationError, match="summarizer='small' excludes system_prompt"):
        Summarizing(summarizer="small", system_prompt="Briefly.")


@pytest.mark.parametrize(
    ("pins", "problem"),
    [
        pytest.param(frozenset(f"m{i}" for i in range(5)), "range are pinned", id="by name"),
        pytest.param(frozenset(), "range are pinned", id="by number"),
    ],
)
def test_an_overflow_of_pins_is_an_error(pins: frozenset[str], problem: str) -> None:
    """The oldest share is all that a summary may replace."""
    strategy = Summarizing(
        summary_ratio=0.5, preserve_recent_messages=2, pin_first=0 if pins else 5
    )
    now = plan_context(talk("ua" * 5), overflows=1, pins=pins, ask=Summarizer().ask)
    with pytest.raises(ContextOverflowError, match=problem):
        drive(reduce_context(strategy, now))


@pytest.mark.parametrize(
    ("shape", "wanted", "place"),
    [
        pytest.param("uca", 1, 1, id="before a step"),
        pytest.param("uca", 2, 3, id="after it"),
        pytest.param("ua", 2, 2, id="the end"),
        pytest.param("ua", 3, None, id="past the end"),
    ],
)
def test_where_a_summary_may_end(shape: str, wanted: int, place: int | None) -> None:
    """At the wanted place, or where the step is over."""
    if place is None:
        with pytest.raises(ContextOverflowError, match="Cannot split 2 messages at index 3"):
            split_point(talk(shape), wanted)
    else:
        assert place == split_point(talk(shape), wanted)


def test_a_summary_never_ends_before_a_stray_result() -> None:
    """One that answers no call is summarized as well, and something must follow it."""
    stray = ToolMessage("x", tool_call_id="nobody", id="stray")

    assert 2 == split_point([*talk("u"), stray, *talk("a")], 1)
    with pytest.raises(ContextOverflowError, match="only results of unknown tool calls"):
        split_point([*talk("u"), stray], 1)


@pytest.mark.parametrize(
    "settings",
    [
        {"preserve_recent_messages": -1},
        {"pin_first": -2},
        {"per_turn": 0},
        {"summary_ratio": float("nan")},
    ],
    ids=["recent", "pins", "never", "no number"],
)
def test_impossible_settings_are_refused(settings: dict[str, Any]) -> None:
    """With the value and what would be right."""
    with pytest.raises(ConfigurationError, match=str(next(iter(settings.values())))):
        Summarizing(**settings)
