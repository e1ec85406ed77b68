"""Operations on strategies: windows, summaries, primers and recents, tool results."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langchain_core.messages.utils import convert_to_messages

from tests.cases.observation import Case, Observation, Operation
from tests.cases.strategy_kit import (
    TEXTS,
    Summaries,
    apply_overflow,
    apply_strategy,
    build,
    context_of,
    messages_of,
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
    strategy: SlidingWindow = build(SlidingWindow, **params)
    return strategy


def _summarizing(case: Case) -> Summarizing:
    new_names = {
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
    params = params_of(case, (*new_names, "conflict"))
    is_conflict = params.pop("conflict", False)
    options = {new_names[key]: value for key, value in params.items()}
    if is_conflict:  # a model and instructions for it, which exclude each other
        options = {"summarizer": "a-model", "system_prompt": "Be brief.", **options}
    strategy: Summarizing = build(Summarizing, **options, proactive=None)
    return strategy


def sliding_apply(case: Case, folder: Path) -> Observation:
    """A window at the end of a turn, or before a call."""
    del folder
    return apply_strategy(_sliding(case), case)


def sliding_overflow(case: Case, folder: Path) -> Observation:
    """A window after an overflow."""
    del folder
    return apply_overflow(_sliding(case), case)


def sliding_construct(case: Case, folder: Path) -> Observation:
    """A window's settings."""
    del folder
    window = _sliding(case)
    return Observation(
        state={
            "window_size": window.window_size,
            "per_turn": window.per_turn,
            "pin_first": window.pin_first,
            "truncate_results": window.truncate_results,
        }
    )


def count_management(case: Case, folder: Path) -> Observation:
    """Return how often a turn with this number of calls is managed, its end included."""
    del folder
    rhythm = _sliding(case).per_turn
    calls: list[int | None] = [*range(1, case["given"]["model_calls"] + 1), None]
    return Observation(value=sum(is_due(rhythm, call) for call in calls))


def summarize_reduce(case: Case, folder: Path) -> Observation:
    """A summary in the place of the oldest messages, where there are enough."""
    del folder
    return reduced_silently(_summarizing(case), case)


def summarize_overflow(case: Case, folder: Path) -> Observation:
    """A summary because of an overflow."""
    del folder
    return apply_overflow(_summarizing(case), case)


def summarize_reduce_n(case: Case, folder: Path) -> Observation:
    """Several summaries, one after the other."""
    del folder
    strategy = _summarizing(case)
    summaries = Summaries()
    ctx = before = context_of(case, summaries)
    after = []
    plan = ctx.keep()
    for _ in range(case["params"]["times"]):
        plan = drive(strategy.reduce(ctx))
        ctx = plan.after
        after.append({"len": len(plan.messages), "removed_message_count": removed(plan)})
    observation = seen_of(plan, summaries, before)
    return replace(observation, state={**(observation.state or {}), "after": after})


def summarize_construct(case: Case, folder: Path) -> Observation:
    """A summarizing strategy's settings."""
    del folder
    strategy = _summarizing(case)
    recent = strategy.preserve_recent_messages
    return Observation(
        state={
            "summary_ratio": strategy.summary_ratio,
            "preserve_recent": recent,
            "preserve_recent_messages": recent,
            "summarizer_model": strategy.summarizer,
            "summarization_prompt": strategy.system_prompt,
        }
    )


def adjust_split(case: Case, folder: Path) -> Observation:
    """Find where a summary may end without parting a step."""
    del folder
    messages, _ = messages_of(case["given"]["messages"])
    return _left_as_given(messages, lambda: split_point(messages, case["params"]["split"]))


def summarize_generate(case: Case, folder: Path) -> Observation:
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
    before = [message.model_copy(deep=True) for message in ctx.messages]
    observation = replace(seen_of(ctx.keep(), summaries, ctx), value=None, given=before)
    try:
        summary = drive(summarized(ctx, ctx.messages, Summarizer()))
    except Exception as error:  # noqa: BLE001 - cases expect errors of every kind
        return replace(_with_call_count(observation, summaries), error=error)
    return replace(_with_call_count(observation, summaries), value=summary)


def _with_call_count(observation: Observation, summaries: Summaries) -> Observation:
    return replace(
        observation, state={**(observation.state or {}), "summarizer_calls": len(summaries.inputs)}
    )


def _reply_of(spec: Any) -> AIMessage:
    """Return a summarizer's reply from its text, its content blocks or a whole message."""
    if isinstance(spec, str | list):
        return AIMessage(spec)
    (message,) = convert_to_messages([{"role": "assistant", "content": "", **spec}])
    if not isinstance(message, AIMessage):
        raise NotBoundError(f"summarizer_reply {spec!r}")
    return message


def _left_as_given(messages: list[AnyMessage], act: Callable[[], Any]) -> Observation:
    """Return a function's value or error, with the messages that it must not change."""
    before = [message.model_copy(deep=True) for message in messages]
    try:
        value = act()
    except Exception as error:  # noqa: BLE001 - cases expect errors of every kind
        return Observation(error=error, messages=messages, given=before)
    return Observation(value=value, messages=messages, given=before)


def by_bytes(case: Case, folder: Path) -> Observation:
    """A summary of a share of the bytes."""
    del folder
    ratio = params_of(case, ("ratio",)).get("ratio", 0.7)
    strategy = Summarizing(summary_ratio=ratio, preserve_recent_messages=0, measure="tokens")
    return apply_overflow(strategy, case)


def save_restore(case: Case, folder: Path) -> Observation:
    """A view made by one strategy, and the one that a new process makes of what was kept."""
    del folder
    strategy = _summarizing(case)
    summaries = Summaries()
    ctx = context_of(case, summaries)
    plan = drive(reduce_context(strategy, replace(ctx, overflows=1)))
    compaction: Compaction = json.loads(json.dumps(plan.compaction))
    context = render(ctx.messages, compaction, pins=ctx.pins, texts=TEXTS)
    observation = seen_of(plan, summaries, ctx)
    return replace(
        observation, state={**(observation.state or {}), "restored": context == plan.messages}
    )


def result_truncate(case: Case, folder: Path) -> Observation:
    """Tool results made shorter."""
    del folder
    keep = params_of(case, ("preserve_chars",)).get("preserve_chars", 200)
    messages, _ = messages_of(case["given"]["messages"])
    once = [_truncate(message, keep) for message in messages]
    twice = [_truncate(message, keep) for message in once]
    return Observation(messages=once, given=messages, state={"noop": once == twice})


def _truncate(message: AnyMessage, keep: int) -> AnyMessage:
    return truncate(message, TEXTS, keep=keep) if isinstance(message, ToolMessage) else message


def _three(case: Case) -> ThreeStage:
    names = ("primers", "recents", "target_ratio", "trigger_ratio")
    strategy: ThreeStage = build(
        ThreeStage, **{name: case["params"][name] for name in names if name in case["params"]}
    )
    return strategy


def shape_apply(case: Case, folder: Path) -> Observation:
    """Primers and recents, with nothing in the place of the middle."""
    del folder
    params_of(case, ("primers", "recents"))
    strategy = _three(case)
    ctx = context_of(case, Summaries())
    middle = strategy.middle(ctx, primers=strategy.primers, recents=strategy.recents)
    return seen_of(ctx.leave_out(middle, why="middle"), Summaries(), ctx)


def shape_compress(case: Case, folder: Path) -> Observation:
    """Primers, a summary of the middle, recents."""
    del folder
    params_of(case, ("primers", "recents", "target_ratio", "trigger_ratio", "history_window"))
    return apply_overflow(_three(case), case)


def null_apply(case: Case, folder: Path) -> Observation:
    """Nothing left out."""
    del folder
    return apply_strategy(Null(), case)


def null_overflow(case: Case, folder: Path) -> Observation:
    """Nothing left out, although there is too much."""
    del folder
    return apply_overflow(Null(), case)


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
