"""Operations on the rules by which strategies act, and on turns that overflow."""

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

from tests.cases.observation import Case, Observation, Operation
from tests.cases.strategy_kit import (
    Summaries,
    apply_strategy,
    build,
    context_of,
    params_of,
    seen_of,
)
from tests.cases.world import OVERFLOW, NotBoundError
from unsay.context.compaction import Compaction
from unsay.context.plan import Plan, PlanContext
from unsay.context.strategy import (
    MAX_RETRIES,
    Composed,
    Null,
    Strategy,
    ask_with_strategy,
    plan_if_due,
)
from unsay.context.summarizing import ByTurns
from unsay.context.windows import Proactive, Rate, Ratios
from unsay.effects import Call, Steps, drive


def should_compress(case: Case, folder: Path) -> Observation:
    """Return whether it is time to compress; ask twice, since a warning may come only once."""
    del folder
    proactive_param = case["params"].get("proactive")
    if not proactive_param:
        return Observation(value=False, state={"warnings": 0})
    proactive = build(Proactive, **_threshold(proactive_param))
    log_entries: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = log_entries.append  # type: ignore[method-assign]
    log = logging.getLogger("unsay.context.windows")
    log.addHandler(handler)
    try:
        tokens = case["given"]["projected_input_tokens"]
        due = {proactive.reached(tokens, case["params"].get("context_window")) for _ in range(2)}
    finally:
        log.removeHandler(handler)
    (value,) = due
    return Observation(value=value, state={"warnings": len(log_entries)})


def _threshold(proactive_param: Any) -> dict[str, float]:
    if isinstance(proactive_param, dict):
        return {"threshold": next(iter(proactive_param.values()))} if proactive_param else {}
    return {} if proactive_param is True else {"threshold": proactive_param}


def proactive_construct(case: Case, folder: Path) -> Observation:
    """A threshold."""
    del folder
    params = case["params"]
    proactive_param = params.get("threshold", params.get("proactive", True))
    proactive = build(Proactive, **_threshold(proactive_param))
    return Observation(
        value=proactive.threshold,
        state={"threshold": proactive.threshold, "compression_threshold": proactive.threshold},
    )


def trigger_check(case: Case, folder: Path) -> Observation:
    """Whether compression begins."""
    del folder
    ratios = Ratios(trigger=case["params"].get("trigger_ratio", 0.75))
    tokens = case["given"]["estimated_tokens"]
    return Observation(value=ratios.reached(tokens, case["params"]["budget"]))


def trigger_target(case: Case, folder: Path) -> Observation:
    """What compression leaves."""
    del folder
    ratios = Ratios(target=case["params"].get("target_ratio", 0.375))
    return Observation(value=ratios.goal(case["params"]["budget"]))


def trigger_clamp(case: Case, folder: Path) -> Observation:
    """Shares brought into their limits."""
    del folder
    params = {key.removesuffix("_ratio"): value for key, value in case["params"].items()}
    ratios = build(Ratios, **params)
    return Observation(state={"trigger_ratio": ratios.trigger, "target_ratio": ratios.target})


def rate_check(case: Case, folder: Path) -> Observation:
    """Whether something may be compacted again, from what was kept as JSON."""
    del folder
    inputs = case["given"]
    since = inputs.get("minutes_since_last", inputs.get("minutes_since"))
    length = inputs.get("total_messages_at_last_compression", 0)
    length_now = inputs.get("total_messages_now", length + inputs.get("new_messages_since", 0))
    compaction = (
        Compaction(length=length) if since is None else Compaction(length=length, minutes=100.0)
    )
    stored_compaction: Compaction = json.loads(json.dumps(compaction))
    minutes = None if since is None else 100.0 + since
    params = params_of(case, ("min_new_messages", "min_minutes", "history_window"))
    params.pop("history_window", None)
    rate = Rate(**params)
    due = rate.allows(stored_compaction, length=length_now, minutes=minutes)
    return Observation(value=bool(inputs.get("over_threshold", True)) and due)


def _by_turns(case: Case) -> ByTurns:
    names = {
        "compress_at_turns": "compress_at_turns",
        "compress_at_max_input_tokens": "compress_at_tokens",
        "keep_max_turns": "keep_turns",
        "keep_max_input_tokens": "keep_tokens",
    }
    params = params_of(case, (*names, "add_turns_between"))
    params.pop("add_turns_between", None)
    strategy: ByTurns = build(ByTurns, **{names[key]: value for key, value in params.items()})
    return strategy


def compress_run(case: Case, folder: Path) -> Observation:
    """Run a pass of the turn policy; its first problem is the error of the case."""
    del folder
    observation = apply_strategy(_by_turns(case), case)
    problems = observation.value.problems if isinstance(observation.value, Plan) else ()
    return replace(observation, error=problems[0]) if problems else observation


def compress_run_n(case: Case, folder: Path) -> Observation:
    """Several passes, with turns in between."""
    del folder
    strategy = _by_turns(case)
    summaries = Summaries()
    ctx = before = context_of(case, summaries)
    plan = ctx.keep()
    for nth in range(case["params"]["times"]):
        plan = drive(plan_if_due(strategy, ctx))
        turn_count = case["params"].get("add_turns_between", 0)
        new_messages = [
            make(f"{make.__name__} {nth} {turn}", id=f"{make.__name__}-{nth}-{turn}")
            for turn in range(turn_count)
            for make in (HumanMessage, AIMessage)
        ]
        ctx = replace(plan.after, messages=[*ctx.messages, *new_messages])
    return seen_of(plan, summaries, before)


def compress_construct(case: Case, folder: Path) -> Observation:
    """A turn policy's settings."""
    del folder
    return Observation(value=_by_turns(case))


@dataclass(frozen=True, kw_only=True)
class Dropping:
    """A strategy that leaves out one message more each time."""

    per_turn: bool = True

    def plan(self, ctx: PlanContext) -> Plan:
        """As it is."""
        return ctx.keep()

    def reduce(self, ctx: PlanContext) -> Plan:
        """Without the oldest message."""
        return ctx.leave_out(ctx.unpinned[:1], why="dropped")


@dataclass(frozen=True, kw_only=True)
class Raising(Dropping):
    """A strategy that fails."""

    def reduce(self, ctx: PlanContext) -> Plan:
        """Fail."""
        raise ValueError(f"no plan for {len(ctx.messages)} messages")


@dataclass(frozen=True, kw_only=True)
class Early:
    """A strategy that reduces before the first call, as `proactive` of a case says."""

    reducer: Strategy
    proactive: Proactive
    per_turn: bool = True

    def plan(self, ctx: PlanContext) -> Any:
        """Reduce at the threshold, and always where the case gives no window."""
        if ctx.window_tokens and not self.proactive.reached(ctx.tokens, ctx.window_tokens):
            return ctx.keep()
        return self.reducer.reduce(ctx)

    def reduce(self, ctx: PlanContext) -> Any:
        """Reduce after an overflow."""
        return self.reducer.reduce(ctx)


REDUCERS: dict[str, Strategy] = {
    "acts": Dropping(),
    "does_nothing": Null(),
    "no_progress": Null(),
    "none": Null(),
    "noop": Null(),
    "raises": Raising(),
}


def reducer_of(params: dict[str, Any]) -> Strategy:
    """Return the strategy that a case names."""
    if params.get("reducer", "none") not in REDUCERS:
        raise NotBoundError(f"reducer {params['reducer']!r}")
    reducer = REDUCERS[params.get("reducer", "none")]
    proactive_param = params.get("proactive")
    if not proactive_param:
        return reducer
    strategy: Any = Early(
        reducer=reducer, proactive=build(Proactive, **_threshold(proactive_param))
    )
    return strategy


def _say(case: Case, ctx: PlanContext, ends: list[str]) -> Observation:
    """Make one call of a scripted model, with retries."""
    calls = 0

    def send(plan: Plan) -> Steps[Any]:
        def reply() -> str:
            nonlocal calls
            calls += 1
            end = ends.pop(0) if len(ends) > 1 else ends[0]
            if end.startswith("overflow"):
                raise ValueError(OVERFLOW)
            return end

        async def areply() -> str:
            return reply()

        del plan
        return (yield from Call(blocking=reply, awaitable=areply))

    before = [message.model_copy(deep=True) for message in ctx.messages]
    retries = case["params"].get("max_overflow_retries", MAX_RETRIES)
    reply = None
    error = None
    try:
        reply, _ = drive(ask_with_strategy(reducer_of(case["params"]), ctx, send, retries=retries))
    except Exception as failure:  # noqa: BLE001 - cases expect errors of every kind
        error = failure
    state = {"model_calls": calls}
    return Observation(value=reply, error=error, messages=ctx.messages, given=before, state=state)


def turn_with_retries(case: Case) -> Observation:
    """Run a turn whose model may answer that the request is too long."""
    params_of(case, ("model", "reducer", "proactive", "max_overflow_retries"))
    model = case["params"].get("model", "ok")
    ends = list(model) if isinstance(model, list) else [model]
    return _say(case, context_of(case, Summaries()), ends)


def run_sequence(case: Case, folder: Path) -> Observation:
    """Run turns whose model answers now and then that the request is too long."""
    del folder
    ends = list(case["params"]["model"])
    messages = [
        {"role": role, "content": f"m{i}"} for i in range(4) for role in ("user", "assistant")
    ]
    ctx = context_of({**case, "given": {"messages": messages}}, Summaries())
    turns = [_say(case, ctx, ends) for _ in range(case["given"]["turns"])]
    replies = [turn.value for turn in turns]
    calls = sum(turn.model_calls or 0 for turn in turns)
    successes = [reply == "ok" for reply in replies]
    return Observation(value=replies, state={"succeeded": successes, "model_calls": calls})


@dataclass(frozen=True, kw_only=True)
class Member:
    """One strategy of a pipeline, as a case describes it."""

    does: dict[str, bool]
    saw: list[float]
    per_turn: bool = True

    def plan(self, ctx: PlanContext) -> Plan:
        """Act, raise or look on."""
        self.saw.append(ctx.utilization)
        if self.does.get("raises"):
            raise ValueError("a strategy is broken")
        return ctx.leave_out(ctx.unpinned[:1], why="acts") if self.does.get("acts") else ctx.keep()

    def reduce(self, ctx: PlanContext) -> Plan:
        """The same."""
        return self.plan(ctx)


def pipeline_run(case: Case, folder: Path) -> Observation:
    """Strategies in order."""
    del folder
    params = dict(case["params"])
    counts = params.pop("token_counts")
    members = [Member(does=actions, saw=[]) for actions in params.pop("strategies")]
    ctx = context_of({**case, "params": params}, Summaries())
    ids = {message.id for message in ctx.messages}

    def count(view: Sequence[AnyMessage]) -> int:
        removed_count = len(ids - {message.id for message in view})
        return int(counts[min(removed_count, len(counts) - 1)])

    ctx = replace(ctx, count=count)
    plan = drive(plan_if_due(Composed(strategies=tuple(members)), ctx))
    names = ("first", "second", "third", "fourth", "fifth")
    saw = {
        f"{name}_strategy_saw_utilization": member.saw[0] if member.saw else None
        for name, member in zip(names, members, strict=False)
    }
    return Observation(messages=plan.messages, state=saw)


OPERATIONS: dict[str, Operation] = {
    "compress.construct": compress_construct,
    "compress.run": compress_run,
    "compress.run_n": compress_run_n,
    "compress_rate.check": rate_check,
    "compress_rate.check_after_json_roundtrip": rate_check,
    "compress_rate.check_windowed": rate_check,
    "compress_trigger.check": trigger_check,
    "compress_trigger.clamp": trigger_clamp,
    "compress_trigger.target": trigger_target,
    "pipeline.run": pipeline_run,
    "proactive.construct": proactive_construct,
    "proactive.should_compress": should_compress,
    "turn.run_sequence": run_sequence,
}
