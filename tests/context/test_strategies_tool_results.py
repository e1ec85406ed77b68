"""Tool results made shorter in views."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from tests.context.strategy_kit import TEXTS, ids, plan_context
from unsay.context.compaction import clear, shortened, truncate
from unsay.context.plan import Omission
from unsay.context.windows import clear_stale, shorten_results, truncate_large
from unsay.prompts.catalogue import Texts

BASE64 = "data:image/jpeg;base64,YmFzZTY0ZW5jb2RlZGRhdGE="


def result(content: Any, name: str = "r", **options: Any) -> ToolMessage:
    """What a tool found."""
    return ToolMessage(content, tool_call_id=f"call-{name}", id=name, **options)


def steps(*contents: str) -> list[AnyMessage]:
    """A question, and a tool step for each result."""
    messages: list[AnyMessage] = [HumanMessage("Look it up.", id="q")]
    for index, content in enumerate(contents):
        call = {"id": f"call-r{index}", "name": "search", "args": {}}
        messages += [
            AIMessage("", id=f"c{index}", tool_calls=[call]),
            result(content, f"r{index}"),
        ]
    return messages


LONG = "head " * 60 + "middle " * 100 + "tail " * 60


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param("short", None, id="short"),
        pytest.param("x" * 400, None, id="twice what is kept"),
        pytest.param("x" * 440, None, id="no shorter with the words between"),
        pytest.param(
            "a" * 300 + "b" * 300 + "c" * 300,
            f"{'a' * 200}\n… [truncated: 500 characters removed] …\n{'c' * 200}",
            id="long",
        ),
        pytest.param(
            "あ" * 300 + "い" * 300 + "う" * 300,
            f"{'あ' * 200}\n… [truncated: 500 characters removed] …\n{'う' * 200}",
            id="characters, not bytes",
        ),
        pytest.param(
            "a" * 199 + "e\u0301" + "b" * 400 + "👩\u200d👧" + "c" * 198,
            f"{'a' * 199}\n… [truncated: 402 characters removed] …\n👩\u200d👧{'c' * 198}",
            id="no visible character in half",
        ),
        pytest.param(
            [{"type": "text", "text": "seen"}, {"type": "image_url", "image_url": {"url": BASE64}}],
            "seen\n[image left out: jpeg, 17 bytes]",
            id="an image",
        ),
        pytest.param(
            [
                {
                    "type": "image",
                    "source": {"type": "base64", "media_type": "image/png", "data": "YWI="},
                }
            ],
            "[image left out: png, 2 bytes]",
            id="an image of Anthropic's",
        ),
        pytest.param(
            [{"type": "file", "base64": "YWJj", "mime_type": "application/pdf"}],
            "[file left out: pdf, 3 bytes]",
            id="a file",
        ),
        pytest.param(
            [{"type": "image_url", "image_url": "https://example.com/a.png"}],
            "[image left out: ?, ? bytes]",
            id="an image elsewhere",
        ),
        pytest.param(
            [{"type": "json", "json": {"rows": "1" * 900}}],
            '{"type": "json", "json": {"rows": "'
            + "1" * 165
            + "\n… [truncated: 538 characters removed] …\n"
            + "1" * 197
            + '"}}',
            id="data",
        ),
    ],
)
def test_a_result_is_truncated(content: Any, expected: str | None) -> None:
    """Its beginning and end stay, and its status; what is short enough is left alone."""
    original = result(content, status="error")
    once = truncate(original, TEXTS)

    assert (content if expected is None else expected) == once.content
    assert (expected is None) == (once is original)
    assert "error" == once.status
    assert once is truncate(once, TEXTS)
    assert once is truncate(once, TEXTS, keep=10) or expected is None


@given(st.text(max_size=1_500), st.integers(1, 300))
def test_a_truncated_result_is_never_longer(text: str, keep: int) -> None:
    """It begins and ends as the result does, or is the result."""
    original = result(text)
    content = str(truncate(original, TEXTS, keep=keep).content)

    assert len(content) <= len(text)
    assert content == text or text.endswith(content[-1])


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param("short", "short", id="short"),
        pytest.param(
            "x" * 900, "[An old result of this tool, 900 characters long, is left out.]", id="long"
        ),
        pytest.param(
            [{"type": "text", "text": "x"}, {"type": "image_url", "image_url": {"url": BASE64}}],
            "[An old result of this tool, 1 characters long, is left out.]\n"
            "[image left out: jpeg, 17 bytes]",
            id="an image",
        ),
        pytest.param(
            [{"type": "text", "text": "few"}], [{"type": "text", "text": "few"}], id="few words"
        ),
    ],
)
def test_a_result_is_cleared(content: Any, expected: Any) -> None:
    """A line says how long it was."""
    once = clear(result(content), TEXTS)

    assert expected == once.content
    assert once is clear(once, TEXTS)
    assert once is truncate(once, TEXTS) or expected == content


def test_shortened_results_say_so_in_japanese() -> None:
    """In the conversation's language."""
    long_result = result("あ" * 900)

    assert "500文字を省略" in truncate(long_result, Texts("ja")).content
    assert "(900文字)は省かれています" in clear(long_result, Texts("ja")).content


def test_only_results_that_are_not_fresh_are_stale() -> None:
    """The newest five stay, and what would not get shorter."""
    ctx = plan_context(steps(LONG, "short", *[LONG] * 6))
    every = tuple(f"r{index}" for index in (0, 2, 3, 4, 5, 6, 7))

    assert (Omission(why="cleared", message_ids=("r0", "r2")),) == clear_stale(ctx).left_out
    assert (Omission(why="truncated", message_ids=every),) == truncate_large(ctx, 0).left_out


def test_stale_results_are_cleared_at_once() -> None:
    """All of them, and a plan says which; the transcript has them whole."""
    ctx = plan_context(steps(*[LONG] * 8))
    plan = clear_stale(ctx)
    cleared_ids = ("r0", "r1", "r2")

    assert (Omission(why="cleared", message_ids=cleared_ids),) == plan.left_out
    assert cleared_ids == tuple(m.id for m in plan.messages if shortened(m))
    assert plan.after is clear_stale(plan.after).after
    assert [LONG] * 8 == [m.content for m in ctx.messages if m.type == "tool"]


@pytest.mark.parametrize(
    ("overflows", "window_tokens", "truncated_ids"),
    [
        pytest.param(0, None, ["r0"], id="one at a time"),
        pytest.param(1, None, ["r0"], id="one at the first overflow"),
        pytest.param(2, None, ["r0", "r1", "r2"], id="all at the second"),
        pytest.param(1, 100_000, ["r0"], id="one where the window has room"),
        pytest.param(1, 3_500, ["r0", "r1"], id="as many as it takes"),
        pytest.param(1, 500, ["r0", "r1", "r2"], id="all where nothing helps"),
    ],
)
def test_large_results_are_truncated_oldest_first(
    overflows: int, window_tokens: int | None, truncated_ids: list[str]
) -> None:
    """A newer giant is reached too, before anything that was said is left out."""
    ctx = plan_context(
        steps("x" * 2_000, "y" * 2_000, "z" * 2_000),
        overflows=overflows,
        window_tokens=window_tokens,
    )
    plan = shorten_results(ctx)

    assert truncated_ids == [m.id for m in plan.messages if shortened(m) == "truncated"]
    assert ids(ctx.messages) == ids(plan.messages)


def test_what_was_truncated_may_be_cleared_and_never_comes_back() -> None:
    """Marks only move on: no result is whole again that was not."""
    ctx = truncate_large(plan_context(steps(*[LONG] * 3)), goal_tokens=0).after
    messages = [
        *ctx.messages,
        *(m.model_copy(update={"id": f"n{m.id}"}) for m in steps(*[LONG] * 7)[1:]),
    ]
    next_ctx = plan_context(messages, compaction=ctx.compaction)
    cleared_ctx = clear_stale(next_ctx).after

    assert {"r0", "r1", "r2"} <= next_ctx.shortened_ids
    assert next_ctx.shortened_ids <= cleared_ctx.shortened_ids
    assert {"nr0", "nr1"} <= cleared_ctx.shortened_ids


def test_a_pinned_result_is_shown_whole() -> None:
    """As is one whose call is pinned."""
    messages = steps(*[LONG] * 8)
    ctx = plan_context(messages, pins=frozenset({"r0", "c1"}))
    plan = clear_stale(ctx)

    assert ["r2"] == [m.id for m in plan.messages if shortened(m)]
    assert plan.after is clear_stale(plan.after).after


def test_nothing_to_shorten_changes_nothing() -> None:
    """No mark is set."""
    ctx = plan_context(steps("short"))

    assert ctx is shorten_results(ctx).after
