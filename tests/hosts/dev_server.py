"""A running `langgraph dev` with the repository's `langgraph.json`, as fixtures."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from random import SystemRandom
from time import monotonic, sleep

import httpx
import pytest
from llmock.testing import LLMockServer

ROOT = Path(__file__).parents[2]
START_SECONDS = 90.0


@pytest.fixture(scope="module")
def server_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the server writes."""
    return tmp_path_factory.mktemp("langgraph") / "server.log"


@pytest.fixture(scope="module")
def server_config(server_log: Path) -> Path:
    """The repository's langgraph.json, for a server elsewhere that leaves no files behind.

    LANGGRAPH_DISABLE_FILE_PERSISTENCE would do nothing: the command sets it
    from `disable_persistence`. Source: `langgraph_api.cli.run_server`.
    """
    config = json.loads((ROOT / "langgraph.json").read_text())
    config["dependencies"] = [str(ROOT / path) for path in config["dependencies"]]
    config["graphs"] = {name: str(ROOT / path) for name, path in config["graphs"].items()}
    config["http"] = {"app": str(ROOT / config["http"]["app"])}
    config["disable_persistence"] = True
    path = server_log.with_name("langgraph.json")
    path.write_text(json.dumps(config))
    return path


@pytest.fixture(scope="module")
def server_settings() -> dict[str, str]:
    """Settings of unsay in the server's environment; a test file may replace them."""
    return {}


@pytest.fixture(scope="module")
def server_url(
    llmock_server: LLMockServer,
    server_log: Path,
    server_config: Path,
    server_settings: dict[str, str],
) -> Iterator[str]:
    """A running `langgraph dev`."""
    with dev_server(llmock_server, server_config, server_log, **server_settings) as url:
        yield url


@contextmanager
def dev_server(
    llmock_server: LLMockServer, config: Path, log: Path, **settings: str
) -> Iterator[str]:
    """The address of a `langgraph dev` with this configuration and these variables."""
    port = free_port()
    command = [
        str(Path(sys.executable).with_name("langgraph")),
        *("dev", "--no-browser", "--no-reload", "--config", str(config)),
        *("--host", "127.0.0.1", "--port", str(port)),
    ]
    environment = server_environment(llmock_server, LANGGRAPH_CLI_NO_ANALYTICS="1", **settings)
    url = f"http://127.0.0.1:{port}"
    with running(command, environment, log, ready=f"{url}/ok"):
        yield url


def free_port() -> int:
    """A port that no program uses, below those that systems give to connections by themselves."""
    while True:
        port = SystemRandom().randrange(20_000, 32_000)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


def server_environment(llmock_server: LLMockServer, **variables: str) -> dict[str, str]:
    """The environment of a server whose models are those of `llmock_server`."""
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("UNSAY_")},
        "LANGSMITH_TRACING": "false",
        "OPENAI_BASE_URL": llmock_server.base_url(),
        "OPENAI_API_KEY": "test-key",
        "UNSAY_MODEL": "answerer",
        "UNSAY_JUDGE_MODEL": "judge",
        "NO_PROXY": "127.0.0.1",
        **variables,
    }


@contextmanager
def running(
    command: Sequence[str], environment: Mapping[str, str], log: Path, *, ready: str
) -> Iterator[None]:
    """Run a server in the folder of its log, from its first answer at `ready` to the end."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=log.parent, env=environment, stdout=output, stderr=subprocess.STDOUT
        )
        try:
            wait_until_ready(ready, process, log)
            yield
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def wait_until_ready(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait for a server to answer there; its log says why it does not."""
    deadline = monotonic() + START_SECONDS
    while monotonic() < deadline and process.poll() is None:
        try:
            if httpx.get(url, timeout=2).status_code == httpx.codes.OK:
                return
        except httpx.TransportError:
            sleep(0.2)
    pytest.fail(f"the server did not start:\n{log.read_text(errors='replace')}")
