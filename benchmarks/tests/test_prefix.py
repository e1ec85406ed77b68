"""The benchmark of prompt caches: its files, its cache, its rules, its figures."""

import importlib
import json
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage

from unsay.context.strategy import Null
from unsay.context.topics import TopicScoped
from unsay.context.windows import SlidingWindow, ThreeStage

pytestmark = pytest.mark.full

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
LONG = "The archive of the harbor holds ledgers, letters and maps of every year. " * 40
"""About 600 tokens."""


@pytest.fixture
def prefix(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The benchmark as a module."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("prefix")


def request(*texts: str) -> list[AnyMessage]:
    """A request of the user's and the assistant's words in turn."""
    kinds = (HumanMessage, AIMessage)
    return [kinds[number % 2](text) for number, text in enumerate(texts)]


def served_tokens(prefix: ModuleType, *requests: Sequence[AnyMessage]) -> list[int]:
    """What the cache serves of each request."""
    cache = prefix.Cache()
    served_by_request = []
    for request in requests:
        before = cache.served
        cache.take(request)
        served_by_request.append(cache.served - before)
    return served_by_request


def test_the_cache_serves_what_a_request_begins_with(prefix: ModuleType) -> None:
    """The first request is new; later ones find it cached in blocks of 128 tokens."""
    first = request(LONG, LONG, LONG)
    token_count = prefix.COUNT(first)
    second = [*first, AIMessage("Yes."), HumanMessage("And?")]
    assert [0, token_count // 128 * 128] == served_tokens(prefix, first, second)


@pytest.mark.parametrize(
    ("earlier", "later_texts", "expected"),
    [
        pytest.param((LONG, LONG, "a"), ("b" + LONG, LONG, "a"), (0, 0), id="another-beginning"),
        pytest.param((LONG, "a"), (LONG, "a", "b"), (0, 0), id="under-1024-tokens"),
        pytest.param((LONG, LONG, "a"), (LONG, LONG, "b"), (1_024, 1_300), id="another-end"),
        pytest.param((LONG, LONG + "a"), (LONG, LONG + "b"), (1_024, 1_300), id="within-a-message"),
    ],
)
def test_only_a_common_beginning_is_served(
    prefix: ModuleType,
    earlier: tuple[str, ...],
    later_texts: tuple[str, ...],
    expected: tuple[int, int],
) -> None:
    """Whole messages, and of the first different one the part before the difference."""
    _, served_by_cache = served_tokens(prefix, request(*earlier), request(*later_texts))
    least, upper = expected
    assert least <= served_by_cache <= upper
    assert not served_by_cache % 128


def test_any_earlier_request_is_kept(prefix: ModuleType) -> None:
    """A topic that returns finds what was sent of it before the conversation left it."""
    one = request(LONG, LONG, LONG)
    changed_request = request("x" + LONG, LONG, LONG)
    served_by_request = served_tokens(prefix, one, changed_request, one)
    assert [0, 0] == served_by_request[:2]
    assert served_by_request[2] == prefix.COUNT(one) // 128 * 128


def test_made_up_conversation_is_the_same_every_time(prefix: ModuleType) -> None:
    """Return N turns with different ids, each 16th with a tool."""
    turns = prefix.made_up(40)
    assert turns == prefix.made_up(40)
    assert [16, 32] == [number for number, turn in enumerate(turns, 1) if len(turn.steps) == 2]
    ids = [m.id for turn in turns for m in (*turn.asked, *(x for s in turn.steps for x in s))]
    assert len(set(ids)) == len(ids)


def draw_strategy(prefix: ModuleType, strategy: Any, turns: int = 60, **options: bool) -> Any:
    """The cache after a short talk in a small window."""
    return prefix._ours(prefix.made_up(turns), strategy, 4_000, **options)


def test_a_compaction_keeps_the_prefix_and_a_sliding_window_does_not(prefix: ModuleType) -> None:
    """Three stages have most of their tokens in the cache, a window that slides hardly any."""
    folds = draw_strategy(prefix, ThreeStage())
    slides = draw_strategy(prefix, SlidingWindow(window_size=16))
    assert folds.share > 0.6
    assert slides.share < 0.2
    assert folds.per_turn(0.1) < slides.per_turn(1) * 2
    assert 60 == folds.turns == slides.turns


def test_null_goes_as_far_as_it_fits(prefix: ModuleType) -> None:
    """Without a strategy the conversation ends where a request is larger than the window."""
    cache = draw_strategy(prefix, Null())
    assert 0 < cache.turns < 60
    assert cache.tokens / cache.requests < 4_000


def test_topics_are_told_apart(prefix: ModuleType) -> None:
    """With topics a view has fewer tokens than without, as others' words are in summaries."""
    strategy = TopicScoped(within=ThreeStage())
    turns = prefix.made_up(60)
    alone = prefix._ours(turns, ThreeStage(), 32_000)
    topics = prefix._ours(turns, strategy, 32_000, with_topics=True)
    recall = prefix._ours(turns, strategy, 32_000, with_topics=True, with_recall=True)
    assert topics.tokens < 0.7 * alone.tokens
    assert topics.tokens < recall.tokens


@pytest.mark.parametrize(
    "name", ["last_tokens", "summary_of_older", "cleared_results", "primers_and_recents"]
)
def test_rules_of_others_keep_to_the_budget(prefix: ModuleType, name: str) -> None:
    """Each ends with the newest message, begins with the user, and fits the window."""
    peer = prefix.peers(6_000)[name]
    messages = []
    for turn in prefix.made_up(80):
        messages += turn.asked
        for step in turn.steps:
            view = peer.view(messages)
            assert view[-1] is messages[-1]
            assert "human" == view[0].type
            assert prefix.COUNT(view) <= 6_000
            messages += step
    assert len(view) < len(messages)


def test_the_newest_turns_are_whole(prefix: ModuleType) -> None:
    """A rule of turns shows twenty of them, however long they are."""
    turns = prefix.made_up(30)
    messages = [m for turn in turns for m in (*turn.asked, *(x for s in turn.steps for x in s))]
    view = prefix.peers(6_000)["last_turns"].view(messages)
    assert turns[10].asked[0] is view[0]
    assert messages[-len(view) :] == view


def test_old_results_are_cleared(prefix: ModuleType) -> None:
    """Past the budget all but the newest three results are a word."""
    messages: list[AnyMessage] = []
    for number in range(6):
        call = {"name": "look", "args": {}, "id": f"c{number}"}
        messages += [HumanMessage("?"), AIMessage("", tool_calls=[call])]
        messages.append(ToolMessage(LONG, tool_call_id=f"c{number}"))
    view = prefix.peers(4_000)["cleared_results"].view(messages)
    results = [m.content for m in view if isinstance(m, ToolMessage)]
    assert ["[cleared]", LONG, LONG, LONG] == results[-4:]


def write_rows(path: Path, *rows: Any) -> Path:
    """A file of these rows."""
    path.write_text("\n".join(map(json.dumps, rows)) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(
            {
                "utts": [
                    {"role": "user", "text": "Where?"},
                    {"role": "assistant", "text": "Here."},
                    {"role": "user", "text": "Why?"},
                ],
                "shift": [0, 0, 0],
            },
            id="threads",
        ),
        pytest.param(
            {
                "turns": [
                    {"id": "1", "speaker": "Ines", "text": "Where?"},
                    {"id": "2", "speaker": "Jonas", "text": "Here."},
                ],
                "qa": [],
            },
            id="conversations",
        ),
        pytest.param(
            {
                "messages": [
                    {"role": "system", "content": "Be brief."},
                    {"role": "user", "content": "Where?"},
                    {"role": "assistant", "content": "Here."},
                ]
            },
            id="messages",
        ),
    ],
)
def test_files_of_all_shared_forms_are_read(
    prefix: ModuleType, tmp_path: Path, row: dict[str, Any]
) -> None:
    """Conversations of a file are one; an unanswered question continues in the next."""
    turns = prefix.read(write_rows(tmp_path / "a.jsonl", row, row), 10)
    questions = [[m.text for m in turn.asked][-1] for turn in turns]
    assert ["Where?", "Where?"] == questions
    assert ["Here.", "Here."] == [turn.steps[-1][-1].text for turn in turns]


def test_results_of_tools_belong_to_the_step_that_called_them(
    prefix: ModuleType, tmp_path: Path
) -> None:
    """A step ends where the model is asked again."""
    call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    row = {
        "messages": [
            {"role": "user", "content": "Where?"},
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "content": "in the hall", "tool_call_id": "c"},
            {"role": "assistant", "content": "In the hall."},
        ]
    }
    (turn,) = prefix.read(write_rows(tmp_path / "a.jsonl", row), 10)
    assert [["ai", "tool"], ["ai"]] == [[message.type for message in step] for step in turn.steps]


def test_figures_carry_their_items(prefix: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    """Every rule has a share, a cost and its tokens, over as many requests as it sent."""
    assert 0 == prefix.main(["--turns", "20", "--window", "3000", "--json"])
    figures = json.loads(capsys.readouterr().out)
    rules = ["", "_with_recall", *(f"_{name}" for name in prefix.strategies(3_000))]
    rules += [f"_{name}" for name in prefix.peers(3_000)]
    names = {f"{figure}{rule}" for figure in prefix.FIGURES for rule in rules}
    assert ["made up"] == [*figures.pop("files")]
    assert names == figures.keys()
    assert 21 == figures["cacheable_share"]["items"]
    for rule in rules:
        share, cost, tokens = (figures[f"{figure}{rule}"]["value"] for figure in prefix.FIGURES)
        assert 0 <= share < 1
        assert cost == pytest.approx(tokens * (1 - 0.9 * share), rel=1e-3)


def test_people_get_a_table(
    prefix: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each rule has its line under its file."""
    row = {"utts": [{"role": "user", "text": "Where?"}, {"role": "assistant", "text": "Here."}]}
    file = write_rows(tmp_path / "a.jsonl", row)
    assert 0 == prefix.main([str(file)])
    _, name, first, *lines = capsys.readouterr().out.splitlines()
    assert str(file) == name
    assert ["default", "0.000"] == first.split()[:2]
    assert {"three_stage", "last_tokens"} <= {line.split()[0] for line in lines}


def test_a_file_without_answers_is_refused(
    prefix: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file without a conversation is an error, not an empty result."""
    file = tmp_path / "a.txt"
    file.write_text("Some words that nobody answers.", encoding="utf-8")
    assert 2 == prefix.main([str(file)])
    assert "no turn with an answer" in capsys.readouterr().err


def test_instructions_stand_before_every_request(prefix: ModuleType) -> None:
    """A request begins with the same line under each of our rules."""
    (first, *_), *_ = [
        list(prefix.Views(strategy=Null(), window=32_000, count=prefix.COUNT).requests(turn))
        for turn in prefix.made_up(1)
    ]
    assert isinstance(first[0], SystemMessage)
    assert prefix.SYSTEM == first[0].content
