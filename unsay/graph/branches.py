"""The lines of a conversation, and how two of them differ."""

from collections.abc import Sequence
from dataclasses import dataclass

from langchain_core.messages import AnyMessage

from unsay.context.topics import by_topic
from unsay.history.line import Line
from unsay.history.tokens import Tokens, key_of, tokens_of
from unsay.transcript.marks import is_answer, is_question, mark_of, spoken
from unsay.transcript.text import preview, text_of

LIVE = "live"
"""Name of the line that the talk goes on from."""

SHOWN_CHARS = 60
"""How much of a message a list shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """One line of a conversation: the live one, one that was left, or another thread."""

    id: str
    """`live`, a cut's id, or a thread's."""

    kind: str
    """`live`, `thread`, or who or what made the cut."""

    base: str | None
    """Id of the last message that it has in common with the line it left; `None` for none."""

    reason: str
    """Why it was left: a judge's words, or the order; a thread's title."""

    created_at: str
    """ISO 8601, UTC: when it was left, or begun; empty for the live line."""

    turns: int
    """Answered questions of its own; for a thread, those after the fork."""

    messages: int
    """Messages of its own, drafts among them."""

    tokens: Tokens
    """What those messages cost."""

    words: str
    """Its first words, shortened."""

    def __str__(self) -> str:
        return (
            f"{self.id}  {self.kind}  {self.turns} turns, {self.messages} messages, "
            f"{self.tokens.total} tokens  {self.words}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of two lines that are compared."""

    name: str
    """As it was asked for."""

    messages: int
    """Of the whole line."""

    topics: tuple[str, ...]
    """Labels of topics that the other does not have."""

    only: tuple[AnyMessage, ...]
    """Messages that the other does not have, oldest first."""

    mean_score: float | None
    """Of its scored answers, from 0 to 1; `None` without any."""

    last_score: float | None
    """Of its newest scored answer; `None` without any."""

    tokens: Tokens
    """What the whole line cost."""

    def __str__(self) -> str:
        scores = f"mean {_score(self.mean_score)}, last {_score(self.last_score)}"
        head = f"{self.name}: {self.messages} messages, score {scores}, {self.tokens}"
        topics = [f"  topics of its own: {', '.join(self.topics)}"] if self.topics else []
        own = [f"  {each.type}: {preview(text_of(each), SHOWN_CHARS)}" for each in self.only]
        return "\n".join([head, *topics, *own])


@dataclass(frozen=True, slots=True, kw_only=True)
class Diff:
    """How two lines differ."""

    common: int
    """Messages at the beginning that both have."""

    a: Side
    """The first line."""

    b: Side
    """The second line."""

    def __str__(self) -> str:
        return f"common: {self.common} messages\n{self.a}\n{self.b}"


def _score(score: float | None) -> str:
    return "–" if score is None else f"{score:.2f}"


def compare(a: tuple[str, Line], b: tuple[str, Line]) -> Diff:
    """How two lines differ.

    Args:
        a: Its name and the line.
        b: The same of the other.
    """
    first, second = (spoken(line.messages) for _, line in (a, b))
    pairs = zip(first, second, strict=False)
    unlike = (i for i, (one, other) in enumerate(pairs) if key_of(one) != key_of(other))
    shorter = min(len(first), len(second))
    return Diff(common=next(unlike, shorter), a=_side(*a, b[1]), b=_side(*b, a[1]))


def _side(name: str, line: Line, other: Line) -> Side:
    there = {key_of(message) for message in spoken(other.messages)}
    said = spoken(line.messages)
    found = [mark_of(m).get("score") for m in said if is_answer(m)]
    scores = [score for score in found if score is not None]
    labels = labels_of(other)
    return Side(
        name=name,
        messages=len(said),
        topics=tuple(label for label in labels_of(line) if label not in labels),
        only=tuple(m for m in said if key_of(m) not in there),
        mean_score=sum(scores) / len(scores) if scores else None,
        last_score=scores[-1] if scores else None,
        tokens=tokens_of(said),
    )


def labels_of(line: Line) -> list[str]:
    """Labels of the topics that a line's messages belong to, in the order they came up."""
    labels = {each["id"]: each["label"] for each in line.topics}
    return [labels[topic] for topic in by_topic(line.messages, line.segments) if topic in labels]


def first_words(messages: Sequence[AnyMessage]) -> str:
    """The first question's words, without one the first message's."""
    said = spoken(messages)
    first = next((m for m in said if is_question(m)), said[0] if said else None)
    return "" if first is None else preview(text_of(first), SHOWN_CHARS)
