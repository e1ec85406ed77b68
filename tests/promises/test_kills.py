import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from tests.promises.kill_child import OTHER, THREAD, Act, Parts, act
from tests.reading import branches, database_of, replayed, said, state_of, stored_items, topics
from tests.threads import registry_of
from unsay.conversation.conversation import Conversation
from unsay.effects import drive
from unsay.errors import ConflictError, InputError
from unsay.history.compensations import Entry, list_entries
from unsay.messages.content import text_of
from unsay.storage.items import thaw_messages

ROOT = Path(__file__).parents[2]
HELLO = ("say", "How do lists work?", "q1")
MORE = ("say", "And how do they grow?", "q2")
BOOKED = ("say", "UsageAccount seat 4A.", "q2")
AT_LENGTH = ("say", "How do lists work, at length?", "q1")
NEXT = "And then?"
CONFIG: Any = {"configurable": {"thread_id": THREAD}}
DOUBT = ("Undone:", "Possibly undone, please check:")
"""The texts about a compensation, and about one whose process died."""

pytestmark = pytest.mark.full


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """What is done in a thread while the process may be killed."""

    name: str
    before: Sequence[Act] = (HELLO,)
    """What is done in peace first."""

    acts: Sequence[Act]
    """The rest."""

    tools: bool = False
    """Whether the model has tools: then every step is a commit."""

    durability: str | None = None
    """Of a graph that a host runs without the conversation; `None` is the conversation's choice."""

    def __str__(self) -> str:
        return "-".join([self.name, *([self.durability] if self.durability else [])])


def turns(durability: str | None) -> list[Script]:
    """The ways in which a turn may go."""
    thrice = ("say", "Answer this thrice.", "q3")
    return [
        Script(name="turn", acts=[MORE], durability=durability),
        Script(name="twice", acts=[("say", "Answer this twice.", "q2")], durability=durability),
        Script(name="thrice", before=[HELLO, MORE], acts=[thrice], durability=durability),
        Script(name="look", acts=[("say", "Look.", "q2")], tools=True, durability=durability),
        Script(
            name="book-badly",
            acts=[("say", "UsageAccount badly seat 4A.", "q2")],
            tools=True,
            durability=durability,
        ),
    ]


SCRIPTS = [
    *(script for durability in (None, "sync", "async", "exit") for script in turns(durability)),
    Script(name="first-turn", before=[], acts=[HELLO, MORE]),
    Script(name="never-passed", acts=[("say", "This is always bad.", "q2")]),
    Script(name="topic", acts=[("say", "NEW: how is the weather?", "q2")]),
    Script(name="undo-command", before=[HELLO, MORE], acts=[("say", "/undo", "u1")]),
    Script(name="retry-command", before=[HELLO, MORE], acts=[("say", "/retry", "r1")]),
    Script(name="undo-tool", before=[HELLO, BOOKED], acts=[("say", "/undo", "u1")], tools=True),
    Script(name="rollback", before=[HELLO, MORE], acts=[("rollback", "1")]),
    Script(name="rollback-tool", before=[HELLO, BOOKED], acts=[("rollback", "1")], tools=True),
    Script(name="undo", before=[HELLO, MORE], acts=[("undo",), ("undo",)]),
    Script(name="redo", before=[HELLO, MORE, ("undo",)], acts=[("redo",)]),
    Script(name="restore", before=[HELLO, MORE, ("rollback", "1")], acts=[("restore",)]),
    Script(name="pick", before=[HELLO, MORE, ("rollback", "1")], acts=[("pick",)]),
    Script(name="retry", before=[HELLO, MORE], acts=[("retry",)]),
    Script(name="edit", before=[HELLO, MORE], acts=[("edit", "1", "How do sets work?")]),
    Script(name="remove", before=[HELLO, MORE], acts=[("remove", "1")]),
    Script(name="compact", before=[AT_LENGTH], acts=[("compact",)]),
    Script(
        name="same-topic",
        before=[HELLO, ("say", "NEW: how is the weather?", "q2")],
        acts=[("same_topic",)],
    ),
    Script(name="checkpoint", acts=[("checkpoint", "home")]),
    Script(name="fork", before=[HELLO, MORE], acts=[("fork",)]),
    Script(name="purge", before=[HELLO, MORE], acts=[("purge",)]),
]
TABLE = pytest.mark.parametrize("script", SCRIPTS, ids=str)
GOLDEN = 0.618
"""Multiples of it lie evenly between 0 and 1: where in each script a process is always killed.

It is killed there, and half a script away.
"""

KILLS = int(os.environ.get("UNSAY_TEST_KILLS", "25"))
"""How often each script is killed in the nightly run; a script has 20 to 330 instants."""


class Server:
    """The processes that are killed."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.promises.kill_child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )

    def run(self, folder: Path, script: Script, acts: Sequence[Act], **more: Any) -> int:
        """Do some things in another process and return its exit code."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        options = {
            "folder": str(folder),
            "tools": script.tools,
            "durability": script.durability,
            "acts": acts,
            "at": None,
            "tells": False,
            **more,
        }
        self._process.stdin.write(f"{json.dumps(options)}\n")
        self._process.stdin.flush()
        code = int(self._process.stdout.readline())
        assert code in (0, -signal.SIGKILL), (folder / "error.txt").read_text()
        return code

    def close(self) -> None:
        """End the server."""
        self._process.communicate()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsed:
    """A script that runs without a kill."""

    folder: Path
    """The thread as the script meets it."""

    ids: list[str | None]
    """Of the messages that the script meets."""

    records: list[list[str]]
    """The transcript before the first act, and after each."""

    paid: list[str]
    """The questions that the model was asked meanwhile."""

    instants: int
    """How many instants there are at which to kill."""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """Imports once for all kills."""
    running = Server()
    yield running
    running.close()


@pytest.fixture(scope="module")
def prepare(
    server: Server, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[Script], Rehearsed]:
    """Finds out how a script goes."""
    rehearsals: dict[str, Rehearsed] = {}

    def rehearsal(script: Script) -> Rehearsed:
        if str(script) not in rehearsals:
            rehearsals[str(script)] = _rehearse(server, script, tmp_path_factory.mktemp("kills"))
        return rehearsals[str(script)]

    return rehearsal


def _rehearse(server: Server, script: Script, root: Path) -> Rehearsed:
    folder = root / "before"
    copy = root / "rehearsal"
    folder.mkdir()
    server.run(folder, script, script.before)
    for name in ("done.txt", "instants.txt", "paid.txt"):
        (folder / name).unlink(missing_ok=True)
    with Parts(folder).open(tools=script.tools) as conversation:
        start = said(conversation.messages())
        ids = [message.id for message in conversation.messages()]
    copytree(folder, copy)
    assert 0 == server.run(copy, script, script.acts, tells=True)
    parts = Parts(copy)
    transcripts = [json.loads(line) for line in parts.lines("record.txt")]
    return Rehearsed(
        folder=folder,
        ids=ids,
        records=[start, *transcripts],
        paid=parts.lines("paid.txt"),
        instants=int(parts.lines("instants.txt")[-1]),
    )


@TABLE
def test_a_thread_survives_a_kill(
    server: Server, prepare: Callable[[Script], Rehearsed], script: Script, tmp_path: Path
) -> None:
    """Nothing committed is lost, nothing is doubled or paid twice, and the thread works."""
    rehearsal = prepare(script)
    for half in (0, 0.5):
        share = (GOLDEN * (1 + SCRIPTS.index(script)) + half) % 1
        instant = ceil(share * rehearsal.instants)
        was_killed = kill(server, script, rehearsal, instant, tmp_path / str(half))
        assert (
            was_killed or script.durability == "async"
        )  # its writes come in another order each time


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@TABLE
def test_a_thread_survives_a_kill_at_any_write(
    server: Server, prepare: Callable[[Script], Rehearsed], script: Script, tmp_path: Path
) -> None:
    """The same at instants all over the script, until a process runs through."""
    rehearsal = prepare(script)
    step = ceil(rehearsal.instants / KILLS)
    first = 1 + sum(map(ord, str(script))) % step
    for instant in range(first, rehearsal.instants + 1, step):
        kill(server, script, rehearsal, instant, tmp_path / str(instant))
    assert not kill(server, script, rehearsal, 2 * rehearsal.instants, tmp_path / "through")


def kill(server: Server, script: Script, rehearsal: Rehearsed, instant: int, folder: Path) -> bool:
    """Kill a process at an instant, and look at what it left; whether it came that far."""
    copytree(rehearsal.folder, folder)
    was_killed = server.run(folder, script, script.acts, at=instant) != 0
    Aftermath(script, rehearsal, folder).check()
    return was_killed


def _entries(conversation: Conversation) -> list[Entry]:
    return drive(list_entries(conversation.graph.store, THREAD))


class Aftermath:
    """What a killed process left, and how the next one continues."""

    def __init__(self, script: Script, rehearsal: Rehearsed, folder: Path) -> None:
        self.script = script
        self.rehearsed = rehearsal
        self.parts = Parts(folder)
        self.told = [json.loads(line) for line in self.parts.lines("done.txt")]
        self.paid = self.parts.lines("paid.txt")
        self.before = rehearsal.records[len(self.told)]
        acts = script.acts[len(self.told) :]
        self.act = acts[0] if acts else None
        self.after = rehearsal.records[len(self.told) + bool(acts)]

    def check(self) -> None:
        """All that must hold."""
        with self.parts.open(tools=self.script.tools) as conversation:
            if self.act == ("purge",) or self.script.name == "purge":
                self._check_purge(conversation)
                return
            self._check_look(conversation)
            if any(entry.status == "running" for entry in _entries(conversation)):
                self.after = [line.replace(*DOUBT) for line in self.after]
            if not self._step_is_stored(conversation):
                # Its process died before it could store the result: the tool may run again.
                ran = len(self.parts.lines("effects.txt"))
                self.after = [line.replace("receipt 0", f"receipt {ran}") for line in self.after]
            self._finish(conversation)
            assert self.after == said(conversation.messages())
            self._check_accounts(conversation)
            self._check_next(conversation)
            self._check_effects(conversation)

    def _step_is_stored(self, conversation: Conversation) -> bool:
        """Whether the store or the transcript has the result of each tool that ran."""
        store = conversation.graph.store
        texts = [
            text_of(message)
            for item in stored_items(store, "tool steps", THREAD)
            for message in thaw_messages(item.value["messages"])
        ]
        text = " ".join([*texts, *said(conversation.messages())])
        effects = self.parts.lines("effects.txt")
        return all(line.removeprefix("book ") in text for line in effects if "book" in line)

    def _check_look(self, conversation: Conversation) -> None:
        """Before anybody says anything: no act is half done, and what was told of is there."""
        look = said(conversation.messages())
        assert look in [self.before, self.after, *self._between()]
        transcript = {message.id for message in conversation.messages()}
        branch = {message.id for branch in branches(conversation) for message in branch.messages}
        met = {*self.rehearsed.ids, *(name for name in self.told if name)}
        assert set() == met - transcript - branch

    def _between(self) -> list[list[str]]:
        """The records that may stand while a turn is under way."""
        if self.act is None or self.act[0] not in ("say", "retry", "edit"):
            return []
        # A retry or an edit asks in its own words until the question is in their place.
        text = self.act[1] if self.act[0] == "say" else f"/{' '.join(self.act)}"
        if self.act[0] != "say":
            after = [line for line in self.after if line.startswith("human")]
            return [
                [*self.before[:position], *said_last]
                for position in range(len(self.before) + 1)
                for said_last in ([f"human: {text}"], after[-1:], [])
            ]
        if text in ("/retry", "/undo"):
            return [
                [*self.before[:position], *said_last]
                for position in range(len(self.before) + 1)
                for said_last in ([f"human: {text}"], [])
            ]
        numbers = range(0, len(self.before) + 1, 2) if "thrice" in text else [len(self.before)]
        return [[*self.before[:position], f"human: {text}"] for position in numbers]

    def _finish(self, conversation: Conversation) -> None:
        """Do again what may not have been done."""
        if self.act is None:
            return
        is_done = self.after == said(conversation.messages()) and (
            self.after != self.before
            or self.rehearsed.ids != [m.id for m in conversation.messages()]
        )
        verb = self.act[0]
        if verb == "say":
            reply = conversation.say(self.act[1], turn_id=self.act[2])
            if reply.kind == "notice":  # a command and its notice are not in the transcript
                assert self.after == said(conversation.messages())
            else:
                assert self.after[-1] == f"ai: {reply.text}"
            assert reply == conversation.say(self.act[1], turn_id=self.act[2])
            self._check_paid(is_answered=is_done)
        elif verb == "fork":
            self._check_fork(conversation)
        elif verb == "checkpoint":
            if self.act[1] not in [checkpoint["name"] for checkpoint in conversation.checkpoints()]:
                conversation.checkpoint(self.act[1])
        elif verb in ("compact", "same_topic"):
            self._check_context(conversation, verb)
        elif (
            verb in ("retry", "edit")
            and not is_done
            and conversation.timeline().turns[-1].answer is None
        ):
            conversation.resume()
        elif not is_done:
            act(conversation, self.act, None)

    def _check_context(self, conversation: Conversation, verb: str) -> None:
        """The context was changed once; a second time is refused."""
        with suppress(ConflictError, InputError):
            getattr(conversation, verb)()
        if verb == "compact":
            assert "They talked about lists." in str(state_of(conversation))
        else:
            assert 1 == len(topics(conversation))

    def _check_paid(self, *, is_answered: bool) -> None:
        """A stored answer, or tool step, is not paid for again."""
        paid = len(self.parts.lines("paid.txt"))
        normal = len(self.rehearsed.paid)
        if is_answered:
            assert len(self.paid) == paid
        assert paid <= normal + (1 if self.script.tools else len(self.paid))

    def _check_fork(self, conversation: Conversation) -> None:
        """The new thread is whole, or was not begun."""
        try:
            fork = conversation.fork(thread=OTHER)
        except ConflictError:
            database = database_of(conversation)
            fork = Conversation.open(
                database, **{**self.parts.options(tools=False), "thread": OTHER}
            )
        assert self.before == said(fork.messages())
        assert fork.messages() == replayed(fork).messages

    def _check_accounts(self, conversation: Conversation) -> None:
        """The event log contains each message of the transcript once."""
        transcript = conversation.messages()
        assert transcript == replayed(conversation).messages
        assert len(transcript) == len({message.id for message in transcript})

    def _check_next(self, conversation: Conversation) -> None:
        """The thread continues and rolls back, and leaves no run unfinished."""
        conversation.say(NEXT, turn_id="next")
        answer = f"ai: This answers {NEXT}, attempt 1."
        assert [*self.after, f"human: {NEXT}", answer] == said(conversation.messages())
        assert set() == {
            run.run_id for run in registry_of(conversation).runs().runs if run.status == "running"
        }
        conversation.undo()
        assert self.after == said(conversation.messages())

    def _check_effects(self, conversation: Conversation) -> None:
        """No compensation ran twice, and each that is reported as done ran.

        A host that does not commit after each tool may leave one unnoticed.
        """
        effects = self.parts.lines("effects.txt")
        cancel_lines = [line for line in effects if line.startswith("cancel")]
        assert len(cancel_lines) == len(set(cancel_lines))
        assert {line.removeprefix("cancel") for line in cancel_lines} <= {
            line.removeprefix("book") for line in effects if line.startswith("book")
        }
        entries = _entries(conversation)
        unknown = {"pending"} if self.script.durability in ("async", "exit") else set()
        assert {"done", "running", "made"} | unknown >= {entry.status for entry in entries}
        texts = [
            f"cancel {entry.compensation.result}" for entry in entries if entry.status == "done"
        ]
        assert set(texts) <= set(cancel_lines)

    def _check_purge(self, conversation: Conversation) -> None:
        """A purge that was cut short is made again, and leaves nothing."""
        registry_of(conversation).purge()
        database = database_of(conversation)
        assert [] == conversation.messages()
        assert [] == database.store.search(("unsay",), limit=10)
        conversation.say(*HELLO[1:2], turn_id=HELLO[2])
        assert self.rehearsed.records[0][:2] == said(conversation.messages())
