"""`topics="model"` over HTTP: intents in the judge's call or in a call of their own, and failures."""

import json
from collections.abc import Callable, Mapping
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore

from tests.http.openai_server import Asked, OpenAIServer, Said, Script
from tests.reading import topics
from unsay import Conversation, build_graph

Serve = Callable[[Script], OpenAIServer]

ENGLISH = (
    "When does the ferry to Naoshima leave?",
    "By the way, what does lunch on board cost?",
    "And for children?",
)
JAPANESE = (
    "直島行きのフェリーは何時に出ますか?",
    "ところで、船内の昼食はいくらですか?",
    "子どもの場合は?",
)
LANGUAGES = pytest.mark.parametrize(
    "questions", [pytest.param(ENGLISH, id="en"), pytest.param(JAPANESE, id="ja")]
)
"""The local detector finds a new topic in the second question, and none in the third."""

ANSWERS = (
    "The ferry leaves at nine in the morning from the third pier.",
    "A bowl of noodles costs eight hundred yen on the upper deck.",
    "Below the age of six it is half of the price.",
    "The Millau Viaduct, which is taller than the Eiffel tower.",
)

SAME = {"intent": "DEVELOP_TOPIC", "topic": ""}
NEW = {"intent": "CHANGE_TOPIC", "topic": ""}


def script(intents: Mapping[str, Any], *, judges: bool = True) -> Script:
    """An answerer, and a judge that gives each question its intent, with a grade if it `judges`."""
    answers = cycle(ANSWERS)

    def reply(request: Asked) -> Said:
        if request.model != "judge":
            return next(answers)
        content = request.body["messages"][-1]["content"]
        question = content.split("<question key=")[1].split("\n")[1]
        grade = {"score": 0.9, "consistency": 1.0, "reason": "Good.", "advice": "", "query": ""}
        intent = intents.get(question, {})
        if isinstance(intent, str):
            return intent
        return {**grade, "blamed": [], **intent} if judges else intent

    return reply


def open_with_topics(path: Path, **settings: Any) -> Conversation:
    """A conversation with the models of the server."""
    topic_settings = {
        "judge_model": "judge",
        "topics": "model",
        "summaries": "local",
        "recall_tokens": 0,
    }
    return Conversation.open(path / "t.db", model="answerer", settings=topic_settings | settings)


def asked_questions(server: OpenAIServer) -> list[str]:
    """The user messages that the answerer was sent last."""
    messages = server.asked_of("answerer")[-1].body["messages"]
    return [m["content"].rsplit("\n", 1)[-1] for m in messages if m["role"] == "user"]


@LANGUAGES
def test_the_judge_labels_in_its_own_call(
    serve: Serve, tmp_path: Path, questions: tuple[str, ...]
) -> None:
    """A wrong `new` of the local detector is taken back with the verdict, without another call."""
    first, second, third = questions
    server = serve(script({second: SAME, third: SAME}))
    with open_with_topics(tmp_path) as conversation:
        conversation.say(first)
        reply = conversation.say(second)
        assert [second] == asked_questions(server)
        assert reply.topic_change is None

        conversation.say(third)

    assert [first, second, third] == asked_questions(server)
    assert 3 == len(server.asked_of("judge")) == len(server.asked_of("answerer"))
    request_without_label, request_with_label, _ = server.asked_of("judge")
    assert "JUST_COMMENT" not in request_without_label.system
    assert "JUST_COMMENT" in request_with_label.system
    assert ("質問" in request_with_label.system) == (questions is JAPANESE)
    assert first in request_with_label.text.split("<topics key=")[1].split("</topics")[0]
    schema = request_with_label.body["response_format"]["json_schema"]["schema"]
    assert {"intent", "topic"} <= set(schema["required"])


@LANGUAGES
def test_a_change_that_the_words_do_not_show(
    serve: Serve, tmp_path: Path, questions: tuple[str, ...]
) -> None:
    """The topic begins at the question that the judge labels, so that the next context lacks it."""
    first, _, third = questions
    server = serve(script({third: NEW}))
    with open_with_topics(tmp_path) as conversation:
        conversation.say(first)
        assert "new" == conversation.say(third).topic_change
        assert [first, third] == asked_questions(server)

        conversation.say(third)
        assert [third, third] == asked_questions(server)
        assert 2 == len({turn.topic for turn in conversation.timeline().turns})


def test_a_return_names_its_topic(serve: Serve, tmp_path: Path) -> None:
    """The topic to which the judge says that a question returns is shown again."""
    first, second, third = ENGLISH
    return_intent = {"intent": "RETURN_TO_TOPIC", "topic": "topic-1"}
    server = serve(script({second: NEW, third: return_intent}))
    with open_with_topics(tmp_path) as conversation:
        conversation.say(first)
        conversation.say(second)
        reply = conversation.say(third)
        assert ("back", "ferry to Naoshima leave") == (reply.topic_change, reply.topic)
        assert (
            "[id topic-1] earlier topic:"
            in server.asked_of("judge")[-1].body["messages"][-1]["content"]
        )
        conversation.say("And back?")
        assert [first, third, "And back?"] == asked_questions(server)


@LANGUAGES
@pytest.mark.parametrize("settings", [{"judging": "local"}], ids=str)
def test_a_call_of_its_own_before_the_answer(
    serve: Serve, tmp_path: Path, questions: tuple[str, ...], settings: dict[str, Any]
) -> None:
    """Where the judge does not read every answer, it labels first, so that this context is right."""
    first, second, third = questions
    server = serve(script({second: SAME, third: NEW}, judges=False))
    with open_with_topics(tmp_path, **settings) as conversation:
        conversation.say(first)
        assert conversation.say(second).topic_change is None
        assert [first, second] == asked_questions(server)
        assert "new" == conversation.say(third).topic_change
        assert [third] == asked_questions(server)

    labels = [request for request in server.asked_of("judge") if "CHANGE_TOPIC" in request.system]
    assert 2 == len(labels)
    assert all("score" not in request.text for request in labels)


NONSENSE = {
    "unknown": {"intent": "MAYBE", "topic": ""},
    "missing": {},
    "no-such-topic": {"intent": "RETURN_TO_TOPIC", "topic": "topic-9"},
    "prose": "Score: 0.9. The user changes the topic, I think.",
    "no-score": "I cannot say.",
}


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("judging", ["model", "local"])
@pytest.mark.parametrize("judge_reply", NONSENSE.values(), ids=NONSENSE)
def test_a_reply_that_cannot_be_used(serve: Serve, judge_reply: Any, judging: str) -> None:
    """The local detector decides, and the reason is on the custom stream."""
    first, second, third = ENGLISH
    serve(script({second: judge_reply, third: SAME}, judges=judging == "model"))
    graph = build_graph(
        "answerer",
        settings={
            "judge_model": "judge",
            "topics": "model",
            "judging": judging,
            "summaries": "local",
        },
        checkpointer=InMemorySaver(),
        store=InMemoryStore(),
    )
    config: Any = {"configurable": {"thread_id": "t"}}
    graph.invoke({"messages": [("user", first)]}, config)
    events = list(graph.stream({"messages": [("user", second)]}, config, stream_mode="custom"))

    reasons = [event["error"] for event in events if event["unsay"] == "topic_failed"]
    assert 1 == len(reasons)
    assert "ModelReplyError" in reasons[0]
    assert ["new"] == [event["kind"] for event in events if event["unsay"] == "topic"]
    assert 2 == len(topics(graph))


@pytest.mark.parametrize("judging", ["model", "local"])
def test_a_server_that_fails(serve: Serve, tmp_path: Path, judging: str) -> None:
    """The local detector decides, and the answer is delivered."""
    first, second, _ = ENGLISH
    server = serve(script({}))
    with open_with_topics(tmp_path, judging=judging) as conversation:
        conversation.say(first)
        server.script = lambda request: {"a": 1 / 0} if request.model == "judge" else "An answer."
        kinds = [(event.kind, event.data) for event in conversation.stream(second)]
        assert "topic_failed" in dict(kinds)
        assert "new" == json.loads(json.dumps(dict(kinds)["topic"]))["kind"]
        assert 2 == len(conversation.timeline().turns)


def test_a_person_is_not_overruled(serve: Serve, tmp_path: Path) -> None:
    """After `same_topic` a retry keeps the topic, whatever the judge says."""
    first, second, _ = ENGLISH
    server = serve(script({second: NEW}))
    with open_with_topics(tmp_path) as conversation:
        conversation.say(first)
        assert "new" == conversation.say(second).topic_change
        conversation.same_topic()

        assert conversation.retry().topic_change is None

        assert {"ferry to Naoshima leave"} == {turn.topic for turn in conversation.timeline().turns}
        assert first in asked_questions(server)
