"""`unsay events`: everything that happened in a thread, one line each."""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict
from datetime import datetime
from typing import Any

import click

from unsay.cli.output import note, plain, print_json, versioned
from unsay.cli.record_strings import record_labels
from unsay.cli.session import Found, existing_thread, exists, location
from unsay.cli.tables import gathered, line, moment, tell_more
from unsay.cli.terminal import columns
from unsay.conversation.conversation import Conversation
from unsay.conversation.tree import one_line
from unsay.effects import drive
from unsay.errors import LedgerGapError, UnknownThreadError
from unsay.events.transcript_replay import replay
from unsay.history.run import Run
from unsay.history.runs import list_runs
from unsay.messages.content import cells_of, newest_language
from unsay.operations.commands import score_text
from unsay.storage.base import Database, translated
from unsay.storage.event_log import EventPage, select
from unsay.storage.items import freeze_messages
from unsay.storage.pagination import Slice
from unsay.storage.sqlite import open_database
from unsay.types import Event, EventType


def events(
    *,
    thread: str | None,
    types: Sequence[EventType],
    run: str | None,
    labels: Mapping[str, str],
    limit: int | None,
    cursor: str | None,
    verify: bool,
    db: str | None,
    as_json: bool,
) -> None:
    """Print a thread's ledger, or check it."""
    if verify and (types or run or labels or limit is not None or cursor):
        context = click.get_current_context()
        raise click.UsageError("--verify checks the whole ledger: leave the filters out.", context)
    with existing_thread(db, thread) as found:
        conversation = found.open()
        told = conversation.events()
        if verify:
            _verify(found, conversation, told, as_json=as_json)
            return
        page = select(
            told,
            limit=max(1, len(told)) if limit is None else limit,
            run_id=run,
            types=types or None,
            labels=labels,
            cursor=cursor,
        )
        if as_json:
            shown = versioned(thread_id=found.thread_id, events=page.events, cursor=page.cursor)
            print_json(shown)
        else:
            _print(page, conversation)


def _verify(
    found: Found, conversation: Conversation, told: Sequence[Event], *, as_json: bool
) -> None:
    """Say that the ledger is whole and gives the record.

    Raises:
        LedgerGapError: It is not, or gives another.
    """
    record = conversation.messages()
    made = replay(told).messages
    if freeze_messages(made) != freeze_messages(record):
        raise LedgerGapError(
            f"The {len(told)!r} events of thread {found.thread_id!r} make another record than "
            f"the one that is kept, {len(made)!r} messages where there are {len(record)!r}: "
            "put a backup of the database in its place"
        )
    if as_json:
        counts = {"events": len(told), "messages": len(record)}
        print_json(versioned(thread_id=found.thread_id, verified=True, **counts))
        return
    words = record_labels(newest_language(record)).verified
    click.echo(words.format(events=len(told), messages=len(record)))


def _print(page: EventPage, conversation: Conversation) -> None:
    turns = {turn.question_id: turn.number for turn in conversation.timeline().turns}
    runs = max((cells_of(each["run_id"] or "–") for each in page.events), default=0)
    for each in page.events:
        number = turns.get(each["turn_id"]) if each["turn_id"] else None
        head = (
            f"{moment(each['at'])}  {each['type']:<17}  "
            f"{'–' if number is None else number:>3}  {each['run_id'] or '–':<{runs}}"
        )
        click.echo(line(head, words_of(each)))
    tell_more(page.cursor)
    if not page.events:
        note("There is no such event.")


def words_of(event: Event) -> str:
    """What an event says, for people."""
    return _WORDS[event["type"]](event["data"])


def _message(data: Mapping[str, Any]) -> str:
    content = data["message"]["data"]["content"]
    return " ".join(map(_block, [content] if isinstance(content, str) else content))


def _block(block: Any) -> str:
    """The words of a block; what has none is named, what stands in another event left out."""
    if isinstance(block, Mapping):
        return str(block.get("text") or f"[{block.get('type', 'block')}]")
    return str(block or "")


def _thinking(data: Mapping[str, Any]) -> str:
    block = data["block"]
    if not isinstance(block, Mapping):
        return str(block)
    words = (block.get(name) for name in ("thinking", "reasoning", "text"))
    return next((each for each in words if isinstance(each, str)), f"[{block.get('type')}]")


def _call(data: Mapping[str, Any]) -> str:
    call = data["call"]
    return f"{call['name']}({json.dumps(plain(call['args']), ensure_ascii=False)})"


def _verdict(data: Mapping[str, Any]) -> str:
    mark = data["mark"]
    return f"{score_text(mark.get('score'))} {mark.get('outcome', '')} {mark.get('reason', '')}"


def _checkpoint(data: Mapping[str, Any]) -> str:
    made = data["checkpoint"]
    return f"{made['name'] or made['id']} {score_text(made['score'])} {made['topic']}"


def _cut(data: Mapping[str, Any]) -> str:
    return f"{data['kind']} −{len(data['removed'])} {data['reason']}"


def _forgotten(data: Mapping[str, Any]) -> str:
    entry = data["forgotten"]
    return f"{entry['id']} {entry['kind']} {entry['reason']}"


_WORDS: Mapping[EventType, Callable[[Mapping[str, Any]], str]] = {
    "user_message": _message,
    "assistant_message": _message,
    "tool_result": _message,
    "thinking": _thinking,
    "tool_call": _call,
    "verdict": _verdict,
    "checkpoint": _checkpoint,
    "rollback": _cut,
    "restore": _cut,
    "fold": lambda data: f"{data['label']}: {data['summary'] or ''}",
    "unfold": lambda data: str(data["label"]),
    "forget": _forgotten,
    "remember": _forgotten,
    "pin": lambda data: str(data["message_id"]),
    "unpin": lambda data: str(data["message_id"]),
    "recall": lambda data: f"+{len(data['message_ids'])}",
    "planner_note": lambda data: str(data["text"]),
    "edit": lambda data: f"={len(data['messages'])}",
    "fork": lambda data: f"={len(data['messages'])} {data['source']}",
}
"""What each type of event says, from its data."""


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
            _print_runs(page, {run.run_id: questions.get(run.turn_id, "") for run in page.lines})


def _show_all(asked: Mapping[str, Any], db: str | None, *, as_json: bool) -> None:
    page: Slice[Run] = Slice(lines=(), cursor=None)
    if exists(db):
        with closing(open_database(location(db))) as database:
            page = _page(database, None, asked)
    if as_json:
        print_json({**versioned(), **_object(page)})
    else:
        _print_runs(page, {run.run_id: run.thread_id for run in page.lines})


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


def _print_runs(page: Slice[Run], tails: Mapping[str, str]) -> None:
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
