"""The gateway to the models: a bounded queue, a circuit breaker for each model, and a fallback.

Only single calls of models use it: the calls inside of an agent would wait for the agent's place.
"""

import asyncio
import time
import tomllib
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import fields
from itertools import count
from json import JSONDecodeError
from pathlib import Path
from threading import Lock
from traceback import walk_tb
from typing import Any, Literal, TypeVar

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from unsay.budget.limits import Circuit, CircuitPolicy, WaitQueue
from unsay.context.strategy import is_context_overflow
from unsay.effects import Call, Steps
from unsay.errors import (
    CircuitOpenError,
    ContextOverflowError,
    ModelError,
    ModelRefusedError,
    ModelReplyError,
    ModelUnavailableError,
    QueueFullError,
    UnsayError,
)
from unsay.messages.content import has_no_end
from unsay.phrases import Phrase
from unsay.settings.settings import Settings
from unsay.tokens.counter import TokenCounter
from unsay.tokens.pricing import Usage, usage_of

T = TypeVar("T")


def replies_in(reply: Any, value: Any) -> list[AIMessage]:
    """Return the messages of models in a reply, without those of the prompt (`value`)."""
    if isinstance(reply, Mapping) and "raw" in reply:
        reply = reply["raw"]
    prompt_ids = {message.id for message in messages_in(value)} - {None}
    messages = messages_in(AIMessage(reply) if isinstance(reply, str) else reply)
    return [m for m in messages if isinstance(m, AIMessage) and m.id not in prompt_ids]


def used_by(replies: list[AIMessage], prompt: int) -> Usage:
    """Return the sum of the usage that the replies report.

    If none of them reports its usage, it is `prompt` tokens and an estimate of the replies' tokens.
    """
    reported = [usage_of(reply.usage_metadata) for reply in replies if reply.usage_metadata]
    if not reported:
        return Usage(input=prompt, output=TokenCounter().count(replies))
    kinds = [each.name for each in fields(Usage)]
    return Usage(**{kind: sum(getattr(usage, kind) for usage in reported) for kind in kinds})


def answered_by(replies: list[AIMessage]) -> str | None:
    """Return the provider's name for the model that wrote the last reply; `None` if it has none."""
    metadata = replies[-1].response_metadata if replies else {}
    names = (metadata.get(name) for name in ("model_name", "model"))
    return next((name for name in names if isinstance(name, str) and name), None)


def messages_in(value: Any) -> list[BaseMessage]:
    """Return the messages in the input or the reply of a call, in any form that LangChain uses.

    Anything else in it is left out.
    """
    if isinstance(value, Mapping):
        value = value.get("messages", [])
    if isinstance(value, str):
        value = HumanMessage(value)
    items = value if isinstance(value, list | tuple) else [value]
    return [message for message in items if isinstance(message, BaseMessage)]


_BUSY = frozenset({408, 409, 425, 429})
_CONNECTION_FAULTS = {"APIConnectionError", "ConnectionError", "TransportError", "APIError"}
_CLIENT = tomllib.loads(Path(__file__).with_name("clients.toml").read_text("utf-8"))
# Source: OpenAI API reference, error codes; DeepSeek and OpenRouter answer 402, Anthropic in words.
_QUOTA = "insufficient_quota"
_KEPT = Phrase(code="question_kept")


def explain(error: Exception) -> UnsayError | None:
    """Return the error of unsay for one that a model's client raised, with what to do next.

    An error of unsay is returned unchanged. `None` means an error that is not recognized, such as
    a bug in an agent's code. The caller raises it as it is.
    """
    if isinstance(error, UnsayError):
        return error
    quoted = f"{type(error).__name__}: {error}"[:500]
    if is_context_overflow(error):
        return ContextOverflowError(code="window_exceeded", quoted=quoted)
    status = _status_of(error)
    code = getattr(error, "code", None)
    if status == 402 or code == _QUOTA or "credit balance is too low" in quoted:
        return ModelUnavailableError(
            code="quota_exhausted", status=code or status, quoted=quoted, kept=_KEPT
        )
    if status is not None and 400 <= status < 500 and status not in _BUSY:
        return ModelRefusedError(code="request_refused", quoted=quoted, kept=_KEPT)
    unavailable = _unavailable(error, status, quoted)
    if unavailable is not None:
        return unavailable
    retryable = getattr(error, "is_retryable", None)
    if isinstance(retryable, bool):
        kind = ModelUnavailableError if retryable else ModelRefusedError
        return kind(code="provider_failed", quoted=quoted, kept=_KEPT)
    return _unsendable(error, quoted) or _unreadable(error, quoted)


def _unavailable(error: Exception, status: int | None, quoted: str) -> ModelUnavailableError | None:
    """Return the error for a model that does not answer for now; `None` for another failure."""
    classes = {kind.__name__ for kind in type(error).__mro__}
    if status is not None:
        return ModelUnavailableError(code="server_failed", quoted=quoted, kept=_KEPT)
    if any("Timeout" in name for name in classes):
        return ModelUnavailableError(code="model_timeout", quoted=quoted, kept=_KEPT)
    if not classes.isdisjoint(_CLIENT["broken_off"]):
        return ModelUnavailableError(code="connection_broken", quoted=quoted, kept=_KEPT)
    if classes & _CONNECTION_FAULTS:
        return ModelUnavailableError(code="model_unreachable", quoted=quoted, kept=_KEPT)
    return None


class ConnectionClosedError(ConnectionError):
    """The stream of a reply ended before the reply did."""


def whole(reply: T, value: Any = None) -> T:
    """Return the reply to `value`; `ConnectionClosedError` if it has no end: it is half an answer."""
    if any(map(has_no_end, replies_in(reply, value))):
        raise ConnectionClosedError("the stream ended before the reply did")
    return reply


def may_be_charged(error: Exception) -> bool:
    """Return whether a provider may charge for a call that failed with this error.

    That is so if the client sent the request, and then stopped waiting or lost the connection.
    """
    raised = (error, error.__cause__)  # openai's client wraps the error of httpx
    names = {kind.__name__ for each in raised for kind in type(each).__mro__}
    is_timeout = any("Timeout" in name for name in names) and names.isdisjoint(_CLIENT["unsent"])
    return is_timeout or not names.isdisjoint(_CLIENT["broken_off"])


def _unsendable(error: Exception, quoted: str) -> ModelRefusedError | None:
    """Return the error for messages that the model's client cannot send; `None` for another failure."""
    if not isinstance(error, ValueError | TypeError | KeyError):
        return None
    frames = (frame for frame, _ in walk_tb(error.__traceback__))
    client = (f for f in frames if str(f.f_globals.get("__name__")).startswith("langchain_"))
    if not any(frame.f_code.co_name in _CLIENT["building"] for frame in client):
        return None
    return ModelRefusedError(code="unsendable", quoted=quoted, kept=_KEPT)


def _unreadable(error: Exception, quoted: str) -> ModelReplyError | None:
    """Return the error for a reply that the model's client cannot read; `None` for another failure."""
    if isinstance(error, JSONDecodeError):
        return ModelReplyError(code="invalid_json", quoted=quoted, kept=_KEPT)
    if isinstance(error, ValueError | TypeError) and _raised_by_client(error):
        return ModelReplyError(code="unreadable_reply", quoted=quoted, kept=_KEPT)
    return None


def _raised_by_client(error: Exception) -> bool:
    """Return whether a model's client itself raised an error, as for a page of HTML with status 200.

    Source: `ValueError` and `TypeError` of langchain-openai 1.4, `BaseChatOpenAI._create_chat_result`.
    """
    frames = [frame for frame, _ in walk_tb(error.__traceback__)]
    return bool(frames) and str(frames[-1].f_globals.get("__name__")).startswith(
        tuple(_CLIENT["modules"])
    )


def _status_of(error: Exception) -> int | None:
    """Return the HTTP status in an error of a model's client; `None` if it has none.

    Source: the error classes of openai and anthropic (`status_code`), google-genai (`code`) and
    botocore (`response`), which Bedrock uses.
    """
    response = getattr(error, "response", None)
    metadata = response.get("ResponseMetadata", {}) if isinstance(response, Mapping) else {}
    attributes = (getattr(error, "status_code", None), getattr(error, "code", None))
    candidates = (*attributes, metadata.get("HTTPStatusCode"))
    return next((each for each in candidates if isinstance(each, int)), None)


# Most calls that wait for a place in the queue; further ones are refused.
WAITING_CALLS = 256
# Time in the queue after which a call is refused.
CALL_WAIT_SECONDS = 60.0
# When a model that fails gets no calls.
POLICY = CircuitPolicy()


class FairSemaphore:
    """Admits a number of callers at once, and the others in the order in which they came."""

    def __init__(self, queue: WaitQueue, *, wait_seconds: float) -> None:
        self.queue = queue
        self._wait_seconds = wait_seconds
        self._mutex = Lock()
        self._tickets = count(1)
        self._turns: dict[int, Future[None]] = {}  # by ticket: done when the call may run

    def through(self, steps: Callable[[], Steps[T]]) -> Steps[T]:
        """Run the steps once there is a place.

        Raises `QueueFullError` if too many calls wait, or if there is no place in time.
        """
        ticket, turn = self._join()
        try:
            if not turn.done():
                yield from self._wait(turn)
            return (yield from steps())
        finally:
            self._leave(ticket)

    def _join(self) -> tuple[int, Future[None]]:
        """Return a ticket and a future, which is done when the ticket's turn comes.

        Raises `QueueFullError` if too many calls wait.
        """
        turn: Future[None] = Future()
        # A running future cannot be cancelled: otherwise a task that stops waiting would cancel it.
        turn.set_running_or_notify_cancel()
        with self._mutex:
            ticket = next(self._tickets)
            self.queue = self.queue.joined(ticket)
            reception = self.queue.reception(ticket)
            if reception == "refused":
                raise QueueFullError(
                    f"{self.queue.places!r} calls are running and {self.queue.max_waiting!r} are waiting, "
                    "which is the limit: try again later, or raise parallel_calls"
                )
            self._turns[ticket] = turn
            if reception == "running":
                turn.set_result(None)
        return ticket, turn

    def _leave(self, ticket: int) -> None:
        with self._mutex:
            before = self.queue.running
            self.queue = self.queue.left(ticket)
            del self._turns[ticket]
            for next_one in self.queue.running - before:
                self._turns[next_one].set_result(None)

    def _wait(self, turn: Future[None]) -> Steps[None]:
        seconds = self._wait_seconds
        try:
            yield from Call(
                blocking=lambda: turn.result(timeout=seconds),
                awaitable=lambda: asyncio.wait_for(asyncio.wrap_future(turn), timeout=seconds),
            )
        except TimeoutError as error:
            raise QueueFullError(
                f"The call waited {seconds:g} s for a free place, which is the limit: try again later, or "
                "raise parallel_calls"
            ) from error


# Result of a call for its model's circuit breaker; `withdrawn` counts neither way.
News = Literal["succeeded", "failed", "withdrawn"]


def pause(milliseconds: int) -> Call[None]:
    """Return a call that waits without blocking an event loop; used for backpressure."""
    seconds = milliseconds / 1_000
    return Call(blocking=lambda: time.sleep(seconds), awaitable=lambda: asyncio.sleep(seconds))


class Gate:
    """The queue and the circuit breakers of one graph; threads and event loops may share them."""

    def __init__(
        self,
        queue: WaitQueue,
        policy: CircuitPolicy,
        *,
        wait_seconds: float = CALL_WAIT_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start with closed circuits.

        `wait_seconds` is how long a call waits for a place in the `queue`, and `policy` says when a
        circuit opens. `clock` returns seconds and must be monotonic.
        """
        self._semaphore = FairSemaphore(queue, wait_seconds=wait_seconds)
        self._policy = policy
        self._clock = clock
        self._mutex = Lock()
        self._circuits: dict[str, Circuit] = {}

    @classmethod
    def of(cls, settings: Settings) -> "Gate":
        """Return a new gate with the queue that the settings describe, and circuit breakers."""
        return cls(WaitQueue(places=settings.parallel_calls, max_waiting=WAITING_CALLS), POLICY)

    @property
    def queue(self) -> WaitQueue:
        """The running and the waiting calls."""
        return self._semaphore.queue

    def circuit(self, model: str) -> Circuit:
        """Return the circuit breaker of a model; a new one if the model was not called yet."""
        return self._circuits.get(model) or Circuit(policy=self._policy)

    def through(self, calls: Mapping[str, Call[T]], charged: list[str] | None = None) -> Steps[T]:
        """Call one model after the other until one replies, once the queue has a place.

        The next model is called only if the one before could not be reached. The names of models
        that may charge for a call that failed are added to `charged`. Raises `QueueFullError`,
        `CircuitOpenError` if no model may be called, or the error of the last call.
        """
        charged = [] if charged is None else charged
        return (yield from self._semaphore.through(lambda: self._first_answer(calls, charged)))

    def _first_answer(self, calls: Mapping[str, Call[T]], charged: list[str]) -> Steps[T]:
        """Call the models in order until one is available; skip those whose circuit is open.

        Raises:
            CircuitOpenError: The circuits of all models are open.
            Exception: The error of the last model called. An error that does not mean that a model
                is unavailable is raised at once, and no other model is called.
        """
        failure: Exception | None = None
        for model, call in calls.items():
            with self._mutex:
                admitted = self.circuit(model).admit(self._clock())
                if admitted is None:
                    continue
                self._circuits[model] = admitted
            news: News = "withdrawn"
            try:
                result = whole((yield from call))
                news = "succeeded"
                return result
            except Exception as error:
                charged += [model] if may_be_charged(error) else []
                explained = explain(error)
                if not isinstance(explained, ModelUnavailableError):
                    # A model that refuses a request works; an error in other code says nothing.
                    news = "succeeded" if isinstance(explained, ModelError) else "withdrawn"
                    raise
                news, failure = "failed", error
            finally:
                # Also after a cancelled call: a probe that never reports would keep the circuit open.
                self._tell(model, admitted.period, news)
        if failure is not None:
            raise failure
        raise CircuitOpenError(
            code="circuit_open",
            models=" and ".join(map(repr, calls)),
            count=self._policy.failures,
            seconds=self._policy.reset_seconds,
        )

    def _tell(self, model: str, period: int, news: News) -> None:
        with self._mutex:
            circuit, timestamp = self.circuit(model), self._clock()
            if news == "withdrawn":
                circuit = circuit.withdrawn(period=period)
            elif news == "failed":
                circuit = circuit.failed(timestamp, period=period)
            else:
                circuit = circuit.succeeded(timestamp, period=period)
            self._circuits[model] = circuit
