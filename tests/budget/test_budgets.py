"""Budgets: what a session, a task and an agent may spend."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unsay.budget.accounts import (
    KEPT_AGENTS,
    KEPT_KEYS,
    KEPT_TASKS,
    LAYERS,
    AccountKey,
    Layer,
    UsageAccount,
    account_of,
    knows,
    new_usage_account,
    release,
    settle,
    used_of,
)
from unsay.budget.limits import (
    Gauge,
    Limit,
    Limits,
    allotment,
    check,
    demand,
    extend,
    limits_of,
    reserve,
)
from unsay.errors import BudgetExceededError, ConfigurationError
from unsay.settings.settings import BudgetMode, load_settings
from unsay.tokens.pricing import Amount

PLACE = AccountKey(task_id="t1", agent_id="a1")
SAME_TASK = AccountKey(task_id="t1", agent_id="a2")
OTHER_TASK = AccountKey(task_id="t2", agent_id="a1")
HARD = Limits(
    session=Limit(tokens=1_000), task=Limit(tokens=600), agent=Limit(tokens=300), mode="hard"
)


def tokens(count: int) -> Amount:
    """An amount without a cost."""
    return Amount(tokens=count)


def account_with(*calls: tuple[int, AccountKey]) -> UsageAccount:
    """A usage account in which calls were settled."""
    account = new_usage_account()
    for number, (count, account_key) in enumerate(calls):
        account = settle(account, tokens(count), key=f"call-{number}", place=account_key)
    return account


def usage_of(account: UsageAccount, account_key: AccountKey = PLACE) -> list[int]:
    """What the three layers have used, session first."""
    return [used_of(account, layer, account_key).tokens for layer in LAYERS]


@pytest.mark.parametrize(
    ("calls", "tokens_requested", "exceeded_layers"),
    [
        pytest.param([], 300, [], id="exactly to the limit"),
        pytest.param([], 301, ["agent"], id="over the agent's"),
        pytest.param([(300, PLACE), (300, SAME_TASK)], 1, ["task", "agent"], id="over two"),
        pytest.param([(500, SAME_TASK)], 101, ["task"], id="another agent spent the task's"),
        pytest.param([(800, OTHER_TASK)], 201, ["session"], id="another task spent the session's"),
        pytest.param([(1_000, OTHER_TASK)], 0, [], id="nothing more is nothing over"),
    ],
)
def test_each_layer_has_a_limit_of_its_own(
    calls: list[tuple[int, AccountKey]], tokens_requested: int, exceeded_layers: list[Layer]
) -> None:
    """What is spent under one task or agent is spent for the layers above, and for no other."""
    verdict = check(account_with(*calls), HARD, tokens(tokens_requested), place=PLACE)

    assert exceeded_layers == [gauge.layer for gauge in verdict.exceeded]
    assert ("refused" if exceeded_layers else "granted") == verdict.outcome


def test_a_task_and_its_agents_start_again() -> None:
    """The next task finds its own budget whole; the session's is what both have spent."""
    account = account_with((300, PLACE), (300, SAME_TASK))

    assert "refused" == check(account, HARD, tokens(1), place=PLACE).outcome
    assert "granted" == check(account, HARD, tokens(300), place=OTHER_TASK).outcome
    assert [600, 0, 0] == usage_of(account, OTHER_TASK)


def test_a_task_that_returns_goes_on_where_it_was() -> None:
    """Leaving a task and coming back does not give it its budget again."""
    account = account_with((300, PLACE), (50, OTHER_TASK), (10, SAME_TASK))

    assert [360, 310, 300] == usage_of(account, PLACE)


@pytest.mark.parametrize(
    ("mode", "outcome"), [("hard", "refused"), ("ask", "ask"), ("soft", "granted")]
)
def test_the_mode_says_what_happens_over_a_limit(mode: BudgetMode, outcome: str) -> None:
    """A call is booked only where it is granted, and each mode warns."""
    account = account_with((300, PLACE))
    limits = replace(HARD, mode=mode)
    reservation = reserve(account, limits, tokens(10), key="k", place=PLACE)

    assert outcome == reservation.check.outcome
    assert ["agent"] == [gauge.layer for gauge in reservation.check.warnings]
    assert (outcome == "granted") == knows(reservation.account, "k")
    assert reservation.check == check(account, limits, tokens(10), place=PLACE)


@pytest.mark.parametrize(
    ("tokens_requested", "warned_layers"),
    [
        pytest.param(239, [], id="under"),
        pytest.param(240, ["agent"], id="at 80 %"),
        pytest.param(300, ["agent"], id="at the limit"),
    ],
)
def test_a_call_is_warned_of_before_the_limit(
    tokens_requested: int, warned_layers: list[Layer]
) -> None:
    """The share that counts is the one that the call leads to."""
    verdict = check(new_usage_account(), HARD, tokens(tokens_requested), place=PLACE)

    assert warned_layers == [gauge.layer for gauge in verdict.warnings]
    assert tokens_requested / 300 == verdict.usage


def test_without_limits_everything_is_granted() -> None:
    """Nothing is gauged, and nothing is full."""
    verdict = check(account_with((10**9, PLACE)), Limits(), tokens(10**9), place=PLACE)

    assert ("granted", (), (), 0.0) == (
        verdict.outcome,
        verdict.gauges,
        verdict.warnings,
        verdict.usage,
    )


def test_costs_are_limited_beside_tokens() -> None:
    """A call that is short and dear goes over the cost alone."""
    limits = Limits(session=Limit(tokens=1_000, micros=500), mode="hard")
    verdict = check(new_usage_account(), limits, Amount(tokens=10, micros=501), place=PLACE)

    account_with_hold = reserve(
        new_usage_account(), limits, Amount(tokens=1, micros=400), key="k", place=PLACE
    ).account

    assert "refused" == check(account_with_hold, limits, Amount(micros=101), place=PLACE).outcome
    assert "granted" == check(account_with_hold, limits, Amount(micros=100), place=PLACE).outcome
    assert ["micros"] == [gauge.unit for gauge in verdict.exceeded]
    assert "session budget: 0 used, 0.000501 for this call, limit 0.0005" == str(
        verdict.exceeded[0]
    )


def test_a_held_call_counts_until_it_is_known() -> None:
    """It is spent as it was estimated, then as it was; one that was not made is given back."""
    account_with_hold = reserve(
        new_usage_account(), HARD, tokens(250), key="k", place=PLACE
    ).account

    assert [250, 250, 250] == usage_of(account_with_hold)
    assert [0, 0, 0] == [account_of(account_with_hold, layer, PLACE)["tokens"] for layer in LAYERS]
    assert "refused" == check(account_with_hold, HARD, tokens(51), place=PLACE).outcome
    assert [40, 40, 40] == usage_of(settle(account_with_hold, tokens(40), key="k", place=PLACE))
    assert new_usage_account() == release(account_with_hold, "k")


@pytest.mark.parametrize(
    ("account_key", "expected_usage"),
    [
        pytest.param(PLACE, [60, 30, 10], id="its agent"),
        pytest.param(SAME_TASK, [60, 30, 20], id="another agent"),
        pytest.param(OTHER_TASK, [60, 30, 30], id="another task"),
        pytest.param(AccountKey(task_id="t3"), [60, 0, 0], id="a task that holds nothing"),
    ],
)
def test_what_is_held_counts_where_it_is_held(
    account_key: AccountKey, expected_usage: list[int]
) -> None:
    """For the whole session, for its own task, for its own agent."""
    account = new_usage_account()
    for count, holder in ((10, PLACE), (20, SAME_TASK), (30, OTHER_TASK)):
        account = reserve(account, HARD, tokens(count), key=f"{count}", place=holder).account

    assert expected_usage == usage_of(account, account_key)


def test_what_a_call_came_to_over_its_estimate_is_counted() -> None:
    """The money is spent; the next call finds it so and is refused."""
    account_with_hold = reserve(
        new_usage_account(), HARD, tokens(200), key="k", place=PLACE
    ).account
    account_over = settle(account_with_hold, tokens(700), key="k", place=PLACE)

    assert [700, 700, 700] == usage_of(account_over)
    assert "refused" == check(account_over, HARD, tokens(0), place=PLACE).outcome


def test_a_held_call_is_counted_where_it_was_held() -> None:
    """A caller that reports the usage need not know the task."""
    account_with_hold = reserve(
        new_usage_account(), HARD, tokens(250), key="k", place=PLACE
    ).account

    assert usage_of(settle(account_with_hold, tokens(9), key="k", place=OTHER_TASK), PLACE) == [
        9,
        9,
        9,
    ]


@pytest.mark.parametrize("times", [1, 2, 5])
def test_a_key_is_held_and_counted_once(times: int) -> None:
    """However often a step is run again."""
    account = new_usage_account()
    for _ in range(times):
        reservation = reserve(account, HARD, tokens(200), key="k", place=PLACE)
        account = reservation.account
        assert "granted" == reservation.check.outcome
        assert 200 / 300 == reservation.check.usage
    for _ in range(times):
        account = settle(account, tokens(180), key="k", place=PLACE)
    second_reservation = reserve(account, HARD, tokens(200), key="k", place=PLACE)

    assert (account, 0.6) == (second_reservation.account, second_reservation.check.usage)
    assert [180, 180, 180] == usage_of(account)
    assert [310, 310, 310] == usage_of(settle(account, tokens(130), key="other", place=PLACE))


def test_a_refusal_says_what_to_do() -> None:
    """It names each limit with its numbers, and the settings that raise it."""
    verdict = check(account_with((600, PLACE)), HARD, tokens(1), place=PLACE)
    message = (
        "The model was not asked: task budget: 600 used, 1 for this call, limit 600 tokens; agent "
        "budget: 600 used, 1 for this call, limit 300 tokens. Raise agent_budget_tokens and task_budget_tokens, set budget_mode to 'ask' or "
        "'soft', or begin a new task"
    )

    with pytest.raises(BudgetExceededError, match=f"^{re.escape(message)}$"):
        demand(verdict)


@pytest.mark.parametrize("mode", ["soft", "ask"])
def test_only_a_refusal_is_an_error(mode: BudgetMode) -> None:
    """A warning and a question are the caller's to deal with."""
    demand(check(account_with((600, PLACE)), replace(HARD, mode=mode), tokens(1), place=PLACE))


def test_a_persons_yes_makes_room() -> None:
    """Each exceeded limit is multiplied until the call fits; the others stay."""
    limits = replace(HARD, mode="ask")
    account = account_with((250, PLACE))
    wider = extend(account, limits, tokens(400), place=PLACE)
    gauges = check(wider, limits, tokens(400), place=PLACE).gauges

    assert [1_000, 1_200, 900] == [gauge.limit for gauge in gauges]
    assert "granted" == reserve(wider, limits, tokens(400), key="k", place=PLACE).check.outcome
    assert usage_of(account) == usage_of(wider)
    assert [1_000, 600, 300] == [
        gauge.limit for gauge in check(wider, limits, tokens(1), place=OTHER_TASK).gauges
    ]


def test_a_yes_to_tokens_raises_no_cost() -> None:
    """A limit that the call does not exceed was not asked about, so it stays."""
    limits = Limits(session=Limit(tokens=1_000, micros=5_000_000), mode="ask")

    def session_limits(account: UsageAccount) -> list[int]:
        return [gauge.limit for gauge in check(account, limits, tokens(1), place=PLACE).gauges]

    wider = extend(new_usage_account(), limits, Amount(tokens=1_500, micros=5), place=PLACE)
    assert [2_000, 5_000_000] == session_limits(wider)
    dearer = extend(wider, limits, Amount(tokens=5, micros=12_000_000), place=PLACE)
    assert [2_000, 15_000_000] == session_limits(dearer)


def test_a_stored_yes_counts_for_both_units() -> None:
    """Accounts that older versions stored have one factor; what a person approved stays."""
    limits = Limits(session=Limit(tokens=1_000, micros=5_000_000), mode="ask")
    account = new_usage_account()
    account["session"]["times"] = 2
    for after in (account, extend(account, limits, Amount(tokens=2_500), place=PLACE)):
        assert 10_000_000 == check(after, limits, tokens(1), place=PLACE).gauges[1].limit


def test_a_yes_that_nothing_needs_changes_nothing() -> None:
    """There was room."""
    account = account_with((250, PLACE))

    assert account is extend(account, HARD, tokens(50), place=PLACE)


def test_old_tasks_agents_and_keys_are_let_go() -> None:
    """A usage account does not grow with its session, and the session's sum stays whole."""
    account = new_usage_account()
    for number in range(200):
        for account_key in (
            AccountKey(task_id=f"t{number}"),
            AccountKey(task_id="t", agent_id=f"a{number}"),
        ):
            account = settle(
                account, tokens(1), key=f"{number}-{account_key.task_id}", place=account_key
            )

    assert (KEPT_TASKS, KEPT_KEYS) == (len(account["tasks"]), len(account["keys"]))
    assert KEPT_AGENTS == len(account["tasks"][-1]["agents"])
    assert [400, 200, 1] == usage_of(account, AccountKey(task_id="t", agent_id="a199"))
    assert len(json.dumps(account)) < 8_000


def test_a_task_with_a_call_under_way_is_not_let_go() -> None:
    """However many tasks come after it."""
    limits = replace(HARD, session=Limit())
    account = reserve(
        account_with((250, PLACE)), limits, tokens(50), key="slow", place=PLACE
    ).account
    for number in range(KEPT_TASKS + 5):
        account = settle(
            account, tokens(1), key=f"{number}", place=AccountKey(task_id=f"later-{number}")
        )

    assert [300, 300] == usage_of(account)[1:]
    assert [260, 260] == usage_of(settle(account, tokens(10), key="slow", place=PLACE))[1:]


def test_an_agent_with_a_call_under_way_is_not_let_go() -> None:
    """However many agents of its task come after it."""
    limits = replace(HARD, task=Limit())
    account = reserve(
        account_with((250, PLACE)), limits, tokens(50), key="slow", place=PLACE
    ).account
    account = reserve(
        account, limits, tokens(1), key="elsewhere", place=AccountKey(task_id="t2", agent_id="x")
    ).account
    for number in range(KEPT_AGENTS + 5):
        later_key = AccountKey(task_id=PLACE.task_id, agent_id=f"later-{number}")
        account = settle(account, tokens(1), key=f"{number}", place=later_key)

    assert 300 == usage_of(account)[2]
    assert KEPT_AGENTS + 1 == len(account["tasks"][-1]["agents"])


@pytest.mark.parametrize("value", [0, -1, 1.5, "many"])
@pytest.mark.parametrize("unit", ["tokens", "micros"])
def test_an_impossible_limit_is_refused(unit: str, value: Any) -> None:
    """The message shows it."""
    with pytest.raises(ConfigurationError, match=re.escape(f"{unit} {value!r}: write a whole")):
        Limit(**{unit: value})


def test_the_settings_make_the_limits() -> None:
    """Costs are given in the prices' currency and kept in millionths."""
    settings = load_settings(
        {
            "session_budget_tokens": 7,
            "task_budget_cost": 0.57,
            "agent_budget_tokens": 3,
            "agent_budget_cost": 0.000_002,
            "budget_mode": "soft",
            "budget_warning": 0.5,
            "prices": {"m": {"input": 1, "output": 1}},
        }
    )
    limits = Limits(
        session=Limit(tokens=7),
        task=Limit(micros=570_000),
        agent=Limit(tokens=3, micros=2),
        mode="soft",
        warning=0.5,
    )

    assert limits == limits_of(settings)
    assert Limits() == limits_of(load_settings())


@pytest.mark.parametrize(
    ("priority", "allowance"),
    [("critical", 2_000), ("high", 1_500), ("normal", 1_000), ("low", 500), ("any other", 1_000)],
)
def test_a_priority_widens_or_narrows_a_budget(priority: str, allowance: int) -> None:
    """Against what a normal agent gets."""
    assert allowance == allotment(1_000, priority)


PLACES = st.builds(
    AccountKey, task_id=st.sampled_from(["t1", "t2", "t3"]), agent_id=st.sampled_from("ab")
)
CALLS = st.lists(st.tuples(st.integers(0, 400), st.floats(0, 1), PLACES), max_size=12)
LIMITS = st.builds(
    Limits,
    session=st.builds(Limit, tokens=st.none() | st.integers(1, 1_500)),
    task=st.builds(Limit, tokens=st.none() | st.integers(1, 800)),
    agent=st.builds(Limit, tokens=st.none() | st.integers(1, 500)),
    mode=st.just("hard"),
)


def is_within(account: UsageAccount, limits: Limits, account_keys: Sequence[AccountKey]) -> bool:
    """Whether no layer has used more than it may."""
    return all(
        limit is None or used_of(account, layer, account_key).tokens <= limit
        for account_key in account_keys
        for layer in LAYERS
        for limit in [limits.of(layer).tokens]
    )


@given(calls=CALLS, limits=LIMITS, data=st.data())
def test_a_hard_limit_holds_under_any_interleaving(
    calls: list[tuple[int, float, AccountKey]], limits: Limits, data: st.DataObject
) -> None:
    """Calls that come to at most their estimate begin, end, fail and repeat; no layer goes over."""
    account = new_usage_account()
    booked_tokens = 0
    waiting = list(enumerate(calls))
    running = list[tuple[int, tuple[int, float, AccountKey]]]()
    while waiting or running:
        assert is_within(account, limits, [account_key for _, _, account_key in calls])
        begins = bool(waiting) and (not running or data.draw(st.booleans()))
        if begins:
            number, call = waiting.pop(0)
            reservation = reserve(account, limits, tokens(call[0]), key=f"{number}", place=call[2])
            second_reservation = reserve(
                reservation.account, limits, tokens(call[0]), key=f"{number}", place=call[2]
            )
            assert reservation.account == second_reservation.account
            account = reservation.account
            if reservation.check.outcome == "granted":
                running.append((number, call))
            continue
        number, call = running.pop(data.draw(st.integers(0, len(running) - 1)))
        if data.draw(st.booleans()):
            came_to = int(call[0] * call[1])
            booked_tokens += came_to
            for _ in range(data.draw(st.integers(1, 2))):
                account = settle(account, tokens(came_to), key=f"{number}", place=call[2])
        else:
            account = release(account, f"{number}")
    assert is_within(account, limits, [account_key for _, _, account_key in calls])
    assert (booked_tokens, []) == (account["session"]["tokens"], account["holds"])


@given(calls=CALLS, costs=st.lists(st.integers(0, 10**7), min_size=12, max_size=12))
def test_the_layers_add_up(calls: list[tuple[int, float, AccountKey]], costs: list[int]) -> None:
    """A session has spent what its tasks have, and each of them what its agents have."""
    account = new_usage_account()
    for number, (count, _, account_key) in enumerate(calls):
        amount = Amount(tokens=count, micros=costs[number])
        account = settle(account, amount, key=f"{number}", place=account_key)
    for unit in ("tokens", "micros"):
        sums = [sum(agent[unit] for agent in task["agents"]) for task in account["tasks"]]
        assert sums == [task[unit] for task in account["tasks"]]
        assert sum(sums) == account["session"][unit]
    assert sum(count for count, _, _ in calls) == account["session"]["tokens"]
    assert sum(costs[: len(calls)]) == account["session"]["micros"]


@given(calls=CALLS, data=st.data())
def test_the_order_of_repetitions_does_not_matter(
    calls: list[tuple[int, float, AccountKey]], data: st.DataObject
) -> None:
    """Bookings that come twice, late and in another order, make the sums that they make once."""
    once = list(enumerate(calls))
    shuffled = data.draw(st.permutations(once + once))
    first = new_usage_account()
    second = new_usage_account()
    for number, (count, _, account_key) in once:
        first = settle(first, tokens(count), key=f"{number}", place=account_key)
    for number, (count, _, account_key) in shuffled:
        second = settle(second, tokens(count), key=f"{number}", place=account_key)

    for _, _, account_key in calls:
        assert usage_of(first, account_key) == usage_of(second, account_key)


@given(calls=CALLS, limits=LIMITS, tokens_requested=st.integers(0, 3_000), account_key=PLACES)
def test_a_yes_is_always_enough(
    calls: list[tuple[int, float, AccountKey]],
    limits: Limits,
    tokens_requested: int,
    account_key: AccountKey,
) -> None:
    """After it the call that was asked about has room, and not by more than one limit too much."""
    account = account_with(*[(count, account_key) for count, _, account_key in calls])
    limits = replace(limits, mode="ask")
    wider = extend(account, limits, tokens(tokens_requested), place=account_key)
    before = check(account, limits, tokens(tokens_requested), place=account_key)
    after = check(wider, limits, tokens(tokens_requested), place=account_key)

    assert "granted" == after.outcome
    for gauge in before.exceeded:
        own_limit = limits.of(gauge.layer).tokens or 0
        wide = _gauge(after.gauges, gauge.layer).limit
        assert wide - own_limit < gauge.used + gauge.asked <= wide


def _gauge(gauges: Sequence[Gauge], layer: Layer) -> Gauge:
    return next(gauge for gauge in gauges if gauge.layer == layer)


@given(calls=CALLS, limits=LIMITS)
def test_a_usage_account_is_json_and_never_changed(
    calls: list[tuple[int, float, AccountKey]], limits: Limits
) -> None:
    """Every function returns a new usage account and leaves the old one as it was."""
    account = new_usage_account()
    for number, (count, _, account_key) in enumerate(calls):
        before = json.dumps(account)
        account_with_hold = reserve(
            account, limits, tokens(count), key=f"{number}", place=account_key
        ).account
        wider = extend(account_with_hold, limits, tokens(count), place=account_key)
        after = settle(wider, tokens(count), key=f"{number}", place=account_key)
        assert before == json.dumps(account)
        account = json.loads(json.dumps(after))
        assert after == account
