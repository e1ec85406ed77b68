"""Operations on strategies: windows, summaries, primers and recents, tool results."""

import json
from dataclasses import replace
from pathlib import Path

from langchain_core.messages import AnyMessage, ToolMessage

from tests.cases.seen import Case, Operation, Seen
from tests.cases.strategy_kit import (
    TEXTS,
    Summaries,
    applied,
    build,
    messages_of,
    overflowed,
    params_of,
    reduced_silently,
    removed,
    seen_of,
    situation_of,
)
from unsay.context.compaction import Compaction, render
from unsay.context.sliding import SlidingWindow
from unsay.context.strategy import Null, is_due, reduce_context
from unsay.context.summaries import Summarizer, summarized
from unsay.context.summarizing import Summarizing, split_point
from unsay.context.three_stage import ThreeStage
from unsay.context.tool_results import truncate
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
        "summarization_system_prompt": "system_prompt",
        "system_prompt": "system_prompt",
        "summary_ratio": "summary_ratio",
        "pin_first": "pin_first",
        "per_turn": "per_turn",
    }
    params = params_of(case, tuple(renamed))
    made: Summarizing = build(
        Summarizing, **{renamed[key]: value for key, value in params.items()}, proactive=None
    )
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
    """How often a turn of so many calls is managed, at its end as well."""
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
    now = before = situation_of(case, summaries)
    after = []
    plan = now.keep()
    for _ in range(case["params"]["times"]):
        plan = drive(strategy.reduce(now))
        now = plan.after
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
        }
    )


def adjust_split(case: Case, folder: Path) -> Seen:
    """Where a cut lands that may not part a step."""
    del folder
    messages, _ = messages_of(case["given"]["messages"])
    return Seen(value=split_point(messages, case["params"]["split"]))


def summarize_generate(case: Case, folder: Path) -> Seen:
    """A summary by itself."""
    del folder
    summaries = Summaries(kind=case["params"].get("summarizer", "echo:S"))
    now = situation_of(case, summaries)
    before = [each.model_copy(deep=True) for each in now.messages]
    drive(summarized(now, now.messages, Summarizer()))
    return replace(seen_of(now.keep(), summaries, now), given=before)


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
    now = situation_of(case, summaries)
    plan = drive(reduce_context(strategy, replace(now, overflows=1)))
    kept: Compaction = json.loads(json.dumps(plan.compaction))
    again = render(now.messages, kept, pins=now.pins, texts=TEXTS)
    seen = seen_of(plan, summaries, now)
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
    made: ThreeStage = build(
        ThreeStage, **{k: v for k, v in case["params"].items() if k in ("primers", "recents")}
    )
    return made


def shape_apply(case: Case, folder: Path) -> Seen:
    """Primers and recents, with nothing in the place of the middle."""
    del folder
    params_of(case, ("primers", "recents"))
    strategy, now = _three(case), situation_of(case, Summaries())
    middle = strategy.middle(now, primers=strategy.primers, recents=strategy.recents)
    return seen_of(now.leave_out(middle, why="middle"), Summaries(), now)


def shape_compress(case: Case, folder: Path) -> Seen:
    """Primers, a summary of the middle, recents."""
    del folder
    params_of(case, ("primers", "recents", "history_window"))
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
