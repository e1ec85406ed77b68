"""The compaction: which messages contexts leave out, and the summaries that replace them.

A compaction is plain JSON in the graph's state and refers to messages by id. While it does not
change, each context is the previous one plus new messages, so the provider's cache stays valid.
"""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import takewhile
from typing import Any, Literal, NotRequired

from langchain_core.messages import AnyMessage, HumanMessage, SystemMessage, ToolMessage
from typing_extensions import TypedDict

from unsay.errors import InputError
from unsay.messages.annotations import annotate, annotation_of
from unsay.messages.boundaries import steps
from unsay.messages.conformance import OPENING_ID
from unsay.messages.content import (
    READ_TOOL,
    Media,
    Other,
    Text,
    ToolResult,
    clip,
    parts_of,
    sources_of,
)
from unsay.prompts.catalogue import Texts
from unsay.prompts.fence import Fence

Shortened = Literal["truncated", "cleared"]

# Characters of a truncated result that are shown at either end.
# Source: strands-agents sdk-python 1232230d, sliding window (`_PRESERVE_CHARS`).
KEEP_CHARS = 200


def truncate(
    message: ToolMessage, texts: Texts, *, keep: int = KEEP_CHARS, lacking: int = 0
) -> ToolMessage:
    """Return a copy of a tool result with its beginning and end, and a line about the middle.

    `keep` is the number of characters at either end. `lacking` is the number of characters that
    were taken out of the middle before this call; the line counts them too. A line replaces each image and file. A result that
    would not become shorter, or was shortened before, is returned itself.
    """
    if _is_short(message, 2 * keep):
        return message
    words, media = text_and_media(message, texts)
    head, tail = clip(words, keep), words[len(clip(words, max(len(words) - keep, 0))) :]
    removed_count = len(words) - len(head) - len(tail) + lacking
    call_fields = {"tool": READ_TOOL, "id": message.tool_call_id, "start": len(head)}
    shorter = (
        f"{head}\n{texts.say('result_truncated', removed=removed_count, **call_fields)}\n{tail}"
    )
    result_text = shorter if removed_count > 0 and len(shorter) < len(words) else words
    if result_text == words and not media:
        return message
    content = "\n".join(filter(None, (result_text, *media)))
    return annotate(message.model_copy(update={"content": content}), shortened="truncated")


def clear(message: ToolMessage, texts: Texts) -> ToolMessage:
    """Return a copy of a tool result in which one line with its length replaces the text.

    A line replaces each image and file. A result that would not become shorter, or was shortened
    before, is returned itself.
    """
    if _is_short(message, 2 * KEEP_CHARS):
        return message
    words, media = text_and_media(message, texts)
    call_fields = {"tool": READ_TOOL, "id": message.tool_call_id}
    content = "\n".join([texts.say("result_cleared", chars=len(words), **call_fields), *media])
    if len(content) >= len(words) and not media:
        return message
    return annotate(message.model_copy(update={"content": content}), shortened="cleared")


def shortened(message: AnyMessage) -> Shortened | None:
    """Return how a context shortened a message, `truncated` or `cleared`; `None` if it did not."""
    form: Shortened | None = annotation_of(message).get("shortened")
    return form


def _is_short(message: ToolMessage, chars: int) -> bool:
    if shortened(message):
        return True
    return isinstance(message.content, str) and len(message.content) <= chars


def words_of(message: AnyMessage, texts: Texts) -> str:
    """Return a message's text and data as one text, then a line for each image and file.

    Data are content blocks of other types, as JSON; thinking and calls of tools are left out.
    """
    words, media = text_and_media(message, texts)
    return "\n".join(filter(None, (words, *media)))


def text_and_media(message: AnyMessage, texts: Texts) -> tuple[str, list[str]]:
    """Return a message's text and data as one text, and a line for each of its images and files.

    Data are content blocks of other types, as JSON; thinking and calls of tools are left out.
    """
    words: list[str] = []
    media: list[str] = []
    for part in parts_of(message):
        if isinstance(part, ToolResult):
            words.append(part.content)
        elif isinstance(part, Text):
            words.append(part.text)
        elif isinstance(part, Media):
            media_format, size = _described(part.block)
            line = texts.say(
                "media_left_out", kind=part.kind, format=media_format or "?", bytes=size
            )
            media.append(line)
        elif isinstance(part, Other):
            words.append(json.dumps(part.block, ensure_ascii=False, default=repr))
    return "\n".join(filter(None, words)), media


def _described(block: Mapping[str, Any]) -> tuple[str, int | str]:
    """Return the format of a media block, empty if unknown, and its size in bytes or `?`."""
    inner = next((v for v in block.values() if isinstance(v, Mapping)), {})
    fields = {**inner, **block}
    url = str(fields.get("url") or fields.get("image_url") or "")
    mime = fields.get("mime_type") or fields.get("media_type") or ""
    data = fields.get("base64") or fields.get("data")
    if url.startswith("data:"):
        mime, _, data = url.removeprefix("data:").partition(";base64,")
    encoded = data if isinstance(data, str) else ""
    # Four characters of base64 are three bytes; each `=` marks a missing byte.
    size = len(encoded) * 3 // 4 - encoded[-2:].count("=")
    media_format = str(mime).rpartition("/")[2] or str(fields.get("format") or "")
    return media_format, size if encoded else "?"


SUMMARY_ID = "unsay-summary"  # id of the message that holds the summaries
SUMMARY_CHARS = 8_000  # longest summary of one span
MAX_SPANS = 12  # most spans of a compaction; one more joins the two oldest
MAX_KEPT = 256  # most messages inside one span that stay in the context


class Span(TypedDict):
    """A run of messages that one rule left out of contexts; `with_span` makes it."""

    first: str  # id of the first message
    through: str  # id of the last message
    kept: list[str]  # ids of messages in between that contexts still show
    summary: str | None  # shown in place of the run; `None` shows nothing
    why: str  # name of the rule
    sources: NotRequired[list[str]]  # hashes of the messages that the summary was made of


class Compaction(TypedDict, total=False):
    """What contexts leave out; an empty compaction leaves out nothing."""

    spans: list[Span]
    cleared: str  # tool results up to the message with this id become one line each
    truncated: str  # tool results up to the message with this id lose their middle
    length: int  # number of messages at the last change
    minutes: float  # the caller's clock at the last change
    topics: dict[str, "Compaction"]  # of topics that have a separate context, by topic id


def live_spans(messages: Sequence[AnyMessage], compaction: Compaction) -> list[Span]:
    """Return the spans whose last message is in the transcript; the other spans no longer apply."""
    # A rollback into a span removes its end: the summary covers removed messages and must go. Only
    # offloading removes the beginning, and then the span begins with the transcript.
    ids = {message.id for message in messages}
    return [span for span in compaction.get("spans", []) if span["through"] in ids]


def summaries_of(compaction: Compaction, offloaded: Collection[str | None]) -> list[str]:
    """Return the summaries of the spans that end in a message with an id in `offloaded`.

    The oldest is first.
    """
    spans = [span for span in compaction.get("spans", []) if span["through"] in offloaded]
    return [summary for span in spans if (summary := span["summary"])]


def without_spans(
    compaction: Compaction, is_dropped: Callable[[Span], bool], *, later: bool = False
) -> Compaction:
    """Return the compaction, its topics included, without the spans for which `is_dropped` is true.

    With `later` the spans after a dropped one are dropped as well: a summarizer reads the earlier
    summaries, and may repeat them. The given compaction is not changed.
    """
    span_filter: Any = partial(takewhile if later else filter, lambda span: not is_dropped(span))
    return changed_spans(compaction, span_filter)


def changed_spans(
    compaction: Compaction, change: Callable[[Iterable[Span]], Iterable[Span]]
) -> Compaction:
    """Return the compaction, its topics included, with the spans that `change` returns for its own."""
    new_compaction: Compaction = compaction.copy()
    if "spans" in compaction:
        new_compaction["spans"] = list(change(compaction["spans"]))
    if "topics" in compaction:
        topics = compaction["topics"].items()
        new_compaction["topics"] = {name: changed_spans(each, change) for name, each in topics}
    return new_compaction


def hidden(
    messages: Sequence[AnyMessage], compaction: Compaction, pins: Collection[str] = frozenset()
) -> set[int]:
    """Return the indices of the messages that contexts leave out.

    System messages, pins, and the messages of the same steps as pins are never left out.
    """
    return {index for _, out in hidden_by_span(messages, compaction, pins) for index in out}


def hidden_by_span(
    messages: Sequence[AnyMessage], compaction: Compaction, pins: Collection[str] = frozenset()
) -> Iterator[tuple[Span, list[int]]]:
    """Yield each live span with the indices of the messages that it leaves out.

    An index is only with the first span that leaves it out. System messages, and pins with all
    messages of their steps, are never left out.
    """
    spans = live_spans(messages, compaction)
    places = {message.id: index for index, message in enumerate(messages)}
    used_indices = with_partners(messages, pins) if spans else set()
    for span in spans:
        kept_ids = set(span["kept"])
        inside = range(places.get(span["first"], 0), places[span["through"]] + 1)
        out = [i for i in inside if messages[i].id not in kept_ids and messages[i].type != "system"]
        out = [index for index in out if index not in used_indices]
        used_indices.update(out)
        yield span, out


def with_partners(messages: Sequence[AnyMessage], ids: Collection[str]) -> set[int]:
    """Return the indices of the messages with these ids and of all others of the same steps.

    A step is, for example, a tool call with its results: see `boundaries.steps`.
    """
    indices: set[int] = set()
    # A step never spans two turns, so only the turns concerned are split: a transcript may be long.
    for turn in {turn_around(messages, i) for i, m in enumerate(messages) if m.id in ids}:
        for step in steps(messages[turn.start : turn.stop]):
            if any(messages[turn.start + offset].id in ids for offset in step):
                indices.update(turn.start + offset for offset in step)
    return indices


def turn_around(messages: Sequence[AnyMessage], place: int) -> range:
    """Return the indices of the turn that the message at index `place` is in."""

    def opens(index: int) -> bool:
        return messages[index].type == "human" != messages[index - 1].type

    first, last = place, place + 1
    while first > 0 and not opens(first):
        first -= 1
    while last < len(messages) and not opens(last):
        last += 1
    return range(first, last)


def with_span(
    messages: Sequence[AnyMessage],
    compaction: Compaction,
    chosen: Collection[int],
    *,
    pins: Collection[str],
    why: str,
    summary: str | None,
    rolling: bool,
    loaded: Collection[str] = (),
) -> Compaction:
    """Return the compaction that also leaves out the messages at `chosen` indices, by rule `why`.

    `summary` is shown in their place; a `rolling` one replaces all earlier spans as well. Pins
    (ids) between the chosen messages are left out only after they are unpinned. The ids in `loaded`
    are of messages that the state does not hold. Raises `InputError` if more than `MAX_KEPT` other
    messages between the chosen ones would stay.
    """
    old = live_spans(messages, compaction)
    # A span without a summary grows by what the same rule leaves out next.
    grows = bool(old) and summary is None is old[-1]["summary"] and why == old[-1]["why"]
    joined = old if rolling else old[-1:] if grows else []
    out = hidden(messages, compaction) | set(chosen) | with_partners(messages, pins)
    span = _span(messages, joined, chosen, out=out, why=why, summary=summary)
    if summary is not None:
        source_messages = [messages[index] for index in chosen if not shortened(messages[index])]
        state_messages = [message for message in source_messages if message.id not in loaded]
        span["sources"] += sources_of(
            state_messages, offloaded=len(state_messages) < len(source_messages)
        )
    spans = [*(earlier for earlier in old if earlier not in joined), span]
    while len(spans) > MAX_SPANS:
        oldest, second, *rest = spans
        both = "\n".join(filter(None, (oldest["summary"], second["summary"]))) or None
        pair = _span(messages, (oldest, second), (), out=out, why=second["why"], summary=both)
        spans = [pair, *rest]
    return {**compaction, "spans": spans, "length": len(messages)}


def _span(
    messages: Sequence[AnyMessage],
    joined: Sequence[Span],
    chosen: Collection[int],
    *,
    out: Collection[int],
    why: str,
    summary: str | None,
) -> Span:
    places = {message.id: index for index, message in enumerate(messages)}
    ends = [i for span in joined for i in (places.get(span["first"], 0), places[span["through"]])]
    first, last = min([*chosen, *ends]), max([*chosen, *ends])
    between = (i for i in range(first, last + 1) if i not in out)
    kept_ids = [messages[i].id or "" for i in between if messages[i].type != "system"]
    if len(kept_ids) > MAX_KEPT:
        raise InputError(
            f"{len(kept_ids)!r} messages between those to leave out would stay, and at most {MAX_KEPT} "
            "may: leave out neighbouring messages"
        )
    return Span(
        first=messages[first].id or "",
        through=messages[last].id or "",
        kept=kept_ids,
        summary=None if summary is None else clip(summary, SUMMARY_CHARS),
        why=why,
        sources=[each for span in joined for each in span.get("sources", [])],
    )


def render(
    messages: Sequence[AnyMessage], compaction: Compaction, *, pins: Collection[str], texts: Texts
) -> tuple[AnyMessage, ...]:
    """Return the messages that are not left out, with shortened tool results and the summaries.

    Messages with ids in `pins` stay whole. All summaries are in one message, in the place of the
    first message that is left out. If messages are left out and the rest begins with the assistant,
    a user message is put before it.
    """
    out, spans = hidden(messages, compaction, pins), live_spans(messages, compaction)
    places = {message.id: index for index, message in enumerate(messages)}
    cleared = places.get(compaction.get("cleared", ""), -1)
    last = max(cleared, places.get(compaction.get("truncated", ""), -1))
    # Finding the partners of pins reads the transcript: skip it if no result is shortened.
    whole = with_partners(messages, pins if last >= 0 else ())
    context: list[AnyMessage] = []
    for index, message in enumerate(messages):
        if index in out:
            continue
        if index <= last and isinstance(message, ToolMessage) and index not in whole:
            context.append((clear if index <= cleared else truncate)(message, texts))
        else:
            context.append(message)
    if summaries := [summary for span in spans if (summary := span["summary"])]:
        first = next((i for i, m in enumerate(messages) if m.type != "system"), len(context))
        context.insert(min(out) if out else first, summary_message(summaries, texts))
    # Providers refuse a conversation that begins with the assistant.
    start = next((i for i, m in enumerate(context) if m.type != "system" or is_summary(m)), None)
    if spans and start is not None and context[start].type not in ("human", "system"):
        context.insert(start, HumanMessage(texts.say("opening"), id=OPENING_ID))
    return tuple(context)


def summary_message(summaries: Sequence[str], texts: Texts) -> SystemMessage:
    """Return the message that holds the summaries, each fenced as data."""
    # Each fence depends on its own summary only: a new summary leaves the bytes before it cached.
    content = "\n".join(
        [texts.say("compaction_heading"), *(fenced(each, texts) for each in summaries)]
    )
    return annotate(SystemMessage(content, id=SUMMARY_ID), kind="summary")


def fenced(summary: str, texts: Texts) -> str:
    """Return a summary as data for a model: between tags that the summary itself cannot close."""
    return Fence.around(summary, salt=texts.salt).wrap("summary", summary)


def is_summary(message: AnyMessage) -> bool:
    """Return whether a message of a context holds summaries; a transcript has no such message."""
    return annotation_of(message).get("kind") == "summary"


def summaries_as_user(context: Sequence[AnyMessage]) -> list[AnyMessage]:
    """Return the context with each summary message as a user message; the others are unchanged.

    A model is sent them in this form, so that it does not read the summaries as instructions.
    """
    # As system messages, words of the conversation would get the weight of instructions, and
    # providers move system messages to the beginning, which invalidates the cache behind it.
    return [_as_user(message) if is_summary(message) else message for message in context]


def _as_user(message: AnyMessage) -> HumanMessage:
    return annotate(HumanMessage(message.content, id=message.id), kind="summary")
