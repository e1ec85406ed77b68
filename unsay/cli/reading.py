"""`unsay threads`, `timeline` and `checkpoints`: looking without changing anything."""

from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict
from typing import Any

import click
from langgraph.store.base import BaseStore

from unsay.cli.output import note, print_json, versioned
from unsay.cli.pages import gathered, tell_more
from unsay.cli.place import existing_thread, exists, location
from unsay.cli.totals import totals_dict
from unsay.cli.views import print_view
from unsay.effects import drive
from unsay.graph.pictures import tree_text
from unsay.history.catalogue import ThreadEntry, list_threads
from unsay.history.database import open_database, translated
from unsay.history.paging import Slice
from unsay.history.sessions import search_sessions
from unsay.nodes.commands import checkpoints_text
from unsay.nodes.totals_text import brief_text
from unsay.prompts.catalogue import texts
from unsay.transcript.text import newest_language


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
