"""Books that are opened once in a process, and what crashes left in them."""

import asyncio
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from langgraph.store.memory import InMemoryStore

from unsay.budget.accounts import AccountKey, hold, new_usage_account
from unsay.effects import Call, Steps, adrive, drive
from unsay.llm.usage_account import (
    HOLDS,
    WITHOUT_STORE,
    Accounts,
    load_usage_account,
    save_usage_account,
)
from unsay.settings.settings import load_settings
from unsay.tokens.pricing import Amount

PLACE = AccountKey(task_id="t")
both_drivers = pytest.mark.parametrize(
    "driver", [drive, lambda steps: asyncio.run(adrive(steps))], ids=["blocking", "event loop"]
)


def new_accounts() -> Accounts:
    """Books of a graph with the default settings."""
    return Accounts(load_settings())


def spend(accounts: Accounts, store: Any, thread: str, tokens: int) -> Steps[int]:
    """UsageAccount something; what is spent by now."""
    account = accounts.opened(store, thread)
    yield from account.settle(Amount(tokens=tokens), key=f"{thread}-{tokens}", place=PLACE)
    return (yield from account.read())["session"]["tokens"]


@both_drivers
def test_the_holds_of_many_crashes_come_to_an_end(driver: Callable[[Any], Any]) -> None:
    """The oldest count as spent; nothing is forgotten."""
    store = InMemoryStore()
    usage_account = new_usage_account()
    for number in range(HOLDS + 4):
        usage_account = hold(usage_account, Amount(tokens=10), key=f"{number}", place=PLACE)

    def steps() -> Steps[None]:
        yield from save_usage_account(store, "a", usage_account)
        yield from spend(new_accounts(), store, "a", 1)

    driver(steps())

    account = drive(load_usage_account(store, "a"))
    assert [f"{number}" for number in range(4, HOLDS + 4)] == [e["key"] for e in account["holds"]]
    assert 41 == account["session"]["tokens"]


@both_drivers
def test_a_usage_account_is_read_again_by_a_later_process(driver: Callable[[Any], Any]) -> None:
    """In between another process may have written it."""
    store = InMemoryStore()
    ours = new_accounts()
    theirs = new_accounts()

    def steps() -> Steps[list[int]]:
        first = yield from spend(ours, store, "a", 1)
        second = yield from spend(theirs, store, "a", 2)
        return [first, second, (yield from spend(ours, store, "a", 4))]

    assert [1, 3, 7] == driver(steps())


def test_without_a_store_the_newest_threads_are_remembered() -> None:
    """As many as there is room for."""
    accounts = new_accounts()
    for number in range(WITHOUT_STORE + 1):
        drive(spend(accounts, None, f"{number}", 1))

    assert [3, 2] == [
        drive(spend(accounts, None, thread_id, 2)) for thread_id in (f"{WITHOUT_STORE}", "0")
    ]


async def test_changes_are_kept_one_after_the_other() -> None:
    """However long a store takes for each, the last one that is written is the newest."""
    totals: list[int] = []

    class Slow(InMemoryStore):
        async def abatch(self, ops: Any) -> Any:
            ops = list(ops)
            for operation in ops:
                value = getattr(operation, "value", None)
                if value is not None:
                    for _ in range(20 - 2 * len(totals)):
                        await asyncio.sleep(0)
                    totals.append(value["session"]["tokens"])
            return await super().abatch(ops)

    accounts = new_accounts()
    store = Slow()
    await asyncio.gather(*(adrive(spend(accounts, store, "a", 1 + n)) for n in range(5)))

    assert sorted(totals) == totals
    assert [15] == totals[-1:]


async def test_a_change_that_is_broken_off_is_none() -> None:
    """The next one starts from what was kept."""
    store = InMemoryStore()
    accounts = new_accounts()

    async def for_ever() -> None:
        await asyncio.Event().wait()

    def hanging() -> Steps[Any]:
        settling = accounts.opened(store, "a").settle(Amount(tokens=9), key="k", place=PLACE)
        with closing(settling) as steps:
            yield from next(steps)
            steps.send(None)
            yield from Call(blocking=lambda: None, awaitable=for_ever)

    task = asyncio.create_task(adrive(hanging()))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert 2 == await adrive(spend(accounts, store, "a", 2))


def test_without_a_store_the_least_recently_used_account_goes_first() -> None:
    """An account that was opened again outlives those that were opened before that."""
    accounts = new_accounts()
    for number in range(WITHOUT_STORE):
        drive(spend(accounts, None, f"{number}", 1))
    drive(spend(accounts, None, "0", 1))
    drive(spend(accounts, None, "new", 1))

    assert [3, 2] == [drive(spend(accounts, None, thread_id, 2)) for thread_id in ("0", "1")]
