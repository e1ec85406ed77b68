"""The view: what the model is sent for one call, computed from the record."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from langchain_core.messages import AnyMessage, SystemMessage, ToolMessage

from unsay.context.topics import by_topic, current_topic_id, standing
from unsay.prompts.catalogue import Fence
from unsay.prompts.texts import Texts
from unsay.transcript.marks import is_document, is_question, spoken
from unsay.transcript.omission import present
from unsay.transcript.repair import conform
from unsay.transcript.text import text_of
from unsay.types import Provider, Sealed, Segment, Topic, Unfolded


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """Messages for one model call."""

    messages: tuple[AnyMessage, ...]
    """At most one system message, the first; then the conversation."""

    left_out: int
    """How many messages of the record it does not show word for word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hints:
    """What one attempt is told beside the conversation; it never enters the record."""

    attempt: int = 1
    """1 for a turn's first draft."""

    rejections: tuple[str, ...] = ()
    """Why this turn's earlier drafts were taken back, oldest first."""

    context_reason: str | None = None
    """Why messages before the question were taken back; `None` when they were not."""

    guidance: str | None = None
    """What a person who reviewed the drafts asked for."""


def plan_view(
    record: Sequence[AnyMessage],
    segments: Sequence[Segment],
    topics: Sequence[Topic],
    *,
    system_prompt: str | None,
    texts: Texts,
    hints: Hints,
    unfolded: Sequence[Unfolded] = (),
    sealed: Sealed | None = None,
    earlier: Sequence[AnyMessage] = (),
) -> View:
    """Choose what the model sees: the current topic word for word, the others folded.

    Args:
        record: The branch as far as the state holds it, the pending question last.
        segments: Which stretch belongs to which topic.
        topics: With the summaries of those that were left.
        system_prompt: The first words of the view.
        texts: Of the conversation's language.
        hints: For this attempt.
        unfolded: Topics that are shown as well while the talk stays where it is.
        sealed: The older part of the branch; `None` where the record is whole.
        earlier: Of that part, the messages that are shown.

    Returns:
        A view whose system message, if any, holds the system prompt, the
        record's own system messages, the folded topics' summaries and the
        hints, in this order: what changes least comes first.
    """
    segments = standing(record, segments)
    current = current_topic_id(segments)
    opened = opened_topics(segments, unfolded)
    shown = [*earlier, *(_of_topics(record, segments, opened) if current else spoken(record))]
    said = _presented([message for message in shown if message.type != "system"], texts)
    known = sealed.get("instructions", []) if sealed else []
    live = (text_of(message) for message in record if message.type == "system")
    instructions = [each for each in (*known, *live) if each.strip()]
    parts = [
        *([system_prompt] if system_prompt else []),
        *instructions,
        *_summaries(topics, opened, texts),
        *_hints(hints, texts),
    ]
    head: list[AnyMessage] = [SystemMessage("\n\n".join(parts))] if parts else []
    all_of_it = len(record) + (sealed["messages"] if sealed else 0)
    return View(messages=(*head, *said), left_out=all_of_it - len(said) - len(instructions))


def sendable(
    view: Sequence[AnyMessage],
    *,
    texts: Texts,
    provider: Provider | None,
    max_tool_result_bytes: int,
) -> list[AnyMessage]:
    """A view as a provider may be sent it: whole, in order, and no tool result too large.

    Args:
        view: Its messages, followed by those of the draft under way.
        texts: Of the conversation's language.
        provider: Who answers; thinking of others is left out. `None` where nobody knows.
        max_tool_result_bytes: A larger one is shown as a record with its beginning.

    Returns:
        What is longer begins with what was sent before it, so that a provider's
        cache stays good.
    """
    shown = [
        present(each, max_tool_result_bytes) if isinstance(each, ToolMessage) else each
        for each in view
    ]
    return conform(
        shown, opening=texts.opening, provider=provider, interrupted=texts.interrupted_tool
    )


def _presented(said: Sequence[AnyMessage], texts: Texts) -> list[AnyMessage]:
    """The messages with each question's documents before it, and fenced as data."""
    ordered: list[AnyMessage] = []
    for message in said:
        place = len(ordered)
        if is_document(message):
            while place > 0 and is_question(ordered[place - 1]):
                place -= 1
            message = _as_data(message, texts)  # noqa: PLW2901 - the same message, presented
        ordered.insert(place, message)
    return ordered


def _as_data(document: AnyMessage, texts: Texts) -> AnyMessage:
    words = text_of(document)
    fenced = texts.document.format(document=Fence.around(words).mark("document", words))
    blocks = document.content if isinstance(document.content, list) else []
    others = [each for each in blocks if isinstance(each, dict) and each.get("type") != "text"]
    content = [{"type": "text", "text": fenced}, *others] if others else fenced
    return document.model_copy(update={"content": content})


def opened_topics(segments: Sequence[Segment], unfolded: Sequence[Unfolded]) -> set[str]:
    """The topics that are shown word for word: the current one, and those that were unfolded."""
    if not segments:
        return set()
    here = segments[-1]
    return {
        here["topic_id"],
        *(each["topic_id"] for each in unfolded if each["at"] == here["start"]),
    }


def _of_topics(
    record: Sequence[AnyMessage], segments: Sequence[Segment], opened: Collection[str]
) -> list[AnyMessage]:
    """The messages of some topics, in the record's order."""
    grouped = by_topic(record, segments)
    if len(opened) == 1:
        return grouped.get(next(iter(opened)), [])
    shown = {m.id for topic in opened for m in grouped.get(topic, [])}
    return [message for message in record if message.id in shown]


def _summaries(topics: Sequence[Topic], opened: Collection[str], texts: Texts) -> list[str]:
    told = [(None if t["id"] in opened else t["summary"]) or t.get("sealed") for t in topics]
    summaries = [each for each in told if each]
    fence = Fence.around(*summaries)
    lines = [fence.mark("summary", each) for each in summaries]
    return ["\n".join([texts.summary_heading, *lines])] if lines else []


def _hints(hints: Hints, texts: Texts) -> list[str]:
    fence = Fence.around(*hints.rejections, hints.context_reason or "", hints.guidance or "")
    parts = []
    if hints.context_reason is not None:
        reason = fence.mark("reason", hints.context_reason)
        parts.append(texts.retry_context.format(reasons=reason))
    if hints.rejections:
        reasons = "\n".join(fence.mark("reason", reason) for reason in hints.rejections)
        parts.append(texts.retry.format(attempt=hints.attempt, reasons=reasons))
    if hints.guidance:
        parts.append(texts.guidance.format(guidance=fence.mark("reason", hints.guidance)))
    return parts
