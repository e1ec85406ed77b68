"""The vocabularies of models, where they lie on this disk already; nothing is ever fetched."""

import os
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from tempfile import gettempdir

from unsay.budget.tokens import Encoder
from unsay.budget.weights import Vocabulary

_KNOWN: Mapping[Vocabulary, tuple[str, str, str]] = {
    "o200k": (
        "o200k_base",
        "fb374d419588a4632f3f557e76b4b70aebbca790",
        "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    ),
    "cl100k": (
        "cl100k_base",
        "9b5ad71b2ce5302211f9c61530b329a4922fc6a4",
        "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
    ),
}
"""What tiktoken calls a vocabulary, its file's name in the cache, and the file's digest.

Source:
    tiktoken's `openai_public.py`; the name is made of the file's address, as in its `load.py`.
"""


def encoder_of(vocabulary: Vocabulary) -> Encoder | None:
    """What counts texts by a vocabulary; `None` where it does not lie on this disk whole.

    It takes half a second of processor time: call it once, and not on an event loop.

    Args:
        vocabulary: Of the answering model.
    """
    known = _KNOWN.get(vocabulary)
    if known is None or not _is_whole(known[1], known[2]):
        return None
    try:
        from tiktoken import get_encoding  # noqa: PLC0415 - it is slow, and often for nothing
    except ImportError:
        return None
    encoding = get_encoding(known[0])
    return lambda text: len(encoding.encode_ordinary(text))


def _is_whole(file: str, digest: str) -> bool:
    """Whether tiktoken would find the file and keep it; a broken one it would fetch anew.

    Source:
        tiktoken's `load.py`: where it caches, and that an empty name of the folder is no cache.
    """
    usual = str(Path(gettempdir(), "data-gym-cache"))
    folder = os.environ.get("TIKTOKEN_CACHE_DIR", os.environ.get("DATA_GYM_CACHE_DIR", usual))
    path = Path(folder, file)
    return bool(folder) and path.is_file() and sha256(path.read_bytes()).hexdigest() == digest
