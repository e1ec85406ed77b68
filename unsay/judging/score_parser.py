"""Parser of the score in a judge's reply: a number, prose, JSON or an object.

A score that cannot be read for certain is `None` (unscored), because a wrong guess could roll back a
conversation. Every pattern is bounded, so that parsing is linear in the reply's length.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

MAXIMUM_REASON_LENGTH = 500  # characters of a reason that are kept

SCALES = (1.0, 5.0, 10.0, 100.0)  # allowed scales of a score; any other may be part of a date

_MAXIMUM_BROKEN_OBJECTS = 64  # failed braces that end the search for JSON; this bounds the time
_DEEPEST_LEVEL = 8  # levels of nested objects that are searched for a score
_REASON_KEYS = ("reason", "rationale", "explanation", "justification", "comment", "理由", "根拠")
_EXACT_KEYS = ("score", "スコア", "rating", "評価", "点数")
_OVERALL_KEYS = ("overall", "final", "total", "quality", "総合", "最終", "品質")
# Full-width characters, which Japanese input methods produce, and their ASCII forms.
_WIDE = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)} | {0x3000: 0x20, 0x2212: 0x2D}
_MARKUP = str.maketrans(dict.fromkeys("*`#|", " "))

_NUMBER = (
    r"(?<![0-9A-Za-z_/])(?<![0-9][.,~–〜-])"
    r"[-+]?(?:[01],[0-9]{1,2}|[0-9]++(?:\.[0-9]++)?|\.[0-9]++)(?:[eE][-+]?[0-9]{1,4})?"
    r"(?![0-9A-Za-z_]|[.,~–〜-][0-9])"
)
_VALUE = (
    rf"(?:(?P<full>{_NUMBER})[ ]{{0,3}}点満点(?:中|で|の)?[、: ]{{0,3}})?"
    rf"(?P<value>{_NUMBER})"
    r"(?:[ ]{0,3}点?[ ]{0,3}\(?(?:/|out of)[ ]{0,3}(?P<scale>[0-9]{1,3}(?:\.0)?)(?![0-9]|\.[0-9]|[ ]{0,3}/)\)?"
    r"|[ ]{0,3}点?[ ]{0,3}\((?P<most>[0-9]{1,3})点満点\)"
    r"|[ ]{0,3}(?P<percent>%|percent|パーセント))?"
)
_VALUES = re.compile(_VALUE, re.IGNORECASE)
_VALUE_LINE = re.compile(
    rf"[\s(\[<「“\"']{{0,9}}{_VALUE}[\s)\]>」”\"']{{0,9}}(?:点|points?)?[ ]?(?:です|だ)?[.。!]?",
    re.IGNORECASE,
)
_LABEL = r"(?:score|rating|grade|verdict|quality|スコア|点数|得点|評点|採点|評価[点値]?|評価結果|総合点)s?"
_LABELLED = re.compile(
    rf"(?<![a-z]){_LABEL}['\"]?\s{{0,9}}(?:\([^()\n]{{0,24}}\)\s{{0,3}})?"
    r"(?:(?P<hard>[:=]|(?<=[a-z])>)|は|が|is\b|of\b|->|→|[-–—](?=\s))?"
    rf"[\s\"'\[「『“]{{0,9}}(?:{_VALUE}|(?P<none>null|none|true|false|nan|n/a|-?inf|n/[0-9]|不明))",
    re.IGNORECASE,
)
_LABEL_ONLY = re.compile(rf"[\w ]{{0,12}}{_LABEL}", re.IGNORECASE)
_PLAIN_LEAD = re.compile(
    r"(?:(?:the|my|our|final|overall|total|quality|so|thus|hence|therefore|answer|judge"
    r"|最終|総合|全体|品質|回答|応答|の|判定|私の|よって|したがって)[\s_]{0,3})*"
)
_THOUGHT = re.compile(r"<(/?)(?:think|thinking|thought|reasoning)>", re.IGNORECASE)
_FENCE = re.compile(r"```[a-z]*\s?", re.IGNORECASE)
_ONLY_FENCE = re.compile(
    r"```[a-z]*+\s?+((?:(?!```).)*+)(?:```[a-z]*+\s?+)?", re.IGNORECASE | re.DOTALL
)
_BRACKETED = re.compile(r"(?P<lead>[:=は]\s{0,3})?[「『“](?P<body>[^「」『』“”]*)[」』”]")
_STRAIGHT = re.compile(r"(?P<lead>[:=は]\s{0,3})?\"(?P<body>[^\"]*)\"")
_QUOTED_LINE = re.compile(r"^[ ]{0,3}>.*$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreReply:
    """The score and the reason in a judge's reply."""

    score: float | None  # from 0 to 1; `None` if no score could be read for certain
    reason: str  # one line of at most `MAXIMUM_REASON_LENGTH` characters


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    strength: int  # 2 begins its sentence, 1 is JSON in a fence, 0 is between other words
    position: int
    score: float | None  # `None` when the label carries no valid score


def read_reply(reply: object) -> ScoreReply:
    """Return the score and the reason in a judge's reply; the score is `None` if it is not certain.

    The reply may be a number, a text, a mapping, an object with `score` and `reason`, or a message.
    """
    reason: object = ""
    if isinstance(reply, str):
        text = _unfenced(_without_thoughts(reply).strip())
        whole = _whole_object(text)
        score, reason = parse_score(reply), text if whole is None else _reason_of(whole)
    elif isinstance(reply, Mapping):
        # LangChain's structured output with `include_raw` has this form.
        if "parsed" in reply and "raw" in reply:
            return read_reply(reply["parsed"] if reply["parsed"] is not None else reply["raw"])
        score, reason = _score_of_mapping(reply), _reason_of(reply)
    elif hasattr(reply, "score"):
        score, reason = _number_of(reply.score), getattr(reply, "reason", "")
    elif hasattr(reply, "content"):
        return read_reply(_text_of(reply.content))
    else:
        score = _number_of(reply)
    line = " ".join(str(reason or "").split())
    return ScoreReply(score=score, reason=line[:MAXIMUM_REASON_LENGTH].rstrip())


def parse_score(reply: str) -> float | None:
    """Return the score in a judge's text, from 0 to 1; `None` if it is not certain.

    A labelled score has priority over other numbers, one that begins its sentence over one between
    other words, and a later one over an earlier one. Thoughts, quotations and code are not read.
    """
    text = _unfenced(_without_thoughts(reply.translate(_WIDE)).strip())
    whole = _whole_object(text)
    if whole is not None:
        return _score_of_mapping(whole)
    plain = text.translate(_MARKUP).strip()
    if _VALUE_LINE.fullmatch(plain):
        return _score_of_match(_last_line(plain))
    prose, found = _extract_objects(text)
    prose = _blank_quotes(_STRAIGHT, _blank_quotes(_BRACKETED, prose)).translate(_MARKUP)
    found += _labelled(prose)
    if found:
        return _choose(found, prose)
    # Without a label, the number alone on the last line counts, or the only possible score.
    last = _last_line(prose)
    scores = _scorelike(prose) if last is None else {_score_of_match(last)}
    return scores.pop() if len(scores) == 1 else None


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


def _reason_of(mapping: Mapping[object, object]) -> object:
    items = (item for level in _levels(mapping) for item in level.items())
    named = (value for key, value in items if str(key).strip().lower() in _REASON_KEYS)
    return next((value for value in named if isinstance(value, str)), "")


def _number_of(value: object) -> float | None:
    if isinstance(value, str):
        return _score_of_match(_VALUE_LINE.fullmatch(value.translate(_WIDE).strip()))
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) + 0.0 if 0 <= value <= 1 else None  # adding 0.0 turns -0.0 into 0.0


def _score_of_match(match: re.Match[str] | None) -> float | None:
    if match is None:
        return None
    value = float(match["value"].replace(",", "."))
    scale = float(_scale_of(match).replace(",", "."))
    return _number_of(value / scale) if scale in SCALES else None


def _scale_of(match: re.Match[str]) -> str:
    named = match["full"] or match["scale"] or match["most"]
    return named or ("100" if match["percent"] else "1")


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
    match = _ONLY_FENCE.fullmatch(text)
    return match[1].strip() if match else text


def _whole_object(text: str) -> Mapping[object, object] | None:
    if not text.startswith("{"):
        return None
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict) else None


def _levels(mapping: Mapping[object, object]) -> Iterator[Mapping[object, object]]:
    """Yield the mapping, then the mappings in it, level by level: an outer score counts first."""
    level = [mapping]
    for _ in range(_DEEPEST_LEVEL):
        yield from level
        level = [value for outer in level for value in outer.values() if isinstance(value, Mapping)]


def _key_rank(key: object) -> int | None:
    """Return how well a key names a score, 0 best; `None` if it does not name one."""
    name = str(key).strip().lower()
    if name in _EXACT_KEYS:
        return 0
    if not any(word in name for word in _EXACT_KEYS):
        return None
    return 1 if any(word in name for word in _OVERALL_KEYS) else 2


def _score_of_mapping(mapping: Mapping[object, object]) -> float | None:
    for level in _levels(mapping):
        by_rank = {_key_rank(k): v for k, v in level.items() if not isinstance(v, Mapping)}
        ranks = [rank for rank in by_rank if rank is not None]
        if ranks:
            return _number_of(by_rank[min(ranks)])
    return None


def _found_in(mapping: Mapping[object, object], *, strength: int, position: int) -> list[_Found]:
    if not any(_key_rank(key) is not None for level in _levels(mapping) for key in level):
        return []
    return [_Found(strength=strength, position=position, score=_score_of_mapping(mapping))]


def _extract_objects(text: str) -> tuple[str, list[_Found]]:
    """Return the text with JSON and code blanked out, and the scores in the JSON."""
    text = _blank_quotes(_BRACKETED, _QUOTED_LINE.sub(" ", text))
    prose: list[str] = []
    found: list[_Found] = []
    position = 0
    for number, part in enumerate(_FENCE.split(text)):
        if number % 2 == 0:
            outside, inside = _objects(part, position)
            prose.append(outside)
            found += inside
        else:
            prose.append(" " * len(part))
            found += _found_in(_whole_object(part.strip()) or {}, strength=1, position=position)
        position += len(part)
    return "".join(prose), found


def _objects(text: str, offset: int) -> tuple[str, list[_Found]]:
    decoder = json.JSONDecoder()
    prose: list[str] = []
    found: list[_Found] = []
    position, broken = 0, 0
    start = text.find("{")
    while start >= 0 and broken < _MAXIMUM_BROKEN_OBJECTS:
        try:
            parsed, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            broken += 1
            start = text.find("{", start + 1)
            continue
        # Blanks of the same length keep the positions, by which `_choose` finds the last score.
        prose += [text[position:start], " " * (end - start)]
        found += _found_in(parsed, strength=2, position=offset + end)
        position, start = end, text.find("{", end)
    return "".join([*prose, text[position:]]), found


def _blank_quotes(pattern: re.Pattern[str], text: str) -> str:
    """Return the text with quotations blanked out, unless they hold only a score or its label."""

    def blank(match: re.Match[str]) -> str:
        body = match["body"]
        labelled = match["lead"] and _VALUE_LINE.fullmatch(body)
        if labelled or _LABEL_ONLY.fullmatch(body):
            return f"{match['lead'] or ''} {body} "
        return " " * len(match[0])

    return pattern.sub(blank, text)


def _labelled(prose: str) -> list[_Found]:
    """Return the scores that follow a label such as `Score:`."""
    found = []
    for match in _LABELLED.finditer(prose):
        lead = re.split(r"[\n.。!?]", prose[max(0, match.start() - 24) : match.start()])[-1]
        plain = _PLAIN_LEAD.fullmatch(lead.strip(" \t{[(<,'\"→-・•:").lower()) is not None
        if plain or match["hard"]:
            score = None if match["none"] else _score_of_match(match)
            found.append(_Found(strength=2 if plain else 0, position=match.end(), score=score))
    return found


def _choose(found: list[_Found], prose: str) -> float | None:
    """Return the last of the strongest scores; `None` if it is weak and a number follows it."""
    best = max(found, key=lambda candidate: (candidate.strength, candidate.position))
    rivals = not best.strength and _scorelike(prose[best.position :]) - {best.score}
    return None if rivals else best.score


def _scorelike(text: str) -> set[float | None]:
    # A whole number without a scale may be a list number or a year.
    return {
        score
        for match in _VALUES.finditer(text)
        if (score := _score_of_match(match)) is not None
        and not (match["value"].isdigit() and _scale_of(match) == "1")
    }


def _last_line(text: str) -> re.Match[str] | None:
    lines = text.strip().splitlines()
    return _VALUE_LINE.fullmatch(lines[-1].strip()) if lines else None
