"""Measure topic detection on labelled conversations: `python benchmarks/topics.py FILE… [--json]`.

A file holds one conversation a line: `{"id", "lang", "set", "src", "utts": [{"role", "text"}],
"shift": [0 or 1 per utterance]}`, and where subjects return also `"kind": [word per utterance]`
with a word that ends in `return` at the turn that takes the subject before the last one up again.

It runs as the product does: every user turn but the first is decided from what came before, and
the detector's own answers, not the labels, decide what its topics hold. `back` counts as a shift.

- `macro_f1`: F1 of the shifts, the mean over the files; `precision` and `recall` likewise.
- `return_recall`: share of the returning turns that were answered `back`.
- `return_shift_recall`: share of them that were answered `back` or `new`.
- `return_which`: share of those answered `back` whose topic holds the subject that was meant.
- `cpu_ms_per_decision`: processor time of a decision.
"""

import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from report import Figure, Figures, run

from unsay.judging.topic_detector import LexicalDetector
from unsay.topic_shift import TopicDetector, TopicMemory, TopicShift

KEPT = 8
"""Texts that a topic remembers, the newest of them."""

FIGURES = (
    "macro_f1",
    "precision",
    "recall",
    "return_recall",
    "return_shift_recall",
    "return_which",
    "cpu_ms_per_decision",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Utterance:
    """One labelled utterance."""

    role: str
    """`user` or `assistant`."""

    text: str
    """The text of the turn."""

    shift: bool
    """Whether the subject changes here, or returns."""

    subject: int
    """Number of the labelled subject, the same again after a return."""

    returns: bool
    """Whether it takes an earlier subject up again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One answer of the detector beside its label."""

    shift: bool
    """The label."""

    answered: TopicShift
    """The answer."""

    returns: bool
    """Whether the turn takes an earlier subject up again."""

    right_topic: bool
    """Whether the topic that the answer names holds the turn's subject."""

    seconds: float
    """Processor time."""


@dataclass(slots=True, kw_only=True)
class Memory:
    """A topic as the run under way knows it."""

    topic_id: str
    """Its id."""

    said: list[Utterance] = field(default_factory=list)
    """Its turns, oldest first."""

    def seen(self) -> TopicMemory:
        """Give what the detector may see of it."""
        return TopicMemory(
            topic_id=self.topic_id, texts=tuple(said.text for said in self.said[-KEPT:])
        )


def conversations(path: Path) -> Iterator[list[Utterance]]:
    """Read the conversations of a file.

    Raises:
        ValueError: A line is not of the format; the message names it.
    """
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            try:
                if line.strip():
                    yield _utterances(json.loads(line))
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                raise ValueError(f"{path}, line {number}: {error!r}; see --help") from error


def _utterances(row: dict[str, Any]) -> list[Utterance]:
    """Give a row's utterances with the number of their subject."""
    kinds = row.get("kind") or [""] * len(row["utts"])
    subjects = [0]
    said: list[Utterance] = []
    for utterance, shift, kind in zip(row["utts"], row["shift"], kinds, strict=True):
        returns = bool(shift) and str(kind).endswith("return") and len(subjects) > 1
        if shift and said:
            subjects.append(subjects[-2] if returns else max(subjects) + 1)
        said.append(
            Utterance(
                role=utterance["role"],
                text=utterance["text"],
                shift=bool(shift),
                subject=subjects[-1],
                returns=returns,
            )
        )
    return said


def decisions(said: Sequence[Utterance], detector: TopicDetector) -> Iterator[Decision]:
    """Run one conversation, deciding each user turn but the first."""
    topics: list[Memory] = [Memory(topic_id="0")]
    for number, utterance in enumerate(said):
        current = topics[0]
        if current.said and utterance.role == "user":
            others = [topic.seen() for topic in topics[1:]]
            started = time.process_time()
            shift = detector.detect(utterance.text, current.seen(), others)
            seconds = time.process_time() - started
            _move(topics, shift, topic_id=str(number))
            yield Decision(
                shift=utterance.shift,
                answered=shift,
                returns=utterance.returns,
                right_topic=any(s.subject == utterance.subject for s in topics[0].said),
                seconds=seconds,
            )
        topics[0].said.append(utterance)


def _move(topics: list[Memory], shift: TopicShift, *, topic_id: str) -> None:
    """Bring the topic of an answer to the front."""
    if shift.kind == "new":
        topics.insert(0, Memory(topic_id=topic_id))
    elif shift.kind == "back":
        found = next(i for i, topic in enumerate(topics) if topic.topic_id == shift.topic_id)
        topics.insert(0, topics.pop(found))


def measure(made: Sequence[Decision]) -> dict[str, Figure]:
    """Give the figures of one file's decisions."""
    moved = [d for d in made if d.answered.kind != "same"]
    shifts = [d for d in made if d.shift]
    hits = sum(d.shift for d in moved)
    returns = [d for d in made if d.returns]
    back = [d for d in returns if d.answered.kind == "back"]
    f1 = ratio(2 * hits, len(moved) + len(shifts)).value
    return {
        "macro_f1": Figure(value=f1, items=len(made)),
        "precision": ratio(hits, len(moved)),
        "recall": ratio(hits, len(shifts)),
        "return_recall": ratio(len(back), len(returns)),
        "return_shift_recall": ratio(sum(d.answered.kind != "same" for d in returns), len(returns)),
        "return_which": ratio(sum(d.right_topic for d in back), len(back)),
        "cpu_ms_per_decision": ratio(1000 * sum(d.seconds for d in made), len(made)),
    }


def ratio(part: float, whole: int) -> Figure:
    """Give a share of `whole` items."""
    return Figure(value=part / whole if whole else None, items=whole)


def table(rows: Mapping[str, Figures]) -> str:
    """Give the figures as a table for people."""
    width = max(len(name) for name in rows)
    lines = [" " * width + "".join(f"  {name:>19}" for name in FIGURES)]
    for name, figures in rows.items():
        cells = (_cell(figures[figure]) for figure in FIGURES)
        lines.append(f"{name:<{width}}" + "".join(f"  {cell:>19}" for cell in cells))
    return "\n".join(lines)


def _cell(figure: Figure) -> str:
    """Give a value and, in brackets, its items."""
    return "-" if figure.value is None else f"{figure.value:.3f} ({figure.items})"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the files and print; give the exit status."""
    return run(
        _figures,
        table,
        description=__doc__ or "",
        wanted='Give one or more files of labelled conversations, one JSON object a line with "utts" '
        'and "shift"',
        arguments=arguments,
    )


def _figures(path: Path) -> dict[str, Figure]:
    """A file's figures."""
    detector = LexicalDetector()
    return measure([d for said in conversations(path) for d in decisions(said, detector)])


if __name__ == "__main__":
    sys.exit(main())
