"""Recognition of a provider's error that says that a request is too long."""

# Source: OpenAI API reference, error codes.
OVERFLOW_CODES = frozenset({"context_length_exceeded", "string_above_max_length"})

# Words in the errors of servers that send no code.
# Source: replies of OpenAI, Anthropic, Bedrock, Gemini, llama.cpp, vLLM, SGLang, Mistral, xAI,
# Groq, Poolside, Moonshot, LM Studio, Ollama, Perplexity and MiniMax as users quote them:
# jin-bo/agentao#88, BerriAI/litellm#21647, earendil-works/pi#4943 and #5929,
# 0xBakeer/inference-atlas#186, openclaw/openclaw#20539; for LM Studio also
# lmstudio-ai/lmstudio-bug-tracker#237 and #546, Gitlawb/openclaude#353 and anomalyco/opencode#11141.
# For Cohere: https://docs.cohere.com/reference/errors and cohere-ai/sandbox-topically#4. Its "too many
# tokens: max tokens must be less than …" is about the reply, so the prefix is not enough.
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
    "too many tokens: total number of tokens",
    "too many tokens: size limit exceeded",
    "minimal context could not be added",
    "context length of only",
    "cannot truncate prompt with n_keep",
    "context size has been exceeded",
)

# A temporary refusal may mention tokens, too. Source: jin-bo/agentao#88 (Bedrock answers "Too many
# tokens, please wait").
THROTTLE_WORDS = ("rate limit", "rate_limit", "too many requests", "tokens per min", "please wait")


def is_context_overflow(error: BaseException) -> bool:
    """Return whether a provider's error says that the prompt exceeds the model's window.

    `True` also for every `ContextOverflowError`, of any library. A rate limit that mentions tokens
    does not say so.
    """
    if any(kind.__name__ == "ContextOverflowError" for kind in type(error).__mro__):
        return True
    # LangChain's own `ContextOverflowError` is not raised for these codes in current versions.
    if getattr(error, "code", None) in OVERFLOW_CODES:
        return True
    # In a stream, some servers send the reason as plain text, which openai's client puts aside.
    text = f"{error} {getattr(error, 'body', '')}".lower()
    if getattr(error, "status_code", 400) not in (400, 413, 422):
        return False
    throttled = any(words in text for words in THROTTLE_WORDS)
    return not throttled and any(words in text for words in OVERFLOW_WORDS)
