"""The way to the models: line, circuit, fallback, for threads and event loops."""

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from blockbuster import BlockBuster
from hypothesis import given
from hypothesis import strategies as st

from unsay.budget.limits import CircuitPolicy, WaitQueue
from unsay.effects import Call, Steps, adrive, drive
from unsay.errors import CircuitOpenError, ContextOverflowError, QueueFullError
from unsay.llm.gateway import Gate, pause
from unsay.settings.settings import load_settings

LONG = 30.0
SHORT = 0.02
POLICY = CircuitPolicy(failures=2, reset_seconds=10.0)
DOWN = ConnectionError("no route")


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        """The time."""
        return self.now


def gate(
    *,
    place_count: int = 1,
    waiting: int = 8,
    wait_seconds: float = LONG,
    clock: Clock | None = None,
) -> Gate:
    """A gate with one place unless a test wants more."""
    line = WaitQueue(places=place_count, max_waiting=waiting)
    return Gate(line, POLICY, wait_seconds=wait_seconds, clock=clock or Clock())


def call(outcome: Any) -> Call:
    """A call that gives a value, or raises it."""

    def blocking() -> Any:
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    async def acall() -> Any:
        return blocking()

    return Call(blocking=blocking, awaitable=acall)


def run(steps: Steps[Any]) -> Any:
    """Drive a step on a new event loop."""
    return asyncio.run(adrive(steps))


both_drivers = pytest.mark.parametrize(
    "driver", [pytest.param(drive, id="blocking"), pytest.param(run, id="event loop")]
)
Driver = Callable[[Steps[Any]], Any]


class Crowd:
    """Calls that record how many run at once, until they are released."""

    def __init__(self) -> None:
        self.inside = self.most = 0
        self.order: list[int] = []
        self._mutex = threading.Lock()

    def call(self, number: int, barrier: threading.Event | None = None) -> Call:
        """A call that stays until `barrier` is set, or for a moment."""

        def blocking() -> int:
            with self._inside(number):
                if barrier is not None:
                    barrier.wait(LONG)
            return number

        async def acall() -> int:
            with self._inside(number):
                await asyncio.sleep(0)
            return number

        return Call(blocking=blocking, awaitable=acall)

    @contextmanager
    def _inside(self, number: int) -> Iterator[None]:
        with self._mutex:
            self.inside += 1
            self.most = max(self.most, self.inside)
            self.order.append(number)
        yield
        with self._mutex:
            self.inside -= 1


def wait_until(true: Callable[[], bool]) -> None:
    """Give other threads the time they need, within reason."""
    for _ in range(10_000):
        if true():
            return
        threading.Event().wait(0.001)
    raise AssertionError("it did not come to that")


@pytest.mark.parametrize("place_count", [1, 3])
def test_threads_never_stand_inside_in_greater_number(place_count: int) -> None:
    """Twenty come at once; all are served."""
    door = gate(place_count=place_count, waiting=20)
    crowd = Crowd()
    with ThreadPoolExecutor(20) as pool:
        numbers = list(pool.map(lambda n: drive(door.through({"m": crowd.call(n)})), range(20)))

    assert (list(range(20)), True) == (numbers, crowd.most <= place_count)
    assert WaitQueue(places=place_count, max_waiting=20) == door.queue


@pytest.mark.parametrize("place_count", [1, 3])
def test_tasks_never_stand_inside_in_greater_number(place_count: int) -> None:
    """On one event loop, in the order of coming."""
    door = gate(place_count=place_count, waiting=20)
    crowd = Crowd()

    async def main() -> list[int]:
        return await asyncio.gather(
            *(adrive(door.through({"m": crowd.call(number)})) for number in range(20))
        )

    assert list(range(20)) == asyncio.run(main())
    assert (list(range(20)), place_count) == (crowd.order, crowd.most)
    assert WaitQueue(places=place_count, max_waiting=20) == door.queue


def test_threads_go_in_in_the_order_of_coming() -> None:
    """The caller that has waited longest is next."""
    door = gate(waiting=5)
    crowd = Crowd()
    barrier = threading.Event()
    with ThreadPoolExecutor(6) as pool:
        for number in range(6):
            pool.submit(drive, door.through({"m": crowd.call(number, barrier)}))
            wait_until(lambda number=number: len(door.queue.waiting) == number)
        barrier.set()

    assert list(range(6)) == crowd.order


def test_threads_and_an_event_loop_share_a_gate() -> None:
    """A task waits for a thread without stopping its loop."""
    door = gate()
    crowd = Crowd()
    barrier = threading.Event()
    ticks = list[int]()

    async def main() -> int:
        task = asyncio.create_task(adrive(door.through({"m": crowd.call(2)})))
        for tick in range(5):
            await asyncio.sleep(0)
            ticks.append(tick)
        assert 1 == len(door.queue.waiting)
        barrier.set()
        return await task

    with ThreadPoolExecutor(1) as pool:
        first: Future[Any] = pool.submit(drive, door.through({"m": crowd.call(1, barrier)}))
        wait_until(lambda: bool(door.queue.running))
        assert 2 == asyncio.run(main())
        assert 1 == first.result()
    assert [0, 1, 2, 3, 4] == ticks


@both_drivers
def test_a_full_queue_refuses(driver: Driver) -> None:
    """At once, with the numbers and what may be done."""
    door = gate(waiting=0)
    busy = door.through({"m": call(1)})
    busy.send(None)

    with pytest.raises(
        QueueFullError, match=r"1 calls are running and 0 are waiting, .* parallel_calls"
    ):
        driver(door.through({"m": call(2)}))
    busy.close()
    assert 3 == driver(door.through({"m": call(3)}))


@both_drivers
def test_who_waited_long_enough_is_refused(driver: Driver) -> None:
    """And leaves no place behind in the line."""
    door = gate(wait_seconds=SHORT)
    busy = door.through({"m": call(1)})
    busy.send(None)

    with pytest.raises(QueueFullError, match=r"waited 0\.02 s for a free place, .* parallel_calls"):
        driver(door.through({"m": call(2)}))
    assert () == door.queue.waiting
    busy.close()
    assert WaitQueue(places=1, max_waiting=8) == door.queue


def test_a_task_that_is_cancelled_leaves_the_queue() -> None:
    """Whether it waited or was inside; the next one goes in."""
    door = gate()
    crowd = Crowd()

    async def main() -> int:
        async def for_ever() -> None:
            await asyncio.Event().wait()

        never = Call(blocking=lambda: None, awaitable=for_ever)
        inside = asyncio.create_task(adrive(door.through({"m": never})))
        waiting = asyncio.create_task(adrive(door.through({"m": crowd.call(2)})))
        last = asyncio.create_task(adrive(door.through({"m": crowd.call(3)})))
        for _ in range(5):
            await asyncio.sleep(0)
        assert 2 == len(door.queue.waiting)
        waiting.cancel()
        inside.cancel()
        for task in (waiting, inside):
            with suppress(asyncio.CancelledError):
                await task
        return await last

    assert 3 == asyncio.run(main())
    assert ([3], WaitQueue(places=1, max_waiting=8)) == (crowd.order, door.queue)


@both_drivers
def test_a_model_that_is_down_is_followed_by_its_fallback(driver: Driver) -> None:
    """Each time, until its circuit opens; then it is not asked at all."""
    door = gate()
    numbers_asked = list[int]()

    def down(number: int) -> Call:
        def blocking() -> Any:
            numbers_asked.append(number)
            raise DOWN

        async def acall() -> Any:
            return blocking()

        return Call(blocking=blocking, awaitable=acall)

    answers = [driver(door.through({"m": down(n), "f": call("well")})) for n in range(4)]

    assert (["well"] * 4, [0, 1]) == (answers, numbers_asked)
    assert ["open", "closed"] == [door.circuit(name).state(0.0) for name in ("m", "f")]


@both_drivers
def test_where_nobody_answers_the_last_failure_is_told(driver: Driver) -> None:
    """Then that all circuits are open."""
    door = gate()
    for _ in range(2):
        with pytest.raises(ConnectionError, match="last"):
            driver(door.through({"m": call(DOWN), "f": call(ConnectionError("last"))}))

    with pytest.raises(CircuitOpenError, match=r"^'m' and 'f' failed 2 times .* in 10 s, or set"):
        driver(door.through({"m": call("never"), "f": call("never")}))


@both_drivers
@pytest.mark.parametrize(
    "error",
    [
        pytest.param(ContextOverflowError("too long"), id="the request's fault"),
        pytest.param(ValueError("a bug"), id="nobody knows whose"),
    ],
)
def test_what_is_not_the_servers_fault_opens_nothing(driver: Driver, error: Exception) -> None:
    """It is raised at once: another model would be asked the same in vain."""
    door = gate()
    for _ in range(4):
        with pytest.raises(type(error)):
            driver(door.through({"m": call(error), "f": call("never")}))

    assert "closed" == door.circuit("m").state(0.0)


@both_drivers
def test_after_its_time_a_model_is_tried_again(driver: Driver) -> None:
    """One probe; when it answers, everybody is let through."""
    clock = Clock()
    door = gate(place_count=4, clock=clock)
    for _ in range(2):
        with pytest.raises(ConnectionError):
            driver(door.through({"m": call(DOWN)}))
    clock.now = 10.0
    probe = door.through({"m": call("probe")})
    probe.send(None)
    with pytest.raises(CircuitOpenError):
        driver(door.through({"m": call("too early")}))
    with suppress(StopIteration):
        probe.send("probe")

    assert "well" == driver(door.through({"m": call("well")}))


@both_drivers
def test_a_refused_request_shows_that_the_server_is_there(driver: Driver) -> None:
    """A probe that the server answers with a refusal closes the circuit."""
    clock = Clock()
    door = gate(clock=clock)
    for _ in range(2):
        with pytest.raises(ConnectionError):
            driver(door.through({"m": call(DOWN)}))
    clock.now = 10.0
    with pytest.raises(ContextOverflowError):
        driver(door.through({"m": call(ContextOverflowError("too long"))}))

    assert "closed" == door.circuit("m").state(10.0)


def test_a_probe_that_is_broken_off_is_followed_by_another() -> None:
    """A person who stops the turn does not keep the model shut."""
    clock = Clock()
    door = gate(clock=clock)
    for _ in range(2):
        with pytest.raises(ConnectionError):
            drive(door.through({"m": call(DOWN)}))
    clock.now = 10.0
    probe = door.through({"m": call("probe")})
    probe.send(None)
    probe.close()

    assert "half-open" == door.circuit("m").state(10.0)
    assert "well" == drive(door.through({"m": call("well")}))


@given(outcomes=st.lists(st.sampled_from(["well", DOWN, ValueError("a bug")]), max_size=12))
def test_whatever_comes_the_gate_is_empty_afterwards(outcomes: Sequence[Any]) -> None:
    """No call leaves a place taken."""
    door = gate(waiting=0)
    for outcome in outcomes:
        with suppress(ConnectionError, ValueError, CircuitOpenError):
            assert "well" == drive(door.through({"m": call(outcome)}))

    assert WaitQueue(places=1, max_waiting=0) == door.queue


def test_the_settings_make_the_gate() -> None:
    """As many calls run at once as they say."""
    door = Gate.of(load_settings({"parallel_calls": 3}))

    assert WaitQueue(places=3, max_waiting=256) == door.queue


def test_a_pause_blocks_no_event_loop() -> None:
    """Others go on while it waits."""
    events: list[str] = []

    def steps() -> Steps[None]:
        yield from pause(20)
        events.append("waited")

    async def main() -> None:
        guard = BlockBuster()
        guard.activate()
        try:
            waiting = asyncio.create_task(adrive(steps()))
            await asyncio.sleep(0)
            events.append("meanwhile")
            await waiting
        finally:
            guard.deactivate()

    asyncio.run(main())
    drive(steps())

    assert ["meanwhile", "waited", "waited"] == events
