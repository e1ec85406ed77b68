"""Made-up conversations for the benchmarks, the same ones every time.

A question has about 300 characters, an answer about 700. Both are sentences of words drawn from
the 3,000 most frequent words of Python's own language reference, as `pydoc` carries it, the most
frequent first. Half of a text are its common words, 28 % the subject's own 80 words, the rest any
words. So an answer compresses nearly as real ones do, no answer is like another one, and the local
detector sees most shifts.

A subject lasts 8 turns on average. Then comes a new one or, one time in four, one of the last four
again; half of the returns say so. Every answer passes its judge, each 40th at the second attempt.
"""

import random
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import accumulate
from pydoc_data.topics import topics
from typing import Any

VOCABULARY = 3_000
"""How many words there are to draw from."""


def _words() -> tuple[str, ...]:
    found = re.findall(r"\b[a-z]{2,14}\b", " ".join(topics.values()).lower())
    return tuple(word for word, _ in Counter(found).most_common(VOCABULARY))


WORDS = _words()
"""Most frequent first. Source: `pydoc_data.topics` of the running Python."""

QUESTION_CHARS = 300
ANSWER_CHARS = 700

COMMON = 150
"""How many words are common; they fill half of any text."""

SUBJECT_WORDS = 80
SUBJECT_TURNS = 8
RETURNS = 0.25
REMEMBERED = 4
FAILS_EACH = 40

SENTENCE_WORDS = (7, 18)
"""Fewest and most words of a sentence."""

_OPENINGS = ("what", "how", "why", "which", "could", "would", "when", "where", "is", "does")


@dataclass(frozen=True, slots=True)
class Deck:
    """Words to draw from, the first most often."""

    words: Sequence[str]
    """The first most frequent."""

    weights: Sequence[float] = field(init=False)
    """Running sums. Source: Zipf's law as Mandelbrot shifted it, 1 / (rank + 2.7)."""

    def __post_init__(self) -> None:
        shares = (1 / (rank + 2.7) for rank in range(1, len(self.words) + 1))
        object.__setattr__(self, "weights", list(accumulate(shares)))

    def draw(self, chance: random.Random) -> str:
        """One word."""
        return chance.choices(self.words, cum_weights=self.weights)[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One turn."""

    question: str
    """What the user says."""

    drafts: Sequence[str]
    """What the model answers, one for each attempt; all but the last fail."""


class Speech:
    """The exchanges of one conversation."""

    def __init__(self, seed: int = 0) -> None:
        self._chance = random.Random(seed)  # noqa: S311 - made-up talk guards no secret
        self._common, self._any = Deck(WORDS[:COMMON]), Deck(WORDS[COMMON:])

    def exchanges(self, turns: int) -> Iterator[Exchange]:
        """As many exchanges as asked."""
        chance, subjects, returned = self._chance, [self._subject()], False
        for turn in range(1, turns + 1):
            if turn > 1 and chance.random() < 1 / SUBJECT_TURNS:
                returned = len(subjects) > 1 and chance.random() < RETURNS
                subjects.append(
                    chance.choice(subjects[-1 - REMEMBERED : -1]) if returned else self._subject()
                )
            says_so = returned and chance.random() < 0.5
            returned = False
            attempts = 1 + (turn % FAILS_EACH == FAILS_EACH // 2)
            yield Exchange(
                question=self._question(subjects[-1], says_so=says_so),
                drafts=[self._text(subjects[-1], ANSWER_CHARS) for _ in range(attempts)],
            )

    def _subject(self) -> Deck:
        return Deck(self._chance.sample(self._any.words, SUBJECT_WORDS))

    def _question(self, subject: Deck, *, says_so: bool) -> str:
        opening = f"Back to the {subject.words[0]}: " if says_so else ""
        asked = f"{opening}{self._sentence(subject, self._chance.choice(_OPENINGS))}? "
        return asked + self._text(subject, QUESTION_CHARS - len(asked))

    def _text(self, subject: Deck, chars: int) -> str:
        """Return sentences of about this number of characters; the last may be short."""
        text = ""
        while len(text) < chars:
            text += f"{self._sentence(subject)}. "
        return f"{text[:chars].rsplit(' ', 1)[0].rstrip(' ,.')}."

    def _sentence(self, subject: Deck, first: str | None = None) -> str:
        length = self._chance.randint(*SENTENCE_WORDS)
        words = [first or self._word(subject), *(self._word(subject) for _ in range(length))]
        if self._chance.random() < 0.4:
            words[length // 2] += ","
        return " ".join(words).capitalize()

    def _word(self, subject: Deck) -> str:
        kind = self._chance.random()
        deck = self._common if kind < 0.5 else subject if kind < 0.78 else self._any
        return deck.draw(self._chance)


@dataclass(slots=True, kw_only=True)
class Cast:
    """A model and a judge that follow an exchange, and how long they took themselves."""

    drafts: list[str] = field(default_factory=list)
    """Of the exchange under way, those not yet given."""

    cpu_seconds: float = 0.0
    """Processor time of both, of all exchanges."""

    wall_seconds: float = 0.0
    """The same by the clock."""

    def answer(self, messages: Any) -> str:
        """The model: the next draft."""
        del messages
        with self._timed():
            return self.drafts.pop(0)

    def judge(self, messages: Any) -> dict[str, Any]:
        """The judge: a low score for every draft but the last."""
        del messages
        with self._timed():
            if self.drafts:
                reason = "The answer leaves out what was asked for and speaks of something else."
                return {"score": 0.2, "reason": reason}
            return {"score": 0.9, "reason": "The answer takes up the question and is complete."}

    @contextmanager
    def _timed(self) -> Iterator[None]:
        cpu, wall = time.process_time(), time.perf_counter()
        yield
        self.cpu_seconds += time.process_time() - cpu
        self.wall_seconds += time.perf_counter() - wall
