"""The checkpointers that hosts use, by name, over one folder or one server."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.store.memory import InMemoryStore
from langgraph.store.sqlite import AsyncSqliteStore, SqliteStore

from tests.reading import messages
from unsay.graph import build_graph
from unsay.hosts.entry import HostGraph
from unsay.storage.sqlite import open_database
from unsay.testing import ScriptedJudge

CONFIG: Any = {"configurable": {"thread_id": "t"}}


@contextmanager
def open_savers(kind: str, folder: Path) -> Iterator[dict[str, Any]]:
    """A checkpointer for blocking and perhaps for awaited callers, and a store if it has one."""
    with ExitStack() as stack:
        if kind == "memory":
            yield {"checkpointer": InMemorySaver(), "store": InMemoryStore()}
        elif kind.startswith("ours"):
            url = folder / "url"
            database = open_database(url.read_text() if url.exists() else folder / "talk.db")
            stack.callback(database.close)
            yield {"checkpointer": database.saver, "store": database.store}
        elif kind.startswith("postgres"):
            from langgraph.checkpoint.postgres import PostgresSaver  # noqa: PLC0415 - an extra

            url = (folder / "url").read_text()
            saver: Any = stack.enter_context(PostgresSaver.from_conn_string(url))
            yield {"checkpointer": saver}
        else:
            path = str(folder / "talk.db")
            savers: dict[str, Any] = {
                "checkpointer": stack.enter_context(SqliteSaver.from_conn_string(path))
            }
            if kind == "sqlite and store":
                savers["store"] = stack.enter_context(SqliteStore.from_conn_string(path))
                savers["store"].setup()
            yield savers


@asynccontextmanager
async def opened_awaited(kind: str, folder: Path) -> AsyncIterator[dict[str, Any]]:
    """The same for awaited callers."""
    if kind == "postgres":
        from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver  # noqa: PLC0415 - an extra

        async with AsyncPostgresSaver.from_conn_string(
            (folder / "url").read_text()
        ) as postgres_saver:
            yield {"checkpointer": postgres_saver}
        return
    if not kind.startswith("sqlite"):
        with open_savers(kind, folder) as savers:
            yield savers
        return
    path = str(folder / "talk.db")
    async with AsyncExitStack() as stack:
        saver = await stack.enter_async_context(AsyncSqliteSaver.from_conn_string(path))
        savers: dict[str, Any] = {"checkpointer": saver}
        if kind == "sqlite and store":
            savers["store"] = await stack.enter_async_context(
                AsyncSqliteStore.from_conn_string(path)
            )
            await savers["store"].setup()
        yield savers


def answering(**options: Any) -> HostGraph:
    """A graph whose answers name their question."""
    model = options.pop("model", None) or answer
    return build_graph(model, judge=ScriptedJudge(), **options)


def answer(messages: list[Any]) -> str:
    """The answer to the newest question."""
    return f"This answers {messages[-1].text}"


def question_input(question: str) -> Any:
    """The input of a turn."""
    return {"messages": [("user", question)]}


def invoke(graph: HostGraph, question: str) -> str:
    """Run a turn by `invoke`."""
    state: Any = graph.invoke(question_input(question), CONFIG)
    return str(state["messages"][-1].text)


def stream(graph: HostGraph, question: str) -> str:
    """Run a turn by `stream`."""
    chunks: Any = list(graph.stream(question_input(question), CONFIG, stream_mode="values"))
    return str(chunks[-1]["messages"][-1].text)


async def ainvoke(graph: HostGraph, question: str) -> str:
    """Run a turn by `ainvoke`."""
    state: Any = await graph.ainvoke(question_input(question), CONFIG)
    return str(state["messages"][-1].text)


def run_ainvoke(graph: HostGraph, question: str) -> str:
    """Run a turn by `ainvoke`, on a loop of this Python thread."""
    return asyncio.run(ainvoke(graph, question))


WAYS: dict[str, Callable[[HostGraph, str], str]] = {
    "invoke": invoke,
    "stream": stream,
    "ainvoke": run_ainvoke,
}


def questions_of(graph: HostGraph) -> list[str]:
    """The questions of a transcript in which each turn is whole, offloaded turns included."""
    return questions_in(messages(graph))


def questions_in(messages: list[Any]) -> list[str]:
    """The questions among messages; each must be followed by its own answer."""
    texts = [message.text for message in messages]
    assert [f"This answers {question}" for question in texts[::2]] == texts[1::2]
    return texts[::2]
