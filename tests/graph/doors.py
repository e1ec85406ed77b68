"""The doors of a conversation: methods, typed lines, a host's graph and its flags, and the shell.

Each door carries out the same lines in a thread of its own. `Door.seen` returns what the thread holds
in terms that do not depend on the door: texts instead of ids, and no commands and notices.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from click.testing import CliRunner
from langchain_core.messages import AIMessage, AnyMessage

from tests.graph.kit import config
from tests.graph.scripted_parts import Detector
from tests.reading import RemovedBranch, branches, listed_branches, redo_steps, topics, undo_steps
from unsay.cli.main import cli
from unsay.context.compaction import live_spans
from unsay.conversation.conversation import Conversation
from unsay.errors import UnsayError
from unsay.messages.annotations import annotation_of, is_notice, spoken
from unsay.messages.content import text_of
from unsay.orders.order import order_values, typed_order
from unsay.orders.parse import parse_command
from unsay.storage.base import Database
from unsay.storage.sqlite import open_database
from unsay.testing import ScriptedChat

SETTINGS = {"summaries": "local", "max_rollbacks": 1}
SCORES = {"BAD": 0.1, "MIDDLING": 0.6, "good": 0.9}
QUALITIES = ("good", "good", "BAD", "MIDDLING", "good", "good", "MIDDLING")
_IDS = re.compile(r"\b[a-z_]*-+[0-9a-f]{8}[0-9a-f-]*\b|\b[0-9a-f]{8}-[0-9a-f-]{27}\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What a door said about a line; `None` for what it does not say."""

    refusal: str | None = None
    notice: str | None = None


class Door:
    """A thread, and a way to give orders: this one calls the methods of `Conversation`."""

    def __init__(self, path: Path) -> None:
        self.calls = 0
        self.texts: dict[str | None, str] = {None: "the start"}
        self.database = self.open(path)
        self.conversation = Conversation.open(
            self.database,
            thread="t",
            model=ScriptedChat(script=self.model),
            judge=self.judge,
            detector=Detector(),
            settings=SETTINGS,
        )

    def open(self, path: Path) -> Database:
        """Return a new database, in memory or at the path."""
        del path
        return open_database(":memory:")

    def model(self, _: Any) -> AIMessage:
        """Return the next answer; some are bad, and some not good enough for a checkpoint."""
        self.calls += 1
        quality = QUALITIES[self.calls % len(QUALITIES)]
        return AIMessage(f"A {quality} answer, number {self.calls}: the castle by the lake.")

    def judge(self, messages: Any) -> float:
        """Return the score of the newest answer, by a word of it."""
        text = "\n".join(str(message.text) for message in messages)
        return SCORES[re.findall(r"A (BAD|MIDDLING|good) answer", text)[-1]]

    def close(self) -> None:
        """Close the database."""
        self.database.close()

    def carry_out(self, line: str) -> Told:
        """Carry out a line as a person could type it, a question or a command."""
        command = parse_command(line)
        try:
            if command is None:
                self.conversation.say(line)
                return Told()
            return self.order(command["verb"], command["argument"])
        except UnsayError as error:
            return Told(refusal=type(error).__name__)

    def order(self, verb: str, argument: str) -> Told:
        """Carry out a command."""
        METHODS[verb](self.conversation, argument)
        return Told(refusal="")

    def state(self) -> Mapping[str, Any]:
        """Return the stored state."""
        values: Mapping[str, Any] = self.conversation.graph.get_state(config()).values
        return values

    def seen(self) -> dict[str, Any]:
        """Return what the thread holds, without ids."""
        state = self.state()
        messages = spoken(state.get("messages", []))
        compaction: Any = state.get("compaction") or {}
        for branch in branches(self.conversation):
            self._note([*spoken(branch.messages), *branch.drafts])
        self._note(messages)
        names = {
            "checkpoints": ("name", "message_id", "score", "turn", "topic"),
            "pins": ("message_id",),
            "forgotten": ("kind", "message_ids"),
        }
        fields = {key: self._fields(state.get(key, []), *names[key]) for key in names}
        return fields | {
            "transcript": list(map(text_of, messages)),
            "judged": [
                (
                    annotation.get("outcome"),
                    annotation.get("turn"),
                    annotation.get("topic"),
                    _label(annotation),
                )
                for annotation in map(annotation_of, messages)
            ],
            "sent next": (
                self._named(list(state.get("asked_for", []))),
                [self._named(span["through"]) for span in live_spans(messages, compaction)],
            ),
            "undo": self._fields(undo_steps(self.conversation), "kind", "base"),
            "redo": self._fields(redo_steps(self.conversation), "kind", "base", "at"),
            "topics": [(run.label, self._named(run.start)) for run in topics(self.conversation)],
            "branches": [
                self._branch(branch) for branch in listed_branches(self.conversation) if branch.size
            ],
            "score": state.get("quality_score"),
        }

    def _fields(self, values: Sequence[Mapping[str, Any]], *fields: str) -> list[dict[str, Any]]:
        """Return some fields of each value, with texts instead of ids."""
        return [{field: self._named(value[field]) for field in fields} for value in values]

    def _note(self, messages: Sequence[AnyMessage]) -> None:
        self.texts |= {message.id: text_of(message) for message in messages}

    def _named(self, value: Any) -> Any:
        """Return a value with texts instead of ids of messages."""
        if isinstance(value, list):
            return list(map(self._named, value))
        if value in self.texts:
            return self.texts[value]
        return without_ids(value) if isinstance(value, str) else value

    def _branch(self, branch: RemovedBranch) -> tuple[Any, ...]:
        texts = list(map(text_of, spoken(branch.messages)))
        return branch.kind, self._named(branch.base), texts, list(map(text_of, branch.drafts))


def _label(annotation: Mapping[str, Any]) -> Any:
    return annotation.get("rating", {}).get("label")


def without_ids(text: str) -> str:
    """Return a text without ids."""
    return _IDS.sub("ID", text)


class Typed(Door):
    """Each line is typed through `Conversation.say`."""

    def carry_out(self, line: str) -> Told:
        """See `Door.carry_out`."""
        reply = self.conversation.say(line)
        return Told(notice=without_ids(reply.text) if reply.kind == "notice" else "")


class Graph(Door):
    """Each line is a message of a host that runs the compiled graph."""

    def carry_out(self, line: str) -> Told:
        """See `Door.carry_out`."""
        return self.run({"messages": [("user", line)]})

    def run(self, value: Mapping[str, Any]) -> Told:
        """Run the graph on an input."""
        self.conversation.graph.invoke(value, config())
        state = self.state()
        last = state["messages"][-1]
        refusal = state.get("refusal")
        text = without_ids(text_of(last)) if is_notice(last) else ""
        return Told(notice=text, refusal=refusal["kind"] if refusal else "")


class Flags(Graph):
    """A host that orders rollbacks and tasks by its flags, and types the other commands."""

    def carry_out(self, line: str) -> Told:
        """See `Door.carry_out`."""
        verb, _, argument = line.partition(" ")
        if verb == "/rollback" and not argument.isdecimal():
            outcome = self.run(
                {"should_rollback": True, "rollback_checkpoint_id": argument or None}
            )
        elif verb == "/task":
            return self.run({"start_task": argument})
        else:
            return super().carry_out(line)
        return Told(refusal=outcome.refusal)


class Orders(Graph):
    """A host that gives each command as an `order`, without a message."""

    def carry_out(self, line: str) -> Told:
        """See `Door.carry_out`."""
        command = parse_command(line)
        if command is None:
            return super().carry_out(line)
        verb = command["verb"]
        argument = command["argument"]
        values = order_values(typed_order(verb, argument))
        if verb == "rollback" and argument.isdecimal():
            values = {"verb": verb, "turns": int(argument)}
        if verb == "forget":
            values = {"verb": verb, "turns": argument}
        outcome = self.run({"order": {name: values[name] for name in values if name != "typed"}})
        return Told(refusal=outcome.refusal)


class Shell(Door):
    """Each command is one of the command line, in this process; only answers come from a method."""

    def __init__(self, path: Path) -> None:
        self.path = path
        super().__init__(path)

    def open(self, path: Path) -> Database:
        """See `Door.open`."""
        return open_database(path)

    def order(self, verb: str, argument: str) -> Told:
        """See `Door.order`."""
        if verb not in ARGUMENTS:
            return super().order(verb, argument)
        options = [*ARGUMENTS[verb](argument), "--thread", "t", "--db", str(self.path), "--json"]
        result = CliRunner().invoke(cli, options)
        if result.exit_code:
            return Told(refusal=json.loads(result.stdout)["error"]["type"])
        return Told(refusal="")


Method = Callable[[Conversation, str], Any]


def _number(argument: str) -> int | None:
    return int(argument) if argument.isdecimal() else None


def _rollback(conversation: Conversation, argument: str) -> None:
    turns = _number(argument)
    conversation.rollback(argument or None if turns is None else None, turns=turns)


def _rate(label: str) -> Method:
    def rate(conversation: Conversation, argument: str) -> None:
        number, _, note = argument.partition(" ")
        conversation.ratings.add(int(number), label, note=note)

    return rate


def _edit(conversation: Conversation, argument: str) -> None:
    number, _, text = argument.partition(" ")
    conversation.edit(int(number), text)


METHODS: dict[str, Method] = {
    "undo": lambda c, _: c.undo(),
    "redo": lambda c, _: c.redo(),
    "rollback": _rollback,
    "remove": lambda c, argument: c.remove(int(argument)),
    "restore": lambda c, argument: c.restore(argument or None),
    "retry": lambda c, _: c.retry(),
    "edit": _edit,
    "checkpoint": lambda c, argument: c.checkpoint(argument or None),
    "task": lambda c, argument: c.checkpoint(argument, task=True),
    "pin": lambda c, argument: c.pins.add(turn=_number(argument)),
    "unpin": lambda c, argument: c.pins.remove(turn=_number(argument)),
    "forget": lambda c, argument: c.forget(turns=argument),
    "same": lambda c, _: c.same_topic(),
    "compact": lambda c, argument: c.compact(argument or None),
    "recall": lambda c, argument: c.recall(argument),
    "good": _rate("good"),
    "bad": _rate("bad"),
    "branches": lambda c, _: c.branches(),
    "checkpoints": lambda c, _: c.checkpoints(),
    "forgotten": lambda c, _: c.forgotten(),
    "timeline": lambda c, _: c.timeline(),
    "help": lambda _, __: None,
}


def _turn(verb: str) -> Callable[[str], list[str]]:
    return lambda argument: [verb, *(["--turn", argument] if argument else [])]


def _plain(verb: str) -> Callable[[str], list[str]]:
    return lambda argument: [verb, *([argument] if argument else [])]


ARGUMENTS: dict[str, Callable[[str], list[str]]] = {
    **{verb: _plain(verb) for verb in ("undo", "redo", "remove", "restore", "checkpoint", "task")},
    **{verb: _plain(verb) for verb in ("same", "recall", "branches", "checkpoints", "timeline")},
    **{verb: _turn(verb) for verb in ("pin", "unpin", "forget")},
    "rollback": lambda argument: (
        ["rollback", "--turns", argument] if argument.isdecimal() else _plain("rollback")(argument)
    ),
}

DOORS: tuple[type[Door], ...] = (Door, Typed, Graph, Flags, Orders, Shell)
