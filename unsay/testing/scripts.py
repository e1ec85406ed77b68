"""The replies of a scripted model, and which one a list of messages gets."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, NoReturn, TypeAlias, cast

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from unsay.arguments import configurable
from unsay.errors import ConfigurationError

_ATTEMPT = re.compile(r"^\s*(?:Attempt|試行)\s*(\d+)", re.MULTILINE)
_END = re.compile(
    r"(?:\A|\n\n)(?:The user's message ends here\.|利用者のメッセージはここまでです。)"
)
_BEFORE = re.compile(
    r"(?:[^<\n][^\n]*:\n"
    r'(?:<(summary|recalled|document) key="(\w+)">\n.*?\n</\1 key="\2">\n{0,2})+)+',
    re.DOTALL,
)
"""What contexts put before the user's words: a heading, and data between tags with a random key."""

_WIDE = r"\u3000-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef"  # scripts without spaces
_PIECE = re.compile(rf"\s*[{_WIDE}]{{1,2}}|\s*[^\s{_WIDE}]+|\s+")


@configurable
@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCalls:
    """A reply that calls tools, and the next reply, to their results.

    >>> look = ToolCalls(calls=[{"name": "trains", "args": {"to": "Kyoto"}}], then="At {result}.")
    >>> [type(step).__name__ for step in steps_of(look)]
    ['ToolCalls', 'str']
    """

    calls: Sequence[Mapping[str, Any]]
    """The calls of one message: each has a `name`, and may have `args` and an `id`."""

    then: "Reply | None" = None
    """The next step; `{result}` in its text is replaced by the results. `None` repeats the calls
    without end."""

    text: str = ""
    """The text of the message that makes the calls."""

    def __post_init__(self) -> None:
        if not self.calls:
            raise ConfigurationError(f"calls={self.calls!r}: name at least one tool to call")
        if isinstance(self.then, list | tuple):
            raise ConfigurationError(
                f"then={self.then!r}: give one reply. The list with one reply for each attempt is the "
                "whole reply: [ToolCalls(…, then=first), second]; the tool does not run again"
            )


@configurable
@dataclass(frozen=True, slots=True, kw_only=True)
class Truncated:
    """A reply that the provider cut off at its length limit: its finish reason is `length`."""

    text: str


@configurable
@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A call that fails, before it answers or in the middle of a stream.

    The same call made again fails again; a function for `script` can return this only once.

    >>> Fault(error=TimeoutError, after_tokens=2, text="Two days.").after_tokens
    2
    """

    error: BaseException | type[BaseException]
    after_tokens: int = 0
    """Chunks of `text` that a stream yields first; a call that does not stream yields none."""

    text: str = ""
    """The interrupted answer; needed only for `after_tokens`."""

    def __post_init__(self) -> None:
        most = len(tokens_of(self.text))
        if not 0 <= self.after_tokens <= most:
            problem = f"after_tokens={self.after_tokens!r}: text={self.text!r} has {most} tokens"
            raise ConfigurationError(f"{problem}; choose from 0 to {most}, or give a longer text")

    def strike(self) -> NoReturn:
        """Raise the scripted error, without the traceback of an earlier call."""
        raise self.error if isinstance(self.error, type) else self.error.with_traceback(None)


@configurable
@dataclass(frozen=True, slots=True, kw_only=True)
class Delay:
    """A reply that comes after `seconds`."""

    seconds: float
    """Slept in a thread, awaited in an event loop, before the first token; not negative."""

    reply: "float | Reply"
    """A number only for a `ScriptedJudge`."""

    def __post_init__(self) -> None:
        if not self.seconds >= 0:
            raise ConfigurationError(f"seconds={self.seconds!r}: give 0 or more")


Reply: TypeAlias = str | Mapping[str, Any] | AIMessage | ToolCalls | Truncated | Fault | Delay
"""Text, a JSON object (structured output), a complete message, or one of the above."""

Replies: TypeAlias = Reply | Sequence[Reply]
"""One reply for every attempt, or a list with one for each."""

Script: TypeAlias = Callable[[Sequence[BaseMessage]], Replies]  # any pure function of the messages


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One reply of a script; the reply to a tool's results is another line."""

    place: str
    """The key, the attempt and the step, as a text for error messages."""

    reply: Reply


def tokens_of(text: str) -> list[str]:
    """Return the pieces in which a text is streamed and counted; joined, they are the text.

    >>> tokens_of("Two days. 京都へ行く")
    ['Two', ' days.', ' 京都', 'へ行', 'く']
    """
    return _PIECE.findall(text)


def attempt_of(messages: Sequence[BaseMessage]) -> int:
    r"""Return which attempt at an answer a context asks for, 1 if it does not say.

    It is the largest number on lines that begin with `Attempt` or `試行`. Only system messages
    are read, and what unsay adds inside the newest user message, after the user's own words.

    >>> attempt_of([SystemMessage("Be kind.\nAttempt 2: it was too long."), HumanMessage("Hi")])
    2
    """
    texts = [str(message.text) for message in messages if isinstance(message, SystemMessage)]
    texts.extend(_END.split(_asked(messages), maxsplit=1)[1:])
    return max([1, *(int(number) for text in texts for number in _ATTEMPT.findall(text))])


def question_of(messages: Sequence[BaseMessage]) -> str:
    """Return the user's own words of the newest user message; empty if there are none.

    What a context adds before them (summaries, recalled messages, documents) or after them does not
    count.
    """
    return _END.split(_asked(messages), maxsplit=1)[0]


def _asked(messages: Sequence[BaseMessage]) -> str:
    question = next((str(m.text) for m in reversed(messages) if _is_users(m)), "")
    before = _BEFORE.match(question)
    return question[before.end() :] if before else question


def _is_users(message: BaseMessage) -> bool:
    return isinstance(message, HumanMessage) and not (
        isinstance(message.content, str) and _BEFORE.fullmatch(message.content)
    )


def results_after_question(messages: Sequence[BaseMessage]) -> int:
    """Return how many tool results follow the user's newest message."""
    newest = takewhile(lambda m: not _is_users(m), reversed(messages))
    return sum(isinstance(message, ToolMessage) for message in newest)


def key_for(table: Iterable[str], text: str) -> str | None:
    """Return the longest key that the text contains; `None` if it contains none.

    >>> key_for(["day", "days"], "How many days?")
    'days'
    """
    return max((key for key in table if key in text), key=len, default=None)


def steps_of(reply: Reply) -> list[Reply]:
    """Return the replies to the model calls of one answer, in order: tool calls, then the text.

    Without tool calls it is a list of the reply alone.
    """
    if isinstance(reply, Delay):
        return [reply, *steps_of(cast("Reply", reply.reply))[1:]]
    if isinstance(reply, ToolCalls) and reply.then is not None:
        return [reply, *steps_of(reply.then)]
    return [reply]


def lines_of(key: str | None, replies: Replies) -> list[list[Line]]:
    """Return the lines of `replies`: a list for each attempt, with a line for each step.

    `key` is that of `replies`, `None` for the default ones; the lines' names in errors have it.
    """
    return [
        [
            Line(place=f"{key!r} (attempt {attempt}, step {step})", reply=step_reply)
            for step, step_reply in enumerate(steps_of(reply), 1)
        ]
        for attempt, reply in enumerate(_attempts(replies), 1)
    ]


def line_for(key: str | None, replies: Replies, messages: Sequence[BaseMessage]) -> Line:
    """Return the line with which a script replies to these messages; `key` as in `lines_of`.

    Raises `AssertionError` if the attempt has no reply, or only some of the tool results are there.
    """
    attempts = lines_of(key, replies)
    attempt = attempt_of(messages) if _attempts(replies) is replies else 1
    if attempt > len(attempts):
        raise AssertionError(
            f"attempt {attempt} at {question_of(messages)!r}, but {len(attempts)} are scripted"
        )
    lines, results = attempts[attempt - 1], results_after_question(messages)
    for line in lines[:-1]:
        if not results:
            return line
        step = line.reply
        while isinstance(step, Delay):
            step = cast("Reply", step.reply)
        width = len(cast("ToolCalls", step).calls)
        if results < width:
            raise AssertionError(f"{results} of {width} tool results: send all of them or none")
        results -= width
    return lines[-1]


def _attempts(replies: Replies) -> Sequence[Reply]:
    several = isinstance(replies, Sequence) and not isinstance(replies, str)
    return cast("Sequence[Reply]", replies) if several else [cast("Reply", replies)]
