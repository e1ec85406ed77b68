"""A usage account that several callers share."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from langgraph.store.memory import InMemoryStore

from unsay.budget.accounts import (
    LAYERS,
    AccountKey,
    UsageAccount,
    account_of,
    new_usage_account,
    used_of,
)
from unsay.budget.limits import Limit, Limits
from unsay.effects import Steps, adrive, drive
from unsay.errors import BudgetExceededError
from unsay.history.threads import purge_thread
from unsay.llm.usage_account import ThreadAccount, load_usage_account, save_usage_account
from unsay.storage.sqlite import open_database
from unsay.tokens.pricing import Amount

PLACE = AccountKey(task_id="t")
HARD = Limits(session=Limit(tokens=1_000), mode="hard")
CALLERS = 16


def thread_account(store: Any = None) -> ThreadAccount:
    """An account; without a store it is kept in the object."""
    return ThreadAccount(store, "t", wait_seconds=60)


def tokens_by_layer(account: UsageAccount) -> list[int]:
    """What the three layers have used, session first."""
    return [used_of(account, layer, PLACE).tokens for layer in LAYERS]


def test_threads_are_granted_no_more_than_there_is() -> None:
    """They all ask at one instant, again and again, and give back what they did not use."""
    account = thread_account()
    start = threading.Barrier(CALLERS)

    def caller(number: int) -> int:
        start.wait()
        tokens_booked = 0
        for attempt in range(40):
            key = f"{number}-{attempt}"
            try:
                drive(account.reserve(HARD, Amount(tokens=30), key=key, place=PLACE))
            except BudgetExceededError:
                continue
            assert tokens_by_layer(drive(account.read()))[0] <= 1_000
            if attempt % 3:
                drive(account.settle(Amount(tokens=attempt % 30), key=key, place=PLACE))
                tokens_booked += attempt % 30
            else:
                drive(account.release(key))
        return tokens_booked

    with ThreadPoolExecutor(CALLERS) as pool:
        tokens_booked = sum(pool.map(caller, range(CALLERS)))

    assert [tokens_booked] * 3 == tokens_by_layer(drive(account.read()))
    assert 900 < tokens_booked <= 1_000


def test_one_key_asked_for_by_many_is_held_once() -> None:
    """They are the same call."""
    account = thread_account()
    start = threading.Barrier(CALLERS)

    def caller(_: int) -> None:
        start.wait()
        drive(account.reserve(HARD, Amount(tokens=900), key="k", place=PLACE))
        start.wait()
        drive(account.settle(Amount(tokens=700), key="k", place=PLACE))

    with ThreadPoolExecutor(CALLERS) as pool:
        list(pool.map(caller, range(CALLERS)))

    assert [700, 700, 700] == tokens_by_layer(drive(account.read()))


def test_a_usage_account_that_cannot_be_stored_is_not_believed() -> None:
    """The booking may be made again under its key, and counts once."""
    rows: list[UsageAccount] = []
    broken = True

    class Broken(InMemoryStore):
        def put(self, *args: Any, **options: Any) -> None:
            if broken:
                raise OSError("the disk is full")
            super().put(*args, **options)
            rows.append(args[2])

    account = thread_account(Broken())
    with pytest.raises(OSError, match="full"):
        drive(account.settle(Amount(tokens=150), key="k", place=PLACE))
    assert new_usage_account() == drive(account.read())
    broken = False
    for _ in range(3):
        drive(account.settle(Amount(tokens=150), key="k", place=PLACE))

    assert [drive(account.read())] == rows
    assert 150 == account_of(rows[0], "session", PLACE)["tokens"]


def test_a_question_reserves_nothing_until_the_answer_makes_room() -> None:
    """The call that was asked about then goes through."""
    limits = replace(HARD, mode="ask")
    account = thread_account()
    call = partial(account.reserve, limits, Amount(tokens=1_500), key="k", place=PLACE)
    first = drive(call())
    assert ("ask", new_usage_account()) == (first.check.outcome, drive(account.read()))

    second = drive(call(may_exceed=True))

    assert ("granted", [1_500] * 3) == (
        second.check.outcome,
        tokens_by_layer(drive(account.read())),
    )


@pytest.mark.parametrize("driver", [drive, lambda steps: asyncio.run(adrive(steps))])
def test_a_usage_account_is_in_the_store_until_its_thread_is_purged(
    driver: Callable[[Any], Any],
) -> None:
    """Each thread has a separate account, for any id."""
    database = open_database(":memory:")
    account = thread_account()
    store = database.store
    drive(account.settle(Amount(tokens=7), key="k", place=PLACE))
    usage = drive(account.read())

    def keeping() -> Steps[list[UsageAccount]]:
        for thread in ("a.b", "a"):
            yield from save_usage_account(store, thread, usage)
        yield from purge_thread(database, "a")
        return [
            (yield from load_usage_account(store, "a.b")),
            (yield from load_usage_account(store, "a")),
            (yield from load_usage_account(store, "c")),
        ]

    assert [usage, new_usage_account(), new_usage_account()] == driver(keeping())
    database.close()


def test_a_usage_account_continues_where_it_was() -> None:
    """As the store kept it."""
    store = InMemoryStore()
    drive(thread_account(store).settle(Amount(tokens=900), key="k", place=PLACE))
    before = drive(load_usage_account(store, "t"))
    after = thread_account(store)

    with pytest.raises(
        BudgetExceededError,
        match=r"session budget: 900 used, 101 for this call, limit 1,000 tokens",
    ):
        drive(after.reserve(HARD, Amount(tokens=101), key="other", place=PLACE))
    drive(after.settle(Amount(tokens=900), key="k", place=PLACE))
    assert before == drive(after.read())
