"""Scripted summarizers and situations for the operations on strategies."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage
from langchain_core.messages.utils import convert_to_messages

from tests.cases.seen import Case, Seen
from tests.cases.world import NotBoundError
from unsay.context.compaction import is_summary
from unsay.context.plan import Plan, PlanContext
from unsay.context.strategy import Strategy, call_strategy, plan_if_due, reduce_context
from unsay.effects import Call, Steps, drive
from unsay.errors import ConfigurationError
from unsay.messages.content import calls_of, text_of
from unsay.prompts.fields import Texts

TEXTS = Texts("en")
OVERFLOW = "prompt is too long: 205000 tokens > 200000 maximum"


def _chars(messages: Sequence[AnyMessage]) -> int:
    calls = (json.dumps(call.args) for each in messages for call in calls_of(each))
    return sum(len(text_of(each)) for each in messages) + sum(map(len, calls))


COUNTERS: dict[str | None, Callable[[Sequence[AnyMessage]], int]] = {
    None: _chars,
    "10_per_message": lambda messages: 10 * len(messages),
    "chars/4": lambda messages: _chars(messages) // 4,
}


@dataclass(kw_only=True)
class Summaries:
    """A scripted summarizer and what it was shown."""

    kind: str = "echo:SUMMARY"
    inputs: list[list[AnyMessage]] = field(default_factory=list)

    def ask(self, request: Sequence[AnyMessage], model: Any) -> Steps[Any]:
        """The call of the summarizer."""
        del model

        def reply() -> AIMessage:
            self.inputs.append(list(request))
            if self.kind == "raises":
                raise ValueError("the summarizer is broken")
            return AIMessage(self.kind.partition(":")[2] if ":" in self.kind else "SUMMARY")

        async def later() -> AIMessage:
            return reply()

        return (yield Call(blocking=reply, awaitable=later))


def params_of(case: Case, known: Sequence[str]) -> dict[str, Any]:
    """The params that an operation knows, of those that the case has.

    Raises:
        NotBoundError: It has others.
    """
    common = {"summarizer", "counter", "context_window", "pin", "tools", "tool_tokens", "times"}
    if unknown := set(case["params"]) - common - set(known):
        raise NotBoundError(f"params {sorted(unknown)}")
    return {key: case["params"][key] for key in known if key in case["params"]}


def messages_of(described: Sequence[dict[str, Any]]) -> tuple[list[AnyMessage], frozenset[str]]:
    """The messages, each with an id, and the ids of the pinned ones."""
    pins = {f"m{i}" for i, each in enumerate(described) if each.get("pinned")}
    plain = [{k: v for k, v in each.items() if k != "pinned"} for each in described]
    messages: list[Any] = convert_to_messages(plain)
    for index, message in enumerate(messages):
        message.id = f"m{index}"
    return messages, frozenset(pins)


def situation_of(case: Case, summaries: Summaries) -> PlanContext:
    """What a case gives."""
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
    """What a constructor makes; a value that it refuses is a `ValueError`, as cases call it."""
    try:
        return make(**params)
    except ConfigurationError as error:
        raise ValueError(str(error)) from error


def removed(plan: Plan) -> int:
    """The number of messages that a plan's spans leave out."""
    spans = [each for each in plan.left_out if each.why not in ("cleared", "truncated", "topic")]
    return sum(len(each.message_ids) for each in spans)


def seen_of(plan: Plan, summaries: Summaries, before: PlanContext) -> Seen:
    """A plan's view, and what the summarizer was shown."""
    return Seen(
        messages=plan.messages,
        given=before.messages,
        state={
            "removed_message_count": removed(plan),
            "summarizer_inputs": summaries.inputs,
            "summarizer_calls": len(summaries.inputs),
            "model_input": [text_of(each) for each in plan.messages],
        },
    )


def applied(strategy: Strategy, case: Case) -> Seen:
    """A routine pass."""
    summaries = Summaries()
    now = situation_of(case, summaries)
    return seen_of(drive(plan_if_due(strategy, now)), summaries, now)


def overflowed(strategy: Strategy, case: Case) -> Seen:
    """A pass after an overflow."""
    summaries = Summaries()
    now = replace(situation_of(case, summaries), overflows=1)
    return seen_of(drive(reduce_context(strategy, now)), summaries, now)


def reduced_silently(strategy: Strategy, case: Case) -> Seen:
    """A pass that reduces; what it cannot do it reports, which a case may call an error."""
    summaries = Summaries()
    now = situation_of(case, summaries)
    plan = drive(call_strategy(strategy.reduce, now))
    for problem in plan.problems if "raises" in case["expected"] else ():
        raise problem
    return seen_of(plan, summaries, now)


def _input(seen: Seen) -> list[AnyMessage]:
    """What the summarizer was shown last, without the words that tell it what to keep."""
    request: list[AnyMessage] = (seen.state or {})["summarizer_inputs"][-1]
    return [each for each in request if each.type != "system"]


def _shown_to_summarizer(seen: Seen, claim: dict[str, Any]) -> bool:
    """Whether exactly these messages were summarized, in order."""
    given = list(seen.given or ())[claim["from"] : claim["to"]]
    lines = [text_of(each).splitlines()[1:-1] for each in _input(seen)[:-1]]
    return [[f"{each.type}: {text_of(each)}"] for each in given] == lines


STRATEGY_CLAIMS: dict[str, Callable[[Seen, dict[str, Any]], bool]] = {
    "both_turns_succeed": lambda s, c: (s.state or {})["succeeded"] == [True, True],
    "input_list_not_mutated": lambda s, c: list(s.messages or ()) == list(s.given or ()),
    "model_input_contains_exact": lambda s, c: (
        set(c["values"]) <= set((s.state or {})["model_input"])
    ),
    "or_unchanged": lambda s, c: True,
    "restored_equals_live": lambda s, c: (s.state or {})["restored"],
    "second_application_is_noop": lambda s, c: (s.state or {})["noop"],
    "summarizer_calls_eq": lambda s, c: (s.state or {})["summarizer_calls"] == c["value"],
    "summarizer_input_contains": lambda s, c: all(
        any(value in text_of(each) for each in _input(s))
        for value in c.get("values", [c.get("value")])
    ),
    "summarizer_input_len": lambda s, c: len(_input(s)) == c["value"],
    "summarizer_input_messages": _shown_to_summarizer,
    "summarizer_input_not_contains": lambda s, c: (
        not any(
            value in text_of(each)
            for each in _input(s)
            for value in c.get("values", [c.get("value")])
        )
    ),
    "summarizer_last_contains_ci": lambda s, c: (
        c["value"].lower() in text_of(_input(s)[-1]).lower()
    ),
    "summary_messages_eq": lambda s, c: (
        sum(is_summary(each) for each in s.messages or ()) == c["value"]  # type: ignore[arg-type]
    ),
    "warned_once": lambda s, c: (s.state or {})["warnings"] == 1,
}
