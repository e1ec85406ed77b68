"""`unsay say` and `retry`: one message, one answer."""

import sys
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from dataclasses import asdict

from unsay.cli.output import note, print_json, usage_error, versioned
from unsay.cli.session import Cast, Show, Speaker, decision_of, existing_thread, location, readable
from unsay.cli.terminal import Screen
from unsay.conversation.results import Event
from unsay.errors import InputError
from unsay.storage.sqlite import open_database


def say(
    *,
    text: str | None,
    thread: str | None,
    model: str | None,
    judge_model: str | None,
    resume: bool,
    decide: str | None,
    turn_id: str | None,
    db: str | None,
    as_json: bool,
) -> None:
    """Say something, go on with a turn, or decide about one, and print the reply."""
    if (text is not None) + resume + (decide is not None) != 1:
        raise usage_error("Give one of TEXT, --resume and --decide.")
    if turn_id is not None and (text is None or thread is None):
        raise usage_error("--turn-id names what TEXT begins in a --thread: give both.")
    cast = Cast.named(model=model, judge_model=judge_model)
    words = None if text is None else readable(_from_stdin() if text == "-" else text)
    with _speaker(cast, db, thread, begins=text is not None) as speaker:
        if words is not None:
            _show(speaker, words, lambda show: speaker.say(words, show, turn_id), as_json=as_json)
        else:
            due = None if decide is None else decision_of(decide)
            _show(speaker, None, lambda show: speaker.resume(due, show), as_json=as_json)


def retry(
    *,
    thread: str | None,
    model: str | None,
    judge_model: str | None,
    db: str | None,
    as_json: bool,
) -> None:
    """Ask the last question again and print the reply."""
    cast = Cast.named(model=model, judge_model=judge_model)
    with _speaker(cast, db, thread, begins=False) as speaker:
        _show(speaker, None, speaker.retry, as_json=as_json)


@contextmanager
def _speaker(
    cast: Cast, db: str | None, thread: str | None, *, begins: bool
) -> Generator[Speaker, None, None]:
    """Open a new thread for words that name none, else an old one."""
    if not begins:
        with (
            existing_thread(db, thread) as opened,
            cast.speaker(opened.database, opened.thread_id) as speaker,
        ):
            yield speaker
        return
    with (
        closing(open_database(location(db))) as database,
        cast.speaker(database, thread) as speaker,
    ):
        if thread is None:
            note(f"thread {speaker.conversation.thread_id}")
        yield speaker


def _show(
    speaker: Speaker, words: str | None, turn: Callable[[Show], None], *, as_json: bool
) -> None:
    """Show a turn; one that Ctrl-C stops can be resumed."""
    name = speaker.conversation.thread_id

    def show_object(event: Event) -> None:
        if event.reply is not None:
            print_json(versioned(thread_id=name, **asdict(event.reply)))

    def show_words(event: Event) -> None:
        screen.show(event)
        if event.reply is not None and event.reply.kind == "decision":
            note(
                f'unsay say --thread {name} --decide approve|reject|edit:WORDS|"what to do better"'
            )

    try:
        if as_json:
            turn(show_object)
        else:
            screen = Screen(speaker.labels(words), live=sys.stdout.isatty())
            turn(show_words)
    except KeyboardInterrupt:
        note(f"stopped; unsay say --thread {name} --resume goes on")
        raise


def _from_stdin() -> str:
    try:
        return sys.stdin.read()
    except UnicodeDecodeError as error:
        raise InputError("Standard input is not UTF-8 text; convert it first") from error
