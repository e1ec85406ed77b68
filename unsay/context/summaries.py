"""Summaries of what a view leaves out: how they are asked for, and which are accepted."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from langchain_core.messages import AnyMessage, BaseMessage, HumanMessage, SystemMessage

from unsay.context.plan import Plan, Situation, TokenCounter
from unsay.effects import Steps
from unsay.errors import SummarizationError
from unsay.messages.annotations import is_question
from unsay.messages.content import (
    Media,
    Other,
    Text,
    ToolCall,
    ToolResult,
    parts_of,
    preview,
    text_of,
)
from unsay.messages.truncation import cut
from unsay.prompts.fence import Fence
from unsay.prompts.fields import Texts

MAX_SUMMARIES = 6
"""How many summaries stand side by side before the next one replaces them all.

A summary of summaries loses what they had; one message of `summary_tokens` for
each fold would grow without bound.
"""

SUMMARY_TOKENS = 400
"""How long a summary is asked to be. Source: seed 004, chapter 7.4 (max_tokens)."""

MATERIAL_SHARE = 0.6
"""How much of the window a summarizer's request may fill; longer messages lose their middles."""

SHORTEST = 200
"""Characters of one message that a summarizer is always shown."""

LOCAL_CHARS = 1_500
"""Longest summary made without a model, in characters."""

SLACK = 2
"""So many times as long as it was asked to be a summary may be; the rest of it is cut off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summarizer:
    """How a strategy wants its summaries."""

    model: Any = None
    """What is asked; `None` asks the graph's summarizer, or makes do without a model."""

    system: str | None = None
    """Tells the model what to keep; `None` takes the catalogue's words."""

    tokens: int = SUMMARY_TOKENS


def fold_summarized(
    now: Situation, messages: Sequence[AnyMessage], how: Summarizer, *, why: str
) -> Steps[Plan]:
    """The plan that puts a summary in the place of messages.

    Earlier summaries stay as they are until there are too many; then one summary
    replaces them all. Without an acceptable summary nothing is left out.
    """
    replaced = now.leavable(messages)
    if not replaced:
        return now.keep()
    if how.model is None and not (now.ask and now.has_summarizer):
        return fold_locally(now, replaced, why=why)
    rolling = len(now.summaries) >= MAX_SUMMARIES
    try:
        summary = yield from summarized(now, replaced, how, rolling=rolling)
    except SummarizationError as problem:
        return now.keep(problem)
    return now.leave_out(replaced, why=why, summary=summary, rolling=rolling)


def fold_locally(now: Situation, messages: Sequence[AnyMessage], *, why: str) -> Plan:
    """The plan that puts the user's own questions, shortened, in the place of messages.

    Where that would not be shorter, nothing stands for them.
    """
    replaced = now.leavable(messages)
    try:
        summary = accepted(local_summary(replaced, now.texts), replaced, now.count)
    except SummarizationError:
        return now.leave_out(replaced, why=why)
    if len(now.summaries) < MAX_SUMMARIES:
        return now.leave_out(replaced, why=why, summary=summary)
    told = _clipped("\n".join([*now.summaries, summary]), LOCAL_CHARS)
    return now.leave_out(replaced, why=why, summary=told, rolling=True)


def summarized(
    now: Situation, messages: Sequence[AnyMessage], how: Summarizer, *, rolling: bool = False
) -> Steps[str]:
    """A summary of messages by a model.

    A `rolling` summary also tells what the earlier ones tell.

    Raises:
        SummarizationError: The model failed, or its summary cannot be accepted.
    """
    if now.ask is None:
        raise SummarizationError("There is no way to ask a summarizer: hand in `ask`")
    earlier = [HumanMessage(each) for each in now.summaries] if rolling else []
    try:
        reply = yield from now.ask(fitting_request(now, messages, how, rolling=rolling), how.model)
    except Exception as error:  # a summarizer is anyone's code; it fails with a word of ours
        reason = f"The summarizer failed ({type(error).__name__}: {error})"
        raise SummarizationError(reason[:500]) from error
    words = text_of(reply) if isinstance(reply, BaseMessage) else reply
    words = words if isinstance(words, str) else ""
    summary = accepted(words, [*earlier, *messages], now.count)
    tokens, most = now.count([HumanMessage(summary)]), SLACK * how.tokens
    return summary if tokens <= most else cut(summary, len(summary) * most // tokens)


def accepted(text: str, replaced: Sequence[AnyMessage], count: TokenCounter) -> str:
    """A summary that may stand in the place of messages.

    Raises:
        SummarizationError: It is empty, or longer than what it would replace.
    """
    summary = text.strip()
    if not summary:
        raise SummarizationError("The summary is empty: what it would replace stays as it is")
    tokens, limit = count([HumanMessage(summary)]), count(replaced)
    if tokens > limit:
        raise SummarizationError(
            f"The summary of {tokens} tokens would exceed the {limit} of the {len(replaced)} "
            "messages that it replaces: they stay as they are"
        )
    return summary


def fitting_request(
    now: Situation, messages: Sequence[AnyMessage], how: Summarizer, *, rolling: bool
) -> list[AnyMessage]:
    """The request for a summary, the middles of long messages left out until it fits."""
    ask = partial(request, messages, earlier=now.summaries, texts=now.texts, how=how)
    chars = max((len(line) for each in messages for line in lines_of(each)), default=0)
    while True:
        asked = ask(rolling=rolling, chars=max(chars, SHORTEST))
        if chars <= SHORTEST or now.count(asked) <= MATERIAL_SHARE * now.window:
            return asked
        chars //= 2


def request(
    messages: Sequence[AnyMessage],
    *,
    earlier: Sequence[str],
    texts: Texts,
    how: Summarizer,
    rolling: bool = False,
    chars: int | None = None,
) -> list[AnyMessage]:
    """What a summarizer is asked: each message fenced as data, and then the task.

    Parts of a message over `chars` characters lose their middle; `None` is no limit.
    """
    read = ("\n".join(_clipped(line, chars) for line in lines_of(each)) for each in messages)
    told = [each for each in read if each]
    fence = Fence.around(*earlier, *told)
    asks = texts.fold_rolling if rolling else texts.fold_request
    summaries = "\n".join(fence.mark("summary", each) for each in earlier)
    return [
        SystemMessage(how.system or texts.fold_system),
        *([HumanMessage(texts.fold_earlier.format(summaries=summaries))] if earlier else []),
        *(HumanMessage(fence.mark("conversation", each)) for each in told),
        HumanMessage(asks.format(tokens=how.tokens)),
    ]


def local_summary(
    messages: Sequence[AnyMessage],
    texts: Texts,
    *,
    chars: int = LOCAL_CHARS,
    earlier: str | None = None,
) -> str:
    """What was asked, in the user's own words, shortened: a summary without a model.

    `earlier` tells of the messages before; it comes first, as far as there is room.
    """
    questions = [preview(text_of(m), 120) for m in messages if is_question(m)]
    newer = texts.local_summary.format(questions=" / ".join(questions)) if questions else ""
    newer = cut(newer, chars)
    room = max(chars // 2, chars - len(newer) - 1)
    return cut("\n".join(filter(None, (cut(earlier or "", room), newer))), chars)


def lines_of(message: AnyMessage) -> Iterator[str]:
    """A message as a summarizer reads it: who spoke, what tools were asked and what they found."""
    for part in parts_of(message):
        match part:
            case Text():
                line = part.text
            case ToolResult():
                line = f"{'error: ' if part.is_error else ''}{part.content}"
            case ToolCall():
                line = f"{part.name}({json.dumps(part.args, ensure_ascii=False, default=repr)})"
            case Media():
                line = f"[{part.kind}]"
            case Other():
                line = json.dumps(part.block, ensure_ascii=False, default=repr)
            case _:
                continue
        yield f"{message.type}: {line}"


def _clipped(line: str, chars: int | None) -> str:
    if chars is None or len(line) <= chars:
        return line
    half = chars // 2
    return f"{cut(line, half)} … {line[-half:]}"
