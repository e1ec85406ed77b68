import asyncio
import json
import os
import sqlite3
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, get_args

import httpx
import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient

from tests.graph.kit import config, make, say
from tests.hosts.dev_server import free_port, running
from unsay import AsyncRegistry, Registry, reversible
from unsay.hosts import http as http_app
from unsay.storage.items import Kind, quoted
from unsay.storage.sqlite import open_database
from unsay.testing import ScriptedChat, ScriptedJudge, ToolCalls

WORD = "swordfish"
SERVED = f"""
from langgraph.graph import START, MessagesState, StateGraph

from unsay import build_graph
from unsay.testing import Delay, ScriptedChat, ScriptedJudge


def reply(messages):
    answer = "The word {WORD} is kept."
    return Delay(seconds=2, reply=answer) if "slow" in messages[-1].text else answer


graph = build_graph(ScriptedChat(default=reply), judge=ScriptedJudge())
parent = StateGraph(MessagesState).add_node("talk", graph).add_edge(START, "talk").compile()
"""


@reversible(undo=lambda text: None)
def note(text: str) -> str:
    """Write a note."""
    return text


def rich(**storage: Any) -> Any:
    """A thread with every kind of item: branches, failed drafts, tool calls, offloaded messages."""
    call = ToolCalls(calls=[{"name": "note", "args": {"text": WORD}}], then="Noted {result}.")
    replies = {"note": call, "bad": ["Nonsense about fish.", f"Better: {WORD}."] * 2}
    model = ScriptedChat(replies=replies, default=f"The word is {WORD}.")
    judge = ScriptedJudge(scores={"fish": 0.1})
    settings = {"live_messages": 4, "session_budget_tokens": 10**9}
    graph = make(model, judge, tools=[note], settings=settings, **storage)
    for thread in ("t", "a/b.c"):
        for text in ("note", "bad", "/undo", "/redo", *(f"more {WORD} {n}" for n in range(12))):
            say(graph, text, thread=thread)
        say(graph, *["/rollback 1"] * 3, *["again"] * 3, thread=thread)
    return graph


def kinds(store: BaseStore, thread_id: str) -> set[str]:
    """The kinds of items that a store has for a thread."""
    namespaces = [item.namespace for item in store.search(("unsay",), limit=10_000)]
    return {name[1] for name in namespaces if name[2:] == (quoted(thread_id),)}


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("form", ["blocking", "on a loop"])
async def test_a_host_purges_a_thread_from_its_store(form: str) -> None:
    """No item of the thread is left, and those of another thread stay."""
    store = InMemoryStore()
    rich(checkpointer=InMemorySaver(), store=store)
    before = kinds(store, "t")
    other_kinds = kinds(store, "a/b.c")
    assert before <= set(get_args(Kind))
    assert {"branches", "compensations", "event_log", "offloaded", "runs", "requests"} <= before

    if form == "blocking":
        first, second = (Registry.open(store).purge("t") for _ in range(2))
    else:
        registry = AsyncRegistry.open(store)
        first = await registry.purge("t")
        second = await registry.purge("t")

    assert (set(), other_kinds) == (kinds(store, "t"), kinds(store, "a/b.c"))
    assert first.items > 10
    assert 0 == second.items


@pytest.mark.full
def test_a_registry_purges_a_thread_from_a_file(tmp_path: Path) -> None:
    """The checkpoints leave with the items, and no byte of the thread stays in the file."""
    path = tmp_path / "t.db"
    database = open_database(path)
    graph = rich(checkpointer=database.saver, store=database.store)

    registry = Registry.open(database)
    purges = [registry.purge(thread) for thread in ("t", "a/b.c")]

    assert all(purge.checkpoints and purge.items for purge in purges)
    assert {} == graph.get_state(config()).values
    database.close()
    assert WORD.encode() not in path.read_bytes()


def purged_during_a_run(path: str | Path, runner: str) -> None:
    """Purge a thread from a database while a run of it, alone or in a parent, asks its model."""
    database = open_database(path)
    purges = list[threading.Thread]()

    def answer(messages: Any) -> str:
        if "Now" in messages[-1].text:
            purges.append(threading.Thread(target=Registry.open(database).purge, args=("t",)))
            purges[0].start()
        return f"The word is {WORD}."

    model = ScriptedChat(default=answer)
    if runner == "graph":
        graph: Any = make(model, checkpointer=database.saver, store=database.store)
    else:
        builder = StateGraph(MessagesState).add_node("talk", make(model, checkpointer=None))
        graph = builder.add_edge(START, "talk").compile(
            checkpointer=database.saver, store=database.store
        )
    for text in (f"Hello {WORD}?", f"Now {WORD}?"):
        say(graph, text)
    purges[0].join(60)
    assert not purges[0].is_alive()
    database.close()


@pytest.mark.full
@pytest.mark.parametrize("runner", ["graph", "parent"])
def test_a_purge_during_a_run_leaves_no_word_in_the_file(runner: str, tmp_path: Path) -> None:
    """After both have ended no row and no byte has a word of the conversation."""
    path = tmp_path / "t.db"
    purged_during_a_run(path, runner)

    with closing(sqlite3.connect(path)) as connection:
        names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        reads = [f'SELECT * FROM "{name}"' for (name,) in names]  # noqa: S608 - our own tables
        rows = [row for query in reads for row in connection.execute(query)]
    assert [] == [row for row in rows if WORD in str(row)]
    assert [] == [path for path in tmp_path.iterdir() if WORD.encode() in path.read_bytes()]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """`langgraph dev` with our HTTP app; its URL."""
    folder = tmp_path_factory.mktemp("served")
    (folder / "served.py").write_text(SERVED)
    server_config = {
        "dependencies": ["."],
        "graphs": {"unsay": "./served.py:graph", "parent": "./served.py:parent"},
        "http": {"app": f"{http_app.__file__}:app"},
        "disable_persistence": True,
    }
    (folder / "langgraph.json").write_text(json.dumps(server_config))
    port = free_port()
    environment = {"LANGGRAPH_CLI_NO_ANALYTICS": "1", "LANGSMITH_TRACING": "false"}
    command = [str(Path(sys.executable).with_name("langgraph")), "dev", "--no-browser"]
    options = ["--no-reload", "--host", "127.0.0.1", "--port", str(port)]
    url = f"http://127.0.0.1:{port}"
    log = folder / "log"
    with running([*command, *options], {**os.environ, **environment}, log, ready=f"{url}/ok"):
        yield url


@pytest.fixture
async def client(server: str) -> AsyncIterator[LangGraphClient]:
    """A client of the server."""
    async with get_client(url=server, api_key=None) as sdk_client:
        yield sdk_client


async def spoken(client: LangGraphClient) -> str:
    """The id of a thread of the server in which something was said."""
    thread = await client.threads.create()
    value = {"messages": [{"role": "user", "content": f"Remember {WORD}."}]}
    await client.runs.wait(thread["thread_id"], "unsay", input=value)
    return str(thread["thread_id"])


async def stored_names(client: LangGraphClient, thread_id: str) -> list[str]:
    """The kinds of the items that the server's store has for a thread."""
    page = await client.store.search_items(["unsay"], limit=10_000)
    names = [[*item["namespace"], item["key"]] for item in page["items"]]
    return [name[1] for name in names if thread_id in name]


@pytest.mark.full
async def test_deleting_a_thread_on_a_server_purges_our_store(client: LangGraphClient) -> None:
    """`DELETE /threads/{id}` leaves nothing of the thread; another thread stays whole."""
    purged_id = await spoken(client)
    other_id = await spoken(client)
    before = await stored_names(client, other_id)
    assert {"event_log", "runs"} <= set(before)

    await client.threads.delete(purged_id)

    assert [] == await stored_names(client, purged_id)
    assert before == await stored_names(client, other_id)


@pytest.mark.full
async def test_a_delete_that_the_server_refuses_purges_nothing(
    client: LangGraphClient, server: str
) -> None:
    """Only a successful deletion purges: a wrong address or method leaves the items alone."""
    thread = await spoken(client)
    before = await stored_names(client, thread)

    for method, path in (("DELETE", f"/other/threads/{thread}"), ("GET", f"/threads/{thread}")):
        async with httpx.AsyncClient() as plain:
            await plain.request(method, server + path)

    assert before == await stored_names(client, thread)


def question(text: str) -> Any:
    """The input of a run on a server."""
    return {"messages": [{"role": "user", "content": f"{text} {WORD}"}]}


async def until_idle(client: LangGraphClient) -> None:
    """Wait for the end of all runs: the server has one worker, which takes them in their order."""
    await client.runs.wait(None, "unsay", input=question("last"))


@pytest.mark.full
@pytest.mark.parametrize("graph", ["unsay", "parent"])
@pytest.mark.parametrize("seconds", [0.0, 0.5, 1.5])
async def test_a_thread_that_is_deleted_during_a_run_leaves_nothing(
    client: LangGraphClient, seconds: float, graph: str
) -> None:
    """What the run writes after the deletion is deleted, also what a thread with its id would show."""
    thread = await spoken(client)
    await client.runs.create(thread, graph, input=question("slow"))
    await asyncio.sleep(seconds)

    await client.threads.delete(thread)
    await until_idle(client)

    assert [] == await stored_names(client, thread)
    await client.threads.create(thread_id=thread, graph_id="unsay")
    state: Any = await client.threads.get_state(thread)
    assert WORD not in str(state["values"]) or graph == "parent"


@pytest.mark.full
async def test_a_prune_purges_what_it_deletes(client: LangGraphClient, server: str) -> None:
    """`POST /threads/prune` leaves nothing of its threads; what it does not delete stays whole."""
    purged_id = await spoken(client)
    other_id = await spoken(client)
    before = await stored_names(client, other_id)

    async with httpx.AsyncClient() as plain:
        for strategy, names in (("keep_latest", [other_id]), ("delete", [purged_id])):
            body = {"thread_ids": names, "strategy": strategy}
            await plain.post(f"{server}/threads/prune", json=body)

    assert [] == await stored_names(client, purged_id)
    assert before == await stored_names(client, other_id)


@pytest.mark.full
@pytest.mark.parametrize("graph", ["unsay", "parent"])
async def test_a_stateless_run_leaves_nothing(client: LangGraphClient, graph: str) -> None:
    """Nobody knows the id of its thread, so nothing may be stored for it; answers come all the same."""
    before = await client.store.search_items(["unsay"], limit=10_000)
    state: Any = await client.runs.wait(None, graph, input=question("Remember"))
    chunks = [chunk async for chunk in client.runs.stream(None, graph, input=question("Note"))]

    assert f"The word {WORD} is kept." == state["messages"][-1]["content"]
    assert "error" not in [chunk.event for chunk in chunks]
    assert before == await client.store.search_items(["unsay"], limit=10_000)


@pytest.mark.parametrize("form", ["alone", "in a parent"])
@pytest.mark.parametrize("call_form", ["invoke", "ainvoke"])
async def test_a_run_without_a_checkpointer_stores_nothing(form: str, call_form: str) -> None:
    """It rejects drafts, calls tools and undoes all the same, within the one run."""
    store = InMemoryStore()
    call = ToolCalls(calls=[{"name": "note", "args": {"text": WORD}}], then="Noted {result}.")
    model = ScriptedChat(replies={"note": call, "bad": ["A poor draft.", "Better."]}, default="Hi.")
    judge = ScriptedJudge(scores={"poor": 0.1})
    own_store = store if form == "alone" else None
    graph: Any = make(model, judge, tools=[note], checkpointer=None, store=own_store)
    if form == "in a parent":
        builder = StateGraph(MessagesState).add_node("talk", graph).add_edge(START, "talk")
        graph = builder.compile(store=store)
    answers: list[str] = []
    for texts in (["note"], ["bad"], ["Hello?", "/undo"]):
        value = {"messages": [("user", text) for text in texts]}
        if call_form == "invoke":
            state = graph.invoke(value, config())
        else:
            state = await graph.ainvoke(value, config())
        answers.append(state["messages"][-1].text)

    assert [f"Noted {WORD}.", "Better."] == answers[:2]
    assert [] == store.search((), limit=10)


@pytest.mark.parametrize("form", ["invoke", "ainvoke"])
@pytest.mark.parametrize("ends", ["answered", "failed"])
async def test_a_run_that_is_purged_writes_nothing_back(form: str, ends: str) -> None:
    """Neither items nor states are left of a thread that the host deletes while its model answers."""
    store = InMemoryStore()
    saver = InMemorySaver()

    def answer(messages: list[Any]) -> str:
        if "delete" in messages[-1].text:
            saver.delete_thread("t")
            Registry.open(store).purge("t")
            if ends == "failed":
                raise RuntimeError("the model failed")
        return f"The word is {WORD}."

    graph = make(ScriptedChat(default=answer), checkpointer=saver, store=store)
    say(graph, "Hello?")
    say(graph, "Hello?", thread="other")
    other_kinds = kinds(store, "other")
    with suppress(RuntimeError):
        if form == "invoke":
            graph.invoke({"messages": [("user", "delete")]}, config())
        else:
            await graph.ainvoke({"messages": [("user", "delete")]}, config())

    assert (set(), other_kinds) == (kinds(store, "t"), kinds(store, "other"))
    assert {} == graph.get_state(config()).values
    assert f"The word is {WORD}." == say(graph, "Hello again?")["messages"][-1].text
    assert {"event_log", "runs"} <= kinds(store, "t")
