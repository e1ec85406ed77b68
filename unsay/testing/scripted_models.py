"""A chat model, a judge and a topic detector that follow a script.

Their answers depend only on the messages they are sent: no hidden cursor, clock or randomness. So a
replay after a rollback, a fork or a second thread is answered alike. They are strict: an unscripted
call is an `AssertionError`, and so is, by `assert_all_used`, a reply that nobody asked for.
"""

import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from langchain_core.messages import BaseMessage
from pydantic import Field, SkipValidation, model_validator

from unsay.errors import ConfigurationError
from unsay.testing.base import Scripted
from unsay.testing.scripts import (
    Line,
    Replies,
    Reply,
    Script,
    key_for,
    line_for,
    lines_of,
    question_of,
)
from unsay.types import ShiftKind, TopicMemory, TopicShift

_ANSWER = re.compile(r"<answer\b[^>]*>(.*?)</answer\b[^>]*>", re.DOTALL)


class ScriptedChat(Scripted):
    r"""A chat model that looks its reply up by the newest question and the attempt at it.

    The key is the question itself, else the longest one that is part of it. Its value is a reply for
    every attempt, or a list with one for each; `attempt_of` reads the attempt from the retry prompt.
    `ScriptedChat()` refuses every call.

    >>> chat = ScriptedChat(replies={"How long": ["Buy a car.", "Two days."]}, default="I see.")
    >>> chat.invoke("How long do we stay?").content
    'Buy a car.'
    >>> chat.invoke([("system", "Try again.\nAttempt 2"), ("human", "How long?")]).content
    'Two days.'
    >>> chat.invoke("Thanks!").content
    'I see.'
    >>> chat.assert_all_used()
    """

    replies: SkipValidation[Mapping[str, Replies]] = Field(default_factory=dict)
    """By question."""

    default: SkipValidation[Replies | Script | None] = None
    """For every other question; `None` makes such a question an `AssertionError`."""

    script: SkipValidation[Script | None] = None
    """All replies as one function, instead of `replies` and `default`."""

    @model_validator(mode="after")
    def _one_script(self) -> Self:
        if self.script is not None and (self.replies or self.default is not None):
            raise ConfigurationError("script= stands alone: move replies and default into it")
        return self

    def _reply(self, messages: Sequence[BaseMessage]) -> Reply:
        line = self._line(messages)
        if line is not None:
            return line.reply
        others = self.default if self.script is None else self.script
        replies = others(messages) if callable(others) else others
        if replies is None:
            raise AssertionError(f"no reply is scripted to {question_of(messages)!r}")
        return line_for(None, replies, messages).reply

    def _line(self, messages: Sequence[BaseMessage]) -> Line | None:
        key = key_for(self.replies, question_of(messages))
        return None if key is None else line_for(key, self.replies[key], messages)

    def _place(self, messages: Sequence[BaseMessage]) -> str | None:
        if line := self._line(messages):
            return line.place
        self._reply(messages)
        return None

    def _places(self) -> list[str]:
        scripted = [lines_of(*item) for item in self.replies.items()]
        return [line.place for lines in scripted for steps in lines for line in steps]


class ScriptedJudge(Scripted):
    r"""A judge that looks the score up by a part of the answer it is to judge.

    The answer is what stands in the prompt's last pair of `answer` tags, else the whole newest
    human message. The longest part of it that has a score wins.

    >>> judge = ScriptedJudge(scores={"Buy a car": 0.1}, default=0.8)
    >>> judge.invoke('<answer key="k">Buy a car.</answer key="k"> Grade it.').content
    '{"score": 0.1, "reason": "scripted for \'Buy a car\'"}'
    >>> judge.invoke('<answer key="k">Two days.</answer key="k"> Grade it.').content
    '{"score": 0.8, "reason": "scripted by default"}'
    """

    scores: SkipValidation[Mapping[str, float | Reply]] = Field(default_factory=dict)
    """By part of an answer: a score of any size, or any other reply, such as `"nan"`."""

    default: SkipValidation[float | Reply] = 0.9
    """For every other answer."""

    def _reply(self, messages: Sequence[BaseMessage]) -> Reply:
        key = key_for(self.scores, _answer(messages))
        score = self.default if key is None else self.scores[key]
        if not isinstance(score, int | float):
            return score
        why = "scripted by default" if key is None else f"scripted for {key!r}"
        return {"score": score, "reason": why}

    def _place(self, messages: Sequence[BaseMessage]) -> str | None:
        key = key_for(self.scores, _answer(messages))
        return None if key is None else repr(key)

    def _places(self) -> list[str]:
        return [repr(key) for key in self.scores]


def _answer(messages: Sequence[BaseMessage]) -> str:
    question = question_of(messages)
    prompt = "\n".join(str(message.text) for message in messages)
    found = _ANSWER.findall(question) or _ANSWER.findall(prompt) or [question]
    return html.unescape(found[-1])


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedDetector:
    """A detector that looks a question's topic up by a part of its text.

    >>> kyoto = TopicMemory(topic_id="t1", texts=("Kyoto?",))
    >>> detector = ScriptedDetector(shifts={"Osaka": "new"})
    >>> detector.detect("And Osaka?", kyoto, []).kind
    'new'
    >>> detector.detect("How long?", kyoto, []).kind
    'same'
    """

    shifts: Mapping[str, ShiftKind | TopicShift] = field(default_factory=dict)
    """By part of a question, the longest wins; the word `back` means the topic left last."""

    default: ShiftKind | TopicShift = "same"
    """For every other question."""

    def detect(
        self, question: str, current: TopicMemory, others: Sequence[TopicMemory]
    ) -> TopicShift:
        """Place a question among the topics, as scripted.

        Raises:
            AssertionError: The script goes back to a topic that is not among `others`.
        """
        key = key_for(self.shifts, question)
        shift = _shift(self.default if key is None else self.shifts[key], others)
        earlier = [topic.topic_id for topic in others]
        if shift.kind == "back" and shift.topic_id not in earlier:
            raise AssertionError(f"{question!r} goes back to {shift.topic_id!r}, not in {earlier}")
        return shift


def _shift(scripted: ShiftKind | TopicShift, others: Sequence[TopicMemory]) -> TopicShift:
    if isinstance(scripted, TopicShift):
        return scripted
    last = others[0].topic_id if scripted == "back" and others else None
    return TopicShift(kind=scripted, similarity=float(scripted != "new"), topic_id=last)
