"""Errors of model clients, replaced with errors that name the next step."""

from json import JSONDecodeError

from unsay.context.overflow import is_context_overflow
from unsay.errors import (
    ContextOverflowError,
    ModelRefusedError,
    ModelReplyError,
    ModelUnavailableError,
    UnsayError,
)

_BUSY = frozenset({408, 409, 425, 429})
_KEPT = "The question is kept: send it again to continue, or send another one to replace it."


def explain(error: Exception) -> UnsayError | None:
    """Return the error of unsay for one that a model's client raised.

    An error of unsay is returned unchanged. `None` means that the model did not cause the error: it
    may be a bug in an agent's code.
    """
    if isinstance(error, UnsayError):
        return error
    quoted = f"{type(error).__name__}: {error}"[:500]
    if is_context_overflow(error):
        return ContextOverflowError(
            f"The context is longer than the model's window ({quoted}). Roll back, start a new "
            "topic, or use a model with a larger window."
        )
    status = getattr(error, "status_code", None)
    if isinstance(status, int) and 400 <= status < 500 and status not in _BUSY:
        return ModelRefusedError(
            f"The provider refused the request ({quoted}). Check the model's name, OPENAI_API_KEY "
            f"and OPENAI_BASE_URL. {_KEPT}"
        )
    if isinstance(status, int) or isinstance(error, TimeoutError) or _is_connection_fault(error):
        return ModelUnavailableError(f"The model could not be reached ({quoted}). {_KEPT}")
    retryable = getattr(error, "is_retryable", None)
    if isinstance(retryable, bool):
        kind = ModelUnavailableError if retryable else ModelRefusedError
        return kind(f"The model's provider failed ({quoted}). {_KEPT}")
    if isinstance(error, JSONDecodeError):
        return ModelReplyError(f"The model's server sent invalid JSON ({quoted}). {_KEPT}")
    return None


def _is_connection_fault(error: Exception) -> bool:
    names = {each.__name__ for each in type(error).__mro__}
    return bool(names & {"APIConnectionError", "ConnectionError", "TransportError", "APIError"})
