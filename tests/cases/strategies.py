"""Operations on strategies: windows, summaries, primers and recents, tool results."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langchain_core.messages.utils import convert_to_messages

from tests.cases.seen import Case, Operation, Seen
from tests.cases.strategy_kit import (
    TEXTS,
    Summaries,
    applied,
    build,
    context_of,
    messages_of,
    overflowed,
    params_of,
    reduced_silently,
    removed,
    seen_of,
)
from tests.cases.world import NotBoundError
from unsay.context.compaction import Compaction, render, truncate
from unsay.context.strategy import Null, is_due, reduce_context
from unsay.context.summaries import Summarizer, summarized
from unsay.context.summarizing import Summarizing, split_point
from unsay.context.windows import SlidingWindow, ThreeStage
from unsay.effects import drive


def _sliding(case: Case) -> SlidingWindow:
    names = ("window_size", "truncate_tool_results", "per_turn", "pin_first")
    params = params_of(case, names)
    if "truncate_tool_results" in params:
        params["truncate_results"] = params.pop("truncate_tool_results")
    made: SlidingWindow = build(SlidingWindow, **params)
    return made


def _summarizing(case: Case) -> Summarizing:
    renamed = {
        "preserve_recent": "preserve_recent_messages",
        "preserve_recent_messages": "preserve_recent_messages",
        "summarization_agent": "summarizer",
        "summarizer_agent": "summarizer",
        "summarizer_model": "summarizer",
        "summarization_prompt": "system_prompt",
        "summarization_system_prompt": "system_prompt",
        "system_prompt": "system_prompt",
        "summary_ratio": "summary_ratio",
        "pin_first": "pin_first",
        "per_turn": "per_turn",
    }
    params = params_of(case, (*renamed, "conflict"))
    both = params.pop("conflict", False)
    given = {renamed[key]: value for key, value in params.items()}
    if both:  # a model and instructions for it, which exclude each other
        given = {"summarizer": "a-model", "system_prompt": "Be brief.", **given}
    made: Summarizing = build(Summarizing, **given, proactive=None)
    return made


def sliding_apply(case: Case, folder: Path) -> Seen:
    """A window at the end of a turn, or before a call."""
    del folder
    return applied(_sliding(case), case)


def sliding_overflow(case: Case, folder: Path) -> Seen:
    """A window after an overflow."""
    del folder
    return overflowed(_sliding(case), case)


def sliding_construct(case: Case, folder: Path) -> Seen:
    """A window's settings."""
    del folder
    window = _sliding(case)
    return Seen(
        state={
            "window_size": window.window_size,
            "per_turn": window.per_turn,
            "pin_first": window.pin_first,
            "truncate_results": window.truncate_results,
        }
    )


def count_management(case: Case, folder: Path) -> Seen:
    """Return how often a turn with this number of calls is managed, its end included."""
    del folder
    rhythm = _sliding(case).per_turn
    calls: list[int | None] = [*range(1, case["given"]["model_calls"] + 1), None]
    return Seen(value=sum(is_due(rhythm, call) for call in calls))


def summarize_reduce(case: Case, folder: Path) -> Seen:
    """A summary in the place of the oldest messages, where there are enough."""
    del folder
    return reduced_silently(_summarizing(case), case)


def summarize_overflow(case: Case, folder: Path) -> Seen:
    """A summary because of an overflow."""
    del folder
    return overflowed(_summarizing(case), case)


def summarize_reduce_n(case: Case, folder: Path) -> Seen:
    """Several summaries, one after the other."""
    del folder
    strategy, summaries = _summarizing(case), Summaries()
    ctx = before = context_of(case, summaries)
    after = []
    plan = ctx.keep()
    for _ in range(case["params"]["times"]):
        plan = drive(strategy.reduce(ctx))
        ctx = plan.after
        after.append({"len": len(plan.messages), "removed_message_count": removed(plan)})
    seen = seen_of(plan, summaries, before)
    return replace(seen, state={**(seen.state or {}), "after": after})


def summarize_construct(case: Case, folder: Path) -> Seen:
    """A summarizing strategy's settings."""
    del folder
    strategy = _summarizing(case)
    recent = strategy.preserve_recent_messages
    return Seen(
        state={
            "summary_ratio": strategy.summary_ratio,
            "preserve_recent": recent,
            "preserve_recent_messages": recent,
            "summarizer_model": strategy.summarizer,
            "summarization_prompt": strategy.system_prompt,
        }
    )


def adjust_split(case: Case, folder: Path) -> Seen:
    """Find where a summary may end without parting a step."""
    del folder
    messages, _ = messages_of(case["given"]["messages"])
    return _left_as_given(messages, lambda: split_point(messages, case["params"]["split"]))


def summarize_generate(case: Case, folder: Path) -> Seen:
    """A summary by itself."""
    del folder
    summaries = Summaries(kind="echo:S")
    params = dict(case["params"])
    reply = params.pop("summarizer_reply", None)
    ctx = context_of({**case, "params": params}, summaries)
    params_of({**case, "params": params}, ())
    if reply == "raises":
        summaries.kind = reply
    elif reply is not None:
        summaries.reply = _reply_of(reply)
    before = [each.model_copy(deep=True) for each in ctx.messages]
    seen = replace(seen_of(ctx.keep(), summaries, ctx), value=None, given=before)
    try:
        summary = drive(summarized(ctx, ctx.messages, Summarizer()))
    except Exception as error:  # noqa: BLE001 - cases expect errors of every kind
        return replace(_recounted(seen, summaries), error=error)
    return replace(_recounted(seen, summaries), value=summary)


def _recounted(seen: Seen, summaries: Summaries) -> Seen:
    return replace(seen, state={**(seen.state or {}), "summarizer_calls": len(summaries.inputs)})


def _reply_of(described: Any) -> AIMessage:
    """Return a summarizer's reply from its text, its content blocks or a whole message."""
    if isinstance(described, str | list):
        return AIMessage(described)
    (message,) = convert_to_messages([{"role": "assistant", "content": "", **described}])
    if not isinstance(message, AIMessage):
        raise NotBoundError(f"summarizer_reply {described!r}")
    return message


def _left_as_given(messages: list[AnyMessage], act: Callable[[], Any]) -> Seen:
    """Return a function's value or error, with the messages that it must not change."""
    before = [each.model_copy(deep=True) for each in messages]
    try:
        value = act()
    except Exception as error:  # noqa: BLE001 - cases expect errors of every kind
        return Seen(error=error, messages=messages, given=before)
    return Seen(value=value, messages=messages, given=before)


def by_bytes(case: Case, folder: Path) -> Seen:
    """A summary of a share of the bytes."""
    del folder
    ratio = params_of(case, ("ratio",)).get("ratio", 0.7)
    strategy = Summarizing(summary_ratio=ratio, preserve_recent_messages=0, measure="tokens")
    return overflowed(strategy, case)


def save_restore(case: Case, folder: Path) -> Seen:
    """A view made by one strategy, and the one that a new process makes of what was kept."""
    del folder
    strategy, summaries = _summarizing(case), Summaries()
    ctx = context_of(case, summaries)
    plan = drive(reduce_context(strategy, replace(ctx, overflows=1)))
    kept: Compaction = json.loads(json.dumps(plan.compaction))
    again = render(ctx.messages, kept, pins=ctx.pins, texts=TEXTS)
    seen = seen_of(plan, summaries, ctx)
    return replace(seen, state={**(seen.state or {}), "restored": again == plan.messages})


def result_truncate(case: Case, folder: Path) -> Seen:
    """Tool results made shorter."""
    del folder
    keep = params_of(case, ("preserve_chars",)).get("preserve_chars", 200)
    messages, _ = messages_of(case["given"]["messages"])
    once = [_truncated(each, keep) for each in messages]
    twice = [_truncated(each, keep) for each in once]
    return Seen(messages=once, given=messages, state={"noop": once == twice})


def _truncated(message: AnyMessage, keep: int) -> AnyMessage:
    return truncate(message, TEXTS, keep=keep) if isinstance(message, ToolMessage) else message


def _three(case: Case) -> ThreeStage:
    names = ("primers", "recents", "target_ratio", "trigger_ratio")
    made: ThreeStage = build(
        ThreeStage, **{name: case["params"][name] for name in names if name in case["params"]}
    )
    return made


def shape_apply(case: Case, folder: Path) -> Seen:
    """Primers and recents, with nothing in the place of the middle."""
    del folder
    params_of(case, ("primers", "recents"))
    strategy, ctx = _three(case), context_of(case, Summaries())
    middle = strategy.middle(ctx, primers=strategy.primers, recents=strategy.recents)
    return seen_of(ctx.leave_out(middle, why="middle"), Summaries(), ctx)


def shape_compress(case: Case, folder: Path) -> Seen:
    """Primers, a summary of the middle, recents."""
    del folder
    params_of(case, ("primers", "recents", "target_ratio", "trigger_ratio", "history_window"))
    return overflowed(_three(case), case)


def null_apply(case: Case, folder: Path) -> Seen:
    """Nothing left out."""
    del folder
    return applied(Null(), case)


def null_overflow(case: Case, folder: Path) -> Seen:
    """Nothing left out, although there is too much."""
    del folder
    return overflowed(Null(), case)


OPERATIONS: dict[str, Operation] = {
    "null.apply": null_apply,
    "null.reduce_on_overflow": null_overflow,
    "agent.run_count_management": count_management,
    "session.save_restore_after_summarize": save_restore,
    "shape.apply": shape_apply,
    "shape.compress": shape_compress,
    "shape.compress_from_store": shape_compress,
    "sliding_window.apply": sliding_apply,
    "sliding_window.construct": sliding_construct,
    "sliding_window.reduce_on_overflow": sliding_overflow,
    "sliding_window.reduce_proactive": sliding_apply,
    "summarize.adjust_split": adjust_split,
    "summarize.by_bytes": by_bytes,
    "summarize.construct": summarize_construct,
    "summarize.generate": summarize_generate,
    "summarize.reduce": summarize_reduce,
    "summarize.reduce_n": summarize_reduce_n,
    "summarize.reduce_on_overflow": summarize_overflow,
    "tool_result.truncate": result_truncate,
    "tool_result.truncate_twice": result_truncate,
}
