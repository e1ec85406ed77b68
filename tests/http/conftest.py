"""Servers on loopback, and an environment in which only they can be reached."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.http.openai_server import OpenAIServer, Script
from tests.http.seed_conversation import CONVERSATIONS, SeedConversation


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No setting, key or proxy of the person who runs the tests reaches them."""
    for name in os.environ:
        if name.upper().startswith(("UNSAY_", "OPENAI_", "LANGSMITH_", "LANGCHAIN_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Script], OpenAIServer]]:
    """Starts a scripted server that the environment points to."""
    running: list[OpenAIServer] = []

    def start(script: Script) -> OpenAIServer:
        running.append(OpenAIServer(script).__enter__())
        monkeypatch.setenv("OPENAI_BASE_URL", running[-1].base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "test-key")
        return running[-1]

    yield start
    for server in running:
        server.__exit__()


@pytest.fixture(params=CONVERSATIONS, ids=lambda seed: seed.language)
def seed_conversation(request: pytest.FixtureRequest) -> SeedConversation:
    """The seed article's conversation, in each language."""
    seed: SeedConversation = request.param
    return seed
