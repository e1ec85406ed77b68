"""Recall: choosing the earlier messages that fit a question."""

import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest
from itertools import accumulate
from math import fsum, log
from operator import mul
from typing import Literal

from langchain_core.messages import AnyMessage

from unsay.context.plan import TokenCounter
from unsay.errors import InputError
from unsay.retrieval.terms import (
    TABLES,
    Query,
    RecallIndex,
    index_of,
    key_of,
    query_of,
    terms,
)
from unsay.retrieval.vectors import Vectors, fused, similarities

SATURATION = 1.2  # BM25's k1. Source: Robertson and Zaragoza 2009, chapter 3.
# BM25's b: how much more often a long message must have a term. Source: own measurement.
LENGTH_SHARE = 0.6
# Shares of the scores of the two messages before, the message itself, and the two after it.
# Source: own measurement, from the usual 0.5 before and 0.25 after; two messages before, the same
# person speaks.
KERNEL = (0.25, 0.5, 1.0, 0.35, 0.2)
SURROUNDINGS = 8  # the mean score of this many messages on each side is added
# Score for the right speaker, as a share of the worth of a word that only one message has.
SPEAKER_SHARE = 0.7
# Score of a message of mean substance, as the same share; greetings get almost nothing.
SUBSTANCE_SHARE = 0.17
# Types of messages, which index entries have for a speaker without a name.
KINDS = frozenset({"human", "ai", "tool", "system", "remove", "chat", "function"})
NEAR = len(KERNEL) // 2  # how many messages on either side of one with a word count as its turn
# Words of the question in a larger share of the messages are skipped if it has a rarer one: they
# cost most. Source: own measurement.
COMMON_SHARE = 0.25
# Postings that one question reads, rarest words first: this bounds the cost of a turn.
MOST_READ = 5_000
STRONGEST = 256  # most messages that count as having enough words of the question, the best
# If more than one in this many messages is a candidate, scoring all of them at once is faster.
SPARSE = 4
# A term without spaces and without hiragana, which is mostly grammar.
_CONTENT = re.compile(r"[^\W_\u3040-\u309f\u30fc々〆]+")
_ROUNDING = 1e-9  # sums of the same worths in another order differ by less

# Single characters that say as little as an English stop word.
_EMPTY = frozenset("何誰私僕俺今方事時的思言教話下上中人")
# The wording by which a question means messages of a type: `human` for "I", `ai` for "you said".
_SPEAKERS = {kind: re.compile(words, re.IGNORECASE) for kind, words in TABLES["speakers"].items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a question asks for; `asked` makes it.

    `query` has the search words, `persons` the speakers that it names, and `kinds` the types of
    messages that it means by `I` and `you`.
    """

    query: Query
    persons: frozenset[str]
    kinds: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """Scores of indexed messages, by place."""

    own: Mapping[int, float]  # by the words of the message itself
    words: Mapping[int, float]  # the same with the neighbours
    total: Mapping[int, float]  # the same with speaker and substance; this decides


def asked(question: str, index: RecallIndex) -> Asked:
    """Return what a question asks for: search words, speakers that it names, and kinds of messages.

    Names of speakers that the index has are not search words.
    """
    people = {
        name: frozenset(terms(name)) for name in {entry.speaker for entry in index.entries} - KINDS
    }
    question_terms = frozenset(terms(question))
    return Asked(
        query=query_of(question, names=frozenset().union(*people.values())),
        persons=frozenset(name for name, parts in people.items() if question_terms & parts),
        kinds=frozenset(kinds_meant(question)),
    )


def ranked(
    wanted: Asked,
    index: RecallIndex,
    places: Sequence[int],
    unseen: Collection[int] = (),
    rivals: Collection[int] = (),
) -> Ranking:
    """Return the scores of the messages at the given `places`.

    `wanted` is the question with its terms and speakers. Words of messages at `unseen` places
    (forgotten ones) count neither for them nor for their neighbours. `rivals` are places with which
    a caller compares these: only the result's `own` has scores for them and around them.

    Source: Robertson and Zaragoza 2009 (BM25).
    """
    few = len(places) * SPARSE <= len(index)
    own = bm25(wanted.query, index, _around([*places, *rivals], SURROUNDINGS) if few else None)
    for place in unseen:
        own.pop(place, None)
    if few:
        words = {place: worth_at(own, place) for place in places}
    else:
        scores = spread([own.get(place, 0.0) for place in range(len(index))])
        words = {place: scores[place] for place in places}
    speakers, entries = wanted.persons | wanted.kinds, index.entries
    unit = rarity(1, len(index))
    for_speaker = unit * SPEAKER_SHARE
    per_substance = (
        unit
        * SUBSTANCE_SHARE
        / (sum(entry.substance for entry in entries) / max(len(index), 1) or 1.0)
    )
    total = {
        place: worth
        + for_speaker * (entries[place].speaker in speakers)
        + per_substance * entries[place].substance
        for place, worth in words.items()
    }
    return Ranking(own=own, words=words, total=total)


def kinds_meant(question: str) -> set[str]:
    """Return the types of messages that a question means: `human` for "I", `ai` for "you said"."""
    return {kind for kind, pattern in _SPEAKERS.items() if pattern.search(question)}


def rarity(having: int, among: int) -> float:
    """Return the weight of a term that `having` of `among` messages have (BM25's idf, 0 or more)."""
    return log(1 + (among - having + 0.5) / (having + 0.5))


def bm25(
    query: Query, index: RecallIndex, among: Collection[int] | None = None
) -> dict[int, float]:
    """Return the BM25 score of each message that has a term of the query, by its place.

    Only places in `among` are scored; `None` means all. Terms that very many messages have are
    skipped if there are rarer ones.
    """
    having = {term: count for term in query.weights if (count := index.having(term))}
    own = [term for term in having if query.weights[term] >= 1]
    most = COMMON_SHARE * len(index)
    rare = [term for term in own if having[term] <= most] or own
    kin = [term for term in having if query.weights[term] < 1 and having[term] <= most]
    scores: dict[int, float] = {}
    lengths = [entry.length for entry in index.entries]
    shorter = SATURATION * (1 - LENGTH_SHARE)
    longer = SATURATION * LENGTH_SHARE / (sum(lengths) / max(len(index), 1) or 1.0)
    for term in (*_rarest(rare, having), *_rarest(kin, having)):
        worth = query.weights[term] * rarity(having[term], len(index)) * (SATURATION + 1)
        for place, times in index.matches(term).items():
            if among is None or place in among:
                gained = worth * times / (times + shorter + longer * lengths[place])
                scores[place] = scores.get(place, 0.0) + gained
    return scores


def _rarest(terms: Iterable[str], having: Mapping[str, int]) -> list[str]:
    """Return the rarest terms, rarest first, which together occur in at most `MOST_READ` messages.

    `having` has the number of messages of each term. A rarest term that alone has more is returned
    anyway.
    """
    order = sorted(terms, key=having.__getitem__)
    totals = accumulate(having[term] for term in order)
    rare_terms = [term for term, so_far in zip(order, totals, strict=True) if so_far <= MOST_READ]
    return rare_terms or order[:1]


def evident(
    query: Query, index: RecallIndex, least: float, unseen: Collection[int] = ()
) -> set[int]:
    """Return the places of the messages that share enough content words with the question.

    The weights of the shared words must add up to `least`. Only the `STRONGEST` of these messages
    count, and no forgotten ones (at `unseen` places). All places up to `NEAR` beside those that
    count are returned too, even `unseen` ones. Related words, grammar and particles do not count.
    """
    having = {
        term: count
        for term, weight in query.weights.items()
        if weight >= 1
        and term not in _EMPTY
        and _CONTENT.fullmatch(term)
        and (count := index.having(term))
    }
    worths = {term: rarity(having[term], len(index)) for term in _rarest(having, having)}
    own: dict[int, float] = {}
    remaining_worth = sum(worths.values())
    for term, worth in worths.items():
        # A message without any word so far cannot reach the bar by the words that are left.
        begins = remaining_worth >= least - _ROUNDING
        for place in index.matches(term):
            if begins or place in own:
                own[place] = own.get(place, 0.0) + worth
        remaining_worth -= worth
    strong = [
        place for place, worth in own.items() if worth >= least - _ROUNDING and place not in unseen
    ]
    if len(strong) > STRONGEST:
        strong = nlargest(STRONGEST, sorted(strong, reverse=True), key=own.__getitem__)
    return {place for place in _around(strong, NEAR) if 0 <= place < len(index)}


def _around(places: Collection[int], reach: int) -> set[int]:
    near = range(-reach, reach + 1)
    return {place + offset for place in places for offset in near}


def worth_at(own: Mapping[int, float], place: int) -> float:
    """Return the score that `spread` would give one place; `own` has the scores by place.

    It is faster than `spread` if only few places are needed.
    """
    around = [
        own.get(other, 0.0) for other in range(place - SURROUNDINGS, place + SURROUNDINGS + 1)
    ]
    near = around[SURROUNDINGS - NEAR : SURROUNDINGS + NEAR + 1]
    return fsum(map(mul, KERNEL, near)) + fsum(around) / len(around)


def spread(scores: Sequence[float]) -> list[float]:
    """Return new scores: to each, shares of its neighbours' scores are added (see `KERNEL`).

    The mean score of a wider range, `SURROUNDINGS` on each side, is added too.
    """
    edge = [0.0] * NEAR
    padded = [*edge, *scores, *edge]
    neighbours = zip(*(padded[offset:] for offset in range(len(KERNEL))), strict=False)
    wide = [0.0] * SURROUNDINGS
    sums = [0.0, *accumulate([*wide, *scores, *wide])]
    width = 2 * SURROUNDINGS + 1
    # A difference of rounded sums may be slightly below 0, which a score never is.
    around = (max(0.0, last - first) for first, last in zip(sums, sums[width:], strict=False))
    two_before, before, own, after, two_after = KERNEL
    return [
        two_before * a + before * b + own * c + after * d + two_after * e + total / width
        for (a, b, c, d, e), total in zip(neighbours, around, strict=True)
    ]


# Why a message is recalled: it has words of the question or related ones; it means something
# similar; it is near such a message, or the question asks for its speaker; it belongs to a
# recalled tool call; a person asked for it.
Why = Literal["words", "meaning", "nearby", "step", "asked"]
# With a bar or a gain, a message must be this many deviations nearer than the mean.
FAR_NEARER = 2.0
# The words alone need only this share of the floor: speaker and substance may make up the rest.
# Source: own measurement.
WORDS_SHARE = 0.15
PATIENCE = 32  # the search ends after this many steps in a row that are too large


@dataclass(frozen=True, slots=True, kw_only=True)
class Recollection:
    """Why one message was recalled."""

    message: AnyMessage
    why: Why
    words: tuple[str, ...]  # the words of the question that the message matches
    score: float  # higher is better; comparable only within one recall

    @property
    def message_id(self) -> str:
        """Id of the message, or its type and content if it has no id."""
        return key_of(self.message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    """The messages that are recalled, with reasons, and the tokens that quoting them costs."""

    reasons: tuple[Recollection, ...] = ()  # in the transcript's order; tool calls with all results
    tokens: int = 0

    @property
    def messages(self) -> tuple[AnyMessage, ...]:
        """The recalled messages, in the order of the transcript."""
        return tuple(reason.message for reason in self.reasons)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars:
    """Thresholds of recall: `bar` and `gain` are for the question, `floor` is for each message.

    Nothing is recalled unless one message reaches both `bar` and `gain`.
    """

    floor: float = 0.0  # share (0 to 1) of the best message's score, or of its nearness in meaning
    # Content words of the question, in the message or near it, that are worth this share (0 to 1)
    # of a word that only one message has; or a meaning that is `FAR_NEARER` than the mean.
    bar: float = 0.0
    gain: float = 0.0  # words worth this many times those of the best message that is shown

    def __post_init__(self) -> None:
        for name, share in (("floor", self.floor), ("bar", self.bar)):
            if not 0 <= share <= 1:
                raise InputError(f"{name} {share!r} is no share: write a number from 0 to 1")
        if self.gain < 0:
            raise InputError(f"gain {self.gain!r} is under 0: write 0 to compare with nothing")


FILLING = Bars()  # no thresholds: as many messages as the budget allows


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scored:
    """The scores of the messages that may be recalled, by their places."""

    near: Mapping[int, float]  # in meaning, in deviations from the mean; empty without vectors
    total: Mapping[int, float]
    apart: Collection[int]  # places of messages that are shown or hidden
    passing: Sequence[int]  # places whose scores reach the thresholds, newest first


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The steps that a search chose by an index alone, before any of their messages is read."""

    index: RecallIndex
    words: Mapping[str, str]  # the word of the question that each term comes from
    near: Mapping[int, float]
    total: Mapping[int, float]
    groups: Sequence[Sequence[int]] = ()  # places of the messages of each step, the best step first

    @property
    def keys(self) -> list[str]:
        """The keys of the chosen messages."""
        return [self.index.entries[place].key for group in self.groups for place in group]

    def fitted(
        self, messages: Mapping[str, AnyMessage], budget_tokens: int, count: TokenCounter
    ) -> Recalled:
        """Return as many of the best steps as fit the budget; `messages` has them by key.

        A message that is missing there is left out.
        """
        entries = self.index.entries
        read_groups = [
            [place for place in group if entries[place].key in messages] for group in self.groups
        ]
        by_place = {p: messages[entries[p].key] for group in read_groups for p in group}
        groups, tokens = _counted(by_place, list(filter(None, read_groups)), budget_tokens, count)
        nearest = max(self.near.values(), default=0.0)
        leading = {
            max((p for p in group if p in self.total), key=self.total.__getitem__, default=-1)
            for group in groups
        }
        reasons: list[Recollection] = []
        for place in sorted(place for group in groups for place in group):
            shared_words = {
                word for term, word in self.words.items() if self.index.has(place, term)
            }
            reason: Why = "nearby"
            if place not in leading:
                reason = "step"
            elif shared_words:
                reason = "words"
            elif self.near.get(place, 0.0) >= nearest / 2 > 0:
                reason = "meaning"
            score = self.total.get(place, 0.0)
            words = tuple(sorted(shared_words))
            reasons.append(
                Recollection(message=by_place[place], why=reason, words=words, score=score)
            )
        return Recalled(reasons=tuple(reasons), tokens=tokens)


def recall(
    question: str,
    transcript: Sequence[AnyMessage],
    *,
    budget_tokens: int,
    count: TokenCounter,
    shown: Collection[str] = (),
    hidden: Collection[str] = (),
    index: RecallIndex | None = None,
    vectors: Vectors | None = None,
    bars: Bars = FILLING,
) -> Recalled:
    """Choose the messages that fit a question best, as many as the budget allows.

    See `choose`. Without an `index` one is made. `count` counts tokens of messages.

    Raises:
        InputError: The budget is under 0, or the index is of another transcript.
        ModelReplyError: The vectors have different lengths, as those of two models.
    """
    index = index_of(transcript) if index is None else index
    ends = [entry.key for entry in (*index.entries[:1], *index.entries[-1:])]
    if len(index) != len(transcript) or ends != [
        key_of(message) for message in (*transcript[:1], *transcript[-1:])
    ]:
        raise InputError(
            f"the index has {len(index)!r} messages and the transcript {len(transcript)!r} others: "
            "give the index of this transcript, or None"
        )
    choice = choose(
        question,
        index,
        budget_tokens=budget_tokens,
        estimate=lambda places: count([transcript[place] for place in places]),
        shown=shown,
        hidden=hidden,
        vectors=vectors,
        bars=bars,
        unquoted={place for place, m in enumerate(transcript) if m.type == "system"},
    )
    return choice.fitted({key_of(m): m for m in transcript}, budget_tokens, count)


def choose(
    question: str,
    index: RecallIndex,
    *,
    budget_tokens: int,
    estimate: Callable[[Sequence[int]], int],
    shown: Collection[str] = (),
    hidden: Collection[str] = (),
    vectors: Vectors | None = None,
    bars: Bars = FILLING,
    unquoted: Collection[int] = (),
) -> Choice:
    """Choose the steps whose messages fit a question best, about as many as the budget allows.

    Messages with ids in `shown` are in the context anyway and are not recalled; those in `hidden`
    do not count at all, and those at the places `unquoted` are never quoted. Without `vectors` the
    words alone decide. `estimate` counts the tokens of the messages at places. The choice is empty
    if nothing reaches the `bars` or fits; also if no message has a word of the question or a
    related one, the question names no speaker, and there are no vectors.

    Raises:
        InputError: The budget is under 0.
        ModelReplyError: The vectors have different lengths, as those of two models.
    """
    if budget_tokens < 0:
        raise InputError(f"budget_tokens {budget_tokens!r} is under 0: write 0 to recall nothing")
    wanted = asked(question, index)
    scored = _scored(wanted, index, vectors, bars, shown=shown, hidden=hidden)
    if scored is None:
        return Choice(index=index, words={}, near={}, total={})
    best_first = _best_first(index, scored, unquoted)
    return Choice(
        index=index,
        words=wanted.query.words,
        near=scored.near,
        total=scored.total,
        groups=_fitting(best_first, budget_tokens, estimate),
    )


def _scored(
    wanted: Asked,
    index: RecallIndex,
    vectors: Vectors | None,
    bars: Bars,
    *,
    shown: Collection[str],
    hidden: Collection[str],
) -> _Scored | None:
    """Return the scores of the messages that are neither `shown` nor `hidden` (ids).

    `None` if no message is related to the question, or none reaches `bars.bar`. Raises
    `ModelReplyError` if vectors have different lengths.
    """
    shown_places, unseen = index.places(shown), index.places(hidden)
    apart = shown_places | unseen
    places = [place for place in range(len(index)) if place not in apart]
    least = bars.bar * rarity(1, len(index))
    matching = set(places)
    if bars.bar:
        matching &= evident(wanted.query, index, least, unseen)
    if not (matching or (places and vectors)):
        return None
    rivals = shown_places - unseen if bars.gain else frozenset()
    ranking = ranked(wanted, index, places, unseen, rivals)
    if not (ranking.own or wanted.persons or vectors):
        return None
    near: dict[int, float] = {}
    total = ranking.total
    if vectors:
        nearness = similarities(vectors, index)
        near = {place: nearness[place] for place in places}
        scores = fused([list(total.values()), list(near.values())])
        total = dict(zip(total, scores, strict=True))
    best_shown = max((worth_at(ranking.own, place) for place in rivals), default=0.0)
    words = ranking.words
    by_words = any(words[place] >= bars.gain * best_shown for place in matching)
    least_words = WORDS_SHARE * bars.floor * max(words.values())
    least_total = bars.floor * max(ranking.total.values())
    best_near = max(0.0, *near.values()) if near else 0.0
    least_near = max(bars.floor * best_near, FAR_NEARER if bars.bar or bars.gain else 0.0)
    return _Scored(
        near=near,
        total=total,
        apart=apart,
        passing=[
            place
            for place in reversed(places)
            if (by_words and words[place] >= least_words and ranking.total[place] >= least_total)
            or near.get(place, 0.0) >= least_near > 0
        ],
    )


def _fitting(
    best_first: Iterable[list[int]], budget: int, estimate: Callable[[Sequence[int]], int]
) -> list[list[int]]:
    """Return the best steps that fit the budget by `estimate`; a step that is too large is skipped."""
    groups: list[list[int]] = []
    remaining_budget, missed, opening = budget, 0, 0
    for group in best_first:
        cost = estimate(group) - opening
        if cost <= remaining_budget:
            if not groups:
                # The fixed cost of a sequence counts once, not for each step.
                opening = max(0, 2 * estimate(group) - estimate([*group, *group]))
            groups.append(group)
            remaining_budget, missed = remaining_budget - cost, 0
        elif (missed := missed + 1) == PATIENCE:
            break
    return groups


def _counted(
    messages: Mapping[int, AnyMessage], groups: list[list[int]], budget: int, count: TokenCounter
) -> tuple[list[list[int]], int]:
    """Return as many of the first groups as fit the budget together, and their tokens.

    A group has the places of one step; the best group is first.
    """

    def together(steps: int) -> int:
        places = sorted(place for group in groups[:steps] for place in group)
        return count([messages[place] for place in places]) if steps else 0

    tokens = together(len(groups))
    if tokens <= budget:
        return groups, tokens
    steps = bisect_right(range(len(groups)), budget, key=together) - 1
    return groups[:steps], together(steps)


def _best_first(
    index: RecallIndex, scored: _Scored, unquoted: Collection[int]
) -> Iterator[list[int]]:
    """Yield the steps that may be recalled, as places, best first; of equal scores, the newest.

    Each step is yielded once, without the messages that are shown, hidden or `unquoted`.
    """
    visited_places = set(unquoted)
    for place in sorted(scored.passing, key=scored.total.__getitem__, reverse=True):
        if place not in visited_places:
            step = index.step_at(place)
            visited_places.update(step)
            yield [member for member in step if member not in scored.apart]
