"""What the benchmarks share: figures, their means over files, and the command line."""

import argparse
import importlib
import json
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from langchain_core.embeddings import Embeddings

T = TypeVar("T")

SAMPLES = 200  # drawn for an interval

Hit = tuple[str, bool]
"""Whether one answer counts, after the id of its conversation."""


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


def share_of(hits: float, items: float) -> Figure:
    """Return a share with its Wilson interval. Source: Wilson 1927."""
    if not items:
        return Figure(value=None, items=0)
    share, z = hits / items, 1.96
    scale = 1 + z**2 / items
    middle = (share + z**2 / (2 * items)) / scale
    half = z * (share * (1 - share) / items + z**2 / (4 * items**2)) ** 0.5 / scale
    return Figure(
        value=share, items=int(items), interval=(max(middle - half, 0.0), min(middle + half, 1.0))
    )


def share_in(hits: Sequence[Hit]) -> Figure:
    """Return the share of hits, with a Wilson interval as wide as their conversations ask for.

    Answers of one conversation resemble each other, so fewer of them count than there are: as many
    as would vary by chance as much as the conversations do, and if nothing varies one for each
    conversation. Source: Kish 1965, the design effect.
    """
    groups: dict[str, list[bool]] = {}
    for group, hit in hits:
        groups.setdefault(group, []).append(hit)
    items, number = len(hits), len(groups)
    if not items:
        return Figure(value=None, items=0)
    share = sum(hit for _, hit in hits) / items
    spread = sum((sum(group) - share * len(group)) ** 2 for group in groups.values())
    counted = float(number)
    if spread and number > 1:
        variance = number / (number - 1) * spread / items**2
        counted = min(max(share * (1 - share) / variance, counted), items)
    return replace(share_of(share * counted, counted), value=share, items=items)


def resampled(
    groups: Sequence[T], value: Callable[[Sequence[T]], float | None]
) -> tuple[float, float] | None:
    """Return the middle 95 % of a value over samples of the groups, drawn with replacement.

    A group is what was measured in one conversation. It is `None` of fewer than two groups.
    """
    if len(groups) < 2:
        return None
    chance = random.Random(1)
    samples = (value(chance.choices(groups, k=len(groups))) for _ in range(SAMPLES))
    found = sorted(sample for sample in samples if sample is not None)
    return (found[len(found) // 40], found[-1 - len(found) // 40]) if found else None


def mean_of(kinds: Sequence[Sequence[Hit]]) -> Figure:
    """Return the mean of the shares of hits of several kinds, with its interval by conversation."""
    groups: dict[str, list[tuple[int, bool]]] = {}
    for kind, hits in enumerate(kinds):
        for group, hit in hits:
            groups.setdefault(group, []).append((kind, hit))
    found = list(groups.values())
    return Figure(
        value=_mean_share(found), items=sum(map(len, found)), interval=resampled(found, _mean_share)
    )


def _mean_share(groups: Sequence[Sequence[tuple[int, bool]]]) -> float | None:
    items: Counter[int] = Counter()
    hits: Counter[int] = Counter()
    for group in groups:
        for kind, hit in group:
            items[kind] += 1
            hits[kind] += hit
    return _average([hits[kind] / items[kind] for kind in items])


def shown(figure: Figure) -> str:
    """Return a figure for people: its value, its interval and, in brackets, its items."""
    if figure.value is None:
        return "-"
    low_high = "" if figure.interval is None else "{:.3f}-{:.3f} ".format(*figure.interval)
    return f"{figure.value:.3f} {low_high}({figure.items})"


def overall(files: Iterable[Figures]) -> dict[str, Figure]:
    """The mean of each figure over the files that have it with its interval, and the sum of its items.

    Of a figure whose name begins with `worst`, the largest, without an interval.
    """
    rows = list(files)
    return {name: _mean(rows, name) for name in dict.fromkeys(n for row in rows for n in row)}


def _mean(rows: Sequence[Figures], name: str) -> Figure:
    having = [row[name] for row in rows if name in row]
    known = [figure.value for figure in having if figure.value is not None]
    items = sum(figure.items for figure in having)
    if name.startswith("worst"):
        return Figure(value=max(known, default=None), items=items)
    mean = _average(known)
    bounds = [(f.value, *f.interval) for f in having if f.value is not None and f.interval]
    if mean is None or len(bounds) < len(known):
        return Figure(value=mean, items=items)
    # The files are independent, so their distances add up as squares.
    below = sum((value - low) ** 2 for value, low, _ in bounds) ** 0.5 / len(known)
    above = sum((high - value) ** 2 for value, _, high in bounds) ** 0.5 / len(known)
    return Figure(value=mean, items=items, interval=(mean - below, mean + above))


def _average(known: Sequence[float]) -> float | None:
    return sum(known) / len(known) if known else None


def loaded(name: str) -> Embeddings:
    """Give the embeddings that `MODULE:NAME` is, or makes.

    Raises:
        argparse.ArgumentTypeError: There is no such thing, or it is something else.
    """
    module, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise argparse.ArgumentTypeError(f"{name!r}: {error}; write MODULE:NAME") from error
    made = found if isinstance(found, Embeddings) else found()
    if not isinstance(made, Embeddings):
        raise argparse.ArgumentTypeError(f"{name!r} is no LangChain Embeddings but {type(made)!r}")
    return made


def unreadable(path: Path, number: int, error: Exception) -> ValueError:
    """Return the error for a line of a file that is not of the format, from 1, with what is wrong."""
    wrong = str(error).partition("\n")[0]
    if isinstance(error, KeyError):
        wrong = f"{error} is missing"
    elif isinstance(error, AttributeError | TypeError):
        wrong = f"a value has another type than the format asks for ({error})"
    return ValueError(f"{path}, line {number}: {wrong}; --help has the format")


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
    except UnicodeDecodeError as error:
        print(f"A file is not UTF-8 text: {error}; convert it first.", file=sys.stderr)
        return 2
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
