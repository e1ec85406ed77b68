"""What views show of the part of a record that is sealed."""

from collections.abc import Mapping
from dataclasses import dataclass

from langchain_core.messages import AnyMessage

from unsay.context.forgetting import told_topics
from unsay.context.topics import standing
from unsay.context.view import opened_topics
from unsay.effects import Steps
from unsay.errors import DatabaseCorruptError
from unsay.history.sealed import Page, read_page
from unsay.nodes.pinning import in_order, pinned_pages, shown_of
from unsay.services import Scope
from unsay.state import State


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """Messages of the sealed part."""

    words: list[AnyMessage]
    """Those that views show, oldest first."""

    places: Mapping[str, int]
    """By id, where each stands on the record, from 1."""


def opened_words(state: State, scope: Scope) -> Steps[Earlier]:
    """What is sealed of the topics that views show, as far as the talk can return to it, and pins.

    A page that is missing or was changed is left out: the topic's summary tells of it.
    """
    segments = standing(state["messages"], state.get("segments", []))
    opened = opened_topics(segments, state.get("unfolded", []))
    known = told_topics(state.get("topics", []), state.get("forgotten", []))
    topics = [each for each in known if each["id"] in opened]
    of_topics = (name for each in topics for name in each.get("pages", []))
    pages: list[Page] = []
    for name in dict.fromkeys((*of_topics, *pinned_pages(state))):
        assert scope.store is not None and scope.thread_id is not None  # noqa: S101, PT018 - it has pages
        try:
            page = yield from read_page(scope.store, scope.thread_id, name)
        except DatabaseCorruptError as error:
            scope.tell("words_lost", error=str(error))
            continue
        pages.append(page)
    texts = scope.texts(state["messages"])
    words: list[AnyMessage] = []
    places: dict[str, int] = {}
    for page in in_order(pages):
        here = [each["id"] for each in topics if page.id in each.get("pages", [])]
        words += shown_of(page, here, state, texts)
        start = page.before["messages"] if page.before else 0
        places |= {m.id or "": place for place, m in enumerate(page.messages, start=start + 1)}
    shown = {message.id for message in words}
    return Earlier(words=words, places={name: n for name, n in places.items() if name in shown})
