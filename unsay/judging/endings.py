"""Where sentences, lines and answers end, and whether an answer ends before it is finished."""

import re

from unsay.types import Exchange

JAPANESE = re.compile(r"[\u3041-\u30ff\u4e00-\u9fff]")
FENCED = re.compile(r"^[ ]{0,3}```.*?(?:^[ ]{0,3}```|\Z)", re.MULTILINE | re.DOTALL)
_FENCE = re.compile(r"^[ ]{0,6}(```|~~~)", re.MULTILINE)
_SENTENCE_ENDS = re.compile(r"(?<=[.!?])\s+|(?<=[。！？!?])|\n+")
_TERMINAL = re.compile(
    r"(?:[.!?。！？…;；～〜♪☆★)）\]】」』”\"'’`>|}*_~#=$\-―—0-9０-９%％°℃/]|(?:です|ます|ました|ません|でした|ください|でしょう)|[^\w\s,、，（(「『\[{+&:：])\Z"
)
_LOOSE_END = re.compile(r"(?:\A|\s)(?:#|@|https?:)\S*\Z")
_ITEM = re.compile(
    r"[ \t]*(?:[-*+•・◦▪■●○◆]|[0-9]{1,3}[.)）、:]|[(（]?[0-9a-z①-⑳][)）.]|#{1,6}|\||>)\s*"
)
_UNFINISHED = re.compile(r"\A(?:#{1,6}\s.*|#{2,6}|[-*+•・]|[0-9]{1,3}[.)])\Z|[：:,、，]\Z")
_FORMULAS = (("\\[", "\\]"), ("\\(", "\\)"))
_DANGLING = re.compile(
    r"(?:[,、，(（「『\[{+&]|\b(?:the|an?|of|to|and|or|with|for|in|on|at|by|from|as|that|which|is|are|was|were|be|been"
    r"|has|have|had|its|their|your|our|his|than|into|while|because|such|including|can|will|would|should|could|may|not"
    r"|but|if|when|where|who|whose|more|most|very|also|these|those|this|between|about|through|during|without|like)"
    r"|(?<=[^\W\d_a-z])[はがをにへとので、も])\Z"
)
_STOPS = (".", "!", "?", "。", "！", "？", "…", "」", '"', ")", "）")
_TAIL = 200

CUT_WIDTH = 50
"""Width from which on an answer without a stop at its end is cut off. Source: of MT-Bench-101's
answers 1.5 % have none, and most of those are lists.
"""

DANGLING_WIDTH = 30
"""The same for an answer whose last word wants another, such as `the`."""

FIRST_WIDTH = 80
"""The same for a first answer, whose speaker may not use stops at all."""

LINE_WIDTH = 16
"""Width from which on a line shows whether its kind ends with stops."""

LINES_ENDED = 0.7
"""Share of lines of its kind, from 0 to 1, that must end for the last one to be cut off."""


def sentences(text: str) -> list[str]:
    """The sentences and lines of a text, without empty ones."""
    return [part for part in _SENTENCE_ENDS.split(text) if part and part.strip()]


def width(text: str) -> int:
    """The length of a text in Latin letters; a Japanese character tells about as much as two."""
    return len(text) + len(JAPANESE.findall(text))


def is_casual(exchange: Exchange) -> bool:
    """Whether this speaker does without stops or capitals, as far as one can see."""
    starts = [part.lstrip() for part in sentences(FENCED.sub("\n", exchange.answer))]
    small = sum(part[:1].islower() for part in starts)
    earlier = [answer for _, answer in exchange.earlier if width(answer) >= LINE_WIDTH]
    return small * 2 > len(starts) or not all(_ends(answer.rstrip()) for answer in earlier)


def _ends(line: str) -> bool:
    tail = line[-_TAIL:]
    return _TERMINAL.search(tail) is not None or _LOOSE_END.search(tail) is not None


def leaves_fence_open(answer: str) -> bool:
    """Whether an answer's last code block is never closed."""
    return len(_FENCE.findall(answer)) % 2 == 1


def stops_short(answer: str, *, enough: int = CUT_WIDTH) -> bool:
    """Whether an answer, if it is long enough, breaks off before its last sentence ends.

    A last word that wants another, a bare heading or an unclosed formula tells sooner than
    a missing stop, for which the answer must be `enough` wide.
    """
    lines = [line.strip() for line in FENCED.sub("\n```\n", answer).splitlines() if line.strip()]
    if not lines or width(answer) < DANGLING_WIDTH:
        return False
    last = lines[-1]
    if last.count("**") % 2 or _UNFINISHED.search(last) or _unclosed_formula(answer):
        return True
    dangles = _DANGLING.search(last[-_TAIL:].lower()) is not None
    if not dangles and (_ends(last) or width(answer) < enough):
        return False
    return _others_end(last, lines[:-1], otherwise=dangles or len(sentences(last)) > 1)


def _unclosed_formula(answer: str) -> bool:
    return any(answer.count(opens) > answer.count(closes) for opens, closes in _FORMULAS)


def _others_end(last: str, before: list[str], *, otherwise: bool) -> bool:
    """Whether lines of the last one's kind end as sentences do, so that it should have, too."""
    item = _ITEM.match(last) is not None
    alike = [line for line in before if (_ITEM.match(line) is not None) == item]
    alike = [line for line in alike if width(line) >= LINE_WIDTH and not line.endswith((":", "："))]
    if alike:
        ended = sum(line.endswith(_STOPS) if item else _ends(line) for line in alike)
        return ended / len(alike) >= LINES_ENDED
    return otherwise or (not item and width(last) >= CUT_WIDTH)
