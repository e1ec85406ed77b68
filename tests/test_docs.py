import re
import runpy
import subprocess
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from tests.examples import EXAMPLES, PAGES, ROOT, Example, printed_by
from unsay import Conversation
from unsay.storage.base import Database


def examples(language: str, name: str = "") -> list[Any]:
    """Every block of a language with this word behind it, with its location."""
    return [
        pytest.param(example, id=example.place)
        for example in EXAMPLES
        if (example.language, example.name) == (language, name)
    ]


@pytest.mark.sample(every=4)
@pytest.mark.parametrize("example", examples("python"))
def test_python_examples_print_what_they_say(example: Example) -> None:
    """Each example runs, and prints the text after `#>`."""
    output = StringIO()
    names: dict[str, Any] = {"__name__": "example"}

    with redirect_stdout(output):
        exec(compile(example.code, "example", "exec"), names)  # noqa: S102 - our own text
    # Python 3.13 warns of databases that are dropped open, and the examples are kept short.
    for value in names.values():
        if isinstance(value, Conversation | Database):
            value.close()

    assert example.expected
    assert example.expected == [line.rstrip() for line in output.getvalue().splitlines()]


@pytest.mark.full
@pytest.mark.parametrize("example", examples("python", "full"))
def test_long_examples_print_what_they_say(example: Example, tmp_path: Path) -> None:
    """Each example that loads another framework runs as a script, and prints the text after `#>`."""
    assert example.expected
    assert example.expected == printed_by(example, tmp_path)


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("example", examples("sh"))
def test_shell_examples_name_commands_that_exist(example: Example) -> None:
    """Each `unsay` command in a shell example exists."""
    commands = set(re.findall(r"\bunsay ([a-z]+)", example.code))
    help_text = subprocess.run(
        [sys.executable, "-m", "unsay", "--help"], capture_output=True, text=True, check=True
    ).stdout

    assert commands <= set(re.findall(r"^  ([a-z]+) ", help_text, re.MULTILINE))


def test_the_table_of_stream_events_is_fresh() -> None:
    """`docs/observability.md` has what the code says of each event."""
    page = runpy.run_path(str(ROOT / "docs" / "generate_events.py"))["page"]

    assert page() == (ROOT / "docs" / "observability.md").read_text(encoding="utf-8"), (
        "run python docs/generate_events.py"
    )


def test_the_tables_of_methods_are_fresh() -> None:
    """`docs/api.md` has what the code says of each method."""
    page = runpy.run_path(str(ROOT / "docs" / "generate_methods.py"))["page"]

    assert page() == (ROOT / "docs" / "api.md").read_text(encoding="utf-8"), (
        "run python docs/generate_methods.py"
    )


def test_the_picture_of_the_layers_is_fresh() -> None:
    """`docs/layers.svg` is what the import contract and the packages' docstrings give now."""
    draw = runpy.run_path(str(ROOT / "docs" / "draw_layers.py"))["draw"]

    assert draw() == (ROOT / "docs" / "layers.svg").read_text(encoding="utf-8"), (
        "run python docs/draw_layers.py"
    )


def test_the_tables_of_settings_are_fresh() -> None:
    """`docs/settings.md` has what the code says of each setting."""
    page = runpy.run_path(str(ROOT / "docs" / "generate_settings.py"))["page"]

    assert page() == (ROOT / "docs" / "settings.md").read_text(encoding="utf-8"), (
        "run python docs/generate_settings.py"
    )


def test_the_readme_is_short() -> None:
    """Under 150 lines."""
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) < 150


def outline_of(page: str) -> list[tuple[str, str]]:
    """The headings by level and the code blocks of a page, in order; comments are left out.

    Lines of expected output (`#>`) are code here, because they are checked.
    """
    text = (ROOT / page).read_text(encoding="utf-8")
    sections = re.findall(r"^(#+) |^```(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [(level, re.sub(r"\s+#(?!>).*$", "", code, flags=re.M)) for level, code in sections]


def test_the_japanese_readme_has_the_same_sections_and_code() -> None:
    """Both READMEs have the same levels of headings and the same code, at the same places."""
    outline = outline_of("README.md")

    assert outline == outline_of("README.ja.md")
    assert 6 < len(outline)


def test_the_japanese_readme_has_the_same_links() -> None:
    """Whatever one README links to, the other one does too, except each other."""
    links = {
        page: set(re.findall(r"\]\(([^)\s]+)\)", (ROOT / page).read_text("utf-8")))
        for page in ("README.md", "README.ja.md")
    }

    assert {"README.ja.md"} == links["README.md"] - links["README.ja.md"]
    assert {"README.md"} == links["README.ja.md"] - links["README.md"]


def anchors_of(page: Path) -> set[str]:
    """The anchors that GitHub makes from the headings of a page."""
    prose = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    headings = re.findall(r"^#+ (.+)$", prose, re.MULTILINE)
    return {
        re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    """Every relative link names a file, and a heading of it where it names one."""
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        path, _, anchor = link.partition("#")
        if "://" in link:
            continue
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors_of(target), link
