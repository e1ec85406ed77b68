"""Titles of threads."""

from collections.abc import Mapping
from typing import Any

from langchain_core.messages import AnyMessage, HumanMessage, SystemMessage

from unsay.context.exclusions import forgotten_ids
from unsay.effects import Steps
from unsay.history.threads import TITLE_CHARS
from unsay.messages.annotations import is_question
from unsay.messages.content import preview, text_of
from unsay.operations.compact import ask_for_text
from unsay.prompts.catalog import Fence
from unsay.runtime import Scope


def title_of(state: Mapping[str, Any], scope: Scope) -> Steps[str]:
    """A title by the title model, else the words of the first question that is not forgotten."""
    said = state.get("messages", [])
    gone = forgotten_ids(said, state.get("segments", []), state.get("forgotten", []))
    first = next((m for m in said if is_question(m) and m.id not in gone), None)
    words = "" if first is None else text_of(first)
    plain = preview(words, TITLE_CHARS)
    if first is None or not words:
        return plain
    request: list[AnyMessage] = [
        SystemMessage(scope.texts([HumanMessage(words)]).title_system),
        HumanMessage(Fence.around(words).mark("conversation", words[:2_000])),
    ]
    try:
        titler = yield scope.resolve("titler")
        if titler is None:
            return plain
        key = first.id or ""
        written: str = yield from ask_for_text(scope, titler, request, purpose="title", key=key)
    except Exception:  # noqa: BLE001 - a title model may fail in any way; the words will do
        return plain
    return preview(written.strip(" \"'「」“”\n"), TITLE_CHARS) or plain
