"""Where a database is: the URL of a server, or a file."""

import re
from pathlib import Path

from unsay.errors import ConfigurationError

# Source: PostgreSQL, libpq connection URIs.
SCHEMES = ("postgresql://", "postgres://")
# Parameters that name the database. All others are hidden: a password can be among them.
SHOWN = frozenset({"dbname", "host", "hostaddr", "options", "port", "user"})
_URL = re.compile(r"([a-z][a-z0-9+.-]*)://([^/?]*)(/[^?]*)?(?:\?(.*))?", re.IGNORECASE | re.DOTALL)
_HOST = r"(?:\[[^\]@]*\]|[^:,@\[\]]*)(?::\d*)?"
_AUTHORITY = re.compile(rf"(?:([^:@]*)(?::[^@]*)?@)?({_HOST}(?:,{_HOST})*)")


def is_postgres(location: str) -> bool:
    """Return whether a location is the URL of a Postgres database."""
    return location.startswith(SCHEMES)


def file_at(location: str) -> Path | None:
    """Return the path of the SQLite file at a location, which need not exist; `None` for another URL.

    Any text that is not a URL is a path, also `:memory:`.
    """
    path = location.removeprefix("sqlite:///")
    return None if "://" in path else Path(path)


def masked(url: str) -> str:
    """Return a database's URL without its secrets, safe to show.

    If a part of the password could be read as another part of the URL, only the scheme is shown. A
    text that is not a URL becomes `…`.

    Example:
        >>> masked("postgres://ann:sesame@db.example.org:5433/talks?sslpassword=open")
        'postgresql://ann@db.example.org:5433/talks'
    """
    match = _URL.fullmatch(url)
    if match is None:
        return "…"
    scheme = "postgresql" if is_postgres(url) else match[1]
    authority = _AUTHORITY.fullmatch(match[2])
    parameters = match[4].split("&") if match[4] else []
    is_ambiguous = "@" in (match[3] or "") or not all("=" in parameter for parameter in parameters)
    # Each of these can mean that a part of the password was read as something else.
    if authority is None or is_ambiguous or ("@" in (match[4] or "") and "@" not in match[2]):
        return f"{scheme}://…"
    user = f"{authority[1]}@" if authority[1] else ""
    parameters = [parameter for parameter in parameters if parameter.split("=")[0] in SHOWN]
    query = f"?{'&'.join(parameters)}" if parameters else ""
    return f"{scheme}://{user}{authority[2]}{match[3] or ''}{query}"


def check_url(url: str) -> None:
    """Raise `ConfigurationError` for a URL of which `masked` shows only the scheme: it is ambiguous.

    The message tells how to write the URL, and does not show it.
    """
    if masked(url).endswith("://…"):
        raise ConfigurationError(
            "The database's URL is ambiguous (it is not shown, since it may hold a password): "
            "write postgresql://user:password@host:port/name, and in the password @ as %40, "
            "/ as %2F, : as %3A, ? as %3F, % as %25"
        )
