import asyncio
import sqlite3
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessageChunk
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from tests.graph.kit import GOOD, Numbered, config, make, say, scores
from tests.reading import said, transcript
from unsay.errors import ConfigurationError
from unsay.graph.builder import build_graph
from unsay.settings.settings import Context
from unsay.state import TranscriptChannel
from unsay.testing import Delay, ScriptedChat, ScriptedJudge

SCRIPT = {"q1": GOOD, "q2": ["Nonsense about fish.", "A much better answer than before."]}


def scripted_graph(**options: Any) -> Any:
    """A graph whose second question gets a bad first draft."""
    return make(ScriptedChat(replies=SCRIPT), ScriptedJudge(scores={"fish": 0.1}), **options)


def tokens(chunks: list[Any]) -> list[tuple[str | None, str]]:
    """The streamed pieces of drafts, with their messages' ids."""
    return [
        (chunk.id, str(chunk.content))
        for mode, (chunk, _) in ((m, c) for m, c in chunks if m == "messages")
        if chunk.type in ("ai", "AIMessageChunk") and chunk.content
    ]


def events(chunks: list[Any], name: str) -> list[dict[str, Any]]:
    """The custom events of one kind."""
    return [chunk for mode, chunk in chunks if mode == "custom" and chunk["unsay"] == name]


def stream_parts(graph: Any, text: str, **options: Any) -> list[Any]:
    """What `stream` gives for one message."""
    value = {"messages": [("user", text)]}
    return list(graph.stream(value, config(), stream_mode=["messages", "custom"], **options))


async def astream_parts(graph: Any, text: str, **options: Any) -> list[Any]:
    """What `astream` gives for one message."""
    value = {"messages": [("user", text)]}
    stream: AsyncIterator[Any] = graph.astream(
        value, config(), stream_mode=["messages", "custom"], **options
    )
    return [chunk async for chunk in stream]


@pytest.mark.parametrize("form", ["stream", "astream"])
async def test_tokens_stream_and_a_taken_back_draft_is_announced(form: str) -> None:
    """A front end sees the draft come, learns that it is void, and sees the next one."""
    graph = scripted_graph()
    graph.invoke({"messages": [("user", "q1")]}, config())

    chunks = stream_parts(graph, "q2") if form == "stream" else await astream_parts(graph, "q2")

    pieces = tokens(chunks)
    (void,) = events(chunks, "draft_rejected")
    struck = "".join(text for name, text in pieces if name == void["message_id"])
    text = "".join(text for name, text in pieces if name != void["message_id"])
    assert struck == "Nonsense about fish."
    assert text == SCRIPT["q2"][1]
    assert len(pieces) > 4


@pytest.mark.parametrize("form", ["stream", "astream"])
async def test_held_streaming_sends_a_draft_only_once_it_has_passed(form: str) -> None:
    """No piece of a rejected draft leaves the graph."""
    graph = scripted_graph(settings={"stream": "held"})
    graph.invoke({"messages": [("user", "q1")]}, config())

    chunks = stream_parts(graph, "q2") if form == "stream" else await astream_parts(graph, "q2")

    assert [SCRIPT["q2"][1]] == [text for _, text in tokens(chunks)]


async def test_the_judges_words_never_stream() -> None:
    """Only the answer's tokens reach the user."""
    chunks = await astream_parts(scripted_graph(), "q1")

    assert GOOD == "".join(text for _, text in tokens(chunks))


async def test_invoke_and_ainvoke_lead_to_the_same_record() -> None:
    """Both forms run the same nodes."""
    one = scripted_graph()
    two = scripted_graph()

    say(one, "q1", "q2", "/checkpoint x", "/undo")
    for text in ("q1", "q2", "/checkpoint x", "/undo"):
        await two.ainvoke({"messages": [("user", text)]}, config())

    assert transcript(one) == transcript(two)


@pytest.mark.parametrize(
    "context",
    [
        pytest.param({"quality_threshold": 0.05}, id="dict"),
        pytest.param(Context(quality_threshold=0.05), id="dataclass"),
    ],
)
def test_a_run_overrides_a_threshold(context: Any) -> None:
    """One run's context changes that run alone."""
    graph = make(Numbered(), scores(0.1, 0.1, 0.9))

    first = graph.invoke({"messages": [("user", "q1")]}, config(), context=context)
    second = say(graph, "q2")

    assert said(first["messages"])[-1] == "ai: This is draft 1, about what was asked."
    assert said(second["messages"])[-1] == "ai: This is draft 3, about what was asked."


class Forgetful(InMemorySaver):
    """Keeps checkpoints, forgets what was written to them."""

    def put_writes(self, *args: Any, **kwargs: Any) -> None:
        """Keep nothing."""

    async def aput_writes(self, *args: Any, **kwargs: Any) -> None:
        """Keep nothing."""


def test_a_graph_that_a_host_compiles_again_keeps_parallel_turns() -> None:
    """The builder's graph takes the thread's lock, as the graph of `build_graph` does."""
    model = ScriptedChat(default=Delay(seconds=0.2, reply="Two days."))
    again = build_graph(model, judge=ScriptedJudge()).builder.compile(checkpointer=InMemorySaver())
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda text: say(again, text), ("one", "two", "three")))

    asked_transcript = [line for line in transcript(again) if line.startswith("human")]
    assert ["human: one", "human: three", "human: two"] == sorted(asked_transcript)
    with pytest.raises(ConfigurationError, match="Forgetful would lose messages"):
        again.builder.compile(Forgetful())


def test_a_saver_that_cannot_replay_gets_the_plain_record() -> None:
    """A checkpointer that drops old writes still keeps every message."""
    graph = make(Numbered(), scores(0.9, 0.1, 0.9), checkpointer=Forgetful())
    say(graph, "q1", "q2", "/rollback", "/undo")

    assert not isinstance(graph.channels["messages"], TranscriptChannel)
    assert transcript(graph)[:4] == [
        "human: q1",
        "ai: This is draft 1, about what was asked.",
        "human: q2",
        "ai: This is draft 3, about what was asked.",
    ]


@pytest.mark.full
def test_a_saver_that_can_replay_stores_deltas(tmp_path: Path) -> None:
    """On SQLite the transcript is a channel of deltas, and reads back the same."""
    connection = sqlite3.connect(tmp_path / "plain.db", check_same_thread=False)
    graph = make(Numbered(), checkpointer=SqliteSaver(connection))
    say(graph, *(f"question {n}" for n in range(80)))

    second_graph = build_graph(Numbered(), checkpointer=SqliteSaver(connection))

    assert isinstance(graph.channels["messages"], TranscriptChannel)
    assert len(transcript(second_graph)) == 160
    assert transcript(graph) == transcript(second_graph)
    connection.close()


async def test_the_async_sqlite_saver_of_langgraph_serves(tmp_path: Path) -> None:
    """A checkpointer that is bound to a loop works, and is not waited for on it."""
    async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "a.db")) as saver:
        graph = make(Numbered(), checkpointer=saver)
        for text in ("q1", "q2", "/undo"):
            await graph.ainvoke({"messages": [("user", text)]}, config())
        state = await graph.aget_state(config())

    assert said(state.values["messages"])[:2] == [
        "human: q1",
        "ai: This is draft 1, about what was asked.",
    ]


async def test_many_threads_at_once_on_one_loop() -> None:
    """Threads that run at the same time do not mix."""
    graph = scripted_graph()

    async def run_thread(name: str) -> list[str]:
        for text in ("q1", "q2"):
            await graph.ainvoke({"messages": [("user", text)]}, config(name))
        return said((await graph.aget_state(config(name))).values["messages"])

    transcripts = await asyncio.gather(*(run_thread(str(n)) for n in range(8)))

    expected = ["human: q1", f"ai: {GOOD}", "human: q2", f"ai: {SCRIPT['q2'][1]}"]
    assert [expected] * 8 == list(transcripts)


def test_a_judge_that_hangs_leaves_the_answer_unscored() -> None:
    """The answer is delivered without a verdict, and the reason says why."""
    graph = make(
        ScriptedChat(replies={"q1": GOOD}),
        lambda _: __import__("threading").Event().wait(5),
        settings={"judge_timeout_seconds": 0.05},
    )

    state = say(graph, "q1")

    assert state["messages"][-1].content == GOOD
    assert "silent for 0.05 s" in state["messages"][-1].response_metadata["unsay"]["reason"]


def test_chunks_of_a_runnable_become_whole_messages() -> None:
    """A streaming agent's chunks are joined before they enter the transcript."""
    state = say(make(lambda _: AIMessageChunk(GOOD)), "q")

    assert state["messages"][-1].type == "ai"
