"""Threads that were recorded: what each line of a script changed, and a way to play the scripts again.

A script names a door and settings, and lists lines: questions, typed commands, and actions that begin with
`!`. What was seen after each line comes from public calls only, so other code can be compared with it. The file
holds what the code of its time did; `python -m tests.promises.recording` writes it anew.
"""

import json
import lzma
import random
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, RemoveMessage

from tests.graph.doors import DOORS, Door, Shell
from tests.graph.kit import config
from tests.graph.scripted_parts import Detector, in_memory
from unsay import reversible
from unsay.conversation.conversation import Conversation
from unsay.errors import UnsayError
from unsay.messages.content import text_of
from unsay.storage.sqlite import open_database
from unsay.testing import ScriptedChat

FILE = Path(__file__).parent / "recorded.json.xz"
SCRIPTS = 200

_RANDOM = re.compile(
    r"\b(?:[a-z_]+-)+[0-9a-f]{8,}[0-9a-f-]*\b|\b[0-9a-f]{8}-[0-9a-f-]{27,}\b|\b[0-9a-f]{16,}\b"
    r'|key="\w+"|\d{4}-\d\d-\d\d[T ][0-9:.+]+'
)
_SCORES = {"BAD": 0.1, "MIDDLING": 0.6, "good": 0.9}
_ENDS = 40  # an undo of everything ends long before

SETTINGS: tuple[dict[str, Any], ...] = (
    {},
    {"max_rollbacks": 1},
    {"max_rollbacks": 0, "on_topic_change": "keep"},
    {"live_messages": 4, "on_topic_change": "summarize"},
    {"live_messages": 8, "window_messages": 6},
    {"rollback_to": "checkpoint", "max_rollbacks": 1},
    {"confirm_rollback": True, "max_rollbacks": 1},
    {"on_exhausted": "ask", "max_rollbacks": 1},
    {"on_topic_change": "delete", "live_messages": 6},
)
PLACES = ("ours", "file", "host")
"""The databases: of unsay in memory and in a file, and LangGraph's saver and store, as a host has them."""

QUESTIONS = (
    *("What of castle", "What of mill", "NEW: What of lake", "BACK: What of castle"),
    *("お城は", "NEW: 湖は", "reserve a room at the inn", "予約 reserve"),
)
ACTIONS = (
    *("!fail What of sea", "!ask later", "!exchange", "!edit", "!remove", "!reopen", "!pick"),
    *("!approve", "!reject"),
)
COMMANDS = (
    *("/undo", "/undo", "/undo", "/redo", "/redo", "/restore", "/retry"),
    *("/rollback", "/rollback 1", "/rollback 2", "/rollback a", "/rollback nowhere"),
    *("/remove 1", "/remove 2", "/edit 1 What of lake", "/edit 2 海は"),
    *("/checkpoint", "/checkpoint a", "/checkpoint b", "/task work"),
    *("/pin", "/pin 1", "/unpin", "/unpin 1", "/forget 1", "/forget 1-2", "/same"),
    *("/compact", "/compact 1", "/good 1", "/bad 2 too short", "/recall castle"),
)


def scripts(count: int = SCRIPTS) -> Iterator[dict[str, Any]]:
    """Yield the scripts; each door and each of the settings has as many as any other."""
    for number in range(count):
        dice = random.Random(number)  # noqa: S311 - the lines of a test
        kinds = dice.choices((QUESTIONS, COMMANDS, ACTIONS), weights=(5, 5, 2), k=14)
        first = dice.choice(QUESTIONS[:2])
        yield {
            "door": DOORS[number % len(DOORS)].__name__,
            "settings": SETTINGS[number // len(DOORS) % len(SETTINGS)],
            "place": PLACES[number // len(DOORS) // len(SETTINGS) % len(PLACES)],
            "lines": [first, *map(dice.choice, kinds)],
        }


class Player:
    """A thread behind a door, to which the lines of a script are given."""

    def __init__(self, script: dict[str, Any], folder: Path) -> None:
        self.requests: list[list[list[str]]] = []
        self.calls = 0
        self.is_failing = False
        self.rooms: list[str] = []
        self.settings = {"summaries": "local", **script["settings"]}
        kind = next(door for door in DOORS if door.__name__ == script["door"])
        self.door = type(kind.__name__, (kind,), {"__init__": lambda *_: None})()
        self.door.path = folder / "threads.db"
        if kind is Shell or script["place"] == "file":
            self.door.database = open_database(self.door.path)
        else:
            self.door.database = (
                open_database(":memory:") if script["place"] == "ours" else in_memory()
            )
        self.door.conversation = self.conversation()

    def conversation(self) -> Conversation:
        """Return the thread, opened anew."""

        def cancel(to: str) -> None:
            self.rooms.append(f"-{to}")

        @reversible(undo=cancel, idempotent=True, describe="the room at {to}")
        def reserve(to: str) -> str:
            """Reserve a room."""
            self.rooms.append(f"+{to}")
            return f"reserved {to}"

        return Conversation(
            self.door.database,
            thread="t",
            model=ScriptedChat(script=self.model),
            judge=self.judge,
            detector=Detector(),
            tools=[reserve],
            settings=self.settings,
        )

    def model(self, messages: Sequence[BaseMessage]) -> AIMessage:
        """Return the next answer, or call the tool; the request is noted."""
        self.requests.append(
            [[message.type, without_ids(text_of(message))] for message in messages]
        )
        if self.is_failing:
            raise ConnectionError("no way to the model")
        self.calls += 1
        message = messages[-1]
        if "reserve" in text_of(message) and message.type == "human":
            call = {"name": "reserve", "args": {"to": f"inn {self.calls}"}, "id": f"c{self.calls}"}
            return AIMessage("", tool_calls=[call])
        quality = ("good", "good", "BAD", "MIDDLING", "good", "good", "MIDDLING")[self.calls % 7]
        return AIMessage(f"A {quality} answer, number {self.calls}: the castle by the lake.")

    def judge(self, messages: Any) -> float:
        """Return the score of the newest answer, by a word of it."""
        text = "\n".join(str(message.text) for message in messages)
        question = re.findall(r"A (BAD|MIDDLING|good) answer", text)
        return _SCORES[question[-1]] if question else 0.9

    def play(self, lines: Sequence[str]) -> list[dict[str, Any]]:
        """Give each line, then undo everything and redo it; return what was seen after each."""
        scenes = [self.step(line, number) for number, line in enumerate(lines)]
        for verb in ("/undo", "/redo"):
            for _ in range(_ENDS):
                scenes.append(self.step(verb, 0, door=Door))
                if scenes[-1]["refusal"]:
                    break
        return scenes

    def step(self, line: str, number: int, door: type[Door] | None = None) -> dict[str, Any]:
        """Give one line, and return what was seen of it."""
        self.requests = []
        text = f"{line}, {number}?" if line in QUESTIONS else line
        self.is_failing = line.startswith("!fail")
        refusal = notice = None
        try:
            if line.startswith("!"):
                self.act(*line[1:].partition(" ")[::2])
            elif door is not None:
                refusal = door.carry_out(self.door, text).refusal
            else:
                outcome = self.door.carry_out(text)
                refusal = outcome.refusal
                notice = outcome.notice
        except UnsayError as error:
            refusal = type(error).__name__
        self.is_failing = False
        return {
            "line": line,
            "refusal": refusal,
            "notice": without_ids(notice or ""),
            "requests": self.requests,
            "rooms": list(self.rooms),
            **self.seen(),
        }

    def act(self, action: str, text: str) -> None:
        """Do what is no typed line."""
        conversation = self.door.conversation
        graph = self.door.conversation.graph
        messages: list[AnyMessage] = conversation.messages()
        match action:
            case "fail":
                conversation.say(text)
            case "ask":
                conversation.add([("user", f"And {text}, {len(messages)}?")])
            case "exchange":
                conversation.add([("user", "And the moat?"), ("ai", "A good answer: wide.")])
            case "edit" if messages:
                message = messages[-1]
                edited_message = message.model_copy(
                    update={"content": f"{text_of(message)} (edited)"}
                )
                graph.update_state(config(), {"messages": [edited_message]})
            case "remove" if messages:
                graph.update_state(
                    config(), {"messages": [RemoveMessage(id=messages[-1].id or "")]}
                )
            case "reopen":
                self.door.conversation = self.conversation()
            case "pick":
                branch = conversation.branches()[-1:]
                ids = [
                    str(message.id)
                    for message in messages[:2]
                    if isinstance(message, HumanMessage | AIMessage)
                ]
                conversation.pick(ids, branch[0].id if branch else "nowhere")
            case "approve" | "reject":
                conversation.resume(action)

    def seen(self) -> dict[str, Any]:
        """Return what the thread holds, from public calls, without what is random."""
        conversation = self.door.conversation
        try:
            messages = conversation.messages()
        except UnsayError as error:
            return {"transcript": type(error).__name__}
        numbers = {message.id: number for number, message in enumerate(messages)}

        def plain(value: Any) -> Any:
            if isinstance(value, dict):
                return {name: plain(item) for name, item in value.items()}
            if isinstance(value, list | tuple):
                return [plain(item) for item in value]
            if isinstance(value, str):
                return f"message {numbers[value]}" if value in numbers else without_ids(value)
            return value

        timeline = plain(json.loads(json.dumps(asdict(conversation.timeline()), default=str)))
        branches = plain([asdict(branch) for branch in conversation.branches()])
        # Of one moment, and in the order of their random ids.
        for rows in (timeline["undone_calls"], timeline["branches"], branches):
            rows.sort(key=json.dumps)
        return {
            "transcript": [
                [
                    message.type,
                    without_ids(text_of(message)),
                    len(getattr(message, "tool_calls", ())),
                ]
                for message in messages
            ],
            "timeline": timeline,
            "branches": branches,
        }


def without_ids(text: str) -> str:
    """Return a text without ids, keys and times."""
    return _RANDOM.sub("RANDOM", text)


def play(script: dict[str, Any]) -> list[dict[str, Any]]:
    """Play a script in a new thread, and return what was seen after each line."""
    with TemporaryDirectory() as folder:
        player = Player(script, Path(folder))
        scenes = player.play(script["lines"])
        if script["place"] != "host":
            player.door.close()
        return scenes


@cache
def load() -> list[dict[str, Any]]:
    """Return the recorded scripts, each with its scenes."""
    recorded: list[dict[str, Any]] = json.loads(lzma.decompress(FILE.read_bytes()))
    return recorded


def write(report: Callable[[str], Any] = print) -> None:
    """Play all scripts, and write what was seen."""
    recorded = []
    for number, script in enumerate(scripts()):
        recorded.append({**script, "scenes": play(script)})
        report(f"{number}: {len(recorded[-1]['scenes'])} scenes")
    text = json.dumps(recorded, ensure_ascii=False, separators=(",", ":"))
    FILE.write_bytes(lzma.compress(text.encode(), preset=9))


if __name__ == "__main__":
    sys.exit(write())
