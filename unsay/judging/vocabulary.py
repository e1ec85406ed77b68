"""Content words of a text in English, Japanese and most scripts, without a dictionary.

Words between spaces are lower-cased and lightly stemmed. Japanese has no spaces: runs of kanji and
of katakana count as words, and their 2-3-grams let a compound match its parts. Runs of hiragana,
which are grammar, and words that are common in any conversation do not count.
"""

import re
import tomllib
import unicodedata
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from unsay.protocols import Exchange

# Characters of a text that are read, half from either end: a pasted file would take seconds.
TEXT_LIMIT = 4_000

_KANJI = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff々〆ヶ"
_KATAKANA = "\u30a1-\u30f5\u30f7-\u30fa\u30fc"
_HIRAGANA = "\u3041-\u309f"
_TOKENS = re.compile(
    rf"(?P<kanji>[{_KANJI}]+)"
    rf"|(?P<katakana>[{_KATAKANA}]+)"
    rf"|(?P<word>[^\W\d_{_KANJI}{_KATAKANA}ヵヮヽヾ{_HIRAGANA}]"
    rf"(?:[^\W_{_KANJI}{_KATAKANA}ヵヮヽヾ{_HIRAGANA}]|'(?=[a-z]))*(?:\+\+|\#)?)"
)
_SHORTEST_WORD = 2
_SHORTEST_STEM = 3
_BEGINNING = 5  # letters that two related words share, such as `reflective` and `reflection`

# The words and patterns of `wording.toml`, by table.
WORDING = tomllib.loads(Path(__file__).with_name("wording.toml").read_text("utf-8"))
STOP_WORDS = frozenset(WORDING["stop_words"].split())
STOP_RUNS = frozenset(WORDING["stop_runs"].split())


def patterns(table: str) -> dict[str, re.Pattern[str]]:
    """Return the patterns in a table of `wording.toml` by name, with their parts."""
    parts = {**WORDING[table], **WORDING["lists"]}

    def fill(text: str) -> str:
        return re.sub(r"\{([a-z_]+)\}|\n", lambda m: fill(parts[m[1]]) if m[1] else "", text)

    return {name: re.compile(fill(text)) for name, text in WORDING[table].items()}


_SUFFIXES: Mapping[str, str] = WORDING["suffixes"]
_KEEPS = ("ss", "us", "is")


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One word of a text, or one run of kanji or katakana."""

    whole: str  # the stem of the word, or the whole run
    parts: tuple[str, ...]  # the run's 2-3-grams; none for a word or a run of up to two characters
    weight: float  # 1 for a word, 0.5 for one of at most two letters, more for a compound


@lru_cache(maxsize=8_192)
def stem(word: str) -> str:
    """Return a lower-case word without its commonest English ending."""
    if not word.isascii() or word.endswith(_KEEPS):
        return word
    for ending, instead in _SUFFIXES.items():
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST_STEM:
            word = word[: -len(ending)] + instead
            # `plann` becomes `plan`, but `call` stays.
            doubled = len(word) > _SHORTEST_STEM and word[-1] == word[-2]
            return word[:-1] if doubled and word[-1] not in "aeiouls" else word
    return word


_STOP_STEMS = frozenset(map(stem, STOP_WORDS))


def terms(text: str) -> tuple[str, ...]:
    """Return the stems of a text's words, and its Japanese runs with their 2-grams and 3-grams.

    They are in the order of the text, and a term can occur several times.
    """
    return tuple([term for unit in units(text) for term in (unit.whole, *unit.parts)])


@lru_cache(maxsize=256)
def vocabulary(text: str) -> frozenset[str]:
    """Return the terms of a text, each once."""
    return frozenset(terms(text))


@lru_cache(maxsize=256)
def units(text: str) -> tuple[Unit, ...]:
    """Return the stems of a text's words and its runs of kanji or katakana, in order, as units.

    Very common ones (`STOP_WORDS`, `STOP_RUNS`), numbers, single letters and hiragana are left
    out. A long text is read without its middle (`TEXT_LIMIT`).
    """
    candidates = [_unit(match.group(), match.lastgroup) for match in _TOKENS.finditer(normal(text))]
    return tuple([unit for unit in candidates if unit is not None])


def normal(text: str) -> str:
    """Return a text for comparison: NFKC, lower case, plain apostrophes.

    A text of more than `TEXT_LIMIT` characters loses its middle.
    """
    if len(text) > TEXT_LIMIT:
        text = f"{text[: TEXT_LIMIT // 2]} {text[-TEXT_LIMIT // 2 :]}"
    return unicodedata.normalize("NFKC", text).lower().replace("’", "'")


@lru_cache(maxsize=8_192)
def _unit(token: str, kind: str | None) -> Unit | None:
    if kind == "word":
        word = token.removesuffix("'s").replace("'", "")
        if len(word) < _SHORTEST_WORD or word in STOP_WORDS or stem(word) in _STOP_STEMS:
            return None
        weak = len(word) == _SHORTEST_WORD or word[1:].isdigit()  # such as `uk` and `q2`
        return Unit(whole=stem(word), parts=(), weight=0.5 if weak else 1.0)
    if token in STOP_RUNS or not token.strip("ー"):
        return None
    grams = (token[i : i + size] for size in (2, 3) for i in range(len(token) - size + 1))
    parts = tuple(dict.fromkeys(gram for gram in grams if gram != token))
    # Katakana needs about twice the characters for one word.
    words = len(token) / (4 if kind == "katakana" else 2)
    return Unit(whole=token, parts=parts, weight=min(max(words, 0.5) ** 0.5, 2.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """How many content words an answer shares with its question and the earlier exchanges."""

    asked: int  # distinct content words of the question
    said: int  # distinct content words of the answer
    with_question: int  # of `said`, those that the question has too
    with_context: int  # of `said`, those that the question or an earlier exchange has too
    covered: float  # share of the question's content, by weight, in the answer; from 0 to 1


def overlap(exchange: Exchange) -> Overlap:
    """Return how many words an answer shares with its question and the exchanges before it.

    Sentences that the answer copies from the question do not count, unless it has no others.
    """
    own = without_copies(exchange.question, exchange.answer)
    question_units = {unit.whole: unit for unit in units(exchange.question)}.values()
    answer_units = {unit.whole: unit for unit in units(own)}.values()
    question, answer = known_terms(exchange.question), known_terms(own)
    context_terms = question.union(
        *(known_terms(text) for pair in exchange.earlier for text in pair)
    )
    weight = sum(unit.weight for unit in question_units)
    taken_up = sum(unit.weight for unit in question_units if _meets(unit, answer))
    return Overlap(
        asked=len(question_units),
        said=len(answer_units),
        with_question=sum(_meets(unit, question) for unit in answer_units),
        with_context=sum(_meets(unit, context_terms) for unit in answer_units),
        covered=taken_up / weight if weight else 0.0,
    )


@lru_cache(maxsize=64)
def without_copies(question: str, answer: str) -> str:
    """Return an answer without the sentences that it copies from the question; short ones stay.

    An answer of nothing but copies is returned whole.
    """
    question_parts = [squeezed(part) for part in sentences(normal(question))]
    question_parts = [part for part in question_parts if width(part) >= COPY_WIDTH]
    if not question_parts:
        return answer
    answer_parts = [
        part for part in sentences(answer) if not _is_copy(squeezed(normal(part)), question_parts)
    ]
    return "\n".join(answer_parts) or answer


def _is_copy(said: str, asked: list[str]) -> bool:
    return any(
        (part in said and len(said) <= len(part) + COPY_FRAME)
        or similarity(part, said) >= COPY_NEAR
        for part in asked
    )


@lru_cache(maxsize=64)
def known_terms(text: str) -> frozenset[str]:
    """Return the terms of a text and the beginnings of its longer English words."""
    terms = vocabulary(text)
    return terms | {beginning(term) for term in terms}


def beginning(term: str) -> str:
    """Return the beginning of a long English word, which related words share, with `…` at its end.

    Other terms are returned whole.
    """
    return f"{term[:_BEGINNING]}…" if term.isascii() and len(term) >= _BEGINNING else term


def _meets(unit: Unit, known: frozenset[str]) -> bool:
    whole = unit.whole
    return whole in known or beginning(whole) in known or not known.isdisjoint(unit.parts)


JAPANESE = re.compile(r"[\u3041-\u30ff\u4e00-\u9fff]")
FENCED = re.compile(r"^[ ]{0,3}```.*?(?:^[ ]{0,3}```|\Z)", re.MULTILINE | re.DOTALL)
_SENTENCE_ENDS = re.compile(r"(?<=[.!?])\s+|(?<=[。！？!?])(?![.。…！？!?])|\n+")
_TERMINAL = re.compile(
    r"(?:[.!?。！？…;；～〜♪☆★)）\]】」』”\"'’`>|}*_~#=$\-―—0-9０-９%％°℃/]|(?:です|ます|ました|ません|でした|ください|でしょう)|[^\w\s,、，（(「『\[{+&:：])\Z"
)
_LOOSE_END = re.compile(r"(?:\A|\s)(?:#|@|https?:)\S*\Z")
ITEM = re.compile(
    r"[ \t]*(?:[-*+•・◦▪■●○◆]|[0-9]{1,3}[.)）、:]|[(（]?[0-9a-z①-⑳][)）.]|#{1,6}|\||>)\s*"
)
_UNFINISHED = re.compile(r"\A(?:#{1,6}\s.*|#{2,6}|[-*+•・]|[0-9]{1,3}[.)])\Z|[：:,、，]\Z")
_FORMULAS = (("\\[", "\\]"), ("\\(", "\\)"))
_DANGLING = patterns("vocabulary")["dangling"]
_STOPS = (".", "!", "?", "。", "！", "？", "…", "」", '"', ")", "）")
_TAIL = 200

COPY_WIDTH = 12  # width of the shortest sentence of the question that can be copied
COPY_FRAME = 8  # letters that a copied sentence may have in addition, such as `You asked`
COPY_NEAR = 0.9  # likeness from which a sentence is a copy
SHORT_WORDS = 12  # words up to which an answer is short
WORD_CHARS = 2.5  # Japanese characters that count as one word

# Width from which an answer without a stop at its end is cut off. Source: of MT-Bench-101's answers
# 1.5 % have none, and most of those are lists.
SHORTEST_WIDTH = 50
DANGLING_WIDTH = 30  # this width if the last word needs another one, such as `the`
FIRST_WIDTH = 80  # this width for a first answer: its speaker may never use stops
LINE_WIDTH = 16  # width from which a line shows whether its kind ends with stops
LINES_ENDED = 0.7  # share of lines of its kind that must end for the last one to be cut off


def sentences(text: str) -> list[str]:
    """Return the sentences and lines of a text, without empty ones."""
    return [part for part in _SENTENCE_ENDS.split(text) if part.strip()]


def width(text: str) -> int:
    """Return the number of characters of a text; a Japanese character counts as two."""
    return len(text) + len(JAPANESE.findall(text))


def is_short(text: str) -> bool:
    """Return whether a text has at most `SHORT_WORDS` words, in Japanese about 30 characters."""
    japanese = len(JAPANESE.findall(text))
    return len(JAPANESE.sub("", text).split()) + japanese / WORD_CHARS <= SHORT_WORDS


def is_casual(exchange: Exchange) -> bool:
    """Return whether the assistant seems to use no capitals or no full stops.

    That is so if most sentences of the judged answer begin with a small letter, or if an earlier
    long answer does not end with a stop.
    """
    starts = [part.lstrip() for part in sentences(FENCED.sub("\n", exchange.answer))]
    small = sum(part[:1].islower() for part in starts)
    earlier = [answer for _, answer in exchange.earlier if width(answer) >= LINE_WIDTH]
    return small * 2 > len(starts) or not all(_ends(answer.rstrip()) for answer in earlier)


def _ends(line: str) -> bool:
    tail = line[-_TAIL:]
    return _TERMINAL.search(tail) is not None or _LOOSE_END.search(tail) is not None


def stops_short(answer: str, *, enough: int = SHORTEST_WIDTH) -> bool:
    """Return whether an answer breaks off before the end of its last sentence.

    It does if its last line is a bare heading or list sign, ends in a colon or comma, or leaves
    bold text open, or if a formula is not closed. Otherwise most other lines of the same kind must
    end with stops, while the last line ends in a word such as `the`, or lacks a stop in an answer
    at least `enough` wide. An answer narrower than `DANGLING_WIDTH` never breaks off.
    """
    lines = [line.strip() for line in FENCED.sub("\n```\n", answer).splitlines() if line.strip()]
    if not lines or width(answer) < DANGLING_WIDTH:
        return False
    last = lines[-1]
    if _is_open(last, answer):
        return True
    dangles = _DANGLING.search(last[-_TAIL:].lower()) is not None
    if not dangles and (_ends(last) or width(answer) < enough):
        return False
    return _others_end(last, lines[:-1], otherwise=dangles or len(sentences(last)) > 1)


def _is_open(last: str, answer: str) -> bool:
    formula = any(answer.count(opens) > answer.count(closes) for opens, closes in _FORMULAS)
    return bool(formula or last.count("**") % 2 or _UNFINISHED.search(last))


def _others_end(last: str, before: list[str], *, otherwise: bool) -> bool:
    """Return whether most lines before the last one that are of its kind end with stops.

    The kinds are list items and other lines; short lines do not count. If no line counts, the
    result is true if `otherwise` is, or if the last line is long and not a list item.
    """
    item = ITEM.match(last) is not None
    alike = [line for line in before if (ITEM.match(line) is not None) == item]
    alike = [line for line in alike if width(line) >= LINE_WIDTH and not line.endswith((":", "："))]
    if alike:
        ended = sum(line.endswith(_STOPS) if item else _ends(line) for line in alike)
        return ended / len(alike) >= LINES_ENDED
    return otherwise or (not item and width(last) >= SHORTEST_WIDTH)


def squeezed(text: str) -> str:
    """Return only the letters and digits of a text that `normal` returned."""
    return "".join(re.findall(r"[^\W_]+", text))


def similarity(one: str, other: str) -> float:
    """Return how alike two `squeezed` texts are, from 0 to 1: the share of common runs.

    A run has four characters, in Japanese two. If both texts are shorter, the result is 1 for equal
    ones and else 0.
    """
    size = 2 if JAPANESE.search(one) else 4
    first, second = _stretches(one, size), _stretches(other, size)
    total = first.total() + second.total()
    if not total:
        return float(one == other)
    common = first.keys() & second.keys()
    return 2 * sum([min(first[run], second[run]) for run in common]) / total


@lru_cache(maxsize=64)
def _stretches(text: str, size: int) -> Counter[str]:
    return Counter([text[start : start + size] for start in range(len(text) - size + 1)])
