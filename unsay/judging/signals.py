"""Signals of a failed answer that need no model, one rule each, in English and Japanese.

A signal is `certain` only if hardly any good answer has it. Thresholds were chosen on development
data so that about one good answer in a hundred is rejected.
Source: MT-Bench-101 and MT-Bench-ja sessions, with their answers unchanged and corrupted.
"""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

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
from unsay.protocols import Exchange, LocalCheck

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

_PATTERNS = patterns("signals")
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
