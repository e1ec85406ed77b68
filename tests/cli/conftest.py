"""A clean environment for every test, and a server that speaks a provider's protocol."""

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.http.openai_server import Asked, OpenAIServer
from unsay.cli.main import cli

Run = Callable[..., Result]
Serve = Callable[..., OpenAIServer]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Unsay's folder, not there yet, in an environment that names no model."""
    for name in os.environ:
        if name.upper().startswith(("UNSAY_", "OPENAI_", "LANGSMITH_", "LANGCHAIN_")):
            monkeypatch.delenv(name)
    for name in ("COLUMNS", "LINES", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("UNSAY_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


@pytest.fixture
def run() -> Run:
    """Runs a command line in this process; no error that it prints may name a Python call."""

    def invoke(*args: str, **options: Any) -> Result:
        result = CliRunner().invoke(cli, args, **options)
        errors = [line for line in result.stderr.splitlines() if line.startswith("unsay: ")]
        assert [] == [line for line in errors if re.search(r"\b[a-z_]+\((?:\)|…)", line)]
        return result

    return invoke


def run_json(run: Run, *command: str) -> dict[str, Any]:
    """What a program gets."""
    result = run(*command, "--json")
    assert 0 == result.exit_code
    answer: dict[str, Any] = json.loads(result.stdout)
    assert 2 == answer["schema_version"]
    return answer


@pytest.fixture
def asks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A person is asked about the first draft that fails."""
    monkeypatch.setenv("UNSAY_ON_EXHAUSTED", "ask")
    monkeypatch.setenv("UNSAY_MAX_ROLLBACKS", "0")


@pytest.fixture
def serve(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """Starts a server whose `answerer` and `judge` the environment names."""
    del home
    running: list[OpenAIServer] = []

    def start(
        answers: Mapping[str, str | list[str]], scores: Mapping[str, float] | None = None
    ) -> OpenAIServer:
        running.append(OpenAIServer(_script(answers, scores or {})).__enter__())
        monkeypatch.setenv("OPENAI_BASE_URL", running[-1].base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "test-key")
        monkeypatch.setenv("UNSAY_MODEL", "answerer")
        monkeypatch.setenv("UNSAY_JUDGE_MODEL", "judge")
        return running[-1]

    yield start
    for server in running:
        server.__exit__()


def _script(
    answers: Mapping[str, str | list[str]], scores: Mapping[str, float]
) -> Callable[[Asked], str]:
    """Answers by a part of the question and the attempt; scores by a part of the answer."""

    def reply(request: Asked) -> str:
        if request.model == "judge":
            score = next(
                (score for fragment, score in scores.items() if fragment in request.question), 0.9
            )
            return json.dumps({"score": score, "reason": f"It is worth {score}."})
        drafts = next(
            answer for fragment, answer in answers.items() if fragment in request.question
        )
        attempt = max([1, *map(int, re.findall(r"^Attempt (\d+)", request.hints, re.MULTILINE))])
        return drafts if isinstance(drafts, str) else drafts[attempt - 1]

    return reply
