"""`unsay replay`: what a model was sent, what came of it, and what another makes of it."""

import json
import sys
from dataclasses import asdict
from typing import Any

import click
from langchain_core.messages import AIMessage, BaseMessage, message_to_dict

from unsay.cli.output import plain, print_json, versioned
from unsay.cli.record_strings import RecordLabels, ViewLabels, record_labels, view_labels
from unsay.cli.session import Found, existing_thread
from unsay.cli.tables import WIDE
from unsay.cli.terminal import UNBOUNDED, block, columns, side_by_side
from unsay.context.manifest import write_ranges
from unsay.context.model_call import CallView, Rule
from unsay.conversation.branching import LIVE
from unsay.conversation.conversation import Conversation
from unsay.conversation.model_calls import PENDING, TurnCall, TurnCalls
from unsay.conversation.request_replay import Answered, Replay
from unsay.conversation.tree import one_line
from unsay.messages.content import cells_of, language_of, preview, text_of
from unsay.operations.commands import score_text
from unsay.operations.usage_report import number, percent, window_text
from unsay.prompts.catalog import texts
from unsay.prompts.fields import Texts
from unsay.settings import load_settings


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


def print_view(thread_id: str, made: TurnCalls, *, as_json: bool) -> None:
    """Print a turn's model calls."""
    if as_json:
        print_json(versioned(thread_id=thread_id, **made.to_dict()))
        return
    language = language_of(made.question)
    words, fits = view_labels(language), columns() if sys.stdout.isatty() else UNBOUNDED
    head = words.turn.format(turn=made.turn, question=preview(made.question))
    click.echo(click.style(block(head, columns=fits, indent=0), bold=True))
    for each in made.calls:
        click.echo()
        click.echo(block(_head(each, words), columns=fits, indent=0))
        told = [*_rules(each.view, words), *_costs(each.view, words, texts(language))]
        for line in told:
            click.echo(block(line, columns=fits, indent=2))


def _head(call: TurnCall, words: ViewLabels) -> str:
    view = call.view
    parts = [words.call.format(attempt=view.attempt, call=view.call), view.model]
    if call.stands == PENDING:
        parts.append(words.pending)
    elif call.stands != LIVE:
        parts.append(words.taken_back.format(cut=call.stands))
    if call.score is not None:
        parts.append(words.score.format(score=score_text(call.score)))
    return " · ".join(filter(None, (*parts, call.words and f"“{call.words}”")))


def _rules(view: CallView, words: ViewLabels) -> list[str]:
    rules = [each for each in (view.sent, *view.rules) if each.places]
    names = [words.rules.get(each.name, each.name) for each in rules]
    widest = max(map(cells_of, names), default=0)
    lines = [
        f"{name}{' ' * (widest - cells_of(name))}  {_view_words(rule, words)}"
        for name, rule in zip(names, rules, strict=True)
    ]
    if view.unplaced:
        lines.append(words.unplaced.format(count=view.unplaced))
    return lines if view.fits else [words.changed, *lines]


def _view_words(rule: Rule, words: ViewLabels) -> str:
    places = write_ranges(rule.places).replace(",", ", ")
    return words.messages.format(places=places, count=number(len(rule.places)))


def _costs(view: CallView, words: ViewLabels, catalogue: Texts) -> list[str]:
    lines = window_text(view, catalogue).split("\n")
    if view.usage is None:
        return lines
    used = view.usage
    prompt = used.input + used.cache_read + used.cache_creation
    share = percent(used.cache_read, prompt)
    reported = words.reported.format(input=number(prompt), cached=share, output=number(used.output))
    return [*lines, reported]
