"""Operations on budgets, backpressure and circuits."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langgraph.store.memory import InMemoryStore

from tests.cases.observation import Case, Observation, Operation
from tests.cases.world import NotBoundError
from unsay.budget.accounts import (
    LAYERS,
    AccountKey,
    UsageAccount,
    account_of,
    new_usage_account,
    settle,
)
from unsay.budget.limits import (
    PRIORITIES,
    Check,
    Circuit,
    CircuitPolicy,
    Limit,
    Limits,
    Step,
    allotment,
    check,
    delay_ms,
    pressure,
)
from unsay.conversation.conversation import Conversation
from unsay.effects import drive
from unsay.errors import BudgetExceededError
from unsay.llm.usage_account import ThreadAccount, load_usage_account, save_usage_account
from unsay.settings.groups import BACKPRESSURE
from unsay.settings.settings import load_settings
from unsay.tokens.pricing import Amount, Prices, Usage, amount_of

PLACE = AccountKey(task_id="task")
KINDS = {
    "input_tokens": "input",
    "output_tokens": "output",
    "cache_read_tokens": "cache_read",
    "cache_creation_tokens": "cache_creation",
}
LIMITING = {
    *(f"{layer}_budget" for layer in LAYERS),
    "hard_limit",
    "require_approval",
    "warning_threshold",
}
PRESSING = {
    *("backpressure_threshold", "threshold"),
    *("max_delay_ms", "max_backpressure_delay_ms", "max_backpressure_delay"),
}


def _check_names(values: Mapping[str, Any], known_names: set[str]) -> None:
    if unknown := set(values) - known_names:
        raise NotBoundError(f"{sorted(unknown)}")


def _limits(params: Mapping[str, Any]) -> Limits:
    """A hard limit goes before an approval, as in the ancestor."""
    _check_names(params, LIMITING | PRESSING)
    asks = "ask" if params.get("require_approval") else "soft"
    return Limits(
        **{layer: Limit(tokens=params.get(f"{layer}_budget")) for layer in LAYERS},
        mode="hard" if params.get("hard_limit") else asks,
        warning=params.get("warning_threshold", 0.8),
    )


def _steps(params: Mapping[str, Any]) -> tuple[Step, ...]:
    """Return the product's `backpressure` setting with another first share or longest delay.

    Steps below the threshold go, and so do those that exceed the longest delay, which is reached
    where the first of them was.
    """
    ends = [params[name] for name in sorted(PRESSING) if "max" in name and name in params]
    longest = ends[0] if ends else BACKPRESSURE[-1][1]
    first_longest = next((share for share, delay in BACKPRESSURE if delay >= longest), 1.0)
    steps = [*((share, ms) for share, ms in BACKPRESSURE if ms < longest), (first_longest, longest)]
    threshold = params.get("backpressure_threshold", params.get("threshold"))
    if threshold is not None:
        later_steps = [(share, ms) for share, ms in steps if share > threshold]
        steps = [(threshold, delay_ms(threshold, steps) or steps[0][1]), *later_steps]
    return load_settings({"backpressure": steps}).backpressure


def _usage_account(inputs: Mapping[str, Any]) -> UsageAccount:
    """A usage account whose layers have used what the case says."""
    account = new_usage_account()
    usage_by_layer = {layer: inputs.get(f"{layer}_used", 0) for layer in LAYERS}
    inner = (
        min(usage_by_layer["agent"], usage_by_layer["task"])
        if "agent_used" in inputs
        else usage_by_layer["task"]
    )
    charges = [
        (inner, PLACE),
        (usage_by_layer["task"] - inner, AccountKey(task_id=PLACE.task_id, agent_id="other")),
        (max(0, usage_by_layer["session"] - usage_by_layer["task"]), AccountKey(task_id="earlier")),
    ]
    for number, (tokens, account_key) in enumerate(charges):
        account = settle(account, Amount(tokens=tokens), key=f"{number}", place=account_key)
    return account


def _state(verdict: Check, params: Mapping[str, Any]) -> dict[str, Any]:
    steps = _steps(params)
    return {
        "can_proceed": verdict.outcome != "refused",
        "require_approval": verdict.outcome == "ask",
        "backpressure_active": delay_ms(verdict.usage, steps) > 0,
        "delay_ms": delay_ms(verdict.usage, steps),
        "backpressure_delay_ms": delay_ms(verdict.usage, steps),
        "pressure_level": pressure(verdict.usage),
        "budget_pressure": pressure(verdict.usage),
        "warnings": len(verdict.warnings),
        "exceeded": [gauge.layer for gauge in verdict.exceeded],
    }


def budget_check(case: Case, folder: Path) -> Observation:
    """Check whether a call has room, and how long it would wait."""
    inputs = case["given"]
    params = case["params"]
    _check_names(inputs, {*(f"{layer}_used" for layer in LAYERS), "estimated"})
    amount = Amount(tokens=inputs.get("estimated", 0))
    verdict = check(_usage_account(inputs), _limits(params), amount, place=PLACE)
    state = _state(verdict, params)
    claims = case["expected"].get("assertions", ())
    if any(claim["op"] in APPROVAL_CLAIMS for claim in claims):
        state["interrupted"] = verdict.outcome == "ask" and _waits_for_approval(case, folder)
    return Observation(value=verdict, state=state)


def _waits_for_approval(case: Case, folder: Path) -> bool:
    """Return whether a conversation with these budgets asks a person before its next call.

    Its first turn uses what the case says; the second must reach the model only after approval.
    """
    inputs = case["given"]
    params = case["params"]
    usage_by_layer = max(inputs.get(f"{layer}_used", 0) for layer in LAYERS)
    budgets = {
        f"{layer}_budget_tokens": params[f"{layer}_budget"]
        for layer in LAYERS
        if f"{layer}_budget" in params
    }
    calls: list[list[BaseMessage]] = []

    def model(messages: list[BaseMessage]) -> AIMessage:
        calls.append(messages)
        usage = UsageMetadata(
            input_tokens=usage_by_layer, output_tokens=0, total_tokens=usage_by_layer
        )
        return AIMessage(f"This is answer {len(calls)}.", usage_metadata=usage)

    options: Any = {"thread": "case", "model": model, "judge": lambda _: 0.9}
    fixed_settings = {"judging": "off", "backpressure": ()}
    if usage_by_layer:
        with Conversation.open(
            folder / "case.db", settings=fixed_settings, **options
        ) as conversation:
            conversation.say("The first question.")
    before = len(calls)
    settings = {**budgets, **fixed_settings, "budget_mode": "ask"}
    with Conversation.open(folder / "case.db", settings=settings, **options) as conversation:
        reply = conversation.say("word " * inputs.get("estimated", 0))
        is_waiting = reply.kind == "decision" and len(calls) == before
        return is_waiting and bool(conversation.resume("approve").text) and len(calls) > before


def _amount(inputs: Mapping[str, Any]) -> tuple[Usage, Amount]:
    _check_names(inputs["usage"], set(KINDS))
    usage = Usage(**{KINDS[name]: count for name, count in inputs["usage"].items()})
    prices = inputs.get("prices")
    return usage, amount_of(usage, None if prices is None else Prices(**prices))


def _totals(account: UsageAccount, usage: Usage) -> dict[str, Any]:
    return {
        "total_tokens": usage.input + usage.output,
        **{f"{layer}_used": account_of(account, layer, PLACE)["tokens"] for layer in LAYERS},
        "cost_micros": account["session"]["micros"],
    }


def transcript(case: Case, folder: Path) -> Observation:
    """A call's usage, booked."""
    return _charge(case, folder, times=1)


def record_twice(case: Case, folder: Path) -> Observation:
    """A call's usage, booked twice under one key."""
    return _charge(case, folder, times=2)


def _charge(case: Case, folder: Path, *, times: int) -> Observation:
    del folder
    usage, amount = _amount(case["given"])
    store = InMemoryStore()
    key = case["given"].get("idempotency_key", "key")
    save_usage_account(store, "t", _usage_account(case["given"])).blocking()
    account = ThreadAccount(store, "t", wait_seconds=60)
    for _ in range(times):
        drive(account.settle(amount, key=key, place=PLACE))
    return Observation(state=_totals(drive(account.read()), usage))


def record_retry_after_store_failure(case: Case, folder: Path) -> Observation:
    """A call's usage, booked again under the same key after the store failed."""
    del folder
    usage, amount = _amount(case["given"])
    script = list(case["given"]["store"])

    class Scripted(InMemoryStore):
        def put(self, *args: Any, **options: Any) -> None:
            if script.pop(0) == "raises":
                raise ConnectionError("the store is down")
            super().put(*args, **options)

    store = Scripted()
    account = ThreadAccount(store, "t", wait_seconds=60)
    for answer in list(script):
        try:
            drive(account.settle(amount, key=case["given"]["idempotency_key"], place=PLACE))
        except ConnectionError:
            assert answer == "raises"
    rows = store.search(("unsay", "budgets"))
    stored_account = drive(load_usage_account(store, "t"))
    return Observation(state={**_totals(stored_account, usage), "stored_rows": len(rows)})


def concurrent_reserve(case: Case, folder: Path) -> Observation:
    """How many of some calls, made by threads at one instant, are granted."""
    del folder
    inputs = case["given"]
    account = ThreadAccount(None, "t", wait_seconds=60)
    start = Barrier(inputs["parallel"])
    limits = _limits(case["params"])

    def call(number: int) -> bool:
        start.wait()
        try:
            amount = Amount(tokens=inputs["estimated"])
            grant = drive(account.reserve(limits, amount, key=f"call-{number}", place=PLACE))
        except BudgetExceededError:
            return False
        return grant.check.outcome == "granted"

    with ThreadPoolExecutor(inputs["parallel"]) as pool:
        grants = sum(pool.map(call, range(inputs["parallel"])))
    return Observation(value=grants, state={"granted": grants})


def two_tasks(case: Case, folder: Path) -> Observation:
    """Tasks of one session after another: each uses tokens, or asks whether it may."""
    del folder
    limits = _limits(case["params"])
    account = new_usage_account()
    verdict = None
    for number, task in enumerate(case["given"]["tasks"]):
        account_key = AccountKey(task_id=task["id"], agent_id=task.get("agent", PLACE.agent_id))
        if "estimated" in task:
            verdict = check(account, limits, Amount(tokens=task["estimated"]), place=account_key)
        amount = Amount(tokens=task.get("use", 0))
        account = settle(account, amount, key=f"{number}", place=account_key)
    if verdict is None:
        raise NotBoundError("tasks none of which asks")
    return Observation(value=verdict, state=_state(verdict, case["params"]))


def delay(case: Case, folder: Path) -> Observation:
    """How long a call waits."""
    del folder
    _check_names(case["params"], LIMITING | PRESSING)
    return Observation(value=delay_ms(case["given"]["usage"], _steps(case["params"])))


def pressure_level(case: Case, folder: Path) -> Observation:
    """How close a budget is to its end: a share, or what is used of the limits."""
    del folder
    if "usage" in case["given"]:
        return Observation(value=pressure(case["given"]["usage"]))
    verdict = check(_usage_account(case["given"]), _limits(case["params"]), Amount(), place=PLACE)
    return Observation(value=pressure(verdict.usage))


def allocate(case: Case, folder: Path) -> Observation:
    """What each of some priorities gets."""
    del folder
    table = case["params"].get("multipliers", PRIORITIES)
    base = case["given"]["base"]
    return Observation(
        value=[allotment(base, priority, table) for priority in case["given"]["priorities"]]
    )


def circuit_sequence(case: Case, folder: Path) -> Observation:
    """What a circuit says, step by step."""
    del folder
    params = case["params"]
    _check_names(params, {"failure_threshold", "reset_timeout_s", "half_open_requests"})
    policy = CircuitPolicy(
        failures=params["failure_threshold"],
        reset_seconds=params["reset_timeout_s"],
        probes=params["half_open_requests"],
    )
    circuit = Circuit(policy=policy)
    seconds_now = 0.0
    answers = list[Any]()
    for step in case["given"]["steps"]:
        word, _, seconds = step.partition(" ")
        if word == "wait":
            seconds_now += float(seconds)
        elif word == "check":
            trial = circuit.admit(seconds_now)
            circuit = trial or circuit
            answers.append(trial is not None)
        elif word == "state":
            answers.append(circuit.state(seconds_now))
        elif word in ("fail", "success"):
            circuit = (
                circuit.failed(seconds_now) if word == "fail" else circuit.succeeded(seconds_now)
            )
        else:
            raise NotBoundError(f"step {step!r}")
    return Observation(value=answers)


def _has_warning(value: Any) -> bool:
    return isinstance(value, Check) and bool(value.warnings)


APPROVAL_CLAIMS: dict[str, Callable[[Observation, Case], bool]] = {
    "execution_interrupted_until_approved": lambda observation, claim: (observation.state or {})[
        "interrupted"
    ],
}
"""Claims about a call that a person must approve."""

BUDGET_CLAIMS = {
    "has_warning": lambda value, claim: _has_warning(value),
    "no_warning": lambda value, claim: not _has_warning(value),
    "granted_le": lambda value, claim: value <= claim["value"],
    "granted_eq": lambda value, claim: value == claim["value"],
}
"""What is claimed of a check, or of how many calls were granted."""

OPERATIONS: dict[str, Operation] = {
    "budget.check": budget_check,
    "budget.record": transcript,
    "budget.record_twice": record_twice,
    "budget.record_retry_after_store_failure": record_retry_after_store_failure,
    "budget.concurrent_reserve": concurrent_reserve,
    "budget.two_tasks": two_tasks,
    "budget.delay_ms": delay,
    "budget.pressure_level": pressure_level,
    "budget.pressure": pressure_level,
    "budget.allocate": allocate,
    "circuit.sequence": circuit_sequence,
}
