"""`unsay threads`, `timeline` and `checkpoints`: looking without changing anything."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict

import click

from unsay.cli.output import note, print_json, versioned
from unsay.cli.place import existing_thread, exists, location
from unsay.graph.pictures import tree_text
from unsay.history.catalogue import ThreadEntry, list_threads
from unsay.history.database import open_database, translated
from unsay.nodes.commands import checkpoints_text
from unsay.prompts.catalogue import texts
from unsay.transcript.text import newest_language


def threads(*, db: str | None, as_json: bool) -> None:
    """Print the threads, the one spoken in last first."""
    entries: Sequence[ThreadEntry] = ()
    if exists(db):
        with closing(open_database(location(db))) as database, translated(database.path):
            entries = list_threads(database.store)
    if as_json:
        print_json(versioned(threads=[asdict(each) for each in entries]))
        return
    for each in entries:
        click.echo(_line(each))
    if not entries:
        note(f"There is no thread in {location(db)!r} yet; `unsay chat` begins one.")


def timeline(*, thread: str | None, db: str | None, as_json: bool) -> None:
    """Print a thread's turns, checkpoints and cuts."""
    with existing_thread(db, thread) as found:
        seen = found.open().timeline()
        if as_json:
            print_json(seen.to_dict())
        else:
            click.echo(tree_text(seen, color=True))


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


def _line(entry: ThreadEntry) -> str:
    moment = entry.updated_at[:16].replace("T", " ")
    return f"{entry.thread_id}  {moment}  {entry.turns:>3}  {entry.title}"
