"""Answers of a file of conversations, and ways to make them bad."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from report import unreadable

from unsay.protocols import Exchange

EARLIER = 3
"""How many earlier exchanges are shown, as in the product."""

KEPT_SHARE = 0.6
"""How much of an answer a truncation leaves, from its beginning."""

DROPPED_WORD = 10
"""A near repetition omits one of this number of words, in Japanese of characters."""

LONG_ENOUGH = 80
"""Characters from which on an English answer is truncated; half as many in Japanese."""

LOOPS = 4
"""How often a loop says its sentence."""

REFUSALS = {
    "en": (
        "I'm sorry, but I can't help with that.",
        "I cannot assist with that request.",
        "As an AI language model, I am unable to answer that question.",
    ),
    "ja": (
        "申し訳ありませんが、その質問にはお答えできません。",
        "すみません、お手伝いできません。",
        "申し訳ございませんが、そのご要望にはお応えできかねます。",
    ),
}
"""What a refusal says, by language."""

EMPTIES = ("", " \n", "...", "。")
"""What an empty answer says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One answer to be judged."""

    talk: str
    """Id of its conversation."""

    language: str
    """`ja` or another."""

    exchange: Exchange
    """The answer with its question and a few earlier exchanges."""

    votes: tuple[int, int, int] | None
    """Annotators who said fine, possible breakdown, breakdown; `None` without labels."""


PADDING = {
    "en": " I hope this helps. Let me know if you have any other questions, and I will be happy to "
    "explain it in more detail.",
    "ja": "以上、お役に立てば幸いです。ほかにもご質問がありましたら、お気軽にお知らせください。さらに詳しくご説明いたします。",
}
"""Phrases that make an answer longer and not better, by language."""


def padded(case: "Case") -> Exchange:
    """Return an exchange whose answer ends with the padding, twice."""
    padding = PADDING["ja" if case.language == "ja" else "en"]
    return replace(case.exchange, answer=case.exchange.answer + 2 * padding)


Corruption = Callable[[Sequence[Case], int], str | None]


def cases(path: Path) -> Iterator[Case]:
    """Read the answers of a file.

    Raises:
        ValueError: A line is not of the format; the message names it.
    """
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            try:
                if line.strip():
                    yield from _answers(json.loads(line))
            except (AttributeError, LookupError, TypeError, ValueError) as error:
                raise unreadable(path, number, error) from error


def _answers(row: Mapping[str, Any]) -> Iterator[Case]:
    """Give a row's answers; a question in several messages is one question."""
    votes = row.get("otx") or [None] * len(row["utts"])
    earlier: list[tuple[str, str]] = []
    asked: list[str] = []
    for utterance, counted in zip(row["utts"], votes, strict=True):
        if utterance["role"] == "user":
            asked.append(utterance["text"])
            continue
        question, answer = "\n".join(asked), utterance["text"]
        seen = Exchange(question=question, answer=answer, earlier=tuple(earlier[-EARLIER:]))
        yield Case(
            talk=str(row["id"]),
            language=str(row.get("lang", "en")),
            exchange=seen,
            votes=None if counted is None else (counted[0], counted[1], counted[2]),
        )
        earlier.append((question, answer))
        asked = []


def _emptied(_: Sequence[Case], number: int) -> str:
    return EMPTIES[number % len(EMPTIES)]


def _refused(good: Sequence[Case], number: int) -> str:
    refusals = REFUSALS["ja" if good[number].language == "ja" else "en"]
    return refusals[number % len(refusals)]


def _echoed(good: Sequence[Case], number: int) -> str | None:
    return good[number].exchange.question or None


def _looped(good: Sequence[Case], number: int) -> str | None:
    parts = re.split(r"(?<=[.!?])\s|(?<=[。！？])|\n", good[number].exchange.answer)
    said = [part for part in parts if part.strip()]
    return " ".join([said[0]] * LOOPS) if said else None


def _repeated(good: Sequence[Case], number: int) -> str | None:
    earlier = good[number].exchange.earlier
    return earlier[-1][1] if earlier else None


def _nearly_repeated(good: Sequence[Case], number: int) -> str | None:
    answer = _repeated(good, number)
    if answer is None:
        return None
    return dropped(answer, good[number].language, every=DROPPED_WORD, start=number)


def dropped(answer: str, language: str, *, every: int, start: int) -> str:
    """Return an answer without one of `every` words, in Japanese characters, counted from `start`."""
    joint = "" if language == "ja" else " "
    words = answer.split(joint) if joint else list(answer)
    return joint.join(word for at, word in enumerate(words, start) if at % every)


def _truncated(good: Sequence[Case], number: int) -> str | None:
    case = good[number]
    answer = case.exchange.answer
    enough = LONG_ENOUGH / 2 if case.language == "ja" else LONG_ENOUGH
    return answer[: int(len(answer) * KEPT_SHARE)] if len(answer) >= enough else None


def _strayed(good: Sequence[Case], number: int) -> str | None:
    """Give the answer half a file away, or the next one of another conversation."""
    start = number + len(good) // 2
    turned = (good[(start + step) % len(good)] for step in range(len(good)))
    others = (case for case in turned if case.talk != good[number].talk)
    return next((case.exchange.answer for case in others), None)


CORRUPTIONS: Mapping[str, Corruption] = {
    "empty": _emptied,
    "refusal": _refused,
    "echo": _echoed,
    "loop": _looped,
    "repetition": _repeated,
    "near_repetition": _nearly_repeated,
    "truncation": _truncated,
    "irrelevant": _strayed,
}
"""Functions that make an answer bad, by name; they return `None` if they cannot."""
