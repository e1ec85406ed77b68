"""`unsay timeline --view`: what the model was sent in one turn, call by call."""

import sys

import click

from unsay.cli.columns import block
from unsay.cli.output import print_json, versioned
from unsay.cli.screen import UNBOUNDED, columns
from unsay.cli.view_labels import ViewLabels, view_labels
from unsay.context.call_view import CallView, Rule
from unsay.context.places import write_ranges
from unsay.graph.branches import LIVE
from unsay.graph.manifests import PENDING, TurnCall, TurnCalls
from unsay.nodes.commands import score_text
from unsay.nodes.totals_text import number, percent, window_text
from unsay.prompts.catalogue import texts
from unsay.prompts.texts import Texts
from unsay.transcript.text import cells_of, language_of, preview


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
        f"{name}{' ' * (widest - cells_of(name))}  {_said(rule, words)}"
        for name, rule in zip(names, rules, strict=True)
    ]
    if view.unplaced:
        lines.append(words.unplaced.format(count=view.unplaced))
    return lines if view.fits else [words.changed, *lines]


def _said(rule: Rule, words: ViewLabels) -> str:
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
