"""Recall: choose earlier messages that have to do with the new question."""

from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from langchain_core.messages import AnyMessage

from unsay.context.compaction import turn_around
from unsay.context.plan import TokenCounter
from unsay.errors import InputError
from unsay.messages.boundaries import steps
from unsay.retrieval.index import RecallIndex, key_of
from unsay.retrieval.ranking import Asked, asked, evident, ranked, rarity, worth_at
from unsay.retrieval.vectors import Vectors, fused, similarities

Why = Literal["words", "meaning", "nearby", "step", "asked"]
"""It has words of the question or that go with them; it means something like it; it stands near
such a message, or its speaker was asked about; it is one with a message that was recalled; a person
asked for it, which only `nodes.recalling` says."""

FAR_NEARER = 2.0
"""Where there is a bar or a gain, a message must lie so many deviations nearer than the mean."""

PATIENCE = 32
"""After so many messages in a row that find no room, no more are tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recollection:
    """Why one message was recalled."""

    message_id: str
    """Of the record; what the message says where it has no id."""

    why: Why
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars:
    """What a message must have to be recalled."""

    floor: float = 0.0
    """From 0 to 1: this share of the best one's words, or of its nearness in meaning."""

    bar: float = 0.0
    """From 0 to 1: by itself or near it, content words of the question that are worth this share of
    one that a single message has; or it lies `FAR_NEARER` than others in meaning."""

    gain: float = 0.0
    """From 0: words that are worth so many times those of the best message that is shown."""

    def __post_init__(self) -> None:
        for name, share in (("floor", self.floor), ("bar", self.bar)):
            if not 0 <= share <= 1:
                raise InputError(f"{name} {share!r} is no share: write a number from 0 to 1")
        if self.gain < 0:
            raise InputError(f"gain {self.gain!r} is under 0: write 0 to compare with nothing")


FILLING = Bars()
"""Whatever the budget holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scored:
    """The scores of the messages that may be recalled, by their places."""

    near: Mapping[int, float]
    """Nearness in meaning, in deviations from the mean; empty without vectors."""

    total: Mapping[int, float]
    """By this they are chosen."""

    apart: Collection[int]
    """Places of what is shown or hidden."""

    passing: Sequence[int]
    """Those that have enough in common with the question, newest first."""


def recall(
    question: str,
    record: Sequence[AnyMessage],
    *,
    budget_tokens: int,
    count: TokenCounter,
    shown: Collection[str] = (),
    hidden: Collection[str] = (),
    index: RecallIndex | None = None,
    vectors: Vectors | None = None,
    bars: Bars = FILLING,
    about: TokenCounter | None = None,
) -> Recalled:
    """Choose the messages that have most to do with a question, as many as the budget holds.

    The context shows the messages `shown` anyway; those `hidden` are left out as if they had not
    been said. Without `vectors` the words alone decide. `about` estimates the cost of single
    steps, where counting each is slow; `None` counts them.

    Returns:
        Nothing where no message has a word that was asked for, or goes with one, no
        speaker was named, and there are no vectors.

    Raises:
        InputError: The budget is impossible, or the index is another record's.
    """
    if budget_tokens < 0:
        raise InputError(f"budget_tokens {budget_tokens!r} is under 0: write 0 to recall nothing")
    index = RecallIndex().covering(record) if index is None else index
    ends = [entry.key for entry in (*index.entries[:1], *index.entries[-1:])]
    if len(index) != len(record) or ends != [key_of(each) for each in (*record[:1], *record[-1:])]:
        raise InputError(
            f"the index is of {len(index)!r} messages and the record of {len(record)!r} others: "
            "give the index that covers the record, or none"
        )
    wanted = asked(question, index)
    scored = _scored(wanted, index, vectors, bars, shown=shown, hidden=hidden)
    if scored is None:
        return Recalled()
    fitting = _fitting(record, scored, budget_tokens, about or count)
    taken, tokens = _counted(record, fitting, budget_tokens, count)
    order = sorted(place for group in taken for place in group)
    leading = {max(group, key=lambda place: scored.total.get(place, 0.0)) for group in taken}
    nearest = max(scored.near.values(), default=0.0)
    reasons: list[Recollection] = []
    for place in order:
        words = {w for term, w in wanted.query.words.items() if index.has(place, term)}
        why: Why = "nearby"
        if place not in leading:
            why = "step"
        elif words:
            why = "words"
        elif scored.near.get(place, 0.0) >= nearest / 2 > 0:
            why = "meaning"
        score = scored.total.get(place, 0.0)
        reasons.append(
            Recollection(
                message_id=index.entries[place].key,
                why=why,
                words=tuple(sorted(words)),
                score=score,
            )
        )
    messages = tuple(record[place] for place in order)
    return Recalled(messages=messages, reasons=tuple(reasons), tokens=tokens)


def _scored(
    wanted: Asked,
    index: RecallIndex,
    vectors: Vectors | None,
    bars: Bars,
    *,
    shown: Collection[str],
    hidden: Collection[str],
) -> _Scored | None:
    """Score what may be recalled; `None` where nothing has to do with the question."""
    seen, unseen = index.places(shown), index.places(hidden)
    apart, everything = seen | unseen, set(range(len(index)))
    least = bars.bar * rarity(1, len(index))
    told = evident(wanted.query, index, least, unseen) if bars.bar else everything
    places = sorted((told if vectors is None else everything) - apart)
    if not places:
        return None
    ranking = ranked(wanted, index, places, unseen)
    if not (ranking.own or wanted.persons or vectors):
        return None
    near: dict[int, float] = {}
    total = ranking.total
    if vectors:
        nearness = similarities(vectors, index)
        near = {place: nearness[place] for place in places}
        scores = fused([list(total.values()), list(near.values())])
        total = dict(zip(total, scores, strict=True))
    least_words = bars.floor * max((ranking.words[p] for p in places if p in told), default=0.0)
    if bars.gain:
        rivals = (worth_at(ranking.own, place) for place in seen - unseen)
        least_words = max(least_words, bars.gain * max(rivals, default=0.0))
    best_near = max(0.0, *near.values()) if near else 0.0
    least_near = max(bars.floor * best_near, FAR_NEARER if bars.bar or bars.gain else 0.0)
    return _Scored(
        near=near,
        total=total,
        apart=apart,
        passing=[
            place
            for place in reversed(places)
            if (place in told and ranking.words[place] >= least_words)
            or near.get(place, 0.0) >= least_near > 0
        ],
    )


def _fitting(
    record: Sequence[AnyMessage], scored: _Scored, budget: int, about: TokenCounter
) -> list[list[int]]:
    """Return the best steps that the budget holds; one that is too large makes way for the next."""
    taken: list[list[int]] = []
    left, missed, opening = budget, 0, 0
    for group in _best_first(record, scored):
        step = [record[place] for place in group]
        cost = about(step) - opening
        if cost <= left:
            if not taken:
                # What any sequence costs beside its messages is paid once for all of them.
                opening = max(0, 2 * about(step) - about([*step, *step]))
            taken.append(group)
            left, missed = left - cost, 0
        elif (missed := missed + 1) == PATIENCE:
            break
    return taken


def _counted(
    record: Sequence[AnyMessage], groups: list[list[int]], budget: int, count: TokenCounter
) -> tuple[list[list[int]], int]:
    """Return as many of the steps, the best first, as fit once they are counted together."""

    def together(steps: int) -> int:
        places = sorted(place for group in groups[:steps] for place in group)
        return count([record[place] for place in places]) if steps else 0

    tokens = together(len(groups))
    if tokens <= budget:
        return groups, tokens
    steps = bisect_right(range(len(groups)), budget, key=together) - 1
    return groups[:steps], together(steps)


def _best_first(record: Sequence[AnyMessage], scored: _Scored) -> Iterator[list[int]]:
    """Yield what may be recalled, in whole steps: the best first, and of equals the newest."""
    known: dict[int, range] = {}
    seen: set[int] = set()
    for place in sorted(scored.passing, key=scored.total.__getitem__, reverse=True):
        if place in seen or record[place].type == "system":
            continue
        if place not in known:
            # Nothing ties turns together, so the steps of the message's turn are enough.
            turn = turn_around(record, place)
            for step in steps(record[turn.start : turn.stop]):
                found = range(turn.start + step.start, turn.start + step.stop)
                known.update(dict.fromkeys(found, found))
        seen.update(known[place])
        yield [each for each in known[place] if each not in scored.apart]
