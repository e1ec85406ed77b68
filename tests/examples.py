"""The examples of the documentation, and how one of them is run as a reader runs it.

The word behind a block's language says how it is run: without one in the process of the tests,
`full` as a script, and any other name beside the server of that name in `tests/hosts/test_documented_examples.py`.
"""

import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")],
    key=lambda page: page.name,
)
BLOCK = re.compile(r"^```(\w+)(?: ([\w-]+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One block of a page."""

    place: str
    language: str
    name: str
    code: str

    @property
    def expected(self) -> list[str]:
        """The lines that it prints, as it says in its comments."""
        return re.findall(r"^\s*(?:#|//)> (.*?)\s*$", self.code, re.MULTILINE)


EXAMPLES = [
    Example(place=f"{page.name}-{number}", language=language, name=name, code=code)
    for page in PAGES
    for number, (language, name, code) in enumerate(BLOCK.findall(page.read_text("utf-8")), 1)
]


def example_named(name: str) -> Example:
    """The only example of a name."""
    (example,) = [example for example in EXAMPLES if example.name == name]
    return example


def printed_by(
    example: Example,
    folder: Path,
    *,
    command: Sequence[str] = (sys.executable,),
    file: str = "example.py",
    replacements: Mapping[str, str] | None = None,
) -> list[str]:
    """Run an example as a file in a folder; the lines that it prints.

    `replacements` puts the addresses of a test's servers in the place of those that a reader has.
    """
    code = example.code
    for old, new in (replacements or {}).items():
        assert old in code
        code = code.replace(old, new)
    (folder / file).write_text(code, encoding="utf-8")
    process = subprocess.run(
        [*command, file], cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )
    assert process.returncode == 0, process.stderr
    return process.stdout.splitlines()
