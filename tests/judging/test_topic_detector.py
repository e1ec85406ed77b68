"""Where a question belongs among the topics of a thread."""

import importlib
import json
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unsay.judging import topic_detector
from unsay.judging.topic_detector import CUES, JAPANESE_WEIGHTS, WEIGHTS, LexicalDetector
from unsay.protocols import ShiftKind, TopicDetector, TopicMemory, TopicShift

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic's texts and, beside them, its name."""

    name: str
    """Its id."""

    texts: tuple[str, ...]
    """Questions and answers."""

    def memory(self) -> TopicMemory:
        """Give what a detector sees of it."""
        return TopicMemory(topic_id=self.name, texts=self.texts)


LISTS = Topic(
    name="lists",
    texts=(
        "Please tell me about Python list comprehensions.",
        "A list comprehension builds a list in one Python expression: [x * x for x in range(9)].",
    ),
)
WEATHER = Topic(
    name="weather",
    texts=(
        "By the way, how is the weather today?",
        "I cannot see live weather data; a forecast will tell you whether it stays sunny.",
    ),
)
TRIP = Topic(
    name="trip",
    texts=(
        "I'm planning a week in Lisbon. What should I see?",
        "In Lisbon see the Alfama quarter, the Belém tower, and take tram 28 through the old town.",
    ),
)
FEATURES = Topic(
    name="features",
    texts=(
        "Which features does the product have?",
        "It offers search, sharing, and notifications on every device.",
    ),
)
BARE = Topic(name="bare", texts=("q1", "a1"))
BARE_WORDS = Topic(name="bare words", texts=("first question", "first answer"))
ASKED = Topic(
    name="asked",
    texts=("Recommend a novel based on one I name.", "Sure, which novel did you enjoy?"),
)

LISTS_JA = Topic(
    name="lists",
    texts=(
        "Pythonのリスト内包表記について教えてください。",
        "リスト内包表記は、Pythonで新しいリストを一つの式で作る記法です。",
    ),
)
WEATHER_JA = Topic(
    name="weather",
    texts=(
        "ところで、今日の天気はどうですか?",
        "リアルタイムの天気は分かりません。気象庁の予報をご確認ください。",
    ),
)
TRIP_JA = Topic(
    name="trip",
    texts=(
        "京都旅行の計画を立てています。おすすめの寺はどこですか？",
        "京都では清水寺と金閣寺が有名です。紅葉の季節は特に混みます。",
    ),
)
FEATURES_JA = Topic(
    name="features",
    texts=(
        "製品機能について教えてください。",
        "この製品には検索、共有、通知の機能があります。",
    ),
)

SAME = [
    ("How do I add a condition to it?", LISTS),
    ("Can I nest two of them?", LISTS),
    ("Thanks!", LISTS),
    ("Why?", LISTS),
    ("Can you give me an example?", LISTS),
    ("What about dictionaries?", LISTS),
    ("Please rewrite your answer as a bulleted list.", LISTS),
    ("Are you sure? I thought it was slower.", LISTS),
    ("It doesn't work", LISTS),
    ("Is a comprehension faster than a loop?", LISTS),
    ("Please tell me about Python decorators too.", LISTS),
    ("How do I get to the Belém tower from there?", TRIP),
    ("This sounds great, how crowded does tram 28 get?", TRIP),
    ("How do I get there from the airport?", TRIP),
    ("Moby Dick.", ASKED),
    ("q2", BARE),
    ("q2 (first answer is bad)", BARE),
    ("question 3", BARE),
    ("hello", BARE),
    ("second question", BARE_WORDS),
    ("", LISTS),
    (" \n", LISTS),
    ("？！", LISTS_JA),
    ("もう少し詳しく教えてください。", LISTS_JA),
    ("ありがとう", LISTS_JA),
    ("なぜですか？", LISTS_JA),
    ("続けて", LISTS_JA),
    ("例を見せてください", LISTS_JA),
    ("では、辞書の場合はどう書きますか？", LISTS_JA),
    ("それを関数にしてください", LISTS_JA),
    ("ifを使った条件も付けられますか？", LISTS_JA),
    ("英語に翻訳して", LISTS_JA),
    ("内包表記は普通のループより速いですか？", LISTS_JA),
    ("清水寺の近くで昼食を取れますか？", TRIP_JA),
    ("その中で一番静かなのはどこですか？", TRIP_JA),
    ("通知を止めるにはどうしますか？", FEATURES_JA),
    ("JavaScriptではどう書きますか？", LISTS_JA),
    ("デメリットはありますか？", LISTS_JA),
    ("予算はどのくらい必要ですか？", TRIP_JA),
]

NEW = [
    ("By the way, how is the weather today?", LISTS),
    ("Switching gears, how are violins tuned?", LISTS),
    ("Another question: how do I cancel my gym membership?", LISTS),
    ("Who won the World Cup in 2018?", LISTS),
    ("What should I cook for dinner tonight?", LISTS),
    ("I have a question about my invoice.", FEATURES),
    ("How can I pay my bill?", FEATURES),
    ("What is your refund policy?", FEATURES),
    ("Can you explain how vaccines train the immune system?", TRIP),
    ("Moving on, I need a slogan for a bakery.", TRIP),
    ("Unrelated, but which telescope suits a beginner?", WEATHER),
    ("Could you recommend a laptop for video editing?", WEATHER),
    ("ところで、今日の天気はどうですか?", LISTS_JA),
    ("請求について教えてください。", FEATURES_JA),
    ("先月の請求額が間違っているようです。", FEATURES_JA),
    ("請求書の支払い方法を教えてください", FEATURES_JA),
    ("話は変わりますが、引っ越しの手続きを知りたいです。", LISTS_JA),
    ("別の質問です。確定申告の期限はいつですか？", LISTS_JA),
    ("別件ですが、会議室を予約したいです。", TRIP_JA),
    ("京都のおすすめの観光地を教えてください。", LISTS_JA),
    ("日本の首都はどこですか？", LISTS_JA),
    ("そういえば、猫の予防接種はいつ受けますか？", TRIP_JA),
    ("住宅ローンの金利について説明してください。", TRIP_JA),
    ("光合成とは何ですか？植物の働きを知りたいです。", WEATHER_JA),
]

BACK = [
    ("Please tell me about Python decorators too.", WEATHER, (LISTS,), "lists"),
    ("Please tell me about Python decorators too.", WEATHER, (TRIP, LISTS), "lists"),
    ("Back to Python: how do I filter?", WEATHER, (TRIP, LISTS), "lists"),
    ("Let's go back to the comprehension.", WEATHER, (LISTS, TRIP), "lists"),
    ("Returning to Lisbon, which hotels are cheap?", LISTS, (WEATHER, TRIP), "trip"),
    ("As for the Alfama quarter again, is it safe at night?", LISTS, (TRIP,), "trip"),
    ("How many days does one need in Lisbon?", LISTS, (WEATHER, TRIP), "trip"),
    ("Let's go back to what we had before.", WEATHER, (TRIP, LISTS), "trip"),
    ("Pythonのデコレータについても教えてください。", WEATHER_JA, (LISTS_JA,), "lists"),
    ("Pythonのデコレータについても教えてください。", WEATHER_JA, (TRIP_JA, LISTS_JA), "lists"),
    ("話を戻しますが、内包表記に条件は書けますか？", WEATHER_JA, (TRIP_JA, LISTS_JA), "lists"),
    ("話を戻しましょう。", WEATHER_JA, (TRIP_JA, LISTS_JA), "trip"),
    ("さっきのPythonの件ですが、辞書でもできますか？", WEATHER_JA, (LISTS_JA,), "lists"),
    ("京都旅行に戻りますが、宿はどこがいいですか？", LISTS_JA, (WEATHER_JA, TRIP_JA), "trip"),
    ("清水寺の拝観料はいくらですか？", LISTS_JA, (WEATHER_JA, TRIP_JA), "trip"),
    ("通知の機能は無料ですか？", TRIP_JA, (FEATURES_JA, LISTS_JA), "features"),
]

SAME_PLACE = ("same", None)
NEW_PLACE = ("new", None)


def detect(question: str, current: Topic, *other_topics: Topic) -> TopicShift:
    """Ask the detector as it ships."""
    detector: TopicDetector = LexicalDetector()
    return detector.detect(question, current.memory(), [topic.memory() for topic in other_topics])


@pytest.mark.parametrize(("question", "current"), SAME, ids=[case[0] for case in SAME])
def test_same(question: str, current: Topic) -> None:
    """A follow-up stays in its topic."""
    assert _kind_and_topic(detect(question, current)) == SAME_PLACE


@pytest.mark.parametrize("question", ["Thanks!", "ありがとうございます。", "Why?", "続けて", ""])
def test_same_among_others(question: str) -> None:
    """A word of thanks returns to no earlier topic."""
    assert _kind_and_topic(detect(question, WEATHER, LISTS, TRIP_JA)) == SAME_PLACE


@pytest.mark.parametrize(("question", "current"), NEW, ids=[case[0] for case in NEW])
def test_new(question: str, current: Topic) -> None:
    """A new subject opens a topic."""
    assert _kind_and_topic(detect(question, current)) == NEW_PLACE


@pytest.mark.parametrize(
    ("question", "current", "other_topics", "expected"), BACK, ids=[case[0] for case in BACK]
)
def test_back(
    question: str, current: Topic, other_topics: tuple[Topic, ...], expected: str
) -> None:
    """A question that an earlier topic knows better, or names, goes back there."""
    shift = ("back", expected)
    assert shift == _kind_and_topic(detect(question, current, *other_topics))


@pytest.mark.parametrize(
    "turns",
    [
        (LISTS, WEATHER, "Please tell me about Python decorators too."),
        (LISTS_JA, WEATHER_JA, "Pythonのデコレータについても教えてください。"),
    ],
    ids=["english", "japanese"],
)
def test_there_and_back(turns: tuple[Topic, Topic, str]) -> None:
    """A conversation that turns aside and comes back is followed both ways."""
    first, aside, return_topic = turns
    shifts = [
        _kind_and_topic(detect(aside.texts[0], first)),
        _kind_and_topic(detect(return_topic, aside, first)),
    ]
    assert shifts == [("new", None), ("back", first.name)]


def test_threshold_decides() -> None:
    """A detector that asks for certainty lets an unannounced subject pass."""
    careful = LexicalDetector(threshold=0.99)
    current = LISTS.memory()
    shift = careful.detect("Who won the World Cup in 2018?", current, [])
    assert shift.kind == "same"


def test_weights_name_their_sources() -> None:
    """Each source of the shipped weights has a licence that allows shipping them."""
    path = Path(topic_detector.__file__).with_name("topics.json")
    weights_file = json.loads(path.read_text(encoding="utf-8"))
    assert {source["licence"] for source in weights_file["sources"]} <= {
        "Apache-2.0",
        "MIT",
        "CC BY 4.0",
    }


def test_every_weight_has_its_cue() -> None:
    """Every wording is weighed, in both ways, except those that only returns read."""
    assert set(CUES) - set(WEIGHTS) == {"return", "earlier"}
    assert set(CUES) - set(JAPANESE_WEIGHTS) == {"return", "earlier"}


WORDS = st.sampled_from(
    [
        "Python",
        "天気",
        "back to",
        "話を戻",
        "?",
        "請求",
        "it",
        "by the way",
        "ところで",
        "\n",
        "リスト",
    ]
)
TEXTS = st.one_of(st.text(max_size=80), st.lists(WORDS, max_size=8).map(" ".join))
MEMORIES = st.lists(TEXTS, min_size=1, max_size=4).map(tuple)


@given(question=TEXTS, current=MEMORIES, topics=st.lists(MEMORIES, max_size=3))
def test_any_question_is_placed(
    question: str, current: tuple[str, ...], topics: list[tuple[str, ...]]
) -> None:
    """For any message, the answer is valid and repeatable."""
    memories = [TopicMemory(topic_id=str(i), texts=texts) for i, texts in enumerate(topics)]
    current_memory = TopicMemory(topic_id="here", texts=current)
    shift = LexicalDetector().detect(question, current_memory, memories)
    assert (shift.kind == "back") == (shift.topic_id in {topic.topic_id for topic in memories})
    assert 0.0 <= shift.similarity <= 1.0
    assert LexicalDetector().detect(question, current_memory, memories) == shift


@given(question=st.text(alphabet=" \t\n?!。、", max_size=9), topics=st.lists(MEMORIES, max_size=2))
def test_nothing_said_changes_nothing(question: str, topics: list[tuple[str, ...]]) -> None:
    """A question without words stays in its topic."""
    memories = [TopicMemory(topic_id=str(i), texts=texts) for i, texts in enumerate(topics)]
    shift = LexicalDetector().detect(question, LISTS.memory(), memories)
    assert shift.kind == "same"


@pytest.fixture
def benchmark_topics(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The benchmark as a module."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("topics")


@pytest.fixture
def labelled_file(tmp_path: Path) -> Path:
    """A file of one A-B-A conversation whose three decisions are all clear."""
    texts = [*LISTS.texts, "Thanks!", "You are welcome.", *WEATHER.texts]
    texts += ["Back to Python: what is a decorator?", "A function that wraps a function."]
    row = {
        "id": "1",
        "lang": "en",
        "set": "dev",
        "src": "made up",
        "utts": [
            {"role": "assistant" if i % 2 else "user", "text": text} for i, text in enumerate(texts)
        ],
        "shift": [0, 0, 0, 0, 1, 0, 1, 0],
        "kind": ["a", "a", "a", "a", "b", "b", "a-return", "a-return"],
    }
    path = tmp_path / "topic_made.jsonl"
    path.write_text(json.dumps(row) + "\n\n", encoding="utf-8")
    return path


def test_benchmark_prints_figures(
    benchmark_topics: ModuleType, labelled_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With `--json` there is one object whose figures carry their number of items."""
    assert benchmark_topics.main([str(labelled_file), "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    expected = {
        "macro_f1": {"value": 1.0, "items": 3},
        "precision": {"value": 1.0, "items": 2},
        "recall": {"value": 1.0, "items": 2},
        "return_recall": {"value": 1.0, "items": 1},
        "return_shift_recall": {"value": 1.0, "items": 1},
        "return_which": {"value": 1.0, "items": 1},
        "return_ranked": {"value": 1.0, "items": 1},
    }
    by_file = figures.pop("files")[str(labelled_file)]
    assert figures.pop("cpu_ms_per_decision")["items"] == 3
    # One conversation says nothing about the next one: its F1 has no interval, its shares a wide one.
    assert "interval" not in figures["macro_f1"]
    for name in expected.keys() - {"macro_f1"}:
        assert figures[name].pop("interval") == [0.2065, 1.0]
    assert expected == figures
    assert by_file["precision"]["interval"] == [0.2065, 1.0]


def test_benchmark_takes_embeddings(
    benchmark_topics: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With `--embeddings` they rank the earlier topics, and not the words."""
    hobby = "What does photography cost as a hobby?"
    texts = [hobby, "A lot.", *WEATHER.texts, "By the way, why do volcanoes erupt?", "Heat."]
    texts.append("Let's go back to photographers.")
    row = {
        "utts": [
            {"role": "assistant" if i % 2 else "user", "text": text} for i, text in enumerate(texts)
        ],
        "shift": [0, 0, 1, 0, 1, 0, 1],
        "kind": ["", "", "", "", "", "", "return"],  # to the weather, as the label has it
    }
    path = tmp_path / "topic_made.jsonl"
    path.write_text(json.dumps(row), encoding="utf-8")
    ranks = []
    for options in ([], ["--embeddings", "tests.graph.test_topics_by_meaning:Trigrams"]):
        assert 0 == benchmark_topics.main([str(path), "--json", *options])
        figures = json.loads(capsys.readouterr().out)
        ranks.append((figures["return_ranked"]["value"], figures["return_which"]["value"]))
    assert [(1.0, 1.0), (0.0, 0.0)] == ranks


def test_benchmark_prints_a_table(
    benchmark_topics: ModuleType, labelled_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """People get each figure of each file with its interval, and the means."""
    assert benchmark_topics.main([str(labelled_file)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [str(labelled_file), "overall"] == [line for line in lines if not line.startswith(" ")]
    assert ["macro_f1", "1.000", "(3)"] == lines[1].split()


def test_benchmark_needs_a_file(
    benchmark_topics: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a file it says what to give."""
    assert benchmark_topics.main([]) == 2
    assert "one or more files" in capsys.readouterr().err


@pytest.mark.parametrize(
    "line",
    ["not json", "[]", '{"utts": []}', '{"utts": [{"role": "user", "text": "x"}], "shift": []}'],
)
def test_benchmark_names_a_bad_line(
    benchmark_topics: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str
) -> None:
    """A line of another format is named."""
    path = tmp_path / "bad.jsonl"
    path.write_text(line + "\n", encoding="utf-8")
    assert benchmark_topics.main([str(path)]) == 2
    assert "line 1" in capsys.readouterr().err


def test_benchmark_misses_a_file(
    benchmark_topics: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file that is not there is named."""
    assert benchmark_topics.main([str(tmp_path / "none.jsonl")]) == 2
    assert "none.jsonl" in capsys.readouterr().err


def _kind_and_topic(shift: TopicShift) -> tuple[ShiftKind, str | None]:
    """Give what a table compares."""
    return shift.kind, shift.topic_id


def test_a_word_of_several_topics_counts_for_less() -> None:
    """With two other topics that know a word, it speaks half as much for the current one."""
    current = TopicMemory(topic_id="birds", texts=("Tell me about parrots.", "Parrots are birds."))
    other_memories = [TopicMemory(topic_id=name, texts=("Parrots again.",)) for name in ("a", "b")]
    alone, among = (
        LexicalDetector().detect("parrots", current, memories) for memories in ([], other_memories)
    )

    assert pytest.approx(2 / 3) == alone.similarity
    assert pytest.approx(1 / 3) == among.similarity
