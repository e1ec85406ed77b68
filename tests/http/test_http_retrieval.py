"""Retrieval end to end: SQLite's full-text search, and models behind a real OpenAI-protocol server."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.http.openai_server import Asked, Calls, OpenAIServer, Said
from unsay import Conversation, reversible

PAGES = [
    "Canberra is the capital of Australia; parliament meets there.",
    "Whisk three eggs, add butter and salt, and fry the omelette.",
]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    """A server whose answerer repeats what it found, and whose judge knows the subject."""
    with OpenAIServer(script) as running:
        monkeypatch.setenv("OPENAI_BASE_URL", running.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        yield running


def script(request: Asked) -> Said:
    """The answerer searches once and then repeats the newest result; the judge grades."""
    if request.model == "judge":
        is_document = "<document" in request.question
        relevant = "Canberra" in request.question or not is_document
        reason, query_text = ("Fine.", "") if relevant else ("It is a recipe.", "parliament")
        grade = {"score": 0.9 if relevant else 0.1, "consistency": 1.0, "reason": reason}
        return {**grade, "advice": "", "query": query_text, "blamed": []}
    results = [m["content"] for m in request.body["messages"] if m["role"] == "tool"]
    return results[-1] if results else Calls(name="library", arguments={"query": "omelette"})


def library_of(index: sqlite3.Connection, queries: list[str]) -> object:
    """The index as a tool that is marked as a search."""

    @reversible(undo=None, retrieval=True)
    def library(query: str) -> str:
        """Search the library."""
        queries.append(query)
        sql = "SELECT body FROM pages WHERE pages MATCH ? ORDER BY rank LIMIT 1"
        row = index.execute(sql, (f'"{query}"',)).fetchone()
        return str(row[0]) if row else PAGES[-1]

    return library


def test_a_wrong_page_is_left_out_and_the_right_one_is_found(
    server: OpenAIServer, tmp_path: Path
) -> None:
    """The judge's query finds the page; the recipe reaches no later request of the answerer."""
    index = sqlite3.connect(tmp_path / "index.db", check_same_thread=False)
    index.execute("CREATE VIRTUAL TABLE pages USING fts5(body)")
    index.executemany("INSERT INTO pages VALUES (?)", [(page,) for page in PAGES])
    queries: list[str] = []
    settings = {"judge_model": "judge", "memory_tools": "off"}
    tools = [library_of(index, queries)]
    path = tmp_path / "t.db"
    with Conversation.open(path, model="answerer", tools=tools, settings=settings) as conversation:  # type: ignore[arg-type]
        reply = conversation.say("What is the capital of Australia?")
        results = [m.text for m in conversation.messages() if m.type == "tool"]
    index.close()

    assert ["omelette", "parliament"] == queries
    assert (PAGES[0], 0.9) == (reply.text, reply.score)
    assert reply.checkpoint_id is not None
    assert [PAGES[1], PAGES[0]] == results
    assert not any("Whisk" in request.text for request in server.asked_of("answerer"))
    questions = [request.question for request in server.asked_of("judge")]
    assert ["<document" in question for question in questions] == [True, True, False]
    assert "(irrelevant, so the assistant did not see it)" in questions[-1]
