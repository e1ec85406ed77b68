"""The examples of the documentation that talk to a server, each beside the real one."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from llmock.pytest_plugin import LLMock
from llmock.scenarios import Match, Reply
from llmock.testing import LLMockServer

from tests.examples import EXAMPLES, example_named, printed_by
from tests.hosts.dev_server import dev_server, free_port, running
from tests.http.replies import answers, grades

pytestmark = pytest.mark.full

DEV_SERVER = "http://127.0.0.1:2024"
WEB_SERVER = "http://127.0.0.1:8000"
MODEL_SERVER = "http://127.0.0.1:11434/v1"
POSTGRES = "postgresql://user:password@localhost:5432/unsay"
RUN_HERE = {
    *("fastapi-app", "fastapi-client", "ag-ui-app", "ag-ui-client", "mcp-server", "mcp-client"),
    *("dev-client", "dev-client-js", "studio-client", "provider", "postgres"),
    *("auth-app", "auth-client"),
}


def test_no_example_is_left_out() -> None:
    """Each name behind a block's language is one that the tests know."""
    assert RUN_HERE == {example.name for example in EXAMPLES} - {"", "full"}


@contextmanager
def serve_example(name: str, folder: Path) -> Iterator[str]:
    """The address at which uvicorn serves an example that is an app."""
    (folder / "app.py").write_text(example_named(name).code, encoding="utf-8")
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "uvicorn", "app:app", "--port", str(port)]
    with running(command, os.environ, folder / "server.log", ready=f"{url}/openapi.json"):
        yield url


@pytest.mark.parametrize("host", ["fastapi", "ag-ui"])
def test_an_app_and_its_client(host: str, tmp_path: Path) -> None:
    """Uvicorn serves the app, and its client prints what the page says."""
    client = example_named(f"{host}-client")
    with serve_example(f"{host}-app", tmp_path) as url:
        output = printed_by(client, tmp_path, replacements={WEB_SERVER: url})

    assert client.expected == output


def test_tools_of_an_mcp_server(tmp_path: Path) -> None:
    """The graph calls the tools of the server, which is a process of its own."""
    (tmp_path / "legs_server.py").write_text(example_named("mcp-server").code, encoding="utf-8")
    client = example_named("mcp-client")

    assert client.expected == printed_by(client, tmp_path)


@pytest.mark.parametrize("name", ["dev-client", "studio-client"])
def test_clients_of_langgraph_dev(
    name: str, server_url: str, llmock: LLMock, tmp_path: Path
) -> None:
    """The Python SDK talks to `langgraph dev`."""
    llmock.add(answers("Two days are enough."), grades(0.9))
    client = example_named(name)

    assert client.expected == printed_by(client, tmp_path, replacements={DEV_SERVER: server_url})


def test_two_users_of_langgraph_dev(
    server_config: Path, llmock_server: LLMockServer, llmock: LLMock, tmp_path: Path
) -> None:
    """With the documented `auth.py`, a user has no way into another one's thread."""
    llmock.add(answers("Two days are enough."), grades(0.9))
    (tmp_path / "auth.py").write_text(example_named("auth-app").code, encoding="utf-8")
    config = json.loads(server_config.read_text()) | {"auth": {"path": "./auth.py:auth"}}
    own_config = tmp_path / "langgraph.json"
    own_config.write_text(json.dumps(config), encoding="utf-8")
    client = example_named("auth-client")

    with dev_server(llmock_server, own_config, tmp_path / "server.log") as url:
        output = printed_by(client, tmp_path, replacements={DEV_SERVER: url})

    assert client.expected == output


@pytest.mark.skipif(not (shutil.which("node") and shutil.which("npm")), reason="needs node and npm")
@pytest.mark.parametrize("version", ["1.11", "2.0"])
def test_the_javascript_sdk(version: str, server_url: str, llmock: LLMock, tmp_path: Path) -> None:
    """The JavaScript SDK of either version talks to `langgraph dev`."""
    install = ["npm", "install", "--no-audit", "--no-fund", f"@langchain/langgraph-sdk@{version}"]
    installation = subprocess.run(
        install, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    if installation.returncode:
        pytest.skip(f"npm cannot install the SDK here: {installation.stderr[-300:]}")
    llmock.add(answers("Two days are enough."), grades(0.9))
    client = example_named("dev-client-js")
    output = printed_by(
        client, tmp_path, command=["node"], file="client.mjs", replacements={DEV_SERVER: server_url}
    )

    assert client.expected == output


def test_another_provider(llmock: LLMock, tmp_path: Path) -> None:
    """Model and judge are two models of a server that speaks the OpenAI protocol."""
    llmock.add(
        Reply(text="Two days are enough.", match=Match(model="llama3.2:3b")),
        Reply(text='{"score": 0.9, "reason": "It answers."}', match=Match(model="qwen3:8b")),
    )
    example = example_named("provider")
    replacements = {MODEL_SERVER: llmock.base_url()}

    assert example.expected == printed_by(example, tmp_path, replacements=replacements)


def test_postgres(url: str, tmp_path: Path) -> None:
    """The thread is read back from a real Postgres."""
    example = example_named("postgres")

    assert example.expected == printed_by(example, tmp_path, replacements={POSTGRES: url})
