"""`unsay chat`, `say` and `retry`: a person speaks in a thread."""

import shlex
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import click

from unsay.cli.chat import Chat
from unsay.cli.keyboard import is_rich, paste_in_one_piece
from unsay.cli.output import (
    clear_loading,
    fields_of,
    note,
    print_json,
    shell_texts,
    show_loading,
    usage_error,
    versioned,
)
from unsay.cli.prompt import Row, choose_or_type
from unsay.cli.run import listed_database, load_files
from unsay.cli.screen import Screen
from unsay.cli.session import Show, Speaker, decision_of, is_about_draft, readable, speaking
from unsay.cli.terminal import local_minute
from unsay.effects import drive
from unsay.errors import InputError, NotFoundError, NothingToResumeError
from unsay.history.threads import find_session, list_threads, refuse_ended
from unsay.results.results import Event, Reply
from unsay.storage.base import translated

# How many recent threads a chat offers.
RECENT = 9


def chat(
    *,
    thread: str | None,
    db: str | None,
    as_json: bool,
    files: Sequence[str],
    **options: Any,
) -> None:
    attached, begun = load_files(files), ""
    if thread is None and is_rich() and not as_json:
        thread, begun = _chosen_thread(db)
    with speaking(db, thread, begins=True, **options) as speaker:
        with translated(speaker.database.path):
            thread_id = speaker.conversation.thread_id
            refuse_ended(drive(find_session(speaker.database.store, thread_id)))
        clear_loading()
        code = Chat(speaker, files=attached, as_json=as_json, begun=begun).run()
    click.get_current_context().exit(code)


def _chosen_thread(db: str | None) -> tuple[str | None, str]:
    """Let the person choose a recent thread or a new one; return its id, and what was typed.

    The id is `None` for a new thread: it is also that of a person who begins to type a message. Nobody
    is asked, and the thread is new, if there is no active thread or `db` does not exist. Esc and
    Ctrl-C raise `click.Abort`, which ends the program. Raises the errors of `open_database` if the
    database cannot be opened.
    """
    try:
        with listed_database(db) as database:
            entries = list_threads(database.store)
    except NotFoundError:
        return None, ""
    recent = [each for each in entries if each.status == "active"][:RECENT]
    if not recent:
        return None, ""
    words = shell_texts()
    rows = [Row(text=words.say("thread_new"))]
    for each in recent:
        row = words.say(
            "thread_row",
            moment=local_minute(each.updated_at),
            turns=each.turns,
            title=each.title or each.thread_id,
        )
        rows.append(Row(text=row))
    clear_loading()
    choice = choose_or_type(words.say("thread_title"), rows, words.say("thread_keys"))
    if choice is None:
        raise click.Abort
    paste_in_one_piece()
    show_loading()
    if isinstance(choice, str):
        return None, choice
    return (recent[choice - 1].thread_id if choice else None), ""


def say(
    *,
    text: str | None,
    thread: str | None,
    resume: bool,
    decide: str | None,
    turn_id: str | None,
    answer: str | None,
    files: Sequence[str],
    db: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    if (text is not None) + resume + (decide is not None) != 1:
        raise usage_error(
            "Give exactly one of TEXT (- reads standard input), --resume and --decide."
        )
    if turn_id is not None and (text is None or thread is None):
        raise usage_error("--turn-id needs TEXT and --thread.")
    if answer is not None and turn_id is None:
        raise usage_error("--answer needs --turn-id.")
    words = None if text is None else _message(text)
    if files and words is None:
        raise usage_error("--file needs TEXT.")
    attached = load_files(files)
    if words is not None:
        words = attached.text(words)
    begins, decides = text is not None, decide is not None
    with speaking(db, thread, begins=begins, decides=decides, **options) as speaker:
        if words is None:
            _resume(speaker, decide, as_json=as_json)
            return
        images = list(attached.images.values())
        if thread is None and (words.strip() or images):  # an empty message begins no thread
            note(shell_texts().say("thread", id=speaker.conversation.thread_id))
        ask = partial(speaker.say, words, images=images, turn_id=turn_id, answer=answer)
        reply = _show(speaker, words, ask, as_json=as_json)
        if turn_id is not None and reply is not None and not as_json:
            _note_removed(speaker, reply)


def _message(text: str) -> str:
    """Return the message: TEXT, or for `-` what standard input has; `InputError` if it is not text."""
    try:
        return readable(sys.stdin.read() if text == "-" else text)
    except UnicodeDecodeError as error:
        raise InputError(code="stdin_not_utf8") from error


def _note_removed(speaker: Speaker, reply: Reply) -> None:
    """Say so if a turn that was sent again with its id is no longer in the conversation."""
    message_ids = {each.id for each in speaker.conversation.messages()}
    if reply.kind == "answer" and reply.message_id not in message_ids:
        note(speaker.labels().say("stored_answer"))


def _resume(speaker: Speaker, decide: str | None, *, as_json: bool) -> None:
    """Resume a turn as `Speaker.resume` does; `UnknownThreadError` if there is no such thread."""
    due = None if decide is None else decision_of(decide)
    try:
        _show(speaker, None, lambda show: speaker.resume(due, show), as_json=as_json)
    except NothingToResumeError:
        speaker.conversation.checkpoints()  # says so if the thread does not exist
        raise


def retry(*, thread: str | None, db: str | None, as_json: bool, **options: Any) -> None:
    with speaking(db, thread, begins=False, **options) as speaker:
        _show(speaker, None, speaker.retry, as_json=as_json)


def edit(
    *, turn: int, text: str, thread: str | None, db: str | None, as_json: bool, **options: Any
) -> None:
    words = readable(text)
    with speaking(db, thread, begins=False, **options) as speaker:
        _show(speaker, words, lambda show: speaker.edit(turn, words, show), as_json=as_json)


def compact(
    *, up_to: str | None, thread: str | None, db: str | None, as_json: bool, **models: Any
) -> None:
    with speaking(db, thread, begins=False, **models) as speaker:
        compaction = speaker.conversation.compact(up_to)
        if as_json:
            print_json(versioned(thread_id=speaker.conversation.thread_id, **fields_of(compaction)))
        else:
            labels = speaker.labels().at("shell")
            click.echo(labels.say("compacted", count=len(compaction.message_ids)))


def _show(
    speaker: Speaker, words: str | None, turn: Callable[[Show], None], *, as_json: bool
) -> Reply | None:
    """Run a turn, show each event as text, or as JSON only the reply, and return the reply.

    `turn` calls its argument with each event. If Ctrl-C stops it, a note says how to resume, and
    `KeyboardInterrupt` is raised. Errors of `turn` are raised. `words` are the message, for the
    language of the texts; `None` takes that of the thread.
    """
    name = speaker.conversation.thread_id

    replies: list[Reply] = []
    screen: Screen | None = None
    if not as_json:
        screen = Screen(speaker.labels(words).at("shell"), live=sys.stdout.isatty())

    def show(event: Event) -> None:
        if screen is not None:
            screen.show(event)
        if event.reply is None:
            return
        replies.append(event.reply)
        if screen is None:
            print_json(versioned(thread_id=name, **fields_of(event.reply)))
        elif event.reply.kind == "decision":
            how = "decide_draft" if is_about_draft(event.reply) else "decide_call"
            note(shell_texts().say(how, thread=shlex.quote(name)))

    try:
        if screen is not None:
            speaker.tick = screen.tick
            screen.begin()
        turn(show)
    except KeyboardInterrupt:
        if screen is not None:
            screen.end_line()
        note(shell_texts().say("stopped_say", thread=name))
        raise
    return replies[-1] if replies else None
