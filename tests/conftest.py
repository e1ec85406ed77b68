"""The three tiers of tests, and an environment that the person who runs them cannot reach.

`pytest` runs the default tier. `pytest -m "(full or hypothesis) and not nightly"` runs the full tier:
kills, servers, Postgres, and 60 examples for every property. `pytest -m "nightly or hypothesis"` takes hours: 3,000
examples, and kills at hundreds of instants.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from unsay.storage.sqlite import Connection

FOREIGN = ("UNSAY_", "OPENAI_", "LANGSMITH_", "LANGCHAIN_")
EXAMPLES = {"default": 12, "full": 60, "nightly": 3000}

for _tier, _examples in EXAMPLES.items():
    settings.register_profile(
        _tier,
        derandomize=_tier != "nightly",
        max_examples=_examples,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )


def pytest_configure(config: pytest.Config) -> None:
    """Choose how many examples a property gets, by the tier that was asked for."""
    asked = str(config.option.markexpr)
    if "not full" in asked:
        settings.load_profile("default")
    elif "nightly" in asked and "not nightly" not in asked:
        settings.load_profile("nightly")
    else:
        settings.load_profile("full")


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No setting, key or home of the person who runs the tests reaches them."""
    for name in os.environ:
        if name.upper().startswith(FOREIGN):
            monkeypatch.delenv(name)
    monkeypatch.setenv("UNSAY_HOME", str(tmp_path))


@pytest.fixture
def closes_databases(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Close every connection that the test leaves open; Python 3.13 warns of each."""
    opened: list[Connection] = []
    plain = Connection.__init__

    def opens(self: Connection, *args: Any, **options: Any) -> None:
        plain(self, *args, **options)
        opened.append(self)

    monkeypatch.setattr(Connection, "__init__", opens)
    yield
    for each in opened:
        each.close()
