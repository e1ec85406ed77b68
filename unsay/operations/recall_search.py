"""Recall by order: search earlier messages, for a person and for the next context."""

from collections.abc import Sequence
from dataclasses import dataclass

from langchain_core.messages import AnyMessage

from unsay.context.tool_results import words_of
from unsay.effects import Steps
from unsay.errors import InputError
from unsay.messages.content import preview
from unsay.operations.recall import looked_up
from unsay.operations.recall_source import hidden_ids, turn_numbers
from unsay.operations.record_events import log_recall
from unsay.prompts.fields import Texts
from unsay.retrieval.excerpts import speaker
from unsay.retrieval.selection import Recollection
from unsay.runtime import Scope
from unsay.state import State
from unsay.tokens.counter import TokenCounter, uncalibrated

MOST_FOUND = 20
"""How many messages an order finds at most, the best."""


QUOTED_CHARS = 200
"""How many characters of each message a person is shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Find:
    """One message that was recalled by order."""

    message: AnyMessage
    """Of the record; one that is sealed without its images and files."""

    turn: int
    reason: Recollection


def recalled_by_order(state: State, scope: Scope, words: str) -> Steps[list[Find]]:
    """Search the whole transcript; matches come in its order, and the event log records them.

    Raises:
        InputError: There are no words.
        StorageError: The record cannot be read.
    """
    if not words.strip():
        raise InputError("There are no words to look for: write some that it may have")
    counter = TokenCounter(calibration=state.get("calibration") or uncalibrated())
    found = yield from looked_up(
        {**state, "asked_for": []},
        scope,
        (),
        question=words,
        budget_tokens=scope.settings.recall_tokens or 4_000,
        count=counter.count,
        forgotten=hidden_ids(state),
        by_hand=True,
    )
    numbers = yield from turn_numbers(state, scope)
    finds = [
        Find(message=each, turn=numbers.get(each.id or "", 0), reason=reason)
        for each, reason in zip(found.messages, found.reasons, strict=True)
    ]
    best = {each.message.id for each in _best_first(finds)[:MOST_FOUND]}
    chosen = [each for each in finds if each.message.id in best]
    if chosen:
        turn = state.get("turn")
        names = [each.message.id or "" for each in chosen]
        log_recall(scope, names, turn["question_id"] if turn else None)
    return chosen


def ids_of(finds: Sequence[Find]) -> tuple[str, ...]:
    """Return the ids of the matches, the best first."""
    return tuple(each.message.id or "" for each in _best_first(finds))


def _best_first(finds: Sequence[Find]) -> list[Find]:
    return sorted(finds, key=lambda each: each.reason.score, reverse=True)


def finds_text(finds: Sequence[Find], words: str, texts: Texts) -> str:
    """Return the matches as text for a person."""
    if not finds:
        return texts.recalled_none.format(words=preview(words))
    lines = [
        texts.recalled_line.format(
            turn=each.turn,
            speaker=speaker(each.message),
            words=preview(words_of(each.message, texts), QUOTED_CHARS),
            why=why_text(each.reason, texts),
        )
        for each in finds
    ]
    return "\n".join([texts.recalled_list, *lines])


def why_text(reason: Recollection, texts: Texts) -> str:
    """Return in words why a message was recalled."""
    return texts.recall_reasons[reason.why].format(words=", ".join(reason.words))
