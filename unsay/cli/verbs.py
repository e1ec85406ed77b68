"""The commands that change what the transcript and the contexts hold, and show branches."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import click
from langchain_core.runnables import RunnableConfig

from unsay.cli.output import fields_of, note, usage_error
from unsay.cli.run import Command, Opened, notice_command, on_thread
from unsay.cli.terminal import block, clean, line, print_table
from unsay.errors import UnknownCheckpointError
from unsay.memory.recall import finds_text
from unsay.messages.annotations import turn_numbers
from unsay.messages.content import preview, text_of, with_file_names
from unsay.moves.compensate import NO_UNDO, report_text
from unsay.orders import order as orders
from unsay.prompts.catalogue import Texts
from unsay.results.lists import Branch, forgotten_text
from unsay.results.results import QUESTION_CHARS, Checkpoint, Preview, RollbackResult, score_text
from unsay.results.timeline import TimelineData
from unsay.retrieval.quotation import speaker
from unsay.transcript.live import count_turns, place_name
from unsay.types import Forgotten


def places_of(seen: TimelineData, words: Texts) -> list[tuple[str, str]]:
    """Return the places that a chat offers to roll back to, oldest first.

    Each is the text of its row and the argument of `/rollback`: a number of turns, or a
    checkpoint's id. A place is before an answered turn, or at a named checkpoint. A checkpoint
    after the last answer is left out.
    """
    answered_turns = [turn for turn in seen.turns if turn.answer is not None]
    names = {each["name"] for each in seen.checkpoints}
    newest = answered_turns[-1].message_id if answered_turns else None
    marks = [each for each in seen.checkpoints if each.name and each.message_id != newest]
    places = [_checkpoint(each, words) for each in marks if not each.turn]
    for index, turn in enumerate(answered_turns):
        order = str(len(answered_turns) - index)
        if order not in names:  # a checkpoint of that name would be taken instead
            question = preview(with_file_names(turn.question), QUESTION_CHARS)
            # The score comes first: a narrow terminal cuts the end off.
            score = score_text(turn.score)
            row = words.say("back_turn", turn=turn.number, score=score, question=question)
            places.append((row, order))
        places += [_checkpoint(each, words) for each in marks if each.turn == turn.number]
    return places


def _checkpoint(made: Checkpoint, words: Texts) -> tuple[str, str]:
    return words.say("back_checkpoint", name=made.name, turn=made.turn), made.id


checkpoint = notice_command(orders.SaveCheckpoint, "checkpoint")
task = notice_command(partial(orders.SaveCheckpoint, task=True), "checkpoint")
same = notice_command(orders.JoinTopics, "topic")


@on_thread()
def rollback(opened: Opened, *, to: str | None, turns: int | None, preview: bool) -> None:
    with _turns_hinted(to):
        if preview:
            _show_preview(opened, opened.conversation.preview(to, turns=turns))
            return
        _carry_out_move(opened, orders.Rollback(to=to, turns=turns))


@contextmanager
def _turns_hinted(to: str | None) -> Iterator[None]:
    """Name `--turns` in the error for an unknown checkpoint that is a number."""
    try:
        yield
    except UnknownCheckpointError as error:
        if to is None or not to.isdecimal():
            raise
        raise UnknownCheckpointError(code="turns_meant", error=error) from None


def order_command(order: Callable[..., orders.Order[RollbackResult]]) -> Command:
    """Return a command that carries out an order whose arguments are its options."""

    @on_thread()
    def command(opened: Opened, **options: Any) -> None:
        _carry_out_move(opened, order(**options))

    return command


undo = order_command(orders.Undo)
redo = order_command(orders.Redo)
remove = order_command(orders.Remove)
restore = order_command(orders.Restore)
pick = order_command(orders.Pick)


def _carry_out_move(opened: Opened, order: orders.Order[RollbackResult]) -> None:
    # The language of before: the place in the notice is named in it.
    labels = opened.labels
    outcome = opened.carry_out(order)
    moved = outcome.result

    def show() -> None:
        click.echo(outcome.notice(labels))
        if effects := report_text(moved.report, labels):
            note(effects)
        if any(each.reason_code == NO_UNDO for each in moved.report.of("skipped")):
            _note_tools(opened)
        if moved.question:
            note(labels.say("asked", question=moved.question))

    opened.show(show, moved)


def _show_preview(opened: Opened, seen: Preview) -> None:
    def show() -> None:
        for row in clean(seen.text(opened.labels)).split("\n"):
            click.echo(line("", row) if row.startswith(" ") else row)
        if any(each.obstacle_code == NO_UNDO for each in seen.compensations):
            _note_tools(opened)

    opened.show(show, seen)


def _note_tools(opened: Opened) -> None:
    if not opened.tools:
        note(opened.labels.say("needs_tools"))


@on_thread()
def fork(opened: Opened, *, to: str | None, turns: int | None, name: str | None) -> None:
    labels = opened.labels
    with _turns_hinted(to):
        new_conversation = opened.conversation.fork(to, turns=turns, thread=name)
    transcript = new_conversation.messages()
    marks = [fields_of(each) for each in new_conversation.checkpoints()]
    state: Any = {"messages": transcript, "checkpoints": marks}
    base = transcript[-1].id if transcript else None
    place_text = place_name(state, base, labels).strip()
    turn_count = count_turns(transcript)

    def show() -> None:
        click.echo(new_conversation.thread_id)
        note(labels.say("forked", where=place_text, turns=turn_count))

    source = opened.thread_id
    opened.show(
        show,
        thread_id=new_conversation.thread_id,
        forked_from=source,
        turns=turn_count,
        at=place_text,
    )


@on_thread()
def branches(opened: Opened) -> None:
    all_branches = opened.conversation.branches()

    def show() -> None:
        words = opened.labels
        turns = turn_numbers(opened.conversation.messages())
        ordered = sorted(all_branches, key=lambda each: each.kind == "thread")  # forks come last
        cells = [_cells(each, turns, words) for each in ordered]
        print_table(
            words.say("branch_heads"), cells, [each.words or each.reason for each in ordered]
        )

    opened.show(show, branches=all_branches)


def _cells(branch: Branch, turns: dict[str | None, int], words: Texts) -> tuple[str, ...]:
    place_text = "–"
    if branch.kind == "live":
        place_text = words.say("branch_turn", turn=branch.turns)
    elif branch.base is None or turns.get(branch.base) == 0:
        place_text = words.say("branch_start")
    elif branch.base in turns:
        place_text = words.say("branch_turn", turn=turns[branch.base])
    own = str(branch.turns) if branch.kind == "live" else f"+{branch.turns}"
    token_text = words.say("branch_tokens", total=f"{branch.tokens.total:,}")
    return branch.id, branch.kind_text(words), place_text, own, token_text


@on_thread()
def diff(opened: Opened, *, a: str, b: str) -> None:
    comparison = opened.conversation.diff(a, b)
    opened.show(lambda: block(comparison.text(opened.labels), indent=0), comparison)


def _check_pin(*, message_id: str | None, turn: int | None, **_others: str) -> None:
    if message_id is not None and turn is not None:
        raise usage_error("Give a message's ID or --turn, not both.")


pin = notice_command(orders.AddPins, "pins", _check_pin)
unpin = notice_command(orders.RemovePins, "pins", _check_pin)


def _check_forget(
    *, what: str | None, turn: str | None, results_below: float | None, **_others: str | None
) -> None:
    if sum(each is not None for each in (what, turn, results_below)) != 1:
        raise usage_error("Give exactly one of WHAT, --turn and --results-below.")


@on_thread(_check_forget)
def forget(
    opened: Opened,
    *,
    what: str | None,
    through: str | None,
    turn: str | None,
    results_below: float | None,
    reason: str,
) -> None:
    conversation = opened.conversation
    entry = conversation.forget(
        what, through, turns=turn, tool_results_below=results_below, reason=reason
    )
    _show_forgotten(opened, [entry] if entry["message_ids"] else [])


@on_thread()
def forgotten(opened: Opened) -> None:
    _show_forgotten(opened, opened.conversation.forgotten())


def _show_forgotten(opened: Opened, entries: Sequence[Forgotten]) -> None:
    def words() -> str:
        conversation = opened.conversation
        config: RunnableConfig = {"configurable": {"thread_id": opened.thread_id}}
        state = conversation.graph.get_state(config).values
        whole = {**state, "messages": conversation.messages(), "forgotten": entries}
        return forgotten_text(whole, opened.labels)

    opened.show(words, forgotten=entries)


@on_thread()
def recall(opened: Opened, *, words: str) -> None:
    finds = opened.conversation.recall(words)
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
    opened.show(lambda: finds_text(finds, words, opened.labels), recalled=rows)
