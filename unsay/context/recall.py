"""Recall: folded messages that bear on the new question are shown again, in that one view."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from langchain_core.messages import AnyMessage

from unsay.context.recall_index import RecallIndex, key_of
from unsay.context.recall_rank import Ranking, ranked
from unsay.context.recall_terms import Query, terms_of
from unsay.context.recall_vectors import Vectors, fused, similarities
from unsay.context.situation import TokenCounter
from unsay.errors import InputError
from unsay.transcript.cut import steps

Why = Literal["words", "meaning", "nearby", "step"]
"""It has words of the question or that go with them; it means something like it; it stands near
such a message, or its speaker was asked about; it is one with a message that was recalled."""

PATIENCE = 100
"""After so many messages in a row that find no room, no more are tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recollection:
    """Why one message was recalled."""

    message_id: str
    """Of the record; what the message says where it has no id."""

    why: Why
    """The strongest reason."""

    words: tuple[str, ...]
    """The words of the question that led to it, as they were asked."""

    score: float
    """The higher the better, comparable within one recall only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    """What a view shows again."""

    messages: tuple[AnyMessage, ...] = ()
    """In the record's order; tool calls with all of their results."""

    reasons: tuple[Recollection, ...] = ()
    """One for each message, in the same order."""

    tokens: int = 0
    """Of the messages together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scored:
    """What is known of each folded message, in their order."""

    query: Query
    """What was looked for."""

    words: Sequence[float]
    """What its words and those around it are worth."""

    near: Sequence[float]
    """How near its meaning is, in deviations from the mean; all 0 without vectors."""

    total: Sequence[float]
    """By this they are chosen."""

    best_words: float
    """What the best one's words are worth."""

    best_near: float
    """How near the nearest one is; at least 0."""

    def passes(self, place: int, floor: float) -> bool:
        """Whether a message has enough of what the best one has."""
        return (
            self.words[place] >= floor * self.best_words
            or self.near[place] >= floor * self.best_near > 0
        )

    def means_it(self, place: int) -> bool:
        """Whether a message lies nearly as near as the nearest."""
        return self.near[place] >= self.best_near / 2 > 0


def recall(
    question: str,
    folded: Sequence[AnyMessage],
    *,
    budget_tokens: int,
    count: TokenCounter,
    index: RecallIndex | None = None,
    vectors: Vectors | None = None,
    floor: float = 0.0,
) -> Recalled:
    """Choose the folded messages that bear most on a question, as many as the budget holds.

    Args:
        question: The user's new words.
        folded: What the view leaves out, oldest first.
        budget_tokens: What the recalled messages may cost together.
        count: Of the chat model.
        index: Of a record that holds all of the folded messages; `None` indexes them now.
        vectors: From `recall_vectors.embed`; `None` goes by words alone.
        floor: From 0 to 1. Messages that have less than this share of the best one's words
            (or nearness in meaning) are left out even where there is room.

    Returns:
        Nothing where no message has a word that was asked for, or goes with one, no
        speaker was named, and there are no vectors.

    Raises:
        InputError: The budget or the floor is impossible, or a folded message is not in the index.
    """
    _check(budget_tokens, floor)
    index = RecallIndex().covering(folded) if index is None else index
    places = _places(folded, index)
    ranking = ranked(question, index)
    if not folded or not (ranking.bears or vectors):
        return Recalled()
    scored = _of_folded(places, index, ranking, vectors)
    taken = _fitting(folded, scored, budget_tokens, count, floor)
    order = _in_order(taken)
    leading = {max(group, key=scored.total.__getitem__) for group in taken}
    messages = tuple(folded[place] for place in order)
    return Recalled(
        messages=messages,
        reasons=tuple(_reason(folded[i], scored, i, leads=i in leading) for i in order),
        tokens=count(messages) if messages else 0,
    )


def _check(budget_tokens: int, floor: float) -> None:
    if budget_tokens < 0:
        raise InputError(f"budget_tokens {budget_tokens!r} is under 0: write 0 to recall nothing")
    if not 0 <= floor <= 1:
        raise InputError(f"floor {floor!r} is no share: write a number from 0 to 1")


def _of_folded(
    places: Sequence[int], index: RecallIndex, ranking: Ranking, vectors: Vectors | None
) -> _Scored:
    """What is known of the folded messages among all that are indexed."""
    near = similarities(vectors, index) if vectors else [0.0] * len(index)
    total = fused([ranking.total, near]) if vectors else ranking.total
    return _Scored(
        query=ranking.query,
        words=[ranking.words[place] for place in places],
        near=[near[place] for place in places],
        total=[total[place] for place in places],
        best_words=max(ranking.words[place] for place in places),
        best_near=max(0.0, *(near[place] for place in places)),
    )


def _places(folded: Sequence[AnyMessage], index: RecallIndex) -> list[int]:
    """Where each folded message stands in the index."""
    known = {key: place for place, key in enumerate(index.keys)}
    try:
        return [known[key_of(message)] for message in folded]
    except KeyError as missing:
        raise InputError(
            f"the folded message {missing.args[0]!r} is not in the index: give an index that "
            "covers the whole record, or none"
        ) from missing


def _fitting(
    folded: Sequence[AnyMessage], scored: _Scored, budget: int, count: TokenCounter, floor: float
) -> list[range]:
    """The best steps that the budget holds; one that is too large makes way for the next."""
    taken: list[range] = []
    left, missed, opening = budget, 0, 0
    for group in _best_first(folded, scored, floor):
        step = folded[group.start : group.stop]
        cost = count(step) - opening
        if cost <= left:
            opening = opening if taken else _opening(step, count)
            taken.append(group)
            left, missed = left - cost, 0
        elif (missed := missed + 1) == PATIENCE:
            break
    while taken and count([folded[place] for place in _in_order(taken)]) > budget:
        taken.pop()
    return taken


def _opening(step: Sequence[AnyMessage], count: TokenCounter) -> int:
    """What any sequence costs beside its messages, which is paid once for all of them."""
    return max(0, 2 * count(step) - count([*step, *step]))


def _in_order(groups: Sequence[range]) -> list[int]:
    return sorted(place for group in groups for place in group)


def _best_first(folded: Sequence[AnyMessage], scored: _Scored, floor: float) -> Iterator[range]:
    """What may be recalled, in whole steps: the best first, and of equals the newest."""
    known: dict[int, range] = {}
    seen: set[int] = set()
    newest_first = range(len(folded) - 1, -1, -1)
    for place in sorted(newest_first, key=scored.total.__getitem__, reverse=True):
        if place in seen or folded[place].type == "system" or not scored.passes(place, floor):
            continue
        if place not in known:
            known.update(_steps_around(folded, place))
        seen.update(known[place])
        yield known[place]


def _steps_around(folded: Sequence[AnyMessage], place: int) -> dict[int, range]:
    """The indivisible step of each message in the turn of one; turns hang together by nothing."""
    first, last = place, place + 1
    while first > 0 and not _opens(folded, first):
        first -= 1
    while last < len(folded) and not _opens(folded, last):
        last += 1
    found = (range(first + s.start, first + s.stop) for s in steps(folded[first:last]))
    return {each: step for step in found for each in step}


def _opens(folded: Sequence[AnyMessage], place: int) -> bool:
    """Whether a turn begins here: the user speaks, and did not just before."""
    return folded[place].type == "human" != folded[place - 1].type


def _reason(message: AnyMessage, scored: _Scored, place: int, *, leads: bool) -> Recollection:
    own = {scored.query.words[term] for term in terms_of(message) if term in scored.query.words}
    why: Why = "step"
    if leads:
        why = "words" if own else "meaning" if scored.means_it(place) else "nearby"
    return Recollection(
        message_id=key_of(message), why=why, words=tuple(sorted(own)), score=scored.total[place]
    )
