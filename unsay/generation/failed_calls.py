"""Requests to a model: recorded when they are sent, stored when the attempt failed."""

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import BaseMessage, convert_to_openai_messages
from langchain_core.runnables import Runnable, RunnableBinding

from unsay.effects import Steps, off_loop
from unsay.history.runs import FailedRequest, keep_request
from unsay.messages.content import text_of
from unsay.runtime import Scope
from unsay.state import State
from unsay.tracing import ASIDE
from unsay.types import Turn
from unsay.verdicts import Verdict

REASON_CHARS = 2_000

# Arguments of a call that may hold a secret or a live object, or that its body does not have.
UNKEPT = frozenset(
    {
        *("api_key", "default_headers", "extra_headers", "headers"),
        *("default_query", "extra_query", "http_client", "timeout"),
        *("stream", "stream_options"),
    }
)


class RequestRecorder(BaseCallbackHandler):
    """Records the requests of an attempt's chat models, also inside agents and tool loops."""

    # LangChain would otherwise call it in another thread, after the model may have failed.
    run_inline = True

    def __init__(self) -> None:
        self.context: Sequence[BaseMessage] = ()
        self.sent: Sequence[BaseMessage] = ()
        self.params: dict[str, Any] = {}

    def begin(self, context: Sequence[BaseMessage]) -> None:
        """Record a call's context; it counts as sent until `on_chat_model_start` records more."""
        self.context = self.sent = context

    def on_chat_model_start(
        self, serialized: dict[str, Any], messages: list[list[BaseMessage]], **more: Any
    ) -> None:
        """Record the newest request; those of judges and summaries are skipped, by their tag."""
        del serialized
        if ASIDE in (more.get("tags") or ()):
            return
        self.sent = tuple(messages[0])
        self.params = _plain(more.get("invocation_params") or {})


def _plain(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that may be stored: JSON values only, and nothing in `UNKEPT`."""
    return {key: value for key, value in params.items() if key not in UNKEPT and _is_json(value)}


def _is_json(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and _is_json(each) for key, each in value.items())
    if isinstance(value, list | tuple):
        return all(_is_json(each) for each in value)
    return value is None or isinstance(value, str | int | float | bool)


def payload_of(
    model: Runnable[Any, Any] | None, sent: Sequence[BaseMessage], params: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a request's body as its provider would get it, without secrets; nothing is sent.

    `sent` are the messages. `params` describe the call; they are used if the model cannot make the
    body itself. Errors that its client raises are raised.
    """
    bound = model.kwargs if isinstance(model, RunnableBinding) else {}
    inner = model.bound if isinstance(model, RunnableBinding) else model
    # Models of langchain-openai and langchain-anthropic make the body themselves; for others it is
    # written in the form of the OpenAI protocol.
    make = getattr(inner, "_get_request_payload", None)
    if make is not None:
        made = dict(make(list(sent), **bound))
        more = made.pop("extra_body", None) or {}
        body = _plain({**made, **more})
        if "messages" in body or "input" in body:
            return body
    named = {"model_name"} if "model" in params else set()
    shown = {k: v for k, v in params.items() if v and not k.startswith("_") and k not in named}
    return {**shown, "messages": convert_to_openai_messages(list(sent))}


def shown_payload(
    model: Runnable[Any, Any] | None, sent: Sequence[BaseMessage], params: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the body that `payload_of` makes, or `{}` if the client raises."""
    try:
        return payload_of(model, sent, params)
    except Exception:  # noqa: BLE001 - any client's code, and without a body the messages remain
        return {}


def keep_failed_request(
    state: State,
    scope: Scope,
    recorder: RequestRecorder,
    why: Verdict | Exception,
    *,
    answer: str = "",
) -> Steps[None]:
    """Store the request of a rejected draft or a failed model, so that `replay` can repeat it.

    `recorder` has the request, `why` is the draft's verdict or the model's error, and `answer` the
    draft's text. Without a store nothing is kept. Errors of the store are raised.
    """
    if scope.store is None or scope.thread_id is None:
        return
    turn: Turn = state["turn"]
    model = yield from off_loop(lambda: scope.services.answerer)
    question = next((m for m in state["messages"] if m.id == turn["question_id"]), None)
    kept = FailedRequest(
        run_id=turn["run_id"],
        turn_id=turn["question_id"] or "",
        turn=turn["number"],
        attempt=len(turn["rejections"]) + 1,
        at=scope.now(),
        messages=recorder.sent,
        payload=shown_payload(model, recorder.sent, recorder.params),
        question="" if question is None else text_of(question),
        answer=answer,
        score=why.score if isinstance(why, Verdict) else None,
        reason=why.reason if isinstance(why, Verdict) else str(why)[:REASON_CHARS],
        error=None if isinstance(why, Verdict) else type(why).__name__,
    )
    yield from keep_request(scope.store, scope.thread_id, kept)
