"""Fit `unsay/judging/topics.json`: `python benchmarks/fit_topics.py FILE… > topics.json`.

Each FILE is one of `SOURCES` in the format of `topics.py`, with `"set": "train"` or `"dev"` per
line. Files are used whole, or with `--train` only their train parts, so that a figure on the dev
parts is one on unseen conversations. A source without a train part is used whole. Every question is read
against the topics of the labels. The fit is a logistic regression over the features and the runs of
words that tell most; each source counts alike, whatever its size.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from fit_experts import SOURCES, credits_of
from topics import Memory, Utterance, conversations

from unsay.judging.topic_detector import read, runs

RUNS = 4_000
"""Runs of words that get a weight."""

LEAST_RUNS = 4
"""Questions that must have a run."""

SPEAKERS = {"topic_tiage": ("user", "assistant")}
"""Whose messages are read; only the user's where nothing is said."""

WEIGHTS = {"topic_tiage": 2.0, "topic_mtb101": 1.5, "topic_jmwoz": 1.0, "topic_mtja": 1.0}
"""How much a source counts."""

SIZE = 2_000
"""Questions that a source with a weight of 1 counts as."""

SCALE = 0.3
"""Value of a run that a question has, beside features with a deviation of 1."""

HELD = {"weights": 1.0, "runs": 2.0}
"""How strongly weights are held near 0."""

CHANGE = 2.5
"""Least weight of a clear announcement, set by hand: the sources have too few of them."""

REFERENCE = -1.5
"""Highest weight of a reference to the message before, set by hand: small talk has too many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One question with its label."""

    features: dict[str, float]
    runs: frozenset[str]
    shift: bool
    weight: float


def rows(path: Path, *, train: bool) -> list[Row]:
    """Return the questions of a file, or with `train` those of its train part if it has one."""
    with path.open(encoding="utf-8") as lines:
        parts = [json.loads(line).get("set") for line in lines if line.strip()]
    every = list(zip(parts, conversations(path), strict=True))
    used = [said for part, said in every if train and part == "train"] or [
        said for _, said in every
    ]
    speakers = SPEAKERS.get(path.stem, ("user",))
    found = [row for said in used for row in _read(said, speakers)]
    weight = WEIGHTS[path.stem] * SIZE / len(found)
    return [Row(features=f, runs=r, shift=shift, weight=weight) for f, r, shift in found]


def _read(
    said: Sequence[Utterance], speakers: Sequence[str]
) -> Iterator[tuple[dict[str, float], frozenset[str], bool]]:
    topics = [Memory(topic_id="0")]
    subjects = {said[0].subject: topics[0]}
    for number, utterance in enumerate(said):
        current = topics[0]
        if current.said and utterance.role in speakers:
            others = [topic.seen() for topic in topics[1:]]
            reading = read(utterance.text, current.seen(), others, decay=0.8)
            found = runs(utterance.text, current.seen())
            yield dict(reading.features), found, utterance.shift
        if current.said and utterance.shift:
            topic = subjects.setdefault(utterance.subject, Memory(topic_id=str(number)))
            topics = [topic, *(other for other in topics if other is not topic)]
        topics[0].said.append(utterance)


def telling_runs(given: Sequence[Row]) -> list[str]:
    """Return the runs whose share differs most between changes and other questions."""
    total: Counter[str] = Counter()
    mass: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
    sums = [0.0, 0.0]
    for row in given:
        sums[row.shift] += row.weight
        total.update(row.runs)
        for run in row.runs:
            mass[row.shift][run] += row.weight

    def difference(run: str) -> float:
        without, with_ = (mass[side][run] / sums[side] for side in (0, 1))
        spread = (with_ * (1 - with_) + without * (1 - without)) / 200 + 1e-5
        return abs(with_ - without) / float(spread**0.5)

    common = sorted(run for run, count in total.items() if count >= LEAST_RUNS)
    return sorted(common, key=difference, reverse=True)[:RUNS]


def fit(given: Sequence[Row]) -> dict[str, Any]:
    """Return the fitted weights as JSON values."""
    names = list(given[0].features)
    dense = np.array([[row.features[name] for name in names] for row in given])
    places = {run: place for place, run in enumerate(telling_runs(given))}
    pairs = [(i, places[run]) for i, row in enumerate(given) for run in row.runs if run in places]
    row_of, run_of = np.array(pairs).T
    labels = np.array([float(row.shift) for row in given])
    weights = np.array([row.weight for row in given])
    middle, spread = dense.mean(0), dense.std(0) + 1e-9
    scaled = np.c_[(dense - middle) / spread, np.ones(len(given))]
    wide = scaled.shape[1]
    held = np.r_[np.full(wide - 1, HELD["weights"]), 0.0, np.full(len(places), HELD["runs"])]

    def loss(point: Any) -> tuple[float, Any]:
        odds = scaled @ point[:wide]
        odds += SCALE * np.bincount(row_of, point[wide:][run_of], len(given))
        error = weights * (1 / (1 + np.exp(-odds)) - labels)
        value = (weights * (np.logaddexp(0, odds) - labels * odds)).sum()
        slope = np.r_[scaled.T @ error, SCALE * np.bincount(run_of, error[row_of], len(places))]
        return float(value + (held * point**2).sum() / 2), slope + held * point

    point = minimum(loss, np.zeros(wide + len(places)))
    fitted = point[: wide - 1] / spread
    shares = {name: round(float(weight), 3) for name, weight in zip(names, fitted, strict=True)}
    shares["change"] = max(shares["change"], CHANGE)
    shares["reference"] = min(shares["reference"], REFERENCE)
    hundredths = {run: round(100 * SCALE * float(point[wide + at])) for run, at in places.items()}
    return {
        "bias": round(float(point[wide - 1] - fitted @ middle), 3),
        "weights": shares,
        "runs": {run: value for run, value in sorted(hundredths.items()) if value},
    }


def minimum(loss: Callable[[Any], tuple[float, Any]], point: Any) -> Any:
    """Return where a smooth loss is least, by L-BFGS. Source: Nocedal, Wright 2006, chapter 7.2."""
    value, slope = loss(point)
    steps: list[tuple[Any, Any]] = []
    for _ in range(150):
        move, shares = slope.copy(), []
        for step, bend in reversed(steps):
            shares.append(step @ move / (step @ bend))
            move -= shares[-1] * bend
        last = steps[-1] if steps else None
        move *= last[0] @ last[1] / (last[1] @ last[1]) if last else 1 / np.abs(slope).sum()
        for (step, bend), share in zip(steps, reversed(shares), strict=True):
            move += (share - bend @ move / (step @ bend)) * step
        length = 1.0
        while (trial := loss(point - length * move))[0] > value - 1e-4 * length * (slope @ move):
            length /= 2
            if length < 1e-8:
                return point
        steps = [*steps, (-length * move, trial[1] - slope)][-10:]
        done = value - trial[0] < 1e-5 * abs(value)
        point, (value, slope) = point - length * move, trial
        if done:
            return point
    return point


def main() -> int:
    """Fit the weights to the files of the command line and print them as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--train", action="store_true", help="use only train parts")
    options = parser.parse_args()
    files = options.files
    strange = [path.stem for path in files if path.stem not in SOURCES]
    if strange:
        print(f"{strange}: not among {list(SOURCES)}, so its licence is unknown", file=sys.stderr)
        return 2
    fitted = fit([row for path in files for row in rows(path, train=options.train)])
    head = {
        "provenance": "Fitted by benchmarks/fit_topics.py; no message of a source is included.",
        "sources": credits_of([path.stem for path in files]),
    }
    body = json.dumps({**head, **fitted}, ensure_ascii=False, separators=(",", ":"))
    print(body.replace('"runs":{', '"runs":{\n').replace("}}", "\n}}"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
