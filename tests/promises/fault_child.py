"""A process whose storage breaks under a conversation, and is repaired; it prints what came of it."""

import json
import os
import resource
import shutil
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.threads import registry_of
from unsay.conversation.conversation import Conversation
from unsay.errors import UnsayError
from unsay.messages.content import text_of

NOBODY = 65534
"""Id of the user who owns nothing; only root can become it."""

LONG = "A long answer, about what was asked. " * 100


class Model:
    """A model in whose next call something else happens, once."""

    def __init__(self) -> None:
        self.meanwhile: Callable[[], Any] | None = None

    def __call__(self, messages: Any) -> str:
        """A long answer."""
        del messages
        meanwhile = self.meanwhile
        self.meanwhile = None
        if meanwhile is not None:
            meanwhile()
        return LONG


def open_in(folder: Path, model: Model | None = None) -> Conversation:
    """The thread of a folder's database."""
    return Conversation.open(
        folder / "t.db", thread="t", model=model or Model(), judge=lambda _: 0.9
    )


def short_transcript(conversation: Conversation) -> list[str]:
    """The transcript as `role: words`, the words cut short."""
    return [f"{message.type}: {text_of(message)[:20]}" for message in conversation.messages()]


@contextmanager
def small_files(folder: Path, conversation: Conversation) -> Iterator[None]:
    """No file can grow any more, as on a disk with a quota."""
    del conversation
    size = sum((path.stat().st_size for path in folder.iterdir()), 0)
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (size // 2, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))


@contextmanager
def full_disk(folder: Path, conversation: Conversation) -> Iterator[None]:
    """The disk has no room left."""
    del conversation
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(b"\0" * 4096):
            pass
    try:
        yield
    finally:
        filler.unlink()


@contextmanager
def few_pages(folder: Path, conversation: Conversation) -> Iterator[None]:
    """SQLite may use no more pages than it has, on any connection."""
    del folder
    graph: Any = conversation.graph
    connections: list[sqlite3.Connection] = [graph.checkpointer.conn, graph.store.conn]
    for connection in connections:
        connection.execute("PRAGMA max_page_count = 1")
    try:
        yield
    finally:
        for connection in connections:
            connection.execute("PRAGMA max_page_count = 1073741823")


@contextmanager
def only_queries(folder: Path, conversation: Conversation) -> Iterator[None]:
    """The file became read-only while it was open."""
    del folder
    graph: Any = conversation.graph
    for connection in (graph.checkpointer.conn, graph.store.conn):
        connection.execute("PRAGMA query_only = ON")
    try:
        yield
    finally:
        for connection in (graph.checkpointer.conn, graph.store.conn):
            connection.execute("PRAGMA query_only = OFF")


@contextmanager
def _modes(folder: Path, of_folder: int, of_file: int) -> Iterator[None]:
    """Rights as given, for a user who is not above them."""
    modes = {folder: of_folder, folder / "t.db": of_file}
    before = {path: path.stat().st_mode for path in modes}
    for path, mode in modes.items():
        path.chmod(mode)
    if os.getuid() == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(os.getuid())
        for path, mode in before.items():
            path.chmod(mode)


def read_only_file(folder: Path, conversation: Conversation) -> AbstractContextManager[None]:
    """The file may be read-only; it is opened again."""
    conversation.close()
    return _modes(folder, 0o777, 0o444)


def read_only_folder(folder: Path, conversation: Conversation) -> AbstractContextManager[None]:
    """No journal can be made beside the file; it is opened again."""
    conversation.close()
    return _modes(folder, 0o555, 0o666)


Fault = Callable[[Path, Conversation], AbstractContextManager[None]]
FAULTS: dict[str, Fault] = {
    "small-files": small_files,
    "full-disk": full_disk,
    "few-pages": few_pages,
    "only-queries": only_queries,
    "read-only-file": read_only_file,
    "read-only-folder": read_only_folder,
}
REOPENED = {"read-only-file", "read-only-folder"}


def run(folder: Path, name: str, moment: str) -> dict[str, Any]:
    """Two turns, a fault in which a third is tried, and the third after it."""
    model = Model()
    conversation = open_in(folder, model)
    for question in ("q1", "q2"):
        conversation.say(question)
    before = short_transcript(conversation)
    with ExitStack() as stack:
        if moment == "in-the-model":
            model.meanwhile = lambda: stack.enter_context(FAULTS[name](folder, conversation))
        else:
            stack.enter_context(FAULTS[name](folder, conversation))
        errors = list(_errors(folder, conversation, reopen=name in REOPENED))
    if name in REOPENED:
        conversation = open_in(folder)
    with conversation:
        after = short_transcript(conversation)
        conversation.say("q3")
        conversation.rollback(turns=1)
        conversation.undo()
        final = short_transcript(conversation)
        events = len(registry_of(conversation).events())
    return {"before": before, "errors": errors, "after": after, "final": final, "events": events}


def _errors(folder: Path, conversation: Conversation, *, reopen: bool) -> Iterator[tuple[str, str]]:
    """What a third turn raises, tried twice, as the names of classes and words."""
    for _ in range(2):
        with ExitStack() as stack:
            try:
                (stack.enter_context(open_in(folder)) if reopen else conversation).say("q3")
            except UnsayError as error:
                yield type(error).__name__, str(error)


def main() -> None:
    """Break the storage in each of the named ways, and print what came of it as JSON lines."""
    with Conversation.open(":memory:", model=lambda _: LONG, judge=lambda _: 0.9) as warm:
        warm.say("everything is imported by now")
        warm.rollback(turns=1)
    for item in sys.argv[2:]:
        name, moment = item.split(":")
        folder = Path(sys.argv[1]) / f"{name}-{moment}"
        folder.mkdir()
        print(json.dumps(run(folder, name, moment)))
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
