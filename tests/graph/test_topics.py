import pytest
from langchain_core.messages import BaseMessage

from tests.graph.kit import config, make, say
from tests.reading import said
from unsay.context.compaction import summary_message
from unsay.prompts.catalogue import Texts
from unsay.testing import ScriptedChat, ScriptedDetector, ScriptedJudge
from unsay.types import Language

ENGLISH = {
    "Please tell me about Python list comprehensions.": (
        "A list comprehension builds a new list from an iterable in one expression, for example "
        "[n * n for n in range(5)]. Add an if clause to filter the items."
    ),
    "By the way, how is the weather today?": (
        "I cannot see live weather data from here. Please check a forecast for your town before "
        "you leave the house."
    ),
    "Please tell me about Python decorators too.": (
        "A Python decorator is a callable that takes a function and returns another one. Write "
        "@name above a def to apply it, for logging or caching for instance."
    ),
}
JAPANESE = {
    "Pythonのリスト内包表記について教えてください。": (
        "リスト内包表記は、既存のイテラブルから新しいリストを一行で作るPythonの構文です。"
        "たとえば [n * n for n in range(5)] と書き、ifで要素を絞り込むこともできます。"
    ),
    "ところで、今日の天気はどうですか?": (
        "現在の天気をここから直接見ることはできません。お出かけの前に天気予報をご確認ください。"
    ),
    "Pythonのデコレータについても教えてください。": (
        "デコレータは関数を受け取って別の関数を返すPythonの仕組みです。"
        "defの上に@名前と書くと、ログやキャッシュなどの処理を追加できます。"
    ),
}


@pytest.mark.parametrize(
    ("scenario", "language"),
    [pytest.param(ENGLISH, "en", id="en"), pytest.param(JAPANESE, "ja", id="ja")],
)
def test_the_seeds_three_questions(scenario: dict[str, str], language: Language) -> None:
    """Python, then the weather, then Python again: compacted, and opened again on return."""
    chat = ScriptedChat(replies=scenario)
    graph = make(chat, ScriptedJudge(), settings={"summaries": "local"})
    first, second, third = scenario

    state = say(graph, first, second, third)

    second_view = [str(m.content) for m in chat.calls[1]]
    third_view = [str(m.content) for m in chat.calls[2]]
    assert second_view[-1] == second
    assert not any(scenario[first] in text for text in second_view)
    assert chat.calls[1][0].type == "system"
    summary = state["topics"][1]["summary"]
    salt = graph.checkpointer.get_tuple(config()).checkpoint["channel_values"]["salt"]
    content = summary_message([summary], Texts(language).salted(salt)).content
    assert second in summary
    assert third_view == [first, scenario[first], f"{content}\n\n{third}"]
    assert [t["id"] for t in state["topics"]] == ["topic-1", "topic-2"]
    assert "Python" in state["current_topic"]
    assert len(state["messages"]) == 6


def test_forgetting_never_touches_the_record() -> None:
    """Folding leaves every message where it was, with its id."""
    chat = ScriptedChat(default="A reply with some words in it.")
    detector = ScriptedDetector(shifts={"new": "new", "back": "back"})
    graph = make(chat, ScriptedJudge(), detector=detector)
    say(graph, "one")
    before = graph.get_state(config()).values["messages"]

    state = say(graph, "something new", "and back")

    assert before == state["messages"][:2]
    assert len(state["messages"]) == 6


def test_a_context_keeps_its_prefix_while_the_topic_lasts() -> None:
    """Between folds each view begins with the view before it, message for message."""
    chat = ScriptedChat(default="A reply with some words in it.")
    detector = ScriptedDetector(shifts={"new": "new"})
    graph = make(chat, ScriptedJudge(), detector=detector, settings={"summaries": "local"})

    say(graph, "a", "new b", "c", "d")

    views = [[(m.type, m.content) for m in call] for call in chat.calls]
    assert views[2][: len(views[1])] == views[1]
    assert views[3][: len(views[2])] == views[2]


@pytest.mark.parametrize(
    ("summarizer", "expected"),
    [
        pytest.param(lambda _: "OLD TOPIC", "OLD TOPIC", id="summarizer"),
        pytest.param(None, "The user asked: one", id="no chat model"),
        pytest.param(lambda _: 1 / 0, "The user asked: one", id="broken-summarizer"),
        pytest.param(lambda _: "  ", "The user asked: one", id="empty-summary"),
    ],
)
def test_a_compaction_has_a_summary(summarizer: object, expected: str) -> None:
    """The compacted topic is summarized, by the local summary where a summarizer fails."""
    calls: list[list[BaseMessage]] = []

    def answer(messages: list[BaseMessage]) -> str:
        calls.append(messages)
        return "A reply with some words in it."

    detector = ScriptedDetector(shifts={"new": "new"})
    graph = make(answer, ScriptedJudge(), detector=detector, summarizer=summarizer)

    say(graph, "one", "new two")

    head = str(calls[-1][0].content)
    assert expected in head
    assert "A reply" not in head


def test_a_rollback_past_a_topic_forgets_its_summary() -> None:
    """What was taken back is not told to the model in a summary either."""
    chat = ScriptedChat(default="A reply with some words in it.")
    detector = ScriptedDetector(shifts={"new": "new", "newer": "new"})
    graph = make(chat, ScriptedJudge(), detector=detector)
    first = say(graph, "one")["checkpoints"][0]["id"]
    say(graph, "new two", "newer three", f"/rollback {first}", "four")

    text = " ".join(str(m.content) for m in chat.calls[-1])
    assert "two" not in text
    assert "three" not in text
    assert said(chat.calls[-1])[-1] == "human: four"


def test_topics_off_shows_the_whole_record() -> None:
    """With topics off a view is the transcript."""
    chat = ScriptedChat(default="A reply with some words in it.")
    detector = ScriptedDetector(default="new")
    graph = make(chat, ScriptedJudge(), detector=detector, settings={"topics": "off"})

    state = say(graph, "one", "two")

    assert [m.content for m in chat.calls[-1]] == [m.content for m in state["messages"][:-1]]


def test_a_new_task_has_a_checkpoint_at_its_start() -> None:
    """A new topic makes a checkpoint where the old one ended."""
    chat = ScriptedChat(default="A reply with some words in it.")
    detector = ScriptedDetector(shifts={"new": "new"})
    graph = make(chat, ScriptedJudge(default=0.6), detector=detector)

    state = say(graph, "one", "new two")

    (annotation,) = state["checkpoints"]
    assert annotation["reason"] == "task_start"
    assert annotation["message_id"] == state["messages"][1].id
