import json
import os
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, get_args

import httpx
import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient

from tests.graph.kit import config, make, say
from tests.hosts.dev_server import free_port, running
from unsay import AsyncRegistry, Registry, reversible
from unsay.graph import http as http_app
from unsay.storage.items import Kind, quoted
from unsay.storage.sqlite import open_database
from unsay.testing import ScriptedChat, ScriptedJudge, ToolCalls

WORD = "swordfish"
SERVED = f"""
from unsay import build_graph
from unsay.testing import ScriptedChat, ScriptedJudge

graph = build_graph(ScriptedChat(default="The word {WORD} is kept."), judge=ScriptedJudge())
"""


@reversible(undo=lambda at: None)
def note(at: str) -> str:
    """Write a note."""
    return at


def rich(**parts: Any) -> Any:
    """A thread with every kind of item: branches, failed drafts, tool calls, offloaded messages."""
    call = ToolCalls(calls=[{"name": "note", "args": {"at": WORD}}], then="Noted {result}.")
    replies = {"note": call, "bad": ["Nonsense about fish.", f"Better: {WORD}."] * 2}
    model = ScriptedChat(replies=replies, default=f"The word is {WORD}.")
    judge = ScriptedJudge(scores={"fish": 0.1})
    settings = {"live_messages": 4, "session_budget_tokens": 10**9}
    graph = make(model, judge, tools=[note], settings=settings, **parts)
    for thread in ("t", "a/b.c"):
        for text in ("note", "bad", "/undo", "/redo", *(f"more {WORD} {n}" for n in range(12))):
            say(graph, text, thread=thread)
        say(graph, *["/rollback 1"] * 3, *["again"] * 3, thread=thread)
    return graph


def kinds(store: BaseStore, thread_id: str) -> set[str]:
    """The kinds of items that a store has for a thread."""
    found = [item.namespace for item in store.search(("unsay",), limit=10_000)]
    return {name[1] for name in found if name[2:] == (quoted(thread_id),)}


@pytest.mark.parametrize("form", ["blocking", "on a loop"])
async def test_a_host_purges_a_thread_from_its_store(form: str) -> None:
    """No item of the thread is left, and those of another thread stay."""
    store = InMemoryStore()
    rich(checkpointer=InMemorySaver(), store=store)
    before, other = kinds(store, "t"), kinds(store, "a/b.c")
    assert before <= set(get_args(Kind))
    assert {"branches", "compensations", "event_log", "offloaded", "runs", "requests"} <= before

    if form == "blocking":
        first, again = (Registry.open(store).purge("t") for _ in range(2))
    else:
        registry = AsyncRegistry.open(store)
        first, again = await registry.purge("t"), await registry.purge("t")

    assert (set(), other) == (kinds(store, "t"), kinds(store, "a/b.c"))
    assert first.items > 10
    assert 0 == again.items


@pytest.mark.full
def test_a_registry_purges_a_thread_from_a_file(tmp_path: Path) -> None:
    """The checkpoints leave with the items, and no byte of the thread stays in the file."""
    path = tmp_path / "t.db"
    database = open_database(path)
    graph = rich(checkpointer=database.saver, store=database.store)

    registry = Registry.open(database)
    purged = [registry.purge(thread) for thread in ("t", "a/b.c")]

    assert all(each.checkpoints and each.items for each in purged)
    assert {} == graph.get_state(config()).values
    database.close()
    assert WORD.encode() not in path.read_bytes()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """`langgraph dev` with our HTTP app; its URL."""
    folder = tmp_path_factory.mktemp("served")
    (folder / "served.py").write_text(SERVED)
    served = {
        "dependencies": ["."],
        "graphs": {"unsay": "./served.py:graph"},
        "http": {"app": f"{http_app.__file__}:app"},
        "disable_persistence": True,
    }
    (folder / "langgraph.json").write_text(json.dumps(served))
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
    async with get_client(url=server, api_key=None) as made:
        yield made


async def spoken(client: LangGraphClient) -> str:
    """The id of a thread of the server in which something was said."""
    thread = await client.threads.create()
    value = {"messages": [{"role": "user", "content": f"Remember {WORD}."}]}
    await client.runs.wait(thread["thread_id"], "unsay", input=value)
    return str(thread["thread_id"])


async def stored(client: LangGraphClient, thread_id: str) -> list[str]:
    """The kinds of the items that the server's store has for a thread."""
    found = await client.store.search_items(["unsay"], limit=10_000)
    names = [[*item["namespace"], item["key"]] for item in found["items"]]
    return [name[1] for name in names if thread_id in name]


@pytest.mark.full
async def test_deleting_a_thread_on_a_server_purges_our_store(client: LangGraphClient) -> None:
    """`DELETE /threads/{id}` leaves nothing of the thread; another thread stays whole."""
    gone, other = await spoken(client), await spoken(client)
    before = await stored(client, other)
    assert {"event_log", "runs"} <= set(before)

    await client.threads.delete(gone)

    assert [] == await stored(client, gone)
    assert before == await stored(client, other)


@pytest.mark.full
async def test_a_delete_that_the_server_refuses_purges_nothing(
    client: LangGraphClient, server: str
) -> None:
    """Only a successful deletion purges: a wrong address or method leaves the items alone."""
    thread = await spoken(client)
    before = await stored(client, thread)

    for method, path in (("DELETE", f"/other/threads/{thread}"), ("GET", f"/threads/{thread}")):
        async with httpx.AsyncClient() as plain:
            await plain.request(method, server + path)

    assert before == await stored(client, thread)
