"""Draw `docs/layers.svg` from the import contract: `python docs/draw_layers.py`.

The rows are the layers that import-linter checks, the words the first lines of the packages' own
docstrings, so that the picture cannot say anything else than the code. A test keeps it fresh.
"""

import ast
import textwrap
import tomllib
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "layers.svg"

WIDTH, MARGIN, GAP, LINE = 960, 24, 6, 15
NAME_WIDTH = 120
LETTER_WIDTH = 6.4
"""Average width of a character at 12 px, with room to spare for wide fonts."""

STYLE = """
    text { font: 12px system-ui, sans-serif; fill: #1f2328 }
    .name { font-weight: 600; font-size: 13px }
    .note { fill: #57606a }
    rect { fill: #ffffff; stroke: #8c959f }
    .pure { fill: #ddf4e4; stroke: #2da44e }
    .back { fill: #f6f8fa; stroke: none }
"""


def layers() -> list[list[str]]:
    """Return the rows of the import contract, the highest first."""
    for contract in contracts():
        if contract["type"] == "layers":
            rows = [row.replace(" ", "").split("|") for row in contract["layers"]]
            return [row for row in rows if row != ["__main__"]]
    raise LookupError("pyproject.toml has no contract of type 'layers'")


def pure() -> set[str]:
    """Return the names of what is free of LangGraph, SQL, clocks and awaiting."""
    for contract in contracts():
        if contract["type"] == "forbidden":
            return {name.removeprefix("unsay.") for name in contract["source_modules"]}
    raise LookupError("pyproject.toml has no contract of type 'forbidden'")


def contracts() -> list[dict[str, object]]:
    """Return import-linter's contracts."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    found: list[dict[str, object]] = tomllib.loads(text)["tool"]["importlinter"]["contracts"]
    return found


def sentence(name: str) -> str:
    """Return the first line of a package's or module's docstring."""
    package = ROOT / "unsay" / name
    source = package / "__init__.py" if package.is_dir() else package.with_suffix(".py")
    words = ast.get_docstring(ast.parse(source.read_text(encoding="utf-8"))) or ""
    return words.partition("\n")[0]


def box(name: str, left: float, top: float, width: float, height: float, kind: str) -> list[str]:
    """Draw one package: its name, with its content to the right or, in a narrow box, below it."""
    if width > WIDTH / 2:
        shift = NAME_WIDTH, 0
        wrapped = [sentence(name)]
    else:
        shift = 0, LINE
        wrapped = textwrap.wrap(sentence(name), int((width - 16) / LETTER_WIDTH))
    return [
        f'<rect class="{kind}" x="{left:g}" y="{top:g}" width="{width:g}" height="{height:g}" rx="6"/>',
        f'<text class="name" x="{left + 8:g}" y="{top + 19:g}">{escape(name)}</text>',
        *(
            f'<text x="{left + 8 + shift[0]:g}" y="{top + 19 + shift[1] + LINE * number:g}">'
            f"{escape(line)}</text>"
            for number, line in enumerate(wrapped)
        ),
    ]


def draw() -> str:
    """Return the picture as SVG text."""
    shapes: list[str] = []
    top = 56.0
    for row in layers():
        width = (WIDTH - 2 * MARGIN - GAP * (len(row) - 1)) / len(row)
        columns = int((width - 16) / LETTER_WIDTH)
        lines = max(len(textwrap.wrap(sentence(name), columns)) for name in row)
        height = 28 + LINE * (lines if len(row) > 1 else 0)
        for number, name in enumerate(row):
            kind = "pure" if name in pure() else "plain"
            shapes += box(name, MARGIN + number * (width + GAP), top, width, height, kind)
        top += height + GAP
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top + 16:g}">',
            f"<title>The layers of unsay</title>\n<style>{STYLE}</style>",
            f'<rect class="back" width="{WIDTH}" height="{top + 16:g}"/>',
            f'<text class="name" x="{MARGIN}" y="26">The layers of unsay</text>',
            f'<text class="note" x="{MARGIN}" y="44">Each row imports only rows below it. '
            "Green: pure, without LangGraph, SQL, HTTP, clock or awaiting.</text>",
            *shapes,
            "</svg>\n",
        ]
    )


if __name__ == "__main__":
    PICTURE.write_text(draw(), encoding="utf-8")
