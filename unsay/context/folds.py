"""Folds: which messages views leave out, and what stands in their place.

A fold is plain JSON and goes into the graph's state. It names messages by their
ids and is, beside the record and the pins, all that a view depends on: while it
stays the same, each view is the one before it plus what was said since.
"""

from collections.abc import Collection, Sequence
from typing import NotRequired, TypedDict

from langchain_core.messages import AnyMessage

from unsay.errors import InputError
from unsay.transcript.cut import steps
from unsay.transcript.omission import cut

SUMMARY_CHARS = 8_000
"""Longest summary of one span that is kept, in characters."""

MAX_SPANS = 12
"""How many spans a fold tells apart; the two oldest run together past that."""

MAX_KEPT = 256
"""How many messages inside one span may stay word for word."""


class Span(TypedDict):
    """A stretch that views leave out, save the messages in `kept`; `why` names the rule.

    `sealed` where the state has let go of its messages: its summary is all that is left here.
    """

    first: str
    through: str
    size: int
    kept: list[str]
    summary: str | None
    why: str
    sealed: NotRequired[bool]


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
    """The spans whose end is still on the record, and those that are sealed.

    A rollback into a span takes its summary along, which tells of what was taken
    back. Only sealing takes the beginning of one, and then it begins with the record.
    """
    there = {message.id for message in messages}
    spans = fold.get("spans", [])
    return [each for each in spans if each.get("sealed") or each["through"] in there]


def sealed(fold: Fold, gone: Collection[str]) -> Fold:
    """The fold after the state let go of its oldest messages, which is no rollback.

    Args:
        fold: Before; it is not changed.
        gone: Ids of those messages.
    """
    spans: list[Span] = [
        {**each, "sealed": True, "kept": []} if each["through"] in gone else each
        for each in fold.get("spans", [])
    ]
    topics = {name: sealed(each, gone) for name, each in fold.get("topics", {}).items()}
    return {**fold, "spans": spans, **({"topics": topics} if topics else {})}


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
        if span.get("sealed"):
            continue
        kept = set(span["kept"])
        inside = range(places.get(span["first"], 0), places[span["through"]] + 1)
        out.update(i for i in inside if messages[i].id not in kept and messages[i].type != "system")
    return out - with_partners(messages, pins) if out else out


def with_partners(messages: Sequence[AnyMessage], ids: Collection[str]) -> set[int]:
    """Indices of these messages and of all that no cut may part from them."""
    if not ids:
        return set()
    return {
        index
        for step in steps(messages)
        if any(messages[each].id in ids for each in step)
        for index in step
    }


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
    """The fold with one span more, which leaves out the chosen messages.

    Args:
        messages: All that the fold speaks of, oldest first.
        fold: Before; it is not changed.
        chosen: Indices of messages that were shown; at least one.
        pins: They are shown as long as they are pins, whatever a span says.
        why: The rule that leaves them out.
        summary: In their place; `None` for nothing.
        rolling: Whether the summary also stands for all that was left out before.

    Raises:
        InputError: Too many messages between the chosen ones would stay.
    """
    old = standing(messages, fold)
    joined = old if rolling else [each for each in old[-1:] if _goes_on(each, why, summary)]
    out = hidden(messages, fold) | set(chosen) | with_partners(messages, pins)
    span = _span(messages, joined, chosen, out=out, why=why, summary=summary)
    spans = [*(each for each in old if each not in joined), span]
    while len(spans) > MAX_SPANS:
        one, other, *rest = spans
        told = "\n".join(filter(None, (one["summary"], other["summary"]))) or None
        if other.get("sealed"):
            size = one["size"] + other["size"]
            pair: Span = {**other, "size": size, "summary": told and cut(told, SUMMARY_CHARS)}
        else:
            pair = _span(messages, (one, other), (), out=out, why=other["why"], summary=told)
        spans = [pair, *rest]
    return {**fold, "spans": spans, "length": len(messages)}


def _goes_on(span: Span, why: str, summary: str | None) -> bool:
    """Whether a span without words of its own may grow by what is left out next."""
    wordless = summary is None and span["summary"] is None
    return wordless and why == span["why"] and not span.get("sealed")


def _span(
    messages: Sequence[AnyMessage],
    joined: Sequence[Span],
    chosen: Collection[int],
    *,
    out: Collection[int],
    why: str,
    summary: str | None,
) -> Span:
    """One span over old ones and chosen messages; what is shown in between stays."""
    places = {message.id: index for index, message in enumerate(messages)}
    live = [each for each in joined if not each.get("sealed")]
    ends = [i for each in live for i in (places.get(each["first"], 0), places[each["through"]])]
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
