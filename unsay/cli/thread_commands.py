"""`unsay threads`, `timeline` and `checkpoints`: looking without changing anything."""

import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict
from typing import Any

import click
from langgraph.store.base import BaseStore

from unsay.cli.output import note, print_json, versioned
from unsay.cli.record_strings import RecordLabels, record_labels
from unsay.cli.replay_commands import print_view
from unsay.cli.rollback_commands import language_in
from unsay.cli.session import Found, existing_thread, exists, location
from unsay.cli.tables import gathered, tell_more
from unsay.conversation.tree import one_line, tree_text
from unsay.effects import drive
from unsay.errors import UnknownThreadError
from unsay.history.threads import (
    ThreadEntry,
    find_session,
    get_session,
    list_threads,
    search_sessions,
)
from unsay.history.threads import label as change
from unsay.messages.content import language_of, newest_language
from unsay.operations.commands import checkpoints_text
from unsay.operations.usage_report import PURPOSES, Totals, brief_text, totals_text
from unsay.prompts.catalog import texts
from unsay.storage.base import translated
from unsay.storage.pagination import Slice
from unsay.storage.sqlite import open_database

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


def tokens(*, thread: str | None, db: str | None, as_json: bool) -> None:
    """Print a thread's totals."""
    with existing_thread(db, thread) as found:
        conversation = found.open()
        totals = conversation.tokens()
        if as_json:
            print_json(versioned(thread_id=found.thread_id, **totals_dict(totals)))
        else:
            click.echo(totals_text(totals, texts(language_in(conversation))))


def totals_dict(totals: Totals) -> dict[str, Any]:
    """A thread's totals as plain JSON; costs in millionths."""
    window = totals.window
    used = None if window is None else {"size": window.window, "parts": dict(window.parts)}
    named = {name: asdict(getattr(totals.spent, name)) for name in PURPOSES}
    gauges = [{**asdict(each), "share": each.share} for each in totals.gauges]
    total = asdict(totals.spent.total)
    return {"window": used, "spent": {**named, "total": total}, "budgets": gauges}


def threads(*, db: str | None, as_json: bool, **filters: Any) -> None:
    """Print the threads: all, the one spoken in last first, or those that are asked for."""
    asked = {name: given for name, given in filters.items() if given not in (None, {})}
    found: Slice[ThreadEntry] = Slice(lines=(), cursor=None)
    if exists(db):
        with closing(open_database(location(db))) as database, translated(database.path):
            found = _searched(database.store, asked) if asked else _all(database.store)
    if as_json:
        entries = [asdict(each) for each in found.lines]
        print_json(versioned(threads=entries, **({"cursor": found.cursor} if asked else {})))
        return
    for each in found.lines:
        click.echo(_line(each))
    tell_more(found.cursor)
    if not found.lines:
        begin = f"There is no thread in {location(db)!r} yet; `unsay chat` begins one."
        note("No thread fits." if asked else begin)


def timeline(*, view: int | None, thread: str | None, db: str | None, as_json: bool) -> None:
    """Print a thread's turns, checkpoints and cuts, or what the model was sent in one turn."""
    with existing_thread(db, thread) as found:
        conversation = found.open()
        if view is not None:
            print_view(found.thread_id, conversation.view(view), as_json=as_json)
            return
        seen, totals = conversation.timeline(), conversation.tokens()
        if as_json:
            print_json({**seen.to_dict(), "tokens": totals_dict(totals)})
            return
        click.echo(tree_text(seen, color=True))
        words = texts(newest_language(conversation.messages()))
        click.echo(click.style(brief_text(totals, words), dim=True))


def checkpoints(*, thread: str | None, db: str | None, as_json: bool) -> None:
    """Print a thread's checkpoints, oldest first."""
    with existing_thread(db, thread) as found:
        conversation = found.open()
        marks = conversation.checkpoints()
        if as_json:
            print_json(versioned(thread_id=found.thread_id, checkpoints=marks))
        else:
            language = newest_language(conversation.messages())
            click.echo(checkpoints_text(marks, texts(language)))


def _all(store: BaseStore) -> Slice[ThreadEntry]:
    return Slice(lines=tuple(list_threads(store)), cursor=None)


def _searched(store: BaseStore, asked: Mapping[str, Any]) -> Slice[ThreadEntry]:
    def read(cursor: str | None, limit: int) -> Slice[ThreadEntry]:
        page = drive(search_sessions(store, **{**asked, "cursor": cursor, "limit": limit}))
        return Slice(lines=page.sessions, cursor=page.cursor)

    return gathered(read, limit=asked.get("limit"), cursor=asked.get("cursor"))


def _line(entry: ThreadEntry) -> str:
    moment = entry.updated_at[:16].replace("T", " ")
    return f"{entry.thread_id}  {moment}  {entry.turns:>3}  {entry.title}"
