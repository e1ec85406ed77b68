"""Folds: which messages views leave out, and what stands in their place.

A fold is plain JSON and goes into the graph's state. It names messages by their
ids and is, beside the record and the pins, all that a view depends on: while it
stays the same, each view is the one before it plus what was said since.
"""

from collections.abc import Collection, Sequence
from typing import TypedDict

from langchain_core.messages import AnyMessage, HumanMessage, SystemMessage, ToolMessage

from unsay.context.tool_results import clear, truncate
from unsay.errors import InputError
from unsay.messages.annotations import mark_of, with_mark
from unsay.messages.boundaries import steps
from unsay.messages.conformance import OPENING_ID
from unsay.messages.truncation import cut
from unsay.prompts.fence import Fence
from unsay.prompts.fields import Texts

SUMMARY_ID = "unsay-summary"
"""Id of the message in a view that holds the summaries."""

SUMMARY_CHARS = 8_000
"""Longest summary of one span that is kept, in characters."""

MAX_SPANS = 12
"""How many spans a fold tells apart; the two oldest run together past that."""

MAX_KEPT = 256
"""How many messages inside one span may stay word for word."""


class Span(TypedDict):
    """A stretch that views leave out, save the messages in `kept`; `why` names the rule."""

    first: str
    through: str
    size: int
    kept: list[str]
    summary: str | None
    why: str


class Fold(TypedDict, total=False):
    """What views leave out; an empty one shows everything.

    Tool results up to the messages `cleared` and `truncated` are shown as such.
    `length` and `minutes` say how long the record was, and what the clock said,
    when something was folded last. `topics` has a fold for each topic where each
    has a context of its own.
    """

    spans: list[Span]
    cleared: str
    truncated: str
    length: int
    minutes: float
    topics: dict[str, "Fold"]


def standing(messages: Sequence[AnyMessage], fold: Fold) -> list[Span]:
    """The spans whose end is still on the record.

    A rollback into a span takes its summary along, which tells of what was taken
    back. Only sealing takes the beginning of one, and then it begins with the record.
    """
    there = {message.id for message in messages}
    return [each for each in fold.get("spans", []) if each["through"] in there]


def summaries_of(fold: Fold, gone: Collection[str | None]) -> list[str]:
    """The summaries of the spans whose messages the state lets go of, oldest first."""
    spans = fold.get("spans", [])
    return [words for each in spans if each["through"] in gone and (words := each["summary"])]


def without_spans(fold: Fold, gone: Collection[str | None]) -> Fold:
    """The fold without the spans of offloaded messages, whose `summaries_of` are kept elsewhere."""
    kept: Fold = fold.copy()
    if "spans" in fold:
        kept["spans"] = [each for each in fold["spans"] if each["through"] not in gone]
    if "topics" in fold:
        kept["topics"] = {k: without_spans(v, gone) for k, v in fold["topics"].items()}
    return kept


def removed(fold: Fold) -> int:
    """How many messages a fold leaves out, those of its topics as well."""
    topics = fold.get("topics", {}).values()
    return sum(each["size"] for each in fold.get("spans", [])) + sum(map(removed, topics))


def hidden(
    messages: Sequence[AnyMessage], fold: Fold, pins: Collection[str] = frozenset()
) -> set[int]:
    """Indices of the messages that a view leaves out.

    Pins are never among them, nor what no cut may part from them, nor instructions.
    """
    places = {message.id: index for index, message in enumerate(messages)}
    out: set[int] = set()
    for span in standing(messages, fold):
        kept = set(span["kept"])
        inside = range(places.get(span["first"], 0), places[span["through"]] + 1)
        out.update(i for i in inside if messages[i].id not in kept and messages[i].type != "system")
    return out - with_partners(messages, pins) if out else out


def with_partners(messages: Sequence[AnyMessage], ids: Collection[str]) -> set[int]:
    """Indices of these messages and of all that no cut may part from them."""
    found: set[int] = set()
    for turn in {turn_around(messages, i) for i, m in enumerate(messages) if m.id in ids}:
        for step in steps(messages[turn.start : turn.stop]):
            if any(messages[turn.start + each].id in ids for each in step):
                found.update(turn.start + each for each in step)
    return found


def turn_around(messages: Sequence[AnyMessage], place: int) -> range:
    """Return the places of the turn around a message: no bond reaches over its beginning."""

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
    fold: Fold,
    chosen: Collection[int],
    *,
    pins: Collection[str],
    why: str,
    summary: str | None,
    rolling: bool,
) -> Fold:
    """The fold with one span more, which leaves out the messages at the `chosen` places.

    They were shown, and are at least one. A `rolling` summary also replaces all that was left
    out before.

    Raises:
        InputError: Too many messages between the chosen ones would stay.
    """
    old = standing(messages, fold)
    # A span without words of its own grows by what the same rule leaves out next.
    grows = bool(old) and summary is None is old[-1]["summary"] and why == old[-1]["why"]
    joined = old if rolling else old[-1:] if grows else []
    out = hidden(messages, fold) | set(chosen) | with_partners(messages, pins)
    span = _span(messages, joined, chosen, out=out, why=why, summary=summary)
    spans = [*(each for each in old if each not in joined), span]
    while len(spans) > MAX_SPANS:
        one, other, *rest = spans
        told = "\n".join(filter(None, (one["summary"], other["summary"]))) or None
        pair = _span(messages, (one, other), (), out=out, why=other["why"], summary=told)
        spans = [pair, *rest]
    return {**fold, "spans": spans, "length": len(messages)}


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
        size=len(chosen) + sum(each["size"] for each in joined),
        kept=kept,
        summary=None if summary is None else cut(summary, SUMMARY_CHARS),
        why=why,
    )


def render(
    messages: Sequence[AnyMessage], fold: Fold, *, pins: Collection[str], texts: Texts
) -> tuple[AnyMessage, ...]:
    """What is shown of some messages.

    The summaries stand together where the first message was left out. What would
    begin with the assistant because of that is opened by the user.
    """
    out, spans = hidden(messages, fold, pins), standing(messages, fold)
    places = {message.id: index for index, message in enumerate(messages)}
    cleared = places.get(fold.get("cleared", ""), -1)
    last = max(cleared, places.get(fold.get("truncated", ""), -1))
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
    """The message that holds the summaries of what was left out, each fenced as data.

    One more leaves the bytes of those before it as they were.
    """
    content = "\n".join([texts.fold_heading, *map(fenced, summaries)])
    return with_mark(SystemMessage(content, id=SUMMARY_ID), kind="summary")


def fenced(summary: str) -> str:
    """A summary as data."""
    return Fence.around(summary).mark("summary", summary)


def is_summary(message: AnyMessage) -> bool:
    """Whether a message of a view holds summaries."""
    return mark_of(message).get("kind") == "summary"


def in_place(view: Sequence[AnyMessage]) -> list[AnyMessage]:
    """A view as it may be sent, its summaries told by the user where they stand.

    What was said before them then stays in a provider's cache, and a
    conversation's words never get the weight of the system's.
    """
    return [
        with_mark(HumanMessage(each.content, id=each.id), kind="summary")
        if is_summary(each)
        else each
        for each in view
    ]
