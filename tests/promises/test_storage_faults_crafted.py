"""Forged rows that try to run code: no reader runs any of it."""

import json
import sqlite3
import zlib
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ormsgpack
import pytest

from tests.graph.kit import Numbered, scores
from tests.threads import registry_of
from tests.tiers import sampled
from unsay.conversation.conversation import Conversation
from unsay.errors import StorageError
from unsay.storage.items import add_checksum


def ext(kind: int, *name: Any) -> bytes:
    """LangGraph's msgpack for an object that is made by calling something."""
    return ormsgpack.packb(ormsgpack.Ext(kind, ormsgpack.packb(name)))


def constructor(version: int, command: str) -> dict[str, Any]:
    """LangChain's JSON for an object that is made by calling something."""
    return {
        "lc": version,
        "type": "constructor",
        "id": ["os", "system"],
        "args": [command],
        "kwargs": {"command": command},
    }


PAYLOADS: dict[str, Callable[[str], tuple[str, bytes]]] = {
    "msgpack-constructor": lambda do: ("msgpack", ext(0, "os", "system", do)),
    "msgpack-arguments": lambda do: ("msgpack", ext(1, "os", "system", [do])),
    "msgpack-method": lambda do: (
        "msgpack",
        ext(3, "subprocess", "Popen", {"args": do, "shell": True}, "poll"),
    ),
    "msgpack-pydantic": lambda do: (
        "msgpack",
        ext(5, "os", "system", {"command": do}, "model_construct"),
    ),
    "msgpack-snapshot": lambda do: (
        "msgpack",
        ormsgpack.packb(ormsgpack.Ext(7, ext(0, "os", "system", do))),
    ),
    "json-2": lambda do: ("json", json.dumps(constructor(2, do)).encode()),
    "json-1": lambda do: ("json", json.dumps(constructor(1, do)).encode()),
    "pickle": lambda do: ("pickle", f"cos\nsystem\n(V{do}\ntR.".encode()),
}
"""A type and its bytes, by how they would run a command."""

FORMS: dict[str, Callable[[str, bytes], tuple[str, bytes]]] = {
    "plain": lambda kind, data: (kind, data),
    "compressed": lambda kind, data: (f"{kind}+z", zlib.compress(data)),
    "guarded": lambda kind, data: (f"{kind}+c", add_checksum(data)),
}
"""How such a row may be stored: as by anyone, or as by us."""

PLACES: dict[str, str] = {
    "checkpoints": "UPDATE checkpoints SET type = :kind, checkpoint = :data",
    "writes": "UPDATE writes SET type = :kind, value = :data",
    "metadata": "UPDATE checkpoints SET metadata = :json",
    "branches": "UPDATE store SET value = :branch WHERE prefix LIKE 'unsay.branches.%'",
    "event_log": "UPDATE store SET value = json_set(json_remove(value, '$.unsay_sum'), '$.events', :frozen)"
    " WHERE prefix LIKE 'unsay.event_log.%'",
    "everything": "UPDATE store SET value = :json",
}
"""Where such a row may lie."""


def use(conversation: Conversation) -> None:
    """Everything that reads the file, and a turn."""
    readings: list[Callable[[], Any]] = [
        conversation.messages,
        registry_of(conversation).events,
        conversation.timeline,
        conversation.branches,
        registry_of(conversation).runs,
        conversation.replay,
        conversation.undo,
        lambda: conversation.say("question 4"),
        lambda: conversation.restore("branch-1"),
    ]
    for reading in readings:
        try:
            reading()
        except Exception:  # noqa: BLE001, S112 - what a forged value makes of its reader is no matter here
            continue


@pytest.fixture(scope="module")
def file_data(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A file with turns, a rejected draft and a branch."""
    file = tmp_path_factory.mktemp("filled") / "t.db"
    judge = scores(0.9, 0.1, 0.9)
    with Conversation.open(file, thread="t", model=Numbered(), judge=judge) as conversation:
        for number in range(3):
            conversation.say(f"question {number}")
        conversation.rollback(turns=1)
        config = conversation.graph.get_state({"configurable": {"thread_id": "t"}}).config
        conversation.graph.checkpointer.put_writes(config, [("messages", [])], "task")  # type: ignore[union-attr]
    return file.read_bytes()


@pytest.mark.filterwarnings("ignore::langgraph.warnings.LangGraphDeprecationWarning")
@pytest.mark.parametrize("table", PLACES)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("payload", sampled(PAYLOADS, every=3))
def test_a_crafted_row_runs_nothing(
    payload: str, form: str, table: str, file_data: bytes, tmp_path: Path
) -> None:
    """A writer of a file cannot make its reader run a program."""
    trace = tmp_path / "trace"
    file = tmp_path / "t.db"
    file.write_bytes(file_data)
    command = f"touch {trace}"
    kind, data = PAYLOADS[payload](command)
    frozen = b64encode(zlib.compress(data)).decode()
    plain = json.dumps({**constructor(2, command), "events": frozen, "pending_input": frozen})
    branch = json.dumps({"id": "branch-1", "created_at": "", "messages": frozen, "drafts": frozen})
    kind, data = FORMS[form](kind, data)
    connection = sqlite3.connect(file, isolation_level=None)
    values = {"kind": kind, "data": data, "frozen": frozen, "json": plain, "branch": branch}
    parameters = {name: value for name, value in values.items() if f":{name}" in PLACES[table]}
    assert connection.execute(PLACES[table], parameters).rowcount
    connection.close()

    with Conversation.open(file, thread="t", model=Numbered(), judge=scores()) as conversation:
        use(conversation)

    assert not trace.exists()


@pytest.mark.parametrize(
    ("statement", "sees"),
    [
        pytest.param(
            "CREATE TRIGGER t AFTER INSERT ON store BEGIN SELECT load_extension('x'); END",
            "not authorized|unsafe use|no such function|could not be read",
            id="a trigger that loads a library",
        ),
        pytest.param(
            "CREATE TRIGGER t AFTER INSERT ON store BEGIN SELECT writefile('trace', 'x'); END",
            "unsafe use|no such function",
            id="a trigger that writes a file",
        ),
    ],
)
def test_a_crafted_trigger_runs_nothing(
    statement: str, sees: str, file_data: bytes, tmp_path: Path
) -> None:
    """A schema cannot call what could reach outside the file."""
    file = tmp_path / "t.db"
    file.write_bytes(file_data)
    connection = sqlite3.connect(file, isolation_level=None)
    connection.execute(statement)
    connection.close()

    with (
        Conversation.open(file, thread="t", model=Numbered(), judge=scores()) as conversation,
        pytest.raises(StorageError, match=sees),
    ):
        conversation.say("question 4")

    assert [] == [path.name for path in tmp_path.iterdir() if not path.name.startswith("t.db")]
