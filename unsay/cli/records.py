"""`unsay events` and `runs`: what happened in a thread, one line each."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

import click

from unsay.cli.output import (
    call_text,
    chosen_language,
    history_file,
    in_shell_language,
    note,
    shell_language,
    show,
    usage_error,
)
from unsay.cli.prompt import forget_thread
from unsay.cli.replay import print_context
from unsay.cli.run import Opened, existing_thread, is_confirmed, listed_database, on_thread
from unsay.cli.terminal import columns, end_list, gathered, local_minute, moment, print_table
from unsay.cli.threads import nothing_text
from unsay.context.manifest import PURPOSES
from unsay.effects import drive
from unsay.errors import EventLogGapError, NotFoundError, UnknownThreadError
from unsay.events.transcript_replay import replay
from unsay.history import threads as sessions
from unsay.history.runs import Run, list_runs
from unsay.history.threads import ThreadInfo
from unsay.messages.content import language_of
from unsay.orders.parse import score_text
from unsay.prompts.catalogue import Texts
from unsay.results.timeline import one_line, tree_text
from unsay.results.usage import Usage, brief_text, usage_text
from unsay.storage.base import Database, translated
from unsay.storage.event_log import select
from unsay.storage.items import freeze_messages
from unsay.storage.pagination import Slice
from unsay.types import Event, EventType


def _check_verify(*, verify: bool, limit: int | None, **filters: object) -> None:
    if verify and (limit is not None or any(filters.values())):
        raise usage_error("--verify checks the whole event log: leave the filters out.")


@on_thread(_check_verify)
def events(
    opened: Opened,
    *,
    types: Sequence[EventType],
    run: str | None,
    labels: Mapping[str, str],
    limit: int | None,
    cursor: str | None,
    verify: bool,
) -> None:
    log = opened.registry.events(opened.thread_id)
    if verify:
        _verify(opened, log)
        return
    page = select(
        log,
        limit=max(1, len(log)) if limit is None else limit,
        run_id=run,
        types=types or None,
        labels=labels,
        cursor=cursor,
    )
    opened.show(lambda: _print_events(opened, page), events=page.items, cursor=page.cursor)


def _verify(opened: Opened, log: Sequence[Event]) -> None:
    transcript = opened.conversation.messages()
    log_messages = replay(log).messages
    if freeze_messages(log_messages) != freeze_messages(transcript):
        raise EventLogGapError(
            f"The {len(log)!r} events of thread {opened.thread_id!r} do not give the stored "
            f"messages, but {len(log_messages)!r} messages instead of {len(transcript)!r}: restore the "
            "database from a backup"
        )
    counts = {"events": len(log), "messages": len(transcript)}
    opened.show(lambda: opened.labels.say("verified", **counts), verified=True, **counts)


def _print_events(opened: Opened, page: Slice[Event]) -> None:
    turns = {turn.question_id: turn.number for turn in opened.conversation.timeline().turns}
    cells = [
        (moment(e["at"]), e["type"], str(turns.get(e["turn_id"] or "", "–")), e["run_id"] or "–")
        for e in page.items
    ]
    print_table(opened.labels.say("event_heads"), cells, [words_of(each) for each in page.items])
    end_list(page.items, page.cursor, "No event matches.")


def words_of(event: Event) -> str:
    """Return what a person reads about an event, such as a message's words; can be empty."""
    return _WORDS[event["type"]](event["data"])


def _message(data: Mapping[str, Any]) -> str:
    content = data["message"]["data"]["content"]
    return " ".join(map(_block, [content] if isinstance(content, str) else content))


def _block(block: Any) -> str:
    if isinstance(block, Mapping):
        return str(block.get("text") or f"[{block.get('type', 'block')}]")
    return str(block or "")


def _thinking(data: Mapping[str, Any]) -> str:
    block = data["block"]
    if not isinstance(block, Mapping):
        return str(block)
    words = (block.get(name) for name in ("thinking", "reasoning", "text"))
    return next((each for each in words if isinstance(each, str)), f"[{block.get('type')}]")


def _verdict(data: Mapping[str, Any]) -> str:
    annotation = data["annotation"]
    return f"{score_text(annotation.get('score'))} {annotation.get('outcome', '')} {annotation.get('reason', '')}"


def _checkpoint(data: Mapping[str, Any]) -> str:
    checkpoint = data["checkpoint"]
    return f"{checkpoint['name'] or checkpoint['id']} {score_text(checkpoint['score'])} {checkpoint['topic']}"


def _cut(data: Mapping[str, Any]) -> str:
    return f"{data['kind']} −{len(data['removed'])} {data['reason']}"


_WORDS: Mapping[EventType, Callable[[Mapping[str, Any]], str]] = {
    "user_message": _message,
    "assistant_message": _message,
    "tool_result": _message,
    "thinking": _thinking,
    "tool_call": lambda data: call_text(data["call"]["name"], data["call"]["args"]),
    "verdict": _verdict,
    "checkpoint": _checkpoint,
    "checkpoint_removed": "{checkpoint_id}".format_map,
    "rollback": _cut,
    "restore": _cut,
    "compaction": lambda data: f"{data['label']}: {data['summary'] or ''}",
    "expand": "{label}".format_map,
    "forget": "{forgotten[id]} {forgotten[kind]} {forgotten[reason]}".format_map,
    "remember": "{forgotten[id]} {forgotten[kind]} {forgotten[reason]}".format_map,
    "pin": "{message_id}".format_map,
    "unpin": "{message_id}".format_map,
    "recall": lambda data: f"+{len(data['message_ids'])}",
    "planner_note": "{text}".format_map,
    "edit": lambda data: f"={len(data['messages'])}",
    "fork": lambda data: f"={len(data['messages'])} {data['source']}",
}

# Cells of an error's line where no terminal says how wide it is.
ERROR_CELLS = 200


def runs(
    *,
    thread: str | None,
    everywhere: bool,
    status: Sequence[str],
    db: str | None,
    as_json: bool,
    **filters: Any,
) -> None:
    if everywhere and thread is not None:
        raise usage_error("Give --thread or --all, not both.")
    query = {**filters, "status": status or None}
    if everywhere:
        with listed_database(db) as database:
            page = _page(database, query)
        tails, about = [run.thread_id for run in page.items], {}
    else:
        with existing_thread(db, thread) as open_thread:
            about = {"thread_id": open_thread.thread_id}
            page = _page(open_thread.database, {**query, **about})
            questions = _questions(open_thread, page.items)
        tails = [questions.get(run.turn_id, "") for run in page.items]
    objects = {"runs": list(map(asdict, page.items)), "cursor": page.cursor}
    words = Texts(shell_language())
    titles = words.say("run_heads_of_all" if everywhere else "run_heads")
    show(lambda: _print_runs(page, tails, titles), as_json=as_json, **about, **objects)


def _page(database: Database, asked: Mapping[str, Any]) -> Slice[Run]:
    def read(cursor: str | None, limit: int) -> Slice[Run]:
        with translated(database.path):
            page = drive(list_runs(database.store, **{**asked, "cursor": cursor, "limit": limit}))
        return Slice(items=page.runs, cursor=page.cursor)

    return gathered(read, limit=asked["limit"], cursor=asked["cursor"])


def _questions(opened: Opened, found: Sequence[Run]) -> dict[str | None, str]:
    """Return the words of all user messages by id, also of those that left the transcript.

    Empty if an event is missing or changed, or if the thread has runs (`found`) but no messages.
    Raises `UnknownThreadError` if it has neither, `DatabaseCorruptError` if its state is damaged.
    """
    try:
        log = opened.registry.events(opened.thread_id)
    except EventLogGapError:
        return {}
    except UnknownThreadError:
        if found:
            return {}
        raise
    message_events = (each for each in log if each["type"] == "user_message")
    return {each["data"]["message"]["data"]["id"]: words_of(each) for each in message_events}


def _print_runs(page: Slice[Run], tails: Sequence[str], titles: str) -> None:
    fits = columns() - 4 if sys.stdout.isatty() else ERROR_CELLS
    errors = [one_line(each.error, fits) if each.error else "" for each in page.items]
    print_table(titles, [_cells(each) for each in page.items], tails, errors)
    end_list(page.items, page.cursor, "No run matches.")


def _cells(run: Run) -> tuple[str, ...]:
    at_work = "" if run.phase == run.status else f" {run.phase}"
    took = "–"
    if run.ended_at is not None:
        ran = datetime.fromisoformat(run.ended_at) - datetime.fromisoformat(run.started_at)
        took = f"{ran.total_seconds():.1f}"
    return (run.run_id, f"{run.status}{at_work}", moment(run.started_at), f"{took:>7}")


TITLE_CELLS = 60


def list_threads_of(db: str | None, asked: Mapping[str, Any], *, as_json: bool) -> None:
    """Print the threads of a database.

    `asked` holds filters of `search_sessions` by name; if it is empty, all threads are listed.
    Raises the errors of `listed_database` and `search_sessions`.
    """
    with listed_database(db) as database:
        page = _found(database, asked)

    def show_rows() -> None:
        cells = [(e.thread_id, local_minute(e.updated_at), str(e.turns)) for e in page.items]
        titles = Texts(shell_language()).say("thread_heads")
        print_table(titles, cells, [each.title for each in page.items])
        end_list(page.items, page.cursor, nothing_text(db, asked))

    cursor = {"cursor": page.cursor} if asked else {}
    show(show_rows, as_json=as_json, threads=list(map(asdict, page.items)), **cursor)


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
    timeline_data, totals = conversation.timeline(), conversation.tokens()

    def show_tree() -> None:
        click.echo(tree_text(timeline_data, opened.labels, color=True))
        click.echo(click.style(brief_text(totals, opened.labels), dim=True))

    opened.show(show_tree, **timeline_data.to_dict(), tokens=usage_dict(totals))


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
    window_fields = None if window is None else {"size": window.window, "parts": dict(window.parts)}
    usage_by_purpose = {name: asdict(getattr(totals.spent, name)) for name in (*PURPOSES, "total")}
    gauges = [{**asdict(each), "share": each.share} for each in totals.gauges]
    return {"window": window_fields, "spent": usage_by_purpose, "budgets": gauges}


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
