"""Topic change: the topics that a question is compared with, and the segment that it begins."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import fmean

from langchain_core.embeddings import Embeddings
from langchain_core.messages import HumanMessage

from unsay.context.topics import (
    forgotten_ids,
    forgotten_topics,
    limited,
    live_segments,
    memories,
    remaining_topics,
    topic_starts,
)
from unsay.effects import Steps
from unsay.history.branch import LiveBranch
from unsay.judging.topic_detector import LexicalDetector, label_of
from unsay.llm.summarize import compact
from unsay.protocols import TopicMemory, TopicShift
from unsay.retrieval.vectors import cosines, embed
from unsay.runtime import Scope
from unsay.state import State, Update
from unsay.transcript.live import live_branch
from unsay.transcript.record import add_note
from unsay.types import Segment, Topic

# Newest texts of a topic that are embedded.
TEXTS = 4


def nearest_in_meaning(
    embeddings: Embeddings,
    question: str,
    topics: Sequence[TopicMemory],
) -> Steps[TopicShift]:
    """Return the shift back to the topic whose newest texts are nearest to a question on average.

    Its similarity is their mean cosine, at least 0. `topics` must have at least one topic with a
    text. Raises the errors of `embed`, and `ModelReplyError` if vectors have different lengths.
    """
    # On 42 returns of MT-Bench-101 MiniLM finds .98 of the topics, and .95 with shared words added.
    texts = [topic.texts[-TEXTS:] for topic in topics]
    messages = [HumanMessage(text, id=text) for text in dict.fromkeys(chain(*texts))]
    vectors = yield from embed(embeddings, question, messages, known={})
    scores = []
    for newest in texts:
        near = [cosine for cosine in cosines(vectors, newest) if cosine is not None]
        scores.append(fmean(near) if near else -1.0)
    best = scores.index(max(scores))
    similarity = min(max(scores[best], 0.0), 1.0)
    return TopicShift(kind="back", similarity=similarity, topic_id=topics[best].topic_id)


# Most segments of a thread; beyond that the oldest are merged.
SEGMENTS = 48


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownTopics:
    """The topics before a question: the `current` one, and `others`, the one left last first."""

    current: TopicMemory
    others: tuple[TopicMemory, ...]


def known_topics(
    live: LiveBranch, pending: Sequence[str], question: str, state: State
) -> KnownTopics | None:
    """Return the topics that a question is compared with, without forgotten messages.

    `pending` are the ids of the question's messages, which are not part of a topic yet. `None` for
    a conversation's first question, and if the whole current topic is forgotten.
    """
    segments, forgotten = live.segments, state.get("forgotten", [])
    if not segments or segments[-1]["topic_id"] in forgotten_topics(forgotten):
        return None
    current_id = segments[-1]["topic_id"]
    before = [m for m in live.messages if m.id not in pending]
    hidden = forgotten_ids(before, segments, forgotten)
    starts, _ = topic_starts(before, segments, (), hidden)
    topics = memories(
        [m for m in before if m.id not in hidden],
        starts,
        remaining_topics(state.get("topics", []), forgotten),
    )
    current = next((topic for topic in topics if topic.topic_id == current_id), None)
    if current is None or not current.texts:
        current = TopicMemory(topic_id=current_id, texts=(question,))
    others = (topic for topic in topics if topic.topic_id != current_id and topic.texts)
    return KnownTopics(current=current, others=tuple(others))


def nearest_topic(
    question: str, known: KnownTopics, shift: TopicShift, scope: Scope
) -> Steps[TopicShift]:
    """Return the shift to the earlier topic that the question means, if `shift` is a return.

    With `embeddings` the topic is chosen by meaning. Without them, with a detector of the host, or if
    there is only one earlier topic, `shift` is returned as it is. It is also returned if the
    embeddings fail, and the reason is reported.
    """
    services = scope.services
    is_choice = shift.kind == "back" and len(known.others) > 1
    if not (is_choice and services.embeddings and isinstance(services.detector, LexicalDetector)):
        return shift
    try:
        return (yield from nearest_in_meaning(services.embeddings, question, known.others))
    except Exception as error:  # noqa: BLE001 - embeddings are anyone's code, and may fail in any way
        scope.report_failure("topic_failed", error)
        return shift


def start_segment(
    state: State, scope: Scope, live: LiveBranch, shift: TopicShift | None, question: str
) -> Steps[Update]:
    """Return the update that starts a segment of a new topic, or of an earlier one (`shift`).

    Without a `shift` the question begins the first topic. The topic that is left is summarized,
    without a model if there is none or it fails, and the change is streamed.
    """
    turn = state["turn"]
    topics = list(state.get("topics", []))
    topic_id = shift.topic_id if shift and shift.kind == "back" else None
    kind = "new" if topic_id is None else "back"
    if shift is None and topics and not topics[-1]["label"]:  # its messages are offloaded already
        topic_id, label = topics[-1]["id"], label_of(question)
        topics[-1] = {**topics[-1], "label": label}
    elif topic_id is None:
        # Not the count of topics: old ones are dropped, and no id may be used twice.
        number = 1 + max((int(topic["id"].split("-")[1]) for topic in topics), default=0)
        topic_id, label = f"topic-{number}", label_of(question)
        topics.append(Topic(id=topic_id, label=label, summary=None, summarized_through=None))
    first_pending = turn["pending"][0]
    start = Segment(topic_id=topic_id, start=first_pending)
    before = state["messages"][: live_branch(state).index_of(first_pending)]
    segments = [*live_segments(before, state.get("segments", [])), start][-SEGMENTS:]
    extended = LiveBranch(messages=live.messages, segments=(*live.segments, start))
    topics = yield from compact(extended, topics, scope, state.get("forgotten", []))
    label = next((t["label"] for t in topics if t["id"] == topic_id), label_of(question))
    scope.emit("topic", kind=kind, label=label, similarity=shift.similarity if shift else None)
    history = add_note({**state, "current_topic": label}, scope, "detect_topic_change", kind, None)
    return Update(
        topics=limited(topics, segments),
        segments=segments,
        current_topic=label,
        state_history=history,
        turn={**turn, "topic_change": ("back" if kind == "back" else "new") if shift else None},
    )


def correct_topic(state: State, scope: Scope, shift: TopicShift, question: str) -> Steps[Update]:
    """Return the update that gives the turn's question the topic of `shift`, which a model decided.

    It replaces what the detector had decided before the answer. The update is empty if both agree.
    """
    turn, segments = state["turn"], state.get("segments", [])
    first = turn["pending"][0]
    before = [each for each in segments if each["start"] != first]
    decided = segments[-1]["topic_id"] if turn.get("topic_change") == "back" else None
    if shift.kind == (turn.get("topic_change") or "same") and shift.topic_id == decided:
        return Update()
    without: State = {**state, "segments": before}
    if shift.kind != "same":
        return (yield from start_segment(without, scope, live_branch(without), shift, question))
    labels = {topic["id"]: topic["label"] for topic in state.get("topics", [])}
    label = labels.get(before[-1]["topic_id"], "")
    scope.emit("topic", kind="same", label=label, similarity=shift.similarity)
    history = add_note(
        {**state, "current_topic": label}, scope, "detect_topic_change", "same", None
    )
    return Update(
        segments=before,
        current_topic=label,
        state_history=history,
        turn={**turn, "topic_change": None},
    )
