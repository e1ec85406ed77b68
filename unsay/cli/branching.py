"""`unsay fork`, `branches` and `diff`: the other lines of a conversation."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import click
from langchain_core.messages import AnyMessage, message_to_dict

from unsay.cli.branch_labels import BranchLabels, branch_labels
from unsay.cli.columns import block
from unsay.cli.moving import language_in
from unsay.cli.output import note, print_json, versioned
from unsay.cli.pages import line
from unsay.cli.place import existing_thread
from unsay.cli.screen import UNBOUNDED, columns
from unsay.graph.branches import LIVE, Branch, Side
from unsay.nodes.moves import place_name, turns_left
from unsay.prompts.catalogue import texts
from unsay.state import State
from unsay.transcript.marks import is_answer, spoken
from unsay.transcript.text import cells_of, newest_language


def fork(
    *,
    to: str | None,
    turns: int | None,
    name: str | None,
    thread: str | None,
    db: str | None,
    as_json: bool,
) -> None:
    """Begin a thread as this one was, and print its id."""
    with existing_thread(db, thread) as found:
        conversation = found.open()
        language = language_in(conversation)
        made = conversation.fork(to, turns=turns, thread=name)
        record = made.messages()
        base = record[-1].id if record else None
        state = State(messages=record, checkpoints=list(made.checkpoints()))
        where = place_name(state, base, texts(language)).strip()
        stands: dict[str, Any] = {"turns": turns_left(record), "at": where}
        if as_json:
            source = found.thread_id
            print_json(versioned(thread_id=made.thread_id, forked_from=source, **stands))
        else:
            click.echo(made.thread_id)
            note(branch_labels(language).forked.format(where=where, turns=stands["turns"]))


def branches(*, thread: str | None, db: str | None, as_json: bool) -> None:
    """Print the live line, those that were left, and the threads forked from it."""
    with existing_thread(db, thread) as found:
        conversation = found.open()
        seen = conversation.branches()
        if as_json:
            lines = [asdict(each) for each in seen]
            print_json(versioned(thread_id=found.thread_id, branches=lines))
            return
        record = conversation.messages()
        words = branch_labels(newest_language(record))
        forks = [each for each in seen if each.kind == "thread"]
        here = [each for each in seen if each.kind != "thread"]
        for group in (here, forks):
            _print(group, _turns_at(record), words)


def diff(*, a: str, b: str, thread: str | None, db: str | None, as_json: bool) -> None:
    """Print how two lines differ."""
    with existing_thread(db, thread) as found:
        made = found.open().diff(a, b)
        if as_json:
            sides = {"a": _side(made.a), "b": _side(made.b)}
            print_json(versioned(thread_id=found.thread_id, common=made.common, **sides))
        else:
            cells = columns() if sys.stdout.isatty() else UNBOUNDED
            click.echo(block(str(made), columns=cells, indent=0))


def _turns_at(record: Sequence[AnyMessage]) -> Mapping[str, int]:
    """How many turns were answered at each message."""
    turns, places = 0, {}
    for message in spoken(record):
        turns += is_answer(message)
        places[message.id or ""] = turns
    return places


def _print(group: Sequence[Branch], turns: Mapping[str, int], words: BranchLabels) -> None:
    """Lines whose columns stand below each other."""
    rows = [_cells(each, turns, words) for each in group]
    widths = [max(map(cells_of, column)) for column in zip(*rows, strict=True)]
    for each, row in zip(group, rows, strict=True):
        spaced = (cell + " " * (w - cells_of(cell)) for cell, w in zip(row, widths, strict=True))
        click.echo(line("  ".join(spaced), each.words or each.reason))


def _cells(branch: Branch, turns: Mapping[str, int], words: BranchLabels) -> tuple[str, ...]:
    where = words.elsewhere
    if branch.kind == LIVE:
        where = words.turn.format(turn=branch.turns)
    elif branch.base is None:
        where = words.start
    elif branch.base in turns:
        where = words.turn.format(turn=turns[branch.base])
    own = str(branch.turns) if branch.kind == LIVE else f"+{branch.turns}"
    kind = words.kinds.get(branch.kind, branch.kind)
    return branch.id, kind, where, own, words.tokens.format(total=branch.tokens.total)


def _side(side: Side) -> dict[str, Any]:
    fields = ("name", "messages", "topics", "mean_score", "last_score")
    own = {"only": [message_to_dict(each) for each in side.only], "tokens": asdict(side.tokens)}
    return {**{field: getattr(side, field) for field in fields}, **own}
