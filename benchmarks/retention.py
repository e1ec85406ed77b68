"""Measure what a view still holds of what is asked for: `python benchmarks/retention.py FILE…`.

A file holds one conversation a line: `{"id", "turns": [{"id", "speaker", "text"}], "qa":
[{"question", "evidence": [turn ids]}]}`. Files of labelled threads, `{"id", "utts": [{"role",
"text"}], "shift": [0 or 1 per utterance]}`, are joined: each stretch between two shifts becomes a
part of one long conversation, its last user turn a question, and its earlier turns the evidence.

Every question is asked at the conversation's end, and the view is built as the product builds it:
primers and recents as `ThreeStage` keeps them, then what `recall` brings back, then, where room is
left, the newest of the rest. Where primers and recents would take more than half of the room, half
as many recents are kept, and so on. A view takes at most a share of the conversation's tokens.

- `recall_at_10`, `recall_at_25`, `recall_at_37_5`: share of a question's evidence turns that stand
  word for word in the view, at that percentage of the tokens; the mean over the questions.
- `whole_at_…`: share of the questions whose evidence is all there.
- `sliding_at_…`: as `recall_at_…`, for a window of the newest turns.
- `three_stage_at_…`: likewise for primers and recents alone, without summary or recall: the rule
  of Zhang 2026, chapter 7.4.
- `live_recall`: the same share in the primers, the recents and what the live context recalls by its
  default settings, whatever share of the tokens this is; `live_tokens` are those of the quotation.
- `cpu_ms_per_question`: processor time of one recall, the index standing.

Intervals are of 95 %, by conversation; one conversation has none.

Evidence that names no turn is passed over, and so is a question that is left without any.
With `--embeddings MODULE:NAME`, a LangChain `Embeddings` or what makes one, recall goes by meaning
as well.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

from langchain_core.embeddings import Embeddings
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from report import Figure, Figures, loaded, resampled, run, unreadable
from views import LIVE_BARS, RECALL_TOKENS

from unsay.context.plan import PlanContext
from unsay.context.windows import ThreeStage
from unsay.effects import drive
from unsay.prompts.catalogue import Texts
from unsay.retrieval.quotation import quoting
from unsay.retrieval.selection import Recalled, recall
from unsay.retrieval.terms import RecallIndex, index_of
from unsay.retrieval.vectors import Vectors, embed
from unsay.tokens.counter import TokenCounter

SHARES = {"10": 0.1, "25": 0.25, "37_5": 0.375}
"""Of a conversation's tokens, under the names that the figures have."""

JOINED = 60
"""How many stretches of labelled threads make one conversation."""

ROLES = {"user": HumanMessage, "human": HumanMessage, "assistant": AIMessage, "ai": AIMessage}
"""Speakers that are no names."""

RECALL_SHARE = 0.5
"""What is left for recall of a view's tokens, at least; where recents take more they are halved."""

RULES = ("recall", "whole", "sliding", "three_stage")

TEXTS = Texts("en")

COUNTER = TokenCounter()


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked at a conversation's end."""

    text: str
    """The question."""

    evidence: frozenset[str]
    """Ids of the messages that answer it; at least one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadHandle:
    """One conversation and what is asked about it."""

    messages: tuple[AnyMessage, ...]
    """Oldest first."""

    questions: tuple[Question, ...]
    """Any number."""

    index: RecallIndex
    """Of the messages."""

    costs: Mapping[str, int]
    """Tokens of each message, by its id, in company."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """How much evidence the views of one question hold."""

    kept: Mapping[str, float]
    """By the name of the figure: from 0 to 1."""

    live_tokens: int
    """Of the quotation that the live context would have."""

    seconds: float
    """Processor time of its recalls, each."""


def talks(path: Path) -> list[ThreadHandle]:
    """Read a file's conversations.

    Raises:
        ValueError: A line is of neither form.
    """
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    rows = [_row(path, number, line) for number, line in enumerate(lines, 1)]
    threads = [row for row in rows if "utts" in row]
    return [*(_talk(row) for row in rows if "turns" in row), *_joined(threads)]


def _row(path: Path, number: int, line: str) -> dict[str, Any]:
    """Read one line."""
    try:
        row = json.loads(line)
        if "utts" in row:
            _ = [(each["role"], each["text"]) for each in row["utts"]], row["shift"]
        else:
            _ = [(each["id"], each["speaker"], each["text"]) for each in row["turns"]]
            _ = [(each["question"], each["evidence"]) for each in row["qa"]]
    except (ValueError, KeyError, TypeError) as error:
        raise unreadable(path, number, error) from error
    return dict(row)


def _talk(row: Mapping[str, Any]) -> ThreadHandle:
    """Make a conversation of turns and questions."""
    speakers = list(dict.fromkeys(turn["speaker"] for turn in row["turns"]))
    messages = [_message(turn, speakers.index(turn["speaker"])) for turn in row["turns"]]
    ids = {message.id for message in messages}
    asked = [
        Question(text=each["question"], evidence=frozenset(map(str, each["evidence"])) & ids)
        for each in row["qa"]
    ]
    return _counted(messages, [each for each in asked if each.evidence])


def _message(turn: Mapping[str, Any], speaker: int) -> AnyMessage:
    """Make a message of a turn; of two people with names, the second one answers."""
    name = str(turn["speaker"])
    kind = ROLES.get(name.lower())
    if kind is not None:
        return kind(turn["text"], id=str(turn["id"]))
    kind = AIMessage if speaker % 2 else HumanMessage
    return kind(turn["text"], id=str(turn["id"]), name=name)


def _counted(messages: Sequence[AnyMessage], questions: Sequence[Question]) -> ThreadHandle:
    """Make a conversation, with its index and its messages' costs."""
    opening = sum(COUNTER.count([m]) for m in messages[:1] * 2) - COUNTER.count(messages[:1] * 2)
    return ThreadHandle(
        messages=tuple(messages),
        questions=tuple(questions),
        index=index_of(messages),
        costs={each.id or "": COUNTER.count([each]) - opening for each in messages},
    )


def _joined(rows: Sequence[Mapping[str, Any]]) -> Iterator[ThreadHandle]:
    """Join labelled threads; a stretch without two user turns has no question."""
    parts = [part for row in rows for part in _stretches(row)]
    for start in range(0, len(parts), JOINED):
        messages: list[AnyMessage] = []
        questions: list[Question] = []
        for number, part in enumerate(parts[start : start + JOINED]):
            said = [
                ROLES.get(each["role"], AIMessage)(each["text"], id=f"{number}:{place}")
                for place, each in enumerate(part[:-1])
            ]
            messages += said
            ids = frozenset(each.id or "" for each in said)
            questions.append(Question(text=part[-1]["text"], evidence=ids))
        yield _counted(messages, questions)


def _stretches(row: Mapping[str, Any]) -> Iterator[list[dict[str, Any]]]:
    """Give the utterances between shifts, each stretch up to its last user turn."""
    starts = [0, *(i for i, shift in enumerate(row["shift"]) if shift and i), len(row["utts"])]
    for first, last in pairwise(starts):
        part = row["utts"][first:last]
        while part and part[-1]["role"] != "user":
            part = part[:-1]
        if len(part) > 1:
            yield part


def answers(talk: ThreadHandle, embeddings: Embeddings | None) -> Iterator[Answered]:
    """Build every view of each question and look for the evidence."""
    known = drive(embed(embeddings, "?", talk.messages, known={})).messages if embeddings else {}
    total = sum(talk.costs.values())
    budgets = {name: int(share * total) for name, share in SHARES.items()}
    shown = {name: three_stage(talk, int(b * (1 - RECALL_SHARE))) for name, b in budgets.items()}
    alone = {name: three_stage(talk, budget) for name, budget in budgets.items()}
    compacted = three_stage(talk, total)
    for question in talk.questions:
        vectors = drive(embed(embeddings, question.text, (), known=known)) if embeddings else None
        kept: dict[str, float] = {}
        started = time.process_time()
        for name, budget in budgets.items():
            recalled = with_recall(talk, question, shown[name], budget, vectors)
            kept[f"recall_at_{name}"] = _held(question, recalled)
        seconds = (time.process_time() - started) / len(SHARES)
        for name, budget in budgets.items():
            kept[f"whole_at_{name}"] = float(kept[f"recall_at_{name}"] == 1)
            kept[f"sliding_at_{name}"] = _held(question, newest(talk, set(), budget))
            kept[f"three_stage_at_{name}"] = _held(question, alone[name])
        found = live(talk, question, compacted, vectors)
        recalled = {message.id or "" for message in found.messages}
        kept["live_recall"] = _held(question, compacted | recalled)
        yield Answered(kept=kept, live_tokens=found.tokens, seconds=seconds)


def live(
    talk: ThreadHandle, question: Question, shown: set[str], vectors: Vectors | None
) -> Recalled:
    """Give what the live context recalls beside what is shown, by the default settings."""
    return recall(
        question.text,
        talk.messages,
        budget_tokens=RECALL_TOKENS,
        count=lambda each: COUNTER.count([quoting(each, TEXTS)]) if each else 0,
        shown=shown,
        index=talk.index,
        vectors=vectors,
        bars=LIVE_BARS,
    )


def three_stage(talk: ThreadHandle, room: int) -> set[str]:
    """Give the primers and recents of the default strategy, half the recents where room is short."""
    strategy = ThreeStage()
    now = PlanContext(messages=talk.messages, count=COUNTER.count, texts=TEXTS)
    recents = strategy.recents
    while True:
        primers = strategy.primers if recents else 0
        summarized = {m.id for m in strategy.middle(now, primers=primers, recents=recents)}
        shown = {id_ for id_ in talk.costs if id_ not in summarized}
        if not recents or sum(talk.costs[id_] for id_ in shown) <= room:
            return shown
        recents //= 2


def with_recall(
    talk: ThreadHandle, question: Question, shown: set[str], budget: int, vectors: Vectors | None
) -> set[str]:
    """Give what is shown, what is recalled of the rest, and as many of the newest as then fit."""
    recalled = recall(
        question.text,
        talk.messages,
        budget_tokens=max(0, budget - sum(talk.costs[id_] for id_ in shown)),
        count=COUNTER.count,
        shown=shown,
        index=talk.index,
        vectors=vectors,
    )
    return newest(talk, shown | {message.id or "" for message in recalled.messages}, budget)


def newest(talk: ThreadHandle, shown: set[str], budget: int) -> set[str]:
    """Give what is shown, and the newest of the rest without a gap, as far as there is room."""
    found = set(shown)
    left = budget - sum(talk.costs[id_] for id_ in shown)
    for message in reversed(talk.messages):
        id_ = message.id or ""
        if id_ not in found:
            left -= talk.costs[id_]
            if left < 0:
                break
            found.add(id_)
    return found


def _held(question: Question, shown: set[str]) -> float:
    """Give the share of the evidence that is shown."""
    return len(question.evidence & shown) / len(question.evidence)


def measure(talks: Sequence[Sequence[Answered]]) -> dict[str, Figure]:
    """Give the figures of a file's questions; `talks` has those of each conversation."""
    names = [*(f"{rule}_at_{share}" for rule in RULES for share in SHARES), "live_recall"]
    found = {name: [[each.kept[name] for each in talk] for talk in talks] for name in names}
    found["live_tokens"] = [[each.live_tokens for each in talk] for talk in talks]
    figures = {name: _mean(values) for name, values in found.items()}
    seconds = [each.seconds for talk in talks for each in talk]
    figures["cpu_ms_per_question"] = Figure(value=1000 * fmean(seconds), items=len(seconds))
    return figures


def _mean(talks: Sequence[Sequence[float]]) -> Figure:
    """Give the mean of the values of some conversations, with its interval, and their number."""

    def mean(sample: Sequence[Sequence[float]]) -> float:
        return fmean(value for talk in sample for value in talk)

    return Figure(value=mean(talks), items=sum(map(len, talks)), interval=resampled(talks, mean))


def table(rows: Mapping[str, Figures]) -> str:
    """Give the figures as a table for people: a line for each rule of each file."""
    lines = [f"{'':<16}" + "".join(f"{share.replace('_', '.') + ' %':>20}" for share in SHARES)]
    for name, figures in rows.items():
        items = figures["recall_at_10"].items
        cpu = _cell(figures["cpu_ms_per_question"], 1)
        lines.append(f"{name} ({items} questions, {cpu} ms each)")
        for rule in RULES:
            cells = (_cell(figures[f"{rule}_at_{share}"], 100) for share in SHARES)
            lines.append(f"  {rule:<14}" + "".join(f"{cell:>20}" for cell in cells))
        held, tokens = _cell(figures["live_recall"], 100), _cell(figures["live_tokens"], 1)
        lines.append(f"  as the live context cuts it: {held} % in {tokens} recalled tokens")
    return "\n".join(lines)


def _cell(figure: Figure, times: int) -> str:
    """Give a value with its interval, or a dash."""
    if figure.value is None:
        return "-"
    bounds = [f"{times * bound:.1f}" for bound in figure.interval or ()]
    return f"{times * figure.value:.1f}" + (f" ({'-'.join(bounds)})" if bounds else "")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the files and print; give the exit status."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--embeddings", type=loaded)
    options, rest = parser.parse_known_args(arguments)
    return run(
        partial(_figures, embeddings=options.embeddings),
        table,
        description=__doc__ or "",
        wanted='Give one or more files of conversations, one JSON object a line with "turns" and "qa"',
        arguments=rest,
    )


def _figures(path: Path, *, embeddings: Embeddings | None) -> dict[str, Figure]:
    """Give a file's figures.

    Raises:
        ValueError: The file has no question with evidence, or a line is not of the format.
    """
    found = [list(answers(talk, embeddings)) for talk in talks(path)]
    asked = [talk for talk in found if talk]
    if not asked:
        raise ValueError(f"{path}: no question has evidence; --help has the format")
    return measure(asked)


if __name__ == "__main__":
    sys.exit(main())
