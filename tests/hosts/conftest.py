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
from unsay.graph.compiled import HostGraph
from unsay.storage.sqlite import open_database

collect_ignore = ["stopped_child.py", "writer_child.py"]


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


@pytest.fixture(params=[in_memory, in_langgraphs_file, in_our_file], ids=lambda each: each.__name__)
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dict[str, Any]]:
    """A saver and a store."""
    with ExitStack() as stack:
        yield request.param(tmp_path, stack)


@pytest.fixture
def model() -> Numbered:
    """A model that numbers its drafts and records its requests."""
    return Numbered()


@pytest.fixture
def graph(model: Numbered, backend: dict[str, Any]) -> HostGraph:
    """The compiled graph over a backend, as a host builds it."""
    return make(model, **backend)
