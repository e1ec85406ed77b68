"""Whether an answer repeats itself, its question, or an earlier answer."""

import re
from collections import Counter
from functools import lru_cache

from unsay.judging.vocabulary import FENCED, JAPANESE, normal, sentences, width
from unsay.types import Exchange

# Widths count Latin letters (`vocabulary.width`); shares and likenesses are from 0 to 1.
LOOP_SHARE = 0.6  # share of the answer that one repeated unit must fill
LOOP_WIDTH = 160  # or the width of the run, whatever share it fills
LOOP_RUN = 12  # characters of the shortest run that counts
LOOP_UNIT = 4  # characters of the shortest unit; `ha ha ha` is laughter,
LONG_LAUGH = 60  # unless the run is this wide
LOOP_READ = 2_000  # characters read for runs, at the end, where models get caught
SAID_AGAIN = 0.4  # share of the answer that repeated sentences must fill
SENTENCE_WIDTH = 12  # width of the shortest sentence that counts for that
GRAMS_AGAIN = 0.5  # share of the answer's runs of words that must be repeated
FEWEST_GRAMS = 24  # runs of words below which that share is not judged
ECHO_NEAR = 0.9  # likeness from which an answer is its question
ECHO_WIDTH = 12  # width of the shortest question; a greeting is rightly returned
# Likeness from which a long answer is an earlier one. Of the development answers 0.3 % reach it, and
# 98 % of answers repeated with a tenth of their words missing. Source: MT-Bench-101.
REPETITION_NEAR = 0.78
REPETITION_SAME = 0.9  # the same for others: `Please confirm: …` may rightly be repeated
LONG = 80  # width from which an answer is long
REPETITION_WIDTH = 30  # width of the shortest answer that counts; `Yes.` may always be repeated
SAME_QUESTION = 0.8  # likeness from which two questions are one and deserve one answer

WANTS_LOOP = re.compile(
    r"\brepeat|\b(?:[0-9]+|two|three|four|five|six|ten|twenty|fifty|hundred) times\b|\bover and over\b"
    r"|\bagain and again\b|\blyrics\b|\bchorus\b|\bchant|\bmantra\b|\bpattern\b"
    r"|繰り返|くり返|[0-9一二三四五六七八九十百]+回.{0,6}(?:書|言|入力|出力|表示|唱|並べ)|歌詞|連呼|パターン"
)
"""A question that asks for an answer that repeats itself."""

WANTS_AGAIN = re.compile(
    r"\brepeat|\b(?:once )?again\b|\bonce more\b|\bsame\b|\b(?:sure|wrong|correct|mistake)\b|\bcop(?:y|ies)\b"
    r"|繰り返|くり返|もう一度|もう一回|再度|同じ|そのまま|本当|間違|違(?:う|い)"
)
"""A question that asks for an earlier answer again, or doubts it."""

_RUN = re.compile(r"(.{2,80}?)\1{2,}")
_REWORKS = re.compile(
    r":|\n|[\"“「『]|\b(?:correct|fix|proofread|paraphras\w*|translat\w*|re(?:write|word|phrase|peat)\w*|format|grammar|say"
    r"|spell|echo|case|sort|cop(?:y|ied)|edit|punctuat\w*|improve)\b|校正|訂正|修正|翻訳|言い換え|書き直|添削|復唱"
    r"|そのまま|並べ替|直して|敬語|丁寧"
)
_ASKS_READ = 40
_ASKS = re.compile(r"(?:\?|か|ください|下さい|please)[\s。.」\"”')]*\Z")
_AGREES = re.compile(
    r"\W*(?:yes|yeah|yep|no|nope|right|correct|true|false|indeed|exactly|sure|of course|はい|いいえ|ええ|うん|そう|いや|もちろん|正解)"
)


def loops(answer: str) -> bool:
    """Whether an answer says the same unit, sentence or run of words over and over."""
    text = FENCED.sub("\n", normal(answer))
    return _runs(text) or _says_again(text) or _circles(text)


def _runs(text: str) -> bool:
    """Whether a unit follows itself until it fills much of the text."""
    letters = squeezed(text)[-LOOP_READ:]
    run = max(_RUN.finditer(letters), key=lambda match: len(match[0]), default=None)
    if run is None or run[1].isdigit() or len(run[0]) < LOOP_RUN:
        return False
    if len(run[1]) < LOOP_UNIT and width(run[0]) < LONG_LAUGH:
        return False
    return len(run[0]) >= LOOP_SHARE * len(letters) or width(run[0]) >= LOOP_WIDTH


def _says_again(text: str) -> bool:
    """Whether much of the text is sentences that were there before."""
    said = [part for line in sentences(text) if width(part := squeezed(line)) >= SENTENCE_WIDTH]
    again = sum(len(part) * (count - 1) for part, count in Counter(said).items())
    return again > 0 and again >= SAID_AGAIN * sum(map(len, said))


def _circles(text: str) -> bool:
    """Whether much of the text is runs of words, or of characters, that were there before."""
    japanese = JAPANESE.search(text) is not None
    words = re.findall(r"[^\W_]" if japanese else r"\w+", text)
    size = 6 if japanese else 3
    grams = [tuple(words[start : start + size]) for start in range(len(words) - size + 1)]
    again = len(grams) - len(set(grams))
    return len(grams) >= FEWEST_GRAMS and again >= GRAMS_AGAIN * len(grams)


def echoes(exchange: Exchange) -> bool:
    """Whether the answer is the question again, and nothing asked for that."""
    question, answer = normal(exchange.question), normal(exchange.answer)
    asked, said = squeezed(question), squeezed(answer)
    if width(asked) < ECHO_WIDTH or not said:
        return False
    if question.split() == answer.split():
        return True
    if _REWORKS.search(question) or _AGREES.match(answer):
        return False
    asks = [_ASKS.search(text[-_ASKS_READ:]) is not None for text in (question, answer)]
    return asks[0] == asks[1] and similarity(asked, said) >= ECHO_NEAR


def says_earlier_answer(exchange: Exchange) -> bool:
    """Whether the answer was already given to another question."""
    answer = _letters(exchange.answer)
    if width(answer) < REPETITION_WIDTH:
        return False
    asked = squeezed(normal(exchange.question))
    near = REPETITION_NEAR if width(answer) >= LONG else REPETITION_SAME
    return any(
        similarity(answer, _letters(earlier)) >= near
        for question, earlier in exchange.earlier
        if similarity(asked, squeezed(normal(question))) < SAME_QUESTION
    )


@lru_cache(maxsize=64)
def _letters(text: str) -> str:
    """The letters outside code blocks: code may well come again with one line changed."""
    return squeezed(normal(FENCED.sub("\n", text)))


def squeezed(text: str) -> str:
    """The letters and digits of a normal text, and nothing else."""
    return "".join(re.findall(r"[^\W_]+", text))


def similarity(one: str, other: str) -> float:
    """Share of character runs that two squeezed texts have in common, from 0 to 1."""
    size = 2 if JAPANESE.search(one) else 4
    first, second = _stretches(one, size), _stretches(other, size)
    total = first.total() + second.total()
    if not total:
        return float(one == other)
    common = first.keys() & second.keys()
    return 2 * sum(min(first[run], second[run]) for run in common) / total


@lru_cache(maxsize=64)
def _stretches(text: str, size: int) -> Counter[str]:
    """How often each run of so many characters occurs."""
    return Counter(text[start : start + size] for start in range(len(text) - size + 1))
