"""`unsay say` and `retry`: one message, one answer."""

import sys
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from dataclasses import asdict

import click

from unsay.cli.output import note, print_json, versioned
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
    context = click.get_current_context()
    if (text is not None) + resume + (decide is not None) != 1:
        raise click.UsageError("Give one of TEXT, --resume and --decide.", context)
    if turn_id is not None and (text is None or thread is None):
        raise click.UsageError(
            "--turn-id names what TEXT begins in a --thread: give both.", context
        )
    cast = Cast.named(model=model, judge_model=judge_model)
    words = None if text is None else readable(_from_stdin() if text == "-" else text)
    with _speaker(cast, db, thread, begins=text is not None) as speaker:
        turns = speaker.turns
        if words is not None:
            _shown(speaker, words, lambda show: turns.say(words, show, turn_id), as_json=as_json)
        else:
            due = None if decide is None else decision_of(decide)
            _shown(speaker, None, lambda show: turns.resume(due, show), as_json=as_json)


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
        _shown(speaker, None, speaker.turns.retry, as_json=as_json)


def _shown(
    speaker: Speaker, words: str | None, turn: Callable[[Show], None], *, as_json: bool
) -> None:
    """Show a turn; one that Ctrl-C stops can be gone on with."""
    name = speaker.conversation.thread_id
    try:
        turn(_Objects(name) if as_json else _Words(_screen(speaker, words), name))
    except KeyboardInterrupt:
        note(f"stopped; unsay say --thread {name} --resume goes on")
        raise


@contextmanager
def _speaker(
    cast: Cast, db: str | None, thread: str | None, *, begins: bool
) -> Generator[Speaker, None, None]:
    """Words begin a new thread unless they name one; all else goes on with an old one."""
    if not begins:
        with (
            existing_thread(db, thread) as found,
            cast.speaker(found.database, found.thread_id) as speaker,
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


def _from_stdin() -> str:
    """All of standard input.

    Raises:
        InputError: It is not text in UTF-8.
    """
    try:
        return sys.stdin.read()
    except UnicodeDecodeError as error:
        raise InputError("Standard input is not UTF-8 text; convert it first") from error


def _screen(speaker: Speaker, words: str | None) -> Screen:
    spoken = speaker.labels() if words is None else speaker.labels_for(words)
    return Screen(spoken, live=sys.stdout.isatty())


class _Words:
    """Shows a turn to a person."""

    def __init__(self, screen: Screen, thread_id: str) -> None:
        self._screen = screen
        self._thread_id = thread_id

    def __call__(self, event: Event) -> None:
        self._screen.show(event)
        if event.reply is not None and event.reply.kind == "decision":
            note(
                f"unsay say --thread {self._thread_id} --decide "
                'approve|reject|edit:WORDS|"what to do better"'
            )


class _Objects:
    """Gives a program one object, the reply."""

    def __init__(self, thread_id: str) -> None:
        self._thread_id = thread_id

    def __call__(self, event: Event) -> None:
        if event.reply is not None:
            print_json(versioned(thread_id=self._thread_id, **asdict(event.reply)))
