"""Summaries of messages that a context leaves out: the request, and what is accepted."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from langchain_core.messages import AnyMessage, BaseMessage, HumanMessage, SystemMessage

from unsay.context.plan import Plan, PlanContext, TokenCounter
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
from unsay.messages.truncation import clip
from unsay.prompts.fence import Fence
from unsay.prompts.fields import Texts

MAX_SUMMARIES = 6
"""Most summaries of a fold; the next one replaces them all. A summary of summaries loses details,
but ever more of them would fill the window."""

SUMMARY_TOKENS = 400
"""Requested length of a summary. Source: Zhang 2026, chapter 7.4 (max_tokens)."""

MATERIAL_SHARE = 0.6  # of the window that a summarizer's request may fill
SHORTEST = 200  # characters of one message that a summarizer is always shown
LOCAL_CHARS = 1_500  # longest summary made without a model
SLACK = 2  # a summary is cut at this many times its requested length


@dataclass(frozen=True, slots=True, kw_only=True)
class Summarizer:
    """The model, instructions and length of a strategy's summaries.

    Without a `model` the graph's summarizer is asked, if there is one; without `system` it gets the
    instructions of the prompts.
    """

    model: Any = None
    system: str | None = None
    tokens: int = SUMMARY_TOKENS


def compact_with_model(
    ctx: PlanContext, messages: Sequence[AnyMessage], how: Summarizer, *, why: str
) -> Steps[Plan]:
    """Return the plan that replaces messages with a summary.

    Earlier summaries stay until there are `MAX_SUMMARIES`; then one summary replaces them all. If
    no summary is acceptable, nothing is left out.
    """
    replaced = ctx.removable(messages)
    if not replaced:
        return ctx.keep()
    if how.model is None and not (ctx.ask and ctx.has_summarizer):
        return compact_locally(ctx, replaced, why=why)
    rolling = len(ctx.summaries) >= MAX_SUMMARIES
    try:
        summary = yield from summarized(ctx, replaced, how, rolling=rolling)
    except SummarizationError as problem:
        return ctx.keep(problem)
    return ctx.leave_out(replaced, why=why, summary=summary, rolling=rolling)


def compact_locally(ctx: PlanContext, messages: Sequence[AnyMessage], *, why: str) -> Plan:
    """Return the plan that replaces messages with the user's questions, shortened.

    If that is not shorter than the messages, they are left out without a summary.
    """
    replaced = ctx.removable(messages)
    try:
        summary = accepted(local_summary(replaced, ctx.texts), replaced, ctx.count)
    except SummarizationError:
        return ctx.leave_out(replaced, why=why)
    if len(ctx.summaries) < MAX_SUMMARIES:
        return ctx.leave_out(replaced, why=why, summary=summary)
    told = _clipped("\n".join([*ctx.summaries, summary]), LOCAL_CHARS)
    return ctx.leave_out(replaced, why=why, summary=told, rolling=True)


def summarized(
    ctx: PlanContext, messages: Sequence[AnyMessage], how: Summarizer, *, rolling: bool = False
) -> Steps[str]:
    """Return a model's summary of messages; a `rolling` one includes the earlier summaries.

    Raises:
        SummarizationError: The model failed, or its summary cannot be accepted.
    """
    if ctx.ask is None:
        raise SummarizationError("There is no way to ask a summarizer: hand in `ask`")
    earlier = [HumanMessage(each) for each in ctx.summaries] if rolling else []
    try:
        reply = yield from ctx.ask(fitting_request(ctx, messages, how, rolling=rolling), how.model)
    except Exception as error:  # a summarizer is anyone's code
        reason = f"The summarizer failed ({type(error).__name__}: {error})"
        raise SummarizationError(reason[:500]) from error
    words = text_of(reply) if isinstance(reply, BaseMessage) else reply
    words = words if isinstance(words, str) else ""
    summary = accepted(words, [*earlier, *messages], ctx.count)
    tokens, most = ctx.count([HumanMessage(summary)]), SLACK * how.tokens
    return summary if tokens <= most else clip(summary, len(summary) * most // tokens)


def accepted(text: str, replaced: Sequence[AnyMessage], count: TokenCounter) -> str:
    """Return a summary, stripped, that may replace messages.

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
    ctx: PlanContext, messages: Sequence[AnyMessage], how: Summarizer, *, rolling: bool
) -> list[AnyMessage]:
    """Return the request for a summary; long messages lose their middles until it fits."""
    ask = partial(request, messages, earlier=ctx.summaries, texts=ctx.texts, how=how)
    chars = max((len(line) for each in messages for line in lines_of(each)), default=0)
    while True:
        asked = ask(rolling=rolling, chars=max(chars, SHORTEST))
        if chars <= SHORTEST or ctx.count(asked) <= MATERIAL_SHARE * ctx.window:
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
    """Return the request for a summary: each message fenced as data, then the task.

    Parts of a message longer than `chars` lose their middle; `None` sets no limit.
    """
    read = ("\n".join(_clipped(line, chars) for line in lines_of(each)) for each in messages)
    told = [each for each in read if each]
    fence = Fence.around(*earlier, *told)
    asks = texts.compaction_rolling if rolling else texts.compaction_request
    summaries = "\n".join(fence.annotation("summary", each) for each in earlier)
    return [
        SystemMessage(how.system or texts.compaction_system),
        *([HumanMessage(texts.compaction_earlier.format(summaries=summaries))] if earlier else []),
        *(HumanMessage(fence.annotation("conversation", each)) for each in told),
        HumanMessage(asks.format(tokens=how.tokens)),
    ]


def local_summary(
    messages: Sequence[AnyMessage],
    texts: Texts,
    *,
    chars: int = LOCAL_CHARS,
    earlier: str | None = None,
) -> str:
    """Return the user's questions, shortened: a summary without a model.

    An `earlier` summary comes first, cut to the room that is left.
    """
    questions = [preview(text_of(m), 120) for m in messages if is_question(m)]
    newer = texts.local_summary.format(questions=" / ".join(questions)) if questions else ""
    newer = clip(newer, chars)
    room = max(chars // 2, chars - len(newer) - 1)
    return clip("\n".join(filter(None, (clip(earlier or "", room), newer))), chars)


def lines_of(message: AnyMessage) -> Iterator[str]:
    """Yield a message's parts as lines: who spoke, tool calls and their results."""
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
    return f"{clip(line, half)} … {line[-half:]}"
