"""Estimate how many tokens a text has, where no vocabulary is at hand.

A tokenizer cuts a text into tokens; the few characters around a place decide almost wholly whether
it cuts there. So each place has a chance of a cut, and the chances add up to the tokens. The
characters before a place select its chance: first every character becomes one of sixteen kinds,
twice, once for its effect on those after it and once for the effect of those before. Then two
neighbours become one of sixteen kinds of pairs, two pairs one of sixteen kinds of fours, and so on:
after four steps, sixteen characters are a number from 0 to 255, which selects the chance.

All of it is done for a whole text at once, with `bytes.translate` and by shifting the text as one
long number, since a loop over characters would take a hundred times as long. Characters outside
ASCII are estimated in a text of their own, with the spaces and signs between them, because there
are too many of them for one byte each.
"""

import json
import re
from base64 import b85decode
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, TypedDict
from zlib import decompress

Vocabulary = Literal["o200k", "cl100k", "claude", "deepseek"]

REACH = (1, 2, 4, 8)  # how far apart stand what each step joins, in characters
WIDE = 1 << 16  # code points that have a kind of their own; those above, such as emoji, share one

CHUNK = 1 << 16
"""Characters that are looked at together, so that they stay in the processor's cache."""

LONG_SHARE = 0.45
"""Tokens of a character in a word of 64 and more, at least. Source: own measurement, 0.37 to 0.6 for
keys and sequences."""

FEW_LETTERS = 3  # a long word of no more different letters than these has at least `FEW_SHARE`
FEW_SHARE = 0.25  # Source: Zhang 2026, chapter 7, a token for four characters

_LETTERS = bytes(code for code in range(128) if chr(code).isalnum())
_UNBROKEN = bytes(code < 128 and chr(code).isalnum() for code in range(256))
_LONG = b"\x01" * 64
_LONG_WORD = re.compile(rb"\x01{64,}")
_HIGH = bytes(code & 0xF0 for code in range(256))
_BOTH = bytes(range(256))
_LOW = bytes(code & 0x0F for code in range(256))


class Packed(TypedDict):
    """What `benchmarks/fit_tokens.py` learned of one vocabulary.

    The scales say what one token is in the weights of the characters outside ASCII and of the
    others; `tables` holds kinds, steps and weights, compressed, in base 85.
    """

    wide_scale: float
    ascii_scale: float
    tables: str


PACKED: Mapping[Vocabulary, Packed] = json.loads(
    Path(__file__).with_name("weights.json").read_text("ascii")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Tables that join what stands some characters apart."""

    reach: int

    before: bytes
    """For each number, the kind that it is for what comes later, in the high four bits."""

    after: bytes
    """For each number, the kind that it is for what came earlier, in the low four bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chances:
    """Chances of a cut, by the kinds of the characters around."""

    steps: tuple[Step, ...]
    """From the nearest neighbours to the farthest."""

    weights: bytes
    """For each number that the last step gives, its chance."""

    scale: float
    """What one token is in `weights`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """What was learned of one vocabulary."""

    kinds: str
    """For each code point under `WIDE`, a character that holds both its kinds. Those above become
    `?`, whose code is kept for their kinds."""

    wide: Chances
    """Of cuts before characters outside ASCII."""

    ascii: Chances
    """Of all other cuts."""


def estimate(text: str, vocabulary: Vocabulary = "o200k") -> float:
    """Return about how many tokens a text has.

    Source:
        Fitted by `benchmarks/fit_tokens.py` to that tokenizer's own cuts; how well it does on
        texts that it was not fitted to is printed by `benchmarks/tokens.py`.
    """
    fitted = _fitted(vocabulary)
    text = narrowed(text)
    chunks = (text[start : start + CHUNK] for start in range(0, len(text), CHUNK))
    return sum(_chunk(chunk, fitted) for chunk in chunks)


def narrowed(text: str) -> str:
    """Return the text with short runs of spaces, since any run of them is one token."""
    while "        " in text:
        text = text.replace("        ", "    ")
    return text


def _chunk(text: str, fitted: Fitted) -> float:
    """The tokens of a part of a text that begins a line; never more than it has bytes."""
    line = f"\n{text}"
    narrow = line.replace("?", "!").encode("ascii", "replace")
    weighed = _weighed(narrow, fitted.ascii)
    scale = fitted.ascii.scale
    found = sum(weighed[1:]) / scale + _lacking(narrow, weighed, scale)
    if text.isascii():
        return min(found, len(text))
    coded = line.encode("utf-8", "surrogatepass")
    signs = coded.translate(None, _LETTERS).decode("utf-8", "surrogatepass")
    wide = signs.translate(fitted.kinds).encode("latin-1", "replace")
    found += sum(_weighed(wide, fitted.wide)[1:]) / fitted.wide.scale
    return min(found, len(coded) - 1)


def _weighed(codes: bytes, chances: Chances) -> bytes:
    for step in chances.steps:
        before = int.from_bytes(codes.translate(step.before), "little") << 8 * step.reach
        after = int.from_bytes(codes.translate(step.after), "little")
        codes = (before | after).to_bytes(len(codes) + step.reach, "little")[: len(codes)]
    return codes.translate(chances.weights)


def _lacking(narrow: bytes, weighed: bytes, scale: float) -> float:
    """What long words without a break are counted too low: one letter over and over is no word."""
    letters = narrow.translate(_UNBROKEN)
    if _LONG not in letters:
        return 0.0
    lacking = 0.0
    for match in _LONG_WORD.finditer(letters):
        start, end = match.span()
        many = len(set(narrow[start:end])) > FEW_LETTERS
        least = (end - start) * (LONG_SHARE if many else FEW_SHARE)
        lacking += max(0.0, least - sum(weighed[start:end]) / scale)
    return lacking


@cache
def _fitted(vocabulary: Vocabulary) -> Fitted:
    packed = PACKED[vocabulary]
    tables = decompress(b85decode(packed["tables"]))
    wide, narrow = tables[WIDE : WIDE + 1024], tables[WIDE + 1024 :]
    return Fitted(
        kinds=tables[:WIDE].decode("latin-1"),
        wide=_chances(_BOTH + wide, packed["wide_scale"]),
        ascii=_chances(narrow, packed["ascii_scale"]),
    )


def _chances(tables: bytes, scale: float) -> Chances:
    """Tables of 256 bytes, one for each step and the weights last."""
    *steps, weights = (tables[start : start + 256] for start in range(0, len(tables), 256))
    joins = tuple(
        Step(reach=reach, before=table.translate(_HIGH), after=table.translate(_LOW))
        for reach, table in zip(REACH, steps, strict=True)
    )
    return Chances(steps=joins, weights=weights, scale=scale)
