"""The fit of the token estimate's weights."""

import importlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from unsay.tokens import estimate as estimates

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
NOUNS = ["moon", "river", "teacher", "garden", "letter", "window", "月", "先生", "窓"]
TEXTS = [
    " ".join(f"The {NOUNS[(number * 7 + number) % 9]} is near, {number}!" for number in range(40))
    for number in range(12)
]


class Words:
    """A vocabulary that has a token for each word of ASCII, and for any other sign."""

    def count(self, text: str) -> int:
        """The tokens of a text."""
        return len(list(self.boundaries(text)))

    def boundaries(self, text: str) -> Iterator[int]:
        """In which character each token begins."""
        return (match.start() for match in re.finditer(r" ?[A-Za-z]+|[^A-Za-z]", text))


@pytest.fixture
def fit(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script as a module."""
    pytest.importorskip("numpy")
    monkeypatch.syspath_prepend(BENCHMARKS)
    for name, few in (("TRIES", 1), ("ROUNDS", 3)):
        monkeypatch.setattr(importlib.import_module("kinds"), name, few)
    return importlib.import_module("fit_tokens")


def test_what_is_fitted_counts_as_the_vocabulary_does(
    fit: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file that is written makes estimates that are near, on texts that were not fitted."""
    corpus = tmp_path / "corpus.jsonl"
    rows = [{"group": "all", "weight": 1, "text": text} for text in TEXTS[:8]]
    corpus.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    weights = fit.weights_file({"o200k": fit.fit(corpus, Words())})

    monkeypatch.setattr(estimates, "PACKED", json.loads(weights))
    estimates._fitted.cache_clear()
    try:
        for text in TEXTS[8:]:
            assert estimates.estimate(text) == pytest.approx(Words().count(text), rel=0.05)
    finally:
        estimates._fitted.cache_clear()
