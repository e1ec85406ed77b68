"""`unsay label`, `end` and `purge`: what becomes of a thread."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict

import click

from unsay.cli.output import note, print_json, versioned
from unsay.cli.place import Found, existing_thread
from unsay.cli.record_labels import RecordLabels, record_labels
from unsay.effects import drive
from unsay.errors import UnknownThreadError
from unsay.graph.trees import one_line
from unsay.history.catalogue import ThreadEntry
from unsay.history.database import translated
from unsay.history.sessions import find_session, get_session
from unsay.history.sessions import label as change
from unsay.transcript.text import language_of

TITLE_CELLS = 60
"""So much of a title is shown when a person is asked."""


def label(
    *,
    labels: Mapping[str, str],
    remove: Sequence[str],
    thread: str | None,
    db: str | None,
    as_json: bool,
) -> None:
    """Change a thread's labels and print those it has."""
    if both := sorted(set(labels) & set(remove)):
        context = click.get_current_context()
        raise click.UsageError(f"The label {both[0]!r} is set and removed at once.", context)
    with existing_thread(db, thread) as found:
        entry = _labelled(found, {**labels, **dict.fromkeys(remove)})
        if as_json:
            print_json(versioned(**asdict(entry)))
            return
        for name, value in entry.labels.items():
            click.echo(f"{name}={value}")


def end(*, thread: str, db: str | None, as_json: bool) -> None:
    """End a thread and say so."""
    with existing_thread(db, thread) as found:
        entry = found.open().end()
        if as_json:
            print_json(versioned(**asdict(entry)))
        else:
            click.echo(_words(entry).ended.format(thread=found.thread_id))


def purge(*, thread: str, yes: bool, db: str | None, as_json: bool) -> None:
    """Remove a thread, once that is sure, and say what went."""
    with existing_thread(db, thread) as found:
        with translated(found.database.path):
            entry = drive(find_session(found.database.store, thread))
        words = _words(entry)
        if not yes and not _agreed(thread, entry, words):
            note(words.kept.format(thread=thread))
            click.get_current_context().exit(1)
        purged = found.open().purge()
        counts = asdict(purged)
        if not any(counts.values()):
            raise UnknownThreadError(
                f"There is no thread {thread!r} in {found.database.path!r}, and nothing was "
                "purged; `unsay threads` lists those there are"
            )
        if as_json:
            print_json(versioned(thread_id=thread, **counts))
        else:
            click.echo(words.purged.format(thread=thread, **counts))


def _agreed(thread: str, entry: ThreadEntry | None, words: RecordLabels) -> bool:
    """Whether a person says that a thread may go.

    Raises:
        UsageError: There is nobody to ask.
    """
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        context = click.get_current_context()
        raise click.UsageError("A purge cannot be undone: give --yes to have it done.", context)
    turns, title = (entry.turns, one_line(entry.title, TITLE_CELLS)) if entry else (0, "")
    question = words.purge.format(thread=thread, turns=turns, title=title)
    return click.confirm(question, err=True)


def _labelled(found: Found, changes: Mapping[str, str | None]) -> ThreadEntry:
    """The thread's line with its labels changed; `None` takes one off."""
    store, thread = found.database.store, found.thread_id
    with translated(found.database.path):
        return drive(change(store, thread, changes) if changes else get_session(store, thread))


def _words(entry: ThreadEntry | None) -> RecordLabels:
    """The words in the language of a thread's title; its messages may be past reading."""
    return record_labels(language_of(entry.title if entry else ""))
