"""`unsay runs`: what ran, and how it ended."""

import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict
from datetime import datetime
from typing import Any

import click

from unsay.cli.ledger import words_of
from unsay.cli.output import note, print_json, versioned
from unsay.cli.pages import gathered, line, moment, tell_more
from unsay.cli.place import existing_thread, exists, location
from unsay.cli.screen import columns
from unsay.effects import drive
from unsay.errors import LedgerGapError, UnknownThreadError
from unsay.graph.conversation import Conversation
from unsay.graph.trees import one_line
from unsay.history.database import Database, open_database, translated
from unsay.history.paging import Slice
from unsay.history.run_states import Run
from unsay.history.runs import list_runs
from unsay.transcript.text import cells_of

ERROR_CELLS = 200
"""Most that a line shows of an error where no terminal says how wide it is."""


def runs(
    *,
    thread: str | None,
    everywhere: bool,
    status: Sequence[str],
    db: str | None,
    as_json: bool,
    **filters: Any,
) -> None:
    """Print the runs of a thread, or of all of them."""
    if everywhere and thread is not None:
        raise click.UsageError("Give --thread or --all, not both.", click.get_current_context())
    asked = {**filters, "status": status or None}
    if everywhere:
        _show_all(asked, db, as_json=as_json)
        return
    with existing_thread(db, thread) as found:
        conversation = found.open()
        page = _page(found.database, found.thread_id, asked)
        questions = _questions(conversation, page.lines)
        if as_json:
            print_json({**versioned(thread_id=found.thread_id), **_object(page)})
        else:
            _print(page, {run.run_id: questions.get(run.turn_id, "") for run in page.lines})


def _show_all(asked: Mapping[str, Any], db: str | None, *, as_json: bool) -> None:
    page: Slice[Run] = Slice(lines=(), cursor=None)
    if exists(db):
        with closing(open_database(location(db))) as database:
            page = _page(database, None, asked)
    if as_json:
        print_json({**versioned(), **_object(page)})
    else:
        _print(page, {run.run_id: run.thread_id for run in page.lines})


def _page(database: Database, thread_id: str | None, asked: Mapping[str, Any]) -> Slice[Run]:
    def read(cursor: str | None, limit: int) -> Slice[Run]:
        bounds = {"cursor": cursor, "limit": limit}
        with translated(database.path):
            page = drive(list_runs(database.store, **{**asked, "thread_id": thread_id, **bounds}))
        return Slice(lines=page.runs, cursor=page.cursor)

    return gathered(read, limit=asked["limit"], cursor=asked["cursor"])


def _object(page: Slice[Run]) -> dict[str, Any]:
    return {"runs": [asdict(each) for each in page.lines], "cursor": page.cursor}


def _questions(conversation: Conversation, found: Sequence[Run]) -> dict[str | None, str]:
    """The user's words by message id, also those that are no longer on the record.

    Raises:
        UnknownThreadError: Nothing was ever said, and nothing ran.
    """
    try:
        told = conversation.events()
    except LedgerGapError:
        return {}
    except UnknownThreadError:
        if found:
            return {}
        raise
    asked = (each for each in told if each["type"] == "user_message")
    return {each["data"]["message"]["data"]["id"]: words_of(each) for each in asked}


def _print(page: Slice[Run], tails: Mapping[str, str]) -> None:
    """Print the runs as a table.

    Args:
        page: What to print.
        tails: What each run's line ends in, by the run's id.
    """
    rows = [_cells(each) for each in page.lines]
    widths = [max(map(cells_of, column)) for column in zip(*rows, strict=True)]
    for run, row in zip(page.lines, rows, strict=True):
        head = "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
        click.echo(line(head, tails[run.run_id]))
        if run.error:
            fits = columns() - 4 if sys.stdout.isatty() else ERROR_CELLS
            click.echo(f"    {one_line(run.error, fits)}")
    tell_more(page.cursor)
    if not page.lines:
        note("There is no such run.")


def _cells(run: Run) -> tuple[str, ...]:
    at_work = "" if run.phase == run.status else f" {run.phase}"
    return (run.run_id, f"{run.status}{at_work}", moment(run.started_at), f"{_duration(run):>7}")


def _duration(run: Run) -> str:
    """How long a run took; a dash while it has not ended."""
    if run.ended_at is None:
        return "–"
    took = datetime.fromisoformat(run.ended_at) - datetime.fromisoformat(run.started_at)
    return f"{took.total_seconds():.1f} s"
