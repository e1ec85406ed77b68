"""The model's own tools over HTTP: results that views shorten are fetched back, earlier words found."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import ToolMessage

from tests.http.openai_server import Asked, Calls, OpenAIServer, Said, Script
from unsay import Conversation
from unsay.messages.content import text_of
from unsay.testing import ScriptedDetector

Serve = Callable[[Script], OpenAIServer]

FACT = "Our parrot is called Biscuit."
CHAT = ("Tell me about bread.", "Tell me about tides.", "Tell me about chess.", "And of wool.")
WORDY = "That is something to talk about at great length."
NEW = ScriptedDetector(shifts=dict.fromkeys("?.", "new"))
ROWS = "\n".join(f"row {number}: {number * number}" for number in range(5_000))


def read_table(name: str) -> str:
    """Give a large table."""
    return f"{name}\n{ROWS}"


def script(request: Asked) -> Said:
    """Reads the table, then a part of it, then looks for the parrot, as the question says."""
    if request.model == "judge":
        return {"score": 0.9, "reason": "It answers the question."}
    messages = request.body["messages"]
    if messages[-1]["role"] == "tool":
        return WORDY
    if "squares" in request.question:
        return Calls(name="read_table", arguments={"name": "squares"})
    if "row 4000" in request.question:
        start = ROWS.index("row 4000") + len("squares\n")
        arguments = {"tool_call_id": _call_id_in(request), "start": start, "length": 18}
        return Calls(name="read_tool_result", arguments=arguments)
    if "pet" in request.question:
        return Calls(name="recall", arguments={"query": "parrot"})
    return WORDY


def _call_id_in(request: Asked) -> str:
    """The id that the question gives."""
    return request.question.rpartition("call id ")[2].rstrip("?")


def last_message(request: Asked) -> Any:
    """The last message of a request."""
    return request.body["messages"][-1]


@pytest.fixture
def open_with_small_window(tmp_path: Path) -> Callable[..., Conversation]:
    """A conversation with a server's model, whose window is small."""

    def make(**settings: Any) -> Conversation:
        return Conversation.open(
            tmp_path / "t.db",
            thread="t",
            model="answerer",
            tools=[read_table],
            detector=NEW,
            settings={"judge_model": "judge", "live_messages": 4, **settings},
        )

    return make


def call_id(conversation: Conversation) -> str:
    """Of the first tool result in the transcript."""
    return next(m.tool_call_id for m in conversation.messages() if isinstance(m, ToolMessage))


@pytest.mark.sample(every=4)
@pytest.mark.parametrize(
    ("settings", "limit", "chat"),
    [
        pytest.param({"live_messages": 100}, 65_536, (), id="whole"),
        pytest.param({"live_messages": 100}, 1_000, (), id="shortened"),
        pytest.param(
            {"live_messages": 100, "context_window_tokens": 8_000}, 65_536, (), id="truncated"
        ),
        pytest.param({}, 65_536, (*CHAT, *CHAT), id="offloaded"),
    ],
)
def test_any_part_of_a_result_is_fetched(
    serve: Serve,
    open_with_small_window: Callable[..., Conversation],
    settings: dict[str, Any],
    limit: int,
    chat: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """For any context of a result, the server gets the part that its model asks for."""
    monkeypatch.setattr("unsay.context.view.RESULT_BYTES", limit)
    server = serve(script)
    with open_with_small_window(**settings) as conversation:
        conversation.say("Look at the squares.")
        name = call_id(conversation)
        for text in chat:
            conversation.say(text)
        conversation.say(f"What is in row 4000 of call id {name}?")
    answer = last_message(server.asked_of("answerer")[-1])
    assert "tool" == answer["role"]
    assert answer["content"].endswith("]\nrow 4000: 16000000")


def test_a_forgotten_result_is_refused(
    serve: Serve, open_with_small_window: Callable[..., Conversation]
) -> None:
    """The server learns that there is no such result, and the turn continues."""
    server = serve(script)
    with open_with_small_window() as conversation:
        conversation.say("Look at the squares.")
        name = call_id(conversation)
        conversation.forget(
            next(m.id or "" for m in conversation.messages() if isinstance(m, ToolMessage))
        )
        reply = conversation.say(f"What is in row 4000 of call id {name}?")
    assert (
        f"No tool result of this conversation has the id {name!r}"
        in (last_message(server.asked_of("answerer")[-1])["content"])
    )
    assert WORDY == reply.text


def test_earlier_words_are_found(
    serve: Serve, open_with_small_window: Callable[..., Conversation]
) -> None:
    """`recall` sends earlier messages, fenced as data."""
    server = serve(script)
    with open_with_small_window() as conversation:
        for text in (FACT, *CHAT, *CHAT, "Who is the pet?"):
            conversation.say(text)
        results = [text_of(m) for m in conversation.messages() if isinstance(m, ToolMessage)]
    content = last_message(server.asked_of("answerer")[-1])["content"]
    assert [content] == results
    assert content.startswith('<recalled key="')
    assert FACT in content
