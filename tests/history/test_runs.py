"""Runs: what each invocation of a graph passes through, and the list of them."""

from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore

from tests.conftest import Do
from tests.history.run_kit import change_run
from unsay.effects import drive
from unsay.errors import (
    DatabaseCorruptError,
    InputError,
    RunConflictError,
    SessionEndedError,
    UnknownRunError,
)
from unsay.history.runs import (
    ERROR_CHARS,
    PHASES,
    Run,
    Suspension,
    advance,
    children,
    find_run,
    get_run,
    list_runs,
    open_run,
    put_run,
    resume,
    runs_namespace,
    suspend,
)
from unsay.history.threads import begin, end
from unsay.types import RunPhase, RunStatus

STATUSES = get_args(RunStatus)
ALLOWED = {
    ("pending", "running"),
    ("running", "completed"),
    ("running", "failed"),
    ("running", "canceled"),
    ("running", "paused"),
    ("paused", "running"),
    ("paused", "canceled"),
    ("paused", "failed"),
    ("failed", "running"),
    ("canceled", "running"),
}
"""Every step from one status to another that a run may take."""

OVER = {"completed", "failed", "canceled"}


def moment(second: int) -> str:
    """A moment of the day that these tests take place on."""
    return f"2026-01-01T00:{second // 60:02}:{second % 60:02}.000+00:00"


def run_in(status: RunStatus, **changes: Any) -> Run:
    """A run in a status, in its first phase."""
    plain = Run(
        run_id="r",
        thread_id="t",
        status=status,
        phase=PHASES[status][0],
        started_at=moment(0),
        updated_at=moment(0),
        ended_at=moment(0) if status in OVER else None,
    )
    return replace(plain, **changes)


@pytest.mark.parametrize(("old", "new"), sorted(product(STATUSES, STATUSES)))
def test_a_status_follows_only_where_it_may(old: RunStatus, new: RunStatus) -> None:
    """A step off the table is refused with both statuses; saying a status again changes nothing."""
    run = run_in(old)
    if old == new:
        assert run == advance(run, now=moment(1), status=new)
    elif (old, new) in ALLOWED:
        next_run = advance(run, now=moment(1), status=new)
        assert (new, moment(1)) == (next_run.status, next_run.updated_at)
        assert (moment(1) if new in OVER else None) == next_run.ended_at
        assert 1 + (old in {"failed", "canceled"}) == next_run.attempt
    else:
        with pytest.raises(RunConflictError, match=f"'{old}' and cannot become '{new}'"):
            advance(run, now=moment(1), status=new)


@pytest.mark.parametrize(("status", "phase"), sorted(product(STATUSES, get_args(RunPhase))))
def test_a_phase_fits_its_status(status: RunStatus, phase: RunPhase) -> None:
    """Another one is refused with those that would do."""
    run = run_in(status)
    if phase in PHASES[status]:
        assert phase == advance(run, now=moment(1), phase=phase).phase
    else:
        with pytest.raises(RunConflictError, match=f"'{status}' in the phase '{phase}'"):
            advance(run, now=moment(1), phase=phase)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["advance", "suspend", "resume"]),
        st.sampled_from([None, *STATUSES]),
        st.sampled_from([None, *get_args(RunPhase)]),
    ),
    max_size=30,
)


@given(steps=STEPS, status=st.sampled_from(["pending", "running"]))
def test_no_steps_lead_to_a_run_that_contradicts_itself(
    steps: list[tuple[str, Any, Any]], status: RunStatus
) -> None:
    """Each either takes a step of the table or is refused, and nothing goes unless all goes."""
    run = run_in(status)
    for second, (verb, outcome, phase) in enumerate(steps, 1):
        before = run
        time = moment(second)
        try:
            if verb == "advance":
                run = advance(run, now=time, status=outcome, phase=phase)
            elif verb == "suspend":
                run = suspend(run, f"s{second % 3}", {"n": 1}, now=time)
            else:
                run = resume(run, now=time)
        except RunConflictError:
            assert before == run
        pair = (before.status, run.status)
        assert before.status == run.status or pair in ALLOWED
        assert run.phase in PHASES[run.status]
        assert (run.status in OVER) == (run.ended_at is not None)
        assert run.suspension is None or run.status == "paused"
        assert before.attempt <= run.attempt <= before.attempt + 1
        assert run.attempt == before.attempt or run.status == "running"


@pytest.mark.parametrize(
    ("status", "expected"),
    [("pending", 1), ("paused", 1), ("running", 2), ("failed", 2), ("canceled", 2)],
)
def test_a_run_sets_out_again(status: RunStatus, expected: int) -> None:
    """Only a run that had begun and was interrupted counts as an attempt."""
    reply = resume(run_in(status, error="why" if status == "failed" else None), now=moment(1))

    assert ("running", "prompted", expected) == (reply.status, reply.phase, reply.attempt)
    assert (None, None, moment(1)) == (reply.error, reply.ended_at, reply.updated_at)


def test_a_completed_run_stays_completed() -> None:
    """There is nothing to resume in it."""
    with pytest.raises(RunConflictError, match="start another run"):
        resume(run_in("completed"), now=moment(1))


def test_a_phase_goes_along_into_a_pause_and_back() -> None:
    """A waiting run keeps its position, and resumes there."""
    working = advance(run_in("running"), now=moment(1), phase="executing_tools")
    paused_run = advance(working, now=moment(2), status="paused")
    resumed_run = advance(paused_run, now=moment(3), status="running")

    assert ["executing_tools"] * 3 == [item.phase for item in (working, paused_run, resumed_run)]
    assert "completed" == advance(resumed_run, now=moment(4), status="completed").phase


def test_an_error_says_why_a_run_ended() -> None:
    """Any text is kept on one line and short, until the run starts again."""
    failed = advance(
        run_in("running"), now=moment(1), status="failed", error="no\n\ud800 " + "x" * 9_999
    )

    assert failed.error is not None
    assert ERROR_CHARS == len(failed.error)
    assert failed.error.startswith("no ? x")
    assert failed == advance(failed, now=moment(2), status="failed", error="again")
    assert advance(failed, now=moment(3), status="running").error is None
    with pytest.raises(InputError, match="needs status='failed' or 'canceled'"):
        advance(run_in("running"), now=moment(1), status="completed", error="why?")


@pytest.mark.parametrize("word", [{"status": "done"}, {"phase": "thinking"}], ids=str)
def test_an_unknown_word_is_refused(word: dict[str, Any]) -> None:
    """With those that there are."""
    with pytest.raises(InputError, match="use one of p"):
        advance(run_in("running"), now=moment(1), **word)


def test_a_suspension_is_said_once() -> None:
    """The same again changes nothing, and another is refused, until the run resumes."""
    body = {"question": "よい?", "choices": [1, {"a": None}]}
    waiting = suspend(run_in("running"), "s1", body, now=moment(1))

    assert Suspension(suspension_id="s1", body=body, at=moment(1)) == waiting.suspension
    assert "paused" == waiting.status
    assert waiting == suspend(waiting, "s1", dict(reversed(body.items())), now=moment(2))
    for different in (
        ("s2", body),
        ("s1", {**body, "more": 1}),
        ("s1", {**body, "choices": [True]}),
    ):
        with pytest.raises(RunConflictError, match="already waits for 's1'"):
            suspend(waiting, *different, now=moment(2))
    resumed_run = advance(waiting, now=moment(3), status="running")
    assert resumed_run.suspension is None
    assert "s2" == suspend(resumed_run, "s2", {}, now=moment(4)).suspension.suspension_id  # type: ignore[union-attr]
    assert advance(waiting, now=moment(3), status="canceled").suspension is None


@pytest.mark.parametrize("status", ["pending", *sorted(OVER)])
def test_only_a_run_at_work_can_be_suspended(status: RunStatus) -> None:
    """Any other is refused as it would be by `advance`."""
    with pytest.raises(RunConflictError, match="'paused'"):
        suspend(run_in(status), "s1", {}, now=moment(1))


@pytest.mark.parametrize(
    "body",
    [float("nan"), {"a": object()}, {(): 1}, {"a": 1, 2: 3}, {"a": b"x"}],
    ids=["no object", "no value", "no text as key", "mixed keys", "bytes"],
)
def test_a_suspension_is_json(body: Any) -> None:
    """What a store could not keep is refused before it is there."""
    with pytest.raises(InputError, match="give JSON"):
        suspend(run_in("running"), "s1", body, now=moment(1))


@pytest.mark.parametrize("thread_id", ["t", "a.b", "a%b", "日本 語", "'; DROP TABLE store; --"])
async def test_a_run_is_opened_once_and_kept_whole(
    thread_id: str, store: BaseStore, do: Do
) -> None:
    """For any ids, its newest state is read back."""
    options = {"turn_id": "q1", "parent_run_id": "p", "labels": {"tenant": "甲"}}
    run = await do(open_run(store, thread_id, "r.1%", now=moment(1), **options))
    body = {"half": "\ud800", "huge": 2**80, "nested": {"a": [1.5, None, True]}}
    waits = partial(suspend, suspension_id="s", body=body, now=moment(2))
    waiting = await do(change_run(store, thread_id, "r.1%", waits))
    second_run = await do(open_run(store, thread_id, "r.1%", now=moment(3), **options))

    assert ("running", "prompted", 1) == (run.status, run.phase, run.attempt)
    assert ("q1", "p", {"tenant": "甲"}) == (run.turn_id, run.parent_run_id, run.labels)
    assert body == second_run.suspension.body
    assert waiting == second_run == await do(get_run(store, thread_id, "r.1%"))
    assert (waiting,) == (await do(list_runs(store, thread_id=thread_id))).runs


@pytest.mark.parametrize("body", [None, "text", "\ud800", 2**80, [1, [True]], {}], ids=repr)
async def test_any_json_can_be_waited_with(body: Any, store: BaseStore, do: Do) -> None:
    """Values that a store cannot keep unchanged come back and are recognized."""
    await do(open_run(store, "t", "r", now=moment(1)))
    waits = partial(suspend, suspension_id="s", body=body, now=moment(2))
    waiting = await do(change_run(store, "t", "r", waits))

    assert body == waiting.suspension.body
    assert (
        waiting
        == await do(get_run(store, "t", "r"))
        == await do(change_run(store, "t", "r", waits))
    )


async def test_an_id_is_one_runs(store: BaseStore, do: Do) -> None:
    """Another turn's or parent's run needs a new id; another thread's does not."""
    first = await do(open_run(store, "t", "r", now=moment(1), turn_id="q1", status="pending"))
    for different in ({"turn_id": "q2"}, {"turn_id": "q1", "parent_run_id": "p"}):
        with pytest.raises(RunConflictError, match="a different id"):
            await do(open_run(store, "t", "r", now=moment(2), **different))
    await do(open_run(store, "t2", "r", now=moment(2), turn_id="q2"))

    assert "pending" == first.status
    assert first == await do(get_run(store, "t", "r"))


@pytest.mark.parametrize(
    ("ids", "options"),
    [
        (("", "r"), {}),
        (("t", ""), {}),
        (("t", "r"), {"parent_run_id": "r"}),
        (("t", "r"), {"status": "completed"}),
        (("t", "r"), {"labels": {"a": 1}}),
    ],
    ids=str,
)
async def test_an_opening_that_cannot_be_made_stores_nothing(
    ids: tuple[str, str], options: dict[str, Any], store: BaseStore, do: Do
) -> None:
    """It is refused with what to write."""
    with pytest.raises(InputError):
        await do(open_run(store, *ids, now=moment(1), **options))
    assert () == (await do(list_runs(store))).runs


async def test_no_run_starts_in_an_ended_session(store: BaseStore, do: Do) -> None:
    """Those that were there go on, and may end."""
    await do(begin(store, "t", now=moment(0)))
    run = await do(open_run(store, "t", "r1", now=moment(1)))
    await do(end(store, "t", now=moment(2)))

    with pytest.raises(SessionEndedError, match="'t' was ended"):
        await do(open_run(store, "t", "r2", now=moment(3)))
    assert run == await do(open_run(store, "t", "r1", now=moment(3)))
    ended_run = await do(
        change_run(store, "t", "r1", partial(advance, now=moment(4), status="completed"))
    )
    assert (ended_run,) == (await do(list_runs(store, thread_id="t"))).runs


async def test_an_unknown_run_says_how_to_list(store: BaseStore, do: Do) -> None:
    """Neither reading nor changing makes one up."""
    await do(open_run(store, "t", "r", now=moment(1)))
    for steps in (get_run(store, "t", "x"), change_run(store, "t2", "r", lambda run: run)):
        with pytest.raises(UnknownRunError, match=r"Thread '.*' has no run"):
            await do(steps)
    assert await do(find_run(store, "t", "x")) is None


VALUE = {"thread_id": "t", "status": "running", "phase": "prompted", "labels": {}}
TIMES = {"started_at": moment(1), "updated_at": moment(1)}


@pytest.mark.parametrize(
    "value",
    [
        {},
        VALUE,
        {**TIMES, "status": "running"},
        {**VALUE, **TIMES, "thread_id": "other"},
        {**VALUE, **TIMES, "thread_id": 5},
        {**VALUE, **TIMES, "status": "done"},
        {**VALUE, **TIMES, "status": ["running"]},
        {**VALUE, **TIMES, "phase": "completed"},
        {**VALUE, **TIMES, "started_at": "soon"},
        {**VALUE, **TIMES, "started_at": 5},
        {**VALUE, **TIMES, "labels": []},
        {**VALUE, **TIMES, "attempt": "two"},
        {**VALUE, **TIMES, "suspension": "s"},
        {**VALUE, **TIMES, "suspension": {"suspension_id": "s", "at": moment(1), "body": "{"}},
    ],
    ids=str,
)
async def test_what_is_no_run_is_passed_over(
    value: dict[str, Any], store: BaseStore, do: Do
) -> None:
    """Lists leave it out, and asked for by its id it is refused; nothing overwrites it."""
    good = await do(open_run(store, "t", "good", now=moment(1)))
    store.put(runs_namespace("t"), "bad", value)
    store.put((*runs_namespace("t"), "deeper"), "foreign", {**VALUE, **TIMES})

    assert (good,) == (await do(list_runs(store))).runs
    assert (good,) == (await do(list_runs(store, thread_id="t"))).runs
    for steps in (get_run(store, "t", "bad"), open_run(store, "t", "bad", now=moment(2))):
        with pytest.raises(DatabaseCorruptError, match="'bad' of thread 't'"):
            await do(steps)


async def test_a_newer_unsays_run_is_read(store: BaseStore, do: Do) -> None:
    """What this one does not know is left out."""
    store.put(runs_namespace("t"), "r", {**VALUE, **TIMES, "mood": "fine"})

    assert "running" == (await do(get_run(store, "t", "r"))).status


@pytest.fixture
def store_of_runs(store: BaseStore) -> BaseStore:
    """Twelve runs in three threads, one second apart, in all statuses twice."""
    for number in range(12):
        status = STATUSES[number % 6]
        run = run_in(
            status,
            run_id=f"r{number:02}",
            thread_id=("t", "t.1", "T")[number % 3],
            parent_run_id="r00" if number in (5, 9) else None,
            labels={"half": "first" if number < 6 else "second", "all": "yes"},
            started_at=moment(number),
        )
        drive(_write_run(store, run))
    return store


def _write_run(store: BaseStore, run: Run) -> Any:
    yield from put_run(store, run)


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, range(12)),
        ({"thread_id": "t"}, [0, 3, 6, 9]),
        ({"thread_id": "T"}, [2, 5, 8, 11]),
        ({"thread_id": "t_1"}, []),
        ({"status": "failed"}, [3, 9]),
        ({"status": ["failed"]}, [3, 9]),
        ({"status": ["completed", "failed"]}, [2, 3, 8, 9]),
        ({"status": []}, []),
        ({"status": ("pending", "failed"), "thread_id": "t"}, [0, 3, 6, 9]),
        ({"phase": "prompted"}, [0, 1, 5, 6, 7, 11]),
        ({"phase": "prompted", "status": "paused"}, [5, 11]),
        ({"labels": {"half": "second"}}, range(6, 12)),
        ({"labels": {"half": "second", "all": "no"}}, []),
        ({"parent_run_id": "r00"}, [5, 9]),
        ({"parent_run_id": "' OR 1=1 --"}, []),
        ({"since": moment(4), "until": moment(6)}, [4, 5]),
        ({"since": moment(4), "until": "2026-01-01T09:00:08+09:00", "thread_id": "t"}, [6]),
    ],
    ids=str,
)
async def test_runs_are_found(
    filters: dict[str, Any], expected: Any, store_of_runs: BaseStore, do: Do
) -> None:
    """By thread, status, phase, labels, parent and time, all at once, the oldest first."""
    page = await do(list_runs(store_of_runs, **filters))

    assert [f"r{number:02}" for number in expected] == [run.run_id for run in page.runs]
    assert page.cursor is None


@pytest.mark.parametrize(
    "filters",
    [
        {"status": "done"},
        {"status": ["failed", "done"]},
        {"phase": "done"},
        {"labels": {"a": 1}},
        {"limit": 0},
        {"limit": 1001},
        {"since": "2026-01-01"},
        {"until": "x"},
        {"cursor": "x"},
    ],
    ids=str,
)
async def test_a_list_that_cannot_be_made_is_refused(
    filters: dict[str, Any], store: BaseStore, do: Do
) -> None:
    """With what to write in its place."""
    with pytest.raises(InputError, match=next(iter(filters)).removesuffix("s")):
        await do(list_runs(store, **filters))


@pytest.mark.parametrize("filters", [{}, {"thread_id": "t"}], ids=["all threads", "one thread"])
async def test_pages_fit_together_while_others_write(
    filters: dict[str, Any], store_of_runs: BaseStore, do: Do
) -> None:
    """A run that starts or resumes between two pages shifts nothing, and comes last."""
    listed_runs: list[str] = []
    cursor: str | None = None
    for limit in (1, 2, 1000):
        page = await do(list_runs(store_of_runs, **filters, limit=limit, cursor=cursor))
        listed_runs += [run.run_id for run in page.runs]
        cursor = page.cursor
        await do(open_run(store_of_runs, "t", f"new{limit}", now=moment(100 + limit)))
        await do(change_run(store_of_runs, "t", "r09", partial(resume, now=moment(99))))
        await do(
            change_run(store_of_runs, "t", "r09", partial(advance, now=moment(99), status="failed"))
        )

    every = 3 if filters else 1
    assert [f"r{number:02}" for number in range(0, 12, every)] + ["new1", "new2"] == listed_runs
    assert cursor is None


async def test_children_are_found_in_any_thread(store_of_runs: BaseStore, do: Do) -> None:
    """All that a run started, or those of one thread."""
    anywhere = await do(children(store_of_runs, "r00"))
    current_children = await do(children(store_of_runs, "r00", thread_id="t"))

    assert ["r05", "r09"] == [run.run_id for run in anywhere]
    assert ["r09"] == [run.run_id for run in current_children]
    assert [] == await do(children(store_of_runs, "r05"))


@given(
    times=st.lists(st.integers(0, 4), max_size=9),
    new_runs=st.lists(st.integers(0, 9), max_size=4),
    limit=st.integers(1, 4),
)
def test_pages_joined_are_the_runs(times: list[int], new_runs: list[int], limit: int) -> None:
    """With any runs opened meanwhile, nothing comes twice and nothing is skipped."""
    store = InMemoryStore()
    for number, time in enumerate(times):
        drive(open_run(store, f"t{number % 2}", f"r{number}", now=moment(time)))
    listed_runs: list[str] = []
    cursor: str | None = None
    while True:
        page = drive(list_runs(store, cursor=cursor, limit=limit))
        listed_runs += [run.run_id for run in page.runs]
        cursor = page.cursor
        if cursor is None:
            break
        for number, time in enumerate(new_runs):
            drive(open_run(store, "t0", f"later{number}", now=moment(time)))

    assert len(set(listed_runs)) == len(listed_runs)
    assert {f"r{number}" for number in range(len(times))} <= set(listed_runs)
