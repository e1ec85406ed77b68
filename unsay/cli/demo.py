"""`unsay demo`: a scripted conversation that needs no API key.

Only the texts in `demo.toml` are scripted; scores, topics, summaries and rollbacks are computed.
"""

import tempfile
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any

import click

import unsay
from unsay.cli.output import print_json, shell_language, versioned
from unsay.cli.screen import Screen, event_object
from unsay.cli.terminal import columns, wrapped
from unsay.prompts.catalogue import Texts
from unsay.results.lists import checkpoints_text
from unsay.results.results import Event
from unsay.results.timeline import tree_text
from unsay.settings.settings import Settings
from unsay.testing import ScriptedChat
from unsay.types import Language

Script = Mapping[str, Any]
"""A language of `demo.toml`: its texts, and the acts with a `title`, a `question` and its `replies`."""


def scenario(language: Language) -> Script:
    """Return the script in one language."""
    scripts = tomllib.loads(Path(__file__).with_name("demo.toml").read_text("utf-8"))
    script: Script = scripts[language]
    return script


def demo(*, lang: Language | None, db: str | None, as_json: bool) -> None:
    language = lang or shell_language()
    script = scenario(language)
    model = ScriptedChat(replies={act["question"]: act["replies"] for act in script["acts"]})
    # The demo is the same everywhere: the environment's settings are not read, no model judges.
    settings = Settings.model_construct(judging="local", summaries="local", language=language)
    with tempfile.TemporaryDirectory(prefix="unsay-demo-") as folder:
        path = str(Path(folder) / "demo.db") if db is None else db
        with unsay.Conversation.open(path, model=model, settings=settings) as conversation:
            stage: _Objects | _Terminal = _Objects(script, conversation)
            if not as_json:
                stage = _Terminal(script, conversation, Texts(language))
            stage.begin()
            for number, act in enumerate(script["acts"], 1):
                stage.raise_curtain(number, act)
                if inserted := act.get("inserted"):
                    question, answer = inserted
                    conversation.add([("user", question), ("assistant", answer)])
                for event in conversation.stream(act["question"]):
                    stage.show(event)
            location = script["gone"]
            if db is not None:
                location = script["kept"].format(db=quote(db), thread=conversation.thread_id)
            stage.end(script["ending"].format(where=location))


class _Terminal:
    """Shows the demo to a person, all of it on standard output."""

    def __init__(self, script: Script, conversation: "unsay.Conversation", labels: Texts) -> None:
        self._script, self._conversation, self._labels = script, conversation, labels
        self._screen = Screen(labels, live=True, notes_apart=False)

    def begin(self) -> None:
        click.echo(wrapped(self._script["heading"], columns=columns()))

    def raise_curtain(self, number: int, act: Script) -> None:
        title = f"{number}. " + wrapped(act["title"], columns=columns(), indent=3)
        click.echo("\n" + click.style(title, bold=True) + "\n")
        if inserted := act.get("inserted"):
            self._screen.note(self._script["insertion"])
            for annotation, words in zip("><", inserted, strict=True):
                self._screen.note(f"{annotation} {words}")
            click.echo()
        click.echo("> " + wrapped(act["question"], columns=columns(), indent=2))

    def show(self, event: Event) -> None:
        self._screen.show(event)

    def end(self, ending: str) -> None:
        timeline = self._conversation.timeline()
        marks: Any = timeline.checkpoints
        for title, body in (
            (self._script["checkpoints"], checkpoints_text(marks, self._labels)),
            (self._script["tree"], tree_text(timeline, self._labels, color=True)),
        ):
            click.echo("\n" + click.style(title, bold=True) + f"\n\n{body}")
        click.echo()
        for line in ending.split("\n"):
            # A command is to be pasted, and a line break within its path would break it.
            click.echo(line if "unsay " in line else wrapped(line, columns=columns()))


@dataclass(frozen=True, slots=True)
class _Objects:
    """Shows the demo to a program: one event a line."""

    script: Script
    conversation: "unsay.Conversation"

    def begin(self) -> None:
        self._print("demo", self.script["heading"], {"thread_id": self.conversation.thread_id})

    def raise_curtain(self, number: int, act: Script) -> None:
        if inserted := act.get("inserted"):
            question, answer = inserted
            self._print("added", "", {"question": question, "answer": answer})
        self._print("question", act["question"], {"number": number, "title": act["title"]})

    def show(self, event: Event) -> None:
        print_json(event_object(event))

    def end(self, ending: str) -> None:
        self._print("timeline", ending, self.conversation.timeline().to_dict())

    def _print(self, event: str, text: str, data: Mapping[str, Any]) -> None:
        print_json(versioned(event=event, text=text, message_id=None, data=data))
