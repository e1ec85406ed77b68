"""Similarity of messages in meaning, by vectors of a user's own embeddings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import sqrt
from operator import mul

from langchain_core.embeddings import Embeddings
from langchain_core.messages import AnyMessage

from unsay.effects import Call, Steps
from unsay.errors import ModelReplyError
from unsay.messages.content import text_of
from unsay.retrieval.index import RecallIndex, key_of

BATCH = 128  # messages that one call embeds
# Only the first characters of a message are embedded: embedding models read no more.
EMBEDDED_CHARS = 8_000
# The higher, the less the first ranks count. Source: Cormack, Clarke and Buettcher 2009.
RANK_OFFSET = 60
# Shares of the similarity of neighbours, by distance. Source: own measurement.
NEIGHBOURS = {-1: 0.5, 1: 0.25}
Vector = Sequence[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Vectors:
    """Vectors of a question and of messages, by the messages' keys in the index."""

    question: Vector
    messages: Mapping[str, Vector]


def embed(
    embeddings: Embeddings,
    question: str,
    messages: Sequence[AnyMessage],
    *,
    known: Mapping[str, Vector],
    timeout_seconds: float | None = None,
) -> Steps[Vectors]:
    """Return the vectors of a question and of messages; only messages not in `known` are embedded.

    `known` is by the messages' keys. Messages without text get no vector. The embeddings are called
    with at most `BATCH` texts; `timeout_seconds` is for each of these calls.

    Raises:
        ModelReplyError: The number of vectors differs from the number of texts.
    """
    found = dict(known)
    texts = {
        key_of(message): words[:EMBEDDED_CHARS]
        for message in messages
        if key_of(message) not in known and (words := text_of(message)).strip()
    }
    missing = list(texts)
    for start in range(0, len(missing), BATCH):
        keys = missing[start : start + BATCH]
        wanted = [texts[key] for key in keys]
        vectors = yield Call(
            blocking=partial(embeddings.embed_documents, wanted),
            awaitable=partial(embeddings.aembed_documents, wanted),
            timeout_seconds=timeout_seconds,
        )
        if len(vectors) != len(keys):
            raise ModelReplyError(
                f"{type(embeddings).__name__!r} gave {len(vectors)} vectors for {len(keys)} texts: "
                "its embed_documents must give one for each, in their order"
            )
        found.update(zip(keys, vectors, strict=True))
    asked = yield Call(
        blocking=partial(embeddings.embed_query, question),
        awaitable=partial(embeddings.aembed_query, question),
        timeout_seconds=timeout_seconds,
    )
    return Vectors(question=asked, messages=found)


def similarities(vectors: Vectors, index: RecallIndex) -> list[float]:
    """Return the similarity of each indexed message, with its neighbours, to the question.

    The unit is the standard deviation from the mean. A message without a vector has only a share of
    its neighbours' similarity. Raises `ModelReplyError` if vectors have different lengths.
    """
    length = _length(vectors.question)
    cosines = [
        _cosine(vectors.messages.get(entry.key), vectors.question, length)
        for entry in index.entries
    ]
    known = [cosine for cosine in cosines if cosine is not None]
    mean = sum(known) / max(len(known), 1)
    deviation = sqrt(sum((cosine - mean) ** 2 for cosine in known) / max(len(known), 1)) or 1.0
    near = [0.0 if cosine is None else (cosine - mean) / deviation for cosine in cosines]
    spread = list(near)
    for distance, share in NEIGHBOURS.items():
        for place in range(max(0, -distance), min(len(near), len(near) - distance)):
            spread[place] += share * near[place + distance]
    return spread


def fused(rankings: Sequence[Sequence[float]]) -> list[float]:
    """Combine several scores of each message by its ranks, so that scales do not matter.

    Source: Cormack, Clarke and Buettcher 2009 (reciprocal rank fusion).
    """
    found = [0.0] * len(rankings[0])
    for scores in rankings:
        order = sorted(range(len(scores)), key=scores.__getitem__, reverse=True)
        for rank, place in enumerate(order, 1):
            found[place] += 1 / (RANK_OFFSET + rank)
    return found


def _cosine(vector: Vector | None, question: Vector, length: float) -> float | None:
    if vector is None:
        return None
    if len(vector) != len(question):
        raise ModelReplyError(
            f"A message's vector has {len(vector)} numbers and the question's {len(question)}: embed "
            "both with one model, and drop the vectors of another"
        )
    product = length * _length(vector)
    return sum(map(mul, vector, question)) / product if product else 0.0


def _length(vector: Vector) -> float:
    return sqrt(sum(map(mul, vector, vector)))
