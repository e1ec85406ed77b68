"""The processes that `storage.py` starts, and the figures that they return.

`python run_storage.py say|open|move|host DATABASE TURNS` prints one JSON object: a whole conversation,
its opening by another process, its last turns taken back and forth, or a whole conversation of a host
that runs the compiled graph on LangGraph's own SQLite saver and store. See `storage.py`.
"""

import gc
import json
import resource
import sqlite3
import struct
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.store.sqlite import SqliteStore
from traffic import Cast, Exchange, Speech

from unsay.conversation.conversation import Conversation
from unsay.conversation.registry import Registry
from unsay.graph.builder import build_graph

THREAD = "benchmark"
ROLES = {"human": "user", "ai": "assistant"}

BACK = 10
"""How many turns a rollback takes off."""

ROUNDS = 3
"""How often it is done and undone."""

COUNTED = 10
"""Turns at the end whose commits are counted."""

_WAL_PAGES = 1_000
"""Pages after which SQLite restarts the log. Source: sqlite.org/pragma.html#pragma_wal_autocheckpoint."""


def open_conversation(database: str, cast: Cast) -> Conversation:
    """The conversation, with default settings."""
    return Conversation.open(database, thread=THREAD, model=cast.answer, judge=cast.judge)


def say(database: str, turns: int) -> dict[str, Any]:
    """Hold a whole conversation and say what it cost."""
    cast = Cast()
    with open_conversation(database, cast) as talk:
        made = Speech().exchanges(turns)
        costs = [_turn(talk, cast, next(made)) for _ in range(turns - COUNTED)]
        used_bytes(database)
        costs += [_turn(talk, cast, exchange) for exchange in made]
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        commits = commits_in(database)
        reading, transcript = _seconds(talk.messages)
        used_bytes(database)
        moves = {}
        if not Path(database).exists():
            moves["moves"] = list(_moves(talk, database, turns))
            Registry(talk._handle.database).purge(talk.thread_id)
    assert len(transcript) == 2 * turns
    raw = [{"role": ROLES[each.type], "content": each.content} for each in transcript]
    return {
        "turns": costs,
        "peak_mb": peak / (1024**2 if sys.platform == "darwin" else 1024),
        "raw_bytes": len(json.dumps(raw, ensure_ascii=False).encode()),
        "messages_ms": 1000 * reading,
        "commits": commits,
        "topics": sum(one["topic"] != two["topic"] for one, two in pairwise(costs)),
        "own_cpu_ms": 1000 * cast.cpu_seconds / turns,
        **moves,
    }


def host(database: str, turns: int) -> dict[str, Any]:
    """Hold a conversation as a host does, with LangGraph's saver and store in one file."""
    cast, costs = Cast(), []
    config: Any = {"configurable": {"thread_id": THREAD}}
    with (
        closing(sqlite3.connect(database, check_same_thread=False)) as for_saver,
        closing(
            sqlite3.connect(database, check_same_thread=False, isolation_level=None)
        ) as for_store,
    ):
        store = SqliteStore(for_store)
        store.setup()
        graph = build_graph(
            cast.answer, judge=cast.judge, checkpointer=SqliteSaver(for_saver), store=store
        )
        for exchange in Speech().exchanges(turns):
            cast.drafts = list(exchange.drafts)
            own, cpu = cast.cpu_seconds, time.process_time()
            graph.invoke({"messages": [("user", exchange.question)]}, config)
            cpu = time.process_time() - cpu - cast.cpu_seconds + own
            costs.append({"cpu_ms": 1000 * cpu, "question": exchange.question})
            costs[-1]["answer"] = exchange.drafts[-1]
        (states,) = for_saver.execute(
            "SELECT count(*) FROM checkpoints WHERE checkpoint_ns = ''"
        ).fetchone()
    raw = [
        {"role": role, "content": turn[part]}
        for turn in costs
        for role, part in (("user", "question"), ("assistant", "answer"))
    ]
    return {
        "turns": [{"cpu_ms": turn["cpu_ms"]} for turn in costs],
        "raw_bytes": len(json.dumps(raw, ensure_ascii=False).encode()),
        "states": states,
    }


def move(database: str, turns: int) -> dict[str, Any]:
    """Open a conversation and go back and forth at its end."""
    with open_conversation(database, Cast()) as talk:
        return {"moves": list(_moves(talk, database, turns))}


def _turn(talk: Conversation, cast: Cast, exchange: Exchange) -> dict[str, Any]:
    """Say one thing; what it cost without the model's and the judge's own time."""
    cast.drafts = list(exchange.drafts)
    own_cpu, own_wall = cast.cpu_seconds, cast.wall_seconds
    cpu, wall = time.process_time(), time.perf_counter()
    reply = talk.say(exchange.question)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    assert reply.text == exchange.drafts[-1]
    assert reply.rollbacks == len(exchange.drafts) - 1
    assert reply.checkpoint_id
    return {
        "cpu_ms": 1000 * (cpu - cast.cpu_seconds + own_cpu),
        "wall_ms": 1000 * (wall - cast.wall_seconds + own_wall),
        "topic": reply.topic,
    }


def _moves(talk: Conversation, database: str, turns: int) -> Iterator[dict[str, Any]]:
    """Go back and undo it, several times; then redo and undo it once."""
    marks = {annotation["turn"]: annotation["id"] for annotation in talk.checkpoints()}
    length = len(talk.messages())
    for _ in range(ROUNDS):
        yield _move("rollback", lambda: talk.rollback(marks[turns - BACK]), database)
        assert len(talk.messages()) == length - 2 * BACK
        yield _move("undo", talk.undo, database)
        assert len(talk.messages()) == length
    yield _move("redo", talk.redo, database)
    assert len(talk.messages()) == length - 2 * BACK
    talk.undo()


def _move(name: str, call: Callable[[], object], database: str) -> dict[str, Any]:
    before = used_bytes(database)
    gc.collect()  # garbage of the turns before is no part of it
    cpu = time.process_time()
    wall, _ = _seconds(call)
    cpu = time.process_time() - cpu
    spent = {"name": name, "ms": 1000 * wall, "cpu_ms": 1000 * cpu}
    if before is None or (after := used_bytes(database)) is None:
        return spent
    return {**spent, "kb": (after - before) / 1024}


def _seconds(call: Callable[[], Any]) -> tuple[float, Any]:
    started = time.perf_counter()
    value = call()
    return time.perf_counter() - started, value


def used_bytes(database: str) -> int | None:
    """Bytes of a file's pages in use, once all of its log is in it; `None` without a file."""
    if not Path(database).exists():
        return None
    with closing(sqlite3.connect(database)) as connection:
        (busy, _, _) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        assert not busy
        names = ("page_count", "freelist_count", "page_size")
        count, free, size = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names)
    return int((count - free) * size)


def commits_in(database: str) -> int | None:
    """How many transactions a file's log holds, which was empty before; `None` without a log."""
    log = Path(f"{database}-wal")
    return journal(log)[0] if log.exists() else None


def journal(log: Path) -> tuple[int, int]:
    """The transactions and the bytes of frames in a write-ahead log, which was empty before.

    Source: sqlite.org/fileformat2.html, 4.1 (a frame that ends a transaction names the file's size).
    """
    data = log.read_bytes()
    if not data:
        return 0, 0
    (size,) = struct.unpack_from(">I", data, 8)
    frames = range(32, len(data), 24 + size)
    assert len(frames) < _WAL_PAGES
    present = [at for at in frames if data[at + 8 : at + 16] == data[16:24]]
    commits = sum(struct.unpack_from(">I", data, at + 4) != (0,) for at in present)
    return commits, len(present) * (24 + size)


def read(database: str, turns: int) -> dict[str, Any]:
    """Open a conversation and read what its next turn must know."""
    gc.collect()  # the garbage of the imports is no part of opening, which may trigger its collection
    wall, cpu = time.perf_counter(), time.process_time()
    with open_conversation(database, Cast()) as talk:
        state = talk.graph.get_state({"configurable": {"thread_id": THREAD}})
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    assert state.values["turn"]["done"], turns
    return {"open_ms": 1000 * wall, "open_cpu_ms": 1000 * cpu}


def main(arguments: Sequence[str]) -> int:
    """Do what the command line names and print what came out."""
    what, database, turns = arguments
    found = {"say": say, "open": read, "move": move, "host": host}[what](database, int(turns))
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
