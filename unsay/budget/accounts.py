"""`UsageAccount`: what a session, its tasks and their agents have spent.

An account is a plain JSON value; every function returns a new one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain, count
from typing import Literal, NotRequired, TypeVar

from typing_extensions import TypedDict

from unsay.tokens.pricing import Amount

Layer = Literal["session", "task", "agent"]
Unit = Literal["tokens", "micros"]

LAYERS: tuple[Layer, ...] = ("session", "task", "agent")

KEPT_TASKS = 32  # newest tasks with an account; an older task begins again with 0
KEPT_AGENTS = 32  # the same for the agents of each task
KEPT_KEYS = 64  # keys of the newest settled calls, so that no call is settled twice


class Account(TypedDict):
    """What one session, task or agent has spent.

    Only calls that were made while a budget was set count. The times are those of the first one, in
    ISO 8601, UTC; calls before prices were set have no cost.
    """

    account_id: str
    tokens: int
    micros: int  # cost in millionths of the prices' currency
    times: int  # factor of the limit of tokens, which a person may raise
    micros_times: NotRequired[int]  # the same for the limit of cost; without it, `times` is
    tokens_since: NotRequired[str]
    micros_since: NotRequired[str]


class TaskAccount(Account):
    """What one task has spent, and each agent within it."""

    agents: list[Account]


class Hold(TypedDict):
    """The most that a running call may use, which counts as spent until the call is settled."""

    key: str
    task_id: str
    agent_id: str
    tokens: int
    micros: int
    at: NotRequired[str]  # when it was made, in ISO 8601, UTC


class UsageAccount(TypedDict):
    """All that a session has spent and holds; each list ends with the newest entry."""

    session: Account
    tasks: list[TaskAccount]
    holds: list[Hold]
    keys: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountKey:
    """The task and agent whose accounts a call uses besides the session's; often called `place`."""

    task_id: str
    agent_id: str = "agent"


def new_usage_account() -> UsageAccount:
    """Return the account of a session that has spent nothing."""
    return UsageAccount(session=_account("session"), tasks=[], holds=[], keys=[])


def knows(account: UsageAccount, key: str) -> bool:
    """Return whether a call with this key is held or was settled (of the newest `KEPT_KEYS`)."""
    return key in account["keys"] or any(hold["key"] == key for hold in account["holds"])


def unpaid_key(account: UsageAccount, key: str) -> str:
    """Return the key, or `KEY~2` and so on if calls with the earlier keys were settled."""
    names = chain([key], (f"{key}~{number}" for number in count(2)))
    return next(name for name in names if name not in account["keys"])


def account_of(account: UsageAccount, layer: Layer, place: AccountKey) -> Account:
    """Return what a layer has spent, without running calls; an unknown task or agent spent 0.

    `place` names the task and the agent.
    """
    if layer == "session":
        return account["session"]
    task = _task(account, place)
    return task if layer == "task" else _agent(task, place)


def used_of(account: UsageAccount, layer: Layer, place: AccountKey) -> Amount:
    """Return the tokens and the cost that a layer has spent, holds of running calls included.

    `place` names the task and the agent; an unknown one has spent 0 besides its holds.
    """
    layer_account, holds = account_of(account, layer, place), account["holds"]
    if layer != "session":
        holds = [hold for hold in holds if hold["task_id"] == place.task_id]
    if layer == "agent":
        holds = [hold for hold in holds if hold["agent_id"] == place.agent_id]
    return Amount(
        tokens=layer_account["tokens"] + sum(hold["tokens"] for hold in holds),
        micros=layer_account["micros"] + sum(hold["micros"] for hold in holds),
    )


def since_of(account: UsageAccount, layer: Layer, unit: Unit, place: AccountKey) -> str | None:
    """Return when the first call that a layer counts was made; `None` before one, or if unknown.

    With the `unit` micros it is the first call that had a cost.
    """
    own = account_of(account, layer, place)
    return own.get("tokens_since") if unit == "tokens" else own.get("micros_since")


def times_of(account: UsageAccount, layer: Layer, unit: Unit, place: AccountKey) -> int:
    """Return the factor by which a person has raised a limit; 1 if nobody has."""
    own = account_of(account, layer, place)
    return own.get("micros_times", own["times"]) if unit == "micros" else own["times"]


def hold(
    account: UsageAccount, amount: Amount, *, key: str, place: AccountKey, at: str | None = None
) -> UsageAccount:
    """Return the account with a hold: `amount` is reserved for a call at `place` under its `key`.

    `at` is the time, in ISO 8601, UTC; `None` if it is unknown.

    Limits are not checked here but by `limits.reserve`.
    """
    new_hold = Hold(
        key=key,
        task_id=place.task_id,
        agent_id=place.agent_id,
        tokens=amount.tokens,
        micros=amount.micros,
    )
    if at is not None:
        new_hold["at"] = at
    return {**account, "holds": [*account["holds"], new_hold]}


def held(account: UsageAccount, key: str) -> Amount:
    """Return the amount that is held for the running call with this key; 0 of both if there is none."""
    holds = (hold for hold in account["holds"] if hold["key"] == key)
    return next((Amount(tokens=hold["tokens"], micros=hold["micros"]) for hold in holds), Amount())


def release(account: UsageAccount, key: str) -> UsageAccount:
    """Return the account without the hold of the call with this key; unknown keys are ignored."""
    return {**account, "holds": [hold for hold in account["holds"] if hold["key"] != key]}


def settle(account: UsageAccount, amount: Amount, *, key: str, place: AccountKey) -> UsageAccount:
    """Return the account in which what a call used (`amount`) replaces its hold.

    A held call is settled where it was held, any other call at `place`. Settling the same key again
    changes nothing.
    """
    # The amount may exceed the limits: it is spent already, and the next call will be refused.
    if key in account["keys"]:
        return account
    matching_hold = next((hold for hold in account["holds"] if hold["key"] == key), None)
    if matching_hold is not None:
        place = AccountKey(task_id=matching_hold["task_id"], agent_id=matching_hold["agent_id"])
    at = None if matching_hold is None else matching_hold.get("at")
    rest = release(account, key)
    return {
        **rest,
        "session": _grown(rest["session"], amount, at),
        "tasks": _tasks_with(rest, amount, place, at),
        "keys": [*rest["keys"], key][-KEPT_KEYS:],
    }


def with_times(
    account: UsageAccount, times: Mapping[tuple[Layer, Unit], int], place: AccountKey
) -> UsageAccount:
    """Return the account with new factors for the limits in `times`; other limits keep theirs.

    The task and the agent are those of `place`.
    """
    session, tasks = account["session"].copy(), _tasks_with(account, Amount(), place)
    task = tasks[-1]  # the call's own, a copy, with its agent last
    by_layer: dict[Layer, Account] = {"session": session, "task": task, "agent": task["agents"][-1]}
    for layer, own in by_layer.items():
        micros = times_of(account, layer, "micros", place)
        own["micros_times"] = times.get((layer, "micros"), micros)
        own["times"] = times.get((layer, "tokens"), own["times"])
    return {**account, "session": session, "tasks": tasks}


_A = TypeVar("_A", Account, TaskAccount)


def _account(account_id: str) -> Account:
    return Account(account_id=account_id, tokens=0, micros=0, times=1)


def _task(account: UsageAccount, place: AccountKey) -> TaskAccount:
    match = next((task for task in account["tasks"] if task["account_id"] == place.task_id), None)
    return match or TaskAccount(**_account(place.task_id), agents=[])


def _agent(task: TaskAccount, place: AccountKey) -> Account:
    match = next((agent for agent in task["agents"] if agent["account_id"] == place.agent_id), None)
    return match or _account(place.agent_id)


def _grown(account: _A, amount: Amount, at: str | None) -> _A:
    grown = account.copy()
    if at is not None and not grown["tokens"]:
        grown["tokens_since"] = at
    if at is not None and amount.micros and not grown["micros"]:
        grown["micros_since"] = at
    grown["tokens"] += amount.tokens
    grown["micros"] += amount.micros
    return grown


def _tasks_with(
    account: UsageAccount, amount: Amount, place: AccountKey, at: str | None = None
) -> list[TaskAccount]:
    """Return the tasks with an amount added to the task and agent of `place`, which come last.

    A new task or agent is made. The oldest above `KEPT_TASKS` and `KEPT_AGENTS` are dropped, unless
    a call of theirs is running. `at` is the time of the call; `None` if it is unknown.
    """
    task = _grown(_task(account, place), amount, at)
    agents = [agent for agent in task["agents"] if agent["account_id"] != place.agent_id]
    agents.append(_grown(_agent(task, place), amount, at))
    busy_agent_ids = {
        hold["agent_id"] for hold in account["holds"] if hold["task_id"] == place.task_id
    }
    task["agents"] = _newest(agents, busy_agent_ids, KEPT_AGENTS)
    rest = [other for other in account["tasks"] if other["account_id"] != place.task_id]
    return _newest([*rest, task], {hold["task_id"] for hold in account["holds"]}, KEPT_TASKS)


def _newest(accounts: list[_A], held: set[str], most: int) -> list[_A]:
    """Return the `most` newest accounts, and the older ones in `held`, in the same order.

    `held` has the ids of accounts with running calls.
    """
    edge = len(accounts) - most  # an account with a hold stays: the call is settled there
    return [a for place, a in enumerate(accounts) if place >= edge or a["account_id"] in held]
