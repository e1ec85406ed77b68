"""What one turn does, as counts that are the same in every run: they show growth that a clock hides.

Each door holds a conversation of `--turns` turns in a process of its own; then 10 more turns are
counted, and the figures are their mean. Every answer passes its judge. The doors:

- `conversation`: `Conversation.say` on an SQLite file, with default settings.
- `graph`: the compiled graph on LangGraph's own SQLite saver and store, in one file.
- `conversation_tools`, `graph_tools`: the same, with one tool call in each turn.

The figures, each after its door:

- `python_calls`: calls of Python functions in all threads, also resumed generators.
- `own_calls`: those of them whose code is in `unsay`.
- `sql_statements`, `write_commits`, `journal_bytes`: of all databases; the last two in the
  write-ahead log.

`--check` compares with `counts.json` and fails where a figure is more than 1 % higher, of the journal
2 %. Counts of other packages' code are only compared under the versions that the table names.
`--write` writes figures that became lower.
"""

import argparse
import json
import os
import platform
import random
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial
from importlib.metadata import version
from pathlib import Path
from types import FrameType
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.store.sqlite import SqliteStore
from run_storage import journal, used_bytes
from traffic import Cast, Exchange, Speech

import unsay
from unsay.conversation.conversation import Conversation
from unsay.graph.builder import build_graph

TABLE = Path(__file__).with_suffix(".json")
PACKAGE = str(Path(unsay.__file__).parent)
DOORS = ("conversation", "conversation_tools", "graph", "graph_tools")

MEASURED = 10
"""How many turns are counted."""

TOLERANCE = 0.01
"""How much higher a figure may be; the same code differs by about 0.1 %. Source: own measurement."""

PAGES = 0.02
"""The same for the journal, in which a time or an id may need one page more."""

Figures = Mapping[str, float]
Say = Callable[[Exchange], object]


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages whose code runs in a turn."""
    names = ("langgraph", "langgraph-checkpoint", "langgraph-checkpoint-sqlite", "langchain-core")
    return {"python": platform.python_version(), **{name: version(name) for name in names}}


@tool
def look_up(order: str) -> str:
    """Look up an order."""
    return f"The order {order} was shipped on Monday and arrives on Thursday; 2.3 kg."


class CallingChat(BaseChatModel):
    """A chat model that calls the tool once in each turn, and then answers with the next draft."""

    cast: Cast
    calls: int = 0

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> "CallingChat":
        """Return the model itself: it knows its tool."""
        del tools, kwargs
        return self

    def _generate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        del stop, run_manager, kwargs
        if messages[-1].type != "human":
            reply = AIMessage(self.cast.answer(messages))
        else:
            self.calls += 1
            call = {"name": "look_up", "args": {"order": "4711"}, "id": f"call-{self.calls}"}
            reply = AIMessage("", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=reply)])


def speaker(door: str, database: str, stack: ExitStack) -> Say:
    """Return a function that says one question through a door."""
    cast = Cast()
    has_tools = door.endswith("_tools")
    model: Any = CallingChat(cast=cast) if has_tools else cast.answer
    tools: Any = {"tools": [look_up]} if has_tools else {}
    say: Callable[[str], object]
    if door.startswith("graph"):
        connect = partial(sqlite3.connect, database, check_same_thread=False)
        saver = SqliteSaver(stack.enter_context(closing(connect())))
        store = SqliteStore(stack.enter_context(closing(connect(isolation_level=None))))
        store.setup()
        graph = build_graph(model, judge=cast.judge, checkpointer=saver, store=store, **tools)
        config: Any = {"configurable": {"thread_id": "benchmark"}}

        def say(question: str) -> object:
            return graph.invoke({"messages": [("user", question)]}, config)
    else:
        say = stack.enter_context(
            Conversation.open(database, thread="benchmark", model=model, judge=cast.judge, **tools)
        ).say

    def turn(exchange: Exchange) -> object:
        cast.drafts = list(exchange.drafts)
        return say(exchange.question)

    return turn


class Counts:
    """Counts of what the process does between `start` and `stop`."""

    def __init__(self) -> None:
        self.figures: Counter[str] = Counter()
        self._running = False
        connect = sqlite3.connect

        def traced(*args: Any, **kwargs: Any) -> sqlite3.Connection:
            connection = connect(*args, **kwargs)
            connection.set_trace_callback(self._statement)
            return connection

        sqlite3.connect = traced  # type: ignore[assignment]
        threading.setprofile(self._event)

    def _statement(self, statement: str) -> None:
        del statement
        self.figures["sql_statements"] += self._running

    def _event(self, frame: FrameType, event: str, argument: object) -> None:
        del argument
        if event == "call" and self._running:
            self.figures["python_calls"] += 1
            self.figures["own_calls"] += frame.f_code.co_filename.startswith(PACKAGE)

    def measure(self, say: Say, exchange: Exchange, database: str) -> None:
        """Say one question and add what it does."""
        used_bytes(database)
        self._running = True
        sys.setprofile(self._event)
        try:
            say(exchange)
        finally:
            sys.setprofile(None)
            self._running = False
        commits, size = journal(Path(f"{database}-wal"))
        self.figures.update(write_commits=commits, journal_bytes=size)


def count(door: str, turns: int) -> Figures:
    """Return the figures of a door after so many turns."""
    # Random ids compress to other sizes, and so fill other numbers of pages.
    chance = random.Random(0)
    os.urandom = chance.randbytes
    counts = Counts()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        database = str(Path(folder) / "counts.db")
        say = speaker(door, database, stack)
        exchanges = list(Speech().exchanges(turns + MEASURED))
        for exchange in exchanges[:turns]:
            say(exchange)
        for exchange in exchanges[turns:]:
            counts.measure(say, exchange, database)
    return {f"{door}_{name}": value / MEASURED for name, value in counts.figures.items()}


def measured(doors: Sequence[str], turns: int) -> Figures:
    """Return the figures of doors, each measured in a process of its own."""
    figures: dict[str, float] = {}
    for door in doors:
        command = [sys.executable, __file__, "--door", door, "--turns", str(turns), "--here"]
        shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        figures |= json.loads(shown)
    return figures


def problems(figures: Figures, table: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for each figure that differs from the table as it must not."""
    is_comparable = versions() == table["versions"]
    for name, value in figures.items():
        if not is_comparable and name.endswith("_python_calls"):
            continue
        limit = table["figures"][name]
        if value > limit * (1 + (PAGES if name.endswith("_bytes") else TOLERANCE)):
            yield f"{name} is {value:,.1f}, and the table allows {limit:,.1f}: do less in a turn"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and compare; return 1 if a figure is too high."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--door", action="append", choices=DOORS, help="only these doors")
    parser.add_argument("--turns", type=int, default=60, help="turns before those that are counted")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--check", action="store_true", help="compare with counts.json")
    parser.add_argument("--write", action="store_true", help="write lower figures to counts.json")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    doors = options.door or DOORS
    if options.here:
        print(json.dumps(count(doors[0], options.turns)))
        return 0

    figures = measured(doors, options.turns)
    if options.json:
        plain = {name: {"value": value, "items": MEASURED} for name, value in figures.items()}
        print(json.dumps(plain))
    else:
        print("\n".join(f"{name:40}{value:14,.1f}" for name, value in figures.items()))

    if not options.check and not options.write:
        return 0
    table = json.loads(TABLE.read_text("utf-8"))
    if options.write:
        lower = {name: min(value, table["figures"][name]) for name, value in figures.items()}
        table = {"versions": versions(), "figures": {**table["figures"], **lower}}
        TABLE.write_text(json.dumps(table, indent=2) + "\n", "utf-8")
    found = list(problems(figures, table)) if options.check else []
    for problem in found:
        print(problem, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
