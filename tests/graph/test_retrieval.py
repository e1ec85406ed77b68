"""Retrieved documents: judged, left out of the context, searched for again, and owned up to."""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool, StructuredTool, tool
from pydantic import BaseModel, Field

from tests.graph.kit import config, make, whole_state
from tests.reading import replayed
from unsay import Conversation, reversible
from unsay.messages.annotations import annotation_of
from unsay.messages.content import text_of
from unsay.testing import ScriptedChat

PAGES = {
    "canberra": "Canberra is the capital of Australia; parliament meets there.",
    "omelette": "Whisk three eggs, add butter and salt, and fry the omelette.",
    "sydney": "Sydney has the largest harbour of all Australian cities.",
}
QUESTION = "What is the capital of Australia?"


class Library:
    """A full-text index in SQLite (FTS5), and the queries that reached it."""

    def __init__(self, pages: dict[str, str] = PAGES) -> None:
        self.database = sqlite3.connect(":memory:", check_same_thread=False)
        self.database.execute(
            "CREATE VIRTUAL TABLE pages USING fts5(name, body, tokenize='porter')"
        )
        self.database.executemany("INSERT INTO pages VALUES (?, ?)", pages.items())
        self.queries: list[str] = []

    def __del__(self) -> None:
        """Close the index, which Python 3.13 warns of otherwise."""
        self.database.close()

    def find(self, query: str) -> str:
        """The best page; without a match the most recent one, as many retrievers answer."""
        self.queries.append(query)
        text = " ".join(f'"{word}"' for word in query.split())
        sql = "SELECT body FROM pages WHERE pages MATCH ? ORDER BY rank LIMIT 1"
        row = self.database.execute(sql, (text,)).fetchone()
        return row[0] if row else PAGES["omelette"]

    def tool(self) -> BaseTool:
        """The retriever as a tool that is marked as one."""

        @reversible(undo=None, retrieval=True)
        @tool
        def library(query: str) -> str:
            """Search the library."""
            return self.find(query)

        return library


def researcher(query: str, answer: Callable[[list[BaseMessage]], str]) -> Any:
    """A chat model that calls the library once, and then answers from what it is sent."""

    def script(messages: list[BaseMessage]) -> Any:
        if not any(isinstance(m, ToolMessage) for m in messages):
            return AIMessage(
                "", tool_calls=[{"name": "library", "args": {"query": query}, "id": "c1"}]
            )
        return answer(list(messages))

    return ScriptedChat(script=script)


def repeats(messages: list[BaseMessage]) -> str:
    """Repeats the newest search result as the answer."""
    results = [text_of(m) for m in messages if isinstance(m, ToolMessage)]
    return f"The library says: {results[-1]}"


class RecordingJudge:
    """Finds what is not about Australia's capital irrelevant, and records what it was sent."""

    def __init__(self, query: str = "") -> None:
        self.query = query
        self.asked: list[str] = []

    def __call__(self, messages: list[BaseMessage]) -> dict[str, Any]:
        """A verdict."""
        text = text_of(messages[-1])
        self.asked.append(text)
        if "<document" in text and "Canberra" not in text:
            return {"score": 0.1, "reason": "Not about the question.", "query": self.query}
        return {"score": 0.9, "consistency": 1.0, "reason": "Good."}


def test_an_irrelevant_result_is_searched_for_again_with_another_query() -> None:
    """The first query finds a recipe; the next one, in the question's words, finds the capital."""
    library = Library()
    judge = RecordingJudge()
    model = researcher("chief town down under", repeats)
    graph = make(model, judge, tools=[library.tool()])

    state = graph.invoke({"messages": [HumanMessage(QUESTION)]}, config())

    assert ["chief town down under", "capital Australia"] == library.queries
    assert PAGES["canberra"] in text_of(state["messages"][-1])
    texts = [text_of(m) for m in model.calls[-1]]
    assert not any("omelette" in text for text in texts), "the context leaves the recipe out"
    kept_texts = [text_of(m) for m in state["messages"] if isinstance(m, ToolMessage)]
    assert [PAGES["omelette"], PAGES["canberra"]] == kept_texts, "the transcript keeps both"
    assert 1 == len(state["checkpoints"])


def test_the_judge_may_suggest_the_next_query() -> None:
    """The query in the judge's verdict comes before the words of the question."""
    library = Library()
    judge = RecordingJudge(query="parliament Canberra")
    graph = make(researcher("chief town", repeats), judge, tools=[library.tool()])

    graph.invoke({"messages": [HumanMessage(QUESTION)]}, config())

    assert ["chief town", "parliament Canberra"] == library.queries


@pytest.mark.parametrize(
    ("question", "query"),
    [
        ("What was the rainfall in 1998 compared with 2003?", "rainfall 1998 compared 2003"),
        ("Was kostet die Städtereise nach Österreich?", "kostet die Städtereise nach Österreich"),
        ("京都の桜は2024年にいつ咲きますか?", "京都 桜 2024 咲"),
    ],
)
def test_the_next_query_keeps_numbers_and_words_of_any_script(question: str, query: str) -> None:
    """Without a judge's query it is made of the question's own words."""
    library = Library({"omelette": PAGES["omelette"]})
    judge = RecordingJudge()
    graph = make(researcher("chief town", repeats), judge, tools=[library.tool()])

    graph.invoke({"messages": [HumanMessage(question)]}, config())

    assert query in library.queries


@pytest.mark.parametrize("limit", [0, 1, 2])
def test_searches_are_repeated_at_most_so_often(
    limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nothing fits, `MAX_SEARCHES` bounds the repetitions, and the model is informed."""
    monkeypatch.setattr("unsay.generation.relevance.MAX_SEARCHES", limit)
    library = Library({"omelette": PAGES["omelette"]})
    judge = RecordingJudge()
    model = researcher("chief town", lambda _: "The library has nothing about that capital.")
    graph = make(model, judge, tools=[library.tool()])

    state = graph.invoke({"messages": [HumanMessage(QUESTION)]}, config())

    assert 1 + limit == len(library.queries)
    assert len(set(library.queries)) == len(library.queries), "no query twice"
    text = [text_of(m) for m in model.calls[-1] if m.type == "human"][-1]
    assert "A search found no relevant document" in text
    assert "found no relevant document, and the assistant was informed" in judge.asked[-1]
    assert "(irrelevant, so the assistant did not see it)" in judge.asked[-1]
    assert 0.9 == state["quality_score"]
    assert 1 == len(state["checkpoints"]), "the judge was informed, so the answer is a good point"


@pytest.mark.parametrize("judging", ["local", "off"])
def test_without_an_informed_judge_such_an_answer_is_no_checkpoint(judging: str) -> None:
    """The local checks cannot tell an honest answer from an invented one."""
    library = Library({"omelette": PAGES["omelette"]})
    text = "The library has no page about the capital of Australia, so this is open."
    settings = {"judging": judging, "checkpoint_on": ["score", "tool_step", "instruction"]}
    graph = make(
        researcher("chief town", lambda _: text), tools=[library.tool()], settings=settings
    )

    state = whole_state(graph, graph.invoke({"messages": [HumanMessage(QUESTION)]}, config()))

    search_count = len(library.queries)
    assert (1 if judging == "off" else 3) == search_count
    answer = state["messages"][-1].id
    at_answer = [
        checkpoint
        for checkpoint in state.get("checkpoints", [])
        if checkpoint["message_id"] == answer
    ]
    assert (judging == "off") == bool(at_answer)


def test_a_refused_answer_is_right_when_nothing_was_found() -> None:
    """A refusal fails for certain elsewhere, and is what the model should say here."""
    library = Library({"omelette": PAGES["omelette"]})
    text = "I'm sorry, but I can't answer that: nothing about it was found."
    model = researcher("chief town", lambda _: text)
    graph = make(model, RecordingJudge(), tools=[library.tool()])

    state = graph.invoke({"messages": [HumanMessage(QUESTION)]}, config())

    assert (text, 0.9) == (text_of(state["messages"][-1]), state["quality_score"])


def test_documents_passed_in_that_do_not_fit_start_a_search() -> None:
    """A tool that is marked as a search replaces documents that are all irrelevant."""
    library = Library()
    judge = RecordingJudge()
    model = researcher("never asked", repeats)
    graph = make(model, judge, tools=[library.tool()])

    message = HumanMessage(PAGES["omelette"], name="document")
    state = graph.invoke({"messages": [message, HumanMessage(QUESTION)]}, config())

    assert ["capital Australia"] == library.queries
    assert PAGES["canberra"] in text_of(state["messages"][-1])
    assert message.content == state["messages"][0].content, "the transcript keeps the document"
    assert not any("omelette" in text_of(m) for m in model.calls[-1])
    assert not any("found no relevant document" in text_of(m) for m in model.calls[-1])


def test_the_query_is_an_optional_text() -> None:
    """The next query goes to the argument that takes any text, not to one with a choice of words."""
    library = Library()
    judge = RecordingJudge()
    modes = []

    @reversible(undo=None, retrieval=True)
    @tool("library")
    def search(query: str | None = None, mode: Literal["all", "new"] = "all") -> str:
        """Search the library."""
        modes.append(mode)
        return library.find(query or "")

    graph = make(researcher("chief town", repeats), judge, tools=[search])

    graph.invoke({"messages": [HumanMessage(QUESTION)]}, config())

    assert (["chief town", "capital Australia"], ["all", "all"]) == (library.queries, modes)


def test_a_later_turn_neither_sees_nor_recalls_what_was_irrelevant() -> None:
    """What was left out stays left out, for contexts and for recall."""
    library = Library({"omelette": PAGES["omelette"]})
    judge = RecordingJudge()
    model = researcher("chief town", lambda _: "The library says nothing about that.")
    graph = make(model, judge, tools=[library.tool()], settings={"memory_tools": "off"})
    graph.invoke({"messages": [HumanMessage(QUESTION)]}, config())

    graph.invoke({"messages": [HumanMessage("How do I whisk three eggs?")]}, config())

    assert not any("Whisk" in text_of(m) for m in model.calls[-1])


async def test_the_same_on_an_event_loop() -> None:
    """Judging results and searching again works under `ainvoke`."""
    library = Library()
    judge = RecordingJudge()
    graph = make(researcher("chief town", repeats), judge, tools=[library.tool()])

    state = await graph.ainvoke({"messages": [HumanMessage(QUESTION)]}, config())

    assert ["chief town", "capital Australia"] == library.queries
    assert PAGES["canberra"] in text_of(state["messages"][-1])


def test_metadata_of_a_tool_declares_it_as_well() -> None:
    """A tool of someone else's is marked by LangChain's own metadata."""
    library = Library()

    @tool
    def library_tool(query: str) -> str:
        """Search the library."""
        return library.find(query)

    message = library_tool.model_copy(update={"name": "library", "metadata": {"retrieval": True}})
    graph = make(researcher("chief town", repeats), RecordingJudge(), tools=[message])

    graph.invoke({"messages": [HumanMessage(QUESTION)]}, config())

    assert ["chief town", "capital Australia"] == library.queries


def test_a_tool_that_is_not_declared_is_not_judged() -> None:
    """Other tools' results are left as they are."""
    judge = RecordingJudge()

    @tool
    def library(query: str) -> str:
        """Search the library."""
        return PAGES["omelette"]

    model = researcher("chief town", repeats)
    make(model, judge, tools=[library]).invoke({"messages": [HumanMessage(QUESTION)]}, config())

    assert not any("<document" in asked for asked in judge.asked)
    assert any("omelette" in text_of(m) for m in model.calls[-1])


def test_searches_are_in_the_event_log_and_survive_undo_and_restart(tmp_path: Path) -> None:
    """The log makes the same messages again, verdicts on results included; so do undo and redo."""
    library = Library()
    judge = RecordingJudge()
    options: Any = {"judge": judge, "tools": [library.tool()]}
    path = tmp_path / "t.db"
    with Conversation.open(
        path, thread="t", model=researcher("chief town", repeats), **options
    ) as conversation:
        conversation.say(QUESTION)
        before = conversation.messages()
        conversation.undo()
        conversation.redo()
        model = researcher("chief town", repeats)
    with Conversation.open(path, thread="t", model=model, **options) as second_conversation:
        messages = second_conversation.messages()
        logged_messages = replayed(second_conversation).messages
        second_conversation.say("What is the capital of Australia called?")

    outcomes = [annotation_of(m).get("outcome") for m in messages if m.type == "tool"]
    assert ["failed", "passed"] == outcomes
    assert [m.content for m in before] == [m.content for m in messages]
    assert [annotation_of(m) for m in messages] == [annotation_of(m) for m in logged_messages]
    texts = [text_of(m) for m in model.calls[0]]
    assert not any("Whisk" in text for text in texts)
    assert any("Canberra" in text for text in texts)


def test_a_japanese_question_is_searched_for_by_its_words() -> None:
    """The runs of kanji and katakana are the next query, and the texts are Japanese."""
    library = Library({"canberra": "オーストラリア の 首都 は キャンベラ です。"})
    judge = RecordingJudge()
    model = researcher("まち", lambda _: "図書館には関連する記述が見つかりませんでした。")
    graph = make(model, judge, tools=[library.tool()])

    graph.invoke({"messages": [HumanMessage("オーストラリアの首都はどこですか?")]}, config())

    assert ["まち", "オーストラリア 首都", "オーストラリア"] == library.queries
    text = [text_of(m) for m in model.calls[-1] if m.type == "human"][-1]
    assert "関連する文書は検索で見つかりませんでした" in text
    assert "検索では関連する文書が見つからず" in judge.asked[-1]


class _Optional(BaseModel):
    query: str
    tags: list[str] = Field(default_factory=list)


_REMOTE = {
    "type": "object",
    # `True` is JSON Schema for any value; MCP servers in Rust send it.
    "properties": {"query": {"type": "string"}, "limit": {"type": "integer"}, "filter": True},
    "required": ["query"],
}


class _OneSource(BaseModel):
    text: Literal["web"] = "web"
    words_of_the_search: str


_NULLABLE = {
    "type": "object",
    "properties": {"query": {"type": ["string", "null"]}, "limit": {"type": ["integer", "null"]}},
}


@pytest.mark.parametrize(
    "schema",
    [_Optional, _REMOTE, _OneSource, _NULLABLE],
    ids=["default_factory", "mcp", "constant", "nullable"],
)
def test_a_search_with_optional_arguments_is_chosen(schema: Any) -> None:
    """An argument is needed only if the tool's schema requires it, with a default or without."""
    library = Library()

    def find(query: str = "", words_of_the_search: str = "", **_: Any) -> str:
        return library.find(query or words_of_the_search)

    search = StructuredTool(
        name="library",
        description="Search the library.",
        args_schema=schema,
        func=find,
        metadata={"retrieval": True},
    )
    graph = make(researcher("never asked", repeats), RecordingJudge(), tools=[search])
    message = HumanMessage(PAGES["omelette"], name="document")

    graph.invoke({"messages": [message, HumanMessage(QUESTION)]}, config())

    assert ["capital Australia"] == library.queries
