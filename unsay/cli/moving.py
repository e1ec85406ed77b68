"""`unsay checkpoint`, `rollback`, `undo`, `redo`, `restore` and `pick`: they need no model."""

from collections.abc import Sequence
from dataclasses import asdict

import click

from unsay.cli.branch_labels import BranchLabels, branch_labels
from unsay.cli.columns import block
from unsay.cli.labels import labels
from unsay.cli.output import note, print_json, versioned
from unsay.cli.pages import line
from unsay.cli.place import Found, existing_thread
from unsay.cli.screen import UNBOUNDED
from unsay.graph.conversation import Conversation
from unsay.graph.reply import Moved, Preview
from unsay.nodes.compensation import report_text
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
            words = texts(language_in(conversation)).checkpoint_made
            click.echo(words.format(name=made["name"] or made["id"]))


def rollback(
    *,
    to: str | None,
    turns: int | None,
    preview: bool,
    thread: str | None,
    db: str | None,
    as_json: bool,
) -> None:
    """Go back and say where the talk stands, or only say what would go."""
    with existing_thread(db, thread) as found:
        conversation = found.open()
        language = language_in(conversation)
        if preview:
            seen = conversation.preview(to, turns=turns)
            _foretell(found, seen, branch_labels(language), as_json=as_json)
        else:
            moved = conversation.rollback(to, turns=turns)
            _tell(found, moved, texts(language).rolled_back, language, as_json=as_json)


def undo(*, thread: str | None, db: str | None, as_json: bool) -> None:
    """Take back the last step and say where the talk stands."""
    with existing_thread(db, thread) as found:
        conversation = found.open()
        language = language_in(conversation)
        _tell(found, conversation.undo(), texts(language).undone, language, as_json=as_json)


def redo(*, thread: str | None, db: str | None, as_json: bool) -> None:
    """Make the step again that was undone, and say where the talk stands."""
    with existing_thread(db, thread) as found:
        conversation = found.open()
        moved = conversation.redo()
        language = language_in(conversation)
        _tell(found, moved, texts(language).redone, language, as_json=as_json)


def restore(*, what: str, thread: str | None, db: str | None, as_json: bool) -> None:
    """Bring something back and say where the talk stands."""
    with existing_thread(db, thread) as found:
        conversation = found.open()
        moved = conversation.restore(what)
        language = language_in(conversation)
        _tell(found, moved, branch_labels(language).restored, language, as_json=as_json)


def pick(
    *,
    message_ids: Sequence[str],
    branch: str,
    thread: str | None,
    db: str | None,
    as_json: bool,
) -> None:
    """Put messages of another branch at the end and say where the talk stands."""
    with existing_thread(db, thread) as found:
        conversation = found.open()
        moved = conversation.pick(message_ids, branch)
        language = language_in(conversation)
        _tell(found, moved, branch_labels(language).restored, language, as_json=as_json)


def language_in(conversation: Conversation) -> Language:
    """The language of what was said last."""
    return newest_language(conversation.messages())


def _tell(found: Found, moved: Moved, words: str, language: Language, *, as_json: bool) -> None:
    if as_json:
        print_json(versioned(thread_id=found.thread_id, **asdict(moved)))
        return
    told = words.format(
        where=moved.at, turns=moved.turns, removed=moved.removed, restored=moved.restored
    )
    click.echo(told)
    if effects := report_text(moved.report, texts(language)):
        note(effects)
    if moved.question:
        note(labels(language).asked.format(question=moved.question))


def _foretell(found: Found, seen: Preview, words: BranchLabels, *, as_json: bool) -> None:
    if as_json:
        print_json(versioned(thread_id=found.thread_id, **asdict(seen)))
        return
    counts = {"turns": seen.turns, "messages": len(seen.message_ids), **asdict(seen.tokens)}
    click.echo(words.preview.format(where=seen.at))
    click.echo(words.gone.format(**counts))
    for question in seen.questions:
        click.echo(line("", words.question.format(question=question)))
    marks = [each["name"] or each["id"] for each in seen.checkpoints]
    standing = [each.description for each in seen.compensations if each.obstacle]
    named = {words.checkpoints: marks, words.tools: seen.tool_calls, words.standing: standing}
    for label, names in named.items():
        if names:
            told = label.format(names=", ".join(names))
            click.echo(block(told, columns=UNBOUNDED, indent=0))
