"""Overflows: how providers say that a request is too long, and asking again with less."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from unsay.context.plan import Plan, Situation
from unsay.context.strategy import Strategy, planned, reduced
from unsay.effects import Steps
from unsay.errors import ContextOverflowError

MAX_RETRIES = 3
"""How often one call is made again with a smaller view.

Source:
    strands-agents harness-sdk, `_context_manager` (overflow retry cap).
"""

OVERFLOW_CODES = frozenset({"context_length_exceeded", "string_above_max_length"})
"""Codes by which servers of the OpenAI protocol say that the prompt is too long.

Source: OpenAI API reference, error codes.
"""

OVERFLOW_WORDS = (
    "maximum context length",
    "max context length",
    "exceeds the context window",
    "input tokens exceed the configured limit",
    "prompt is too long",
    "prompt too long",
    "exceed context limit",
    "input is too long",
    "too many input tokens",
    "input token count",
    "exceeds the available context size",
    "exceed_context_size_error",
    "context length exceeded",
    "longer than the maximum model length",
    "longer than the model's context length",
    "too large for model with",
    "maximum prompt length is",
    "reduce the length of the messages",
    "exceeds the maximum allowed input length",
    "exceeded model token limit",
    "greater than the context length",
    "exceeds context length",
    "length of all messages is too long",
    "context window exceeds limit",
)
"""Words of servers that give no code.

Source:
    Replies of OpenAI, Anthropic, Bedrock, Gemini, llama.cpp, vLLM, SGLang, Mistral, xAI, Groq,
    Poolside, Moonshot, LM Studio, Ollama, Perplexity and MiniMax as users quote them:
    jin-bo/agentao#88, BerriAI/litellm#21647, earendil-works/pi#4943 and #5929,
    0xBakeer/inference-atlas#186, openclaw/openclaw#20539.
"""

THROTTLE_WORDS = ("rate limit", "rate_limit", "too many requests", "tokens per min", "please wait")
"""Words of a refusal that passes by itself, whatever else it says of tokens.

Source:
    jin-bo/agentao#88 (Bedrock, "Too many tokens, please wait").
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A model's reply, and the plan of the view that it replied to."""

    reply: Any

    plan: Plan


def is_context_overflow(error: BaseException) -> bool:
    """Whether a provider says that the prompt does not fit into the model's window.

    The code is asked before the class and the words: LangChain's own
    `ContextOverflowError` misses the code in current versions.
    """
    if any(each.__name__ == "ContextOverflowError" for each in type(error).__mro__):
        return True
    if getattr(error, "code", None) in OVERFLOW_CODES:
        return True
    said = str(error).lower()
    if getattr(error, "status_code", 400) not in (400, 413, 422):
        return False
    return not _has(said, THROTTLE_WORDS) and _has(said, OVERFLOW_WORDS)


def ask_with(
    strategy: Strategy,
    now: Situation,
    send: Callable[[Plan], Steps[Any]],
    *,
    is_overflow: Callable[[Exception], bool] = is_context_overflow,
    has_extras: Callable[[], bool] = lambda: False,
    retries: int = MAX_RETRIES,
) -> Steps[Answered]:
    """Plan a view and ask the model; where it is too long, reduce it and ask again.

    Args:
        strategy: Any.
        now: Before the call.
        send: Asks the model with a plan's view.
        is_overflow: Whether a failure means that the view was too long.
        has_extras: Whether what was sent last had more than its plan's view, which is not sent
            after an overflow: then that alone is left out first.
        retries: How often it is tried again; each time only with a smaller view.

    Raises:
        ContextOverflowError: It was too long every time, or could not be made smaller.
        SummarizationError: It could not be made smaller for want of a summary.
        Exception: Whatever else the call raises.
    """
    plan = yield from planned(strategy, now)
    for overflows in range(1, retries + 2):
        try:
            reply = yield from send(plan)
        except Exception as error:  # any client may raise anything; what is no overflow goes on
            if not is_overflow(error):
                raise
            if overflows > retries:
                raise ContextOverflowError(
                    f"The view was too long {overflows} times, although it was made smaller "
                    f"{retries} times ({error}). Unpin something, ask for less at once, or use a "
                    "model with a larger window."
                ) from error
            after = replace(plan.after, overflows=overflows)
            if has_extras():
                plan = replace(plan, after=after)
            else:
                plan = yield from reduced(strategy, after)
        else:
            return Answered(reply=reply, plan=plan)
    raise AssertionError("the last failure was raised")


def _has(text: str, phrases: Iterable[str]) -> bool:
    return any(each in text for each in phrases)
