"""Measure how long unsay takes to start: `python benchmarks/startup.py [--runs N] [--json]`.

Each run is a fresh process; what counts is its processor time, which a busy machine
changes little. The first run of each command, which may write byte code, is not counted.

- `help_cpu_seconds`: of `unsay --help`, the median of the runs.
- `import_cpu_seconds`: of `python -c "import unsay"`, likewise.
- `python_cpu_seconds`: of `python -c pass`, likewise: the floor under both.

The number in brackets, `items` in JSON, is how many runs the figure rests on.
"""

import argparse
import json
import resource
import subprocess
import sys
from collections.abc import Mapping, Sequence
from statistics import median

RUNS = 15
"""How many runs a figure rests on, unless told."""

COMMANDS: Mapping[str, Sequence[str]] = {
    "help_cpu_seconds": ("-m", "unsay", "--help"),
    "import_cpu_seconds": ("-c", "import unsay"),
    "python_cpu_seconds": ("-c", "pass"),
}
"""What each figure runs."""


def cpu_seconds(arguments: Sequence[str]) -> float:
    """Processor time of one fresh Python process, its own and the system's for it."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def measure(runs: int) -> dict[str, float]:
    """All figures, in the order of `COMMANDS`."""
    figures: dict[str, float] = {}
    for name, arguments in COMMANDS.items():
        cpu_seconds(arguments)
        figures[name] = median(cpu_seconds(arguments) for _ in range(runs))
    return figures


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table, or with `--json` one object."""
    parser = argparse.ArgumentParser(description="Measure how long unsay takes to start.")
    parser.add_argument("--runs", type=int, default=RUNS, help=f"of each command; default {RUNS}")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(arguments)
    if options.runs < 1:
        parser.error(f"--runs {options.runs!r}: give 1 or more")
    figures = measure(options.runs)
    if options.json:
        counted = {
            name: {"value": round(value, 4), "items": options.runs}
            for name, value in figures.items()
        }
        print(json.dumps(counted))
    else:
        lines = (f"{name:<20} {value:.3f} ({options.runs})" for name, value in figures.items())
        print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
