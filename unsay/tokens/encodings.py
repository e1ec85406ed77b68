"""Vocabularies of models that are on this disk already; nothing is downloaded."""

import os
import re
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from tempfile import gettempdir

from unsay.tokens.counter import Encoder
from unsay.tokens.estimate import Vocabulary

# The name of a vocabulary's file in tiktoken's cache, and the file's digest.
# Source: tiktoken's `openai_public.py`; the file's name is made from its URL, as in its `load.py`.
_KNOWN: Mapping[Vocabulary, tuple[str, str]] = {
    "o200k": (
        "fb374d419588a4632f3f557e76b4b70aebbca790",
        "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    ),
    "cl100k": (
        "9b5ad71b2ce5302211f9c61530b329a4922fc6a4",
        "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
    ),
}


def encoder_of(vocabulary: Vocabulary) -> Encoder | None:
    """Return the encoder of a vocabulary; `None` if tiktoken lacks the vocabulary.

    `None` also if `tiktoken` or a complete file of the vocabulary is not on this disk. The call
    takes half a second of processor time: call it once, and not on an event loop.
    """
    known = _KNOWN.get(vocabulary)
    if known is None or not _is_whole(*known):
        return None
    try:
        from tiktoken import get_encoding  # noqa: PLC0415 - a slow import that most users skip
    except ImportError:
        return None
    encoding = get_encoding(f"{vocabulary}_base")
    return lambda text: len(encoding.encode_ordinary(text))


def _is_whole(file: str, digest: str) -> bool:
    # Checked here because tiktoken downloads a broken file again, and caches nothing if the folder's
    # name is empty. Source: tiktoken's `load.py`.
    usual = str(Path(gettempdir(), "data-gym-cache"))
    folder = os.environ.get("TIKTOKEN_CACHE_DIR", os.environ.get("DATA_GYM_CACHE_DIR", usual))
    path = Path(folder, file)
    return bool(folder) and path.is_file() and sha256(path.read_bytes()).hexdigest() == digest


# By the beginning of a model's name, or of its part after a `/`, `.` or `:`; the first match counts.
# Source: tiktoken's `model.py` for OpenAI. Anthropic has published no vocabulary since its second
# generation; Llama's grew out of `cl100k`, Qwen's is only similar. The models' reports correct all.
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


def vocabulary_of(model: str | None) -> Vocabulary:
    """Return the vocabulary of a model; for an unknown model OpenAI's newest.

    >>> vocabulary_of("openai/gpt-4-turbo"), vocabulary_of("gpt-5-mini"), vocabulary_of(None)
    ('cl100k', 'o200k', 'o200k')
    """
    names = re.split(r"[/:\s]+", (model or "").lower())
    parts = [*names, *(part for name in names for part in name.split(".")[1:])]
    for start, vocabulary in VOCABULARIES.items():
        if any(part.startswith(start) for part in parts):
            return vocabulary
    return "o200k"
