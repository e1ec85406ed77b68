"""The graph under Aegra, an open server of LangGraph's API: the transcript is `langgraph dev`'s.

The tests of `langgraph dev` are collected here once more, on Aegra with a Postgres of the tests'
own. It needs Python 3.12 and an environment of its own, which `AEGRA_PYTHON` names:

    python3.12 -m venv aegra && aegra/bin/pip install aegra-api .
    AEGRA_PYTHON=aegra/bin/python pytest tests/postgres/test_aegra.py
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langgraph.store.base import BaseStore
from langgraph_sdk.client import LangGraphClient
from llmock.pytest_plugin import LLMock
from llmock.scenarios import Fail
from llmock.testing import LLMockServer

from tests.hosts import test_langgraph_dev
from tests.hosts.dev_server import (  # noqa: F401 - one is a fixture
    ROOT,
    free_port,
    running,
    server_environment,
    server_log,
)
from tests.hosts.test_langgraph_dev import (  # noqa: F401 - some are fixtures
    GOOD,
    OTHER,
    QUESTION,
    TURN,
    Thread,
    clean_log,
    client,
    transcript,
)
from tests.http.replies import ANSWERER, answers, grades
from tests.postgres.conftest import Machine
from unsay.storage.sqlite import open_database

pytestmark = pytest.mark.full

PYTHON = os.environ.get("AEGRA_PYTHON", sys.executable)
OTHERWISE = {
    "test_failed_run_is_answered_once_when_asked_again": "it shows no error's name",
    "test_an_ended_thread_refuses_the_next_run": "its store's API is fenced off for each user",
}
"""Tests whose subject Aegra has otherwise, and how; the record they speak of is tested below."""


@pytest.fixture(scope="module")
def aegra_python() -> str:
    """An interpreter that has Aegra and what the graph imports."""
    check = [PYTHON, "-c", "import aegra_api, uvicorn, unsay.graph.app"]
    process = subprocess.run(check, cwd=ROOT, capture_output=True, text=True, check=False)
    if process.returncode:
        reason = process.stderr.strip().rpartition("\n")[2]
        pytest.skip(f"Aegra is not installed for {PYTHON!r} ({reason}): set AEGRA_PYTHON")
    return PYTHON


@pytest.fixture(scope="module")
def aegra_database(machine: Machine) -> str:
    """Where Aegra keeps all."""
    return machine.url(machine.make())


@pytest.fixture
def store(server_url: str, aegra_database: str) -> Iterator[BaseStore]:
    """Aegra's store, past its API: a graph's items lie outside any user's part of it."""
    del server_url
    database = open_database(aegra_database)
    yield database.store
    database.close()


class OnAegra(Thread):
    """A thread of Aegra's."""

    async def run(self, value: Any = None, **options: Any) -> dict[str, Any]:
        """The state after a run; one without input names the checkpoint that it resumes from."""
        if value is None and "command" not in options:
            state = await self.client.threads.get_state(self.thread_id)
            options["checkpoint"] = state["checkpoint"]
        return await super().run(value, **options)


@pytest.fixture
async def thread(client: LangGraphClient) -> Thread:  # noqa: F811 - the fixture above
    """A new thread."""
    return OnAegra(client, (await client.threads.create())["thread_id"])


@pytest.fixture(autouse=True)
def _stored_outside(store: BaseStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the graph stored is looked for where it lies."""

    async def search_store(_: Thread, *namespace: str, **options: Any) -> list[Any]:
        return [item.dict() for item in store.search(namespace, limit=1_000, **options)]

    monkeypatch.setattr(test_langgraph_dev, "search_store", search_store)


@pytest.fixture(scope="module")
def server_url(
    aegra_python: str,
    aegra_database: str,
    llmock_server: LLMockServer,
    server_log: Path,  # noqa: F811 - the fixture above
) -> Iterator[str]:
    """A running Aegra."""
    config = json.loads((ROOT / "langgraph.json").read_text())
    del config["http"]  # of LangGraph's own servers: Aegra gives such an app no store
    graphs = {name: str(ROOT / path) for name, path in config["graphs"].items()}
    config_file = server_log.with_name("aegra.json")
    config_file.write_text(json.dumps({**config, "dependencies": [str(ROOT)], "graphs": graphs}))
    port = free_port()
    command = [aegra_python, "-m", "uvicorn", "aegra_api.main:app"]
    environment = server_environment(
        llmock_server,
        AEGRA_CONFIG=str(config_file),
        DATABASE_URL=aegra_database,
        PYTHONPATH=str(ROOT),
    )
    url = f"http://127.0.0.1:{port}"
    address = ["--host", "127.0.0.1", "--port", str(port)]
    with running([*command, *address], environment, server_log, ready=f"{url}/health"):
        yield url


async def test_a_failed_turn_is_answered_once(thread: Thread, llmock: LLMock) -> None:
    """After an error of the model the same question leads to one question and one answer."""
    llmock.add(Fail(401, match=ANSWERER), answers(GOOD), grades(0.9))
    failed = await thread.say(QUESTION, raise_error=False)
    assert "The provider refused" in failed["__error__"]["message"]
    assert TURN == transcript(await thread.say(QUESTION))


async def test_an_ended_thread_is_refused(
    thread: Thread,
    llmock: LLMock,
    store: BaseStore,
) -> None:
    """A line in the catalogue ends a thread here too, and the transcript stays as it was."""
    llmock.add(answers(GOOD), grades(0.9))
    await thread.say(QUESTION)
    moment = "2026-01-01T00:00:00.000+00:00"
    line = {"title": "Spiders", "turns": 1, "created_at": moment, "updated_at": moment}
    entry = {**line, "status": "ended", "ended_at": moment, "labels": {}}
    store.put(("unsay", "threads"), thread.thread_id, entry)
    state = await thread.say(OTHER, raise_error=False)

    assert "was ended" in state["__error__"]["message"]
    assert TURN == transcript(await thread.state())[:2]


globals().update(
    {
        f"{name}__on_aegra": value
        for name, value in vars(test_langgraph_dev).items()
        if name.startswith("test_") and callable(value) and name not in OTHERWISE
    }
)
