"""Recall: choosing the earlier messages that fit a question."""

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
    estimate: TokenCounter | None = None,
) -> Recalled:
    """Choose the messages that fit a question best, as many as the budget allows.

    Messages with ids in `shown` are in the context anyway and are not recalled; those in `hidden`
    do not count at all. Without an `index` one is made. Without `vectors` the words alone decide.
    `estimate` counts single steps where `count` is slow; the result is counted by `count`. The
    result is empty if nothing reaches the `bars` or fits; also if no message has a word of the
    question or a related one, the question names no speaker, and there are no vectors.

    Raises:
        InputError: The budget is under 0, or the index is of another transcript.
        ModelReplyError: The vectors have different lengths, as those of two models.
    """
    if budget_tokens < 0:
        raise InputError(f"budget_tokens {budget_tokens!r} is under 0: write 0 to recall nothing")
    index = RecallIndex().covering(transcript) if index is None else index
    ends = [entry.key for entry in (*index.entries[:1], *index.entries[-1:])]
    if len(index) != len(transcript) or ends != [
        key_of(message) for message in (*transcript[:1], *transcript[-1:])
    ]:
        raise InputError(
            f"the index has {len(index)!r} messages and the transcript {len(transcript)!r} others: "
            "give the index of this transcript, or None"
        )
    wanted = asked(question, index)
    scored = _scored(wanted, index, vectors, bars, shown=shown, hidden=hidden)
    if scored is None:
        return Recalled()
    fitting = _fitting(transcript, scored, budget_tokens, estimate or count)
    taken, tokens = _counted(transcript, fitting, budget_tokens, count)
    order = sorted(place for group in taken for place in group)
    leading = {
        max((place for place in group if place in scored.total), key=scored.total.__getitem__)
        for group in taken
    }
    nearest = max(scored.near.values(), default=0.0)
    reasons: list[Recollection] = []
    for place in order:
        found = {word for term, word in wanted.query.words.items() if index.has(place, term)}
        why: Why = "nearby"
        if place not in leading:
            why = "step"
        elif found:
            why = "words"
        elif scored.near.get(place, 0.0) >= nearest / 2 > 0:
            why = "meaning"
        score = scored.total.get(place, 0.0)
        words = tuple(sorted(found))
        reasons.append(Recollection(message=transcript[place], why=why, words=words, score=score))
    return Recalled(reasons=tuple(reasons), tokens=tokens)


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
    seen, unseen = index.places(shown), index.places(hidden)
    apart = seen | unseen
    places = [place for place in range(len(index)) if place not in apart]
    least = bars.bar * rarity(1, len(index))
    matching = set(places)
    if bars.bar:
        matching &= evident(wanted.query, index, least, unseen)
    if not (matching or (places and vectors)):
        return None
    rivals = seen - unseen if bars.gain else frozenset()
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
    transcript: Sequence[AnyMessage], scored: _Scored, budget: int, estimate: TokenCounter
) -> list[list[int]]:
    """Return the groups of indices of the best steps that fit the budget by `estimate`.

    A step that is too large is skipped.
    """
    taken: list[list[int]] = []
    left, missed, opening = budget, 0, 0
    for group in _best_first(transcript, scored):
        step = [transcript[place] for place in group]
        cost = estimate(step) - opening
        if cost <= left:
            if not taken:
                # The fixed cost of a sequence counts once, not for each step.
                opening = max(0, 2 * estimate(step) - estimate([*step, *step]))
            taken.append(group)
            left, missed = left - cost, 0
        elif (missed := missed + 1) == PATIENCE:
            break
    return taken


def _counted(
    transcript: Sequence[AnyMessage], groups: list[list[int]], budget: int, count: TokenCounter
) -> tuple[list[list[int]], int]:
    """Return as many of the first groups as fit the budget together, and their tokens.

    A group has the indices of one step of the transcript; the best group is first.
    """

    def together(steps: int) -> int:
        places = sorted(place for group in groups[:steps] for place in group)
        return count([transcript[place] for place in places]) if steps else 0

    tokens = together(len(groups))
    if tokens <= budget:
        return groups, tokens
    steps = bisect_right(range(len(groups)), budget, key=together) - 1
    return groups[:steps], together(steps)


def _best_first(transcript: Sequence[AnyMessage], scored: _Scored) -> Iterator[list[int]]:
    """Yield the steps that may be recalled, as indices, best first; of equal scores, the newest.

    Each step is yielded once, without the messages that are shown or hidden.
    """
    known: dict[int, range] = {}
    seen: set[int] = set()
    for place in sorted(scored.passing, key=scored.total.__getitem__, reverse=True):
        if place in seen or transcript[place].type == "system":
            continue
        if place not in known:
            # A step never spans two turns, so only the steps of this turn are computed.
            turn = turn_around(transcript, place)
            for step in steps(transcript[turn.start : turn.stop]):
                found = range(turn.start + step.start, turn.start + step.stop)
                known.update(dict.fromkeys(found, found))
        seen.update(known[place])
        yield [member for member in known[place] if member not in scored.apart]
