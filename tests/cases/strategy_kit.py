"""Scripted summarizers and contexts for the operations on strategies."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.messages.utils import convert_to_messages

from tests.cases.observation import Case, Observation
from tests.cases.world import NotBoundError
from unsay.context.compaction import is_summary
from unsay.context.plan import Plan, PlanContext
from unsay.context.strategy import Strategy, call_strategy, plan_if_due, reduce_context
from unsay.effects import Call, Steps, drive
from unsay.errors import ConfigurationError
from unsay.messages.content import calls_of, text_of
from unsay.prompts.catalogue import Texts

TEXTS = Texts("en")


def _chars(messages: Sequence[AnyMessage]) -> int:
    calls = (json.dumps(call.args) for message in messages for call in calls_of(message))
    return sum(len(text_of(message)) for message in messages) + sum(map(len, calls))


COUNTERS: dict[str | None, Callable[[Sequence[AnyMessage]], int]] = {
    None: _chars,
    "10_per_message": lambda messages: 10 * len(messages),
    "chars/4": lambda messages: _chars(messages) // 4,
}


@dataclass(kw_only=True)
class Summaries:
    """A scripted summarizer and the requests that it received."""

    kind: str = "echo:SUMMARY"
    reply: AIMessage | None = None
    """The whole reply where a case gives one, for example with tool calls."""

    inputs: list[list[AnyMessage]] = field(default_factory=list)

    def ask(self, request: Sequence[AnyMessage], model: Any) -> Steps[Any]:
        """The call of the summarizer."""
        del model

        def reply() -> AIMessage:
            self.inputs.append(list(request))
            if self.kind == "raises":
                raise ValueError("the summarizer is broken")
            if self.reply is not None:
                return self.reply.model_copy(deep=True)
            return AIMessage(self.kind.partition(":")[2] if ":" in self.kind else "SUMMARY")

        async def areply() -> AIMessage:
            return reply()

        return (yield from Call(blocking=reply, awaitable=areply))


def params_of(case: Case, names: Sequence[str]) -> dict[str, Any]:
    """Return the params of a case that an operation knows.

    Raises:
        NotBoundError: The case has other params.
    """
    common = {"summarizer", "counter", "context_window", "pin", "tools", "tool_tokens", "times"}
    if unknown := set(case["params"]) - common - set(names):
        raise NotBoundError(f"params {sorted(unknown)}")
    return {key: case["params"][key] for key in names if key in case["params"]}


def messages_of(specs: Sequence[dict[str, Any]]) -> tuple[list[AnyMessage], frozenset[str]]:
    """Return the messages, each with an id, and the ids of the pinned ones."""
    pins = {f"m{i}" for i, spec in enumerate(specs) if spec.get("pinned")}
    plain = [{k: v for k, v in spec.items() if k != "pinned"} for spec in specs]
    messages: list[Any] = convert_to_messages(plain)
    for index, message in enumerate(messages):
        message.id = f"m{index}"
    return messages, frozenset(pins)


def context_of(case: Case, summaries: Summaries) -> PlanContext:
    """Return what a strategy plans from in this case."""
    params = case["params"]
    messages, pins = messages_of(case["given"]["messages"])
    summaries.kind = params.get("summarizer", summaries.kind)
    return PlanContext(
        messages=messages,
        count=COUNTERS[params.get("counter")],
        texts=TEXTS,
        window_tokens=params.get("context_window"),
        overhead_tokens=params.get("tool_tokens", 0) * params.get("tools", 1),
        pins=pins | {f"m{index}" for index in params.get("pin", [])},
        ask=summaries.ask,
    )


def build(make: Callable[..., Any], **params: Any) -> Any:
    """Construct a strategy; cases call a refused value a `ValueError`."""
    try:
        return make(**params)
    except ConfigurationError as error:
        raise ValueError(str(error)) from error


def removed(plan: Plan) -> int:
    """The number of messages that a plan's spans leave out."""
    spans = [
        omission
        for omission in plan.left_out
        if omission.why not in ("cleared", "truncated", "topic")
    ]
    return sum(len(omission.message_ids) for omission in spans)


def seen_of(plan: Plan, summaries: Summaries, before: PlanContext) -> Observation:
    """Return a plan's messages and the requests that the summarizer received."""
    return Observation(
        value=plan,
        messages=plan.messages,
        given=before.messages,
        state={
            "count": before.count,
            "removed_message_count": removed(plan),
            "summarizer_inputs": summaries.inputs,
            "summarizer_calls": len(summaries.inputs),
            "model_input": [text_of(message) for message in plan.messages],
        },
    )


def run_pass(
    case: Case, make_plan: Callable[[PlanContext], Steps[Plan]], *, overflows: int = 0
) -> Observation:
    """Run one pass of a strategy; after an error, the context is compared as the pass left it."""
    summaries = Summaries()
    ctx = replace(context_of(case, summaries), overflows=overflows)
    before = replace(ctx, messages=[message.model_copy(deep=True) for message in ctx.messages])
    try:
        plan = drive(make_plan(ctx))
    except Exception as error:  # noqa: BLE001 - cases expect errors of every kind
        return replace(seen_of(ctx.keep(), summaries, before), error=error)
    return seen_of(plan, summaries, before)


def apply_strategy(strategy: Strategy, case: Case) -> Observation:
    """Run a routine pass."""
    return run_pass(case, lambda ctx: plan_if_due(strategy, ctx))


def apply_overflow(strategy: Strategy, case: Case) -> Observation:
    """Run a pass after an overflow."""
    return run_pass(case, lambda ctx: reduce_context(strategy, ctx), overflows=1)


def reduced_silently(strategy: Strategy, case: Case) -> Observation:
    """Run a pass that reduces; its first problem is an error where the case expects one."""
    observation = run_pass(case, lambda ctx: call_strategy(strategy.reduce, ctx))
    problems = observation.value.problems if isinstance(observation.value, Plan) else ()
    return (
        replace(observation, error=problems[0])
        if problems and "raises" in case["expected"]
        else observation
    )


def _input(observation: Observation) -> list[AnyMessage]:
    """Return the summarizer's last request without its instructions."""
    request: list[AnyMessage] = (observation.state or {})["summarizer_inputs"][-1]
    return [message for message in request if message.type != "system"]


def _shown_to_summarizer(observation: Observation, claim: dict[str, Any]) -> bool:
    """Return whether exactly these messages were summarized, in order."""
    messages = list(observation.given or ())[claim["from"] : claim["to"]]
    lines = [text_of(message).splitlines()[1:-1] for message in _input(observation)[:-1]]
    expected_lines = [
        [f"{message.type}: {json.dumps(text_of(message), ensure_ascii=False)}"]
        for message in messages
    ]
    return expected_lines == lines


def _summaries(observation: Observation) -> list[str]:
    """Return the summaries by themselves, without heading and fence."""
    if isinstance(observation.value, Plan):
        return list(observation.value.after.summaries)
    return [observation.value] if isinstance(observation.value, str) else []


def _summary_messages(observation: Observation) -> list[AnyMessage]:
    messages: list[Any] = list(observation.messages or ())
    return [message for message in messages if is_summary(message)]


def _has_no_calls(observation: Observation) -> bool:
    carriers = _summary_messages(observation) or [
        AIMessage(summary) for summary in _summaries(observation)
    ]
    return bool(carriers) and not any(calls_of(message) for message in carriers)


def _summaries_fit(observation: Observation, claim: dict[str, Any]) -> bool:
    """Return whether each summary has at most this many tokens by the counter of the case."""
    count = (observation.state or {})["count"]
    summaries = _summaries(observation)
    return bool(summaries) and all(
        count([HumanMessage(summary)]) <= claim["value"] for summary in summaries
    )


STRATEGY_CLAIMS: dict[str, Callable[[Observation, dict[str, Any]], bool]] = {
    "both_turns_succeed": lambda s, c: (s.state or {})["succeeded"] == [True, True],
    "input_list_not_mutated": lambda s, c: list(s.messages or ()) == list(s.given or ()),
    "model_input_contains_exact": lambda s, c: (
        set(c["values"]) <= set((s.state or {})["model_input"])
    ),
    "or_unchanged": lambda s, c: True,
    "restored_equals_live": lambda s, c: (s.state or {})["restored"],
    "second_application_is_noop": lambda s, c: (s.state or {})["noop"],
    "summarizer_input_contains": lambda s, c: all(
        any(value in text_of(message) for message in _input(s))
        for value in c.get("values", [c.get("value")])
    ),
    "summarizer_input_len": lambda s, c: len(_input(s)) == c["value"],
    "summarizer_input_messages": _shown_to_summarizer,
    "summarizer_input_not_contains": lambda s, c: (
        not any(
            value in text_of(message)
            for message in _input(s)
            for value in c.get("values", [c.get("value")])
        )
    ),
    "summarizer_last_contains_ci": lambda s, c: (
        c["value"].lower() in text_of(_input(s)[-1]).lower()
    ),
    "summary_messages_eq": lambda s, c: (
        sum(is_summary(message) for message in s.messages or ()) == c["value"]  # type: ignore[arg-type]
    ),
    "summary_has_no_tool_calls": lambda s, c: _has_no_calls(s),
    "summary_max_tokens_le": _summaries_fit,
    "summary_present": lambda s, c: any(summary.strip() for summary in _summaries(s)),
    "summary_text_is": lambda s, c: _summaries(s) == [c["value"]],
    "warned_once": lambda s, c: (s.state or {})["warnings"] == 1,
}
