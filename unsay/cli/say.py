"""`unsay say`: one message, one answer."""

import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict

import click

from unsay.cli.deciding import decision_of
from unsay.cli.output import note, print_json, versioned
from unsay.cli.place import existing_thread, location
from unsay.cli.screen import Screen
from unsay.cli.speaking import labels_for, labels_of, open_with_model, settings_for
from unsay.errors import InputError
from unsay.graph.conversation import Conversation
from unsay.graph.reply import Reply
from unsay.history.database import open_database
from unsay.settings import Settings


def say(
    *,
    text: str | None,
    thread: str | None,
    model: str | None,
    judge_model: str | None,
    resume: bool,
    decide: str | None,
    db: str | None,
    as_json: bool,
) -> None:
    """Say something, go on with a turn, or decide about one, and print the reply."""
    if (text is not None) + resume + (decide is not None) != 1:
        raise click.UsageError(
            "Give one of TEXT, --resume and --decide", click.get_current_context()
        )
    settings = settings_for(model=model, judge_model=judge_model)
    with _opened(db, thread, settings, begins=text is not None) as conversation:
        try:
            reply = _reply(conversation, settings, text, decide, as_json=as_json)
        except KeyboardInterrupt:
            note(f"stopped; unsay say --thread {conversation.thread_id} --resume goes on")
            raise
        if as_json:
            print_json(versioned(thread_id=conversation.thread_id, **asdict(reply)))
        if reply.kind == "decision":
            note(_how_to_decide(conversation.thread_id))


@contextmanager
def _opened(
    db: str | None, thread: str | None, settings: Settings, *, begins: bool
) -> Iterator[Conversation]:
    """The conversation; a message begins a new one unless it names one, all else needs an old one."""
    if not begins:
        with existing_thread(db, thread) as found:
            yield open_with_model(found.database, found.thread_id, settings)
        return
    with closing(open_database(location(db))) as database:
        conversation = open_with_model(database, thread, settings)
        if thread is None:
            note(f"thread {conversation.thread_id}")
        yield conversation


def _reply(
    conversation: Conversation,
    settings: Settings,
    text: str | None,
    decide: str | None,
    *,
    as_json: bool,
) -> Reply:
    if text is None:
        reply = conversation.resume(None if decide is None else decision_of(decide))
        screen = Screen(labels_of(conversation, settings), live=False)
        if not as_json:
            screen.reply(reply)
        return reply
    words = _from_stdin() if text == "-" else text
    if as_json:
        return conversation.say(words)
    return _streamed(conversation, words, settings)


def _streamed(conversation: Conversation, words: str, settings: Settings) -> Reply:
    screen = Screen(labels_for(words, settings), live=sys.stdout.isatty())
    reply: Reply | None = None
    with closing(conversation.stream(words)) as events:
        for event in events:
            screen.show(event)
            reply = event.reply
    assert reply is not None  # noqa: S101 - a stream that ends, ends in the reply
    return reply


def _from_stdin() -> str:
    """All of standard input.

    Raises:
        InputError: It is not text in UTF-8.
    """
    try:
        return sys.stdin.read()
    except UnicodeDecodeError as error:
        raise InputError(f"Standard input is not UTF-8 text ({error}); convert it first") from error


def _how_to_decide(thread_id: str) -> str:
    return f'unsay say --thread {thread_id} --decide approve|reject|edit:WORDS|"what to do better"'
