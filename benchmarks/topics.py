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
- `return_ranked`: share of all returning turns for which the earlier topic that the detector ranks
  first holds that subject, whatever it answered.
- `cpu_ms_per_decision`: processor time of a decision.

With `--embeddings MODULE:NAME`, a LangChain `Embeddings` or a function that makes one, the earlier topic
is chosen by meaning, as the product does with `build_graph(embeddings=…)`.
"""

import argparse
import json
import random
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from langchain_core.embeddings import Embeddings
from report import Figure, Figures, loaded, run, share_of, shown

from unsay.effects import drive
from unsay.judging.topic_detector import LexicalDetector, likeliest_return
from unsay.judging.topic_reading import read
from unsay.retrieval.topic_ranking import nearest_in_meaning
from unsay.topic_shift import TopicMemory, TopicShift

SAMPLES = 200
"""Samples from which the interval of an F1 is read."""

PUBLISHED = {
    "tiage": "  published F1: TextTiling .204, RoBERTa .572, GPT-4o with Def-DTS .699",
    "dialseg711": "  published F1: TextTiling .245, CSM .610, GPT-4o with Def-DTS .979",
}
"""Source: Def-DTS, arXiv 2505.21033, tables 3 to 5; those methods also read later turns."""

KEPT = 8
"""Texts that a topic remembers, the newest of them."""

FIGURES = (
    "macro_f1",
    "precision",
    "recall",
    "return_recall",
    "return_shift_recall",
    "return_which",
    "return_ranked",
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

    ranked_right: bool
    """Whether the earlier topic that the detector ranks first holds it."""

    seconds: float
    """Processor time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A question, with the topics before it as the detector sees them."""

    text: str
    current: TopicMemory
    others: Sequence[TopicMemory]


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


def decisions(
    said: Sequence[Utterance], detector: LexicalDetector, embeddings: Embeddings | None = None
) -> Iterator[Decision]:
    """Run one conversation, deciding each user turn but the first."""
    topics: list[Memory] = [Memory(topic_id="0")]
    for number, utterance in enumerate(said):
        current = topics[0]
        if current.said and utterance.role == "user":
            others = [topic.seen() for topic in topics[1:]]
            asked = Asked(text=utterance.text, current=current.seen(), others=others)
            started = time.process_time()
            shift = detector.detect(utterance.text, asked.current, others)
            seconds = time.process_time() - started
            ranked = None
            if utterance.returns or (embeddings and shift.kind == "back"):
                ranked = rank(asked, detector, embeddings)
            if shift.kind == "back" and ranked and embeddings:
                shift = ranked
            _move(topics, shift, topic_id=str(number))
            yield Decision(
                shift=utterance.shift,
                answered=shift,
                returns=utterance.returns,
                right_topic=any(s.subject == utterance.subject for s in topics[0].said),
                ranked_right=ranked is not None
                and any(
                    s.subject == utterance.subject
                    for topic in topics
                    if topic.topic_id == ranked.topic_id
                    for s in topic.said
                ),
                seconds=seconds,
            )
        topics[0].said.append(utterance)


def rank(
    asked: Asked, detector: LexicalDetector, embeddings: Embeddings | None
) -> TopicShift | None:
    """Return the shift back to the earlier topic that is ranked first; `None` if there is none."""
    if embeddings is not None and len(asked.others) > 1:
        return drive(nearest_in_meaning(embeddings, asked.text, asked.others))
    reading = read(asked.text, asked.current, asked.others, decay=detector.decay)
    return likeliest_return(reading, asked.others, fade=detector.back_fade)


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
    seconds = sum(d.seconds for d in made)
    return {
        "macro_f1": Figure(value=f1(made), items=len(made), interval=f1_interval(made)),
        "precision": share_of(hits, len(moved)),
        "recall": share_of(hits, len(shifts)),
        "return_recall": share_of(len(back), len(returns)),
        "return_shift_recall": share_of(
            sum(d.answered.kind != "same" for d in returns), len(returns)
        ),
        "return_which": share_of(sum(d.right_topic for d in back), len(back)),
        "return_ranked": share_of(sum(d.ranked_right for d in returns), len(returns)),
        "cpu_ms_per_decision": Figure(
            value=1000 * seconds / len(made) if made else None, items=len(made)
        ),
    }


def f1(made: Sequence[Decision]) -> float | None:
    """Return the F1 of the shifts; `None` where there are none."""
    moved = sum(d.answered.kind != "same" for d in made)
    shifts = sum(d.shift for d in made)
    hits = sum(d.shift and d.answered.kind != "same" for d in made)
    return 2 * hits / (moved + shifts) if moved + shifts else None


def f1_interval(made: Sequence[Decision]) -> tuple[float, float] | None:
    """Return the middle 95 % of the F1 of samples of the decisions, drawn with replacement."""
    chance = random.Random(1)
    found = sorted(
        value
        for _ in range(SAMPLES)
        if made and (value := f1(chance.choices(made, k=len(made)))) is not None
    )
    return (found[len(found) // 40], found[-1 - len(found) // 40]) if found else None


def table(rows: Mapping[str, Figures]) -> str:
    """Give the figures as a table for people, a line for each figure of each file."""
    lines = []
    for name, figures in rows.items():
        published = next((text for stem, text in PUBLISHED.items() if stem in name.lower()), "")
        lines += [f"{name}{published}", *(f"  {f:<20} {shown(figures[f])}" for f in FIGURES)]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the files and print; give the exit status."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--embeddings", type=loaded)
    options, rest = parser.parse_known_args(arguments)
    return run(
        partial(_figures, embeddings=options.embeddings),
        table,
        description=__doc__ or "",
        wanted='Give one or more files of labelled conversations, one JSON object a line with "utts" '
        'and "shift"',
        arguments=rest,
    )


def _figures(path: Path, *, embeddings: Embeddings | None) -> dict[str, Figure]:
    """A file's figures."""
    detector = LexicalDetector()
    made = [d for said in conversations(path) for d in decisions(said, detector, embeddings)]
    return measure(made)


if __name__ == "__main__":
    sys.exit(main())
