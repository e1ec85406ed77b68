"""The fold: which messages contexts leave out, and the summaries in their place.

A fold is plain JSON in the graph's state and refers to messages by id. While it is unchanged, each
context is the one before it plus the new messages, so that the provider's cache stays valid.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import TypedDict

from langchain_core.messages import AnyMessage, HumanMessage, SystemMessage, ToolMessage

from unsay.context.tool_results import clear, truncate
from unsay.errors import InputError
from unsay.messages.annotations import annotate, annotation_of
from unsay.messages.boundaries import steps
from unsay.messages.conformance import OPENING_ID
from unsay.messages.truncation import clip
from unsay.prompts.fence import Fence
from unsay.prompts.fields import Texts

SUMMARY_ID = "unsay-summary"  # of the message that holds the summaries
SUMMARY_CHARS = 8_000  # longest summary of one span
MAX_SPANS = 12  # spans of a fold; above it the two oldest are joined
MAX_KEPT = 256  # messages inside one span that stay


class Span(TypedDict):
    """The messages from `first` through `through` that rule `why` left out, except `kept`."""

    first: str
    through: str
    kept: list[str]
    summary: str | None
    why: str


class Compaction(TypedDict, total=False):
    """What contexts leave out; an empty fold leaves out nothing.

    Tool results up to the messages `cleared` and `truncated` are shortened. `length` and `minutes`
    are the number of messages and the time at the last change. `topics` has a fold for each topic
    that has its own context.
    """

    spans: list[Span]
    cleared: str
    truncated: str
    length: int
    minutes: float
    topics: dict[str, "Compaction"]


def live_spans(messages: Sequence[AnyMessage], compaction: Compaction) -> list[Span]:
    """Return the spans whose end is still in the transcript.

    A rollback into a span drops it, because its summary tells what was taken back. Only offloading
    removes the beginning of a span, which then begins with the transcript.
    """
    there = {message.id for message in messages}
    return [each for each in compaction.get("spans", []) if each["through"] in there]


def summaries_of(compaction: Compaction, gone: Collection[str | None]) -> list[str]:
    """Return the summaries of the spans that are offloaded, oldest first."""
    spans = compaction.get("spans", [])
    return [words for each in spans if each["through"] in gone and (words := each["summary"])]


def without_spans(compaction: Compaction, gone: Collection[str | None]) -> Compaction:
    """Return the fold without the spans of offloaded messages; `summaries_of` has their summaries."""
    kept: Compaction = compaction.copy()
    if "spans" in compaction:
        kept["spans"] = [each for each in compaction["spans"] if each["through"] not in gone]
    if "topics" in compaction:
        kept["topics"] = {k: without_spans(v, gone) for k, v in compaction["topics"].items()}
    return kept


def hidden(
    messages: Sequence[AnyMessage], compaction: Compaction, pins: Collection[str] = frozenset()
) -> set[int]:
    """Return the indices of the messages that are left out; pins and instructions never are."""
    return {index for _, out in hidden_by_span(messages, compaction, pins) for index in out}


def hidden_by_span(
    messages: Sequence[AnyMessage], compaction: Compaction, pins: Collection[str] = frozenset()
) -> Iterator[tuple[Span, list[int]]]:
    """Yield each span with the indices that it leaves out and no earlier span does."""
    spans = live_spans(messages, compaction)
    places = {message.id: index for index, message in enumerate(messages)}
    done = with_partners(messages, pins) if spans else set()
    for span in spans:
        kept = set(span["kept"])
        inside = range(places.get(span["first"], 0), places[span["through"]] + 1)
        found = (i for i in inside if messages[i].id not in kept and messages[i].type != "system")
        out = [index for index in found if index not in done]
        done.update(out)
        yield span, out


def with_partners(messages: Sequence[AnyMessage], ids: Collection[str]) -> set[int]:
    """Return the indices of these messages and of all that must stay with them."""
    found: set[int] = set()
    for turn in {turn_around(messages, i) for i, m in enumerate(messages) if m.id in ids}:
        for step in steps(messages[turn.start : turn.stop]):
            if any(messages[turn.start + each].id in ids for each in step):
                found.update(turn.start + each for each in step)
    return found


def turn_around(messages: Sequence[AnyMessage], place: int) -> range:
    """Return the indices of the turn around a message; no step reaches beyond a turn."""

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
) -> Compaction:
    """Return the fold that also leaves out the messages at the `chosen` indices, which are shown.

    A `rolling` summary replaces all earlier spans as well.

    Raises:
        InputError: Too many messages between the chosen ones would stay.
    """
    old = live_spans(messages, compaction)
    # A span without a summary grows by what the same rule leaves out next.
    grows = bool(old) and summary is None is old[-1]["summary"] and why == old[-1]["why"]
    joined = old if rolling else old[-1:] if grows else []
    out = hidden(messages, compaction) | set(chosen) | with_partners(messages, pins)
    span = _span(messages, joined, chosen, out=out, why=why, summary=summary)
    spans = [*(each for each in old if each not in joined), span]
    while len(spans) > MAX_SPANS:
        one, other, *rest = spans
        told = "\n".join(filter(None, (one["summary"], other["summary"]))) or None
        pair = _span(messages, (one, other), (), out=out, why=other["why"], summary=told)
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
    ends = [i for each in joined for i in (places.get(each["first"], 0), places[each["through"]])]
    first, last = min([*chosen, *ends]), max([*chosen, *ends])
    between = (i for i in range(first, last + 1) if i not in out)
    kept = [messages[i].id or "" for i in between if messages[i].type != "system"]
    if len(kept) > MAX_KEPT:
        raise InputError(
            f"{len(kept)!r} messages would stay inside one span, and {MAX_KEPT} may: leave out "
            "a stretch rather than single messages"
        )
    return Span(
        first=messages[first].id or "",
        through=messages[last].id or "",
        kept=kept,
        summary=None if summary is None else clip(summary, SUMMARY_CHARS),
        why=why,
    )


def render(
    messages: Sequence[AnyMessage], compaction: Compaction, *, pins: Collection[str], texts: Texts
) -> tuple[AnyMessage, ...]:
    """Return the messages as the fold shows them, with all summaries in one message.

    The summaries replace the first message that was left out. If an assistant's message would then
    come first, an opening by the user is put before it.
    """
    out, spans = hidden(messages, compaction, pins), live_spans(messages, compaction)
    places = {message.id: index for index, message in enumerate(messages)}
    cleared = places.get(compaction.get("cleared", ""), -1)
    last = max(cleared, places.get(compaction.get("truncated", ""), -1))
    whole = with_partners(messages, pins if last >= 0 else ())
    view: list[AnyMessage] = []
    for index, message in enumerate(messages):
        if index in out:
            continue
        if index <= last and isinstance(message, ToolMessage) and index not in whole:
            view.append((clear if index <= cleared else truncate)(message, texts))
        else:
            view.append(message)
    if told := [words for each in spans if (words := each["summary"])]:
        first = next((i for i, m in enumerate(messages) if m.type != "system"), len(view))
        view.insert(min(out) if out else first, summary_message(told, texts))
    start = next((i for i, m in enumerate(view) if m.type != "system" or is_summary(m)), None)
    if spans and start is not None and view[start].type not in ("human", "system"):
        view.insert(start, HumanMessage(texts.opening, id=OPENING_ID))
    return tuple(view)


def summary_message(summaries: Sequence[str], texts: Texts) -> SystemMessage:
    """Return the message that holds the summaries, each fenced as data."""
    # Each fence depends on its summary alone: one summary more leaves the bytes before it cached.
    content = "\n".join([texts.compaction_heading, *map(fenced, summaries)])
    return annotate(SystemMessage(content, id=SUMMARY_ID), kind="summary")


def fenced(summary: str) -> str:
    """Return a summary marked as data."""
    return Fence.around(summary).annotation("summary", summary)


def is_summary(message: AnyMessage) -> bool:
    """Return whether a message of a context holds summaries."""
    return annotation_of(message).get("kind") == "summary"


def summaries_as_user(view: Sequence[AnyMessage]) -> list[AnyMessage]:
    """Return the messages ready to be sent, with summaries as messages of the user.

    Summaries inside the context keep the provider's cache of what comes before them, and words of
    the conversation never get the weight of a system message.
    """
    return [
        annotate(HumanMessage(each.content, id=each.id), kind="summary")
        if is_summary(each)
        else each
        for each in view
    ]
