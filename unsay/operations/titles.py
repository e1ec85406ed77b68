"""What a thread is called."""

from collections.abc import Mapping
from typing import Any

from langchain_core.messages import HumanMessage, SystemMessage

from unsay.context.exclusions import forgotten_ids
from unsay.effects import Steps
from unsay.history.threads import TITLE_CHARS
from unsay.llm.call import ModelRequest, ask_model
from unsay.messages.annotations import is_question
from unsay.messages.content import preview, text_of
from unsay.prompts.catalog import Fence
from unsay.runtime import Scope


def title_of(state: Mapping[str, Any], scope: Scope) -> Steps[str]:
    """A name for the thread: by the title model, else the words of the first question.

    One that is forgotten does not count.

    Args:
        state: Of the thread.
        scope: Whose model is asked.
    """
    said = state.get("messages", [])
    gone = forgotten_ids(said, state.get("segments", []), state.get("forgotten", []))
    first = next((m for m in said if is_question(m) and m.id not in gone), None)
    words = "" if first is None else text_of(first)
    plain = preview(words, TITLE_CHARS)
    if first is None or not words:
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
        reply = yield from ask_model(
            ModelRequest(
                scope=scope,
                model=titler,
                value=request,
                purpose="title",
                key=first.id or "",
                aside=True,
                timeout_seconds=limit,
            )
        )
    except Exception:  # noqa: BLE001 - a title model may fail in any way; the words will do
        return plain
    written = reply if isinstance(reply, str) else text_of(reply)
    return preview(written.strip(" \"'「」“”\n"), TITLE_CHARS) or plain
