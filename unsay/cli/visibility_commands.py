"""`unsay pin`, `unpin`, `forget` and `forgotten`: what views hold on to and what they leave out."""

from collections.abc import Sequence

import click

from unsay.cli.output import print_json, versioned
from unsay.cli.rollback_commands import language_in
from unsay.cli.session import Found, existing_thread
from unsay.conversation.conversation import Conversation
from unsay.conversation.tree import forgotten_line
from unsay.messages.content import preview, text_of
from unsay.operations.recall_search import finds_text
from unsay.prompts.catalog import texts
from unsay.retrieval.excerpts import speaker
from unsay.types import Forgotten, Pin


def pin(
    *, message_id: str | None, turn: int | None, thread: str | None, db: str | None, as_json: bool
) -> None:
    """Pin a message or a turn, and say which."""
    _check_one(message_id, turn)
    with existing_thread(db, thread) as found:
        conversation = found.open()
        before = conversation.pins()
        pins = conversation.pin(message_id, turn=turn)
        new = [each for each in pins if each not in before]
        words = texts(language_in(conversation)).pinned
        _tell(found, conversation, pins, new, words, as_json=as_json)


def unpin(
    *, message_id: str | None, turn: int | None, thread: str | None, db: str | None, as_json: bool
) -> None:
    """Take pins off, and say which."""
    _check_one(message_id, turn)
    with existing_thread(db, thread) as found:
        conversation = found.open()
        before = conversation.pins()
        pins = conversation.unpin(message_id, turn=turn)
        names = {each["message_id"] for each in pins}
        off = [each for each in before if each["message_id"] not in names]
        words = texts(language_in(conversation)).unpinned
        _tell(found, conversation, pins, off, words, as_json=as_json)


def forget(
    *,
    what: str | None,
    through: str | None,
    turn: str | None,
    results_below: float | None,
    reason: str,
    thread: str | None,
    db: str | None,
    as_json: bool,
) -> None:
    """Forget what is named, and say what that is."""
    if sum(each is not None for each in (what, turn, results_below)) != 1:
        context = click.get_current_context()
        raise click.UsageError("Give WHAT, --turn or --results-below, one of them.", context)
    with existing_thread(db, thread) as found:
        conversation = found.open()
        if results_below is None:
            made = [conversation.forget(what, through, turns=turn, reason=reason)]
        else:
            entry = conversation.forget_tool_results(results_below, reason=reason)
            made = [] if entry is None else [entry]
        _list(found, conversation, made, as_json=as_json)


def forgotten(*, thread: str | None, db: str | None, as_json: bool) -> None:
    """Print what is forgotten, oldest first."""
    with existing_thread(db, thread) as found:
        conversation = found.open()
        _list(found, conversation, conversation.forgotten(), as_json=as_json)


def _check_one(message_id: str | None, turn: int | None) -> None:
    if message_id is not None and turn is not None:
        context = click.get_current_context()
        raise click.UsageError("Give a message's ID or --turn, not both.", context)


def _tell(
    found: Found,
    conversation: Conversation,
    pins: Sequence[Pin],
    changed: Sequence[Pin],
    words: str,
    *,
    as_json: bool,
) -> None:
    if as_json:
        print_json(versioned(thread_id=found.thread_id, pins=pins))
        return
    names = {each["message_id"] for each in changed}
    said = [text_of(each) for each in conversation.messages() if each.id in names]
    first = next((each for each in said if each.strip()), "")
    click.echo(words.format(words=preview(first, 40)))


def _list(
    found: Found, conversation: Conversation, entries: Sequence[Forgotten], *, as_json: bool
) -> None:
    if as_json:
        print_json(versioned(thread_id=found.thread_id, forgotten=entries))
        return
    for each in entries:
        click.echo(forgotten_line(each))
    if not entries:
        click.echo(texts(language_in(conversation)).no_forgotten)


def recall(*, words: str, thread: str | None, db: str | None, as_json: bool) -> None:
    """Print what was found; the next answer's model is shown it."""
    with existing_thread(db, thread) as found:
        conversation = found.open()
        finds = conversation.recall(words)
        if as_json:
            rows = [
                {
                    "message_id": each.message.id,
                    "turn": each.turn,
                    "speaker": speaker(each.message),
                    "text": text_of(each.message),
                    "why": each.reason.why,
                    "words": list(each.reason.words),
                }
                for each in finds
            ]
            print_json(versioned(thread_id=found.thread_id, recalled=rows))
            return
        click.echo(finds_text(finds, words, texts(language_in(conversation))))
