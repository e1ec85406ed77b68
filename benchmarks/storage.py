"""Measure what a conversation costs: `python benchmarks/storage.py [--turns N …] [--json]`.

`--database` is `sqlite` (a file in a temporary folder), `memory`, or the URL of a server; whatever
has no file has no figures about one. The talk is made up (see `traffic.py`): questions of 300
characters, answers of 700, a change of subject every 8 turns or so, some returns, one draft in 40
rejected. All settings are the defaults, judge and topics are on. The model and the judge are plain
functions, and their own time is taken off. Each conversation has a process of its own, and so have
the openings and the moves.

- `disk_over_raw`: `file_bytes` over `raw_bytes`.
- `cpu_ms_per_turn`: processor time, median of the last 50 turns; `wall_ms_per_turn` by the clock.
- `cpu_ms_last_over_first`: that, over the median of turns 100 to 150 (of a shorter talk, of its
  first half).
- `rollback_ms`, `undo_ms`, `redo_ms`: going back 10 turns at the end, and taking that back and forth,
  by the clock; `rollback_kb`, `undo_kb`, `redo_kb`: the file's growth by it, in pages.
- `open_ms`: opening the file in a fresh process, and reading the state that the next turn begins
  with; importing is not in it. `messages_ms`: reading the whole record.
- `peak_mb`: resident memory of the process that held the talk, at most.
- `commits_per_turn`: transactions in the write-ahead log, counted over the last 10 turns.
- `raw_bytes`: the record as JSON of roles and contents; `file_bytes`: the file after closing.

`--saver langgraph` holds the conversation as a host does, which runs the compiled graph on LangGraph's
own SQLite saver and store: `disk_over_raw`, `file_bytes`, `raw_bytes`, the figures of the processor
time, and `states_per_turn`, LangGraph's checkpoints for each turn.

The table for people also tells what each table of the file and each kind of item in the store holds.
"""

import argparse
import json
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from report import Figure, Figures, overall, plain

TURNS = 1_000
"""Length of a conversation, unless told."""

FEWEST = 20
"""Shortest conversation that can be gone back in."""

WINDOW = 50
"""Turns that a median is taken of."""

EARLY = 100
"""Turns before the early window."""

OPENINGS = 3
"""How often a file is opened."""

COUNTED = 10
"""Turns whose commits are counted."""

RUNNER = Path(__file__).with_name("run_storage.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """What one table, index or kind of item takes."""

    name: str
    """Of the table or index; of an item, its kind."""

    rows: int
    """How many."""

    size: int
    """In bytes: pages of a table or index; of an item its value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One conversation."""

    figures: Figures
    """By name."""

    tables: Sequence[Holding] = ()
    """Of its file."""

    kinds: Sequence[Holding] = ()
    """Of its items in the store."""


def measure(turns: int, database: str, saver: str = "unsay") -> Measured:
    """Hold a conversation in a fresh process and measure what it leaves.

    Raises:
        CalledProcessError: The conversation failed; its own words are on standard error.
    """
    if saver == "langgraph":
        return _measure_host(turns)
    if database != "sqlite":
        place = ":memory:" if database == "memory" else database
        said = _started("say", place, turns)
        return Measured(figures={**_costs(said, turns), **_moves(said["moves"])})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "talk.db"
        said = _started("say", str(path), turns)
        size = sum(each.stat().st_size for each in path.parent.iterdir())
        tables, kinds = tables_of(path), kinds_of(path)
        openings = [_started("open", str(path), turns) for _ in range(OPENINGS)]
        moves = _started("move", str(path), turns)["moves"]
    figures = {
        "disk_over_raw": Figure(value=size / said["raw_bytes"], items=turns),
        **_costs(said, turns),
        **_moves(moves),
        "open_ms": _median([each["open_ms"] for each in openings]),
        "open_cpu_ms": _median([each["open_cpu_ms"] for each in openings]),
        "file_bytes": Figure(value=size, items=turns),
    }
    return Measured(figures=figures, tables=tables, kinds=kinds)


def _measure_host(turns: int) -> Measured:
    """Measure the compiled graph on LangGraph's own SQLite saver and store."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "host.db"
        said = _started("host", str(path), turns)
        size = sum(each.stat().st_size for each in path.parent.iterdir())
        tables, kinds = tables_of(path), kinds_of(path)
    figures = {
        "disk_over_raw": Figure(value=size / said["raw_bytes"], items=turns),
        **_cpu(said, turns),
        "states_per_turn": Figure(value=said["states"] / turns, items=turns),
        "raw_bytes": Figure(value=said["raw_bytes"], items=turns),
        "file_bytes": Figure(value=size, items=turns),
    }
    return Measured(figures=figures, tables=tables, kinds=kinds)


def _started(what: str, database: str, turns: int) -> dict[str, Any]:
    command = [sys.executable, str(RUNNER), what, database, str(turns)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _costs(said: Mapping[str, Any], turns: int) -> dict[str, Figure]:
    """The figures of the turns themselves."""
    last = said["turns"][-min(WINDOW, turns // 2) :]
    commits = said["commits"]
    return {
        **_cpu(said, turns),
        "wall_ms_per_turn": _median([each["wall_ms"] for each in last]),
        "own_cpu_ms_per_turn": Figure(value=said["own_cpu_ms"], items=turns),
        "commits_per_turn": Figure(
            value=None if commits is None else commits / COUNTED,
            items=0 if commits is None else COUNTED,
        ),
        "topic_shifts": Figure(value=said["topics"], items=turns),
        "messages_ms": Figure(value=said["messages_ms"], items=1),
        "peak_mb": Figure(value=said["peak_mb"], items=1),
        "raw_bytes": Figure(value=said["raw_bytes"], items=turns),
    }


def _cpu(said: Mapping[str, Any], turns: int) -> dict[str, Figure]:
    """The processor time of the last turns, and of the first."""
    window = min(WINDOW, turns // 2)
    early = EARLY if turns >= EARLY + WINDOW else 0
    first, last = said["turns"][early : early + window], said["turns"][-window:]
    cpu = _median([each["cpu_ms"] for each in last])
    cpu_first = _median([each["cpu_ms"] for each in first])
    return {
        "cpu_ms_per_turn": cpu,
        "cpu_ms_first": cpu_first,
        "cpu_ms_last_over_first": Figure(value=_ratio(cpu, cpu_first), items=2 * window),
    }


def _moves(moves: Sequence[Mapping[str, Any]]) -> dict[str, Figure]:
    """The figures of rollbacks, undos and redos: medians of their rounds."""
    return {
        f"{name}_{unit}": _median([each[unit] for each in moves if each["name"] == name])
        for name in dict.fromkeys(each["name"] for each in moves)
        for unit in moves[0]
        if unit != "name"
    }


def _median(values: Sequence[float]) -> Figure:
    return Figure(value=median(values), items=len(values))


def _ratio(part: Figure, whole: Figure) -> float | None:
    return part.value / whole.value if part.value is not None and whole.value else None


def tables_of(path: Path) -> list[Holding]:
    """What each table and index of a file takes, the largest first."""
    with closing(sqlite3.connect(path)) as connection:
        names = connection.execute(
            "SELECT name, tbl_name FROM sqlite_master WHERE rootpage > 0"
        ).fetchall()
        found = [
            Holding(
                name=name,
                rows=connection.execute(f'SELECT count(*) FROM "{table}"').fetchone()[0],  # noqa: S608
                size=_pages(connection, name, table),
            )
            for name, table in names
        ]
    return sorted(found, key=lambda holding: -holding.size)


def _pages(connection: sqlite3.Connection, name: str, table: str) -> int:
    """Bytes of a tree's pages, or of its values where SQLite was built without `dbstat`."""
    try:
        rows = connection.execute("SELECT sum(pgsize) FROM dbstat WHERE name = ?", (name,))
        return int(rows.fetchone()[0] or 0)
    except sqlite3.OperationalError:
        columns = [row[1] for row in connection.execute(f'PRAGMA table_info("{name}")')]
        lengths = " + ".join(f'coalesce(length("{column}"), 0)' for column in columns)
        rows = connection.execute(f'SELECT sum({lengths or 0}) FROM "{table}"')  # noqa: S608
        return int(rows.fetchone()[0] or 0)


def kinds_of(path: Path) -> list[Holding]:
    """What each kind of the store's items takes, the largest first."""
    found: dict[str, list[int]] = {}
    with closing(sqlite3.connect(path)) as connection:
        for prefix, size in connection.execute(
            "SELECT prefix, length(CAST(value AS BLOB)) FROM store"
        ):
            found.setdefault(".".join(prefix.split(".")[:2]), []).append(size)
    kinds = [Holding(name=name, rows=len(each), size=sum(each)) for name, each in found.items()]
    return sorted(kinds, key=lambda holding: -holding.size)


def table(measured: Mapping[int, Measured]) -> str:
    """Everything as tables for people."""
    names = list(dict.fromkeys(name for each in measured.values() for name in each.figures))
    lines = [f"{'turns':<24}" + "".join(f"{turns:>20}" for turns in measured)]
    for name in names:
        cells = (_cell(each.figures.get(name)) for each in measured.values())
        lines.append(f"{name:<24}" + "".join(f"{cell:>20}" for cell in cells))
    for turns, each in measured.items():
        for heading, holdings in (("table", each.tables), ("items", each.kinds)):
            if holdings:
                lines += ["", f"{turns} turns, {heading:<28}{'rows':>8}{'bytes':>14}{'a turn':>10}"]
                lines += [_line(holding, turns) for holding in holdings]
    return "\n".join(lines)


def _cell(figure: Figure | None) -> str:
    """A value and, in brackets, its items."""
    if figure is None or figure.value is None:
        return "-"
    return f"{figure.value:,.2f} ({figure.items})"


def _line(holding: Holding, turns: int) -> str:
    return f"{holding.name:<40}{holding.rows:>8,}{holding.size:>14,}{holding.size / turns:>10,.0f}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table, or with `--json` one object; give the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--turns", type=int, nargs="+", default=[TURNS], metavar="N")
    parser.add_argument("--database", default="sqlite", help="sqlite, memory, or a URL")
    parser.add_argument("--saver", choices=["unsay", "langgraph"], default="unsay")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(arguments)
    if (fewest := min(options.turns)) < FEWEST:
        parser.error(f"--turns {fewest!r}: give {FEWEST} or more")
    try:
        measured = {
            turns: measure(turns, options.database, options.saver) for turns in options.turns
        }
    except subprocess.CalledProcessError as error:
        print(f"{error}; its words stand above", file=sys.stderr)
        return 2
    if options.json:
        by_length = {str(turns): plain(each.figures) for turns, each in measured.items()}
        total = plain(overall(each.figures for each in measured.values()))
        print(json.dumps({**total, "files": by_length}))
    else:
        print(table(measured))
    return 0


if __name__ == "__main__":
    sys.exit(main())
