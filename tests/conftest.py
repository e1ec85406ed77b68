import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

FOREIGN = ("UNSAY_", "OPENAI_", "LANGSMITH_", "LANGCHAIN_")

settings.register_profile(
    "ci",
    derandomize=True,
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "nightly", settings.get_profile("ci"), derandomize=False, max_examples=3000
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No setting, key or home of the person who runs the tests reaches them."""
    for name in os.environ:
        if name.upper().startswith(FOREIGN):
            monkeypatch.delenv(name)
    monkeypatch.setenv("UNSAY_HOME", str(tmp_path))
