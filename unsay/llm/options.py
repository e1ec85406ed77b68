"""Options of one request, such as `temperature`, and how to go on where a model refuses them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from langchain_core.messages import BaseMessage
from langchain_core.runnables import Runnable, RunnableBinding

from unsay.context.overflow import is_context_overflow
from unsay.effects import Steps
from unsay.llm.call import ModelRequest, ask_model
from unsay.messages.content import text_of
from unsay.model_factory import inner_of, is_chat_model, name_of

# Status codes with which servers refuse a parameter or a structured reply.
REFUSALS = (400, 404, 422)
# Names of an option in the errors of providers and clients.
_SPELLINGS = {"max_tokens": ("max_tokens", "max_completion_tokens", "max_output_tokens")}
# Reasons with which providers end a reply at its length limit.
_CUT_OFF = ("length", "max_tokens", "MAX_TOKENS")


def ask_with_options(
    request: ModelRequest, options: Mapping[str, Any], *, is_own: bool = False
) -> Steps[Any]:
    """Return the reply of a chat model that is sent `options`, such as `temperature`.

    If the model refuses an option, the call is repeated without it, and this graph does not send it
    to the model again. The same is true of `max_tokens` if a reasoning model used all of it before
    its first word. A Runnable that is not a chat model gets no options.

    Args:
        request: The call; its model must have no tools bound.
        options: Parameters of the request by LangChain's names: `max_tokens`, `temperature`.
        is_own: Whether the model was made for this purpose; then values that it has already stay.

    Raises:
        Exception: Any error of `ask_model` that does not refuse an option.
    """
    learned, model = request.scope.services.learned, request.model
    sent = dict(options) if is_chat_model(inner_of(model)) else {}
    if is_own:
        sent = {name: value for name, value in sent.items() if name not in _set_on(model)}
    sent = {name: value for name, value in sent.items() if _refusal(model, name) not in learned}
    dropped: set[str] = set()
    while sent:
        try:
            reply = yield from ask_model(replace(request, model=model.bind(**sent)))
        except Exception as error:
            refused = _refused(error, sent)
            if not refused:
                raise
        else:
            if not _is_cut_off(reply) or "max_tokens" not in sent:
                learned.update(dropped)
                return reply
            refused = ["max_tokens"]
        dropped.update(_refusal(model, name) for name in refused)
        sent = {name: value for name, value in sent.items() if name not in refused}
    reply = yield from ask_model(request)
    # Without a success the options need not be the reason of the refusals.
    learned.update(dropped)
    return reply


def _refusal(model: Runnable[Any, Any], option: str) -> str:
    return f"the model {name_of(model)!r} refuses {option!r}"


def _set_on(model: Runnable[Any, Any]) -> set[str]:
    """Return the names of options that a model was given when it was made or bound."""
    names = set(getattr(inner_of(model), "model_fields_set", ()))
    return names | set(model.kwargs if isinstance(model, RunnableBinding) else ())


def _refused(error: Exception, sent: Mapping[str, Any]) -> list[str]:
    """Return the options that an error refuses: those that it names, or all if it names none.

    Empty for an error that is not a refusal of the request.
    """
    # A client that does not know a parameter raises a `TypeError` or a `ValueError`.
    is_refusal = isinstance(error, TypeError | ValueError)
    status = getattr(error, "status_code", None)
    if is_context_overflow(error) or not (is_refusal or status in REFUSALS):
        return []
    text = str(error)
    named = [name for name in sent if any(word in text for word in _SPELLINGS.get(name, (name,)))]
    return named or list(sent)


def _is_cut_off(reply: Any) -> bool:
    """Return whether a reply ended at its length limit before its first word."""
    if not isinstance(reply, BaseMessage) or text_of(reply).strip():
        return False
    ends = ("finish_reason", "stop_reason", "done_reason")
    return any(reply.response_metadata.get(name) in _CUT_OFF for name in ends)
