"""The benchmark of what views still hold: its files, its views, its figures."""

import importlib
import json
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from langchain_core.embeddings import Embeddings

pytestmark = pytest.mark.full

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SHARES = ("10", "25", "37_5")
PLACES = ("Elba", "Otaru", "Lisbon", "Bergen", "Quito", "Hobart")
HOBBIES = ("pottery", "falconry", "archery", "chess", "surfing", "baking")


class Lengths(Embeddings):
    """Embeddings that know how long a text is."""

    def embed_query(self, text: str) -> list[float]:
        """Give the length, and one."""
        return [float(len(text)), 1.0]

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Do the same for several texts."""
        return [self.embed_query(text) for text in texts]


def conversation() -> dict[str, Any]:
    """Two people talk for 240 turns; six of these tell where one learned something."""
    turns = [
        {
            "id": f"D{number // 20}:{number % 20}",
            "speaker": ("Ines", "Jonas")[number % 2],
            "text": f"That was quite a day, number {number}, and I am rather tired of it all.",
        }
        for number in range(240)
    ]
    qa = []
    for number, (town, hobby) in enumerate(zip(PLACES, HOBBIES, strict=True)):
        turn = turns[40 + 27 * number]
        turn["text"] = f"I started {hobby} when we stayed in {town} with my cousin that summer."
        qa.append(
            {"question": f"Where did {turn['speaker']} start {hobby}?", "evidence": [turn["id"]]}
        )
    return {"id": "made-up", "turns": turns, "qa": qa}


def threads() -> list[dict[str, Any]]:
    """Short threads of an assistant, two subjects in each."""
    return [
        {
            "id": f"t{number}",
            "lang": "en",
            "utts": [
                {"role": "user", "text": f"What is {hobby}?"},
                {"role": "assistant", "text": f"{hobby} is a pastime that people enjoy."},
                {"role": "user", "text": f"Is {hobby} dangerous?"},
                {"role": "assistant", "text": "Hardly."},
                {"role": "user", "text": f"How large is {town}?"},
                {"role": "assistant", "text": f"{town} has a harbor and many people."},
                {"role": "user", "text": f"And does {town} have a museum?"},
                {"role": "assistant", "text": "It does."},
            ],
            "shift": [0, 0, 0, 0, 1, 0, 0, 0],
        }
        for number, (hobby, town) in enumerate(zip(HOBBIES, PLACES, strict=True))
    ]


@pytest.fixture
def retention(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The benchmark as a module."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("retention")


def write_rows(path: Path, *rows: Mapping[str, Any]) -> Path:
    """A file of these rows."""
    path.write_text("\n".join(json.dumps(row) for row in rows) + "\n", encoding="utf-8")
    return path


def figures(retention: ModuleType, *arguments: str, capsys: pytest.CaptureFixture[str]) -> Any:
    """What the benchmark prints as JSON."""
    assert 0 == retention.main([*arguments, "--json"])
    return json.loads(capsys.readouterr().out)


def test_figures_carry_their_items(
    retention: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each rule has a figure for each share of the tokens, over as many items as questions."""
    file = write_rows(tmp_path / "a.jsonl", conversation())
    report = figures(retention, str(file), capsys=capsys)
    names = {f"{rule}_at_{share}" for rule in retention.RULES for share in SHARES}
    assert {str(file)} == report.pop("files").keys()
    assert {*names, "live_recall", "live_tokens", "cpu_ms_per_question"} == report.keys()
    assert {6} == {figure["items"] for figure in report.values()}


def test_the_live_context_has_its_own_figure(
    retention: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the defaults recall holds the facts, in no more tokens than `recall_tokens`; people see it."""
    file = write_rows(tmp_path / "a.jsonl", conversation())
    report = figures(retention, str(file), capsys=capsys)
    assert 1.0 == report["live_recall"]["value"]
    assert 0 < report["live_tokens"]["value"] <= retention.RECALL_TOKENS
    assert retention.main([str(file)]) == 0
    assert "as the live context cuts it: 100.0 % in" in capsys.readouterr().out


def test_several_conversations_give_intervals(
    retention: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each share has the interval of its conversations; a single conversation has none."""
    shorter = {**conversation(), "qa": conversation()["qa"][:2]}
    one = figures(retention, str(write_rows(tmp_path / "1.jsonl", shorter)), capsys=capsys)
    two = figures(
        retention, str(write_rows(tmp_path / "2.jsonl", shorter, conversation())), capsys=capsys
    )
    assert "interval" not in one["sliding_at_10"]
    low, high = two["sliding_at_10"]["interval"]
    assert low <= two["sliding_at_10"]["value"] <= high
    assert "interval" in two["live_recall"]


def test_recall_finds_what_a_window_has_lost(
    retention: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Facts said long ago are in the view with recall, and in no window of the newest turns."""
    report = figures(
        retention, str(write_rows(tmp_path / "a.jsonl", conversation())), capsys=capsys
    )
    assert (1.0, 0.0, 0.0) == tuple(
        report[f"{rule}_at_10"]["value"] for rule in ("recall", "sliding", "three_stage")
    )


def test_labelled_threads_are_joined(retention: ModuleType, tmp_path: Path) -> None:
    """Each stretch between shifts gives a question, and its earlier turns are the evidence."""
    (thread,) = retention.talks(write_rows(tmp_path / "t.jsonl", *threads()))
    first, second = thread.questions[:2]
    assert (12, 24) == (len(thread.questions), len(thread.messages))
    assert ("Is pottery dangerous?", {"0:0", "0:1"}) == (first.text, first.evidence)
    assert ("And does Elba have a museum?", {"1:0", "1:1"}) == (second.text, second.evidence)
    assert not {question.text for question in thread.questions} & {m.text for m in thread.messages}


@pytest.mark.parametrize("share", [0.1, 0.25, 0.375])
def test_contexts_stay_within_their_share(
    retention: ModuleType, tmp_path: Path, share: float
) -> None:
    """A view costs no more than its share of the conversation, counted as a whole."""
    (thread,) = retention.talks(write_rows(tmp_path / "a.jsonl", conversation()))
    budget = int(share * retention.COUNTER.count(thread.messages))
    shown_ids = retention.three_stage(thread, budget // 2)
    assert {"D0:0", "D0:1", "D0:2", "D11:19"} <= shown_ids
    for question in thread.questions:
        view = retention.with_recall(thread, question, shown_ids, budget, None)
        cost = retention.COUNTER.count([m for m in thread.messages if m.id in view])
        assert shown_ids < view
        assert 0.9 * budget <= cost <= 1.01 * budget


@pytest.mark.parametrize(
    ("percent", "expected"), [(1, 0), (3, 5), (5, 8), (8, 13), (12, 23), (50, 23)]
)
def test_recents_give_way_where_room_is_short(
    retention: ModuleType, tmp_path: Path, percent: int, expected: int
) -> None:
    """Primers and recents stay within their room: with too little, half the recents are kept."""
    (thread,) = retention.talks(write_rows(tmp_path / "a.jsonl", conversation()))
    room = sum(thread.costs.values()) * percent // 100
    shown_ids = retention.three_stage(thread, room)
    assert expected == len(shown_ids)
    assert sum(thread.costs[id_] for id_ in shown_ids) <= room


def test_evidence_that_is_no_turn_is_passed_over(retention: ModuleType, tmp_path: Path) -> None:
    """A question whose evidence names no turn is not counted, one that names some is."""
    row = conversation()
    row["qa"][0]["evidence"] = ["D99:1"]
    row["qa"][1]["evidence"].append("D99:2")
    (thread,) = retention.talks(write_rows(tmp_path / "a.jsonl", row))
    assert 5 == len(thread.questions)
    assert {1} == {len(question.evidence) for question in thread.questions}


def test_embeddings_are_named_on_the_command_line(
    retention: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With embeddings the same figures come from words and meaning together."""
    file = write_rows(tmp_path / "a.jsonl", conversation())
    name = f"{__name__}:{Lengths.__name__}"
    report = figures(retention, str(file), "--embeddings", name, capsys=capsys)
    assert 0.5 < report["recall_at_25"]["value"] <= 1


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        pytest.param("nowhere", "write MODULE:NAME", id="no-module"),
        pytest.param("json:nothing", "write MODULE:NAME", id="no-name"),
        pytest.param("builtins:dict", "is no LangChain Embeddings", id="something-else"),
    ],
)
def test_embeddings_that_are_none_are_refused(
    retention: ModuleType, capsys: pytest.CaptureFixture[str], name: str, problem: str
) -> None:
    """A file that cannot be loaded, or is something else, is reported."""
    with pytest.raises(SystemExit):
        retention.main(["--embeddings", name, "a.jsonl"])
    assert problem in capsys.readouterr().err


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("[]", id="no-object"),
        pytest.param("{", id="no-json"),
        pytest.param('{"id": "a", "turns": []}', id="no-questions"),
        pytest.param('{"turns": [{"id": "1", "text": "a"}], "qa": []}', id="no-speaker"),
    ],
)
def test_a_line_of_another_form_is_refused(
    retention: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str
) -> None:
    """A file of another form is refused, with the line's number."""
    file = tmp_path / "a.jsonl"
    file.write_text(f"{line}\n", encoding="utf-8")
    assert 2 == retention.main([str(file)])
    assert f"{file}, line 1" in capsys.readouterr().err


def test_people_get_a_table(
    retention: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each rule has its line under its file, in percent."""
    assert 0 == retention.main([str(write_rows(tmp_path / "t.jsonl", *threads()))])
    head, name, *rows = capsys.readouterr().out.splitlines()
    assert ["10", "%", "25", "%", "37.5", "%"] == head.split()
    assert "(12 questions" in name
    assert list(retention.RULES) == [row.split()[0] for row in rows[:4]]
