"""What the graph sends, byte for byte, as a provider's prompt cache sees it."""

import importlib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import BaseMessage, convert_to_openai_messages
from langchain_core.messages.ai import UsageMetadata
from langchain_core.tools import tool

from tests.reading import state_of
from unsay import Conversation
from unsay.testing import ScriptedChat, ScriptedDetector, ScriptedJudge
from unsay.tokens.counter import TokenCounter

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SYSTEM = "Answer briefly."


def answer(messages: Sequence[BaseMessage]) -> str:
    """Some two hundred different words for each question."""
    asked = messages[-1].text.split()[-1]
    return " ".join(f"{asked}{number}" for number in range(150))


def request_texts(model: ScriptedChat) -> list[list[str]]:
    """Each request's messages as the OpenAI protocol writes them."""
    return [
        [json.dumps(message) for message in convert_to_openai_messages(list(call))]
        for call in model.calls
    ]


def open_at(path: Path, model: Any, **settings: Any) -> Conversation:
    """A conversation that recalls nothing, in a window of 8,000 tokens."""
    options = {
        "context_window_tokens": 8_000,
        "recall_tokens": 0,
        "summaries": "local",
        "system_prompt": SYSTEM,
        "language": "en",
        **settings,
    }
    detector = ScriptedDetector(shifts={"Now": "new", "Back": "back"})
    return Conversation.open(
        path / "t.db", model=model, judge=ScriptedJudge(), detector=detector, settings=options
    )


@pytest.mark.full
def test_between_compactions_each_request_begins_with_the_one_before(tmp_path: Path) -> None:
    """Only where something is compacted does a request not go on from the last one."""
    model = ScriptedChat(script=answer)
    folds: list[Any] = []
    with open_at(tmp_path, model) as conversation:
        for number in range(60):
            conversation.say(f"What of number q{number}x?")
            folds.append(state_of(conversation).get("compaction"))
    requests = request_texts(model)
    breaks = [
        turn
        for turn in range(1, 60)
        if requests[turn][: len(requests[turn - 1])] != requests[turn - 1]
    ]
    assert breaks == [turn for turn in range(1, 60) if folds[turn] != folds[turn - 1]]
    assert 1 <= len(breaks) <= 6


@pytest.mark.full
def test_recall_changes_nothing_before_the_question(tmp_path: Path) -> None:
    """Recalled messages come right before the newest question, and are not in the next context."""
    model = ScriptedChat(script=answer)
    with open_at(tmp_path, model, recall_tokens=500) as conversation:
        for number in range(60):
            conversation.say(f"What of number q{number}x?")
        conversation.say("And what was the number q9x?")
        conversation.say("What of number q61x?")
    *_, before, recalling, after = request_texts(model)
    assert "<recalled" in recalling[-1]
    assert "q9x?149" in recalling[-1]
    assert before == recalling[: len(before)]
    assert recalling[:-1] == after[: len(recalling) - 1]
    assert not any("<recalled" in item for item in after)


def test_a_return_begins_with_what_was_sent_of_its_topic(tmp_path: Path) -> None:
    """Back on a topic, the request begins with the last one of that topic, byte for byte."""
    model = ScriptedChat(script=answer)
    questions = ["First a?", "More a1?", "Now b?", "More b1?", "Back to a2?", "More a3?"]
    with open_at(tmp_path, model) as conversation:
        for question in questions:
            conversation.say(question)
    requests = request_texts(model)
    assert requests[4][: len(requests[1])] == requests[1]
    assert requests[5][: len(requests[4])] == requests[4]
    assert any("Now b?" in item and "summary" in item for item in requests[4][len(requests[1]) :])


@pytest.mark.full
def test_the_benchmark_measures_what_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its requests are the graph's own, with topics that change and return, folds and tools."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    prefix = importlib.import_module("prefix")
    turns = prefix.made_up(70)
    replies = [step for turn in turns for step in turn.steps]
    results = {m.tool_call_id: m.content for step in replies for m in step[1:]}
    asked: list[str] = []

    @tool
    def search(query: str) -> str:
        """Looks something up."""
        asked.append(query)
        return list(results.values())[len(asked) - 1]

    # Without a provider's report both count alike; a report would correct the graph's estimate.
    metadata = UsageMetadata(input_tokens=0, output_tokens=0, total_tokens=0)

    def reply(messages: Sequence[BaseMessage]) -> Any:
        return replies[len(model.calls) - 1][0].model_copy(update={"usage_metadata": metadata})

    model = ScriptedChat(script=reply)
    with Conversation.open(
        tmp_path / "t.db",
        model=model,
        judge=ScriptedJudge(),
        tools=[search],
        settings={
            "context_window_tokens": 8_000,
            "recall_tokens": 0,
            "memory_tools": "off",
            "system_prompt": prefix.SYSTEM,
            "summaries": "local",
        },
    ) as conversation:
        for turn in turns:
            conversation.say(turn.asked[0].text)
    views = prefix.Views(
        strategy=prefix.TopicScoped(within=prefix.ThreeStage()),
        window=8_000,
        count=TokenCounter().count,
        tools_tokens=TokenCounter().count([], [search]) - TokenCounter().count([]),
        with_topics=True,
    )

    def texts(request: Sequence[BaseMessage]) -> list[tuple[str, str]]:
        # The keys of fences have a secret of the thread.
        return [(m.type, re.sub(r' key="\d+"', "", m.text)) for m in request]

    expected = [texts(request) for turn in turns for request in views.requests(turn)]
    assert expected == [texts(call) for call in model.calls]
