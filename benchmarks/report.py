"""What the benchmarks share: figures, their means over files, and the command line."""

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measured value."""

    value: float | None
    """`None` where there was nothing to measure."""

    items: int
    """How many labels, answers or conversations it rests on."""

    interval: tuple[float, float] | None = None
    """Within which the true value lies in 95 of 100 samples; `None` where that is not known."""


Figures = Mapping[str, Figure]


def share_of(hits: float, items: int) -> Figure:
    """Return a share with its Wilson interval. Source: Wilson 1927."""
    if not items:
        return Figure(value=None, items=0)
    share, z = hits / items, 1.96
    scale = 1 + z**2 / items
    middle = (share + z**2 / (2 * items)) / scale
    half = z * (share * (1 - share) / items + z**2 / (4 * items**2)) ** 0.5 / scale
    return Figure(
        value=share, items=items, interval=(max(middle - half, 0.0), min(middle + half, 1.0))
    )


def shown(figure: Figure) -> str:
    """Return a figure for people: its value, its interval and, in brackets, its items."""
    if figure.value is None:
        return "-"
    low_high = "" if figure.interval is None else "{:.3f}-{:.3f} ".format(*figure.interval)
    return f"{figure.value:.3f} {low_high}({figure.items})"


def overall(files: Iterable[Figures]) -> dict[str, Figure]:
    """The mean of each figure over the files that have it, and the sum of its items.

    Of a figure whose name begins with `worst`, the largest.
    """
    rows = list(files)
    return {name: _mean(rows, name) for name in dict.fromkeys(n for row in rows for n in row)}


def _mean(rows: Sequence[Figures], name: str) -> Figure:
    having = [row[name] for row in rows if name in row]
    known = [figure.value for figure in having if figure.value is not None]
    value = max(known, default=None) if name.startswith("worst") else _average(known)
    return Figure(
        value=value,
        items=sum(figure.items for figure in having),
    )


def _average(known: Sequence[float]) -> float | None:
    return sum(known) / len(known) if known else None


def plain(figures: Figures) -> dict[str, Any]:
    """Figures as JSON values, rounded."""
    return {
        name: {
            "value": None if figure.value is None else round(figure.value, 4),
            "items": figure.items,
            **(
                {}
                if figure.interval is None
                else {"interval": [round(bound, 4) for bound in figure.interval]}
            ),
        }
        for name, figure in figures.items()
    }


def run(
    measure: Callable[[Path], Figures],
    table: Callable[[Mapping[str, Figures]], str],
    *,
    description: str,
    wanted: str,
    arguments: Sequence[str] | None,
) -> int:
    """Measure the files that the command line names and print; give the exit status.

    Args:
        measure: Gives a file's figures.
        table: Gives them all as a table for people.
        description: For `--help`.
        wanted: What to say when no file is named.
        arguments: As on the command line; `None` takes the process's own.
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(arguments)
    if not options.files:
        print(f"{wanted}; see --help.", file=sys.stderr)
        return 2
    try:
        files = {str(path): measure(path) for path in options.files}
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    total = overall(files.values())
    if options.json:
        by_file = {name: plain(figures) for name, figures in files.items()}
        print(json.dumps({**plain(total), "files": by_file}, ensure_ascii=False))
    else:
        print(table({**files, "overall": total}))
    return 0
