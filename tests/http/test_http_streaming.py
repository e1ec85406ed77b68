"""Streaming over HTTP: through a conversation, and through the plain graph as a host does it."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessageChunk
from langgraph.checkpoint.memory import InMemorySaver

from tests.http.meter import ANSWER, QUESTION, asks_the_meter, read_meter
from tests.http.openai_server import OpenAIServer, Script
from tests.http.seed_conversation import SeedConversation
from unsay import AsyncConversation, Conversation, build_graph
from unsay.results.results import Event

Serve = Callable[[Script], OpenAIServer]
JUDGED = {"judge_model": "judge"}
HELD = {"judge_model": "judge", "stream": "held"}


def drafts(events: Iterable[Event]) -> dict[str | None, str]:
    """The streamed text of each draft, by message id, in order."""
    texts: dict[str | None, str] = {}
    for event in events:
        if event.kind == "token":
            texts[event.message_id] = texts.get(event.message_id, "") + event.text
    return texts


def texts_by_draft(chunks: Iterable[Any]) -> dict[str | None, str]:
    """The streamed text of each of the answerer's messages, as LangGraph's hosts see it."""
    texts: dict[str | None, str] = {}
    for mode, chunk in chunks:
        if mode == "messages" and chunk[1]["langgraph_node"] == "process_message":
            message = chunk[0]
            if isinstance(message, AIMessageChunk) and message.text:
                texts[message.id] = texts.get(message.id, "") + message.text
    return texts


def events_of(chunks: Iterable[Any], event: str) -> list[Any]:
    """Ids of the messages that a custom event was about."""
    return [c.get("message_id") for mode, c in chunks if mode == "custom" and c["unsay"] == event]


def test_tokens_arrive_one_by_one(
    serve: Serve, seed_conversation: SeedConversation, tmp_path: Path
) -> None:
    """An answer comes in several pieces before the reply that holds the whole of it."""
    serve(seed_conversation.script)
    question = seed_conversation.questions[0]
    with Conversation.open(tmp_path / "t.db", model="answerer", settings=JUDGED) as conversation:
        events = list(conversation.stream(question))
    pieces = [event.text for event in events if event.kind == "token"]
    assert seed_conversation.answers[question] == "".join(pieces) == events[-1].text
    assert len(pieces) > 5
    assert ["topic", "phase", "judging", "verdict", "checkpoint", "reply"] == [
        event.kind for event in events if event.kind != "token"
    ]


def test_taken_back_names_the_struck_draft(
    serve: Serve, seed_conversation: SeedConversation, tmp_path: Path
) -> None:
    """Both drafts are streamed under their own id, and the first one's is the one taken back."""
    serve(seed_conversation.script)
    question = seed_conversation.questions[2]
    with Conversation.open(tmp_path / "t.db", model="answerer", settings=JUDGED) as conversation:
        events = list(conversation.stream(question))
    texts = drafts(events)
    assert [seed_conversation.poisoned, seed_conversation.answers[question]] == list(texts.values())
    taken_back = [event.message_id for event in events if event.kind == "draft_rejected"]
    assert list(texts) == [*taken_back, events[-1].message_id]


async def test_taken_back_names_the_struck_draft_in_async_code(
    serve: Serve, seed_conversation: SeedConversation, tmp_path: Path
) -> None:
    """`AsyncConversation.stream` tells the same as `Conversation.stream`."""
    serve(seed_conversation.script)
    question = seed_conversation.questions[2]
    async with AsyncConversation.open(
        tmp_path / "t.db", model="answerer", settings=JUDGED
    ) as conversation:
        events = [event async for event in conversation.stream(question)]
    texts = drafts(events)
    assert [seed_conversation.poisoned, seed_conversation.answers[question]] == list(texts.values())
    taken_back = [event.message_id for event in events if event.kind == "draft_rejected"]
    assert list(texts) == [*taken_back, events[-1].message_id]


def test_held_stream_sends_no_token_of_a_failed_draft(
    serve: Serve, seed_conversation: SeedConversation, tmp_path: Path
) -> None:
    """With `stream="held"` the text on the stream is the delivered answer alone."""
    serve(seed_conversation.script)
    question = seed_conversation.questions[2]
    with Conversation.open(tmp_path / "t.db", model="answerer", settings=HELD) as conversation:
        events = list(conversation.stream(question))
    assert [seed_conversation.answers[question]] == list(drafts(events).values())
    assert seed_conversation.poisoned[:30] not in repr(events)


def test_hosts_of_the_plain_graph_see_both_drafts(
    serve: Serve, seed_conversation: SeedConversation
) -> None:
    """`stream_mode=["messages", "custom"]` shows the drafts, and which one was taken back."""
    serve(seed_conversation.script)
    question = seed_conversation.questions[2]
    graph = build_graph("answerer", settings=JUDGED, checkpointer=InMemorySaver())
    chunks = list(
        graph.stream(
            {"messages": [("user", question)]},
            {"configurable": {"thread_id": "t"}},
            stream_mode=["messages", "custom"],
        )
    )
    texts = texts_by_draft(chunks)
    assert [seed_conversation.poisoned, seed_conversation.answers[question]] == list(texts.values())
    assert events_of(chunks, "draft_rejected") == list(texts)[:1]


async def test_hosts_of_the_plain_graph_see_both_drafts_in_async_code(
    serve: Serve, seed_conversation: SeedConversation
) -> None:
    """`astream` shows what `stream` shows."""
    serve(seed_conversation.script)
    question = seed_conversation.questions[2]
    graph = build_graph("answerer", settings=JUDGED, checkpointer=InMemorySaver())
    chunks = [
        chunk
        async for chunk in graph.astream(
            {"messages": [("user", question)]},
            {"configurable": {"thread_id": "t"}},
            stream_mode=["messages", "custom"],
        )
    ]
    texts = texts_by_draft(chunks)
    assert [seed_conversation.poisoned, seed_conversation.answers[question]] == list(texts.values())
    assert events_of(chunks, "draft_rejected") == list(texts)[:1]


def test_judge_is_never_heard_on_the_stream(
    serve: Serve, seed_conversation: SeedConversation
) -> None:
    """No message chunk of the judge reaches a host, only its verdict as a custom event."""
    serve(seed_conversation.script)
    graph = build_graph("answerer", settings=JUDGED)
    value = {"messages": [("user", seed_conversation.questions[0])]}
    chunks = list(graph.stream(value, stream_mode=["messages", "custom"]))
    answer = "".join(str(c[0].content) for mode, c in chunks if mode == "messages")
    assert seed_conversation.answers[seed_conversation.questions[0]] == answer
    assert ["verdict"] == [c["unsay"] for m, c in chunks if m == "custom" and "score" in c][:1]


def test_answer_after_a_tool_call_is_streamed(serve: Serve, tmp_path: Path) -> None:
    """The tool's result comes back over HTTP and the answer's pieces reach the stream."""
    server = serve(asks_the_meter)
    with Conversation.open(
        tmp_path / "t.db", model="answerer", tools=[read_meter], settings=JUDGED
    ) as conversation:
        events = list(conversation.stream(QUESTION))
        transcript = [message.type for message in conversation.messages()]
    assert [ANSWER] == list(drafts(events).values())
    assert sum(event.kind == "token" for event in events) > 5
    assert ["human", "ai", "tool", "ai"] == transcript
    result = server.asked_of("answerer")[-1].body["messages"][-1]
    assert ("call_1", "Paris: 21 degrees") == (result["tool_call_id"], result["content"])


def test_held_stream_with_tools_sends_the_passed_answer(serve: Serve, tmp_path: Path) -> None:
    """With `stream="held"` an answer from tools comes once it has passed."""
    serve(asks_the_meter)
    with Conversation.open(
        tmp_path / "t.db", model="answerer", tools=[read_meter], settings=HELD
    ) as conversation:
        events = list(conversation.stream(QUESTION))
    assert [ANSWER] == list(drafts(events).values())
    assert ["verdict", "token"] == [
        event.kind for event in events if event.kind in ("verdict", "token")
    ]


@pytest.mark.parametrize("form", ["stream", "astream"])
async def test_plain_graph_streams_with_tools(serve: Serve, form: str) -> None:
    """A host sees the answer's tokens under `process_message`, without `subgraphs=True`."""
    serve(asks_the_meter)
    graph = build_graph("answerer", tools=[read_meter], settings=JUDGED)
    value = {"messages": [("user", QUESTION)]}
    modes = ["messages", "custom"]
    if form == "stream":
        chunks = list(graph.stream(value, stream_mode=modes))
    else:
        chunks = [chunk async for chunk in graph.astream(value, stream_mode=modes)]
    assert [ANSWER] == list(texts_by_draft(chunks).values())
