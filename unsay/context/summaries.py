"""Summaries of messages that a context leaves out: the request to a model and its check."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from langchain_core.messages import AnyMessage, BaseMessage, HumanMessage, SystemMessage

from unsay.context.plan import WORDING, Plan, PlanContext, TokenCounter
from unsay.effects import Steps
from unsay.errors import ConfigurationError, SummarizationError
from unsay.messages.annotations import annotate, is_answer, is_question
from unsay.messages.content import (
    Media,
    Other,
    Text,
    ToolCall,
    ToolResult,
    clip,
    parts_of,
    preview,
    text_of,
)
from unsay.prompts.catalogue import Texts
from unsay.prompts.fence import Fence, quoted, quoted_call, unbroken

SENTENCE_CHARS = 160  # longest quoted sentence

_DECISION, _NUMBER, _NAME = (
    re.compile(
        WORDING["sentences"][name].replace("\n", ""), re.IGNORECASE if name == "decision" else 0
    )
    for name in ("decision", "number", "name")
)
_END = re.compile(r"(?<=[.!?])\s+|(?<=[。!?])|\n+")
_MARKUP = re.compile(r"^(?:[-*•#>]+|\d+[.)])\s+")


def key_sentences(answers: Sequence[str], chars: int) -> list[str]:
    """Return the most important sentences that fit into `chars`, in their order; maybe none.

    A sentence is important if it has a decision, a name or a number. If not all fit, those with
    more of these are chosen first, where a decision counts double, and of equal ones the newer.
    Each is cut to `SENTENCE_CHARS`, and 3 characters more are counted for it.
    """
    candidates: list[tuple[int, int, str]] = []
    for answer in answers:
        sentences = [_shortened(each) for each in _END.split(answer) if each.strip()]
        scored = [(_weight(sentence), sentence) for sentence in sentences]
        weighty = [pair for pair in scored if pair[0]]
        candidates += [
            (weight, len(candidates) + place, text) for place, (weight, text) in enumerate(weighty)
        ]
    chosen_places, room = set[int](), chars
    for _, place, text in sorted(candidates, reverse=True):
        if len(text) + 3 <= room:
            chosen_places.add(place)
            room -= len(text) + 3
    return list(dict.fromkeys(text for _, place, text in candidates if place in chosen_places))


def _weight(sentence: str) -> int:
    """Return the importance of a sentence, from 0 to 4.

    A decision counts 2, a number 1 and a name 1.
    """
    kinds = bool(_NUMBER.search(sentence)) + bool(_NAME.search(sentence))
    return 2 * bool(_DECISION.search(sentence)) + kinds


def _shortened(sentence: str) -> str:
    """Return a sentence on one line without list marks, at most `SENTENCE_CHARS` long.

    A longer one is cut around its first decision, number or name.
    """
    line = " ".join(_MARKUP.sub("", sentence.strip()).split())
    if len(line) <= SENTENCE_CHARS:
        return line
    telling = _DECISION.search(line) or _NUMBER.search(line) or _NAME.search(line)
    start = max(0, telling.start() - SENTENCE_CHARS // 2) if telling else 0
    start = min(start, len(line) - SENTENCE_CHARS)
    return f"{'…' if start else ''}{line[start : start + SENTENCE_CHARS - 2]}…"


# Most summaries of a compaction; the next one replaces them all. A summary of summaries loses
# details, but more and more of them would fill the window.
MAX_SUMMARIES = 6

SUMMARY_TOKENS = 400  # requested length of a summary. Source: Zhang 2026, chapter 7.4 (max_tokens).

MATERIAL_SHARE = 0.6  # share of the window that a summarizer's request may fill
SHORTEST = 200  # characters of one message that a summarizer always gets
LOCAL_CHARS = 1_500  # longest summary made without a model
SLACK = 2  # a summary is cut at this multiple of its requested length


@dataclass(frozen=True, slots=True, kw_only=True)
class Summarizer:
    """How a strategy's summaries are made; strategies make it from their arguments."""

    model: Any = None  # `None` uses the graph's summarizer, if there is one
    system: str | None = None  # `None` uses the instructions of the prompts
    tokens: int = SUMMARY_TOKENS


def refuse_two_instructions(summarizer: Any, system_prompt: str | None) -> None:
    """Raise `ConfigurationError` if a strategy is given both a summarizer and a system prompt.

    The summarizer has its own instructions.
    """
    if summarizer is not None and system_prompt is not None:
        raise ConfigurationError(
            f"summarizer={summarizer!r} excludes system_prompt={system_prompt!r}: "
            "put the instructions into the summarizer"
        )


def compact_with_model(
    ctx: PlanContext, messages: Sequence[AnyMessage], how: Summarizer, *, why: str
) -> Steps[Plan]:
    """Return the plan that replaces messages with a model's summary; messages that must stay, stay.

    `how` has the model and its instructions, `why` is the name of the rule. If the summarizer
    fails, the plan changes nothing and has the problem. After a recent failure (`ctx.is_paused`)
    the plan changes nothing as long as the request fits. Without a model, or paused with a request
    that does not fit, the summary is made by `compact_locally`. When there are `MAX_SUMMARIES`
    summaries, the new one replaces them all.
    """
    replaced = ctx.removable(messages)
    if not replaced:
        return ctx.keep()
    asks_nobody = how.model is None and not (ctx.ask and ctx.has_summarizer)
    if ctx.is_paused and not asks_nobody and not ctx.overflows and ctx.tokens < ctx.window:
        return ctx.keep()
    if ctx.is_paused or asks_nobody:
        return compact_locally(ctx, replaced, why=why)
    rolling = len(ctx.summaries) >= MAX_SUMMARIES
    try:
        summary = yield from summarized(ctx, replaced, how, rolling=rolling)
    except SummarizationError as problem:
        return ctx.keep(problem)
    return ctx.leave_out(replaced, why=why, summary=summary, rolling=rolling)


def compact_locally(ctx: PlanContext, messages: Sequence[AnyMessage], *, why: str) -> Plan:
    """Return the plan that replaces messages with their local summary; no model is asked.

    `why` is the name of the rule. If the summary is longer than the messages, the questions alone
    are the summary; if these are longer too, the messages are left out without a summary. When
    there are `MAX_SUMMARIES` summaries, all are joined to one, which is cut to `LOCAL_CHARS`.
    """
    replaced = ctx.removable(messages)
    questions = [message for message in replaced if is_question(message)]
    for source in (replaced, questions):
        try:
            summary = accepted(local_summary(source, ctx.texts), replaced, ctx.count)
        except SummarizationError:
            continue
        break
    else:
        return ctx.leave_out(replaced, why=why)
    if len(ctx.summaries) < MAX_SUMMARIES:
        return ctx.leave_out(replaced, why=why, summary=summary)
    joined = _clipped("\n".join([*ctx.summaries, summary]), LOCAL_CHARS)
    return ctx.leave_out(replaced, why=why, summary=joined, rolling=True)


def summarized(
    ctx: PlanContext, messages: Sequence[AnyMessage], how: Summarizer, *, rolling: bool = False
) -> Steps[str]:
    """Return a model's summary of messages; a `rolling` one includes the earlier summaries.

    `how` names the model; a summary of more than `SLACK` times its `tokens` is cut off. Raises
    `SummarizationError` if the model fails or `ctx` cannot ask one, or if the summary is empty or
    longer than the messages.
    """
    if ctx.ask is None:
        raise SummarizationError("The plan context cannot ask a model: set `ask`")
    earlier = [HumanMessage(summary) for summary in ctx.summaries] if rolling else []
    try:
        reply = yield from ctx.ask(fitting_request(ctx, messages, how, rolling=rolling), how.model)
    except Exception as error:  # a user's summarizer may raise anything
        reason = f"The summarizer failed ({type(error).__name__}: {error})"
        raise SummarizationError(reason[:500]) from error
    text = text_of(reply) if isinstance(reply, BaseMessage) else reply
    text = text if isinstance(text, str) else ""
    summary = accepted(text, [*earlier, *messages], ctx.count)
    tokens, most = ctx.count([HumanMessage(summary)]), SLACK * how.tokens
    return summary if tokens <= most else clip(summary, len(summary) * most // tokens)


def accepted(text: str, replaced: Sequence[AnyMessage], count: TokenCounter) -> str:
    """Return the text, stripped, if it can replace messages.

    Raises:
        SummarizationError: The text is empty or has more tokens than the messages.
    """
    summary = text.strip()
    if not summary:
        raise SummarizationError("The summary is empty: the messages stay in the context")
    tokens, limit = count([HumanMessage(summary)]), count(replaced)
    if tokens > limit:
        raise SummarizationError(
            f"The summary of {tokens} tokens would exceed the {len(replaced)} messages that it "
            f"replaces, which have {limit}: the messages stay in the context"
        )
    return summary


def fitting_request(
    ctx: PlanContext, messages: Sequence[AnyMessage], how: Summarizer, *, rolling: bool
) -> list[AnyMessage]:
    """Return the request for a summary, with the middles of long messages cut until it fits.

    It fits if it takes at most `MATERIAL_SHARE` of the window. Each message keeps `SHORTEST`
    characters, even if the request then does not fit. A `rolling` summary replaces the earlier
    ones. `how` are the summarizer's settings.
    """
    ask = partial(request, messages, earlier=ctx.summaries, texts=ctx.texts, how=how)
    chars = max((len(line) for message in messages for line in lines_of(message)), default=0)
    while True:
        fitted = ask(rolling=rolling, chars=max(chars, SHORTEST))
        if chars <= SHORTEST or ctx.count(fitted) <= MATERIAL_SHARE * ctx.window:
            return fitted
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

    `earlier` are the summaries so far, as context; with `rolling` the new one replaces them. `how`
    has the summarizer's instructions and limits. Parts of a message longer than `chars` lose their
    middle; `None` sets no limit.
    """
    texts_read = ("\n".join(_clipped(line, chars) for line in lines_of(m)) for m in messages)
    material = [text for text in texts_read if text]
    fence = Fence.around(*earlier, *material, salt=texts.salt)
    task = texts.say("compaction_rolling" if rolling else "compaction_request", tokens=how.tokens)
    summaries = "\n".join(fence.wrap("summary", summary) for summary in earlier)
    return [
        SystemMessage(how.system or texts.say("compaction_system")),
        *([HumanMessage(texts.say("compaction_earlier", summaries=summaries))] if earlier else []),
        *(HumanMessage(fence.wrap("conversation", text)) for text in material),
        annotate(HumanMessage(task), kind="summary_request", tokens=how.tokens),
    ]


def local_summary(
    messages: Sequence[AnyMessage],
    texts: Texts,
    *,
    chars: int = LOCAL_CHARS,
    earlier: str | None = None,
) -> str:
    """Return the user's questions and the most important sentences of the answers, shortened.

    The text has at most `chars` characters. An `earlier` summary comes first; it is clipped to what
    the rest leaves, but at least to half of `chars`. Without an earlier summary, questions and
    sentences the text is empty.
    """
    questions = [preview(text_of(m), 120) for m in messages if is_question(m)]
    question_text = texts.say("local_summary", questions=" / ".join(questions)) if questions else ""
    question_text = clip(question_text, chars)
    answers = [text_of(message) for message in messages if is_answer(message)]
    heading = texts.say("local_answers", answers="")
    key = key_sentences(answers, max(chars // 2, chars - len(question_text)) - len(heading) - 1)
    answer_text = texts.say("local_answers", answers=" / ".join(key)) if key else ""
    if answer_text:
        question_text = clip(question_text, chars - len(answer_text) - 1)
    newer = "\n".join(filter(None, (question_text, answer_text)))
    room = max(chars // 2, chars - len(newer) - 1)
    return clip("\n".join(filter(None, (clip(earlier or "", room), newer))), chars)


def lines_of(message: AnyMessage) -> Iterator[str]:
    """Yield each part of a message as `speaker: text` on one line, with the text as a JSON string.

    Thinking is left out. A tool call is its name and arguments, an image or file its kind.
    """
    for part in parts_of(message):
        match part:
            case Text():
                line = quoted(part.text)
            case ToolResult():
                line = f"{'error: ' if part.is_error else ''}{quoted(part.content)}"
            case ToolCall():
                line = quoted_call(part.name, _json(part.args))
            case Media():
                line = f"[{part.kind}]"
            case Other():
                line = unbroken(_json(part.block))
            case _:
                continue
        yield f"{message.type}: {line}"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=repr)


def _clipped(line: str, chars: int | None) -> str:
    if chars is None or len(line) <= chars:
        return line
    half = chars // 2
    return f"{clip(line, half)} … {line[-half:]}"
