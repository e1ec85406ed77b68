"""A chat model and a judge that follow a script.

They are strict: an unscripted call raises `AssertionError`, and so does `assert_all_used` if a
reply was never used.
"""

import asyncio
import hashlib
import html
import json
import re
import time
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any, Self, TypeAlias, cast, get_args

from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.messages.tool import ToolCall, ToolMessage, invalid_tool_call, tool_call
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import Field, PrivateAttr, SkipValidation, model_validator

from unsay.arguments import configurable, described, fits, hint
from unsay.errors import ConfigurationError
from unsay.protocols import ShiftKind, TopicMemory, TopicShift
from unsay.testing import scripts


@configurable
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
    """By part of a question, of which the longest counts; `back` means the topic left last."""

    default: ShiftKind | TopicShift = "same"
    """The shift of all other questions."""

    def __post_init__(self) -> None:
        kinds = get_args(ShiftKind)
        for shift in (*self.shifts.values(), self.default):
            if isinstance(shift, str) and shift not in kinds:
                words = ", ".join(map(repr, kinds))
                raise ConfigurationError(
                    f"ScriptedDetector: {shift!r} is no shift{hint(shift, kinds)}: write one of {words}"
                )

    def detect(
        self, question: str, current: TopicMemory, others: Sequence[TopicMemory]
    ) -> TopicShift:
        """Return the shift that the script has for a question, or `default` if it has none.

        Raises:
            AssertionError: The script goes back to a topic that is not among `others`.
        """
        key = scripts.key_for(self.shifts, question)
        shift = self.default if key is None else self.shifts[key]
        earlier = [topic.topic_id for topic in others]
        if not isinstance(shift, TopicShift):
            last = earlier[0] if shift == "back" and earlier else None
            shift = TopicShift(kind=shift, similarity=float(shift != "new"), topic_id=last)
        if shift.kind == "back" and shift.topic_id not in earlier:
            raise AssertionError(f"{question!r} goes back to {shift.topic_id!r}, not in {earlier}")
        return shift


_ANSWER = re.compile(r"<answer\b[^>]*>(.*?)</answer\b[^>]*>", re.DOTALL)

Tool: TypeAlias = dict[str, Any] | type | Callable[..., Any] | BaseTool
"""What LangChain accepts as a tool."""


class Scripted(BaseChatModel):
    """Base class of scripted chat models, whose reply depends on the messages alone.

    An unknown field, or a value of a wrong type, raises `ConfigurationError`.
    """

    model_name: str = "scripted"

    _calls: list[list[BaseMessage]] = PrivateAttr(default_factory=list)

    @model_validator(mode="before")
    @classmethod
    def _known_fields(cls, given: Any) -> Any:
        for name, value in given.items() if isinstance(given, Mapping) else ():
            if name not in cls.model_fields:
                raise ConfigurationError(
                    f"{cls.__name__} has no field {name!r}{hint(name, cls.model_fields)}"
                )
            annotation = cls.model_fields[name].annotation
            if annotation is not None and not fits(value, annotation):
                kind = described(annotation)
                raise ConfigurationError(f"{cls.__name__}: {name} must be {kind}, got {value!r}")
        return given

    @property
    def calls(self) -> list[list[BaseMessage]]:
        """The messages of every call, oldest first, including calls of copies with bound tools."""
        return self._calls

    def assert_all_used(self) -> None:
        """Raise `AssertionError` if a scripted reply was never used, or a call had no reply.

        A call counts also if its error was caught. Replies of `default` or `script` may stay unused.
        """
        used_places = {self._line(call).place for call in self._calls}
        if unused_places := [place for place in self._places() if place not in used_places]:
            raise AssertionError(f"scripted, but never asked for: {'; '.join(unused_places)}")

    def bind_tools(
        self, tools: Sequence[Tool], *, tool_choice: str | None = None, **kwargs: Any
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Return a copy with tools bound, whose calls are recorded in `calls` of this model.

        A `ToolCalls` of a tool that is not bound raises `AssertionError` when it is the reply; an
        `AIMessage` of the script is not checked. `tool_choice` does not change a reply.
        """
        formats = [convert_to_openai_tool(tool) for tool in tools]
        # Nothing else tells that LangChain's `with_structured_output` makes this call.
        structured = "ls_structured_output_format" in kwargs
        return self.bind(tools=formats, tool_choice=tool_choice, structured=structured, **kwargs)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    @abstractmethod
    def _line(self, messages: Sequence[BaseMessage]) -> scripts.Line:
        """Return the reply to the messages; `AssertionError` if the script has none."""

    @abstractmethod
    def _places(self) -> list[str]: ...

    def _take(self, messages: list[BaseMessage], kwargs: Mapping[str, Any]) -> "_Take":
        """Record a call, and return its reply or its error, and after how many seconds.

        Raises `AssertionError` if the script has no reply to the messages, or calls an unbound tool.
        """
        self._calls.append(messages)
        reply, seconds = self._line(messages).reply, 0.0
        while isinstance(reply, scripts.Delay):
            seconds += reply.seconds
            reply = cast("scripts.Reply", reply.reply)
        if isinstance(reply, scripts.Fault):
            return _Take(seconds=seconds, message=AIMessage(reply.text), fault=reply)
        tools = [tool.get("function", tool) for tool in kwargs.get("tools", ())]
        names = [str(tool.get("name") or tool["type"]) for tool in tools]
        schema = names[0] if kwargs.get("structured") else None
        request = _Request(messages=messages, tool_names=names, schema_name=schema)
        message = _with_metadata(request.message_for(reply), messages, self.model_name)
        return _Take(seconds=seconds, message=message, fault=None)

    def _generate(self, messages: list[BaseMessage], *_: Any, **kwargs: Any) -> ChatResult:
        take = self._take(messages, kwargs)
        time.sleep(take.seconds)
        return take.result()

    async def _agenerate(self, messages: list[BaseMessage], *_: Any, **kwargs: Any) -> ChatResult:
        take = self._take(messages, kwargs)
        await asyncio.sleep(take.seconds)
        return take.result()

    def _stream(
        self, messages: list[BaseMessage], *_: Any, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        take = self._take(messages, kwargs)
        time.sleep(take.seconds)
        yield from take.chunks()

    async def _astream(
        self, messages: list[BaseMessage], *_: Any, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        take = self._take(messages, kwargs)
        await asyncio.sleep(take.seconds)
        for chunk in take.chunks():
            yield chunk
            # As on a network: others run, and a cancelled stream ends here.
            await asyncio.sleep(0)


class ScriptedChat(Scripted):
    r"""A chat model that looks its reply up by the newest question and the attempt at it.

    A key matches if the question contains it; the longest match counts. Its value is a reply for
    every attempt, or a list with one for each; `attempt_of` reads the attempt from the retry
    prompt. `ScriptedChat()` has no reply: each call raises `AssertionError`.

    >>> chat = ScriptedChat(replies={"How long": ["Buy a car.", "Two days."]}, default="I see.")
    >>> chat.invoke("How long do we stay?").content
    'Buy a car.'
    >>> chat.invoke([("system", "Try again.\nAttempt 2"), ("human", "How long?")]).content
    'Two days.'
    >>> chat.invoke("Thanks!").content
    'I see.'
    >>> chat.assert_all_used()
    """

    replies: SkipValidation[Mapping[str, scripts.Replies]] = Field(default_factory=dict)
    """The replies by question, or by a part of it."""

    default: SkipValidation[scripts.Replies | scripts.Script | None] = None
    """The reply to all other questions; `None` raises `AssertionError` for them."""

    script: SkipValidation[scripts.Script | None] = None
    """A function that returns all replies, instead of `replies` and `default`."""

    @model_validator(mode="after")
    def _one_script(self) -> Self:
        if self.script is not None and (self.replies or self.default is not None):
            raise ConfigurationError(
                "script= excludes replies= and default=: move them into the script"
            )
        return self

    def _line(self, messages: Sequence[BaseMessage]) -> scripts.Line:
        key = scripts.key_for(self.replies, scripts.question_of(messages))
        if key is not None:
            return scripts.line_for(key, self.replies[key], messages)
        others = self.default if self.script is None else self.script
        replies = others(messages) if callable(others) else others
        if replies is None:
            raise AssertionError(f"no reply is scripted to {scripts.question_of(messages)!r}")
        return scripts.line_for(None, replies, messages)

    def _places(self) -> list[str]:
        scripted = [scripts.lines_of(*item) for item in self.replies.items()]
        return [line.place for lines in scripted for steps in lines for line in steps]


class ScriptedJudge(Scripted):
    r"""A judge that looks its score up by a part of the answer that it judges.

    The answer is the text in the prompt's last pair of `answer` tags, else the whole newest human
    message. Of several parts that have a score, the longest counts.

    >>> judge = ScriptedJudge(scores={"Buy a car": 0.1}, default=0.8)
    >>> judge.invoke('<answer key="k">Buy a car.</answer key="k"> Grade it.').content
    '{"score": 0.1, "reason": "scripted for \'Buy a car\'"}'
    >>> judge.invoke('<answer key="k">Two days.</answer key="k"> Grade it.').content
    '{"score": 0.8, "reason": "scripted by default"}'
    """

    scores: SkipValidation[Mapping[str, float | scripts.Reply]] = Field(default_factory=dict)
    """By part of an answer: a score, also an invalid one, or another reply such as `"nan"` or a `Delay` of
    either."""

    default: SkipValidation[float | scripts.Reply] = 0.9
    """The score of all other answers."""

    def _line(self, messages: Sequence[BaseMessage]) -> scripts.Line:
        question = scripts.question_of(messages)
        prompt = "\n".join(str(message.text) for message in messages)
        answers = _ANSWER.findall(question) or _ANSWER.findall(prompt) or [question]
        key = scripts.key_for(self.scores, html.unescape(answers[-1]))
        reply = self.default if key is None else self.scores[key]
        reason = "scripted by default" if key is None else f"scripted for {key!r}"
        return scripts.Line(place=repr(key), reply=_verdict(reply, reason))

    def _places(self) -> list[str]:
        return [repr(key) for key in self.scores]


def _verdict(reply: float | scripts.Reply, reason: str) -> scripts.Reply:
    """Return the reply of a judge; a number is the score of a verdict with the `reason`."""
    if isinstance(reply, scripts.Delay):
        return replace(reply, reply=_verdict(reply.reply, reason))
    return {"score": reply, "reason": reason} if isinstance(reply, int | float) else reply


@dataclass(frozen=True, slots=True, kw_only=True)
class _Take:
    seconds: float
    message: AIMessage
    fault: scripts.Fault | None

    def result(self) -> ChatResult:
        """Return the reply in LangChain's form, or raise the error of a scripted `Fault`."""
        if self.fault is not None:
            self.fault.strike()
        return ChatResult(generations=[ChatGeneration(message=self.message)])

    def chunks(self) -> Iterator[ChatGenerationChunk]:
        """Yield the reply in pieces, then its metadata; raise a `Fault` after its `after_tokens` pieces."""
        content = self.message.content
        tokens = scripts.tokens_of(content) if isinstance(content, str) else []
        for token in tokens[: self.fault.after_tokens if self.fault else None]:
            yield ChatGenerationChunk(message=AIMessageChunk(content=token))
        if self.fault is not None:
            self.fault.strike()
        rest = self.message.model_dump(exclude={"type", "content"})
        rest["content"] = "" if isinstance(content, str) else content
        yield ChatGenerationChunk(message=AIMessageChunk(**rest, chunk_position="last"))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    messages: Sequence[BaseMessage]
    tool_names: Sequence[str]
    schema_name: str | None

    def message_for(self, reply: scripts.Reply) -> AIMessage:
        match reply:
            case AIMessage():
                return reply.model_copy(deep=True)
            case scripts.ToolCalls():
                calls = [self._call(*item) for item in enumerate(reply.calls)]
                return AIMessage(self._filled(reply.text), tool_calls=calls)
            case scripts.Truncated():
                message = self._as_reply(self._filled(reply.text))
                message.response_metadata["finish_reason"] = "length"
                return message
            case str():
                return self._as_reply(self._filled(reply))
            case Mapping():
                return self._as_reply(json.dumps(dict(reply), ensure_ascii=False))
        raise AssertionError(f"{reply!r} is no reply to {scripts.question_of(self.messages)!r}")

    def _as_reply(self, text: str) -> AIMessage:
        """Return a text as the reply; for structured output, as a call of the schema's tool.

        For that, a text that is not a JSON object becomes an invalid call, as with a provider.
        """
        if self.schema_name is None:
            return AIMessage(text)
        name, call_id = self.schema_name, self._id(0)
        try:
            return AIMessage(
                "", tool_calls=[tool_call(name=name, args=json.loads(text), id=call_id)]
            )
        except ValueError as error:
            call = invalid_tool_call(name=name, args=text, id=call_id, error=str(error))
        # The raw call is where LangChain's parsers look for what was wrong with it.
        function = {"name": name, "arguments": text}
        raw = {"tool_calls": [{"id": call_id, "type": "function", "function": function}]}
        return AIMessage("", invalid_tool_calls=[call], additional_kwargs=raw)

    def _call(self, index: int, call: Mapping[str, Any]) -> ToolCall:
        name, args = call["name"], dict(call.get("args", {}))
        if name not in self.tool_names:
            raise AssertionError(f"tool {name!r} is not bound; bound are {list(self.tool_names)!r}")
        return tool_call(name=name, args=args, id=call.get("id", self._id(index)))

    def _id(self, index: int) -> str:
        # Unique in the conversation, and the same when this call is replayed.
        question_ids = [m.id for m in self.messages if isinstance(m, HumanMessage)][-1:]
        texts = [(message.type, str(message.text)) for message in self.messages]
        digest = hashlib.sha256(repr((question_ids, texts, index)).encode())
        return f"call_{digest.hexdigest()[:24]}"

    def _filled(self, text: str) -> str:
        """Return the text with `{result}` replaced by the newest tool results.

        Without results after the question, the text is unchanged.
        """
        if not scripts.results_after_question(self.messages):
            return text
        newest = takewhile(lambda m: isinstance(m, ToolMessage), reversed(self.messages))
        results = [str(message.text) for message in newest]
        return text.replace("{result}", "\n".join(reversed(results)))


def _with_metadata(
    message: AIMessage, messages: Sequence[BaseMessage], model_name: str
) -> AIMessage:
    """Add to a message, in place, the metadata and token usage that a provider sends; return it.

    What the message has already stays.
    """
    calls = message.tool_calls or message.invalid_tool_calls
    defaults = {"model_name": model_name, "finish_reason": "tool_calls" if calls else "stop"}
    message.response_metadata = defaults | message.response_metadata
    if message.usage_metadata is None:
        sent, reply = sum(map(_count, messages)), _count(message)
        message.usage_metadata = UsageMetadata(
            input_tokens=sent, output_tokens=reply, total_tokens=sent + reply
        )
    return message


def _count(message: BaseMessage) -> int:
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    call_texts = [f"{call['name']} {json.dumps(call['args'], default=str)}" for call in calls]
    return sum(len(scripts.tokens_of(text)) for text in (str(message.text), *call_texts))
