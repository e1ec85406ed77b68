import json
import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from tests.graph.kit import Numbered, config, make, say, scores
from tests.reading import said
from unsay.messages.annotations import annotation_of, spoken
from unsay.storage.sqlite import open_database

ROOT = Path(__file__).parents[2]
FAMILY = re.compile(r"(langgraph[a-z-]*)>=([0-9.]+)(,<[0-9.]+)")


def required_packages() -> list[tuple[str, str, str]]:
    """LangGraph's packages that unsay needs: the name, the lowest version, and the end of the range."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    matches = [FAMILY.fullmatch(requirement) for requirement in project["dependencies"]]
    return [(match[1], match[2], match[3]) for match in matches if match]


@pytest.fixture(scope="module")
def install_packages(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A function that installs the lowest or the newest LangGraph, and returns an environment with it."""

    def install(bound: str) -> dict[str, str]:
        folder = tmp_path_factory.mktemp(bound)
        requirements = [
            f"{name}=={low}" if bound == "lowest" else f"{name}>={low}{end}"
            for name, low, end in required_packages()
        ]
        # Without dependencies: all others are those of this environment.
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target"]
        subprocess.run([*command, str(folder), *requirements], check=True, timeout=150)
        return {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)])}

    return install


@pytest.fixture(scope="module")
def lowest(install_packages: Any) -> dict[str, str]:
    """An environment with the lowest allowed LangGraph."""
    environment: dict[str, str] = install_packages("lowest")
    return environment


def run(environment: dict[str, str], *arguments: str) -> str:
    """What a module prints in an environment; it must succeed."""
    command = [sys.executable, "-m", *arguments]
    process = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=600
    )
    assert 0 == process.returncode, process.stdout[-4_000:] + process.stderr[-4_000:]
    return process.stdout


def test_the_lowest_version_of_each_package_is_known() -> None:
    """The test below installs what `pyproject.toml` allows."""
    assert ["langgraph", "langgraph-checkpoint", "langgraph-checkpoint-sqlite"] == [
        name for name, _, _ in required_packages()
    ]


@pytest.mark.full
def test_a_file_of_the_lowest_version_opens_with_this_one(
    lowest: dict[str, str], tmp_path: Path
) -> None:
    """The transcript, its verdicts and its branches are there, and the conversation goes on."""
    path = tmp_path / "t.db"
    child = "tests.hosts.version_child"
    lines = json.loads(run(lowest, child, str(path), "write"))
    assert lines[0] == {name: low for name, low, _ in required_packages()}["langgraph"]
    assert lines[0] != version("langgraph")

    database = open_database(path)
    graph = make(Numbered(), scores(), checkpointer=database.saver, store=database.store)
    messages = graph.get_state(config()).values["messages"]

    assert lines[1:] == [said(messages), [annotation_of(m).get("score") for m in messages]]
    before = said(spoken(messages))
    after = said(spoken(say(graph, "and now?", "/rollback here")["messages"]))
    assert before == after[-len(before) :]
    database.close()
    assert json.loads(run({**os.environ, "PYTHONPATH": str(ROOT)}, child, str(path), "read"))


@pytest.mark.full
def test_some_hosts_tests_pass_on_the_lowest_version(lowest: dict[str, str]) -> None:
    """Those that are fast; the nightly test below runs all."""
    run(
        lowest,
        "pytest",
        "-q",
        "-n",
        "2",
        "tests/hosts/test_forgery.py",
        "tests/hosts/test_time_travel.py",
    )


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("bound", ["lowest", "newest"])
def test_all_hosts_tests_pass(install_packages: Any, bound: str) -> None:
    """Also with servers and killed processes, on the lowest and on the newest allowed version."""
    selection = ["-m", "not nightly", "--deselect", "tests/hosts/test_versions.py", "tests/hosts"]
    run(install_packages(bound), "pytest", "-q", "-n", "2", *selection)
