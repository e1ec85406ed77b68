"""The processes that `scaling.py` starts, and the figures that they return.

`python run_scaling.py speak DATABASE WHO THREADS TURNS` opens a database and says `ready`; at a line
on standard input it holds its conversations, a turn in each in turn, and prints one JSON object; at
another line it ends. `python run_scaling.py alone DATABASE` prints what a lease costs, and an opening.
`python run_scaling.py add DATABASE MESSAGES` adds messages at once, and prints what they cost.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage
from traffic import Cast, Exchange, Speech

from unsay.conversation.conversation import Conversation
from unsay.effects import drive
from unsay.storage.base import Database
from unsay.storage.sqlite import open_database

WARM = 2
"""Turns in every thread before the first that counts: imports, plans and caches are there then."""

CYCLES = 50
"""How often a lease is taken and given up, and a conversation opened."""


def main(arguments: Sequence[str]) -> int:
    """Do what the command line names and print what came out."""
    what, location, *given = arguments
    with closing(open_database(location)) as database:
        if what == "speak":
            who, threads, turns = given
            speak(database, who, int(threads), int(turns))
        elif what == "add":
            print(json.dumps(add(database, int(given[0]))), flush=True)
        else:
            print(json.dumps(alone(database)), flush=True)
    return 0


def speak(database: Database, who: str, threads: int, turns: int) -> None:
    """Hold conversations when told to, and say what they cost."""
    cast = Cast()
    talks = _opened(database, cast, who, threads)
    pairs = [(talk, Speech(n).exchanges(WARM + turns)) for n, talk in enumerate(talks)]
    _talk(pairs, cast, WARM * threads)
    print("ready", flush=True)
    sys.stdin.readline()
    own, counted = cast.cpu_seconds, turns // threads * threads
    spent = _cost(lambda: _talk(pairs, cast, counted))
    said = {"turns": counted, **spent, "own_cpu": cast.cpu_seconds - own}
    print(json.dumps(said), flush=True)
    sys.stdin.readline()


def alone(database: Database) -> dict[str, Any]:
    """What a conversation's opening costs over an open database, and a lease."""
    _opened(database, Cast(), "alone", 1)
    _lease(database)
    return {
        "opening": _cost(lambda: _opened(database, Cast(), "alone", CYCLES)),
        "lease": _cost(lambda: [_lease(database) for _ in range(CYCLES)]),
    }


def add(database: Database, messages: int) -> dict[str, Any]:
    """What many messages cost that a host adds at once, with the first turn, and a turn after it."""
    cast, speech = Cast(), Speech()
    (talk,) = _opened(database, cast, "added", 1)
    exchanges = [*speech.exchanges(WARM + messages // 2)]
    turns, known = iter(exchanges[:WARM]), exchanges[WARM:]
    # New objects: what they take is a part of the peak.
    pairs = ((HumanMessage(each.question), AIMessage(each.drafts[-1])) for each in known)
    before = _peak_kb()
    first = _cost(
        lambda: (
            talk.add([message for pair in pairs for message in pair]),
            _talk([(talk, turns)], cast, 1),
        )
    )
    _talk([(talk, speech.exchanges(WARM))], cast, WARM)
    return {
        "first": first,
        "later": _cost(lambda: _talk([(talk, turns)], cast, 1)),
        "peak_kb": [before, _peak_kb()],
    }


def _peak_kb() -> float | None:
    """Most memory that this program had so far; `None` where it is unknown.

    Not that of `getrusage`, which counts the process that started this one. Source: proc(5), `VmHWM`.
    """
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((float(line.split()[1]) for line in lines if line.startswith("VmHWM:")), None)


def _talk(pairs: Sequence[tuple[Conversation, Iterator[Exchange]]], cast: Cast, turns: int) -> None:
    for talk, speech in islice(cycle(pairs), turns):
        exchange = next(speech)
        cast.drafts = list(exchange.drafts)
        assert talk.say(exchange.question).text == exchange.drafts[-1]


def _opened(database: Database, cast: Cast, who: str, threads: int) -> list[Conversation]:
    names = [f"{who}-{number}" for number in range(threads)]
    parts: dict[str, Any] = {"model": cast.answer, "judge": cast.judge}
    return [Conversation.open(database, thread=name, **parts) for name in names]


def _lease(database: Database) -> None:
    """Acquire and release the lease of an unused thread."""
    lease = drive(database.leases.hold("quiet", wait_seconds=0, lease_seconds=20.0))
    if lease is not None:
        lease.release()


def _cost(work: Callable[[], Any]) -> dict[str, float]:
    """Seconds of some work, by the processor and by the clock."""
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    return {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
