import re
import runpy
import subprocess
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from unsay import Conversation
from unsay.storage.base import Database

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    [ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")],
    key=lambda page: page.name,
)
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(language: str) -> list:
    """Every block of a language in the documentation, with its location."""
    return [
        pytest.param(body, id=f"{page.name}-{number}")
        for page in PAGES
        for number, (kind, body) in enumerate(BLOCK.findall(page.read_text(encoding="utf-8")), 1)
        if kind == language
    ]


@pytest.mark.parametrize("code", blocks("python"))
def test_python_examples_print_what_they_say(code: str) -> None:
    """Each example runs, and prints the text after `#>`."""
    printed = StringIO()
    names: dict[str, Any] = {"__name__": "example"}

    with redirect_stdout(printed):
        exec(compile(code, "example", "exec"), names)  # noqa: S102 - our own text
    # Python 3.13 warns of databases that are dropped open, and the examples are kept short.
    for value in names.values():
        if isinstance(value, Conversation | Database):
            value.close()

    expected = [line.strip()[3:] for line in code.splitlines() if line.strip().startswith("#> ")]
    assert expected
    assert expected == printed.getvalue().splitlines()


@pytest.mark.parametrize("code", blocks("sh"))
def test_shell_examples_name_commands_that_exist(code: str) -> None:
    """Each `unsay` command in a shell example exists."""
    commands = set(re.findall(r"\bunsay ([a-z]+)", code))
    shown = subprocess.run(
        [sys.executable, "-m", "unsay", "--help"], capture_output=True, text=True, check=True
    ).stdout

    assert commands <= set(re.findall(r"^  ([a-z]+) ", shown, re.MULTILINE))


def test_the_picture_of_the_layers_is_fresh() -> None:
    """`docs/layers.svg` is what the import contract and the packages' docstrings give now."""
    draw = runpy.run_path(str(ROOT / "docs" / "draw_layers.py"))["draw"]

    assert draw() == (ROOT / "docs" / "layers.svg").read_text(encoding="utf-8"), (
        "run python docs/draw_layers.py"
    )


def test_the_readme_is_short_and_its_links_lead_somewhere() -> None:
    """Under 150 lines, and every relative link names a file."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#]+)\)", text)

    assert len(text.splitlines()) < 150
    assert [link for link in links if "://" not in link and not (ROOT / link).exists()] == []
