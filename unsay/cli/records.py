"""What a database holds: threads, their turns, runs and events, and what models were sent."""

import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click
from langchain_core.messages import AIMessage, BaseMessage

import unsay
from unsay.cli.output import (
    call_text,
    chosen_language,
    fields_of,
    history_file,
    note,
    print_json,
    shell_texts,
    show,
    usage_error,
)
from unsay.cli.prompt import forget_thread
from unsay.cli.run import Opened, existing_thread, is_confirmed, listed_database, on_thread, rows_of
from unsay.cli.terminal import (
    UNBOUNDED,
    WIDE,
    aligned,
    block,
    columns,
    end_list,
    local_minute,
    moment,
    print_table,
    room,
    side_by_side,
)
from unsay.cli.threads import nothing_text
from unsay.context.manifest import PURPOSES, CallContext, write_ranges
from unsay.effects import drive
from unsay.errors import EventLogGapError, NotFoundError, UnknownThreadError
from unsay.events.transcript_replay import replay as rebuilt
from unsay.history import threads as sessions
from unsay.history.runs import Run, list_runs
from unsay.messages.content import language_of, preview, text_of
from unsay.prompts.catalogue import Texts
from unsay.results.lists import checkpoint_rows, role_of
from unsay.results.results import score_text
from unsay.results.timeline import one_line, tree_text
from unsay.results.usage import Usage, brief_text, percent, usage_text, window_text
from unsay.settings.settings import load_settings
from unsay.storage.base import translated
from unsay.storage.event_log import select
from unsay.storage.items import freeze_messages
from unsay.storage.pagination import Slice
from unsay.types import Event, EventType

if TYPE_CHECKING:
    from unsay.conversation.model_calls import Answered, TurnCall


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
    log_messages = rebuilt(log).messages
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
    end_list(page.items, page.cursor, shell_texts().say("no_event_matches"))


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


def _texts_for(words: str) -> Texts:
    """Return the texts in the language of the settings, or else of a question or a title."""
    return Texts(chosen_language() or language_of(words))


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
            page = rows_of(database, list_runs, "runs", query)
        tails, about = [run.thread_id for run in page.items], {}
    else:
        with existing_thread(db, thread) as open_thread:
            about = {"thread_id": open_thread.thread_id}
            page = rows_of(open_thread.database, list_runs, "runs", {**query, **about})
            questions = _questions(open_thread, page.items)
        tails = [questions.get(run.turn_id, "") for run in page.items]
    words = shell_texts()
    titles = words.say("run_heads_of_all" if everywhere else "run_heads")
    show(
        lambda: _print_runs(page, tails, titles),
        as_json=as_json,
        **about,
        runs=page.items,
        cursor=page.cursor,
    )


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
    end_list(page.items, page.cursor, shell_texts().say("no_run_matches"))


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
        if asked:
            page = rows_of(database, sessions.search_sessions, "sessions", asked)
        else:
            with translated(database.path):
                page = Slice(items=tuple(sessions.list_threads(database.store)), cursor=None)

    def show_rows() -> None:
        cells = [(e.thread_id, local_minute(e.updated_at), str(e.turns)) for e in page.items]
        titles = shell_texts().say("thread_heads")
        print_table(titles, cells, [each.title for each in page.items])
        end_list(page.items, page.cursor, nothing_text(db, asked))

    cursor = {"cursor": page.cursor} if asked else {}
    show(show_rows, as_json=as_json, threads=page.items, **cursor)


@on_thread(names_thread=True)
def timeline(opened: Opened, *, context: int | None) -> None:
    conversation = opened.conversation
    if context is not None:
        note(shell_texts().say("thread", id=opened.thread_id))
        _print_context(opened, conversation.context(context))
        return
    timeline_data, totals = conversation.timeline(), conversation.tokens()

    def show_tree() -> None:
        click.echo(tree_text(timeline_data, opened.labels, color=True))
        click.echo(click.style(brief_text(totals, opened.labels), dim=True))

    opened.show(show_tree, timeline_data, tokens=usage_dict(totals))


@on_thread()
def checkpoints(opened: Opened) -> None:
    marks = opened.conversation.checkpoints()

    def show_rows() -> None:
        words = opened.labels
        rows = [tuple(row.values()) for row in checkpoint_rows(marks)]
        if not rows:
            click.echo(words.say("no_checkpoints"))
        print_table(
            words.say("checkpoint_heads"), [row[:-1] for row in rows], [row[-1] for row in rows]
        )

    opened.show(show_rows, checkpoints=marks)


@on_thread()
def tokens(opened: Opened) -> None:
    totals = opened.conversation.tokens()
    opened.show(lambda: usage_text(totals, opened.labels), **usage_dict(totals))


def usage_dict(totals: Usage) -> dict[str, Any]:
    """Return the JSON fields of a thread's usage; costs are in millionths of the currency."""
    window = totals.window
    return {
        "window": window and {"size": window.window, "parts": window.parts},
        "spent": {name: getattr(totals.spent, name) for name in (*PURPOSES, "total")},
        "budgets": [{**fields_of(gauge), "share": gauge.share} for gauge in totals.gauges],
    }


def _check_labels(*, labels: Mapping[str, str], remove: Sequence[str]) -> None:
    if both := sorted(set(labels) & set(remove)):
        raise usage_error(f"The label {both[0]!r} is both set and removed: give one of the two.")


@on_thread(_check_labels)
def label(opened: Opened, *, labels: Mapping[str, str], remove: Sequence[str]) -> None:
    thread, changes = opened.thread_id, {**labels, **dict.fromkeys(remove)}
    with translated(opened.database.path):
        entry = drive(sessions.get_session(opened.database.store, thread))
    if unset := sorted(set(remove) - entry.labels.keys()):
        raise NotFoundError(code="no_label", thread_id=thread, label=unset[0])
    if changes:
        entry = opened.registry.label(opened.thread_id, **changes)
    rows = [f"{name}={value}" for name, value in entry.labels.items()]
    none = _texts_for(entry.title).say("no_labels")
    opened.show(lambda: "\n".join(rows) or none, entry)


@on_thread()
def end(opened: Opened) -> None:
    entry = opened.registry.end(opened.thread_id)
    words = _texts_for(entry.title)
    opened.show(lambda: words.say("ended", thread=opened.thread_id), entry)


@on_thread()
def purge(opened: Opened, *, yes: bool) -> None:
    thread = opened.thread_id
    with translated(opened.database.path):
        entry = drive(sessions.find_session(opened.database.store, thread))
    # The messages may be unreadable; the title is not.
    words = _texts_for(entry.title if entry else "")
    if not yes:
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise usage_error("A purge cannot be undone: confirm it with --yes.")
        turns, title = (entry.turns, one_line(entry.title, TITLE_CELLS)) if entry else (0, "")
        question = words.say("purge", thread=thread, turns=turns, title=title)
        if not is_confirmed(question):
            note(words.say("not_purged", thread=thread))
            click.get_current_context().exit(1)
    counts = fields_of(opened.registry.purge(opened.thread_id))
    forget_thread(history_file(), thread)
    if not any(counts.values()):
        raise UnknownThreadError(
            code="no_thread_to_purge", thread_id=thread, path=opened.database.path
        )
    opened.show(lambda: words.say("purged", thread=thread, **counts), **counts)


def _check_replay(
    *, model: str | None, judge_model: str | None, payload: bool, **_others: object
) -> None:
    if model is None and judge_model is not None:
        raise usage_error("--judge-model needs --model, whose answer it judges.")
    if model is not None and payload:
        raise usage_error("--payload sends no request: leave --model out.")


@on_thread(_check_replay)
def replay(
    opened: Opened,
    *,
    turn: int | None,
    run: str | None,
    attempt: int | None,
    model: str | None,
    judge_model: str | None,
    payload: bool,
) -> None:
    settings = load_settings({} if judge_model is None else {"judge_model": judge_model})
    if settings.model is None and model is not None:
        # Without a configured judge the other model judges itself.
        settings = load_settings({"model": model, "judge_model": settings.judge_model})
    conversation = unsay.Conversation.open(
        opened.database, thread=opened.thread_id, settings=settings
    )
    result = conversation.replay(turn=turn, run_id=run, attempt=attempt, model=model)
    if payload:
        print_json(result.payload)
    else:
        again = result.again and {"model": model, **fields_of(result.again)}
        opened.show(lambda: _print_replay(result, model or ""), result, again=again)
    if result.again is not None and result.again.error is not None:
        click.get_current_context().exit(1)


def _print_replay(made: "unsay.Replay", model: str) -> None:
    """Print a replay for a person, all of it on standard output."""
    words, cells = _texts_for(made.question), room()

    def show_part(head: str, body: str, **style: bool) -> None:
        title = one_line(head, min(cells, columns()))
        click.echo("\n" + click.style(title, **style))
        click.echo(block(body))

    attempt_label = words.say("attempt", turn=made.turn, attempt=made.attempt)
    exactness = words.say("exact" if made.exact else "planned")
    parts = " · ".join(filter(None, (attempt_label, exactness, made.run_id)))
    click.echo(click.style(block(parts, indent=0), dim=True))
    for message in made.messages:
        name = f" {message.name}" if message.name else ""
        show_part(f"{role_of(message, words)}{name}", _content(message), dim=True)

    answers = {words.say("recorded"): _outcome(made.recorded, words)}
    if made.again is not None:
        answers[model] = _outcome(made.again, words)
    if len(answers) == 2 and WIDE <= cells < UNBOUNDED:
        click.echo("\n" + side_by_side(list(answers), list(answers.values()), columns=cells))
        return
    for head, answer in answers.items():
        show_part(head, answer, bold=True)


def _outcome(came: "Answered", words: Texts) -> str:
    verdict_text = words.say("score_and_reason", score=score_text(came.score), reason=came.reason)
    if came.error is not None:
        verdict_text = words.say("failed", error=came.error, reason=came.reason)
    elif came.score is None:
        verdict_text = words.say("unscored", reason=came.reason)
    answer_text = "\n".join(filter(str.strip, (came.answer, *came.calls)))
    if not answer_text and came.error is None:
        answer_text = words.say("silent")
    return "\n\n".join(filter(None, (verdict_text.removesuffix(": "), answer_text)))


def _content(message: BaseMessage) -> str:
    content = message.content if isinstance(message.content, list) else []
    kinds = [each.get("type") for each in content if isinstance(each, dict)]
    other = [f"[{kind}]" for kind in kinds if kind not in (None, "text")]
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    call_texts = [call_text(each["name"], each["args"]) for each in calls]
    return "\n".join(filter(None, (text_of(message), *other, *call_texts)))


def _print_context(opened: Opened, made: "unsay.TurnCalls") -> None:
    """Print the model calls of a turn, as text or as JSON; there is at least one.

    Of each call: the messages that it was sent, those that were left out, and its tokens.
    """

    def show() -> None:
        words = _texts_for(made.question)
        head = words.say("context", turn=made.turn, question=preview(made.question))
        click.echo(click.style(block(head, indent=0), bold=True))
        for each in made.calls:
            click.echo()
            click.echo(block(_head(each, words), indent=0))
            costs = window_text(each.context, words).split("\n")
            for line in (*_rules(each.context, words), *costs):
                click.echo(block(line))
            if (usage := each.context.usage) is not None:
                prompt = usage.input + usage.cache_read + usage.cache_creation
                usage_line = words.say(
                    "reported",
                    input=f"{prompt:,}",
                    cached=percent(usage.cache_read, prompt, words),
                    output=f"{usage.output:,}",
                )
                click.echo(block(usage_line))

    opened.show(show, **made.to_dict())


def _head(call: "TurnCall", words: Texts) -> str:
    context = call.context
    parts = [words.say("call", attempt=context.attempt, call=context.call), context.model]
    if call.branch == "pending":
        parts.append(words.say("pending"))
    elif call.branch != "live":
        parts.append(words.say("call_removed", branch=call.branch))
    if call.score is not None:
        parts.append(words.say("score", score=score_text(call.score)))
    if call.words:
        parts.append(words.say("at_message", words=call.words))
    return " · ".join(filter(None, parts))


def _rules(context: CallContext, words: Texts) -> list[str]:
    rows = []
    for rule in filter(lambda rule: rule.places, (context.sent, *context.rules)):
        places = write_ranges(rule.places).replace(",", ", ")
        count = words.say("messages", places=places, count=f"{len(rule.places):,}")
        rows.append((words.table("context_rules").get(rule.name, rule.name), count))
    lines = list(aligned(rows))
    if context.unplaced:
        lines.append(words.say("unplaced", count=context.unplaced))
    return lines if context.fits else [words.say("changed"), *lines]
