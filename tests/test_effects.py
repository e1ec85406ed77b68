"""Steps: written once, driven in place or on an event loop."""

import ast
import asyncio
import contextvars
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unsay.effects import Call, Steps, adrive, drive, off_loop

SHORT = 0.05
LONG = 60.0
WHO: contextvars.ContextVar[str] = contextvars.ContextVar("WHO", default="nobody")

Driver = Callable[[Steps[Any]], Any]

ROOT = Path(__file__).parents[1]
TYPED = """
from collections.abc import Awaitable, Callable
from typing import assert_type

from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.store.base import BaseStore, Item

from unsay.effects import Call, Steps, adrive, drive, off_loop, user_call
from unsay.storage.items import get_item


def step(
    number: Call[int],
    store: BaseStore,
    saver: BaseCheckpointSaver[int],
    count: Callable[[str], int | Awaitable[int]],
) -> Steps[str]:
    assert_type((yield from number), int)
    assert_type((yield from get_item(store, ("a",), "k")), Item | None)
    assert_type((yield from Call.of(store.get, store.aget, ("a",), "k")), Item | None)
    assert_type((yield from Call.listing(saver.list, saver.alist, None)), list[CheckpointTuple])
    assert_type((yield from off_loop(lambda: b"")), bytes)
    assert_type((yield from user_call(count, "words")), int)
    word: str = yield from number  # type: ignore[assignment]
    return word


def blocking(steps: Steps[str]) -> None:
    assert_type(drive(steps), str)


async def on_loop(steps: Steps[str]) -> None:
    assert_type(await adrive(steps), str)
"""


def run(steps: Steps[Any]) -> Any:
    """Drive a step on a new event loop."""
    return asyncio.run(adrive(steps))


DRIVERS = [pytest.param(drive, id="blocking"), pytest.param(run, id="event loop")]
both_drivers = pytest.mark.parametrize("driver", DRIVERS)


def call(action: Callable[[], Any], timeout_seconds: float | None = None) -> Call[Any]:
    """The same action in both forms."""

    async def acall() -> Any:
        return action()

    return Call(blocking=action, awaitable=acall, timeout_seconds=timeout_seconds)


def fails(error: BaseException) -> Callable[[], Any]:
    """An action that raises."""

    def action() -> Any:
        raise error

    return action


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """What a hanging call waits for; it is opened when the test is over."""
    event = threading.Event()
    yield event
    event.set()


def hang(gate: threading.Event, timeout_seconds: float | None) -> Call[Any]:
    """A call that never ends, in both forms."""

    async def acall() -> None:
        await asyncio.Event().wait()

    return Call(blocking=gate.wait, awaitable=acall, timeout_seconds=timeout_seconds)


@both_drivers
@pytest.mark.parametrize("timeout", [None, LONG], ids=["unlimited", "limited"])
@given(values=st.lists(st.one_of(st.none(), st.integers(), st.text()), max_size=5))
def test_step_receives_each_result_in_order(
    driver: Driver, timeout: float | None, values: list[Any]
) -> None:
    """The step receives every result of a call, falsy values too."""

    def steps() -> Steps[list[Any]]:
        results = []
        for value in values:
            results.append((yield from call(lambda value=value: value, timeout)))  # noqa: PERF401
        return results

    assert values == driver(steps())


@both_drivers
def test_step_without_calls_is_its_result(driver: Driver) -> None:
    """A step may end without asking for anything."""

    def steps() -> Steps[str]:
        return "done"
        yield

    assert "done" == driver(steps())


@both_drivers
@pytest.mark.parametrize("timeout", [None, LONG], ids=["unlimited", "limited"])
@pytest.mark.parametrize(
    "error",
    [
        pytest.param(ValueError("no"), id="an error"),
        pytest.param(TimeoutError("theirs"), id="a timeout of the call's own"),
        pytest.param(GeneratorExit(), id="not an Exception"),
    ],
)
def test_error_of_a_call_reaches_the_caller(
    driver: Driver, timeout: float | None, error: BaseException
) -> None:
    """A step that does not catch a call's error lets it through, the very same one."""

    def steps() -> Steps[None]:
        yield from call(fails(error), timeout)

    with pytest.raises(type(error)) as error_info:
        driver(steps())

    assert error is error_info.value


@both_drivers
def test_step_may_catch_an_error_and_go_on(driver: Driver) -> None:
    """An error is thrown into the step at the call that failed, and only there."""

    def steps() -> Steps[list[Any]]:
        results: list[Any] = [(yield from call(lambda: 1))]
        try:
            yield from call(fails(KeyError("gone")))
        except KeyError as error:
            results.append(str(error))
        results.append((yield from call(lambda: 2)))
        return results

    assert [1, "'gone'", 2] == driver(steps())


@both_drivers
def test_step_may_answer_one_error_with_another(driver: Driver) -> None:
    """What a step raises itself is the driver's error."""

    def steps() -> Steps[None]:
        try:
            yield from call(fails(OSError("disk")))
        except OSError as error:
            raise RuntimeError("explained") from error

    with pytest.raises(RuntimeError, match="explained") as error_info:
        driver(steps())

    assert "disk" == str(error_info.value.__cause__)


@both_drivers
def test_stop_iteration_of_a_call_does_not_end_the_step(driver: Driver) -> None:
    """A call that runs off an iterator's end is a fault, never the step's result."""

    def steps() -> Steps[str]:
        yield from call(lambda: next(iter(())))
        return "went on"

    with pytest.raises(RuntimeError, match="StopIteration"):
        driver(steps())


@both_drivers
def test_hanging_call_is_given_up(driver: Driver, gate: threading.Event) -> None:
    """After its timeout the step gets a `TimeoutError` and can go on."""

    def steps() -> Steps[str]:
        try:
            yield from hang(gate, SHORT)
        except TimeoutError:
            return (yield from call(lambda: "went on"))
        return "never"

    assert "went on" == driver(steps())


def test_hanging_blocking_call_is_left_behind(gate: threading.Event) -> None:
    """The thread of a call that was given up is a daemon: it cannot keep the program from ending."""

    def steps() -> Steps[list[threading.Thread]]:
        try:
            yield from hang(gate, SHORT)
        except TimeoutError:
            return [thread for thread in threading.enumerate() if thread.name == "unsay-call"]
        return []

    threads = drive(steps())

    assert [True] == [thread.daemon and thread.is_alive() for thread in threads]


def test_late_result_of_a_call_given_up_is_dropped() -> None:
    """A call that ends after its timeout disturbs neither the step nor later calls."""
    late = threading.Event()

    def slow() -> str:
        late.wait()
        return "late"

    def steps() -> Steps[list[Any]]:
        results: list[Any] = []
        try:
            yield from call(slow, SHORT)
        except TimeoutError:
            results.append("timeout")
            (thread,) = (thread for thread in threading.enumerate() if thread.name == "unsay-call")
            late.set()
            thread.join()
        results.append((yield from call(lambda: "next", LONG)))
        return results

    assert ["timeout", "next"] == drive(steps())


@both_drivers
@pytest.mark.parametrize("timeout", [None, LONG], ids=["unlimited", "limited"])
def test_context_variables_are_carried(driver: Driver, timeout: float | None) -> None:
    """A call sees the context variables of the step's driver, in another thread too."""
    token = WHO.set("ann")
    try:

        def steps() -> Steps[str]:
            return (yield from call(WHO.get, timeout))

        assert "ann" == driver(steps())
    finally:
        WHO.reset(token)


def test_limited_call_runs_in_another_thread() -> None:
    """Only a call with a timeout pays for a thread."""

    def steps() -> Steps[list[bool]]:
        own_thread = threading.current_thread()
        thread_without_limit = yield from call(threading.current_thread)
        thread_with_limit = yield from call(threading.current_thread, LONG)
        return [thread_without_limit is own_thread, thread_with_limit is own_thread]

    assert [True, False] == drive(steps())


@both_drivers
@pytest.mark.parametrize("timeout", [None, LONG], ids=["unlimited", "limited"])
def test_keyboard_interrupt_is_not_offered_to_the_step(
    driver: Driver, timeout: float | None
) -> None:
    """Ctrl-C passes through a step that catches everything, and the step is closed."""
    events: list[str] = []

    def steps() -> Steps[str]:
        try:
            yield from call(fails(KeyboardInterrupt()), timeout)
        except Exception:  # noqa: BLE001 - that this catches nothing is what is tested
            events.append("caught")
        finally:
            events.append("closed")
        return "went on"

    with pytest.raises(KeyboardInterrupt):
        driver(steps())

    assert ["closed"] == events


def test_a_step_that_ctrl_c_stops_makes_its_last_calls() -> None:
    """A lease that only a call can give back is given back."""
    releases: list[str] = []

    def steps() -> Steps[None]:
        try:
            yield from call(fails(KeyboardInterrupt()), None)
        finally:
            yield from Call(
                blocking=lambda: releases.append("lease"), awaitable=asyncio.Event().wait
            )

    with pytest.raises(KeyboardInterrupt):
        drive(steps())

    assert ["lease"] == releases


async def test_a_cancelled_step_makes_its_last_calls() -> None:
    """The same on an event loop; the task counts as cancelled."""
    releases: list[str] = []
    is_started = asyncio.Event()

    async def wait() -> None:
        is_started.set()
        await asyncio.Event().wait()

    def steps() -> Steps[None]:
        try:
            yield from Call(blocking=lambda: None, awaitable=wait)
        except BaseException:
            yield from off_loop(lambda: releases.append("lease"))
            raise

    task = asyncio.create_task(adrive(steps()))
    await is_started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert task.cancelled()
    assert ["lease"] == releases


async def test_cancelled_step_is_closed() -> None:
    """Cancelling the driver cancels the call under way and runs the step's last words."""
    events: list[str] = []
    is_started = asyncio.Event()

    async def wait() -> None:
        is_started.set()
        try:
            await asyncio.Event().wait()
        finally:
            events.append("call cancelled")

    def steps() -> Steps[None]:
        try:
            yield from Call(blocking=lambda: None, awaitable=wait, timeout_seconds=LONG)
        except Exception:  # noqa: BLE001 - that this catches nothing is what is tested
            events.append("caught")
        finally:
            events.append("closed")

    task = asyncio.create_task(adrive(steps()))
    await is_started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert ["call cancelled", "closed"] == events


async def test_other_tasks_run_while_a_call_is_awaited() -> None:
    """A step on an event loop does not hold the loop up."""
    is_reached = asyncio.Event()

    def steps() -> Steps[str]:
        yield from Call(blocking=lambda: None, awaitable=is_reached.wait, timeout_seconds=LONG)
        return "both went on"

    task = asyncio.create_task(adrive(steps()))
    await asyncio.sleep(0)
    is_reached.set()

    assert "both went on" == await task


@both_drivers
def test_step_that_raises_at_once_is_not_driven_further(driver: Driver) -> None:
    """An error before the first call is the driver's error."""

    def steps() -> Steps[None]:
        raise LookupError("before any call")
        yield

    with pytest.raises(LookupError, match="before any call"):
        driver(steps())


@both_drivers
@pytest.mark.parametrize(
    "error",
    [
        pytest.param(None, id="no error"),
        pytest.param(ValueError("no"), id="an error"),
        pytest.param(TimeoutError("theirs"), id="a timeout"),
        pytest.param(asyncio.CancelledError(), id="a cancellation"),
    ],
)
def test_a_call_is_made_alike_with_yield_and_with_yield_from(
    driver: Driver, error: BaseException | None
) -> None:
    """The step sees the same results and the very same errors, and its cleanup runs once."""
    action = (lambda: "result") if error is None else fails(error)

    def yielding(results: list[Any]) -> Steps[None]:
        try:
            results.append((yield call(action)))
        except BaseException as error_raised:
            results.append(error_raised)
            raise
        finally:
            results.append((yield call(lambda: "cleanup")))

    def delegating(results: list[Any]) -> Steps[None]:
        try:
            results.append((yield from call(action)))
        except BaseException as error_raised:
            results.append(error_raised)
            raise
        finally:
            results.append((yield from call(lambda: "cleanup")))

    def outcome(steps: Callable[[list[Any]], Steps[None]]) -> tuple[list[Any], object]:
        results: list[Any] = []
        try:
            return results, driver(steps(results))
        except BaseException as error_raised:  # noqa: BLE001 - compared
            return results, type(error_raised)

    expected = [error or "result", "cleanup"], None if error is None else type(error)
    assert [expected, expected] == [outcome(yielding), outcome(delegating)]


def test_a_call_can_be_made_again() -> None:
    """Each `yield from` of the same call makes it once more."""
    numbers = iter(range(9))
    repeated_call = call(lambda: next(numbers))

    def steps() -> Steps[list[int]]:
        return [(yield from repeated_call), (yield from repeated_call)]

    assert [0, 1] == drive(steps())


def test_steps_make_their_calls_with_yield_from() -> None:
    """A plain `yield` would give the result no type; one hands on what a user's generator yields."""
    functions = [
        (path.name, function.name)
        for path in sorted((ROOT / "unsay").rglob("*.py"))
        for function in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(function, ast.FunctionDef) and function.returns is not None
        if "Steps[" in ast.unparse(function.returns)
        if any(isinstance(node, ast.Yield) for node in ast.walk(function))
    ]
    assert [("strategy.py", "_advanced")] == functions


@pytest.mark.full
def test_a_type_checker_knows_the_results_of_calls(tmp_path: Path) -> None:
    """In strict mode mypy knows what each `yield from` of a call gives, and refuses another type."""
    file = tmp_path / "typed.py"
    file.write_text(TYPED)
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", str(file)]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ("", 0) == (process.stdout, process.returncode)
