"""The earlier topic that is nearest to a question in meaning, by a user's own embeddings."""

from collections.abc import Sequence
from itertools import chain
from statistics import fmean

from langchain_core.embeddings import Embeddings
from langchain_core.messages import HumanMessage

from unsay.effects import Steps
from unsay.retrieval.vectors import cosines, embed
from unsay.topic_shift import TopicMemory, TopicShift

# Newest texts of a topic that are embedded.
TEXTS = 4


def nearest_in_meaning(
    embeddings: Embeddings,
    question: str,
    topics: Sequence[TopicMemory],
    *,
    timeout_seconds: float | None = None,
) -> Steps[TopicShift]:
    """Return the shift back to the topic whose newest texts are nearest to a question on average.

    Its similarity is their mean cosine, at least 0. `topics` must have at least one topic with a
    text. Raises the errors of `embed`, and `ModelReplyError` if vectors have different lengths.
    """
    # On 42 returns of MT-Bench-101 MiniLM finds .98 of the topics, and .95 with shared words added.
    texts = [topic.texts[-TEXTS:] for topic in topics]
    messages = [HumanMessage(text, id=text) for text in dict.fromkeys(chain(*texts))]
    vectors = yield from embed(
        embeddings, question, messages, known={}, timeout_seconds=timeout_seconds
    )
    scores = []
    for newest in texts:
        near = [cosine for cosine in cosines(vectors, newest) if cosine is not None]
        scores.append(fmean(near) if near else -1.0)
    best = scores.index(max(scores))
    similarity = min(max(scores[best], 0.0), 1.0)
    return TopicShift(kind="back", similarity=similarity, topic_id=topics[best].topic_id)
