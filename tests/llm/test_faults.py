"""What a model's failure means."""

from json import JSONDecodeError
from typing import Any

import httpx
import openai
import pytest
from langchain_core import exceptions as langchain
from langchain_core.messages import HumanMessage
from langchain_openai.chat_models.base import (
    OpenAIAPIContextOverflowError,
    OpenAIContextOverflowError,
)

from unsay.context.strategy import OVERFLOW_CODES, OVERFLOW_WORDS, is_context_overflow
from unsay.errors import (
    ContextOverflowError,
    EmptyAnswerError,
    ModelRefusedError,
    ModelReplyError,
    ModelUnavailableError,
    UnsayError,
)
from unsay.llm.gateway import explain

REQUEST = httpx.Request("POST", "http://localhost/v1/chat/completions")


def reply_error(
    status: int, message: str = "boom", code: str | None = None
) -> openai.APIStatusError:
    """The error that the OpenAI client raises for a response, by its own rules."""
    body = {"error": {"message": message, "type": "x", "param": None, "code": code}}
    response = httpx.Response(status, json=body, request=REQUEST)
    client = openai.OpenAI(api_key="none", base_url="http://localhost/v1")
    try:
        return client._make_status_error_from_response(response)
    finally:
        client.close()


class OverloadedError(Exception):
    """Another provider's error, with a status."""

    status_code = 529


class ClientError(Exception):
    """Bedrock's error: botocore keeps the response as a mapping."""

    def __init__(self, status: int) -> None:
        super().__init__(f"An error occurred ({status})")
        self.response = {"Error": {}, "ResponseMetadata": {"HTTPStatusCode": status}}


class GenaiError(Exception):
    """The error of google-genai."""

    code = 401


class TransportError(Exception):
    """Another client's error by its usual name."""


class BrokenPipeAtProviderError(TransportError, OSError):
    """A kind of it."""


@pytest.mark.parametrize(
    ("error", "error_type"),
    [
        pytest.param(reply_error(400), ModelRefusedError, id="400"),
        pytest.param(reply_error(401), ModelRefusedError, id="401"),
        pytest.param(reply_error(403), ModelRefusedError, id="403"),
        pytest.param(reply_error(404), ModelRefusedError, id="404"),
        pytest.param(reply_error(413), ModelRefusedError, id="413"),
        pytest.param(reply_error(422), ModelRefusedError, id="422"),
        pytest.param(reply_error(408), ModelUnavailableError, id="408"),
        pytest.param(reply_error(409), ModelUnavailableError, id="409"),
        pytest.param(reply_error(429), ModelUnavailableError, id="429"),
        pytest.param(reply_error(500), ModelUnavailableError, id="500"),
        pytest.param(reply_error(503), ModelUnavailableError, id="503"),
        pytest.param(reply_error(599), ModelUnavailableError, id="599"),
        pytest.param(OverloadedError(), ModelUnavailableError, id="another provider's 529"),
        pytest.param(ClientError(429), ModelUnavailableError, id="Bedrock's throttle"),
        pytest.param(ClientError(403), ModelRefusedError, id="Bedrock's refusal"),
        pytest.param(GenaiError(), ModelRefusedError, id="google-genai's bad key"),
        pytest.param(
            openai.APIConnectionError(request=REQUEST), ModelUnavailableError, id="connection"
        ),
        pytest.param(openai.APITimeoutError(REQUEST), ModelUnavailableError, id="client timeout"),
        pytest.param(
            openai.APIError("in the stream", REQUEST, body=None), ModelUnavailableError, id="stream"
        ),
        pytest.param(
            langchain.ModelRateLimitError("no"), ModelUnavailableError, id="LangChain's rate limit"
        ),
        pytest.param(
            langchain.ModelAuthenticationError("no"), ModelRefusedError, id="LangChain's bad key"
        ),
        pytest.param(TimeoutError(), ModelUnavailableError, id="timeout"),
        pytest.param(ConnectionError(), ModelUnavailableError, id="no connection"),
        pytest.param(ConnectionResetError(), ModelUnavailableError, id="connection reset"),
        pytest.param(httpx.ConnectError("no"), ModelUnavailableError, id="httpx connection"),
        pytest.param(httpx.ReadTimeout("no"), ModelUnavailableError, id="httpx timeout"),
        pytest.param(
            httpx.RemoteProtocolError("cut"), ModelUnavailableError, id="httpx broken stream"
        ),
        pytest.param(BrokenPipeAtProviderError("no"), ModelUnavailableError, id="another client's"),
        pytest.param(JSONDecodeError("no", "{", 1), ModelReplyError, id="broken JSON"),
        pytest.param(
            reply_error(400, "too long", "context_length_exceeded"),
            ContextOverflowError,
            id="overflow",
        ),
        pytest.param(
            OpenAIContextOverflowError(
                "Input tokens exceed the configured limit",
                response=httpx.Response(400, request=REQUEST),
                body=None,
            ),
            ContextOverflowError,
            id="langchain-openai's overflow",
        ),
        pytest.param(
            OpenAIAPIContextOverflowError("exceeds the context window", REQUEST, body=None),
            ContextOverflowError,
            id="langchain-openai's overflow in a stream",
        ),
    ],
)
def test_a_failure_has_its_error(error: Exception, error_type: type[UnsayError]) -> None:
    """Each failure of a model says who must act, and what happened."""
    explanation = explain(error)

    assert error_type is type(explanation)
    assert type(error).__name__ in str(explanation)


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(ValueError("boom"), id="a wrong value"),
        pytest.param(KeyError("boom"), id="a missing key"),
        pytest.param(TypeError("boom"), id="a wrong type"),
        pytest.param(RuntimeError("boom"), id="anything"),
        pytest.param(FileNotFoundError("boom"), id="a missing file"),
        pytest.param(AttributeError("status_code"), id="words that look like a status"),
    ],
)
def test_a_bug_stays_itself(error: Exception) -> None:
    """An error in an agent's own code is not the model's."""
    assert explain(error) is None


@pytest.mark.parametrize(
    ("error", "text"),
    [
        pytest.param(reply_error(429), "The model's server failed or limits its calls", id="429"),
        pytest.param(reply_error(500), "The model's server failed or limits its calls", id="500"),
        pytest.param(TimeoutError("late"), "The model did not answer in time", id="timeout"),
        pytest.param(
            openai.APITimeoutError(REQUEST), "did not answer in time", id="client timeout"
        ),
        pytest.param(httpx.ReadTimeout("no"), "did not answer in time", id="httpx timeout"),
        pytest.param(ConnectionError("no"), "could not be reached", id="no connection"),
    ],
)
def test_an_unavailable_model_says_why(error: Exception, text: str) -> None:
    """A server that was reached is not one that could not be reached."""
    assert text in str(explain(error))


@pytest.mark.parametrize(
    "message",
    [
        HumanMessage([{"type": "image_url", "image_url": {"url": "no address"}}]),
        HumanMessage([{"type": "video", "url": "https://example.com/x.mp4"}]),
        HumanMessage([{"type": "image", "base64": "eA=="}]),
    ],
    ids=["address", "kind", "type"],
)
def test_messages_that_a_client_cannot_send_are_not_the_servers_fault(message: Any) -> None:
    """The advice is about the message, not about the address of the server."""
    anthropic = pytest.importorskip("langchain_anthropic")
    model = anthropic.ChatAnthropic(model="m", api_key="k", base_url="http://127.0.0.1:9")
    with pytest.raises((ValueError, KeyError)) as error_info:
        model.invoke([message])
    explanation = explain(error_info.value)
    assert isinstance(explanation, ModelRefusedError)
    assert "Remove what it names" in str(explanation)


def test_our_own_errors_stay_themselves() -> None:
    """What is explained already is not explained again."""
    error = EmptyAnswerError("every draft was empty")

    assert error is explain(error)


class BillingError(Exception):
    """Another provider's error for an account without credit."""

    status_code = 402


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(reply_error(429, "Check your plan.", "insufficient_quota"), id="OpenAI"),
        pytest.param(reply_error(400, "Your credit balance is too low"), id="Anthropic"),
        pytest.param(BillingError("Insufficient Balance"), id="402"),
    ],
)
def test_an_exhausted_quota_is_called_by_its_name(error: Exception) -> None:
    """Waiting does not help, while a fallback model may; the error says what does."""
    explanation = explain(error)
    assert isinstance(explanation, ModelUnavailableError)
    assert "quota of the model's provider is exhausted" in str(explanation)
    assert "Waiting does not help" in str(explanation)
    assert (getattr(error, "code", None) or "") in str(explanation)


def test_a_long_text_is_shortened() -> None:
    """A server that sends pages of HTML does not fill the screen."""
    explanation = explain(reply_error(502, "<html>" * 1000))

    assert len(str(explanation)) < 800


@pytest.mark.parametrize("code", sorted(OVERFLOW_CODES))
def test_a_code_tells_an_overflow(code: str) -> None:
    """The code is enough, for any message."""
    assert is_context_overflow(reply_error(400, "no", code))


@pytest.mark.sample(every=4)
@pytest.mark.parametrize("status", [400, 413, 422])
@pytest.mark.parametrize("text", OVERFLOW_WORDS)
def test_words_tell_an_overflow_of_servers_without_codes(text: str, status: int) -> None:
    """The words are enough where the status fits, however they are capitalized."""
    assert is_context_overflow(reply_error(status, f"Error: {text.upper()} (9000 tokens)"))


LM_STUDIO = (
    "Trying to keep the first 111490 tokens when context the overflows. However, the model is loaded "
    "with context length of only 32768 tokens, which is not enough."
)


def stream_error(body: str) -> openai.APIError:
    """The error of the OpenAI client for a stream that ends in an error without a message."""
    return openai.APIError("An error occurred during streaming", request=REQUEST, body=body)


@pytest.mark.parametrize(
    ("error", "overflow"),
    [
        pytest.param(reply_error(400, LM_STUDIO), True, id="LM Studio"),
        pytest.param(stream_error(LM_STUDIO), True, id="LM Studio, streamed"),
        pytest.param(
            reply_error(400, "Cannot truncate prompt with n_keep (15028) >= n_ctx (7424)"),
            True,
            id="LM Studio, long task",
        ),
        pytest.param(
            reply_error(400, "too many tokens: size limit exceeded by 11326 tokens."),
            True,
            id="Cohere",
        ),
        pytest.param(
            reply_error(
                400, "too many tokens: total number of tokens in the prompt cannot exceed 4081"
            ),
            True,
            id="Cohere, prompt",
        ),
        pytest.param(
            reply_error(400, "too many tokens: max tokens must be less than or equal to 4096"),
            False,
            id="Cohere, reply",
        ),
        pytest.param(langchain.ContextOverflowError("no"), True, id="langchain's own"),
        pytest.param(ValueError("prompt is too long"), True, id="words without a status"),
        pytest.param(reply_error(429, "prompt is too long"), False, id="another status"),
        pytest.param(reply_error(500, "maximum context length"), False, id="a server error"),
        pytest.param(reply_error(400, "too many images"), False, id="other words"),
        pytest.param(reply_error(400, "no", "invalid_api_key"), False, id="another code"),
        pytest.param(KeyboardInterrupt(), False, id="no error of a model"),
    ],
)
def test_an_overflow_is_told_from_the_rest(error: Any, *, overflow: bool) -> None:
    """Only what says that the prompt is too long is one."""
    assert overflow == is_context_overflow(error)
