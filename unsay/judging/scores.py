"""Reader of a judge's reply: one object with a score, or else prose that states one score.

A text is read as it stands, before anything rewrites it: bare, in a fence, after one leading thought,
or around one object. A score that cannot be read for certain is `None` (unscored), because a wrong
guess could roll back a conversation.
"""

import ast
import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from numbers import Number
from typing import Any
from unicodedata import normalize

from langchain_core.messages import BaseMessage

from unsay.judging.vocabulary import patterns
from unsay.messages.content import broke_off, text_of

Scale = tuple[float, float]
"""The worst and the best number of a judge."""

UNIT: Scale = (0.0, 1.0)
MAXIMUM_REASON_LENGTH = 500  # characters of a reason that are kept
LONGEST_PROSE = 16_000  # characters of a reply that are read as prose, or in Python's form

_MAXIMUM_BRACES = 400  # braces that are tried as an object; this bounds the time
_BREAKS_OFF = "the reply breaks off"
_ADVICE = "a judge with another scale needs the setting judge_scale"
_TOPS = {"%": 100.0, "percent": 100.0, "パーセント": 100.0, "割": 10.0}  # the best number by unit

_TEXTS = ("reason", "advice", "query", "intent", "topic")
_FIELDS = ("score", "consistency", "blamed", *_TEXTS)
_Fields = dict[str, list[Any]]  # what a reply states for each field

_PATTERNS = patterns("scores")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreReply:
    """The score and the other fields of a judge's reply."""

    score: float | None  # from 0 to 1; `None` if no score could be read for certain
    reason: str  # one line of at most `MAXIMUM_REASON_LENGTH` characters
    problem: str = field(default="", compare=False)  # why there is no score; empty with one
    blamed: tuple[str, ...] = ()  # ids of earlier answers that the judge blames
    consistency: float | None = None  # from 0 to 1; `None` if the reply does not say it
    consistency_problem: str = ""  # why the stated consistency cannot be used
    advice: str = ""  # for the next attempt
    query: str = ""  # another search, for an irrelevant document
    intent: str = ""  # of the question
    topic: str = ""  # id of the earlier topic to which the question returns


class _UnscoredError(Exception):
    """Why a reply has no score; it never leaves this file."""


def read_reply(reply: object, scale: Scale = UNIT, *, needed: str = "score") -> ScoreReply:
    """Return all that a judge's reply says; the score is `None` if it is not certain.

    A reply is a number, a text, a mapping, an object with `score`, a message, or an agent's
    state. Any other reply has no score. `scale` is that of its numbers. `needed` is the field that
    the object to read must have.
    """
    message = reply
    if isinstance(reply, Mapping):
        # LangChain's structured output with `include_raw` has this form.
        if "parsed" in reply and "raw" in reply:
            message = reply["raw"]
            reply = message if reply["parsed"] is None else reply["parsed"]
        elif reply.get("structured_response") is not None:
            reply = reply["structured_response"]
        elif isinstance(reply.get("messages"), list) and reply["messages"]:
            message = reply = reply["messages"][-1]
    if isinstance(reply, BaseMessage):
        reply = text_of(reply)
    if not isinstance(reply, str | Mapping):
        reply = {n: getattr(reply, n) for n in _FIELDS if hasattr(reply, n)} or {"score": reply}

    problem = _BREAKS_OFF if broke_off(message) else ""
    fields: _Fields = {}
    try:
        fields = _fields_of(reply, needed)
    except _UnscoredError as error:
        problem = problem or str(error)

    first = {name: values[0] for name, values in fields.items()}
    first.setdefault("reason", reply if isinstance(reply, str) and not fields else "")
    score, unclear_score = _agreed(fields.get("score", []), scale, str(first["reason"]))
    consistency, unclear = _agreed(fields.get("consistency", []), scale)
    blamed = first.get("blamed")
    blamed_names = blamed if isinstance(blamed, list | tuple) else [blamed]
    return ScoreReply(
        score=None if problem else score,
        problem=problem or unclear_score,
        blamed=tuple(each for each in blamed_names if isinstance(each, str)),
        consistency=consistency,
        consistency_problem=unclear if first.get("consistency") else "",
        **{name: _one_line(first.get(name)) for name in _TEXTS},
    )


def _one_line(text: object) -> str:
    return " ".join(str(text or "").split())[:MAXIMUM_REASON_LENGTH].rstrip()


def _fields_of(reply: object, needed: str) -> _Fields:
    """Return the fields of the only object with the `needed` field, or else of prose."""
    verdicts, prose = _verdicts_in(reply, needed), ""
    if isinstance(reply, str):
        verdicts, prose = _objects(_unwrapped(reply.strip()), needed)

    if len(verdicts) > 1:
        raise _UnscoredError("two objects have a score")
    if _PATTERNS["broken"].search(prose):
        raise _UnscoredError(_BREAKS_OFF)
    if verdicts and len(verdicts[0]) == 1 and re.search(r"\w", prose):
        raise _UnscoredError("an object with nothing but a score, in prose, may be a quotation")
    return verdicts[0] if verdicts else _fields_of_prose(prose)


def _unwrapped(text: str) -> str:
    """Return a text without a leading thought and without the fence around all of it."""
    if thought := _PATTERNS["thought"].match(text):
        text = text[thought.end() :].strip()
        # Where an object is still open, its words quote the end of a thought.
        if not text or re.search(r"\{\s*[\"'][^{}]*\Z", thought[2]):
            raise _UnscoredError(_BREAKS_OFF)
    fenced = _PATTERNS["fenced"].fullmatch(text)
    return fenced[2].strip() if fenced else text


def _distinct(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    """Return an object's items; a key that occurs twice with different values gets `None`."""
    items = dict(pairs)
    return items | {key: None for key, value in pairs if items[key] != value}


_DECODER = json.JSONDecoder(object_pairs_hook=_distinct, strict=False)


def _object_at(text: str, start: int) -> tuple[Any, int]:
    """Return the object that begins at a brace, and its end; the first may be in Python's form."""
    with suppress(ValueError, RecursionError):
        return _DECODER.raw_decode(text, start)
    end = text.rfind("}") + 1
    with suppress(ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        if start == text.find("{") and end - start <= LONGEST_PROSE:
            return ast.literal_eval(text[start:end]), end
    return None, start + 1


def _objects(text: str, needed: str) -> tuple[list[_Fields], str]:
    """Return the objects in a text that have the `needed` field, and the text without any object.

    In the text each of the returned objects leaves a zero character.
    """
    objects: list[_Fields] = []
    prose = ""
    end = 0
    for _ in range(_MAXIMUM_BRACES):
        start = text.find("{", end)
        if start < 0:
            return objects, prose + text[end:]
        prose += text[end:start]
        value, end = _object_at(text, start)
        verdicts = [] if _PATTERNS["quoting"].search(prose[-200:]) else _verdicts_in(value, needed)
        objects += verdicts
        prose += "\0" if verdicts else " " if isinstance(value, Mapping) else text[start:end]
    raise _UnscoredError("the reply has too many braces")


def _named(pairs: Iterable[tuple[Any, Any]]) -> _Fields:
    """Return the values in an object's items by the names of the table."""
    fields: _Fields = {}
    for key, value in pairs:
        match = _PATTERNS["any_field"].fullmatch(str(key).strip())
        if match is not None and not isinstance(value, Mapping):
            fields.setdefault(str(match.lastgroup), []).append(value)
    return fields


def _verdicts_in(structure: object, needed: str, levels: int = 8) -> list[_Fields]:
    """Return the objects with the `needed` field that no other such object holds."""
    if isinstance(structure, Mapping):
        fields = _named(structure.items())
        if needed in fields:
            return [fields]
        structure = list(structure.values())
    inner = structure if isinstance(structure, list) and levels else []
    return [fields for each in inner for fields in _verdicts_in(each, needed, levels - 1)]


def _fields_of_prose(text: str) -> _Fields:
    """Return the fields that lines state, or the score that a sentence is, if all numbers agree."""
    plain = re.sub(r"[*_#|【】■]", " ", normalize("NFKC", text[:LONGEST_PROSE])).strip()
    if (
        len(text) <= LONGEST_PROSE
        and _PATTERNS["alone"].fullmatch(plain)
        and not _PATTERNS["unsure"].search(plain)
    ):
        return {"score": [plain], "reason": [text]}
    plain = _PATTERNS["quotation"].sub(" ", plain).strip()
    if len(text) > LONGEST_PROSE or _PATTERNS["unsure"].search(plain):
        raise _UnscoredError("the score is not stated for certain")

    lines = [
        line
        for each in _PATTERNS["sentences"].split(plain)
        for line in _PATTERNS["line"].finditer(each)
    ]
    fields = _named((line["label"], line["words"]) for line in lines if line["words"])
    rest = [line["words"] for line in lines if not line["label"]]
    likely = [
        n for each in rest for n in _PATTERNS["any_value"].finditer(each) if not n[0].isdigit()
    ]
    # A labelled score wins over other numbers, of which one must be a sentence.
    if "score" not in fields and any(
        _PATTERNS["alone"].fullmatch(number.string) for number in likely
    ):
        fields["score"] = [number[0] for number in likely]
    return {"reason": [plain]} | fields


def _agreed(values: Iterable[object], scale: Scale, reason: str = "") -> tuple[float | None, str]:
    """Return the number from 0 to 1 that all values mean, or `None` and why there is none."""
    try:
        numbers = sorted({_number(value, scale, reason) for value in values})
    except _UnscoredError as error:
        return None, str(error)
    if len(numbers) == 1:
        return numbers[0], ""
    return None, f"scores that differ: {numbers}" if numbers else "no stated score"


def _number(value: object, scale: Scale, reason: str) -> float:
    """Return a number from 0 to 1; one that names its own scale, such as `4/5`, may be on another."""
    text = str(value) if isinstance(value, str | Number) else ""
    match = _PATTERNS["alone"].fullmatch(normalize("NFKC", text).strip())
    if match is None:
        raise _UnscoredError("no valid score")
    number = float(match["value"])
    low, high = own = _scale_of(match, number, scale)
    # The last form is a fraction of this number, such as `4/5`; 0 is the worst on each scale from 0.
    forms = rf"{_PATTERNS['named_scale'].pattern}|(?<![\d./])(?!0[ /]){number:g} ?(?:/|out of) ?{_PATTERNS['number'].pattern}"
    for scale_match in re.finditer(forms, reason) if own == scale else ():
        if [float(bound) for bound in scale_match.groups() if bound] not in ([low, high], [high]):
            raise _UnscoredError(f"the reason names another scale, {scale_match[0]!r}: {_ADVICE}")
    if not min(own) <= number <= max(own) or low == high:
        raise _UnscoredError(f"{number:g} is not on the scale from {low:g} to {high:g}: {_ADVICE}")
    return (number - low) / (high - low) + 0.0  # turns -0.0 into 0.0


def _scale_of(match: re.Match[str], number: float, scale: Scale) -> Scale:
    """Return the scale that a number or its unit names, or else the judge's.

    点 alone is of 10 or 100 points, unless the judge has a scale of its own.
    """
    unit = (match["unit"] or "").lower()
    top = match["most"] or match["full"] or _TOPS.get(unit)
    if unit == "点" and not top and scale == UNIT and (number > 1 or match["value"].isdigit()):
        top = 0 if number == 1 else 10 if number <= 10 else 100
    return scale if top is None or float(top) == scale[1] else (0.0, float(top))
