"""URLs of databases, shown without their secrets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unsay.errors import ConfigurationError
from unsay.storage.urls import check_url, is_postgres, masked

SHOWN = {
    "postgresql://host/db": "postgresql://host/db",
    "postgres://ann@host/db": "postgresql://ann@host/db",
    "postgresql://ann:sesame@host:5433/db": "postgresql://ann@host:5433/db",
    "postgresql://ann:sesame@h1:1,h2:2/db": "postgresql://ann@h1:1,h2:2/db",
    "postgresql://ann:sesame@[::1]:5432/db": "postgresql://ann@[::1]:5432/db",
    "postgresql://:sesame@/db?host=/run/pg": "postgresql:///db?host=/run/pg",
    "postgresql:///db?user=ann&password=sesame&options=-csearch_path%3Dx": (
        "postgresql:///db?user=ann&options=-csearch_path%3Dx"
    ),
    "postgresql://ann:ses%40me@host?sslpassword=sesame": "postgresql://ann@host",
    "mysql://ann:sesame@host/db": "mysql://ann@host/db",
    "sqlite://file.db": "sqlite://file.db",
}

AMBIGUOUS = ["ses@me", "ses/ame", "ses/a@me", "ses?ame", "s@s?a/me", "1234?a=b"]


@pytest.mark.parametrize(("url", "text"), SHOWN.items(), ids=SHOWN)
def test_a_url_is_shown_without_its_secrets(url: str, text: str) -> None:
    """User, host, port and database remain; passwords of every kind do not."""
    check_url(url)

    assert text == masked(url)


@pytest.mark.parametrize("password", AMBIGUOUS)
def test_a_password_that_moves_the_host_is_refused(password: str) -> None:
    """What libpq would look up as a machine's name is neither looked up nor shown."""
    url = f"postgresql://ann:{password}@host/db"

    with pytest.raises(ConfigurationError, match="as %40") as raises:
        check_url(url)

    assert password not in str(raises.value)
    assert "ann" not in str(raises.value)
    assert "postgresql://…" == masked(url)


@given(st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=6))
def test_no_password_is_ever_shown(password: str) -> None:
    """No message has the secret, for any kind of URL."""
    assert f"#{password}" not in masked(f"postgresql://ann:#{password}@host/db")


@pytest.mark.parametrize(
    ("location", "is_one"),
    [
        ("postgresql://h/d", True),
        ("postgres://h", True),
        ("talk.db", False),
        ("sqlite:///x", False),
    ],
)
def test_which_locations_are_postgres(location: str, is_one: bool) -> None:  # noqa: FBT001 - a table
    """Both of libpq's schemes are, and nothing else."""
    assert is_one == is_postgres(location)
