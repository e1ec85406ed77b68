"""The way to the models: a bounded waiting line, a circuit for each model, and a fallback.

A gate stands around single calls of models, never around an agent or a loop of tools: a call
inside that came to the same gate would wait for the place that its own caller holds.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from threading import Lock
from typing import Any, Literal

from unsay.budget.circuit import Admission, Circuit, CircuitPolicy
from unsay.budget.waiting import Line
from unsay.effects import Call, Steps
from unsay.errors import CircuitOpenError, ModelError, ModelUnavailableError
from unsay.nodes.faults import explain
from unsay.nodes.turnstile import Turnstile
from unsay.settings import Settings

News = Literal["succeeded", "failed", "withdrawn"]
"""How a call went, as far as it tells of its model."""


def pause(milliseconds: int) -> Call:
    """A call that only waits, for backpressure; an event loop goes on meanwhile."""
    seconds = milliseconds / 1_000
    return Call(blocking=lambda: time.sleep(seconds), awaitable=lambda: asyncio.sleep(seconds))


class Gate:
    """What stands before the models of one graph; threads and event loops may share it."""

    def __init__(
        self,
        line: Line,
        policy: CircuitPolicy,
        *,
        wait_seconds: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin with an empty line and closed circuits.

        Args:
            line: Without anybody in it.
            policy: Of each model's circuit.
            wait_seconds: How long a call waits in line before it is refused.
            clock: In seconds; it must not go back.
        """
        self._turnstile = Turnstile(line, wait_seconds=wait_seconds)
        self._policy = policy
        self._clock = clock
        self._mutex = Lock()
        self._circuits: dict[str, Circuit] = {}

    @classmethod
    def of(cls, settings: Settings) -> "Gate":
        """The gate that the settings describe."""
        return cls(
            Line(places=settings.parallel_calls, most_waiting=settings.waiting_calls),
            CircuitPolicy(
                failures=settings.circuit_failures,
                reset_seconds=settings.circuit_reset_seconds,
                probes=settings.circuit_probes,
            ),
            wait_seconds=settings.call_wait_seconds,
        )

    @property
    def line(self) -> Line:
        """Who is inside and who waits."""
        return self._turnstile.line

    def circuit(self, model: str) -> Circuit:
        """What is known of a model's failures."""
        return self._circuits.get(model) or Circuit(policy=self._policy)

    def through(self, calls: Mapping[str, Call]) -> Steps[Any]:
        """Wait in line, then make the first of the calls whose model answers.

        Args:
            calls: The same request to each model, by the model's name, the fallbacks last.

        Returns:
            What the call gave.

        Raises:
            WaitingLineFullError: Too many wait, or the line did not move in time.
            CircuitOpenError: Every model's circuit is open.
            Exception: As the last call raised it. Only a model that cannot be reached is
                followed by the next; any other failure is the request's own.
        """
        return (yield from self._turnstile.through(lambda: self._first_answer(calls)))

    def _first_answer(self, calls: Mapping[str, Call]) -> Steps[Any]:
        failure: Exception | None = None
        for model, call in calls.items():
            admission = self._admit(model)
            if not admission.admitted:
                continue
            try:
                return (yield from self._watched(model, admission, call))
            except Exception as error:
                if _news_of(error) != "failed":
                    raise
                failure = error
        if failure is not None:
            raise failure
        raise CircuitOpenError(
            f"{' and '.join(map(repr, calls))} failed {self._policy.failures!r} times in a row: "
            f"ask again in {self._policy.reset_seconds:g} s, or name a fallback_model"
        )

    def _watched(self, model: str, admission: Admission, call: Call) -> Steps[Any]:
        """Make a call, and let its model's circuit know how it went."""
        news: News = "withdrawn"
        try:
            result = yield call
            news = "succeeded"
            return result
        except Exception as error:
            news = _news_of(error)
            raise
        finally:
            self._tell(model, admission, news)

    def _tell(self, model: str, admission: Admission, news: News) -> None:
        with self._mutex:
            circuit, now, period = self.circuit(model), self._clock(), admission.period
            if news == "withdrawn":
                circuit = circuit.withdrawn(period=period)
            elif news == "failed":
                circuit = circuit.failed(now, period=period)
            else:
                circuit = circuit.succeeded(now, period=period)
            self._circuits[model] = circuit

    def _admit(self, model: str) -> Admission:
        with self._mutex:
            admission = self.circuit(model).admit(self._clock())
            self._circuits[model] = admission.circuit
        return admission


def _news_of(error: Exception) -> News:
    """What a failure says of the model's server: one that refuses a request is there."""
    explained = explain(error)
    if isinstance(explained, ModelUnavailableError):
        return "failed"
    return "succeeded" if isinstance(explained, ModelError) else "withdrawn"
