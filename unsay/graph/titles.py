"""What a thread is called."""

from collections.abc import Mapping
from typing import Any

from langchain_core.messages import HumanMessage, SystemMessage

from unsay.effects import Steps
from unsay.history.catalogue import TITLE_CHARS
from unsay.prompts.catalogue import Fence
from unsay.services import Scope
from unsay.transcript.marks import is_question
from unsay.transcript.text import preview, text_of


def title_of(state: Mapping[str, Any], scope: Scope) -> Steps[str]:
    """A name for the thread: by the title model, else the first question's words.

    Args:
        state: Of the thread.
        scope: Whose model is asked.
    """
    first = next((m for m in state.get("messages", []) if is_question(m)), None)
    words = "" if first is None else text_of(first)
    plain = preview(words, TITLE_CHARS)
    if not words:
        return plain
    request = [
        SystemMessage(scope.texts([HumanMessage(words)]).title_system),
        HumanMessage(Fence.around(words).mark("conversation", words[:2_000])),
    ]
    limit = scope.settings.judge_timeout_seconds
    try:
        titler = yield scope.resolve("titler")
        if titler is None:
            return plain
        reply = yield scope.ask(titler, request, quiet=True, aside=True, timeout_seconds=limit)
    except Exception:  # noqa: BLE001 - a title model may fail in any way; the words will do
        return plain
    written = reply if isinstance(reply, str) else text_of(reply)
    return preview(written.strip(" \"'「」“”\n"), TITLE_CHARS) or plain
