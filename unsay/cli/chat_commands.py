"""`unsay chat`, `say` and `retry`: a person speaks in a thread."""

import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from importlib import import_module
from importlib.util import find_spec

import click

from unsay.cli.output import note, print_json, show_error, usage_error, versioned
from unsay.cli.session import Show, Speaker, decision_of, event_object, readable, speaking
from unsay.cli.terminal import Screen
from unsay.conversation.conversation import Conversation
from unsay.conversation.results import Event, reply_event
from unsay.effects import drive
from unsay.errors import InputError, SessionEndedError, UnknownThreadError
from unsay.history.threads import find_session, refuse_ended
from unsay.messages.annotations import spoken
from unsay.messages.content import preview, text_of
from unsay.operations.command_table import chat_help
from unsay.operations.commands import parse_command
from unsay.state import Command
from unsay.storage.base import translated

Reader = Callable[[str], str]
"""Reads one line that begins with its argument, which the user can edit; raises `EOFError`."""

PROMPT = "> "
RESUME = Command(verb="resume", argument="")
LEAVE = Command(verb="exit", argument="")


def chat(*, thread: str | None, db: str | None, as_json: bool, **models: str | None) -> None:
    with speaking(db, thread, begins=True, **models) as speaker:
        with translated(speaker.database.path):
            thread_id = speaker.conversation.thread_id
            refuse_ended(drive(find_session(speaker.database.store, thread_id)))
        Chat(speaker, as_json=as_json).run()


class Chat:
    """The loop of a chat: read a line, answer it, and continue after errors."""

    def __init__(self, speaker: Speaker, *, as_json: bool) -> None:
        self._speaker = speaker
        self._conversation = speaker.conversation
        self._as_json = as_json
        self._interactive = sys.stdin.isatty()
        self._screen = Screen(speaker.labels(), live=sys.stdout.isatty())
        self._prefill = ""
        self._deciding = False

    def run(self) -> None:
        """Read and answer until the end of the input or `/exit`."""
        self._greet()
        read = reader(self._conversation, interactive=self._interactive)
        while (line := self._next(read)) is not None:
            try:
                self._take(line)
            except KeyboardInterrupt:
                if not self._interactive:
                    raise
                self._screen.end_line()
                self._screen.note(self._screen.labels.stopped)
            except SessionEndedError:
                raise
            except Exception as error:  # noqa: BLE001 - a model may fail in any way; the chat goes on
                self._screen.end_line()
                show_error(error, as_json=self._as_json, interface="chat")
            if self._interactive:
                click.echo(err=True)

    def _greet(self) -> None:
        words = self._screen.labels
        if self._as_json:
            print_json(versioned(event="thread", thread_id=self._conversation.thread_id))
        note(f"thread {self._conversation.thread_id}")
        if self._interactive:
            note(words.leave)
        if (due := self._speaker.due()) is not None:
            self._show(reply_event(due))
            return
        with suppress(UnknownThreadError):
            turns = self._conversation.timeline().turns
            if turns and turns[-1].answer is None and turns[-1].question:
                question = preview(turns[-1].question)
                self._screen.note(words.waiting.format(question=question))

    def _next(self, read: Reader) -> str | None:
        """Return the next line with words in it; `None` when the chat is over."""
        while True:
            try:
                line = read(self._prefill).strip()
            except EOFError:
                return None
            except KeyboardInterrupt:
                if not self._interactive:
                    raise
                note(self._screen.labels.leave)
                line = ""
            self._prefill = ""
            if parse_command(line) == LEAVE:
                return None
            if line:
                return line

    def _take(self, line: str) -> None:
        command = parse_command(line)
        if command == RESUME or (self._deciding and command is None):
            decision = decision_of(line) if command is None else None
            self._speaker.resume(decision, self._show)
            return
        if command is None:
            self._screen.labels = self._speaker.labels(line)
        before, deciding = spoken(self._conversation.messages()), self._deciding
        self._speaker.say(readable(line), self._show)
        if command is None:
            return
        # The notice about a command decides nothing.
        self._deciding = self._deciding or deciding
        if command["verb"] in ("undo", "rollback"):
            after = {message.id for message in self._conversation.messages()}
            gone = (m for m in before if m.type == "human" and m.id not in after)
            self._prefill = next((text_of(message) for message in gone), "")
        if command["verb"] == "help" and not self._as_json:
            click.echo(chat_help(self._screen.labels.language, by_chat=True))

    def _show(self, event: Event) -> None:
        if event.reply is not None:
            self._deciding = event.reply.kind == "decision"
        if self._as_json:
            print_json(event_object(event))
            return
        self._screen.show(event)
        if self._deciding:
            note(self._screen.labels.decide)


def reader(conversation: Conversation, *, interactive: bool) -> Reader:
    """Return a function that reads a line from the terminal or, if not `interactive`, from a pipe.

    On a terminal it uses prompt_toolkit if that is installed. Otherwise the function raises
    `InputError` for input that is not UTF-8.
    """
    if interactive and sys.stdout.isatty() and find_spec("prompt_toolkit") is not None:
        made: Reader = import_module("unsay.cli.prompt").make_reader(conversation, PROMPT)
        return made

    def read(_prefill: str) -> str:
        if interactive:
            click.echo(PROMPT, nl=False, err=True)
        try:
            return input()
        except UnicodeDecodeError as error:
            raise InputError("The input is not UTF-8 text: convert it to UTF-8 first") from error

    return read


def say(
    *,
    text: str | None,
    thread: str | None,
    resume: bool,
    decide: str | None,
    turn_id: str | None,
    answer: str | None,
    db: str | None,
    as_json: bool,
    **models: str | None,
) -> None:
    if (text is not None) + resume + (decide is not None) != 1:
        raise usage_error("Give exactly one of TEXT, --resume and --decide.")
    if turn_id is not None and (text is None or thread is None):
        raise usage_error("--turn-id needs TEXT and --thread.")
    if answer is not None and turn_id is None:
        raise usage_error("--answer needs --turn-id.")
    words = None
    if text is not None:
        try:
            words = readable(sys.stdin.read() if text == "-" else text)
        except UnicodeDecodeError as error:
            raise InputError(
                "Standard input is not UTF-8 text: convert it to UTF-8 first"
            ) from error
    with speaking(db, thread, begins=text is not None, **models) as speaker:
        if words is None:
            due = None if decide is None else decision_of(decide)
            _show(speaker, None, lambda show: speaker.resume(due, show), as_json=as_json)
            return
        if thread is None:
            note(f"thread {speaker.conversation.thread_id}")
        ask = partial(speaker.say, words, turn_id=turn_id, answer=answer)
        _show(speaker, words, ask, as_json=as_json)


def retry(*, thread: str | None, db: str | None, as_json: bool, **models: str | None) -> None:
    with speaking(db, thread, begins=False, **models) as speaker:
        _show(speaker, None, speaker.retry, as_json=as_json)


def edit(
    *, turn: int, text: str, thread: str | None, db: str | None, as_json: bool, **models: str | None
) -> None:
    words = readable(text)
    with speaking(db, thread, begins=False, **models) as speaker:
        _show(speaker, words, lambda show: speaker.edit(turn, words, show), as_json=as_json)


def compact(
    *, up_to: str | None, thread: str | None, db: str | None, as_json: bool, **models: str | None
) -> None:
    with speaking(db, thread, begins=False, **models) as speaker:
        made = speaker.conversation.compact(up_to)
        if as_json:
            print_json(versioned(thread_id=speaker.conversation.thread_id, **asdict(made)))
        else:
            click.echo(speaker.labels().compacted.format(count=len(made.message_ids)))


def _show(
    speaker: Speaker, words: str | None, turn: Callable[[Show], None], *, as_json: bool
) -> None:
    """Show the events of a turn (`turn` calls back with each) as text or JSON.

    If Ctrl-C stops it, a note says how to resume. `words` are the message, for the language.
    """
    name = speaker.conversation.thread_id

    def show_object(event: Event) -> None:
        if event.reply is not None:
            print_json(versioned(thread_id=name, **asdict(event.reply)))

    def show_words(event: Event) -> None:
        screen.show(event)
        if event.reply is not None and event.reply.kind == "decision":
            note(
                f'decide: unsay say --thread {name} --decide approve|reject|edit:TEXT|"instructions"'
            )

    try:
        if as_json:
            turn(show_object)
        else:
            screen = Screen(speaker.labels(words).for_shell(), live=sys.stdout.isatty())
            turn(show_words)
    except KeyboardInterrupt:
        note(f"stopped; `unsay say --thread {name} --resume` continues")
        raise
