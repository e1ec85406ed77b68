"""Draw the pictures of `docs/howto.md`: `python docs/draw_pictures.py`.

`docs/chat.svg` is the screen of `unsay chat` and `docs/timeline.svg` the timeline of the same
conversation. Both come from a real run; only the models are scripted.
"""

import os
import re
import sys
from collections.abc import Iterable
from html import escape
from io import StringIO
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

from unsay.cli.main import cli
from unsay.conversation.conversation import Conversation
from unsay.models.factory import ModelLike
from unsay.results.svg import picture_svg
from unsay.settings.settings import Settings
from unsay.testing import ScriptedChat, ScriptedJudge

FOLDER = Path(__file__).parent
THREAD = "kyoto"

LINES = (
    "How many days do I need in Kyoto?",
    "Which part of Kyoto should I stay in?",
    "/checkpoint hotel",
    "Should I rent a car in Kyoto?",
    "/rollback hotel",
    "How do I get from Kyoto to Nara?",
)
ANSWERS: dict[str, str | list[str]] = {
    "How many days": "Two days are enough for the main temples of Kyoto.",
    "Which part": [
        "Kyoto is a city in Japan.",
        "Stay near Kyoto Station: every bus and train of your trip starts there.",
    ],
    "rent a car": "Yes, you can rent a car at Kyoto Station.",
    "to Nara": "Take the express train; it needs 45 minutes from Kyoto Station.",
}
SCORES: dict[str, float | dict[str, object]] = {
    "temples": 0.85,
    "city in Japan": {"score": 0.2, "reason": "It does not name a part of the city."},
    "rent a car": 0.6,
    "express": 0.95,
}

COLUMNS, ROW, MARGIN, LETTER = 84, 19, 24, 7.85
STYLES = {"2": "dim", "9": "struck"}
"""Classes of the picture by the terminal codes that `unsay chat` prints."""

STYLE = """
    text { font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; fill: #1f2328 }
    .dim { fill: #57606a }
    .struck { text-decoration: line-through }
    .typed { fill: #0b5cad; font-weight: 600 }
"""

_CODE = re.compile(r"\x1b\[([\d;]*)([A-Za-z])|(.)", re.DOTALL)


class Terminal(StringIO):
    """A terminal that keeps what is printed."""

    def isatty(self) -> bool:
        """Make `unsay chat` write as it does for a person."""
        return True


class Keyboard(Terminal):
    """Standard input whose lines appear on the terminal when they are read."""

    def __init__(self, lines: Iterable[str], screen: Terminal) -> None:
        super().__init__("".join(f"{line}\n" for line in lines))
        self._screen = screen

    def readline(self, size: int | None = -1, /) -> str:
        """Return the next line and echo it in the style `typed`."""
        line = super().readline(-1 if size is None else size)
        self._screen.write(f"\x1b[1m{line.rstrip()}\x1b[0m\n" if line else "")
        return line


def record(path: Path) -> str:
    """Return everything that `unsay chat` prints while the lines are typed."""
    screen = Terminal()
    models = {"answerer": ScriptedChat(replies=ANSWERS), "judge": ScriptedJudge(scores=SCORES)}

    def resolve(model: ModelLike, settings: Settings) -> object:
        del settings
        return models[model] if isinstance(model, str) else model

    environment = {
        "UNSAY_MODEL": "answerer",
        "UNSAY_JUDGE_MODEL": "judge",
        "UNSAY_LANGUAGE": "en",
        "COLUMNS": str(COLUMNS),
        "LINES": "60",
        "TERM": "xterm",
    }
    # prompt_toolkit needs a real terminal; without it the chat reads plain lines. The seconds of
    # the spinner would be others each time.
    with (
        patch.dict(os.environ, environment),
        patch("unsay.runtime.resolve_model", resolve),
        patch("unsay.cli.chat.is_rich", lambda: False),
        patch("unsay.cli.keyboard.is_rich", lambda: False),
        patch("unsay.cli.prompt._more_waits", lambda: False),
        patch("unsay.cli.screen.Spinner.tick", lambda _: None),
        patch.multiple(sys, stdin=Keyboard(LINES, screen), stdout=screen, stderr=screen),
    ):
        cli(["chat", "--thread", THREAD, "--db", str(path)], standalone_mode=False)
    return screen.getvalue()


def screen_rows(printed: str) -> list[list[tuple[str, str]]]:
    """Return the rows that a terminal shows, each as characters with their styles."""
    rows: list[list[tuple[str, str]]] = [[]]
    row, style = 0, ""
    for code, kind, char in _CODE.findall(printed):
        if kind == "m":
            names = [STYLES.get(each, "") for each in code.split(";")]
            style = "typed" if code == "1" else " ".join(filter(None, [style, *names]))
            style = "" if code in ("", "0") else style
        elif kind == "A":
            row -= int(code or 1)
        elif kind == "J":
            del rows[row:]
            rows.append([])
        elif char == "\n":
            row += 1
            rows += [[]] if row == len(rows) else []
        elif char == "\r":  # what is written next covers the line
            rows[row].clear()
        elif char:
            rows[row].append((char, style))
    return rows


def chat_svg(printed: str) -> str:
    """Draw the screen."""
    rows = screen_rows(printed.strip("\n"))
    width, height = 2 * MARGIN + COLUMNS * LETTER, 2 * MARGIN + ROW * len(rows)
    lines = []
    for number, row in enumerate(rows):
        spans, column = "", 0
        for style, letters in groupby(row, key=lambda letter: letter[1]):
            words = "".join(letter for letter, _ in letters)
            # Blanks at the edge of a span are dropped by some programs, so each span has its place.
            x = MARGIN + (column + len(words) - len(words.lstrip())) * LETTER
            spans += f'<tspan x="{x:g}" class="{style}">{escape(words.strip())}</tspan>'
            column += len(words)
        lines.append(f'<text y="{MARGIN + 13 + ROW * number}">{spans}</text>')
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
            f'width="{width:g}" height="{height:g}" role="img">',
            f"<title>A rollback in unsay chat</title>\n<style>{STYLE}</style>",
            '<rect width="100%" height="100%" rx="8" fill="#f6f8fa" stroke="#d0d7de"/>',
            *lines,
            "</svg>\n",
        ]
    )


def draw() -> dict[str, str]:
    """Return the pictures as SVG text by the name of their file."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "kyoto.db"
        printed = record(path)
        with Conversation.open(path, thread=THREAD) as conversation:
            timeline = conversation.timeline()
    return {"chat.svg": chat_svg(printed), "timeline.svg": picture_svg(timeline) + "\n"}


if __name__ == "__main__":
    for name, picture in draw().items():
        (FOLDER / name).write_text(picture, encoding="utf-8")
