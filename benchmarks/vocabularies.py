"""Real vocabularies that lie on this machine, taken from packages.

The `litellm` wheel carries those of tiktoken (`o200k`, `cl100k`), Anthropic's of the
second generation (`claude`) and DeepSeek's; nothing is fetched.
"""

import os
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

Encoder = Callable[[str], int]

TIKTOKEN = {
    "o200k": ("o200k_base", "fb374d419588a4632f3f557e76b4b70aebbca790"),
    "cl100k": ("cl100k_base", "9b5ad71b2ce5302211f9c61530b329a4922fc6a4"),
}
"""What tiktoken calls them, and their files in its cache. Source: tiktoken's `load.py`."""

FILES = {"claude": "anthropic_tokenizer.json", "deepseek": "deepseek_tokenizer.json"}
"""Names of the files that hold the others."""


def folder() -> Path:
    """Where the vocabularies lie.

    Raises:
        ValueError: The package that carries them is not installed.
    """
    found = find_spec("litellm")
    if found is None or not found.submodule_search_locations:
        raise ValueError("No vocabularies: install litellm and tokenizers")
    return Path(found.submodule_search_locations[0], "litellm_core_utils", "tokenizers")


def encoders() -> dict[str, Encoder]:
    """Each vocabulary that is there, as what counts a text by it.

    Raises:
        ValueError: There is none.
    """
    return {name: vocabulary.count for name, vocabulary in vocabularies().items()}


def vocabularies() -> dict[str, "Tiktoken | Tokenizers"]:
    """Each vocabulary that is there.

    Raises:
        ValueError: There is none.
    """
    found = dict(_all(folder()))
    if not found:
        raise ValueError(f"No vocabularies in {str(folder())!r}: install litellm")
    return found


def _all(where: Path) -> Iterator[tuple[str, "Tiktoken | Tokenizers"]]:
    os.environ["TIKTOKEN_CACHE_DIR"] = str(where)
    for name, (known, file) in TIKTOKEN.items():
        if (where / file).exists():
            yield name, Tiktoken(known)
    for name, file in FILES.items():
        if (where / file).exists() and find_spec("tokenizers"):
            yield name, Tokenizers(where / file)


class Tiktoken:
    """A vocabulary of tiktoken's."""

    def __init__(self, known: str) -> None:
        import tiktoken  # noqa: PLC0415 - it reads its cache's place when it is imported

        self._encoding = tiktoken.get_encoding(known)

    def count(self, text: str) -> int:
        """The tokens of a text."""
        return len(self._encoding.encode_ordinary(text))

    def boundaries(self, text: str) -> Iterator[int]:
        """In which character each token begins."""
        places = [place for place, char in enumerate(text) for _ in char.encode("utf-8", "replace")]
        start = 0
        for token in self._encoding.decode_tokens_bytes(self._encoding.encode_ordinary(text)):
            yield places[start]
            start += len(token)


class Tokenizers:
    """A vocabulary in the form of Hugging Face's tokenizers."""

    def __init__(self, path: Path) -> None:
        from tokenizers import Tokenizer  # noqa: PLC0415 - it is no dependency

        self._tokenizer = Tokenizer.from_file(str(path))

    def count(self, text: str) -> int:
        """The tokens of a text."""
        return len(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def boundaries(self, text: str) -> Iterator[int]:
        """In which character each token begins."""
        for start, _ in self._tokenizer.encode(text, add_special_tokens=False).offsets:
            yield min(start, len(text) - 1)
