"""URLs of databases: which are Postgres', and how they are shown without their passwords."""

import re

from unsay.errors import ConfigurationError

SCHEMES = ("postgresql://", "postgres://")
"""Source: PostgreSQL, libpq connection URIs."""

SHOWN = frozenset({"dbname", "host", "hostaddr", "options", "port", "user"})
"""Parameters that say which database is meant; all others stay unseen."""

_URL = re.compile(r"([a-z][a-z0-9+.-]*)://([^/?]*)(/[^?]*)?(?:\?(.*))?", re.IGNORECASE | re.DOTALL)

_HOST = r"(?:\[[^\]@]*\]|[^:,@\[\]]*)(?::\d*)?"

_AUTHORITY = re.compile(rf"(?:([^:@]*)(?::[^@]*)?@)?({_HOST}(?:,{_HOST})*)")


def is_postgres(location: str) -> bool:
    """Whether a location is the URL of a Postgres database."""
    return location.startswith(SCHEMES)


def masked(url: str) -> str:
    """A URL as it may be shown: with its user, host and database, without any secret.

    Example:
        >>> masked("postgres://ann:sesame@db.example.org:5433/talks?sslpassword=open")
        'postgresql://ann@db.example.org:5433/talks'
    """
    found = _URL.fullmatch(url)
    if found is None:
        return "…"
    scheme = "postgresql" if is_postgres(url) else found[1]
    authority = _AUTHORITY.fullmatch(found[2])
    asked = found[4].split("&") if found[4] else []
    moved = "@" in (found[3] or "") or not all("=" in each for each in asked)
    if authority is None or moved or ("@" in (found[4] or "") and "@" not in found[2]):
        return f"{scheme}://…"
    user = f"{authority[1]}@" if authority[1] else ""
    asked = [each for each in asked if each.split("=")[0] in SHOWN]
    query = f"?{'&'.join(asked)}" if asked else ""
    return f"{scheme}://{user}{authority[2]}{found[3] or ''}{query}"


def check_url(url: str) -> None:
    """Refuse a URL that would be read otherwise than it was meant.

    A password's own `@`, `/` or `?` moves the host: the rest of the password would be looked up
    as a machine's name, and shown.

    Raises:
        ConfigurationError: It is ambiguous.
    """
    if masked(url).endswith("://…"):
        raise ConfigurationError(
            "The database's URL is ambiguous (it is not shown, since it may hold a password): "
            "write postgresql://user:password@host:port/name, and in the password @ as %40, "
            "/ as %2F, : as %3A, ? as %3F, % as %25"
        )
