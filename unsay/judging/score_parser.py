"""Reader of a judge's reply: one object with a score, or else prose that states one score.

A text is read as it stands, before anything rewrites it: bare, in a fence, after one leading thought,
or around one object. A score that cannot be read for certain is `None` (unscored), because a wrong
guess could roll back a conversation.
"""

import ast
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from numbers import Real
from typing import Any
from unicodedata import normalize

from langchain_core.messages import BaseMessage

from unsay.messages.content import broke_off, text_of

Scale = tuple[float, float]
"""The worst and the best number of a judge."""

UNIT: Scale = (0.0, 1.0)
MAXIMUM_REASON_LENGTH = 500  # characters of a reason that are kept
LONGEST_PROSE = 16_000  # characters of a reply that are read as prose, or in Python's form

_MAXIMUM_BRACES = 400  # braces that are tried as an object; this bounds the time
_DEEPEST_LEVEL = 8  # levels of nested objects that are searched for a score
_BREAKS_OFF = "the reply breaks off"
_NOT_STATED = "no stated score"
_ADVICE = "a judge with another scale needs the setting judge_scale"

# The fields of a verdict, with their names as a key of an object and as the label of a line.
_FIELDS = {
    "score": "(?:(?:final|overall|total|quality|最終|総合|品質)[ _-]?)?(?:score|rating|スコア|評価|点数)|overall|総合",
    "consistency": "consistency(?:[ _-]?score)?|一貫性|整合性",
    "reason": "reason(?:ing)?|rationale|explanation|justification|comment|理由|根拠",
    "advice": "advice|助言|改善点",
    "query": "query|検索語",
    "blamed": "blamed",
    "intent": "intent",
    "topic": "topic",
}
_pattern = partial(re.compile, flags=re.IGNORECASE | re.DOTALL | re.MULTILINE)
_NAME = "|".join(f"(?P<{name}>{names})" for name, names in _FIELDS.items())
_NAMES = _pattern(_NAME)

_THOUGHT = _pattern(
    r"<(think|thinking|thought|reasoning|analysis)>(.*?)(?:</\1>|\Z)|\[THINK\](.*?)(?:\[/THINK\]|\Z)"
)
_FENCE = _pattern(r"(`{3,}|~{3,})[^\n]*\n?")
_KEY = rf"[\"'](?:{_FIELDS['score']})[\"']\s*:"
_BROKEN_OBJECT = _pattern(rf"\{{[^{{}}]{{0,999}}{_KEY}|{_KEY}[^{{}}]{{0,999}}\}}")

# A number with its scale or unit: `0.7`, `7/10`, `7 out of 10`, `70%`, `7点`, `7割`, `10点満点中7点`.
_VALUE = _pattern(
    r"(?:(?P<full>\d{1,3})(?:点満点|段階)(?:中|で)?)?(?<![A-Za-z0-9_./])(?P<value>[-+]?(?:\d+(?:\.\d+)?|\.\d+)(?:e-?\d{1,3})?)"
    r"(?:点? ?(?:/|out of) ?(?P<most>\d{1,3})(?:\.0+)?点?| ?(?P<unit>%|percent|パーセント|点|割))?(?![\d,.]*\d|/)"
)
_ALONE = _pattern(
    rf"[(\[\"'`「]*({_VALUE.pattern})[)\]\"'`」]*(?: stars?| points?)?(?:です|だ|とします|となります)?(?: ?\([^()\d]*\)|(?:,? because\b| [-–—]) [^\d?？→]*)?[.。]?"
)
_LINE = _pattern(
    rf"(?:[\W\d]|the |my |よって|この|回答の)*(?P<label>{_NAME})(?: ?\([^()\n]{{0,9}}\))?\s*(?:[:=→-]|は|is |(?=[\d.]))\s*(?P<words>.*)"
)
# What makes prose uncertain: a correction, an open end, or an introduction of what somebody else says.
_UNSURE = _pattern(
    r"(?:^|[.!。,] )\W*(?:(?:no|nope|wait|sorry)[,:.!]|(?:correct|revis|actually|on (?:second|reflection)))"
    r"|\b(?:lower|rais|reduc|chang|adjust)\w* (?:it|this|(?:the|my) (?:score|rating)) to\b"
    r"|訂正|修正し|撤回|やはり|いや、|(?:say|said|contain|wrote|ask|書|述べ|とあ)[^\n]{0,20}:\s*$"
    r"|(?:[,、(:=/+は]|(?<![\d./])[01]\.|\b(?:the|an?|of|to|and|or|but|because|with))\s*\Z"
)
# What precedes an object that the judge only quotes.
_QUOTES = _pattern(
    r"(?:say|said|contain|wrote|demand|書|述べ|とあ)[^\n.。!:]{0,20}(?::\s*| )\Z|^ {0,3}>[^\n]*\Z|[\"'`“「『]\Z"
)
_SENTENCES = _pattern(r"\n|(?<=[。！])|(?<=[.!]) +")
_QUOTATION = _pattern(
    r"```.*?(?:```|\Z)|^ {0,3}>[^\n]*|<(\w+)\b[^<>]*>.*?</\1\b[^<>]*>|\"[^\"]*\"|「[^」]*」|『[^』]*』|“[^”]*”"
    r"|`[^`\n]*`|(?<!\w)'[^'\n]*'(?!\w)"
)
_MARKUP = str.maketrans(dict.fromkeys("*_#|【】■", " "))
_N = r"(\d+(?:\.\d+)?)"
_NAMED_SCALE = _pattern(
    rf"\bscale(?: is)?(?: of| from|:)? ?\(?{_N} ?(?:-|–|to) ?{_N}|{_N} ?(?:-|–|to) ?{_N}\)?[ -](?:point )?scale"
    rf"|{_N}[ -]point scale|{_N} ?(?:から|〜|~|-|–) ?{_N}の?(?:段階|尺度)|(?<![\d.〜~–-]){_N}(?:段階|点満点)"
)


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
    problem = _BREAKS_OFF if broke_off(message) else ""
    fields: dict[str, Any] = {}
    try:
        fields = _fields_of(reply, needed)
    except _UnscoredError as error:
        problem = problem or str(error)
    reason = fields.get("reason", reply if isinstance(reply, str) and not fields else "")
    score, unclear_score = _agreed(fields.get("score", ()), scale, reason)
    consistency, unclear = _agreed([fields.get("consistency")], scale)
    blamed = fields.get("blamed")
    listed = blamed if isinstance(blamed, list | tuple) else [blamed]
    return ScoreReply(
        score=None if problem else score,
        problem=problem or unclear_score,
        reason=_one_line(reason),
        blamed=tuple(each for each in listed if isinstance(each, str)),
        consistency=consistency,
        consistency_problem=unclear if fields.get("consistency") else "",
        **{name: _one_line(fields.get(name)) for name in ("advice", "query", "intent", "topic")},
    )


def _one_line(text: object) -> str:
    return " ".join(str(text or "").split())[:MAXIMUM_REASON_LENGTH].rstrip()


def _fields_of(reply: object, needed: str) -> dict[str, Any]:
    """Return the fields that a reply has, by name; `score` has a list of values."""
    if isinstance(reply, str):
        return _fields_of_text(reply.strip(), needed)
    if isinstance(reply, Mapping):
        return _sole(_verdicts_in(reply, needed)) or _named(reply)
    if hasattr(reply, "score"):
        return _named({name: getattr(reply, name) for name in _FIELDS if hasattr(reply, name)})
    return {"score": [reply]}


def _fields_of_text(text: str, needed: str) -> dict[str, Any]:
    if (whole := _whole(text)) is None and (thought := _THOUGHT.match(text)):
        text = text[thought.end() :].strip()
        # Where an object is still open, its words quote the end of a thought.
        if not text or _is_open(thought[2] or thought[3] or ""):
            raise _UnscoredError(_BREAKS_OFF)
        whole = _whole(text)
    if whole is not None:
        return _sole(_verdicts_in(whole, needed)) or _named(whole)
    verdicts, prose = _objects(text, needed)
    if _BROKEN_OBJECT.search(prose):
        raise _UnscoredError(_BREAKS_OFF)
    fields = _sole(verdicts)
    if len(fields) == 1 and re.search(r"\w", _FENCE.sub("", prose)):
        raise _UnscoredError("an object with nothing but a score, in prose, may be a quotation")
    return fields or (_fields_of_prose(prose) if needed == "score" else {})


def _whole(text: str) -> Mapping[str, Any] | None:
    """Return a text, bare or in a fence, as an object; `None` if it is not exactly one."""
    text = _unfenced(text)
    parsed, end = _object_at(text, 0, is_first=True) if text.startswith("{") else (None, 0)
    return parsed if end == len(text) else None


def _unfenced(text: str) -> str:
    begin = _FENCE.match(text)
    return text if begin is None else text[begin.end() :].removesuffix(begin[1]).strip()


def _distinct(pairs: Iterable[tuple[Any, Any]]) -> dict[Any, Any]:
    """Return an object's items; a key that occurs twice with different values gets `None`."""
    items: dict[Any, Any] = {}
    for key, value in pairs:
        items[key] = None if key in items and items[key] != value else value
    return items


_DECODER = json.JSONDecoder(object_pairs_hook=_distinct, strict=False)


def _object_at(text: str, start: int, *, is_first: bool) -> tuple[Mapping[str, Any] | None, int]:
    """Return the object that begins at a brace, and its end; the first may be in Python's form."""
    try:
        return _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):
        end = text.rfind("}") + 1
    try:
        if is_first and end - start <= LONGEST_PROSE:
            node: Any = ast.parse(text[start:end], mode="eval").body
            pairs = zip(node.keys, node.values, strict=True)
            return _distinct((ast.literal_eval(k), ast.literal_eval(v)) for k, v in pairs), end
    except (ValueError, SyntaxError, TypeError, AttributeError, RecursionError, MemoryError):
        pass
    return None, start


def _objects(text: str, needed: str) -> tuple[list[dict[str, Any]], str]:
    """Return the objects in a text that have the `needed` field, and the text without any object."""
    found: list[dict[str, Any]] = []
    prose: list[str] = []
    position = 0
    start = first = text.find("{")
    for _ in range(_MAXIMUM_BRACES):
        if start < 0:
            return found, " ".join([*prose, text[position:]])
        parsed, end = _object_at(text, start, is_first=start == first)
        if parsed is not None:
            before = text[position:start]
            is_quoted = _QUOTES.search(_FENCE.sub("", before)[-200:])
            verdicts = [] if is_quoted else _verdicts_in(parsed, needed)
            if verdicts and _is_open(before.rpartition("\n")[2]):
                raise _UnscoredError(_BREAKS_OFF)
            found, prose, position = found + verdicts, [*prose, before], end
        start = text.find("{", max(end, start + 1))
    raise _UnscoredError("the reply has too many braces")


def _is_open(text: str) -> bool:
    """Return whether a text ends within an object: behind a brace and a quotation mark."""
    return re.match(r"\{\s*[\"'][^}]*\Z", text[text.rfind("{") :]) is not None


def _named(structure: Mapping[Any, Any]) -> dict[str, Any]:
    """Return the fields of one object by their names in the table; `score` has a list of values."""
    fields: dict[str, Any] = {}
    for key, value in structure.items():
        match = _NAMES.fullmatch(str(key).strip())
        if match is not None and match["score"] is None:
            fields.setdefault(str(match.lastgroup), value)
        elif match is not None and not isinstance(value, Mapping | list):
            fields.setdefault("score", []).append(value)
    return fields


def _verdicts_in(structure: object, needed: str) -> list[dict[str, Any]]:
    """Return the objects with the `needed` field, of the outermost level that has one."""
    level = [structure]
    for _ in range(_DEEPEST_LEVEL):
        mappings = [value for value in level if isinstance(value, Mapping)]
        found = [fields for each in mappings if needed in (fields := _named(each))]
        if found:
            return found
        lists = [value for value in level if isinstance(value, list)]
        lists += [list(mapping.values()) for mapping in mappings]
        level = [inner for each in lists for inner in each]
    return []


def _sole(verdicts: list[dict[str, Any]]) -> dict[str, Any]:
    if len(verdicts) > 1:
        raise _UnscoredError("two objects have a score")
    return verdicts[0] if verdicts else {}


def _fields_of_prose(text: str) -> dict[str, Any]:
    """Return the fields that lines state; any other number that may be a score must agree."""
    inside = _unfenced(text)
    if len(text) > LONGEST_PROSE:
        raise _UnscoredError(_NOT_STATED)
    if _ALONE.fullmatch(whole := _plain(inside)) and not _UNSURE.search(whole):
        return {"score": [whole], "reason": inside}
    text = _plain(_QUOTATION.sub(" ", text if "```" in inside else inside))
    if _UNSURE.search(text):
        raise _UnscoredError("the score is not stated for certain")
    fields: dict[str, Any] = {"reason": text, "score": []}
    bare: list[str] = []
    numbers: list[str] = []
    for sentence in map(str.strip, _SENTENCES.split(text)):
        line = _LINE.fullmatch(sentence)
        if line is not None and line["score"] is None:
            fields |= _named({line["label"]: line["words"]})
            continue
        likely = [match[0].strip() for match in _VALUE.finditer(sentence) if _is_likely(match)]
        alone = _ALONE.fullmatch(line["words"] if line else sentence)
        if line is not None and alone is not None:
            fields["score"].append(alone[1])
        elif line is not None and line["words"]:
            raise _UnscoredError("the score is not stated plainly")
        elif alone is not None and likely:
            bare.append(alone[1])
        numbers += likely
    # A labelled score wins over other numbers.
    if bare and not fields["score"]:
        fields["score"] = [*bare, *numbers]
    return fields


def _plain(text: str) -> str:
    return normalize("NFKC", text).translate(_MARKUP).strip()


def _is_likely(match: re.Match[str]) -> bool:
    """Return whether a number in prose may be a score: it has a fraction, a scale or a unit."""
    return "." in match["value"] or any(match[name] for name in ("full", "most", "unit"))


def _agreed(
    values: Iterable[object], scale: Scale, reason: object = ""
) -> tuple[float | None, str]:
    """Return the number from 0 to 1 that all values mean, or `None` and why there is none."""
    try:
        numbers = sorted({_number(value, scale, str(reason)) for value in values})
    except _UnscoredError as error:
        return None, str(error)
    if len(numbers) == 1:
        return numbers[0], ""
    listed = ", ".join(f"{number:g}" for number in numbers)
    return None, f"scores that differ: {listed}" if numbers else _NOT_STATED


def _number(value: object, scale: Scale, reason: str) -> float:
    """Return a number from 0 to 1; one that names its own scale, such as `4/5`, may be on another."""
    low, high = scale
    match = _ALONE.fullmatch(normalize("NFKC", value).strip()) if isinstance(value, str) else None
    own = None if match is None else _own_scale(match, scale)
    if match is None and (not isinstance(value, Real | Decimal) or isinstance(value, bool)):
        raise _UnscoredError("no valid score")
    try:
        number = float(match["value"] if match else value)  # type: ignore[arg-type]
    except (ValueError, ArithmeticError):  # too large, or a signalling NaN
        raise _UnscoredError("no valid score") from None
    for named in _NAMED_SCALE.finditer(reason) if own is None else ():
        bounds = [float(bound) for bound in named.groups() if bound is not None]
        if bounds not in ([low, high], [high]):
            raise _UnscoredError(f"the reason names another scale, {named[0]!r}: {_ADVICE}")
    fraction = re.compile(rf"(?<![\d./]){number:g} ?(?:/|out of) ?(?!{high:g}(?:\.0)?\b)\d")
    if own is None and number and fraction.search(reason):
        raise _UnscoredError(f"the reason names another scale: {_ADVICE}")
    low, high = scale if own in (None, high) else (0.0, own)
    if not min(low, high) <= number <= max(low, high) or low == high:
        raise _UnscoredError(f"{number:g} is not on the scale from {low:g} to {high:g}: {_ADVICE}")
    return (number - low) / (high - low) + 0.0  # turns -0.0 into 0.0


def _own_scale(match: re.Match[str], scale: Scale) -> float | None:
    """Return the best score of the scale that a number names, or of its unit; `None` without one.

    点 without a scale is of 10 or 100 points, unless the judge has a scale of its own.
    """
    unit, top = (match["unit"] or "").lower(), match["most"] or match["full"]
    if top or unit != "点":
        return float(top) if top else {"": None, "割": 10.0}.get(unit, 100.0)
    number = float(match["value"])
    if scale != UNIT or ("." in match["value"] and number <= 1):
        return None
    return 0.0 if number == 1 else 10.0 if number <= 10 else 100.0
