"""The loop of `unsay chat`: read a message, show its answer, and continue after errors."""

import sys
from dataclasses import replace
from functools import partial

import click
from langchain_core.messages import AnyMessage

import unsay
from unsay.cli.keyboard import is_dumb, is_rich, paste_in_one_piece
from unsay.cli.output import exit_code_of, history_file, note, print_json, show_error, versioned
from unsay.cli.prompt import ROLLBACK, Keyboard, PlainReader, Row, choose, ends_chat, verb_of
from unsay.cli.run import Attached
from unsay.cli.screen import Screen, event_object
from unsay.cli.session import Speaker, decision_of, is_about_draft, readable
from unsay.cli.terminal import clean, columns, help_table, room, wrapped
from unsay.cli.verbs import places_of
from unsay.decisions import yes_or_no
from unsay.errors import (
    ConflictError,
    InputError,
    SessionEndedError,
    UnknownThreadError,
    UnsayError,
)
from unsay.messages.annotations import answered_turns, first_questions, spoken
from unsay.messages.content import cells_of, preview, text_of
from unsay.orders.orders import chat_help
from unsay.orders.parse import parse_command
from unsay.prompts.catalogue import Texts
from unsay.results.results import Event, Reply, reply_event
from unsay.results.timeline import TimelineData, one_line
from unsay.results.usage import percent, window_head
from unsay.state import Command
from unsay.turn.checkpoints import wants_back

BETWEEN = " · "
# A topic with less room than these columns is left out.
LEAST_TOPIC = 8


def status_of(conversation: "unsay.Conversation", words: Texts) -> str:
    """Return the chat's bottom line: the topic, and the use of the budgets and the context window.

    A long topic is cut so that the figures fit, and left out if there is no room for it. The context
    is last, because its text is the longest and a narrow terminal cuts the end off. For a thread
    without answers, or one that cannot be read, the line is the thread's id.
    """
    try:
        status = conversation.tokens(spent=False)
    except UnsayError:
        return conversation.thread_id
    if status.window is None:
        return conversation.thread_id
    layers = words.table("tokens_names")
    budgets = [
        words.say("budget", layer=layers[each.layer], share=percent(each.used, each.limit, words))
        for each in status.gauges
    ]
    context, no_topic = window_head(status.window, words), words.say("topic", label="")
    room = columns() - 1 - cells_of(BETWEEN.join([no_topic, *budgets, context]))
    # What stands in brackets may be cut off; a figure that is cut in half would mislead.
    least = room + cells_of(context) - cells_of(context.partition("(")[0])
    if not status.topic or least <= LEAST_TOPIC:
        return BETWEEN.join([*budgets, context])
    label = one_line(status.topic, max(LEAST_TOPIC, room))
    return BETWEEN.join([words.say("topic", label=label), *budgets, context])


QUESTION_CHARS = 60


class Chat:
    """One chat in one thread; `unsay chat` makes it and calls `run`."""

    def __init__(
        self, speaker: Speaker, *, files: Attached, as_json: bool, begun: str = ""
    ) -> None:
        """`begun` is the beginning of a first message, which a person typed before the prompt."""
        self._speaker = speaker
        self._conversation = speaker.conversation
        self._registry = unsay.Registry(speaker.database)
        self._as_json = as_json
        self._interactive = sys.stdin.isatty()
        self._screen = Screen(speaker.labels(), live=sys.stdout.isatty())
        self._reader: Keyboard | PlainReader = PlainReader(interactive=self._interactive)
        if is_rich():
            self._reader = Keyboard(
                self._conversation,
                self._screen.labels.language,
                history_file(),
                lambda: status_of(self._conversation, self._screen.labels),
            )
        self._files = files
        """Files that go with the next message."""

        self._sent: dict[str, tuple[str, Attached]] = {}
        """Words and files of each message that was sent with files."""

        self._stopped_notes: list[str] = []  # of answers, until the event log takes them
        self._prefill = begun
        self._due: Reply | None = None
        self._ordered: tuple[str, list[AnyMessage]] | None = None
        """The verb of a command that removes questions, and the messages before it."""

        speaker.tick = self._screen.tick

    def run(self) -> int:
        """Read and answer messages until the end of the input, `exit`, `quit` or `/exit`.

        An error of a turn is shown, and the chat goes on. Returns the exit code: 0, or that of the
        first such error if standard input is not a terminal.

        Raises:
            SessionEndedError: The thread was ended.
            StorageError: The thread cannot be read when the chat begins.
            InputError: The input is not UTF-8 text.
            KeyboardInterrupt: Ctrl-C, unless standard input is a terminal: there it stops the turn.
        """
        self._greet()
        code = 0
        while (line := self._next()) is not None:
            try:
                self._turn(line)
            except (SessionEndedError, BrokenPipeError):
                raise
            except Exception as error:  # noqa: BLE001 - a model may fail in any way; the chat goes on
                code = code or exit_code_of(error)
                self._screen.end_line()
                show_error(
                    error,
                    as_json=self._as_json,
                    door="chat",
                    texts=self._screen.labels,
                    layout=self._fitted,
                )
            if self._interactive:
                click.echo(err=True)
        return 0 if self._interactive else code

    def _turn(self, line: str) -> None:
        try:
            self._answer(line)
        except KeyboardInterrupt:
            if not self._interactive:
                raise
            self._stopped()
        self._keep_stopped()

    def _keep_stopped(self) -> None:
        """Put what had arrived of stopped answers into the event log, if no turn waits."""
        while self._stopped_notes:
            try:
                self._registry.note(self._conversation.thread_id, self._stopped_notes[0])
            except (ConflictError, UnknownThreadError):
                return
            del self._stopped_notes[0]

    def _fitted(self, line: str) -> str:
        return wrapped(clean(line), columns=columns()) if self._interactive else line

    def _greet(self) -> None:
        words = self._screen.labels
        if self._as_json:
            thread = {"event": "thread", "thread_id": self._conversation.thread_id}
            print_json(versioned(**thread, text="", message_id=None, data={}))
        note(words.say("thread", id=self._conversation.thread_id))
        if self._interactive:
            note(wrapped(words.say("leave"), columns=columns()))
            if isinstance(self._reader, Keyboard):
                note(wrapped(words.say("keys"), columns=columns()))
            if not self._as_json and (timeline := self._timeline()) is not None:
                click.echo()
                self._screen.last_turns(timeline.turns)
        self._attach(self._files)
        if (due := self._speaker.due()) is not None:
            self._show(reply_event(due))
        elif question := self._speaker.stopped_question():
            self._screen.note(words.say("waiting", question=preview(question)))

    def _timeline(self) -> TimelineData | None:
        try:
            return self._conversation.timeline()
        except UnknownThreadError:
            return None

    def _next(self) -> str | None:
        """Return the next message that is not empty; `None` when the chat is over.

        It is over at the end of the input and after `exit`, `quit` or `/exit`. Ctrl-C shows how to
        leave, and the chat reads again; without a terminal it raises `KeyboardInterrupt`. Raises
        `InputError` if the input is not UTF-8 text.
        """
        while True:
            try:
                line = self._reader.read(self._prefill, self._choices()).strip()
            except EOFError:
                return None
            except UnicodeDecodeError as error:
                raise InputError(code="input_not_utf8") from error
            except KeyboardInterrupt:
                if not self._interactive:
                    raise
                note(self._screen.labels.say("leave"))
                line = ""
            self._prefill = ""
            if ends_chat(line) or verb_of(line) == "exit":
                return None
            if line:
                return line

    def _choices(self) -> list[str]:
        """Return the choices to show and complete at a decision, such as `approve` or `yes`.

        Empty while the chat waits for a message.
        """
        if self._due is None or self._due.request is None:
            return []
        say = self._screen.labels.say
        if not is_about_draft(self._due):
            return [say("choice_yes"), say("choice_no")]
        return ["approve", "reject", f"edit:{say('choice_text')}", say("choice_instructions")]

    def _answer(self, line: str) -> None:
        if isinstance(self._reader, Keyboard):
            paste_in_one_piece()
        command = parse_command(line)
        deciding = self._due is not None
        if self._due and command is None and not self._is_decision(line, self._due):
            note(self._fitted(self._asked_for(self._due)))
            return
        if verb_of(line) == "resume" or (deciding and command is None):
            decision = decision_of(line) if command is None else None
            self._screen.begin()
            self._speaker.resume(decision, self._show)
            self._show_removed()
            return
        if command is None:
            self._ordered = None
            self._screen.labels = self._speaker.labels(line)
            self._screen.begin()
            self._ask(line)
        elif line == ROLLBACK and self._interactive and not self._as_json:
            self._pick_place()
        else:
            self._obey(command, line)

    def _obey(self, command: Command, line: str) -> None:
        """Carry out a slash command; raises the errors of `Speaker.say`, which `run` shows."""
        help_topic = command["argument"] if command["verb"] == "help" else ""
        if help_topic and not self._as_json and (own := self._own_help(help_topic)):
            click.echo(own)
            return
        is_list = command["verb"] == "help" and not help_topic and not self._as_json
        before, due = spoken(self._conversation.messages()), self._due
        if command["verb"] == "edit":
            self._screen.labels = self._speaker.labels(command["argument"])
        if command["verb"] in ("retry", "edit"):
            self._screen.begin()
        elif command["verb"] == "compact":
            self._screen.ask()
        self._speaker.say(readable(line), self._show_help if is_list else self._show)
        # The notice about a command decides nothing.
        self._due = self._due or due
        if command["verb"] in ("undo", "rollback", "edit"):
            self._ordered = command["verb"], before
            self._show_removed()

    def _show_removed(self) -> None:
        """Put the question that an undo or a rollback removed into the prompt; count an edit's turns.

        While a decision is due, such as whether a tool call is undone, nothing is done yet.
        """
        if self._ordered is None or self._due is not None:
            return
        (verb, before), self._ordered = self._ordered, None
        after = {message.id for message in self._conversation.messages()}
        gone = [message for message in before if message.id not in after]
        if verb != "edit":
            self._put_back("\n".join(map(text_of, first_questions(gone))), selects=True)
        elif (later_count := len(answered_turns(gone)) - 1) > 0:
            self._screen.note(self._screen.labels.say("turns_replaced", turns=later_count))

    def _show_help(self, event: Event) -> None:
        if event.reply is not None:
            text = help_table(f"{event.reply.text}\n{self._own_help()}", columns=room())
            event = replace(event, reply=replace(event.reply, text=text))
        self._show(event)

    def _own_help(self, only: str = "") -> str:
        return chat_help(self._screen.labels.language, by_chat=True, only=only)

    def _ask(self, line: str) -> None:
        """Send a message and its files; the files of a refused message go with the next one."""
        files, text = self._files, readable(line)
        if files.names:
            text = readable(files.text(line))
            self._sent[text], self._files = (line, files), Attached()
        try:
            self._speaker.say(text, self._show, images=list(files.images.values()))
        except UnsayError:
            if self._speaker.stopped_question() != text:  # it was not stored
                self._attach(files)
            raise
        if wants_back(line) and not self._as_json:
            self._screen.note(self._screen.labels.say("back_hint"))

    def _put_back(self, text: str, *, selects: bool = False) -> None:
        """Put the words of a removed message into the prompt; its files go with the next message.

        With `selects`, what is typed replaces them. A plain terminal shows the words instead.
        """
        question, files = self._sent.get(text, (text, Attached()))
        if isinstance(self._reader, Keyboard):
            self._prefill, self._reader.selects = question, selects
        elif question and self._interactive:  # a plain prompt cannot hold them
            note(self._fitted(self._screen.labels.say("asked", question=question)))
        self._attach(files)

    def _attach(self, files: Attached) -> None:
        if files.names:
            self._files = files
            note(self._screen.labels.say("attached", names=", ".join(files.names)))

    def _pick_place(self) -> None:
        """Let the person choose a turn or a checkpoint, and roll back to it.

        This is `/rollback` without an argument, or Esc Esc. If there is no place to go back to, a
        note says so. If the person chooses nothing, nothing changes. Raises what `_obey` raises, and
        `StorageError` if the thread cannot be read.
        """
        self._prefill, words = self._reader.typed, self._screen.labels
        timeline = self._timeline()
        places = [] if timeline is None else places_of(timeline, words)
        if not places:
            note(words.say("back_nothing"))
            return
        rows = [Row(text=text, preview=partial(self._preview, order)) for text, order in places]
        choice = choose(words.say("back_title"), rows, self._how_to_choose(), start=len(rows) - 1)
        if choice is not None:
            self._prefill = ""
            order = f"{ROLLBACK} {places[choice][1]}"
            self._obey(Command(verb="rollback", argument=places[choice][1]), order)

    def _preview(self, order: str) -> str:
        """Return in words what `/rollback ORDER` would remove, or why it cannot be done."""
        turns = int(order) if order.isdecimal() else None
        try:
            rollback_preview = self._conversation.preview(None if turns else order, turns=turns)
        except UnsayError as error:
            return self._screen.labels.message(error, "chat")
        return clean(rollback_preview.text(self._screen.labels))

    def _stopped(self) -> None:
        """After Ctrl-C, let the person resume, edit or drop the question, or decide later.

        If the answer was complete, a note says so. If a decision is due, nothing else is asked.
        Raises what the resumed turn or `Conversation.undo` raises; `run` shows it.
        """
        draft, words = self._screen.draft, self._screen.labels
        self._screen.end_line()
        self._screen.note(words.say("stopped"))
        question = self._speaker.stopped_question()
        if question is None:
            if self._speaker.due() is None:
                self._screen.note(words.say("complete"))
            return
        if draft:
            self._stopped_notes.append(words.say("stopped_note", question=question, draft=draft))
        title = words.say("stop_title", question=preview(question, QUESTION_CHARS))
        names = ("stop_resume", "stop_edit", "stop_drop", "stop_later")
        rows = [Row(text=words.say(name)) for name in names]
        choice = choose(title, rows, self._how_to_choose())
        if choice == 0:
            self._turn("/resume")
        elif choice in (1, 2):
            undone = self._conversation.undo()
            # A retry or an edit that was stopped had replaced other messages.
            self._screen.note(words.say("dropped_new" if undone.restored else "dropped"))
            if choice == 1:
                self._put_back(question)
        else:
            self._screen.note(words.say("later", question=preview(question)))

    def _how_to_choose(self) -> str:
        words = self._screen.labels
        return words.say("list_numbers" if is_dumb() else "list_keys")

    def _show(self, event: Event) -> None:
        if event.reply is not None:
            self._due = event.reply if event.reply.kind == "decision" else None
        if self._as_json:
            print_json(event_object(event))
            return
        self._screen.show(event)
        if event.reply is not None and self._due is not None:
            note(self._fitted(self._asked_for(self._due)))

    def _asked_for(self, due: Reply) -> str:
        """Return what a person can enter at a decision."""
        words = self._screen.labels
        return words.say("decide" if is_about_draft(due) else "decide_yes_no")

    def _is_decision(self, line: str, due: Reply) -> bool:
        """Return whether a line decides; `edit:` without a text does not."""
        return line != "edit:" if is_about_draft(due) else yes_or_no(line) is not None
