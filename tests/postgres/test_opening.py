"""How a Postgres database is opened, and the errors when it cannot be."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.postgres.conftest import Machine
from unsay import Conversation, Registry
from unsay.errors import (
    ConfigurationError,
    DatabaseTooNewError,
    DatabaseTooOldError,
    InputError,
    MissingExtraError,
    StorageError,
)
from unsay.graph.builder import can_replay_deltas
from unsay.storage.sqlite import open_database
from unsay.testing import ScriptedChat

pytestmark = pytest.mark.full

ROOT = Path(__file__).parents[2]
PASSWORD = "open-sesame"  # noqa: S105 - of a server that lives as long as the tests


@pytest.fixture(scope="module")
def guest(machine: Machine) -> Iterator[str]:
    """A user who needs a password, and may make nothing."""
    machine.sql(f"CREATE ROLE guest LOGIN PASSWORD '{PASSWORD}'")
    rules = machine.folder / "pg_hba.conf"
    before = rules.read_text()
    rules.write_text(f"local all guest scram-sha-256\n{before}")
    machine.sql("SELECT pg_reload_conf()")
    yield "guest"
    rules.write_text(before)
    machine.sql("SELECT pg_reload_conf()")


def tables(machine: Machine, name: str) -> set[str]:
    """The names of a database's tables."""
    rows = machine.sql("SELECT tablename FROM pg_tables WHERE schemaname = 'public'", name=name)
    return {name for (name,) in rows}


OURS = {
    "checkpoint_blobs",
    "checkpoint_migrations",
    "checkpoints",
    "checkpoint_writes",
    "store",
    "store_migrations",
    "unsay_layout",
}


def test_tables_are_made_once(machine: Machine) -> None:
    """The first opening makes them, the second finds them, and what was stored stays."""
    name = machine.make()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PGAPPNAME", "test")
        first = open_database(machine.url(name))
    first.store.put(("unsay", "branches", "t"), "a", {"v": 1})
    first.close()
    second = open_database(machine.url(name))

    assert tables(machine, name) == OURS
    assert {"v": 1} == second.store.get(("unsay", "branches", "t"), "a").value  # type: ignore[union-attr]
    assert can_replay_deltas(second.saver)
    second.close()
    machine.sql(f"DROP DATABASE {name} WITH (FORCE)")


def test_processes_that_begin_at_once_make_them_once(machine: Machine) -> None:
    """Four processes open an empty database at the same moment, and all can use it."""
    name = machine.make()
    opens = (
        "import sys; from unsay.storage.sqlite import open_database as o; o(sys.argv[1]).close()"
    )
    children = [
        subprocess.Popen(
            [sys.executable, "-c", opens, machine.url(name)], cwd=ROOT, stderr=subprocess.PIPE
        )
        for _ in range(4)
    ]

    assert [b""] * 4 == [child.communicate(timeout=60)[1] for child in children]
    assert tables(machine, name) == OURS
    (rows,) = machine.sql("SELECT count(*) FROM checkpoint_migrations", name=name)
    assert rows == (10,)
    machine.sql(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        pytest.param(
            "guest:wrong-word@/ready", "check the user and the password", id="wrong password"
        ),
        pytest.param("guest@/ready", "give the password in the URL", id="no password"),
        pytest.param("nobody:wrong-word@/ready", "CREATE ROLE", id="no such user"),
        pytest.param("postgres:wrong-word@/nowhere", "CREATE DATABASE", id="no such database"),
    ],
)
def test_a_refusal_says_what_to_do(
    machine: Machine, guest: str, address: str, problem: str
) -> None:
    """Each has its advice, and neither message nor cause holds the password."""
    del guest
    with pytest.raises(StorageError, match=problem) as error_info:
        open_database(f"postgresql://{address}?host={machine.folder}")

    assert "wrong-word" not in str(error_info.value)
    assert error_info.value.__cause__ is None
    assert error_info.value.__context__ is None


@pytest.mark.parametrize(
    ("url", "kind", "problem"),
    [
        pytest.param(
            "postgresql://u:wrong-word@127.0.0.1:1/db",
            StorageError,
            "check that the server runs",
            id="no server",
        ),
        pytest.param(
            "postgresql://u:wrong%word@127.0.0.1:1/db",
            ConfigurationError,
            "write % in a password as %25",
            id="a bad escape",
        ),
        pytest.param(
            "postgresql://u@127.0.0.1:1/db?nonsense=1",
            ConfigurationError,
            "check its parameters",
            id="a parameter that is none",
        ),
        pytest.param(
            "postgresql://u:wrong@word@127.0.0.1:1/db",
            ConfigurationError,
            "ambiguous",
            id="an ambiguous password",
        ),
    ],
)
def test_a_bad_url_is_refused(url: str, kind: type[Exception], problem: str) -> None:
    """What cannot be reached or read is named without its password."""
    pytest.importorskip("psycopg")
    with pytest.raises(kind, match=problem) as error_info:
        open_database(url)

    assert "word" not in str(error_info.value).replace("password", "")


def test_the_path_shows_no_password(machine: Machine, guest: str) -> None:
    """A user with a password and the rights to read and write opens what is there."""
    machine.sql(
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {guest}",
        name="ready",
    )
    database = open_database(f"postgresql://{guest}:{PASSWORD}@/ready?host={machine.folder}")

    assert f"postgresql://guest@/ready?host={machine.folder}" == database.path
    assert PASSWORD not in repr(database.path)
    database.store.put(("unsay", "branches", "t"), "a", {})
    database.store.delete(("unsay", "branches", "t"), "a")
    database.close()


def test_a_newer_layout_is_left_alone(machine: Machine) -> None:
    """What a newer unsay made is not opened by an older one."""
    name = machine.make("ready")
    machine.sql("INSERT INTO unsay_layout VALUES (5)", name=name)

    with pytest.raises(DatabaseTooNewError, match=r"layout 5, this version reads 4\): upgrade"):
        open_database(machine.url(name))
    machine.sql(f"DROP DATABASE {name} WITH (FORCE)")


def test_an_older_layout_is_left_alone(machine: Machine) -> None:
    """What an older unsay made in another layout is neither read nor changed."""
    name = machine.make("ready")
    machine.sql("UPDATE unsay_layout SET version = 3", name=name)

    with pytest.raises(DatabaseTooOldError, match=r"layout 3, this version reads 4\)"):
        open_database(machine.url(name))
    assert [(3,)] == machine.sql("SELECT version FROM unsay_layout", name=name)
    machine.sql(f"DROP DATABASE {name} WITH (FORCE)")


def test_a_database_of_one_script_is_refused(machine: Machine) -> None:
    """A database that cannot hold every language says so before anything is stored."""
    machine.sql("CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")

    with pytest.raises(
        ConfigurationError, match="has the encoding LATIN1: use one made with CREATE DATABASE"
    ):
        open_database(machine.url("latin"))
    machine.sql("DROP DATABASE latin WITH (FORCE)")


def test_a_closed_database_says_so(url: str) -> None:
    """After closing nothing is stored, and the message says why."""
    database = open_database(url)
    database.close()

    with pytest.raises(InputError, match="was closed: open it again"):
        database.store.put(("unsay", "branches", "t"), "a", {})


def test_a_conversation_whose_database_was_closed_locks_nothing(url: str) -> None:
    """Its verbs say so, and another process can write to the thread."""
    database = open_database(url)
    conversation = Conversation.open(database, thread="t", model=ScriptedChat(default="Yes."))
    conversation.say("Is it late?")
    database.close()

    with pytest.raises(InputError, match="was closed: open it again"):
        conversation.say("And now?")
    with Conversation.open(
        url, thread="t", model=ScriptedChat(default="No.")
    ) as other_conversation:
        assert "No." == other_conversation.say("Still?").text


def test_a_database_that_is_closed_in_the_middle_of_a_turn_says_so(url: str) -> None:
    """The thread is free, and the answer that was paid for is not asked for again."""
    database = open_database(url)

    def closes(_: object) -> str:
        database.close()
        return "Yes."

    conversation = Conversation.open(database, thread="t", model=closes)
    with pytest.raises(InputError, match="was closed: open it again"):
        conversation.say("Is it late?")
    with Conversation.open(
        url, thread="t", model=ScriptedChat(default="No.")
    ) as other_conversation:
        assert "Yes." == other_conversation.resume().text


def test_a_registry_over_postgres(url: str) -> None:
    """The list of threads and runs opens by URL as well."""
    with Registry.open(url) as registry:
        assert () == registry.sessions().sessions
        assert () == registry.runs().runs


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the extra, the error says how to install it, not that a module is missing."""
    missing: Any = None
    monkeypatch.delitem(sys.modules, "unsay.storage.postgres", raising=False)
    monkeypatch.setitem(sys.modules, "psycopg", missing)

    with pytest.raises(MissingExtraError, match=r"pip install 'unsay\[postgres\]'"):
        open_database("postgresql://host/db")
