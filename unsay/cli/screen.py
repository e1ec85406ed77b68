"""A turn as a person sees it in a terminal: the words as they come, all else dimmed."""

import json
import logging
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import click

from unsay import tracing
from unsay.cli.keyboard import is_dumb
from unsay.cli.output import call_text, fields_of, versioned
from unsay.cli.terminal import UNBOUNDED, Wrap, clean, columns, wrapped
from unsay.messages.content import cells_of, preview, with_file_names
from unsay.prompts.catalogue import Texts
from unsay.results.results import Event, Reply, score_text
from unsay.results.timeline import TimelineTurn, one_line

NOTE_INDENT = 2

# How many turns of an opened thread are shown, and how many lines of an answer.
LAST_TURNS = 3
ANSWER_ROWS = 12

# How much of a tool's arguments is shown, and of an error of it.
CALL_CHARS = 200

# First argument of the log records of a failure that a turn shows in words.
SHOWN_FAILURE = "judge_failed"

# Events whose notes wait while a draft is judged: behind one, it could not be struck out.
HELD = frozenset(
    {"budget_warning", "compaction", "context_warning", "summary_failed", "topic", "verdict"}
)

FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class Spinner:
    """One line that says what the program does and for how many seconds; erased before other text.

    It is not drawn unless standard output is a terminal that can move its cursor.
    """

    def __init__(self) -> None:
        self._enabled = sys.stdout.isatty() and not is_dumb()
        self._activity = ""
        self._since = 0.0
        self._cells = 0

    def start(self, activity: str) -> None:
        """Set what the line says, and count its seconds from now; an empty text draws no line.

        The old line is erased at once, the new one is drawn at the next `tick`. The same text as before
        changes nothing.
        """
        if activity != self._activity:
            self.clear()
            self._activity, self._since = activity, time.monotonic()

    def tick(self) -> None:
        """Draw the line with its seconds; nothing if it is empty or the terminal cannot show it."""
        if not (self._enabled and self._activity):
            return
        seconds = time.monotonic() - self._since
        frame = FRAMES[int(seconds * 10) % len(FRAMES)]
        line = one_line(f"{frame} {self._activity} · {seconds:.0f} s", columns() - 1)
        self._put(line)
        self._cells = cells_of(line)

    def clear(self) -> None:
        """Erase the line until the next `tick`."""
        if self._cells:
            self._put("")
            self._cells = 0

    def _put(self, line: str) -> None:
        # Blanks instead of escape codes, which NO_COLOR may mean as well.
        blanks = " " * max(0, self._cells - cells_of(line))
        click.echo(f"\r{line}{blanks}\r", nl=False)
        sys.stdout.flush()


class Screen:
    """Shows turns as their events come, in the chat, the demo and commands such as `say`."""

    def __init__(self, labels: Texts, *, live: bool, notes_apart: bool = True) -> None:
        """Show drafts as they arrive if `live`, and notes on standard error if `notes_apart`."""
        self.labels = labels
        self._live = live
        self._notes_apart = notes_apart
        self._spinner = Spinner()
        self._draft = ""
        self._is_open = False
        """Whether the draft's last line can still become longer."""

        self._is_last = False
        """Whether the draft is the last text on the screen, so that it can be drawn again."""

        self._held: list[Event] | None = None
        """Events to show after the verdict; `None` while nothing is judged."""

        self._message_id: str | None = None
        self._wrap = Wrap(columns=columns())
        self._shown: Mapping[str, Callable[[Event], None]] = {
            "token": self._token,
            "draft_rejected": self._draft_rejected,
            "rollback": self._rollback,
            "restored": self._restored,
            "topic": self._topic,
            "compaction": lambda event: self._fill("summarized", event.data),
            "verdict": self._verdict,
            "tool_call": self._tool_call,
            "tool_result": self._tool_result,
            "messages_removed": lambda _: self.note(self.labels.say("question_removed")),
            "summary_failed": lambda event: self._fill("summary_failed", event.data),
            "context_warning": lambda event: self._fill("context_warning", event.data),
            "budget_warning": self._budget_warning,
        }

    @property
    def draft(self) -> str:
        """The part of an unfinished answer that is on the screen; empty if there is none."""
        return self._draft.strip()

    def begin(self) -> None:
        """Say from the next `tick` on that a turn starts, which waits for other writers of its thread.

        The first event of the turn replaces this.
        """
        self._spinner.start(self.labels.say("starting"))

    def ask(self) -> None:
        """Say from the next `tick` on that the program waits for the model."""
        self._held = None
        self._spinner.start(self.labels.say("asking"))

    def tick(self) -> None:
        """Draw the line about the activity again; called ten times a second during a turn."""
        self._spinner.tick()

    def show(self, event: Event) -> None:
        """Show one event; kinds that say nothing new to a person are left out.

        While a draft is judged, those in `HELD` wait until it is rejected or delivered.
        """
        self._spinner.clear()
        if self._held is not None and event.kind in HELD:
            self._held.append(event)
            return
        if event.kind == "judging" and self._held is None:
            self._held = []
        is_rejection = event.kind == "draft_rejected"
        if not is_rejection and (event.reply is not None or event.kind in self._shown):
            self._show_held()
        if event.reply is not None:
            self._spinner.start("")
            self.reply(event.reply)
            return
        if handler := self._shown.get(event.kind):
            handler(event)
        if is_rejection:
            self._show_held()
        self._spinner.start(self._activity_after(event))

    def _show_held(self) -> None:
        events, self._held = self._held or [], None
        for event in events:
            self._shown[event.kind](event)

    def _activity_after(self, event: Event) -> str:
        """Return what the program does after an event; empty while words of an answer arrive.

        The line of a draft is ended before the answer is judged or a tool runs.
        """
        if event.kind == "token" and self._live:
            return ""
        if event.kind == "judging":
            self._close_line()
            return self.labels.say("judging")
        if event.kind == "tool_call":
            self._close_line()
            return self.labels.say("running_tool", name=event.data["name"])
        return "" if self._is_open else self.labels.say("asking")

    def reply(self, reply: Reply) -> None:
        """Show the end of a turn: the answer or draft, unless it is on the screen; an answer's score.

        For a decision the descriptions in its `action_requests` follow, or a request of another form.
        """
        if not self._live:
            click.echo(reply.text)
        elif self._draft.strip() != reply.text.strip():
            self.end_line()
            self._write(reply.text)
        self.end_line()
        if reply.kind == "answer":
            self.note(self._status(reply))
        if reply.request is not None:
            for text in asked_in(reply.request):
                self.note(text)

    def end_line(self) -> None:
        """End the draft that is on the screen; it can no longer be struck out."""
        self._spinner.start("")
        self._close_line()
        self._draft, self._is_last = "", False
        self._wrap = Wrap(columns=columns())

    def _close_line(self) -> None:
        if self._is_open:
            click.echo(self._wrap.end())
        self._is_open = False

    def note(self, text: str) -> None:
        """Print a dimmed line, indented, on standard error or, without `notes_apart`, on standard output."""
        self._spinner.clear()
        self._close_line()
        self._is_last = False
        fits = columns() if sys.stderr.isatty() or not self._notes_apart else UNBOUNDED
        line = " " * NOTE_INDENT + wrapped(clean(text), columns=fits, indent=NOTE_INDENT)
        click.echo(click.style(line, dim=True), err=self._notes_apart)

    def last_turns(self, turns: Sequence[TimelineTurn]) -> None:
        """Show the newest turns of a thread that is opened: questions, answers and scores.

        There are at most `LAST_TURNS`, after a note with the number of earlier ones. Long texts are
        cut.
        """
        if len(turns) > LAST_TURNS:
            self.note(self.labels.say("earlier_turns", count=len(turns) - LAST_TURNS))
        for turn in turns[-LAST_TURNS:]:
            if turn.question:
                words = one_line(with_file_names(turn.question), columns() - 2)
                click.echo(click.style(f"> {words}", bold=True))
            if turn.answer is None:
                continue
            lines = wrapped(clean(turn.answer.strip()), columns=columns()).split("\n")
            more = ["…"] if len(lines) > ANSWER_ROWS else []
            click.echo("\n".join([*lines[:ANSWER_ROWS], *more]))
            if turn.score is not None:
                scored = self.labels.say("score", score=score_text(turn.score))
                fault = self._fault(turn.flag, turn.reason)
                self.note(" · ".join(filter(None, (scored, fault))))
            click.echo()

    def _fill(self, name: str, data: Mapping[str, Any]) -> None:
        scores = {key: score_text(data[key]) for key in ("score", "similarity") if key in data}
        self.note(self.labels.say(name, **{**data, **scores}))

    def _write(self, text: str) -> None:
        self._draft += text
        self._is_open = self._is_last = True
        click.echo(self._wrap.feed(clean(text)), nl=False)
        sys.stdout.flush()

    def _token(self, event: Event) -> None:
        if not self._live:
            return
        if self._message_id != event.message_id or not self._is_open:
            self.end_line()
        self._message_id = event.message_id
        self._write(event.text)

    def _draft_rejected(self, event: Event) -> None:
        rows = self._wrap.rows + (0 if self._is_open else 1)
        in_sight = rows < shutil.get_terminal_size().lines - 1
        plain = os.environ.get("NO_COLOR") or is_dumb()
        if self._draft and self._is_last and in_sight and sys.stdout.isatty() and not plain:
            # The draft is drawn once more in its place, struck out.
            up = f"\x1b[{rows}A" if rows else ""
            words = wrapped(clean(self._draft.rstrip()), columns=columns())
            click.echo(f"{up}\r\x1b[J{click.style(words, dim=True, strikethrough=True)}")
            self._is_open = False
        self.end_line()
        reason = event.data["reason"]
        self._fill("draft_rejected", {**event.data, "reason": reason})

    def _rollback(self, event: Event) -> None:
        kind, removed = event.data["kind"], event.data["removed"]
        # A person's own order is answered by a notice, and a mere draft is announced already.
        if kind == "context" or (kind == "draft" and removed):
            self._fill("rolled_back_to", event.data)

    def _restored(self, event: Event) -> None:
        name = "restored_messages" if event.data["messages"] else "restored_nothing"
        self._fill(name, event.data)

    def _topic(self, event: Event) -> None:
        if event.data["similarity"] is not None:
            names = {"new": "new_topic", "back": "back_to_topic", "same": "same_topic"}
            self._fill(names[event.data["kind"]], event.data)

    def _budget_warning(self, event: Event) -> None:
        text = event.data["text"]
        is_over = event.data["usage"] > 1
        self.note(self.labels.say("budget_exceeded" if is_over else "budget_warning", text=text))

    def _tool_call(self, event: Event) -> None:
        call = call_text(event.data["name"], event.data["args"])
        self.note(self.labels.say("called", call=preview(call, CALL_CHARS)))

    def _tool_result(self, event: Event) -> None:
        if event.data["status"] == "error":
            reason = preview(event.data["text"], CALL_CHARS)
            self.note(self.labels.say("call_failed", name=event.data["name"], reason=reason))

    def _verdict(self, event: Event) -> None:
        if event.data["of"] == "context":
            self._fill("judged", event.data)

    def _status(self, reply: Reply) -> str:
        words, names = self.labels, ", ".join(reply.checkpoints_removed)
        scored = words.say("unscored", reason=reply.reason)
        if reply.score is not None:
            scored = words.say("score", score=score_text(reply.score))
        parts = (
            scored,
            words.say("topic", label=reply.topic) if reply.topic else "",
            words.say("checkpoint", id=reply.checkpoint_id) if reply.checkpoint_id else "",
            words.say("checkpoints_removed", names=names) if names else "",
            self._fault(reply.flag, reply.reason),
        )
        return " · ".join(filter(None, parts))

    def _fault(self, flag: str | None, reason: str) -> str:
        """Return why an answer is only the best of drafts that failed; empty for all others."""
        if flag != "low_quality":
            return ""
        return self.labels.say("low_quality", reason=reason)


def asked_in(request: Mapping[str, Any]) -> list[str]:
    """Return the questions of a decision as lines; a request of a tool's own form as JSON.

    In LangChain's form `description` is optional; without it the name and arguments are shown.

    >>> asked_in({"value": "Window or aisle?"})
    ['Window or aisle?']
    >>> asked_in({"action_requests": [{"name": "book", "args": {"seat": "4A"}}]})
    ['book({"seat": "4A"})']
    """
    actions = request.get("action_requests")
    if not isinstance(actions, list) or not all(isinstance(each, Mapping) for each in actions):
        own = request["value"] if request.keys() == {"value"} else request
        return [own if isinstance(own, str) else json.dumps(own, ensure_ascii=False, default=str)]
    return [
        each.get("description") or call_text(str(each.get("name", "")), each.get("args", {}))
        for each in actions
    ]


def event_object(event: Event) -> dict[str, Any]:
    """Return an event as a JSON object, with the same fields for every kind.

    A reply's own fields are in `data`.
    """
    data = event.data if event.reply is None else fields_of(event.reply)
    return versioned(event=event.kind, text=event.text, message_id=event.message_id, data=data)


@contextmanager
def failures_on_screen() -> Iterator[None]:
    """Within the block, do not log failures of a single judge, which the screen shows in words."""

    def is_news(record: logging.LogRecord) -> bool:
        return not (isinstance(record.args, tuple) and record.args[:1] == (SHOWN_FAILURE,))

    log = logging.getLogger(tracing.__name__)
    log.addFilter(is_news)
    try:
        yield
    finally:
        log.removeFilter(is_news)
