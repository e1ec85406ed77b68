"""What entered the record since the last turn ended."""

from collections.abc import Sequence
from dataclasses import dataclass

from langchain_core.messages import AnyMessage

from unsay.transcript.marks import is_answer, is_notice, mark_of
from unsay.types import Turn


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """The unanswered end of a record."""

    question: AnyMessage | None
    """The newest message of the user that nothing answers; `None` when there is none."""

    start: int
    """Index where the pending messages begin; the record's length without a question."""

    interrupted: range
    """Indices of an earlier question whose turn never ended; empty when there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Injected:
    """An answer that entered the record without a verdict."""

    index: int
    """Where the answer stands."""

    start: int
    """Where its exchange begins: at its question if it has one, else at itself."""


def read_entry(messages: Sequence[AnyMessage], turn: Turn | None) -> Entry:
    """Find the pending question, and the one that an interruption left behind.

    Args:
        messages: The record.
        turn: The last turn; one that is not done was interrupted.
    """
    start = len(messages)
    question: AnyMessage | None = None
    for index in range(len(messages) - 1, -1, -1):
        if is_answer(messages[index]) or is_notice(messages[index]):
            break
        if messages[index].type == "human":
            question, start = question or messages[index], index
    old_end = _end_of_interrupted(messages, turn, start)
    if question is None or old_end is None:
        return Entry(question=question, start=start, interrupted=range(0))
    return Entry(question=question, start=old_end, interrupted=range(start, old_end))


def _end_of_interrupted(
    messages: Sequence[AnyMessage], turn: Turn | None, start: int
) -> int | None:
    """Index of the first message after the interrupted turn's; `None` if none follows it."""
    if turn is None or turn["done"] or turn["question_id"] is None:
        return None
    ids = [message.id for message in messages[start:]]
    if turn["question_id"] not in ids:
        return None
    after = start + ids.index(turn["question_id"]) + 1
    newer = (i for i in range(after, len(messages)) if messages[i].type == "human")
    return next(newer, None)


def unjudged(messages: Sequence[AnyMessage], end: int) -> list[Injected]:
    """Answers before an index that have no verdict, back to the newest that has one.

    Args:
        messages: The record.
        end: Index of the first pending message.

    Returns:
        Oldest first.
    """
    found: list[Injected] = []
    for index in range(end - 1, -1, -1):
        message = messages[index]
        if not is_answer(message):
            continue
        if "outcome" in mark_of(message):
            break
        found.append(Injected(index=index, start=_exchange_start(messages, index)))
    return found[::-1]


def _exchange_start(messages: Sequence[AnyMessage], answer: int) -> int:
    for index in range(answer - 1, -1, -1):
        if messages[index].type == "human":
            return index
        if is_answer(messages[index]) or is_notice(messages[index]):
            break
    return answer
