"""A turn as a person sees it in a terminal: the words as they come, all else dimmed."""

import os
import shutil
import sys
from collections.abc import Callable, Mapping
from typing import Any

import click

from unsay.cli.labels import Labels
from unsay.cli.wrap import Wrap, wrapped
from unsay.graph.reply import Event, Reply
from unsay.nodes.commands import score_text

NOTE_INDENT = 2
"""Cells before a note."""


UNBOUNDED = 1_000_000
"""Cells in a line that no terminal breaks."""


def columns() -> int:
    """Cells in a line of the terminal as it is now; 80 where there is none."""
    return shutil.get_terminal_size().columns


def _fresh_wrap() -> Wrap:
    return Wrap(columns=columns())


def can_move_cursor() -> bool:
    """Whether standard output understands escape codes and the user wants them."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM", "dumb") == "dumb"
    return sys.stdout.isatty() and not plain


class Screen:
    """Shows the events of one turn after another."""

    def __init__(self, labels: Labels, *, live: bool, notes_apart: bool = True) -> None:
        """Begin with nothing shown.

        Args:
            labels: Words of the notes.
            live: Whether to show drafts while they are written, or just replies.
            notes_apart: Whether notes go to standard error.
        """
        self.labels = labels
        self._live = live
        self._notes_apart = notes_apart
        self._draft = ""
        self._message_id: str | None = None
        self._wrap = _fresh_wrap()
        self._shown: Mapping[str, Callable[[Event], None]] = {
            "token": self._token,
            "taken_back": self._taken_back,
            "rollback": self._rollback,
            "topic": self._topic,
            "fold": self._fold,
            "verdict": self._verdict,
            "set_aside": lambda _: self.note(self.labels.set_aside),
            "summary_failed": lambda event: self._fill(self.labels.summary_failed, event.data),
            "budget_warning": lambda event: self._fill(self.labels.budget_warning, event.data),
        }

    def show(self, event: Event) -> None:
        """Show one event; kinds that say nothing new to a person are left out."""
        if event.reply is not None:
            self.reply(event.reply)
        elif handler := self._shown.get(event.kind):
            handler(event)

    def reply(self, reply: Reply) -> None:
        """Show how a turn ended, unless its words are on the screen already."""
        if not self._live:
            click.echo(reply.text)
        elif self._draft.strip() != reply.text.strip():
            self.end_line()
            self._write(reply.text)
        self.end_line()
        if reply.kind == "answer":
            self.note(self._status(reply))
        if reply.request is not None:
            self.note(reply.request["action_requests"][0]["description"])

    def end_line(self) -> None:
        """End the line on which a draft stands, if there is one."""
        if self._draft:
            click.echo(self._wrap.end())
        self._draft = ""
        self._wrap = _fresh_wrap()

    def note(self, text: str) -> None:
        """Print a dimmed line, indented."""
        fits = columns() if sys.stderr.isatty() or not self._notes_apart else UNBOUNDED
        line = " " * NOTE_INDENT + wrapped(text, columns=fits, indent=NOTE_INDENT)
        click.echo(click.style(line, dim=True), err=self._notes_apart)

    def _fill(self, label: str, data: Mapping[str, Any]) -> None:
        scores = {key: score_text(data[key]) for key in ("score", "similarity") if key in data}
        self.note(label.format(**{**data, **scores}))

    def _write(self, text: str) -> None:
        self._draft += text
        click.echo(self._wrap.feed(text), nl=False)
        sys.stdout.flush()

    def _token(self, event: Event) -> None:
        if not self._live:
            return
        if self._message_id != event.message_id:
            self.end_line()
        self._message_id = event.message_id
        self._write(event.text)

    def _taken_back(self, event: Event) -> None:
        in_sight = self._wrap.rows < shutil.get_terminal_size().lines - 1
        if self._draft and in_sight and can_move_cursor():
            self._strike()
        self.end_line()
        self._fill(self.labels.taken_back, event.data)

    def _strike(self) -> None:
        """Draw the draft on the screen once more, struck out."""
        up = f"\x1b[{self._wrap.rows}A" if self._wrap.rows else ""
        struck = click.style(wrapped(self._draft, columns=columns()), dim=True, strikethrough=True)
        click.echo(f"{up}\r\x1b[J{struck}")
        self._draft = ""

    def _rollback(self, event: Event) -> None:
        kind, removed = event.data["kind"], event.data["removed"]
        # A person's own order is answered by a notice, and a mere draft is announced already.
        if kind == "context" or (kind == "draft" and removed):
            self._fill(self.labels.rolled_back, event.data)

    def _topic(self, event: Event) -> None:
        if event.data["similarity"] is not None:
            back = event.data["kind"] == "back"
            self._fill(self.labels.back_to_topic if back else self.labels.new_topic, event.data)

    def _fold(self, event: Event) -> None:
        self._fill(self.labels.folded, event.data)

    def _verdict(self, event: Event) -> None:
        if event.data["of"] == "context":
            self._fill(self.labels.judged, event.data)

    def _status(self, reply: Reply) -> str:
        """A reply's score, topic, checkpoint and flag on one line."""
        words = self.labels
        scored = words.unscored.format(reason=reply.reason)
        if reply.score is not None:
            scored = words.score.format(score=score_text(reply.score))
        parts = [scored, words.topic.format(label=reply.topic) if reply.topic else ""]
        if reply.checkpoint_id:
            parts.append(words.checkpoint.format(id=reply.checkpoint_id))
        if reply.flag == "low_quality":
            parts.append(words.low_quality.format(reason=reply.reason))
        return " · ".join(part for part in parts if part)
