import pytest

from unsay.tokens.counter import vocabulary_of


@pytest.mark.parametrize(
    ("model", "vocabulary"),
    [
        (None, "o200k"),
        ("", "o200k"),
        ("gpt-4o-mini", "o200k"),
        ("gpt-4.1", "o200k"),
        ("gpt-5", "o200k"),
        ("o3", "o200k"),
        ("gpt-4", "cl100k"),
        ("gpt-4-turbo", "cl100k"),
        ("gpt-3.5-turbo", "cl100k"),
        ("openai:gpt-4", "cl100k"),
        ("claude-sonnet-4-5", "claude"),
        ("us.anthropic.claude-opus-4-1-20250805-v1:0", "claude"),
        ("openrouter/deepseek/deepseek-chat", "deepseek"),
        ("Qwen/Qwen3-8B", "deepseek"),
        ("meta-llama/Llama-3.3-70B", "cl100k"),
        ("llama3.1:8b", "cl100k"),
        ("gemini-2.5-pro", "o200k"),
    ],
)
def test_a_models_name_tells_its_vocabulary(model: str | None, vocabulary: str) -> None:
    """Models are known by the beginnings of their names, on any server."""
    assert vocabulary == vocabulary_of(model)
