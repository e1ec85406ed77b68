"""Similarity of messages in meaning, by vectors of a user's own embeddings."""

from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite, sqrt
from operator import mul
from typing import Any

from langchain_core.embeddings import Embeddings
from langchain_core.messages import AnyMessage

from unsay.arguments import check_arity, check_returns
from unsay.effects import Call, Steps, run_on_own_loop, user_call
from unsay.errors import ModelReplyError
from unsay.messages.content import text_of
from unsay.retrieval.terms import RecallIndex, key_of

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
) -> Steps[Vectors]:
    """Return the vectors of a question and of messages; only messages not in `known` are embedded.

    `known` has vectors by the messages' keys, which the result has too. Messages without text get
    no vector. The embeddings are called with at most `BATCH` texts.

    Raises:
        ModelReplyError: The number of vectors differs from the number of texts, or a vector is
            empty or has something else than finite numbers.
        TimeoutError: A call took longer than `PART_SECONDS`.
        Exception: Any other error of the embeddings.
    """
    message_vectors = dict(known)
    texts = {
        key_of(message): words[:EMBEDDED_CHARS]
        for message in messages
        if key_of(message) not in known and (words := text_of(message)).strip()
    }
    missing = list(texts)
    for start in range(0, len(missing), BATCH):
        keys = missing[start : start + BATCH]
        batch_texts = [texts[key] for key in keys]
        vectors = yield from _call(embeddings, "embed_documents", batch_texts)
        message_vectors.update(zip(keys, _packed(vectors, len(keys), embeddings), strict=True))
    question_vector = yield from _call(embeddings, "embed_query", question)
    return Vectors(question=_packed([question_vector], 1, embeddings)[0], messages=message_vectors)


class FunctionEmbeddings(Embeddings):
    """Embeddings made of a function, sync or async, from a list of texts to their vectors."""

    def __init__(self, function: Callable[[list[str]], Any]) -> None:
        self._function = function

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return the vectors of texts, which the function gives for all of them at once."""
        vectors: list[list[float]] = user_call(self._function, texts).blocking()
        return vectors

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of one text."""
        vector: list[float] = _packed(self.embed_documents([text]), 1, self)[0]
        return vector

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return the vectors of texts as `embed_documents` does, on an event loop."""
        vectors: list[list[float]] = await user_call(self._function, texts).awaitable()
        return vectors

    async def aembed_query(self, text: str) -> list[float]:
        """Return the vector of one text, on an event loop."""
        vector: list[float] = _packed(await self.aembed_documents([text]), 1, self)[0]
        return vector


def checked_embeddings(embeddings: Embeddings | Callable[[list[str]], Any]) -> Embeddings:
    """Return embeddings, also of a function, after their calls were checked.

    Raises `ConfigurationError` for a function or method that takes other arguments, or yields.
    """
    if not isinstance(embeddings, Embeddings):
        check_arity(embeddings, 1, "embeddings", "a list of texts")
        check_returns(embeddings, "embeddings")
        return FunctionEmbeddings(embeddings)
    for name in ("embed_documents", "embed_query", "aembed_documents", "aembed_query"):
        method = getattr(embeddings, name)
        takes = "a text" if "query" in name else "a list of texts"
        check_arity(method, 1, f"embeddings.{name}", takes)
        check_returns(method, f"embeddings.{name}")
    return embeddings


def _call(embeddings: Embeddings, name: str, value: Any) -> Call[object]:
    """Return a call of the method `name` of embeddings, or of its async form, `a` and `name`.

    The embeddings may have only one of the two.
    """
    sync, own = getattr(embeddings, name), getattr(embeddings, f"a{name}")
    is_inherited = getattr(type(embeddings), f"a{name}") is getattr(Embeddings, f"a{name}")

    def blocking() -> Any:
        try:
            return user_call(sync, value).blocking()
        except NotImplementedError:
            if is_inherited:
                raise
            return run_on_own_loop(own(value))

    # LangChain's inherited async form would use the event loop's own Python threads, for which the
    # loop waits at its end.
    on_loop = user_call(sync if is_inherited else own, value)
    return replace(on_loop, blocking=blocking)


def _packed(vectors: Any, count: int, embeddings: Embeddings) -> list[Any]:
    """Return the vectors of `count` texts, packed; `ModelReplyError` if they are not vectors."""
    name = type(embeddings).__name__
    try:
        # Arrays take a quarter of the memory of lists of floats: 8 bytes a number, not 32.
        packed = [array("d", vector) for vector in vectors]
    except (TypeError, ValueError) as error:
        raise ModelReplyError(f"{name!r} gave no lists of numbers: {error}") from error
    if len(packed) != count:
        raise ModelReplyError(
            f"{name!r} gave {len(packed)} vectors for {count} texts: it must give one for "
            "each, in their order"
        )
    if not all(vector and all(map(isfinite, vector)) for vector in packed):
        raise ModelReplyError(
            f"{name!r} gave a vector without numbers, or with one that is not finite"
        )
    return packed


def cosines(vectors: Vectors, keys: Sequence[str]) -> list[float | None]:
    """Return the cosine of the question and each message, by the messages' keys.

    It is `None` for a message without a vector. Raises `ModelReplyError` if vectors have different
    lengths.
    """
    length = _length(vectors.question)
    return [_cosine(vectors.messages.get(key), vectors.question, length) for key in keys]


def similarities(vectors: Vectors, index: RecallIndex) -> list[float]:
    """Return how similar each indexed message is to the question in meaning, in the index's order.

    The unit is the standard deviation from the mean; shares of the neighbours' similarities are
    added. A message without a vector has only those shares. Raises `ModelReplyError` if vectors
    have different lengths.
    """
    raw_scores = cosines(vectors, [entry.key for entry in index.entries])
    scores = [cosine for cosine in raw_scores if cosine is not None]
    mean = sum(scores) / max(len(scores), 1)
    deviation = sqrt(sum((cosine - mean) ** 2 for cosine in scores) / max(len(scores), 1)) or 1.0
    near = [0.0 if cosine is None else (cosine - mean) / deviation for cosine in raw_scores]
    spread = list(near)
    for distance, share in NEIGHBOURS.items():
        for place in range(max(0, -distance), min(len(near), len(near) - distance)):
            spread[place] += share * near[place + distance]
    return spread


def fused(rankings: Sequence[Sequence[float]]) -> list[float]:
    """Return one score for each message, from several scores of each; higher is better.

    Only the ranks of the scores count, so their scales do not matter. Source: Cormack, Clarke and
    Buettcher 2009 (reciprocal rank fusion).
    """
    totals = [0.0] * len(rankings[0])
    for scores in rankings:
        order = sorted(range(len(scores)), key=scores.__getitem__, reverse=True)
        for rank, place in enumerate(order, 1):
            totals[place] += 1 / (RANK_OFFSET + rank)
    return totals


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
