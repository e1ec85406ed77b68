"""What Postgres' errors mean."""

import pytest

from unsay.errors import DatabaseCorruptError, DatabaseLockedError, StorageError, ThreadBusyError
from unsay.storage.postgres_schema import is_broken, meaning, refusal, unreadable

PATH = "postgresql://ann@host/db"


@pytest.mark.parametrize(
    ("code", "kind", "message"),
    [
        pytest.param("22012", ThreadBusyError, "another process may be writing", id="guard"),
        pytest.param("25006", StorageError, "standby", id="standby"),
        pytest.param("42501", StorageError, "GRANT", id="rights"),
        pytest.param("42P01", StorageError, "tables are missing", id="tables"),
        pytest.param("53100", StorageError, "free disk space", id="disk"),
        pytest.param("53300", StorageError, "max_connections", id="connections"),
        pytest.param("55P03", DatabaseLockedError, "when the other process is done", id="lock"),
        pytest.param("57014", DatabaseLockedError, "statement_timeout", id="timeout"),
        pytest.param("XX001", DatabaseCorruptError, "backup", id="damage"),
        pytest.param("99999", StorageError, r"written \(why not\)$", id="any other"),
        pytest.param(None, StorageError, r"written \(why not\)$", id="no code"),
    ],
)
def test_a_code_has_its_error(code: str | None, kind: type[Exception], message: str) -> None:
    """Each says what to do, and of which database it speaks."""
    error = meaning("why\n  not", code, PATH, lost=False)

    assert kind is type(error)
    with pytest.raises(kind, match=message):
        raise error
    assert PATH in str(error)


def test_a_lost_connection_says_what_is_kept() -> None:
    """After a broken connection the error says that repeating is safe."""
    error = meaning("server closed the connection", None, PATH, lost=True)

    assert StorageError is type(error)
    assert "was lost (server closed the connection). What was committed is stored" in str(error)


@pytest.mark.parametrize(
    ("code", "broken"),
    [
        ("08006", True),
        ("57P01", True),
        ("57P05", True),
        ("25P03", True),
        ("25P02", False),
        ("57014", False),
        ("22012", False),
    ],
)
def test_which_codes_end_a_connection(code: str, broken: bool) -> None:  # noqa: FBT001 - a table
    """Class 08, the server's own end, and its timeouts of idle connections do."""
    assert broken == is_broken(code)


def test_what_has_no_word_of_ours_is_told_all_the_same() -> None:
    """A server of another language is quoted, with what to see to."""
    assert "cannot be opened (Verbindung verweigert): check that" in str(
        refusal("Verbindung\nverweigert", PATH)
    )
    assert "write % in a password as %25" in str(unreadable(PATH))
