"""Estimate of a text's number of tokens without a vocabulary.

The characters around a position usually decide whether a tokenizer cuts there. So each position
gets a probability of a cut, and the sum of all probabilities is the number of tokens. The sixteen
characters before a position select its probability in four steps: each character has one of sixteen
kinds for its effect on later characters and one for the effect of earlier ones on it; two
neighbours make one of sixteen kinds of pairs, two pairs one of sixteen kinds of fours, and so on.
"""

import json
import re
from base64 import b85decode
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal
from zlib import decompress

from typing_extensions import TypedDict

Vocabulary = Literal["o200k", "cl100k", "claude", "deepseek"]

DISTANCES = (1, 2, 4, 8)  # characters between the two that each step joins
WIDE = 1 << 16  # code points with separate kinds; those above, such as emoji, share one
CHUNK = 1 << 16  # characters that are computed together, so that they fit the processor's cache

# Fewest tokens for each character in a word of 64 or more.
# Source: own measurement, 0.37 to 0.6 for keys and sequences.
LONG_SHARE = 0.45

FEW_LETTERS = 3  # a long word with at most this many different letters has `FEW_SHARE` instead
FEW_SHARE = 0.25  # Source: Zhang 2026, chapter 7, a token for four characters

_LETTERS = bytes(code for code in range(128) if chr(code).isalnum())
_UNBROKEN = bytes(code < 128 and chr(code).isalnum() for code in range(256))
_LONG = b"\x01" * 64  # searched first: a plain search is faster than the pattern
_LONG_WORD = re.compile(rb"\x01{64,}")
_HIGH = bytes(code & 0xF0 for code in range(256))  # keeps the high four bits of a byte
_BOTH = bytes(range(256))
_LOW = bytes(code & 0x0F for code in range(256))  # keeps the low four bits


class Packed(TypedDict):
    """The compressed tables of one vocabulary, fitted by `benchmarks/fit_tokens.py`."""

    wide_scale: float  # the weight of one token outside ASCII
    ascii_scale: float
    tables: str  # kinds, steps and weights, compressed, in base 85


PACKED: Mapping[Vocabulary, Packed] = json.loads(
    Path(__file__).with_name("weights.json").read_text("ascii")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Tables that join two numbers, `reach` characters apart, into one."""

    reach: int
    before: bytes  # for each number, its kind for later characters, in the high four bits
    after: bytes  # for each number, its kind for earlier characters, in the low four bits


@dataclass(frozen=True, slots=True, kw_only=True)
class Chances:
    """Probabilities of a cut, by the kinds of the characters before it."""

    steps: tuple[Step, ...]  # from the nearest neighbours to the farthest
    weights: bytes  # for each result of the last step
    scale: float  # the weight of one token


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """The tables of one vocabulary."""

    kinds: str  # for each code point below `WIDE`, a character that encodes both its kinds
    wide: Chances  # for cuts before characters outside ASCII
    ascii: Chances  # for all other cuts


def estimate(text: str, vocabulary: Vocabulary = "o200k") -> float:
    """Return the estimated number of tokens of a text; not rounded.

    Source: fitted by `benchmarks/fit_tokens.py` to the tokenizer's own cuts; `benchmarks/tokens.py`
    prints the error on other texts.
    """
    fitted = _fitted(vocabulary)
    text = narrowed(text)
    chunks = (text[start : start + CHUNK] for start in range(0, len(text), CHUNK))
    return sum(_chunk(chunk, fitted) for chunk in chunks)


def narrowed(text: str) -> str:
    """Return the text with runs of eight or more spaces shortened: a run of any length is one token."""
    while "        " in text:
        text = text.replace("        ", "    ")
    return text


def _chunk(text: str, fitted: Fitted) -> float:
    # A loop over characters takes a hundred times as long as `bytes.translate` and shifting the
    # text as one long number. Characters outside ASCII need more than a byte each: a second text
    # has them and the spaces and signs between them. The tokens are at most one for each byte.
    line = f"\n{text}"
    narrow = line.replace("?", "!").encode("ascii", "replace")
    weighed = _weighed(narrow, fitted.ascii)
    scale = fitted.ascii.scale
    tokens = sum(weighed[1:]) / scale + _lacking(narrow, weighed, scale)
    if text.isascii():
        return min(tokens, len(text))
    coded = line.encode("utf-8", "surrogatepass")
    signs = coded.translate(None, _LETTERS).decode("utf-8", "surrogatepass")
    # Code points from `WIDE` on become `?`, which is reserved for them.
    wide = signs.translate(fitted.kinds).encode("latin-1", "replace")
    tokens += sum(_weighed(wide, fitted.wide)[1:]) / fitted.wide.scale
    return min(tokens, len(coded) - 1)


def _weighed(codes: bytes, chances: Chances) -> bytes:
    """Return for each character the probability of a cut before the next one, times `chances.scale`.

    `codes` has a byte for each character: its ASCII code, or for `Fitted.wide` its kinds.
    """
    for step in chances.steps:
        before = int.from_bytes(codes.translate(step.before), "little") << 8 * step.reach
        after = int.from_bytes(codes.translate(step.after), "little")
        codes = (before | after).to_bytes(len(codes) + step.reach, "little")[: len(codes)]
    return codes.translate(chances.weights)


def _lacking(narrow: bytes, weighed: bytes, scale: float) -> float:
    """Return by how many tokens the estimate of long unbroken words is too low; maybe 0.

    Such words are keys, for example. `narrow` has the ASCII code of each character of the text,
    `?` for others; `weighed` has the estimate of each, already times `scale`.
    """
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
    *steps, weights = (tables[start : start + 256] for start in range(0, len(tables), 256))
    joins = tuple(
        Step(reach=reach, before=table.translate(_HIGH), after=table.translate(_LOW))
        for reach, table in zip(DISTANCES, steps, strict=True)
    )
    return Chances(steps=joins, weights=weights, scale=scale)
