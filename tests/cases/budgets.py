"""Operations on budgets, backpressure and circuits."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langgraph.store.memory import InMemoryStore

from tests.cases.seen import Case, Operation, Seen
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


def _only(values: Mapping[str, Any], known: set[str]) -> None:
    if unknown := set(values) - known:
        raise NotBoundError(f"{sorted(unknown)}")


def _limits(params: Mapping[str, Any]) -> Limits:
    """A hard limit goes before an approval, as in the ancestor."""
    _only(params, LIMITING | PRESSING)
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
    most = ends[0] if ends else BACKPRESSURE[-1][1]
    first_longest = next((share for share, delay in BACKPRESSURE if delay >= most), 1.0)
    steps = [*((share, ms) for share, ms in BACKPRESSURE if ms < most), (first_longest, most)]
    threshold = params.get("backpressure_threshold", params.get("threshold"))
    if threshold is not None:
        later = [(share, ms) for share, ms in steps if share > threshold]
        steps = [(threshold, delay_ms(threshold, steps) or steps[0][1]), *later]
    return load_settings({"backpressure": steps}).backpressure


def _usage_account(given: Mapping[str, Any]) -> UsageAccount:
    """A book in which the layers have used what the case says."""
    book = new_usage_account()
    used = {layer: given.get(f"{layer}_used", 0) for layer in LAYERS}
    inner = min(used["agent"], used["task"]) if "agent_used" in given else used["task"]
    booked = [
        (inner, PLACE),
        (used["task"] - inner, AccountKey(task_id=PLACE.task_id, agent_id="other")),
        (max(0, used["session"] - used["task"]), AccountKey(task_id="earlier")),
    ]
    for number, (tokens, place) in enumerate(booked):
        book = settle(book, Amount(tokens=tokens), key=f"{number}", place=place)
    return book


def _state(found: Check, params: Mapping[str, Any]) -> dict[str, Any]:
    steps = _steps(params)
    return {
        "can_proceed": found.outcome != "refused",
        "require_approval": found.outcome == "ask",
        "backpressure_active": delay_ms(found.usage, steps) > 0,
        "delay_ms": delay_ms(found.usage, steps),
        "backpressure_delay_ms": delay_ms(found.usage, steps),
        "pressure_level": pressure(found.usage),
        "budget_pressure": pressure(found.usage),
        "warnings": len(found.warnings),
        "exceeded": [gauge.layer for gauge in found.exceeded],
    }


def budget_check(case: Case, folder: Path) -> Seen:
    """Check whether a call has room, and how long it would wait."""
    given, params = case["given"], case["params"]
    _only(given, {*(f"{layer}_used" for layer in LAYERS), "estimated"})
    amount = Amount(tokens=given.get("estimated", 0))
    found = check(_usage_account(given), _limits(params), amount, place=PLACE)
    state = _state(found, params)
    claims = case["expected"].get("assertions", ())
    if any(claim["op"] in APPROVAL_CLAIMS for claim in claims):
        state["interrupted"] = found.outcome == "ask" and _waits_for_approval(case, folder)
    return Seen(value=found, state=state)


def _waits_for_approval(case: Case, folder: Path) -> bool:
    """Return whether a conversation with these budgets asks a person before its next call.

    Its first turn uses what the case says; the second must reach the model only after approval.
    """
    given, params = case["given"], case["params"]
    used = max(given.get(f"{layer}_used", 0) for layer in LAYERS)
    budgets = {
        f"{layer}_budget_tokens": params[f"{layer}_budget"]
        for layer in LAYERS
        if f"{layer}_budget" in params
    }
    calls: list[list[BaseMessage]] = []

    def model(messages: list[BaseMessage]) -> AIMessage:
        calls.append(messages)
        usage = UsageMetadata(input_tokens=used, output_tokens=0, total_tokens=used)
        return AIMessage(f"This is answer {len(calls)}.", usage_metadata=usage)

    options: Any = {"thread": "case", "model": model, "judge": lambda _: 0.9}
    fixed = {"judging": "off", "backpressure": ()}
    if used:
        with Conversation.open(folder / "case.db", settings=fixed, **options) as conversation:
            conversation.say("The first question.")
    before = len(calls)
    settings = {**budgets, **fixed, "budget_mode": "ask"}
    with Conversation.open(folder / "case.db", settings=settings, **options) as conversation:
        asked = conversation.say("word " * given.get("estimated", 0))
        is_waiting = asked.kind == "decision" and len(calls) == before
        return is_waiting and bool(conversation.resume("approve").text) and len(calls) > before


def _amount(given: Mapping[str, Any]) -> tuple[Usage, Amount]:
    _only(given["usage"], set(KINDS))
    usage = Usage(**{KINDS[name]: count for name, count in given["usage"].items()})
    prices = given.get("prices")
    return usage, amount_of(usage, None if prices is None else Prices(**prices))


def _recorded(book: UsageAccount, usage: Usage) -> dict[str, Any]:
    return {
        "total_tokens": usage.input + usage.output,
        **{f"{layer}_used": account_of(book, layer, PLACE)["tokens"] for layer in LAYERS},
        "cost_micros": book["session"]["micros"],
    }


def transcript(case: Case, folder: Path) -> Seen:
    """A call's usage, booked."""
    return _booked(case, folder, times=1)


def record_twice(case: Case, folder: Path) -> Seen:
    """A call's usage, booked twice under one key."""
    return _booked(case, folder, times=2)


def _booked(case: Case, folder: Path, *, times: int) -> Seen:
    del folder
    usage, amount = _amount(case["given"])
    store, key = InMemoryStore(), case["given"].get("idempotency_key", "key")
    save_usage_account(store, "t", _usage_account(case["given"])).blocking()
    account = ThreadAccount(store, "t", wait_seconds=60)
    for _ in range(times):
        drive(account.settle(amount, key=key, place=PLACE))
    return Seen(state=_recorded(drive(account.read()), usage))


def record_retry_after_store_failure(case: Case, folder: Path) -> Seen:
    """A call's usage, booked again under the same key after the store failed."""
    del folder
    usage, amount = _amount(case["given"])
    script = list(case["given"]["store"])

    class Scripted(InMemoryStore):
        def put(self, *args: Any, **more: Any) -> None:
            if script.pop(0) == "raises":
                raise ConnectionError("the store is down")
            super().put(*args, **more)

    store = Scripted()
    account = ThreadAccount(store, "t", wait_seconds=60)
    for answer in list(script):
        try:
            drive(account.settle(amount, key=case["given"]["idempotency_key"], place=PLACE))
        except ConnectionError:
            assert answer == "raises"
    rows = store.search(("unsay", "budgets"))
    kept = drive(load_usage_account(store, "t"))
    return Seen(state={**_recorded(kept, usage), "stored_rows": len(rows)})


def concurrent_reserve(case: Case, folder: Path) -> Seen:
    """How many of some calls, made by threads at one instant, are granted."""
    del folder
    given = case["given"]
    account, start = ThreadAccount(None, "t", wait_seconds=60), Barrier(given["parallel"])
    limits = _limits(case["params"])

    def call(number: int) -> bool:
        start.wait()
        try:
            amount = Amount(tokens=given["estimated"])
            grant = drive(account.reserve(limits, amount, key=f"call-{number}", place=PLACE))
        except BudgetExceededError:
            return False
        return grant.check.outcome == "granted"

    with ThreadPoolExecutor(given["parallel"]) as pool:
        granted = sum(pool.map(call, range(given["parallel"])))
    return Seen(value=granted, state={"granted": granted})


def two_tasks(case: Case, folder: Path) -> Seen:
    """Tasks of one session after another: each uses tokens, or asks whether it may."""
    del folder
    limits, book, found = _limits(case["params"]), new_usage_account(), None
    for number, task in enumerate(case["given"]["tasks"]):
        place = AccountKey(task_id=task["id"], agent_id=task.get("agent", PLACE.agent_id))
        if "estimated" in task:
            found = check(book, limits, Amount(tokens=task["estimated"]), place=place)
        used = Amount(tokens=task.get("use", 0))
        book = settle(book, used, key=f"{number}", place=place)
    if found is None:
        raise NotBoundError("tasks none of which asks")
    return Seen(value=found, state=_state(found, case["params"]))


def delay(case: Case, folder: Path) -> Seen:
    """How long a call waits."""
    del folder
    _only(case["params"], LIMITING | PRESSING)
    return Seen(value=delay_ms(case["given"]["usage"], _steps(case["params"])))


def pressure_level(case: Case, folder: Path) -> Seen:
    """How close a budget is to its end: a share, or what is used of the limits."""
    del folder
    if "usage" in case["given"]:
        return Seen(value=pressure(case["given"]["usage"]))
    found = check(_usage_account(case["given"]), _limits(case["params"]), Amount(), place=PLACE)
    return Seen(value=pressure(found.usage))


def allocate(case: Case, folder: Path) -> Seen:
    """What each of some priorities gets."""
    del folder
    table = case["params"].get("multipliers", PRIORITIES)
    base = case["given"]["base"]
    return Seen(value=[allotment(base, each, table) for each in case["given"]["priorities"]])


def circuit_sequence(case: Case, folder: Path) -> Seen:
    """What a circuit says, step by step."""
    del folder
    params = case["params"]
    _only(params, {"failure_threshold", "reset_timeout_s", "half_open_requests"})
    policy = CircuitPolicy(
        failures=params["failure_threshold"],
        reset_seconds=params["reset_timeout_s"],
        probes=params["half_open_requests"],
    )
    circuit, now, said = Circuit(policy=policy), 0.0, list[Any]()
    for step in case["given"]["steps"]:
        word, _, seconds = step.partition(" ")
        if word == "wait":
            now += float(seconds)
        elif word == "check":
            admitted = circuit.admit(now)
            circuit = admitted or circuit
            said.append(admitted is not None)
        elif word == "state":
            said.append(circuit.state(now))
        elif word in ("fail", "success"):
            circuit = circuit.failed(now) if word == "fail" else circuit.succeeded(now)
        else:
            raise NotBoundError(f"step {step!r}")
    return Seen(value=said)


def _has_warning(seen: Any) -> bool:
    return isinstance(seen, Check) and bool(seen.warnings)


APPROVAL_CLAIMS: dict[str, Callable[[Seen, Case], bool]] = {
    "execution_interrupted_until_approved": lambda seen, claim: (seen.state or {})["interrupted"],
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
