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

Intervals are of 95 %, by conversation: turns of one conversation count as one sample.

With `--embeddings MODULE:NAME`, a LangChain `Embeddings` or a function that makes one, the earlier topic
is chosen by meaning, as the product does with `build_graph(embeddings=…)`.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from langchain_core.embeddings import Embeddings
from report import Figure, Figures, loaded, resampled, run, share_in, shown, unreadable

from unsay.effects import drive
from unsay.judging.topic_detector import LexicalDetector, likeliest_return, read
from unsay.memory.topics import nearest_in_meaning
from unsay.protocols import TopicMemory, TopicShift

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
                raise unreadable(path, number, error) from error


def _utterances(row: dict[str, Any]) -> list[Utterance]:
    """Give a row's utterances with the number of their subject."""
    kinds = row.get("kind") or [""] * len(row["utts"])
    if len(row["shift"]) != len(row["utts"]) or len(kinds) != len(row["utts"]):
        raise ValueError("'shift' and 'kind' need one entry for each of the 'utts'")
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


def measure(talks: Sequence[Sequence[Decision]]) -> dict[str, Figure]:
    """Give the figures of one file's decisions, with intervals by conversation."""
    made = joined(talks)
    moved, shifts = _hits(talks, _moved), _hits(talks, lambda d: d.shift)
    returns = _hits(talks, lambda d: d.returns)
    back = [(talk, d) for talk, d in returns if d.answered.kind == "back"]
    seconds = sum(d.seconds for d in made)

    def share(found: Sequence[tuple[str, Decision]], counts: Callable[[Decision], bool]) -> Figure:
        return share_in([(talk, counts(d)) for talk, d in found])

    return {
        "macro_f1": Figure(
            value=f1(made),
            items=len(made),
            interval=resampled(talks, lambda sample: f1(joined(sample))),
        ),
        "precision": share(moved, lambda d: d.shift),
        "recall": share(shifts, _moved),
        "return_recall": share(returns, lambda d: d.answered.kind == "back"),
        "return_shift_recall": share(returns, _moved),
        "return_which": share(back, lambda d: d.right_topic),
        "return_ranked": share(returns, lambda d: d.ranked_right),
        "cpu_ms_per_decision": Figure(
            value=1000 * seconds / len(made) if made else None, items=len(made)
        ),
    }


def joined(talks: Sequence[Sequence[Decision]]) -> list[Decision]:
    """Return the decisions of all conversations."""
    return [d for talk in talks for d in talk]


def _hits(
    talks: Sequence[Sequence[Decision]], counts: Callable[[Decision], bool]
) -> list[tuple[str, Decision]]:
    """Return the decisions that count, each after the number of its conversation."""
    return [(str(number), d) for number, talk in enumerate(talks) for d in talk if counts(d)]


def _moved(decision: Decision) -> bool:
    return decision.answered.kind != "same"


def f1(made: Sequence[Decision]) -> float | None:
    """Return the F1 of the shifts; `None` where there are none."""
    moved = sum(d.answered.kind != "same" for d in made)
    shifts = sum(d.shift for d in made)
    hits = sum(d.shift and d.answered.kind != "same" for d in made)
    return 2 * hits / (moved + shifts) if moved + shifts else None


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
    """Return a file's figures.

    Raises:
        ValueError: The file has no decisions, or a line is not of the format.
    """
    detector = LexicalDetector()
    talks = [list(decisions(said, detector, embeddings)) for said in conversations(path)]
    if not any(talks):
        raise ValueError(
            f"{path}: no conversation has two turns of the role 'user'; --help has the format"
        )
    return measure(talks)


if __name__ == "__main__":
    sys.exit(main())
