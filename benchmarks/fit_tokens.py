"""Fit `unsay/tokens/weights.json`: `python benchmarks/fit_tokens.py CORPUS [NAME…] > weights.json`.

CORPUS holds one text a line: `{"group", "weight", "text"}`. Groups count by their weights, however
much text they have. A group with `"accents": true` is one of Latin letters in a language other than
English: what its words cost more is charged to its accents, since only they tell the language.

NAME is a vocabulary of `benchmarks/vocabularies.py`; without one, all that are there are fitted.

Each step sorts what stands before a place, and what stands at it, into sixteen kinds each, so that
the two kinds together say as much as they can of whether the tokenizer cuts there: it is k-means on
both sides in turn, of the chance of a cut. It takes some minutes a vocabulary.
"""

import argparse
import json
import re
import sys
import unicodedata
from base64 import b85encode
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from zlib import compress

import numpy as np
from kinds import KINDS, Learned, Places, learn, places
from vocabularies import vocabularies

from unsay.tokens.estimate import WIDE, narrowed

LEAST = 20_000
"""A group with fewer tokens counts by as much less."""

LAST_ASCII = 127
"""The last code of ASCII."""

EMOJI = 0x3F
"""Replaces all code points over `WIDE`: `?`, as `bytes` encodes what it cannot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A text of the corpus, cut by a tokenizer."""

    codes: Any
    """Its code points, a line break before them."""

    boundaries: Any
    """How many tokens begin in each."""

    weight: float
    """Of each of its places."""

    accents: bool
    """Whether its accents tell its language."""

    @property
    def wide(self) -> Any:
        """Which places hold a character outside ASCII."""
        return self.codes > LAST_ASCII

    @property
    def signs(self) -> Any:
        """Which places are looked at for those characters: they themselves, spaces and signs."""
        return self.wide | ~ALNUM[np.minimum(self.codes, LAST_ASCII)]

    @property
    def narrow(self) -> Any:
        """All places, those outside ASCII as question marks, and those as exclamation marks."""
        codes = np.where(self.codes == ord("?"), ord("!"), self.codes)
        return np.where(self.wide, ord("?"), codes)


ALNUM = np.array([chr(code).isalnum() for code in range(LAST_ASCII + 1)])


def read(path: Path, boundary: Any) -> list[Text]:
    """Read a corpus and cut it."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]
    boundaries = [_cut(row["text"], boundary) for row in rows]
    tokens: Counter[str] = Counter()
    for row, (_, counted) in zip(rows, boundaries, strict=True):
        tokens[row["group"]] += int(counted.sum())
    return [
        Text(
            codes=_codes(f"\n{text}"),
            boundaries=np.concatenate([[0.0], counted]),
            weight=row["weight"] / max(tokens[row["group"]], LEAST),
            accents=row.get("accents", False),
        )
        for row, (text, counted) in zip(rows, boundaries, strict=True)
    ]


def _cut(text: str, boundary: Any) -> tuple[str, Any]:
    """A text with its runs of spaces made short, and how many tokens begin at each place."""
    counted = np.bincount(np.fromiter(boundary(text), int), minlength=len(text)).astype(float)
    keep = np.ones(len(text), bool)
    for run in re.finditer(" {8,}", text):
        start, end = run.start(), run.end() - len(narrowed(run[0]))
        keep[start:end] = False
        counted[end] += counted[start:end].sum()
    return "".join(np.array(list(text))[keep]), counted[keep]


def _codes(text: str) -> Any:
    return np.frombuffer(text.encode("utf-32-le", "replace"), np.uint32).astype(np.int64)


@cache
def group_of(code: int, alone: int) -> str:
    """A group of characters that behave alike: a script, and what one costs alone."""
    if code <= LAST_ASCII:
        return f"ascii {code}"
    for name, start, end in SCRIPTS:
        if start <= code < end:
            return f"{name} {min(alone, 3)}"
    if 0xA0 <= code < 0x250:
        return f"latin {unicodedata.category(chr(code))[0]}"
    for name, start, end in BLOCKS:
        if start <= code < end:
            return name
    return f"block {code >> 7}"


SCRIPTS = (("signs", 0x2070, 0x2E00), ("Han", 0x4E00, 0xA000), ("Hangul", 0xAC00, 0xD7A4))
"""Blocks in which some characters are one token and others two or three."""

BLOCKS = (
    ("controls", 0x80, 0xA0),
    ("punctuation", 0x2000, 0x2070),
    ("East Asian punctuation", 0x3000, 0x3040),
    ("hiragana", 0x3040, 0x30A0),
    ("katakana", 0x30A0, 0x3100),
    ("full width", 0xFF00, 0xFFF0),
    ("beyond", WIDE, 0x110000),
)
"""Of which all characters behave alike."""

UNSEEN = "signs 2"
"""The group of what no text of the corpus has the like of."""


def is_accent(codes: Any) -> Any:
    """Which codes are Latin letters outside ASCII."""
    extended = (codes >= 0x1E00) & (codes < 0x1F00)
    return (codes >= 0xC0) & (codes < 0x250) | extended


def learn_wide(texts: Sequence[Text], alone: Any, accent: float) -> tuple[Any, Learned]:
    """Learn what characters outside ASCII cost: a kind for each code point, and the rest."""
    some = [text for text in texts if text.wide.any()]
    parts = [
        (
            text.codes[text.signs],
            np.where(
                text.wide, text.boundaries + text.accents * accent * is_accent(text.codes), 0.0
            )[text.signs],
            text.weight,
        )
        for text in some
    ]
    seen = places(parts)
    known, at = np.unique(seen.codes, return_inverse=True)
    names = [group_of(int(code), int(alone[min(code, WIDE)])) for code in known]
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    groups = np.array([numbers[name] for name in names])
    held = Places(codes=at, boundaries=seen.boundaries, weights=seen.weights, starts=seen.starts)
    learned = learn(held, len(known), groups)
    rarity = 1 / (1 + np.bincount(at))
    usual = {name: _usual(learned.tables[0], rarity, groups == numbers[name]) for name in numbers}
    other = usual.get(UNSEEN, next(iter(usual.values())))
    table = np.zeros(WIDE + 1, np.uint8)
    for code in range(WIDE + 1):
        table[code] = usual.get(group_of(code, int(alone[code])), other)
    table[known[known < WIDE]] = learned.tables[0][known < WIDE]
    return table, Learned(tables=[np.arange(256), *learned.tables[1:]], chances=learned.chances)


def _usual(kinds: Any, rarity: Any, inside: Any) -> int:
    """The kind that most of a group's characters are, the rare ones above all."""
    return int(np.bincount(kinds[inside], rarity[inside]).argmax())


def wide_at(text: Text, table: Any, learned: Learned) -> Any:
    """What the characters outside ASCII are taken to cost, at all places of a text."""
    found = np.zeros(len(text.codes))
    if text.wide.any():
        kinds = table[np.minimum(text.codes[text.signs], WIDE)].astype(np.int64)
        found[text.signs] = learned.at(kinds)
    return found


def fit(path: Path, vocabulary: Any) -> tuple[bytes, float, float]:
    """Fit one vocabulary; give its tables and what one token is in their weights."""
    texts = read(path, vocabulary.boundaries)
    letters = (code for code in range(WIDE) if not 0xD800 <= code < 0xE000)
    alone = np.full(WIDE + 1, 3)
    for code in letters:
        alone[code] = vocabulary.count(chr(code))
    table, wide = learn_wide(texts, alone, 0.0)
    parts = ((t.narrow, t.boundaries - wide_at(t, table, wide), t.weight) for t in texts)
    narrow = learn(places(parts), LAST_ASCII + 1)
    foreign = [text for text in texts if text.accents]
    lacking = sum(
        float(t.boundaries.sum() - narrow.at(t.narrow).sum() - wide_at(t, table, wide).sum())
        for t in foreign
    )
    accents = sum(int(is_accent(text.codes).sum()) for text in foreign)
    table, wide = learn_wide(texts, alone, lacking / accents if accents else 0.0)
    return packed(table, wide, narrow)


def packed(table: Any, wide: Learned, narrow: Learned) -> tuple[bytes, float, float]:
    """Put all tables one after the other, emoji under `EMOJI`."""
    high, low = np.arange(KINDS), np.arange(KINDS)
    for kinds, own, wanted in ((high, table[WIDE] >> 4, EMOJI >> 4), (low, table[WIDE] & 15, 15)):
        kinds[own], kinds[wanted] = wanted, own
    codes = np.arange(256)
    moved = (high[codes >> 4] << 4 | low[codes & 15]).astype(np.uint8)
    second = np.zeros(256, np.uint8)
    second[moved] = wide.tables[1]
    first = np.zeros(256, np.uint8)
    first[: LAST_ASCII + 1] = narrow.tables[0]
    scales = [255 / float(each.chances.max()) for each in (wide, narrow)]
    weights = [
        np.clip(np.round(each.chances * scale), 0, 255).astype(np.uint8)
        for each, scale in zip((wide, narrow), scales, strict=True)
    ]
    parts = [moved[table[:WIDE]], second, *wide.tables[2:], weights[0]]
    parts += [first, *narrow.tables[1:], weights[1]]
    return b"".join(part.astype(np.uint8).tobytes() for part in parts), scales[0], scales[1]


def weights_file(fitted: dict[str, tuple[bytes, float, float]]) -> str:
    """The file that keeps what was fitted: for each vocabulary an `unsay.tokens.estimate.Packed`."""
    rows = {
        name: {
            "wide_scale": round(wide, 4),
            "ascii_scale": round(narrow, 4),
            "tables": b85encode(compress(tables, 9)).decode(),
        }
        for name, (tables, wide, narrow) in fitted.items()
    }
    return json.dumps(rows, indent=1)


def main() -> None:
    """Fit the vocabularies that the command line names and print the file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpus", type=Path)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    there = vocabularies()
    fitted = {}
    for name in options.names or there:
        print(f"fitting {name}", file=sys.stderr)
        fitted[name] = fit(options.corpus, there[name])
    print(weights_file(fitted))


if __name__ == "__main__":
    main()
