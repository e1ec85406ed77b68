"""The usage account of a session: what it, its tasks and their agents have spent.

A `UsageAccount` is a plain JSON value. Every function returns a new one.
"""

from dataclasses import dataclass
from itertools import count
from typing import Literal, TypedDict, TypeVar

from unsay.tokens.pricing import Amount

Layer = Literal["session", "task", "agent"]

LAYERS: tuple[Layer, ...] = ("session", "task", "agent")

KEPT_TASKS = 32  # an older task has spent nothing when it returns
KEPT_AGENTS = 32  # of each task
KEPT_KEYS = 64  # of the newest bookings, so that none is booked twice


class Account(TypedDict):
    """What one layer has spent; its limit is multiplied by `times`, which a person may raise."""

    account_id: str
    tokens: int
    micros: int
    times: int


class TaskAccount(Account):
    """What one task has spent, and each agent within it."""

    agents: list[Account]


class Hold(TypedDict):
    """The most that a running call may use; it counts as spent until the call is settled."""

    key: str
    task_id: str
    agent_id: str
    tokens: int
    micros: int


class UsageAccount(TypedDict):
    """All that a session has spent and holds; lists end in the newest."""

    session: Account
    tasks: list[TaskAccount]
    holds: list[Hold]
    keys: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountKey:
    """The accounts of a call, within the session: each agent of each task has its own."""

    task_id: str
    agent_id: str = "agent"


def new_usage_account() -> UsageAccount:
    """Return the account of a session that has spent nothing."""
    return UsageAccount(session=_account("session"), tasks=[], holds=[], keys=[])


def knows(book: UsageAccount, key: str) -> bool:
    """Return whether a call is held or booked under this key."""
    return key in book["keys"] or any(hold["key"] == key for hold in book["holds"])


def unpaid_key(book: UsageAccount, key: str) -> str:
    """Return the key, or a numbered one if a call was booked under the key already."""
    others = (f"{key}~{number}" for number in count(2))
    return key if key not in book["keys"] else next(o for o in others if o not in book["keys"])


def account_of(book: UsageAccount, layer: Layer, place: AccountKey) -> Account:
    """Return what a layer has spent, without holds."""
    if layer == "session":
        return book["session"]
    task = _task(book, place)
    return task if layer == "task" else _agent(task, place)


def used_of(book: UsageAccount, layer: Layer, place: AccountKey) -> Amount:
    """Return what a layer has spent, with the holds of running calls."""
    account, holds = account_of(book, layer, place), book["holds"]
    if layer != "session":
        holds = [hold for hold in holds if hold["task_id"] == place.task_id]
    if layer == "agent":
        holds = [hold for hold in holds if hold["agent_id"] == place.agent_id]
    return Amount(
        tokens=account["tokens"] + sum(hold["tokens"] for hold in holds),
        micros=account["micros"] + sum(hold["micros"] for hold in holds),
    )


def hold(book: UsageAccount, amount: Amount, *, key: str, place: AccountKey) -> UsageAccount:
    """Return the book with the hold of a call, whether it has room or not."""
    held = Hold(
        key=key,
        task_id=place.task_id,
        agent_id=place.agent_id,
        tokens=amount.tokens,
        micros=amount.micros,
    )
    return {**book, "holds": [*book["holds"], held]}


def held(book: UsageAccount, key: str) -> Amount:
    """Return the hold of a running call; nothing if there is none."""
    found = (each for each in book["holds"] if each["key"] == key)
    return next((Amount(tokens=each["tokens"], micros=each["micros"]) for each in found), Amount())


def release(book: UsageAccount, key: str) -> UsageAccount:
    """Return the book without the hold of a call that was not made, if it has one."""
    return {**book, "holds": [each for each in book["holds"] if each["key"] != key]}


def settle(book: UsageAccount, amount: Amount, *, key: str, place: AccountKey) -> UsageAccount:
    """Return the book with what a call used instead of its hold.

    Spent money is booked beyond the limits too: they bind the next call. A held call is booked
    where it was held, another one at `place`. A second booking under its key changes nothing.
    """
    if key in book["keys"]:
        return book
    held = next((each for each in book["holds"] if each["key"] == key), None)
    if held is not None:
        place = AccountKey(task_id=held["task_id"], agent_id=held["agent_id"])
    rest = release(book, key)
    return {
        **rest,
        "session": _grown(rest["session"], amount),
        "tasks": _tasks_with(rest, amount, place),
        "keys": [*rest["keys"], key][-KEPT_KEYS:],
    }


def with_times(book: UsageAccount, times: dict[Layer, int], place: AccountKey) -> UsageAccount:
    """Return the book with the limits of some layers multiplied by `times`."""
    session, tasks = book["session"].copy(), _tasks_with(book, Amount(), place)
    task = tasks[-1]  # the call's own, a copy, with its agent last
    agent = task["agents"][-1]
    session["times"] = times.get("session", session["times"])
    task["times"] = times.get("task", task["times"])
    agent["times"] = times.get("agent", agent["times"])
    return {**book, "session": session, "tasks": tasks}


_A = TypeVar("_A", Account, TaskAccount)


def _account(account_id: str) -> Account:
    return Account(account_id=account_id, tokens=0, micros=0, times=1)


def _task(book: UsageAccount, place: AccountKey) -> TaskAccount:
    found = next((each for each in book["tasks"] if each["account_id"] == place.task_id), None)
    return found or TaskAccount(**_account(place.task_id), agents=[])


def _agent(task: TaskAccount, place: AccountKey) -> Account:
    found = next((each for each in task["agents"] if each["account_id"] == place.agent_id), None)
    return found or _account(place.agent_id)


def _grown(account: _A, amount: Amount) -> _A:
    grown = account.copy()
    grown["tokens"] += amount.tokens
    grown["micros"] += amount.micros
    return grown


def _tasks_with(book: UsageAccount, amount: Amount, place: AccountKey) -> list[TaskAccount]:
    """The tasks with the call's task and agent last; the oldest without holds are dropped."""
    task = _grown(_task(book, place), amount)
    agents = [each for each in task["agents"] if each["account_id"] != place.agent_id]
    agents.append(_grown(_agent(task, place), amount))
    held = {each["agent_id"] for each in book["holds"] if each["task_id"] == place.task_id}
    task["agents"] = _newest(agents, held, KEPT_AGENTS)
    rest = [each for each in book["tasks"] if each["account_id"] != place.task_id]
    return _newest([*rest, task], {each["task_id"] for each in book["holds"]}, KEPT_TASKS)


def _newest(accounts: list[_A], held: set[str], most: int) -> list[_A]:
    """The newest accounts, and the older ones that hold a call."""
    edge = len(accounts) - most
    return [a for place, a in enumerate(accounts) if place >= edge or a["account_id"] in held]
