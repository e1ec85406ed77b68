"""Views rendered: the record with a fold laid over it."""

from collections.abc import Collection, Sequence

from langchain_core.messages import AnyMessage, HumanMessage, SystemMessage, ToolMessage

from unsay.context.compaction import Fold, hidden, standing, with_partners
from unsay.context.tool_results import clear, truncate
from unsay.messages.annotations import mark_of, with_mark
from unsay.messages.conformance import OPENING_ID
from unsay.prompts.catalog import Fence
from unsay.prompts.fields import Texts

SUMMARY_ID = "unsay-summary"
"""Id of the message in a view that holds the summaries."""


def render(
    messages: Sequence[AnyMessage], fold: Fold, *, pins: Collection[str], texts: Texts
) -> tuple[AnyMessage, ...]:
    """What is shown of some messages.

    The summaries stand together where the first message was left out. What would
    begin with the assistant because of that is opened by the user.
    """
    out, spans = hidden(messages, fold, pins), standing(messages, fold)
    shown = _with_results(messages, fold, out, pins=pins, texts=texts)
    view = [message for index, message in enumerate(shown) if index not in out]
    if told := [words for each in spans if (words := each["summary"])]:
        start = next((i for i, m in enumerate(messages) if m.type != "system"), len(view))
        place = min(out) if out else start
        view.insert(place, summary_message(told, texts))
    return tuple(_opened(view, texts) if spans else view)


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


def _with_results(
    messages: Sequence[AnyMessage],
    fold: Fold,
    out: Collection[int],
    *,
    pins: Collection[str],
    texts: Texts,
) -> list[AnyMessage]:
    places = {message.id: index for index, message in enumerate(messages)}
    cleared, truncated = (
        -1 if name is None else places.get(name, -1)
        for name in (fold.get("cleared"), fold.get("truncated"))
    )
    last = max(cleared, truncated)
    whole = {*out, *with_partners(messages, pins if last >= 0 else ())}
    shown = list(messages)
    for index, message in enumerate(messages[: last + 1]):
        if isinstance(message, ToolMessage) and index not in whole:
            shown[index] = (clear if index <= cleared else truncate)(message, texts)
    return shown


def _opened(view: list[AnyMessage], texts: Texts) -> list[AnyMessage]:
    start = next((i for i, m in enumerate(view) if m.type != "system" or is_summary(m)), None)
    if start is None or view[start].type == "human" or is_summary(view[start]):
        return view
    return [*view[:start], HumanMessage(texts.opening, id=OPENING_ID), *view[start:]]
