"""`unsay timeline`, `checkpoints`, `tokens`, `label`, `end` and `purge`."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import click

from unsay.cli.chat_history import forget_thread
from unsay.cli.language import chosen_language, in_shell_language, shell_language
from unsay.cli.list_commands import nothing_text
from unsay.cli.opened_thread import Opened, is_confirmed, listed_database, on_thread
from unsay.cli.output import note, show, usage_error
from unsay.cli.paths import history_file
from unsay.cli.replay_commands import print_context
from unsay.cli.terminal import end_list, gathered, local_minute, print_table
from unsay.conversation.tree import one_line, tree_text
from unsay.effects import drive
from unsay.errors import NotFoundError, UnknownThreadError
from unsay.history import threads as sessions
from unsay.history.threads import ThreadInfo
from unsay.history.token_usage import PURPOSES
from unsay.messages.content import language_of
from unsay.operations.commands import score_text
from unsay.operations.usage_report import Usage, brief_text, usage_text
from unsay.prompts.catalogue import Texts
from unsay.storage.base import Database, translated
from unsay.storage.pagination import Slice

TITLE_CELLS = 60


def list_threads_of(db: str | None, asked: Mapping[str, Any], *, as_json: bool) -> None:
    """Print the threads of a database.

    `asked` holds filters of `search_sessions` by name; if it is empty, all threads are listed.
    Raises the errors of `listed_database` and `search_sessions`.
    """
    with listed_database(db) as database:
        found = _found(database, asked)

    def show_rows() -> None:
        cells = [(e.thread_id, local_minute(e.updated_at), str(e.turns)) for e in found.items]
        titles = Texts(shell_language()).say("thread_heads")
        print_table(titles, cells, [each.title for each in found.items])
        end_list(found.items, found.cursor, nothing_text(db, asked))

    cursor = {"cursor": found.cursor} if asked else {}
    show(show_rows, as_json=as_json, threads=list(map(asdict, found.items)), **cursor)


def _found(database: Database, asked: Mapping[str, Any]) -> Slice[ThreadInfo]:
    def read(cursor: str | None, limit: int) -> Slice[ThreadInfo]:
        bounds = {**asked, "cursor": cursor, "limit": limit}
        page = drive(sessions.search_sessions(database.store, **bounds))
        return Slice(items=page.sessions, cursor=page.cursor)

    with translated(database.path):
        if asked:
            return gathered(read, limit=asked.get("limit"), cursor=asked.get("cursor"))
        return Slice(items=tuple(sessions.list_threads(database.store)), cursor=None)


@on_thread(names_thread=True)
def timeline(opened: Opened, *, context: int | None) -> None:
    conversation = opened.conversation
    if context is not None:
        note(in_shell_language(f"thread {opened.thread_id}"))
        print_context(opened, conversation.context(context))
        return
    seen, totals = conversation.timeline(), conversation.tokens()

    def show_tree() -> None:
        click.echo(tree_text(seen, opened.labels, color=True))
        click.echo(click.style(brief_text(totals, opened.labels), dim=True))

    opened.show(show_tree, **seen.to_dict(), tokens=usage_dict(totals))


@on_thread()
def checkpoints(opened: Opened) -> None:
    marks = opened.conversation.checkpoints()

    def show_rows() -> None:
        words = opened.labels
        if not marks:
            click.echo(words.say("no_checkpoints"))
            return
        cells = [
            (each.id, each.name or "-", str(each.turn), score_text(each.score)) for each in marks
        ]
        print_table(words.say("checkpoint_heads"), cells, [each.topic for each in marks])

    opened.show(show_rows, checkpoints=[asdict(each) for each in marks])


@on_thread()
def tokens(opened: Opened) -> None:
    totals = opened.conversation.tokens()
    opened.show(lambda: usage_text(totals, opened.labels), **usage_dict(totals))


def usage_dict(totals: Usage) -> dict[str, Any]:
    """Return a thread's usage as plain JSON; costs are in millionths of the currency."""
    window = totals.window
    used = None if window is None else {"size": window.window, "parts": dict(window.parts)}
    spent = {name: asdict(getattr(totals.spent, name)) for name in (*PURPOSES, "total")}
    gauges = [{**asdict(each), "share": each.share} for each in totals.gauges]
    return {"window": used, "spent": spent, "budgets": gauges}


def _check_labels(*, labels: Mapping[str, str], remove: Sequence[str]) -> None:
    if both := sorted(set(labels) & set(remove)):
        raise usage_error(f"The label {both[0]!r} is both set and removed: give one of the two.")


@on_thread(_check_labels)
def label(opened: Opened, *, labels: Mapping[str, str], remove: Sequence[str]) -> None:
    thread, changes = opened.thread_id, {**labels, **dict.fromkeys(remove)}
    with translated(opened.database.path):
        entry = drive(sessions.get_session(opened.database.store, thread))
    if unset := sorted(set(remove) - entry.labels.keys()):
        raise NotFoundError(
            f"Thread {thread!r} has no label {unset[0]!r}; `unsay label` lists its labels"
        )
    if changes:
        entry = opened.registry.label(opened.thread_id, **changes)
    rows = [f"{name}={value}" for name, value in entry.labels.items()]
    none = Texts(chosen_language() or language_of(entry.title)).say("no_labels")
    opened.show(lambda: "\n".join(rows) or none, **asdict(entry))


@on_thread()
def end(opened: Opened) -> None:
    entry = opened.registry.end(opened.thread_id)
    words = Texts(chosen_language() or language_of(entry.title))
    opened.show(lambda: words.say("ended", thread=opened.thread_id), **asdict(entry))


@on_thread()
def purge(opened: Opened, *, yes: bool) -> None:
    thread = opened.thread_id
    with translated(opened.database.path):
        entry = drive(sessions.find_session(opened.database.store, thread))
    # The messages may be unreadable; the title is not.
    words = Texts(chosen_language() or language_of(entry.title if entry else ""))
    if not yes:
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise usage_error("A purge cannot be undone: confirm it with --yes.")
        turns, title = (entry.turns, one_line(entry.title, TITLE_CELLS)) if entry else (0, "")
        question = words.say("purge", thread=thread, turns=turns, title=title)
        if not is_confirmed(question):
            note(words.say("not_purged", thread=thread))
            click.get_current_context().exit(1)
    counts = asdict(opened.registry.purge(opened.thread_id))
    forget_thread(history_file(), thread)
    if not any(counts.values()):
        raise UnknownThreadError(
            f"There is no thread {thread!r} in {opened.database.path!r}; nothing was deleted. "
            "`unsay threads` lists the threads"
        )
    opened.show(lambda: words.say("purged", thread=thread, **counts), **counts)
