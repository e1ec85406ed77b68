import pytest
from langchain_core.messages import AIMessage

from unsay.budget.limits import Gauge
from unsay.context.manifest import Manifest, Spent, Tokens, read_manifest
from unsay.messages.content import cells_of
from unsay.prompts.catalogue import Texts
from unsay.results.usage import Usage, brief_text, percent, usage_text

PARTS = {"system": 1_200, "tools": 800, "recents": 10_000, "recalled": 400, "reply": 500}
LIVE = Tokens(input=9_000, output=1_000, total=10_000, cached=4_500, micros=1_234_500)
GAUGES = (
    Gauge(layer="session", unit="tokens", used=12_000, asked=0, limit=50_000),
    Gauge(layer="task", unit="micros", used=1_500_000, asked=0, limit=2_000_000),
)


def totals(window: int = 128_000, *, is_whole: bool = True, gauges: bool = True) -> Usage:
    """A conversation whose newest call has some parts."""
    manifest = Manifest(
        sent="", by_rule={}, parts=PARTS, window=window, question="", digest="00000000",
        attempt=1, call=1, model="m",
    )  # fmt: skip
    usage = Spent(
        live=LIVE, abandoned=Tokens(), judging=Tokens(input=70, total=70), is_whole=is_whole
    )
    return Usage(
        window=read_manifest(AIMessage(""), manifest, []),
        spent=usage,
        gauges=GAUGES if gauges else (),
    )


def test_the_whole_text_in_english() -> None:
    """The window's parts, what was spent on what, and each budget; nothing without tokens."""
    assert usage_text(totals(), Texts("en")).split("\n") == [
        "Context: 12,900 of 128,000 tokens (10 %)",
        "  system            1,200  0.9 %",
        "  tools               800  0.6 %",
        "  recent messages  10,000  7.8 %",
        "  recalled            400  0.3 %",
        "  reply (maximum)     500  0.4 %",
        "Used: 10,070 tokens, cost 1.2345",
        "  current branch  10,000  9,000 in (50 % cached), 1,000 out, cost 1.2345",
        "  judging             70  70 in (0 % cached), 0 out",
        "  session budget  12,000 of 50,000 (24 %)",
        "  task budget     1.5000 of 2 (75 %)",
    ]


def test_columns_stand_below_each_other_in_japanese() -> None:
    """Wide characters take two cells, and no line is wider than a terminal."""
    lines = usage_text(totals(), Texts("ja")).split("\n")
    assert "コンテキスト: 128,000トークン中12,900(10%)" == lines[0]
    ends = {cells_of(line[: line.rindex("  ")]) for line in lines[1:6]}
    assert 1 == len(ends)
    assert max(map(cells_of, lines)) <= 80


def test_where_nobody_knows_the_window_shares_are_of_what_is_used() -> None:
    """Without the window's size the parts are still told."""
    lines = usage_text(totals(window=0, gauges=False), Texts("en")).split("\n")
    assert "Context: 12,900 tokens (window size unknown)" == lines[0]
    assert "  recent messages  10,000  78 %" == lines[3]


def test_the_least_is_called_so() -> None:
    """Where not all was looked at, the sum does not pretend to be one."""
    assert "at least: 10,070" in usage_text(totals(is_whole=False), Texts("en"))


def test_nothing_is_told_of_a_thread_without_calls() -> None:
    """An empty thread has no window, and spent nothing."""
    empty = Usage(window=None, spent=Spent(live=Tokens(), abandoned=Tokens()), gauges=())
    assert usage_text(empty, Texts("en")).split("\n") == [
        "No model call has been measured yet.",
        "Used: 0 tokens",
        "  current branch  0  0 in (0 % cached), 0 out",
    ]


def test_the_brief_text_is_two_lines() -> None:
    """What a timeline ends in."""
    assert brief_text(totals(), Texts("en")).split("\n") == [
        "Context: 12,900 of 128,000 tokens (10 %) · system 1,200 · tools 800 · recent messages 10,000 · "
        "recalled 400 · reply (maximum) 500",
        "Used: 10,070 tokens, cost 1.2345 · current branch 10,000 · judging 70",
    ]


@pytest.mark.parametrize(
    ("count", "total", "text"),
    [(0, 0, "0 %"), (0, 9, "0 %"), (1, 1_000, "0.1 %"), (99, 1_000, "9.9 %"), (1, 2, "50 %"),
     (999, 10_000, "10 %")],
    ids=["of nothing", "nothing", "small", "under ten", "half", "just under ten"],
)  # fmt: skip
def test_shares_have_two_digits(count: int, total: int, text: str) -> None:
    """Small shares are distinguished, large ones are round; Japanese has no space before the sign."""
    assert text == percent(count, total, Texts("en"))
    assert text.replace(" ", "") == percent(count, total, Texts("ja"))
