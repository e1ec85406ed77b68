"""A server that starts processes which are killed with signal 9 at a chosen write.

It imports once and forks for each: a kill costs what the turn costs. Asked in lines of JSON on
standard input, it answers each with what became of the process.
"""

import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langgraph.store.base import PutOp

from tests.threads import registry_of
from unsay.conversation.conversation import Conversation
from unsay.messages.content import text_of
from unsay.storage.sqlite import FileDatabase, open_database
from unsay.testing import ScriptedChat, ScriptedDetector, ScriptedJudge, ToolCalls
from unsay.testing.scripts import attempt_of, question_of
from unsay.tools import reversible

Act = tuple[str, ...]
"""A verb and what it is given."""

WRITES = ("INSERT", "UPDATE", "DELETE", "REPLACE", "COMMIT", "VACUUM")
"""The statements before which a process may be killed."""

BAD = "Nonsense about fish, and then some more."
"""A draft that the judge fails."""

THREAD = "t"
OTHER = "forked"


class Parts:
    """The ends of a conversation in one folder; what they do in the world is a line in a file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, name: str, line: str) -> None:
        """Add a line to a file, at once."""
        with (self.folder / name).open("a") as lines:
            lines.write(f"{line}\n")

    def lines(self, name: str) -> list[str]:
        """The lines of a file."""
        path = self.folder / name
        return path.read_text().splitlines() if path.exists() else []

    def script(self, messages: list[Any]) -> Any:
        """An answer that follows from the question and the attempt alone; each call is paid for."""
        question = question_of(messages)
        attempt = attempt_of(messages)
        self.write("paid.txt", question)
        if "ummarize" in text_of(messages[-1]):
            return "They talked about lists."
        good = f"This answers {question}, attempt {attempt}."
        if "at length" in question:
            return " ".join([good, *(f"Then {position} follows." for position in range(60))])
        if "UsageAccount" in question and attempt == 1:
            call = {"name": "book", "args": {"seat": question[-2]}}
            return ToolCalls(
                calls=[call], then=BAD if "badly" in question else "You have {result}."
            )
        if "Look" in question:
            return ToolCalls(calls=[{"name": "look"}], then="It is {result}.")
        bad = {"twice": 1, "thrice": 2, "always": 9}
        return BAD if attempt <= max([0, *(n for w, n in bad.items() if w in question)]) else good

    def tools(self) -> list[Any]:
        """One that can be taken back, and one without consequences."""

        def cancel(result: str) -> None:
            self.write("effects.txt", f"cancel {result}")

        @reversible(undo=cancel, describe="the booking of {seat}")
        def book(seat: str) -> str:
            """Reserve a seat."""
            result = f"seat {seat}, receipt {len(self.lines('effects.txt'))}"
            self.write("effects.txt", f"book {result}")
            return result

        @tool
        def look() -> str:
            """Look."""
            return "a fine day"

        return [book, look]

    def options(self, *, tools: bool) -> dict[str, Any]:
        """What a conversation is opened with."""
        return {
            "thread": THREAD,
            "model": ScriptedChat(script=self.script),
            "judge": ScriptedJudge(scores={"Nonsense": 0.1}),
            "detector": ScriptedDetector(shifts={"NEW": "new"}),
            "tools": self.tools() if tools else [],
        }

    def open(self, *, tools: bool) -> Conversation:
        """The conversation."""
        return Conversation.open(self.folder / "talk.db", **self.options(tools=tools))


class Instants:
    """Counts the instants at which a process may be killed, and kills it at one of them."""

    def __init__(self, instant: int | None) -> None:
        self.count = 0
        self._at = instant
        self._mutex = threading.Lock()

    def pass_by(self) -> None:
        """Come to the next one."""
        with self._mutex:
            self.count += 1
            if self.count == self._at:
                os.kill(os.getpid(), signal.SIGKILL)

    def watch(self, database: FileDatabase) -> None:
        """Have every write of a database come by: before it, inside it, and after it."""
        for connection in (database.saver.conn, database.store.conn):
            connection.set_trace_callback(self._traced)
        saver = cast("Any", database.saver)
        store = cast("Any", database.store)
        for name in ("put", "put_writes", "delete_thread"):
            setattr(saver, name, self._around(getattr(saver, name), lambda *_: True))
        store.batch = self._around(store.batch, _puts)

    def _traced(self, statement: str) -> None:
        if statement.lstrip().upper().startswith(WRITES):
            self.pass_by()

    def _around(self, call: Callable[..., Any], writes: Callable[..., bool]) -> Callable[..., Any]:
        def around(*args: Any, **options: Any) -> Any:
            given_args = [list(arg) if _is_stream(arg) else arg for arg in args]
            if not writes(*given_args):
                return call(*given_args, **options)
            self.pass_by()
            new_call = call(*given_args, **options)
            self.pass_by()
            return new_call

        return around


def _is_stream(value: Any) -> bool:
    return hasattr(value, "__next__")


def _puts(operations: Any) -> bool:
    return any(isinstance(step, PutOp) for step in operations)


def act(conversation: Conversation, step: Act, durability: str | None) -> str | None:
    """Do one thing in a conversation; the id of the message that it ended in."""
    verb, *arguments = step
    if verb == "say" and durability:
        value = {"messages": [HumanMessage(arguments[0], id=arguments[1])]}
        config: Any = {"configurable": {"thread_id": THREAD}}
        state = conversation.graph.invoke(value, config, durability=durability)
        return str(state["messages"][-1].id)
    if verb == "say":
        return conversation.say(arguments[0], turn_id=arguments[1]).message_id
    if verb == "restore":
        conversation.restore(_newest_branch(conversation))
    elif verb == "pick":
        branch = _newest_branch(conversation)
        conversation.pick([_answer_of(conversation, branch)], branch)
    elif verb == "fork":
        conversation.fork(thread=OTHER)
    elif verb == "rollback":
        conversation.rollback(turns=int(arguments[0]))
    elif verb in ("edit", "remove"):
        getattr(conversation, verb)(int(arguments[0]), *arguments[1:])
    elif verb == "purge":
        registry_of(conversation).purge()
    else:
        getattr(conversation, verb)(*arguments)
    return None


def _newest_branch(conversation: Conversation) -> str:
    return next(branch.id for branch in conversation.branches() if branch.id.startswith("branch-"))


def _answer_of(conversation: Conversation, branch: str) -> str:
    rollbacks = [
        event["data"] for event in registry_of(conversation).events() if event["type"] == "rollback"
    ]
    removed = next(data["removed"] for data in rollbacks if data["branch_id"] == branch)
    return str(removed[-1])


def play(request: dict[str, Any]) -> None:
    """Do some things one after the other, and tell of each that it is done."""
    parts = Parts(Path(request["folder"]))
    database = cast("FileDatabase", open_database(parts.folder / "talk.db"))
    with Conversation.open(database, **parts.options(tools=request["tools"])) as conversation:
        instants = Instants(request["at"])
        instants.watch(database)
        for step in request["acts"]:
            name = act(conversation, tuple(step), request["durability"])
            parts.write("done.txt", json.dumps(name))
            if request["tells"]:
                transcript = [f"{m.type}: {text_of(m)}" for m in conversation.messages()]
                parts.write("record.txt", json.dumps(transcript))
        parts.write("instants.txt", str(instants.count))
    database.close()


def child(request: dict[str, Any]) -> None:
    """What a forked process does, to its end."""
    try:
        play(request)
    except BaseException:  # noqa: BLE001 - the process's edge: the parent reads the traceback
        (Path(request["folder"]) / "error.txt").write_text(traceback.format_exc())
        os._exit(1)
    os._exit(0)


def main() -> None:
    """Fork a process for every line."""
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            child(json.loads(line))
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
