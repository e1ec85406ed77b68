"""Pre-judge: a score for every exchange and a decision about obvious failures, without a model.

Contradictions and wrong facts cannot be detected here, so all other cases need a model judge.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import get_args

from unsay.judging.measures import HINT_FROM, doubts
from unsay.judging.signals import RULES, Signal
from unsay.judging.topic_detector import services_in
from unsay.judging.vocabulary import (
    JAPANESE,
    normal,
    overlap,
    patterns,
    sentences,
    squeezed,
    stops_short,
    width,
)
from unsay.protocols import Exchange, LocalCheck, PreVerdict
from unsay.types import Language

# Score of an answer that an expert doubts, and the reasons.
DOUBTED = 0.3
DOUBTS: Mapping[LocalCheck, str] = {
    "off_topic": "seems_off_topic",
    "truncation": "may_stop_short",
    "repetition": "resembles_earlier",
}
# Doubt of the experts below which an answer is plainly good, by language, lower than for a hint: .98 of
# corrupted answers are above it, and .08 of good ones; of short answers .93 and .16. Lower bars cost more
# than 20 % on small talk. Source: own, `recall_sure` and `read_share` of `benchmarks/judging.py`.
SURE_BELOW: Mapping[Language, float] = {"en": 0.17, "ja": 0.2}
HINT_BELOW = 0.5  # a rule that is not certain and scores less gives the judge a hint
BEST = 0.95  # highest score, from 0 to 1: surface features cannot show that an answer is true

_PATTERNS = patterns("heuristics")

# The width of a complete answer by kind of question, and the completeness, from 0 to 1, of the
# shortest answer: a short answer is right if the question asks for no more.
_FULL_WIDTH = {"open": 110, "defined": 80, "short": 18}
_LEAST = {"open": 0.45, "defined": 0.55, "short": 0.97}

# Share of the score that each earlier exchange costs, and most exchanges that cost anything.
# Source: in DBDC3 breakdowns grow with the turn (Spearman 0.22).
_TOLL = 0.02
_MOST_TOLLS = 4


ALL_CHECKS: frozenset[LocalCheck] = frozenset(get_args(LocalCheck))


def prejudge(exchange: Exchange, checks: Collection[LocalCheck] = ALL_CHECKS) -> PreVerdict:
    """Return a verdict on the form of an exchange in English or Japanese; no model is asked.

    Only obvious failures are `decided`; they score less than 0.5, and an empty answer 0.0. Any
    other score is an estimate, for a turn without a model judge. Only the rules of `checks` are
    applied.
    """
    clean_exchange, demand = _without_demands(exchange) if "demand" in checks else (exchange, [])
    applied = [rule for check, rule in RULES if check in checks]
    signals = [signal for rule in applied if (signal := rule(clean_exchange)) is not None] + demand
    decided = any(signal.certain for signal in signals)
    doubted = {} if decided else doubts(clean_exchange, checks)
    # A rule that gives a hint itself, or knows that a repetition was wanted, needs no expert.
    settled = {s.name for s in signals if s.name != "off_topic" or s.score < HINT_BELOW}
    signals += [
        Signal(name=check, certain=False, score=DOUBTED, reason=DOUBTS[check])
        for check, doubt in doubted.items()
        if doubt >= HINT_FROM and check not in settled
    ]
    # A certain signal decides, even if an uncertain one has a lower score.
    worst = min(signals, key=lambda signal: (not signal.certain, signal.score), default=None)
    toll = 1 - _TOLL * min(len(clean_exchange.earlier), _MOST_TOLLS)
    merits = _relevance(clean_exchange) * _completeness(clean_exchange) * _manners(clean_exchange)
    score = round(min([BEST * merits * toll, *(signal.score for signal in signals)]), 3)
    telling = worst is not None and (worst.certain or worst.score <= score)
    doubtful = worst is not None and not worst.certain and worst.score < HINT_BELOW
    return PreVerdict(
        hint=worst.reason if worst is not None and doubtful else "",
        score=score,
        decided=decided,
        reason=worst.reason if worst is not None and telling else _impression(score),
        signals=tuple(dict.fromkeys(signal.name for signal in signals)),
        doubt=1.0 if decided else round(max(doubted.values(), default=0.0), 3),
    )


def is_plainly_good(exchange: Exchange, found: PreVerdict) -> bool:
    """Return whether `found`, the verdict of `prejudge`, leaves no doubt that an answer is good.

    `False` after tool calls or searches that found nothing, and if the judge must label the topic:
    `prejudge` cannot judge these. Also `False` for an answer that only repeats the question, or that
    names a service, such as a hotel, where the conversation is about other ones. The judge may skip a
    plainly good answer.
    """
    unseen = exchange.calls or exchange.found_nothing or exchange.topics
    language: Language = "ja" if JAPANESE.search(exchange.question + exchange.answer) else "en"
    if unseen or found.decided or found.signals or found.doubt >= SURE_BELOW[language]:
        return False
    question, answer = normal(exchange.question), normal(exchange.answer)
    before = [normal(text) for pair in exchange.earlier for text in pair]
    asked_services, offered = services_in((question, *before)), services_in((answer,))
    elsewhere = asked_services and offered and not asked_services & offered
    return not (elsewhere or squeezed(question) == squeezed(answer))


def _without_demands(exchange: Exchange) -> tuple[Exchange, list[Signal]]:
    """Return the exchange without sentences of the answer that tell a judge what to say.

    Sentences about grades are removed too, if the question is not about grades. An answer of
    nothing else stays whole. The list has a signal if there was a demand, and is empty otherwise.
    """
    # An answer must not influence its own score. One of nothing else is not empty, only poor.
    parts = sentences(exchange.answer)
    kept_parts = [part for part in parts if not _PATTERNS["demand"].search(part.lower())]
    demands = len(kept_parts) < len(parts)
    if not _PATTERNS["grades"].search(normal(exchange.question)):
        kept_parts = [
            part for part in kept_parts if not _PATTERNS["grades"].search(part.lower())
        ] or kept_parts
    clean_exchange = exchange
    if kept_parts and len(kept_parts) < len(parts):
        clean_exchange = replace(exchange, answer="\n".join(kept_parts))
    reason = "demand"
    demand = Signal(name="demand", certain=False, score=1.0 if kept_parts else 0.1, reason=reason)
    return clean_exchange, [demand] if demands else []


def _impression(score: float) -> str:
    if score >= 0.8:
        return "good_match"
    if score >= 0.5:
        return "partial_match"
    return "poor_match"


def _relevance(exchange: Exchange) -> float:
    shared = overlap(exchange)
    if shared.with_question or shared.covered:
        return 0.85 + 0.15 * min(1.0, shared.covered / 0.4)
    fitting = _fits(normal(exchange.question), normal(exchange.answer))
    if shared.with_context:
        share = shared.with_context / shared.said
        return max(fitting, 0.6 + 0.3 * min(1.0, share / 0.3))
    return max(0.4, fitting - 0.08 * shared.said)


def _fits(question: str, answer: str) -> float:
    if not question.strip():
        return 0.9
    if _PATTERNS["closed"].search(question) and _PATTERNS["affirms"].search(answer):
        return 0.95
    if _PATTERNS["greets"].search(question):
        return 0.98
    return 0.9 if answer.rstrip().endswith("?") and len(sentences(answer)) == 1 else 0.8


def _completeness(exchange: Exchange) -> float:
    question = normal(exchange.question)
    kind = (
        "open"
        if _PATTERNS["open"].search(question) and not _PATTERNS["code"].search(exchange.answer)
        else "short"
    )
    if kind == "short" and _PATTERNS["defines"].search(question):
        kind = "defined"
    filled = min(1.0, width(exchange.answer.strip()) / _FULL_WIDTH[kind])
    complete = _LEAST[kind] + (1 - _LEAST[kind]) * filled
    return complete * (0.85 if stops_short(exchange.answer) else 1.0)


def _manners(exchange: Exchange) -> float:
    answer = normal(exchange.answer)
    letters = squeezed(answer)
    cannot = 0.88 if _PATTERNS["cannot"].search(answer) else 1.0
    repetition = 0.9 if letters in {squeezed(normal(text)) for _, text in exchange.earlier} else 1.0
    parrots = 0.85 if letters == squeezed(normal(exchange.question)) else 1.0
    blurts = 0.6 if _PATTERNS["blurts"].search(answer) and len(sentences(answer)) < 4 else 1.0
    return cannot * repetition * parrots * blurts
