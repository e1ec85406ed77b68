"""Which vocabulary a model cuts its texts by, as far as it is known."""

from collections.abc import Mapping

from unsay.budget.weights import Vocabulary

VOCABULARIES: Mapping[str, Vocabulary] = {
    "gpt-4o": "o200k",
    "gpt-4.": "o200k",
    "gpt-4": "cl100k",
    "gpt-3.5": "cl100k",
    "text-embedding": "cl100k",
    "llama": "cl100k",
    "claude": "claude",
    "deepseek": "deepseek",
    "qwen": "deepseek",
}
"""By what a model's name begins with, or has after a `/`, `.` or `:`; the first that fits.

Source:
    tiktoken's `model.py` for OpenAI's. Anthropic has published no vocabulary since its second
    generation's; Llama's grew out of `cl100k`; of Qwen's only the kind is alike. What the models
    report corrects all of them.
"""


def vocabulary_of(model: str | None) -> Vocabulary:
    """The vocabulary of a model; of one that nobody knows, the newest of OpenAI's.

    >>> vocabulary_of("openai/gpt-4-turbo"), vocabulary_of("gpt-5-mini"), vocabulary_of(None)
    ('cl100k', 'o200k', 'o200k')
    """
    name = (model or "").lower()
    for sign in "/:":
        name = name.replace(sign, " ")
    words = [*name.split(), *(part for word in name.split() for part in word.split(".")[1:])]
    found = (
        vocabulary
        for start, vocabulary in VOCABULARIES.items()
        if any(word.startswith(start) for word in words)
    )
    return next(found, "o200k")
