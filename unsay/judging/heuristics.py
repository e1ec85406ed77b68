"""Pre-judge: a score for every exchange and a decision about obvious failures, without a model.

Signals of a failed answer come first, one rule each; a signal is `certain` only if hardly any good
answer has it. Thresholds were chosen on development data so that about one good answer in a hundred is
rejected. Source: MT-Bench-101 and MT-Bench-ja sessions, with their answers unchanged and corrupted.

Contradictions and wrong facts cannot be detected here, so all other cases need a model judge.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import get_args

from unsay.judging.measures import HINT_FROM, doubts
from unsay.judging.topic_detector import services_in
from unsay.judging.vocabulary import (
    FENCED,
    FIRST_WIDTH,
    JAPANESE,
    SHORTEST_WIDTH,
    is_casual,
    is_short,
    normal,
    overlap,
    patterns,
    sentences,
    similarity,
    squeezed,
    stops_short,
    vocabulary,
    width,
)
from unsay.protocols import Exchange, LocalCheck, PreVerdict
from unsay.types import Language

CHANGED = "changed_facts"

# Share of the words beside the values that two sentences about the same thing have in common, and
# the fewest such words. Source: own choice, on sentences made by hand.
SAME_WORDS = 0.6
FEWEST_WORDS = 2

STATEMENTS = 40
"""Sentences of one answer that are compared, so that the time is bounded."""

_NUMBER = re.compile(
    r"\d+月\d+日|\d+(?:[.,:/-]\d+)*|(?<![〇一二三四五六七八九十百千万億])[〇一二三四五六七八九十百千万億]+(?=[年月日時分人円個])"
)
_NAME = re.compile(r"(?<=[a-z0-9,;:] )[A-Z][\w'-]+(?: [A-Z][\w'-]+)*|[ァ-ヶ][ァ-ヶー・]+")


@dataclass(frozen=True, slots=True)
class _Statement:
    """A sentence with values: its numbers, its names, and its other words."""

    numbers: frozenset[str]
    names: frozenset[str]
    words: frozenset[str]


def changed_facts(exchange: Exchange) -> str:
    """Return the hint `CHANGED` if the answer gives another value than an earlier answer; else "".

    Values that the question gives do not count. The judge gets the result as a hint.
    """
    earlier = [each for _, answer in exchange.earlier for each in _statements(answer)]
    if not earlier:
        return ""
    question_values = {*_NUMBER.findall(exchange.question), *_NAME.findall(exchange.question)}
    for statement in _statements(exchange.answer):
        numbers, names = statement.numbers - question_values, statement.names - question_values
        for before in earlier:
            differs = _other(numbers, before.numbers) or _other(names, before.names)
            if differs and _is_same_thing(statement.words, before.words):
                return CHANGED
    return ""


def _statements(text: str) -> list[_Statement]:
    """Return the first `STATEMENTS` sentences of a text that have a number or a name."""
    statements: list[_Statement] = []
    for sentence in sentences(text):
        numbers, names = _NUMBER.findall(sentence), _NAME.findall(sentence)
        if numbers or names:
            rest = vocabulary(_NAME.sub(" ", _NUMBER.sub(" ", sentence)))
            statements.append(_Statement(frozenset(numbers), frozenset(names), rest))
        if len(statements) == STATEMENTS:
            break
    return statements


def _other(values: frozenset[str], before: frozenset[str]) -> bool:
    return bool(values) and bool(before) and values.isdisjoint(before)


def _is_same_thing(words: frozenset[str], others: frozenset[str]) -> bool:
    shared = len(words & others)
    return shared >= FEWEST_WORDS and shared >= SAME_WORDS * len(words | others)


BARE_WIDTH = 400  # width up to which an answer can be a bare refusal
STRAY_SHARE = 0.1  # share of its words that an off-topic answer may have in common with the thread
# The same between two Japanese texts, whose compounds share parts by chance. Source: of the Japanese
# development answers none is suspected with it, and 44 % of answers to another question instead of 27 %.
STRAY_SHARE_JA = 0.2
# Content words from which an answer would share some. Source: of the development answers that long
# 0.7 % share none or next to none, of answers to another question 56 %, in Japanese 36 %.
STRAY_WORDS = 8
FEWEST_STRAY = 4  # content words below which an answer never counts as off topic

# Widths count Latin letters (`vocabulary.width`); shares and likenesses are from 0 to 1.
LOOP_SHARE = 0.6  # share of the answer from which a run of one repeated unit is a loop
LOOP_WIDTH = 160  # width from which a run is a loop in an answer of any length
LOOP_RUN = 12  # characters of the shortest run that counts
LOOP_UNIT = 4  # characters of the shortest unit: `ha ha ha` is laughter, not a loop
LONG_LAUGH = 60  # width from which a run of shorter units counts, too
LOOP_READ = 2_000  # characters that are searched for runs, at the end: loops never stop
SAID_AGAIN = 0.4  # share of the answer that repeated sentences must fill
SENTENCE_WIDTH = 12  # width of the shortest sentence that counts for `SAID_AGAIN`
GRAMS_AGAIN = 0.5  # share of the answer's runs of words that must be repeated, see `_circles`
FEWEST_GRAMS = 24  # runs of words below which `GRAMS_AGAIN` is not judged
ECHO_NEAR = 0.9  # likeness from which an answer is its question
ECHO_WIDTH = 12  # width of the shortest question; a greeting is rightly returned
# Likeness from which a long answer is an earlier one. Of the development answers 0.3 % reach it, and
# 98 % of answers repeated with a tenth of their words missing. Source: MT-Bench-101.
REPETITION_NEAR = 0.78
REPETITION_SAME = 0.9  # for a short answer: `Please confirm: …` may rightly be repeated
LONG = 80  # width from which an answer is long
REPETITION_WIDTH = 30  # width of the shortest answer that counts; `Yes.` may always be repeated
SAME_QUESTION = 0.8  # likeness from which two questions are one and deserve one answer

_PATTERNS = patterns("heuristics")
_RUN = re.compile(r"(.{2,80}?)\1{2,}")
_ASKS_READ = 40

_NOTHING = re.compile(r"[\s\u00ad\u200b-\u200f\u2060\ufeff.…。、,\-–—・?!？！*_`~\"']*")
_FENCE = re.compile(r"^[ ]{0,6}(```|~~~)", re.MULTILINE)
# A block of code answers in new names, and shares few words with a question.
_CODE = re.compile(r"^(?:```|~~~| {4}\S|\t\S)", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """A sign of failure that a rule found in an answer."""

    name: str
    certain: bool  # whether the answer is rejected without asking a model
    score: float  # highest possible score of the answer, from 0 to 1
    reason: str  # row of the texts' `check_reasons`


def _empty(exchange: Exchange) -> Signal | None:
    if not _NOTHING.fullmatch(exchange.answer):
        return None
    return Signal(name="empty", certain=True, score=0.0, reason="empty")


def _refusal(exchange: Exchange) -> Signal | None:
    # A refusal with grounds or an alternative may be right: only a bare one is certain.
    answer = normal(exchange.answer)
    parts = sentences(answer)
    refused = {part for part in parts if _PATTERNS["refusal"].search(part)}
    if not refused:
        return None
    others = [
        part for part in parts if part not in refused and not _PATTERNS["courtesy"].search(part)
    ]
    bare = not _PATTERNS["grounds"].search(answer) and not any(squeezed(part) for part in others)
    return Signal(
        name="refusal",
        certain=bare and width(answer) <= BARE_WIDTH,
        score=0.2 if bare else 0.85,
        reason="refusal" if bare else "partial_refusal",
    )


def _ignorance(exchange: Exchange) -> Signal | None:
    # A polite "I don't know" may be honest, above all about the user: only a curt one is certain.
    answer = normal(exchange.answer)
    if not (
        _PATTERNS["knows_nothing"].fullmatch(answer) and _PATTERNS["knowing_nothing"].search(answer)
    ):
        return None
    curt = _PATTERNS["curt"].search(answer) and not _PATTERNS["about_user"].search(
        normal(exchange.question)
    )
    return Signal(
        name="refusal",
        certain=bool(curt),
        score=0.15 if curt else 0.4,
        reason="ignorance",
    )


def _loop(exchange: Exchange) -> Signal | None:
    text = FENCED.sub("\n", normal(exchange.answer))
    if not (_runs(text) or _says_again(text) or _circles(text)):
        return None
    wants_loop = _PATTERNS["wants_loop"].search(normal(exchange.question)) is not None
    # A list of facts in one form, such as the weather of ten cities, has a value in each sentence.
    is_list = len(set(_PATTERNS["value"].findall(exchange.answer))) >= len(
        sentences(exchange.answer)
    )
    return Signal(
        name="loop",
        certain=not wants_loop and not (is_list and not _runs(text) and not _says_again(text)),
        score=0.7 if wants_loop else 0.1,
        reason="loop",
    )


def _runs(text: str) -> bool:
    letters = squeezed(text)[-LOOP_READ:]
    run = max(_RUN.finditer(letters), key=lambda match: len(match[0]), default=None)
    if run is None or run[1].isdigit() or len(run[0]) < LOOP_RUN:
        return False
    if len(run[1]) < LOOP_UNIT and width(run[0]) < LONG_LAUGH:
        return False
    return len(run[0]) >= LOOP_SHARE * len(letters) or width(run[0]) >= LOOP_WIDTH


def _says_again(text: str) -> bool:
    long = [part for line in sentences(text) if width(part := squeezed(line)) >= SENTENCE_WIDTH]
    repeat_chars = sum(len(part) * (count - 1) for part, count in Counter(long).items())
    return repeat_chars > 0 and repeat_chars >= SAID_AGAIN * sum(map(len, long))


def _circles(text: str) -> bool:
    """Return whether a large share of the text's runs of three words are repetitions.

    In Japanese a run has six characters. The result is `False` for a short text.
    """
    japanese = JAPANESE.search(text) is not None
    words = re.findall(r"[^\W_]" if japanese else r"\w+", text)
    size = 6 if japanese else 3
    grams = [tuple(words[start : start + size]) for start in range(len(words) - size + 1)]
    repeat_count = len(grams) - len(set(grams))
    return len(grams) >= FEWEST_GRAMS and repeat_count >= GRAMS_AGAIN * len(grams)


def _echo(exchange: Exchange) -> Signal | None:
    question, answer = normal(exchange.question), normal(exchange.answer)
    question_letters, answer_letters = squeezed(question), squeezed(answer)
    if width(question_letters) < ECHO_WIDTH or not answer_letters:
        return None
    if question.split() != answer.split():
        if _PATTERNS["reworks"].search(question) or _PATTERNS["agrees"].match(answer):
            return None
        asks = [
            _PATTERNS["asks"].search(text[-_ASKS_READ:]) is not None for text in (question, answer)
        ]
        # A statement in the words of a question may answer it, so both must ask or neither may.
        if asks[0] != asks[1] or similarity(question_letters, answer_letters) < ECHO_NEAR:
            return None
    return Signal(name="echo", certain=True, score=0.1, reason="echo")


def _repetition(exchange: Exchange) -> Signal | None:
    question = normal(exchange.question)
    repeated = [
        earlier
        for other, earlier in exchange.earlier
        if similarity(squeezed(question), squeezed(normal(other))) < SAME_QUESTION
        and _is_repeated(exchange.answer, earlier)
    ]
    if not repeated:
        return None
    wants_repeat = _PATTERNS["wants_again"].search(question) is not None
    # The same sentence with another number or name can be the right answer to this question.
    values = set(_PATTERNS["value"].findall(exchange.answer))
    same = any(values.issubset(_PATTERNS["value"].findall(earlier)) for earlier in repeated)
    return Signal(
        name="repetition",
        certain=same and not wants_repeat and not is_short(exchange.answer),
        score=0.6 if wants_repeat else 0.25,
        reason="repetition",
    )


def _is_repeated(answer: str, earlier: str) -> bool:
    letters = _letters(answer)
    if not letters and not _letters(earlier):
        # Nothing but code: a good answer may repeat it with one line changed.
        code = squeezed(normal(answer))
        return width(code) >= REPETITION_WIDTH and code == squeezed(normal(earlier))
    near = REPETITION_NEAR if width(letters) >= LONG else REPETITION_SAME
    return width(letters) >= REPETITION_WIDTH and similarity(letters, _letters(earlier)) >= near


def _truncation(exchange: Exchange) -> Signal | None:
    enough = SHORTEST_WIDTH if exchange.earlier else FIRST_WIDTH
    if exchange.truncated:
        reason = "truncated"
    elif len(_FENCE.findall(exchange.answer)) % 2:
        reason = "open_code_block"
    elif stops_short(exchange.answer, enough=enough) and not is_casual(exchange):
        reason = "stops_short"
    else:
        return None
    # A good answer can end in an address, a command or a name: only the provider knows for certain.
    return Signal(name="truncation", certain=exchange.truncated, score=0.4, reason=reason)


def _off_topic(exchange: Exchange) -> Signal | None:
    # Never certain: a good answer may use other words, and only a judge can tell.
    shared = overlap(exchange)
    question, answer = normal(exchange.question), normal(exchange.answer)
    japanese = [JAPANESE.search(text) is not None for text in (question, answer)]
    share = STRAY_SHARE_JA if all(japanese) else STRAY_SHARE
    stray = shared.with_context <= share * shared.said and not shared.with_question
    # A question of one word and a pronoun, such as `How is it made?`, is about earlier messages.
    vague = not shared.asked or (shared.asked == 1 and _PATTERNS["points_back"].search(question))
    if not stray or shared.said < FEWEST_STRAY or vague or _PATTERNS["invents"].search(question):
        return None
    long = shared.said >= STRAY_WORDS
    other_language = japanese[0] != japanese[1]
    refers = _PATTERNS["refers"].search(answer) or _CODE.search(exchange.answer)
    # Later answers may take up earlier ones in other words, so the expert alone doubts them. Source:
    # of 43 later answers that only this rule suspected, 7 were good; of 5 first ones none was.
    telling = not exchange.earlier and (other_language or (long and not refers))
    return Signal(
        name="off_topic",
        certain=False,
        score=0.3 if telling else 0.5,
        reason="no_shared_word",
    )


# All rules by the check that they belong to, the most serious first.
RULES: tuple[tuple[LocalCheck, Callable[[Exchange], Signal | None]], ...] = (
    ("empty", _empty),
    ("refusal", _refusal),
    ("refusal", _ignorance),
    ("loop", _loop),
    ("echo", _echo),
    ("repetition", _repetition),
    ("truncation", _truncation),
    ("off_topic", _off_topic),
)


@lru_cache(maxsize=64)
def _letters(text: str) -> str:
    # Without code blocks: a good answer may repeat code with one line changed.
    return squeezed(normal(FENCED.sub("\n", text)))


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
