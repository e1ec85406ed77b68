"""Charts of the notebook `05_strategies`: one panel for each strategy, all to the same scale."""

from collections.abc import Mapping, Sequence
from html import escape

from IPython.display import SVG

WIDTH, GAP, LEFT, TOP = 300, 44, 8, 64  # of a panel, in pixels
COLUMNS = 3
FRESH, CACHED, KEPT, LOST, INK, FAINT = (
    "#b3261e",
    "#8fb8de",
    "#0b5cad",
    "#e4e8ec",
    "#1b1f24",
    "#57606a",
)


def tokens_chart(
    tokens: Mapping[str, Sequence[int]], cached: Mapping[str, Sequence[int]], window: int
) -> SVG:
    """Draw the tokens of each turn's request; the part that a cache can serve is pale.

    A dashed line is the window of the model, in tokens. The share of the cache is that of all turns.
    """
    height = 120
    most = max(max(each) for each in tokens.values())
    panels = []
    for name, counts in tokens.items():
        bar = WIDTH / len(counts)
        marks = [_line(0, height - height * window / most, WIDTH)]
        for turn, (count, served) in enumerate(zip(counts, cached[name], strict=True)):
            parts = ((served, 0, CACHED), (count - served, served, FRESH))
            for size, below, color in parts:
                tall = height * size / most
                marks.append(
                    _box(turn * bar, height * (1 - below / most) - tall, bar * 0.8, tall, color)
                )
        share = sum(cached[name]) / sum(counts)
        caption = f"{name}: at most {max(counts):,} tokens, {share:.0%} cached"
        panels.append(("".join(marks), caption))
    legend: list[tuple[str | None, str]] = [
        (FRESH, "tokens of full price"),
        (CACHED, "tokens from the cache"),
        (None, f"the window of {window:,} tokens"),
    ]
    turns = max(map(len, tokens.values()))
    return _chart("Tokens of each turn's request", legend, panels, height, turns)


def facts_chart(kept: Mapping[str, Sequence[Sequence[bool]]], planted: Sequence[int]) -> SVG:
    """Draw one row for each fact and one column for each turn, dark where the model was sent it.

    `kept` has for each strategy and turn whether each fact was sent; `planted` has the turn of each
    fact, from 0. Before that turn the row is empty.
    """
    row = 13
    height = row * len(planted)
    panels = []
    for name, turns in kept.items():
        bar = WIDTH / len(turns)
        marks = [
            _box(turn * bar, fact * row, bar * 0.9, row - 3, KEPT if sent else LOST)
            for turn, facts in enumerate(turns)
            for fact, sent in enumerate(facts)
            if turn >= planted[fact]
        ]
        panels.append(("".join(marks), f"{name}: {sum(turns[-1])} of {len(planted)} at the end"))
    legend: list[tuple[str | None, str]] = [
        (KEPT, "the fact is in the context"),
        (LOST, "the fact is missing"),
    ]
    most = max(map(len, kept.values()))
    return _chart("Facts in each turn's context", legend, panels, height, most)


def _chart(
    title: str,
    legend: Sequence[tuple[str | None, str]],
    panels: Sequence[tuple[str, str]],
    height: int,
    turns: int,
) -> SVG:
    """Lay out drawn panels with their captions below a title and a legend.

    An entry of the legend without a color is the dashed line.
    """
    parts = [_text(LEFT, 20, title, INK, size=15)]
    for number, (color, words) in enumerate(legend):
        x = LEFT + number * 210
        sample = _box(x, 32, 10, 10, color) if color else _line(x - 10, 37, 20)
        parts += [sample, _text(x + 15, 41, words, FAINT)]
    for number, (drawn, caption) in enumerate(panels):
        across, down = number % COLUMNS, number // COLUMNS
        x, y = LEFT + across * (WIDTH + GAP), TOP + down * (height + 50)
        parts.append(f'<g transform="translate({x},{y + 16})">{drawn}</g>')
        parts.append(_text(x, y + 8, caption, INK))
        parts.append(_text(x, y + height + 28, "turn 1", FAINT, size=10))
        parts.append(_text(x + WIDTH - 36, y + height + 28, f"turn {turns}", FAINT, size=10))
    rows = -(-len(panels) // COLUMNS)
    size = f'width="{LEFT + COLUMNS * (WIDTH + GAP)}" height="{TOP + rows * (height + 50)}"'
    drawing = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif">'
    return SVG(f'{drawing}<rect width="100%" height="100%" fill="white"/>{"".join(parts)}</svg>')


def _box(x: float, y: float, width: float, height: float, color: str) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
    return f'<rect {place} fill="{color}"/>'


def _line(x: float, y: float, width: float) -> str:
    return f'<path d="M{x:.1f} {y:.1f}h{width}" stroke="{FAINT}" stroke-dasharray="4 3"/>'


def _text(x: float, y: float, words: str, color: str, *, size: int = 12) -> str:
    return f'<text x="{x}" y="{y}" fill="{color}" font-size="{size}">{escape(words)}</text>'
