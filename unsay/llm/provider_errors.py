"""Errors of model clients, explained with what a person can do."""

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
_KEPT = "The question is kept: say it again to go on, or say something else to set it aside."


def explain(error: Exception) -> UnsayError | None:
    """Return our error for one that a model's client raised; ours stay as they are.

    `None` means that the model did not cause it: it may be a bug in an agent's code.
    """
    if isinstance(error, UnsayError):
        return error
    said = f"{type(error).__name__}: {error}"[:500]
    if is_context_overflow(error):
        return ContextOverflowError(
            f"The conversation is longer than the model's window ({said}). Go back with a "
            "rollback, start a new topic, or use a model with a larger window."
        )
    status = getattr(error, "status_code", None)
    if isinstance(status, int) and 400 <= status < 500 and status not in _BUSY:
        return ModelRefusedError(
            f"The provider refused the request ({said}). Check the model's name, OPENAI_API_KEY "
            f"and OPENAI_BASE_URL. {_KEPT}"
        )
    if isinstance(status, int) or isinstance(error, TimeoutError) or _is_connection_fault(error):
        return ModelUnavailableError(f"The model could not be reached ({said}). {_KEPT}")
    retryable = getattr(error, "is_retryable", None)
    if isinstance(retryable, bool):
        kind = ModelUnavailableError if retryable else ModelRefusedError
        return kind(f"The model's provider failed ({said}). {_KEPT}")
    if isinstance(error, JSONDecodeError):
        return ModelReplyError(f"The model's server sent broken JSON ({said}). {_KEPT}")
    return None


def _is_connection_fault(error: Exception) -> bool:
    names = {each.__name__ for each in type(error).__mro__}
    return bool(names & {"APIConnectionError", "ConnectionError", "TransportError", "APIError"})
