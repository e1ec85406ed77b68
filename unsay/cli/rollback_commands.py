"""`unsay checkpoint`, `rollback`, `undo`, `redo`, `restore` and `pick`: they need no model."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import click
from langchain_core.messages import AnyMessage, message_to_dict

from unsay.cli.output import note, print_json, versioned
from unsay.cli.record_strings import BranchLabels, branch_labels
from unsay.cli.session import Found, existing_thread
from unsay.cli.strings import labels
from unsay.cli.tables import line
from unsay.cli.terminal import UNBOUNDED, block, columns
from unsay.conversation.branching import LIVE, Branch, Side
from unsay.conversation.conversation import Conversation
from unsay.conversation.results import Moved, Preview
from unsay.messages.annotations import is_answer, spoken
from unsay.messages.content import cells_of, newest_language
from unsay.operations.compensate import report_text
from unsay.operations.rollback import place_name, turns_left
from unsay.prompts.catalog import texts
from unsay.state import State
from unsay.types import Language


def checkpoint(*, name: str | None, thread: str | None, db: str | None, as_json: bool) -> None:
    """Mark the newest message as good."""
    with existing_thread(db, thread) as found:
        conversation = found.open()
        made = conversation.checkpoint(name)
        if as_json:
            print_json(versioned(thread_id=found.thread_id, checkpoint=made))
        else:
            words = texts(language_in(conversation)).checkpoint_made
            click.echo(words.format(name=made["name"] or made["id"]))


def rollback(
    *,
    to: str | None,
    turns: int | None,
    preview: bool,
    thread: str | None,
    db: str | None,
    as_json: bool,
) -> None:
    """Go back and say where the talk stands, or only say what would go."""
    with existing_thread(db, thread) as found:
        conversation = found.open()
        language = language_in(conversation)
        if preview:
            seen = conversation.preview(to, turns=turns)
            _foretell(found, seen, branch_labels(language), as_json=as_json)
        else:
            moved = conversation.rollback(to, turns=turns)
            _tell(found, moved, texts(language).rolled_back, language, as_json=as_json)


def undo(*, thread: str | None, db: str | None, as_json: bool) -> None:
    """Take back the last step and say where the talk stands."""
    with existing_thread(db, thread) as found:
        conversation = found.open()
        language = language_in(conversation)
        _tell(found, conversation.undo(), texts(language).undone, language, as_json=as_json)


def redo(*, thread: str | None, db: str | None, as_json: bool) -> None:
    """Make the step again that was undone, and say where the talk stands."""
    with existing_thread(db, thread) as found:
        conversation = found.open()
        moved = conversation.redo()
        language = language_in(conversation)
        _tell(found, moved, texts(language).redone, language, as_json=as_json)


def restore(*, what: str, thread: str | None, db: str | None, as_json: bool) -> None:
    """Bring something back and say where the talk stands."""
    with existing_thread(db, thread) as found:
        conversation = found.open()
        moved = conversation.restore(what)
        language = language_in(conversation)
        _tell(found, moved, branch_labels(language).restored, language, as_json=as_json)


def pick(
    *,
    message_ids: Sequence[str],
    branch: str,
    thread: str | None,
    db: str | None,
    as_json: bool,
) -> None:
    """Put messages of another branch at the end and say where the talk stands."""
    with existing_thread(db, thread) as found:
        conversation = found.open()
        moved = conversation.pick(message_ids, branch)
        language = language_in(conversation)
        _tell(found, moved, branch_labels(language).restored, language, as_json=as_json)


def language_in(conversation: Conversation) -> Language:
    """The language of what was said last."""
    return newest_language(conversation.messages())


def _tell(found: Found, moved: Moved, words: str, language: Language, *, as_json: bool) -> None:
    if as_json:
        print_json(versioned(thread_id=found.thread_id, **asdict(moved)))
        return
    told = words.format(
        where=moved.at, turns=moved.turns, removed=moved.removed, restored=moved.restored
    )
    click.echo(told)
    if effects := report_text(moved.report, texts(language)):
        note(effects)
    if moved.question:
        note(labels(language).asked.format(question=moved.question))


def _foretell(found: Found, seen: Preview, words: BranchLabels, *, as_json: bool) -> None:
    if as_json:
        print_json(versioned(thread_id=found.thread_id, **asdict(seen)))
        return
    counts = {"turns": seen.turns, "messages": len(seen.message_ids), **asdict(seen.tokens)}
    click.echo(words.preview.format(where=seen.at))
    click.echo(words.gone.format(**counts))
    for question in seen.questions:
        click.echo(line("", words.question.format(question=question)))
    marks = [each["name"] or each["id"] for each in seen.checkpoints]
    standing = [each.description for each in seen.compensations if each.obstacle]
    named = {words.checkpoints: marks, words.tools: seen.tool_calls, words.standing: standing}
    for label, names in named.items():
        if names:
            told = label.format(names=", ".join(names))
            click.echo(block(told, columns=UNBOUNDED, indent=0))


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
