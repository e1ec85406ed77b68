"""`unsay checkpoint`, `rollback` and `undo`: the verbs that need no model."""

from dataclasses import asdict

import click

from unsay.cli.labels import labels
from unsay.cli.output import note, print_json, versioned
from unsay.cli.place import existing_thread
from unsay.graph.conversation import Conversation
from unsay.graph.reply import Moved
from unsay.prompts.catalogue import texts
from unsay.transcript.text import newest_language
from unsay.types import Language


def checkpoint(*, name: str | None, thread: str | None, db: str | None, as_json: bool) -> None:
    """Mark the newest message as good."""
    with existing_thread(db, thread) as found:
        conversation = found.open()
        made = conversation.checkpoint(name)
        if as_json:
            print_json(versioned(thread_id=found.thread_id, checkpoint=made))
        else:
            words = texts(_language(conversation)).checkpoint_made
            click.echo(words.format(name=made["name"] or made["id"]))


def rollback(*, to: str | None, thread: str | None, db: str | None, as_json: bool) -> None:
    """Go back to a checkpoint and say where the talk stands."""
    with existing_thread(db, thread) as found:
        conversation = found.open()
        language = _language(conversation)
        moved = conversation.rollback(to)
        words = texts(language).rolled_back
        line = words.format(where=moved.at, turns=moved.turns, removed=moved.removed)
        _tell(found.thread_id, moved, line, language, as_json=as_json)


def undo(*, thread: str | None, db: str | None, as_json: bool) -> None:
    """Take back the last step and say where the talk stands."""
    with existing_thread(db, thread) as found:
        conversation = found.open()
        language = _language(conversation)
        moved = conversation.undo()
        words = texts(language).undone
        line = words.format(turns=moved.turns, removed=moved.removed, restored=moved.restored)
        _tell(found.thread_id, moved, line, language, as_json=as_json)


def _language(conversation: Conversation) -> Language:
    return newest_language(conversation.messages())


def _tell(thread_id: str, moved: Moved, line: str, language: Language, *, as_json: bool) -> None:
    if as_json:
        print_json(versioned(thread_id=thread_id, **asdict(moved)))
        return
    click.echo(line)
    if moved.question:
        note(labels(language).asked.format(question=moved.question))
