"""The savers under which a host may run the graph."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.store.memory import InMemoryStore

from tests.graph.kit import Numbered, make
from tests.hosts.dev_server import (  # noqa: F401 - fixtures
    server_config,
    server_log,
    server_settings,
    server_url,
)
from tests.postgres.conftest import machine, url  # noqa: F401 - fixtures
from unsay.hosts.entry import HostGraph
from unsay.storage.sqlite import open_database

collect_ignore = ["mcp_server.py", "stopped_child.py", "writer_child.py"]


def in_memory(_: Path, __: ExitStack) -> dict[str, Any]:
    """LangGraph's saver and store in memory."""
    return {"checkpointer": InMemorySaver(), "store": InMemoryStore()}


def in_langgraphs_file(folder: Path, stack: ExitStack) -> dict[str, Any]:
    """LangGraph's SQLite saver, with a store in memory."""
    saver = stack.enter_context(SqliteSaver.from_conn_string(str(folder / "langgraph.db")))
    return {"checkpointer": saver, "store": InMemoryStore()}


def in_our_file(folder: Path, stack: ExitStack) -> dict[str, Any]:
    """Our SQLite saver and store, in one file."""
    database = open_database(folder / "unsay.db")
    stack.callback(database.close)
    return {"checkpointer": database.saver, "store": database.store}


def in_our_postgres(folder: Path, stack: ExitStack) -> dict[str, Any]:
    """Our saver and store on Postgres."""
    database = open_database((folder / "url").read_text())
    stack.callback(database.close)
    return {"checkpointer": database.saver, "store": database.store}


def in_langgraphs_postgres(folder: Path, stack: ExitStack) -> dict[str, Any]:
    """LangGraph's Postgres saver and store."""
    from langgraph.checkpoint.postgres import PostgresSaver  # noqa: PLC0415 - an extra
    from langgraph.store.postgres import PostgresStore  # noqa: PLC0415 - an extra

    server_address = (folder / "url").read_text()
    saver: Any = stack.enter_context(PostgresSaver.from_conn_string(server_address))
    store: Any = stack.enter_context(PostgresStore.from_conn_string(server_address))
    return {"checkpointer": saver, "store": store}


ON_A_SERVER = (in_our_postgres, in_langgraphs_postgres)


@pytest.fixture(
    params=[
        in_memory,
        in_langgraphs_file,
        in_our_file,
        *(pytest.param(storage, marks=pytest.mark.full) for storage in ON_A_SERVER),
    ],
    ids=lambda value: value.__name__,
)
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dict[str, Any]]:
    """A saver and a store."""
    with ExitStack() as stack:
        if request.param in ON_A_SERVER:
            (tmp_path / "url").write_text(request.getfixturevalue("url"))
        yield request.param(tmp_path, stack)


@pytest.fixture
def model() -> Numbered:
    """A model that numbers its drafts and records its requests."""
    return Numbered()


@pytest.fixture
def graph(model: Numbered, backend: dict[str, Any]) -> HostGraph:
    """The compiled graph over a backend, as a host builds it."""
    return make(model, **backend)
