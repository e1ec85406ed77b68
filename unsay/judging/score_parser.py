"""Parser of the score in a judge's reply: a number, prose, JSON or an object.

A reply counts if it has one structured score or states one score in prose. A score that cannot be
read for certain is `None` (unscored), because a wrong guess could roll back a conversation.
"""

import ast
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from numbers import Real
from typing import Any

from unsay.judging.score_text import (
    LABEL_ONLY,
    OBJECT,
    Reading,
    Statements,
    in_words,
    is_quoted,
    is_value,
    read_prose,
    score_of_value,
)
from unsay.messages.content import broke_off

MAXIMUM_REASON_LENGTH = 500  # characters of a reason that are kept
LONGEST_READ = 16_000  # characters of a reply that are read, half from either end

_MAXIMUM_OBJECTS = 64  # braces that are tried as JSON; this bounds the time
_DEEPEST_LEVEL = 8  # levels of nested objects that are searched for a score
_REASON_KEYS = ("reason", "rationale", "explanation", "justification", "comment", "理由", "根拠")
_EXACT_KEYS = ("score", "スコア", "rating", "評価", "点数")
_TOTAL_KEYS = ("overall", "final", "total", "quality", "総合", "最終", "品質", "合計")
# Full-width characters, which Japanese input methods produce, and their ASCII forms.
_WIDE = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)} | {
    0x3000: 0x20,
    0x2212: 0x2D,
    0x2044: 0x2F,
}
_MARKUP = str.maketrans(dict.fromkeys("*`#|【】■□●◆▼", " "))

_THOUGHT = re.compile(r"<(/?)(?:think|thinking|thought|reasoning)>", re.IGNORECASE)
_FENCE = re.compile(r"```[a-z]*\s?", re.IGNORECASE)
# The tags in which the conversation is sent to a judge.
_DATA = re.compile(
    r"<(answer|question|earlier|conversation|document|summary|tools|topics)\b[^>\n]{0,80}>.*?</\1\b[^>\n]{0,80}>",
    re.IGNORECASE | re.DOTALL,
)
_QUOTED_LINE = re.compile(r"^[ ]{0,3}>.*$", re.MULTILINE)
_LEAD = r"(?P<lead>[:=は]\s{0,3})?"
_BRACKETED = re.compile(rf"{_LEAD}[「『“](?P<body>[^「」『』“”]*)[」』”]")
_STRAIGHT = re.compile(rf"{_LEAD}\"(?P<body>[^\"]*)\"")
_SINGLE = re.compile(rf"{_LEAD}(?<![\w])'(?P<body>[^'\n]*)'(?!\w)")
_CODE = re.compile(rf"{_LEAD}(?<!`)`(?P<body>[^`\n]*)`(?!`)")
_BEGUN_OBJECT = re.compile(r"\{\s*[\"'“]?[^{}\n]{0,20}[^{}]*\Z")
_BLOCK = "\ufffb"  # replaces a code block in the prose
_QUOTE_MARKS = "\"'“”「」『』`"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreReply:
    """The score and the reason in a judge's reply."""

    score: float | None  # from 0 to 1; `None` if no score could be read for certain
    reason: str  # one line of at most `MAXIMUM_REASON_LENGTH` characters
    problem: str = field(default="", compare=False)  # why there is no score; empty with one
    blamed: tuple[str, ...] = ()  # ids of earlier answers that the judge blames
    consistency: float | None = None  # from 0 to 1; `None` if the reply does not say it
    advice: str = ""  # for the next attempt
    query: str = ""  # another search, for an irrelevant document
    intent: str = ""  # of the question
    topic: str = ""  # id of the earlier topic to which the question returns


def read_reply(reply: object) -> ScoreReply:
    """Return all that a judge's reply says; the score is `None` if it is not certain.

    A reply is a number, a text, a mapping, an object with `score`, a message, or an agent's
    state. Any other reply has no score.
    """
    reason: object = ""
    structure: object = reply
    if isinstance(reply, str):
        text = _unfenced(_without_thoughts(reply).strip())
        structure = whole = _whole(text)
        reading, reason = read_text(reply), _reason_of(whole) if whole is not None else text
    elif isinstance(reply, Mapping):
        # LangChain's structured output with `include_raw` has this form.
        if "parsed" in reply and "raw" in reply:
            return _read_structured(reply["raw"], reply["parsed"])
        if reply.get("structured_response") is not None:
            return read_reply(reply["structured_response"])
        if isinstance(reply.get("messages"), list) and reply["messages"]:
            return read_reply(reply["messages"][-1])
        reading, reason = _read_structure(reply), _reason_of(reply)
    elif hasattr(reply, "score"):
        reading, reason = _read_number(reply.score), getattr(reply, "reason", "")
    elif hasattr(reply, "content"):
        read = read_reply(_text_of(reply.content))
        return _broken_off(read.reason) if broke_off(reply) else read
    else:
        reading = _read_number(reply)
    return ScoreReply(
        score=reading.score,
        reason=_one_line(reason),
        problem=reading.problem,
        blamed=_blamed_in(structure),
        consistency=_read_number(_value_of(structure, "consistency")).score,
        advice=_one_line(_value_of(structure, "advice")),
        query=_one_line(_value_of(structure, "query")),
        intent=_one_line(_value_of(structure, "intent")),
        topic=_one_line(_value_of(structure, "topic")),
    )


def _one_line(text: object) -> str:
    return " ".join(str(text or "").split())[:MAXIMUM_REASON_LENGTH].rstrip()


def _value_of(structure: object, name: str) -> object:
    if isinstance(structure, Mapping):
        return structure.get(name)
    return getattr(structure, name, None)


def _read_structured(raw: object, parsed: object) -> ScoreReply:
    read = read_reply(raw if parsed is None else parsed)
    return _broken_off(read.reason) if broke_off(raw) else read


def _broken_off(reason: str) -> ScoreReply:
    return ScoreReply(score=None, reason=reason, problem="the reply breaks off")


def parse_score(reply: str) -> float | None:
    """Return the score in a judge's text, from 0 to 1; `None` if it is not certain."""
    return read_text(reply).score


def read_text(reply: str) -> Reading:
    """Return the score in a judge's text, or why there is none.

    Thoughts and quotations are not read, and code only if it is JSON with a score. All scores that
    the text states must agree.
    """
    text = _unfenced(_without_thoughts(reply.translate(_WIDE)).strip())
    whole = _whole(text)
    if whole is not None:
        return _read_structure(whole)
    if len(text) > LONGEST_READ:
        text = f"{text[: LONGEST_READ // 2]}\n{text[-LONGEST_READ // 2 :]}"
    text = in_words(text)
    plain = text.translate(_MARKUP).strip()
    if re.fullmatch(r"\W*0\.", plain):
        return Reading(score=None, problem="the reply breaks off")
    if is_value(plain):
        score = score_of_value(plain)
        return Reading(score=score, problem="" if score is not None else "no valid score")
    return _read_parts(text).reading()


def _read_parts(text: str) -> Statements:
    """Return the scores that a text states in JSON and in prose."""
    text = _DATA.sub(" ", _QUOTED_LINE.sub(" ", text))
    text = _blank_quotes(_CODE, _blank_quotes(_BRACKETED, text))
    prose: list[str] = []
    fenced: list[Reading] = []
    bare: list[Reading] = []
    for number, part in enumerate(_FENCE.split(text)):
        if number % 2 == 0:
            outside, inside = _objects(part)
            prose.append(outside)
            bare += inside
            continue
        block = _whole(part.strip())
        before = prose[-1].strip().rsplit("\n", 1)[-1]
        announced = before.endswith(":") and is_quoted(before, "")
        if block is not None and _names_score(block) and not announced:
            fenced.append(_read_structure(block))
        prose.append(f"\n{_BLOCK}\n")
    words = _blank_quotes(_SINGLE, _blank_quotes(_STRAIGHT, "".join(prose)))
    found = read_prose(words.translate(_MARKUP))
    if _BEGUN_OBJECT.search(words):
        found.problem = "the reply breaks off"
    # A reply that begins with the verdict, as it was asked for, only quotes in later code blocks.
    begins = read_prose(words.translate(_MARKUP).strip().split("\n", 1)[0])
    leads = words.lstrip().startswith(OBJECT) or (begins.own and not begins.problem)
    for reading in bare if leads else bare + fenced:
        _add(found, reading)
    return found


def _add(found: Statements, reading: Reading) -> None:
    if reading.score is None and not found.problem:
        found.problem = reading.problem
    found.own.append(reading.score)


def _text_of(content: object) -> str:
    if isinstance(content, str):
        return content
    texts = (
        block.get("text")
        if isinstance(block, Mapping) and block.get("type", "text") in ("text", "output_text")
        else block
        for block in (content if isinstance(content, list | tuple) else ())
    )
    return "\n".join(text for text in texts if isinstance(text, str) and text)


def _reason_of(structure: object) -> object:
    items = (item for level in _levels(structure) for item in level.items())
    named = (value for key, value in items if str(key).strip().lower() in _REASON_KEYS)
    return next((value for value in named if isinstance(value, str)), "")


def _blamed_in(structure: object) -> tuple[str, ...]:
    blamed = _value_of(structure, "blamed")
    listed = blamed if isinstance(blamed, list | tuple) else [blamed]
    return tuple(each for each in listed if isinstance(each, str))


def _read_number(value: object) -> Reading:
    score = None
    if isinstance(value, str):
        score = score_of_value(value.translate(_WIDE))
    elif isinstance(value, Real | Decimal) and not isinstance(value, bool):
        with suppress(ValueError, ArithmeticError):  # too large, or a signalling NaN
            number = float(value)
            score = number + 0.0 if 0 <= number <= 1 else None  # turns -0.0 into 0.0
    return Reading(score=score, problem="no valid score" if score is None else "")


def _without_thoughts(text: str) -> str:
    # Some servers send the closing tag only: all before it is the thought.
    kept: list[str] = []
    depth = position = 0
    for tag in _THOUGHT.finditer(text):
        if depth == 0:
            kept.append(text[position : tag.start()])
        if tag[1] and depth == 0:
            kept.clear()
        depth = max(0, depth + (-1 if tag[1] else 1))
        position = tag.end()
    if depth == 0:
        kept.append(text[position:])
    return "\n".join(kept)


def _unfenced(text: str) -> str:
    before, *inside = _FENCE.split(text)
    if not before and len(inside) in (1, 2) and not "".join(inside[1:]):
        text = inside[0].strip()
    return text[1:-1].strip() if re.fullmatch(r"`[^`]+`", text) else text


def _distinct(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return an object's items; a key that occurs twice with different values gets `None`."""
    items: dict[str, object] = {}
    for key, value in pairs:
        items[key] = None if key in items and items[key] != value else value
    return items


_DECODER = json.JSONDecoder(object_pairs_hook=_distinct, strict=False)


def _whole(text: str) -> Any | None:
    """Return a text as an object or a list of objects, if it is one in JSON or in Python's form.

    `None` for every other text.
    """
    if not (text.startswith("{") and text.endswith("}")) and not (
        text.startswith("[{") and text.endswith("}]")
    ):
        return None
    try:
        parsed, end = _DECODER.raw_decode(text)
    except (ValueError, RecursionError):
        return _literal(text)
    return parsed if end == len(text) else None


def _literal(text: str) -> Any | None:
    if len(text) > LONGEST_READ:
        return None
    try:
        parsed = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return None
    return parsed if isinstance(parsed, dict | list) else None


def _levels(structure: object) -> Iterator[Mapping[object, object]]:
    """Yield the mappings nested in a structure, the outermost first."""
    for level in _by_level(structure):
        yield from level


def _by_level(structure: object) -> Iterator[list[Mapping[object, object]]]:
    level = [structure]
    for _ in range(_DEEPEST_LEVEL):
        inner = [item for value in level if isinstance(value, list) for item in value]
        mappings = [value for value in [*level, *inner] if isinstance(value, Mapping)]
        yield mappings
        level = [value for mapping in mappings for value in mapping.values()]


def _names_score(structure: object) -> bool:
    return any(_key_rank(key) is not None for level in _levels(structure) for key in level)


def _key_rank(key: object) -> int | None:
    """Return what a key names: 0 the score, 1 a total score, 2 another score, as of a criterion.

    A total by one word, such as `overall`, is 0 as well. `None` for other keys.
    """
    name = str(key).strip().lower()
    if name in _EXACT_KEYS or name in _TOTAL_KEYS:
        return 0
    if not any(word in name for word in _EXACT_KEYS):
        return None
    return 1 if any(word in name for word in _TOTAL_KEYS) else 2


def _read_structure(structure: object) -> Reading:
    """Return the score of an object: its total, or its only score.

    The outermost level that names a score decides. Scores of criteria alone, or totals that differ,
    are a problem.
    """
    for level in _by_level(structure):
        totals: list[object] = []
        criteria = 0
        for mapping in level:
            ranked = {key: _key_rank(key) for key in mapping}
            values = {k: v for k, v in mapping.items() if not isinstance(v, Mapping | list)}
            totals += [value for key, value in values.items() if ranked[key] in (0, 1)]
            criteria += sum(ranked[key] == 2 for key in values)
        if totals:
            return _agreed([_read_number(value).score for value in totals])
        if criteria:
            return Reading(score=None, problem="scores of criteria without a total")
    return Reading(score=None, problem="no score")


def _agreed(scores: list[float | None]) -> Reading:
    found = Statements(own=scores)
    return found.reading()


def _objects(text: str) -> tuple[str, list[Reading]]:
    """Return the text with each JSON object replaced by `OBJECT`, and the scores of the objects."""
    prose: list[str] = []
    found: list[Reading] = []
    position, tried = 0, 0
    start = text.find("{")
    while start >= 0 and tried < _MAXIMUM_OBJECTS:
        tried += 1
        parsed, end = _object_at(text, start)
        if parsed is None:
            start = text.find("{", start + 1)
            continue
        before, after = text[position:start], text[end:]
        sentence = re.split(r"[\n。.!?]\s?", before.rstrip())[-1]
        marked = before[-1:] in _QUOTE_MARKS and after[:1] in _QUOTE_MARKS and before and after
        if not marked and _names_score(parsed):
            quoted = is_quoted(sentence, after.split("\n", 1)[0])
            unsure = Reading(score=None, problem="the score is quoted or denied")
            found.append(unsure if quoted else _read_structure(parsed))
        prose += [before, f" {OBJECT}\n"]
        position, start = end, text.find("{", end)
    return "".join([*prose, text[position:]]), found


def _object_at(text: str, start: int) -> tuple[Any | None, int]:
    try:
        return _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):
        end = text.find("}", start) + 1
        return (_literal(text[start:end]), end) if end else (None, start)


def _blank_quotes(pattern: re.Pattern[str], text: str) -> str:
    """Return the text with quotations blanked out.

    One that is only the label of a score stays, and one that is only a score after `:`, `=` or は.
    """

    def blank(match: re.Match[str]) -> str:
        body = match["body"]
        if (match["lead"] and is_value(body)) or LABEL_ONLY.fullmatch(body):
            return f"{match['lead'] or ''} {body} "
        return " "

    return pattern.sub(blank, text)
