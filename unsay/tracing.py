"""Tracing: names and tags of model calls in traces and streams, and scores as LangSmith feedback."""

import atexit
import logging
import os
import sysconfig
import time
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from queue import Full, Queue
from threading import Thread
from traceback import walk_tb
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler, BaseCallbackManager, Callbacks
from langchain_core.runnables import RunnableConfig
from langchain_core.tracers.langchain import LangChainTracer
from langgraph.pregel._messages import StreamMessagesHandler
from langsmith.utils import LangSmithNotFoundError

ASIDE = "unsay:aside"
"""Tag of all calls beside the answer. A second tag says which: `unsay:judge`, `unsay:summary` or
`unsay:title`. The calls inside of them have both tags, too."""

QUIET = "nostream"
"""Tag of calls whose tokens must not reach the user. Source: langgraph TAG_NOSTREAM."""

SCORE = "quality_score"
"""Key of the feedback; the state's channel has the same name."""

MOST_WAITING = 100
"""Scores that wait to be sent at most; further ones are dropped."""

ATTEMPTS = 4
PROJECT_SECONDS = 2.0
EXIT_SECONDS = 5.0
"""How long Python waits at exit for scores that are not sent yet."""

LOG = logging.getLogger(__name__)

_FOREIGN = (sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"), os.path.dirname(__file__))
"""Folders of code that is not the user's."""


def log_failure(event: str, thread_id: str | None, error: Exception) -> str:
    """Log that a part which the user gave failed, with the place in the user's code.

    Returns the reason: the error's class and message, at most 500 characters.
    """
    reason = f"{type(error).__name__}: {error}"[:500]
    frames = [(f.f_code.co_filename, line) for f, line in walk_tb(error.__traceback__)]
    own = [f"{name}:{line}" for name, line in frames if not name.startswith(_FOREIGN)]
    LOG.warning(
        "event=%s thread=%r reason=%r at=%r a judge, detector or other part that you gave failed",
        event,
        thread_id,
        reason,
        own[-1] if own else "",
    )
    return reason


def with_handler(callbacks: Callbacks, handler: BaseCallbackHandler) -> Callbacks:
    """Return a copy of the callbacks with one more handler, which also hears everything inside."""
    if not isinstance(callbacks, BaseCallbackManager):
        return [*(callbacks or []), handler]
    manager = callbacks.copy()
    manager.add_handler(handler, inherit=True)
    return manager


def labeled(config: RunnableConfig, *, quiet: bool, aside: str | None) -> RunnableConfig:
    """Return a copy of a configuration for a model call, with its tags and its name in traces.

    `quiet` keeps its messages out of the `messages` stream. `aside` names a call beside the answer,
    such as `judge`; `None` is the answer, whose call has the model's own name.
    """
    call: RunnableConfig = {**config}
    call["tags"] = [*(config.get("tags") or []), *([QUIET] if quiet else [])]
    if quiet:
        call["callbacks"] = _without_messages(config.get("callbacks"))
    if aside is not None:
        call["tags"] += [ASIDE, f"unsay:{aside}"]
        call["run_name"] = aside
    return call


def _without_messages(callbacks: Callbacks) -> Callbacks:
    """Return a copy of the callbacks without LangGraph's `messages` stream.

    An agent's messages would reach it in spite of the tag `nostream`.
    """
    if not isinstance(callbacks, BaseCallbackManager):
        return callbacks
    manager = callbacks.copy()
    for handler in callbacks.handlers:
        if isinstance(handler, StreamMessagesHandler):
            manager.remove_handler(handler)
    return manager


def send_score(config: RunnableConfig, score: float | None, *, of_graph: bool) -> None:
    """Queue a score to be sent to LangSmith as feedback on a run, if LangSmith traces the run.

    A background thread sends it, so that no turn waits for LangSmith. A score that cannot be sent
    is logged and dropped. `None`, the score of a verdict that is unscored, is not sent.

    Args:
        config: Of the node that gives the score.
        score: From 0 to 1.
        of_graph: Whether the feedback is on the graph's run; else it is on the node's run.
    """
    manager = config.get("callbacks")
    if score is None or not isinstance(manager, BaseCallbackManager):
        return
    for tracer in (each for each in manager.handlers if isinstance(each, LangChainTracer)):
        node = tracer.run_map.get(str(manager.parent_run_id))
        if node is None or node.extra.get("__disabled"):
            continue
        run_id = node.parent_run_id if of_graph and node.parent_run_id else node.id
        SENDER.put(_feedback(tracer, node, run_id, score))


def _feedback(tracer: LangChainTracer, node: Any, run_id: UUID, score: float) -> Callable[[], None]:
    client, trace_id, project = tracer.client, node.trace_id, node.session_name

    def send() -> None:
        client.create_feedback(
            run_id,
            SCORE,
            score=score,
            trace_id=trace_id,
            session_id=_project_id(client, project),
            feedback_source_type="model",
            stop_after_attempt=ATTEMPTS,
        )

    return send


@lru_cache(maxsize=64)  # not without bound: it keeps the clients
def _project_id(client: Any, project: str) -> UUID:
    """Return the id of a project at LangSmith, which makes it when the first run arrives.

    Blocks up to 6 seconds until it exists, then raises LangSmith's error. Only called in the
    sender's thread.
    """
    for _ in range(ATTEMPTS - 1):
        with suppress(LangSmithNotFoundError):
            return UUID(str(client.read_project(project_name=project).id))
        time.sleep(PROJECT_SECONDS)
    return UUID(str(client.read_project(project_name=project).id))


class Sender:
    """Sends scores one after another in a Python thread, so that no turn waits for LangSmith."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Begin with an empty queue, as in a forked process: its parent sends what waited there.

        The copy of the queue can be locked for ever, and the thread is not copied.
        """
        self._waiting: Queue[Callable[[], None]] = Queue(MOST_WAITING)
        self._thread: Thread | None = None

    def put(self, send: Callable[[], None]) -> None:
        """Queue a function that sends a score; if too many wait, log a warning and drop it."""
        try:
            self._waiting.put_nowait(send)
        except Full:
            LOG.warning("reason='%d scores wait' a score was not sent to LangSmith", MOST_WAITING)
        if self._thread is None:
            self._thread = Thread(target=self._work, daemon=True, name="unsay-feedback")
            self._thread.start()

    def drain(self, seconds: float) -> None:
        """Wait until all is sent, at most this many seconds. Called when Python exits."""
        with self._waiting.all_tasks_done:
            self._waiting.all_tasks_done.wait_for(
                lambda: not self._waiting.unfinished_tasks, seconds
            )

    def _work(self) -> None:
        while True:
            send = self._waiting.get()
            try:
                send()
            except Exception as error:  # noqa: BLE001 - of anyone's server; a score is optional
                LOG.warning("reason=%r a score was not sent to LangSmith", error)
            finally:
                self._waiting.task_done()


SENDER = Sender()
atexit.register(SENDER.drain, EXIT_SECONDS)
if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=SENDER.begin)
