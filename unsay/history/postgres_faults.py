"""What Postgres' errors mean, and what to do about each."""

import re

from unsay.errors import (
    ConfigurationError,
    DatabaseCorruptError,
    DatabaseLockedError,
    StorageError,
    ThreadBusyError,
    UnsayError,
)

KEPT = "what was committed is kept: say it again to go on"

GUARD_FAILED = "22012"
"""Of the one division we make: a lease was not held any more."""

ADVICE: dict[str, tuple[type[StorageError], str]] = {
    "25006": (StorageError, "it is a standby; give the URL of the server that may be written"),
    "42501": (StorageError, "let the tables' owner GRANT this user its rights"),
    "42P01": (StorageError, "its tables are gone; put a backup in their place, or open it anew"),
    "53100": (StorageError, "make room on the server's disk"),
    "53300": (StorageError, "raise the server's max_connections, or open fewer"),
    "55P03": (DatabaseLockedError, "try again when the other is done"),
    "57014": (DatabaseLockedError, "try again, or raise statement_timeout"),
    "40P01": (DatabaseLockedError, "try again"),
    "XX001": (DatabaseCorruptError, "put a backup in its place"),
    "XX002": (DatabaseCorruptError, "let the server's operator REINDEX it"),
}
"""By code. Source: PostgreSQL, appendix A, error codes."""

REFUSALS = {
    "authentication failed": "check user and password",
    "no password supplied": "put the password into the URL, PGPASSWORD or ~/.pgpass",
    'role "': "check the user, or CREATE ROLE it",
    'database "': "check the name, or CREATE DATABASE it with ENCODING 'UTF8'",
    "clients already": "raise the server's max_connections, or open fewer",
    "starting up": "try again in a moment",
    "pg_hba.conf": "let the server's operator allow this user from here",
}
"""By words of a server that speaks English: a refused connection has no code."""

_BROKEN = re.compile(r"08...|57P0[123]")


def is_broken(code: str) -> bool:
    """Whether a code says that the connection ended.

    Source:
        PostgreSQL, appendix A: class 08, and 57P01 to 57P03.
    """
    return _BROKEN.fullmatch(code) is not None


def unreadable(path: str) -> ConfigurationError:
    """What is wrong with a URL that libpq cannot read; it is not quoted, for its password."""
    return ConfigurationError(
        f"{path!r} is no URL of a Postgres database: check its parameters, and write a "
        "password's % as %25"
    )


def refusal(words: str, path: str) -> StorageError:
    """Why a connection could not be made."""
    why = " ".join(words.split())
    other = "see that the server runs, and that host and port are right"
    advice = next((advice for said, advice in REFUSALS.items() if said in why), other)
    return StorageError(f"{path!r} cannot be opened ({why}): {advice}")


def meaning(words: str, code: str | None, path: str, *, lost: bool) -> UnsayError:
    """What an error means that came over a connection.

    Args:
        words: The error's own.
        code: Its five characters; `None` when the server did not send it.
        path: Of the database.
        lost: Whether the connection is gone.
    """
    if code == GUARD_FAILED:
        return ThreadBusyError(
            f"The connection to {path!r} that kept the thread for this turn was lost, and another "
            f"process may be writing to it: nothing more was stored, {KEPT}"
        )
    why = " ".join(words.split())
    if lost:
        return StorageError(f"The connection to {path!r} was lost ({why}); {KEPT}")
    kind, advice = ADVICE.get(code or "", (StorageError, ""))
    return kind(f"{path!r} could not be read or written ({why})" + (advice and f": {advice}"))
