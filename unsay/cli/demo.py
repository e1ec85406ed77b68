"""`unsay demo`: what unsay does, on a scripted conversation that needs no key."""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from unsay.cli.output import print_json, versioned
from unsay.cli.scenario import Act, Scenario, scenario
from unsay.cli.session import event_object
from unsay.cli.strings import Labels
from unsay.cli.terminal import Screen, columns, wrapped
from unsay.conversation.conversation import Conversation
from unsay.conversation.results import Event
from unsay.conversation.tree import tree_text
from unsay.operations.commands import checkpoints_text
from unsay.prompts.catalog import texts
from unsay.settings import Settings
from unsay.testing import ScriptedChat
from unsay.types import Language


def demo(*, lang: Language, db: str | None, as_json: bool) -> None:
    """Play the script and show what unsay makes of it."""
    script = scenario(lang)
    with _opened(script, lang, db) as conversation:
        stage = _Objects() if as_json else _Terminal(lang)
        stage.begin(script, conversation)
        for number, act in enumerate(script.acts, 1):
            stage.raise_curtain(number, act, script)
            if act.inserted is not None:
                asked, said = act.inserted
                conversation.add([("user", asked), ("assistant", said)])
            for event in conversation.stream(act.question):
                stage.show(event)
        where = script.gone
        if db is not None:
            where = script.kept.format(db=db, thread=conversation.thread_id)
        stage.end(script, conversation, where)


@contextmanager
def _opened(script: Scenario, lang: Language, db: str | None) -> Iterator[Conversation]:
    """The demo's conversation, by default in a file that is deleted afterwards.

    Its settings are the defaults whatever the environment says, so that the demo
    is the same everywhere; the rules alone judge.
    """
    settings = Settings.model_construct(judging="local", language=lang)
    model = ScriptedChat(replies=script.script())
    with tempfile.TemporaryDirectory(prefix="unsay-demo-") as folder:
        path = str(Path(folder) / "demo.db") if db is None else db
        with Conversation.open(path, model=model, settings=settings) as conversation:
            yield conversation


class _Terminal:
    """Shows the demo to a person; all of it is what was asked for, so all goes to one stream."""

    def __init__(self, lang: Language) -> None:
        self._lang = lang
        self._screen = Screen(Labels(lang), live=True, notes_apart=False)

    def begin(self, script: Scenario, conversation: Conversation) -> None:
        del conversation
        click.echo(wrapped(script.heading, columns=columns()))

    def raise_curtain(self, number: int, act: Act, script: Scenario) -> None:
        title = f"{number}. " + wrapped(act.title, columns=columns(), indent=3)
        click.echo("\n" + click.style(title, bold=True) + "\n")
        if act.inserted is not None:
            self._screen.note(script.insertion)
            for mark, words in zip("><", act.inserted, strict=True):
                self._screen.note(f"{mark} {words}")
            click.echo()
        click.echo("> " + wrapped(act.question, columns=columns(), indent=2))

    def show(self, event: Event) -> None:
        self._screen.show(event)

    def end(self, script: Scenario, conversation: Conversation, where: str) -> None:
        seen = conversation.timeline()
        for title, body in (
            (script.checkpoints, checkpoints_text(seen.checkpoints, texts(self._lang))),
            (script.tree, tree_text(seen, color=True)),
        ):
            click.echo("\n" + click.style(title, bold=True) + f"\n\n{body}")
        click.echo("\n" + wrapped(script.ending.format(where=where), columns=columns()))


class _Objects:
    """Shows the demo to a program: one event a line."""

    def begin(self, script: Scenario, conversation: Conversation) -> None:
        self._print("demo", script.heading, {"thread_id": conversation.thread_id})

    def raise_curtain(self, number: int, act: Act, script: Scenario) -> None:
        del script
        if act.inserted is not None:
            asked, said = act.inserted
            self._print("added", "", {"question": asked, "answer": said})
        self._print("question", act.question, {"number": number, "title": act.title})

    def show(self, event: Event) -> None:
        print_json(event_object(event))

    def end(self, script: Scenario, conversation: Conversation, where: str) -> None:
        self._print(
            "timeline", script.ending.format(where=where), conversation.timeline().to_dict()
        )

    def _print(self, event: str, text: str, data: Mapping[str, Any]) -> None:
        print_json(versioned(event=event, text=text, message_id=None, data=data))
