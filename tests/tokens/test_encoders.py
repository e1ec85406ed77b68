import os
from pathlib import Path

import pytest

from unsay.tokens.counter import encoder_of

O200K = "fb374d419588a4632f3f557e76b4b70aebbca790"


@pytest.mark.parametrize("content", [None, b"", b"AA== 0\n"], ids=["absent", "empty", "broken"])
def test_a_vocabulary_that_is_not_whole_is_not_fetched(
    content: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the file is missing or broken there is no encoder, and the file stays as it was."""
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    if content is not None:
        (tmp_path / O200K).write_bytes(content)

    assert encoder_of("o200k") is None
    assert [content] == ([path.read_bytes() for path in tmp_path.iterdir()] or [None])


def test_no_cache_is_no_vocabulary(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache that is turned off holds nothing."""
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "")

    assert encoder_of("o200k") is None


def test_a_vocabulary_that_nobody_published_has_no_encoder() -> None:
    """What tiktoken does not know is estimated."""
    assert encoder_of("claude") is None


@pytest.mark.skipif(
    not Path(os.environ.get("TIKTOKEN_CACHE_DIR", "/nowhere"), O200K).exists(),
    reason="the vocabulary lies in no cache",
)
def test_a_vocabulary_on_disk_counts() -> None:
    """Where the file is whole, texts are counted exactly."""
    encode = encoder_of("o200k")

    assert encode is not None
    assert 2 == encode("hello world")
