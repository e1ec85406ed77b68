"""`unsay replay`: what a model was sent, what came of it, and what another makes of it."""

import json
import sys
from dataclasses import asdict
from typing import Any

import click
from langchain_core.messages import AIMessage, BaseMessage, message_to_dict

from unsay.cli.columns import block, side_by_side
from unsay.cli.output import plain, print_json, versioned
from unsay.cli.pages import WIDE
from unsay.cli.place import Found, existing_thread
from unsay.cli.record_labels import RecordLabels, record_labels
from unsay.cli.screen import UNBOUNDED, columns
from unsay.graph.conversation import Conversation
from unsay.graph.replay import Answered, Replay
from unsay.graph.trees import one_line
from unsay.nodes.commands import score_text
from unsay.settings import load_settings
from unsay.transcript.text import language_of, text_of


def replay(
    *,
    thread: str | None,
    turn: int | None,
    run: str | None,
    attempt: int | None,
    model: str | None,
    judge_model: str | None,
    payload: bool,
    db: str | None,
    as_json: bool,
) -> None:
    """Print an attempt's request, what came of it, and another model's answer to it."""
    _check(model, judge_model, payload=payload)
    with existing_thread(db, thread) as found:
        conversation = _opened(found, model, judge_model)
        made = conversation.replay(turn=turn, run_id=run, attempt=attempt, model=model)
        if payload:
            print_json(made.payload)
        elif as_json:
            print_json(_object(found.thread_id, made, model))
        else:
            _Page(made, model).print()
    if made.again is not None and made.again.error is not None:
        click.get_current_context().exit(1)


def _check(model: str | None, judge_model: str | None, *, payload: bool) -> None:
    context = click.get_current_context()
    if model is None and judge_model is not None:
        raise click.UsageError("--judge-model judges what --model answers: name both.", context)
    if model is not None and payload:
        raise click.UsageError("--payload asks no model: leave --model out.", context)


def _opened(found: Found, model: str | None, judge_model: str | None) -> Conversation:
    """The conversation, with the configured judge; without one the other model judges itself."""
    settings = load_settings({} if judge_model is None else {"judge_model": judge_model})
    if settings.model is None and model is not None:
        settings = load_settings({"model": model, "judge_model": settings.judge_model})
    return Conversation.open(found.database, thread=found.thread_id, settings=settings)


def _object(thread_id: str, made: Replay, model: str | None) -> dict[str, Any]:
    again = None if made.again is None else {"model": model, **asdict(made.again)}
    return versioned(
        thread_id=thread_id,
        turn=made.turn,
        attempt=made.attempt,
        run_id=made.run_id,
        exact=made.exact,
        question=made.question,
        messages=[message_to_dict(message) for message in made.messages],
        payload=made.payload,
        recorded=asdict(made.recorded),
        again=again,
    )


class _Page:
    """Shows a replay to a person; all of it is what was asked for, so all goes to one stream."""

    def __init__(self, made: Replay, model: str | None) -> None:
        self._made = made
        self._model = model or ""
        self._words = record_labels(language_of(made.question))
        self._columns = columns() if sys.stdout.isatty() else UNBOUNDED

    def print(self) -> None:
        self._print_head()
        for message in self._made.messages:
            self._print_part(_role(message, self._words), _said(message), bold=False)
        then, again = self._made.recorded, self._made.again
        if again is not None and WIDE <= self._columns < UNBOUNDED:
            heads, texts = (self._words.recorded, self._model), map(self._outcome, (then, again))
            click.echo("\n" + side_by_side(heads, list(texts), columns=self._columns))
            return
        self._print_part(self._words.recorded, self._outcome(then), bold=True)
        if again is not None:
            self._print_part(self._model, self._outcome(again), bold=True)

    def _print_head(self) -> None:
        made, words = self._made, self._words
        which = words.attempt.format(turn=made.turn, attempt=made.attempt)
        how = words.exact if made.exact else words.planned
        parts = " · ".join(part for part in (which, how, made.run_id) if part)
        click.echo(click.style(block(parts, columns=self._columns, indent=0), dim=True))

    def _print_part(self, head: str, body: str, *, bold: bool) -> None:
        title = one_line(head, min(self._columns, columns()))
        click.echo("\n" + (click.style(title, bold=True) if bold else click.style(title, dim=True)))
        click.echo(block(body, columns=self._columns))

    def _outcome(self, came: Answered) -> str:
        """How an answer was judged, then its words."""
        words = self._words
        judged = words.score.format(score=score_text(came.score), reason=came.reason)
        if came.error is not None:
            judged = words.failed.format(error=came.error, reason=came.reason)
        elif came.score is None:
            judged = words.unscored.format(reason=came.reason)
        parts = [came.answer, *came.calls]
        said = "\n".join(part for part in parts if part.strip())
        if not said and came.error is None:
            said = words.silent
        return "\n\n".join(part for part in (judged.removesuffix(": "), said) if part)


def _role(message: BaseMessage, words: RecordLabels) -> str:
    roles = {"human": words.user, "ai": words.assistant, "system": words.system, "tool": words.tool}
    role = roles.get(message.type, message.type)
    return f"{role} {message.name}" if message.name else role


def _said(message: BaseMessage) -> str:
    """A message's words, then what it carries besides them."""
    content = message.content if isinstance(message.content, list) else []
    kinds = [each.get("type") for each in content if isinstance(each, dict)]
    other = [f"[{kind}]" for kind in kinds if kind not in (None, "text")]
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    asked = [
        f"{each['name']}({json.dumps(plain(each['args']), ensure_ascii=False)})" for each in calls
    ]
    return "\n".join(part for part in (text_of(message), *other, *asked) if part)
