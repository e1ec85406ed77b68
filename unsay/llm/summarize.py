"""Compact: write summaries of topics, which replace their messages in contexts; titles of threads."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from langchain_core.messages import AnyMessage, HumanMessage
from langchain_core.runnables import Runnable

from unsay.context.summaries import lines_of, local_summary
from unsay.context.topics import by_topic, current_topic_id, forgotten_ids, without_forgotten
from unsay.effects import Steps, off_loop
from unsay.errors import BudgetExceededError, SummarizationError
from unsay.events import event_types
from unsay.history.branch import LiveBranch
from unsay.history.threads import TITLE_CHARS
from unsay.judging.verdict import request_of
from unsay.llm.call import ModelRequest, ask_model, ask_with_options
from unsay.messages.annotations import is_irrelevant, is_question, spoken
from unsay.messages.content import preview, sources_of, text_of, without_files
from unsay.runtime import Scope
from unsay.tracing import log_failure
from unsay.types import Forgotten, Topic

# Longest summary of one topic, in characters.
SUMMARY_CHARS = 1_500
# Longest summary that is made without a model: it is part of the state in every turn.
LOCAL_CHARS = 800
# How many characters of a topic a summarizer reads, the newest.
MATERIAL_CHARS = 24_000


def compact(
    live: LiveBranch, topics: Sequence[Topic], scope: Scope, forgotten: Sequence[Forgotten] = ()
) -> Steps[list[Topic]]:
    """Return all topics; each that has new messages gets a new summary, except the current topic.

    `live` has the messages; those that are `forgotten` are left out. The compactions are streamed
    and added to the events to log. With `on_topic_change="delete"` the topics are returned as they
    are.
    """
    if scope.settings.on_topic_change == "delete":
        return list(topics)
    current = current_topic_id(live.segments)
    grouped = by_topic(live.messages, live.segments)
    compacted: list[Topic] = []
    for topic in topics:
        messages = grouped.get(topic["id"], [])
        last = messages[-1].id if messages else None
        if topic["id"] == current or last is None or last == topic["summarized_through"]:
            compacted.append(topic)
            continue
        earlier = topic.get("offloaded")
        summary = yield from summary_of(messages, live, forgotten, scope, earlier=earlier)
        covered: Any = {"summarized_through": last, "sources": sources_of(messages, earlier)}
        compacted.append({**topic, **covered, "summary": summary})
        scope.step_log.later_events.append(event_types.compaction(compacted[-1]))
        scope.emit(
            "compaction", label=topic["label"], messages=len(messages), summary=summary or ""
        )
    return compacted


def summary_of(
    messages: list[AnyMessage],
    live: LiveBranch,
    forgotten: Sequence[Forgotten],
    scope: Scope,
    *,
    earlier: str | None = None,
) -> Steps[str | None]:
    """Return a summary of one topic's messages, without forgotten ones; `None` if none are left.

    `live` has the messages and segments. `earlier`, a summary of the topic's offloaded messages, is
    included. Without a working model the summary is made of the messages' own sentences.
    """
    if forgotten or any(map(is_irrelevant, messages)):
        ids = {message.id for message in messages}
        visible_messages = without_forgotten(
            live.messages, live.segments, forgotten, scope.texts(list(live.messages))
        )
        messages = [message for message in visible_messages if message.id in ids]
    if not messages:
        return None
    texts = scope.texts(messages)

    def request() -> list[AnyMessage]:
        lines = [line for message in messages for line in lines_of(message)]
        parts = {"conversation": "\n".join(lines)[-MATERIAL_CHARS:]}
        parts = parts if earlier is None else {"summary": earlier, **parts}
        system = scope.settings.summary_system_prompt or texts.say("summary_system")
        return request_of(system, parts, texts, task="summary_request")

    model_summary = yield from _summary_of_model(scope, request, key=messages[-1].id or "")
    local = local_summary(messages, texts, chars=LOCAL_CHARS, earlier=earlier)
    return model_summary[:SUMMARY_CHARS] or local


def _summary_of_model(
    scope: Scope, request: Callable[[], list[AnyMessage]], *, key: str
) -> Steps[str]:
    """Return a model's summary, or an empty text if no summary was made.

    It is empty without a model, with the setting `summaries="local"`, and after a failure, which is
    only reported. After a failure no model is asked for some turns. `request` is called only if a
    model is asked; `key` names the call in its thread.
    """
    if scope.settings.summaries == "local" or scope.step_log.summaries_paused:
        return ""
    try:
        model = yield from off_loop(lambda: scope.services.summarizer)
        if model is None:
            return ""
        reply = yield from ask_summarizer(scope, model, request(), key=key)
        summary = (reply if isinstance(reply, str) else text_of(reply)).strip()
        if not summary:
            raise SummarizationError("The summary is empty")
        return summary
    except Exception as error:  # noqa: BLE001 - such a model is anyone's code, and may fail in any way
        scope.step_log.pause_summaries()
        scope.warn("summary_failed", error=f"{type(error).__name__}: {error}"[:300])
        return ""


def ask_summarizer(
    scope: Scope,
    model: Runnable[Any, Any],
    request: Sequence[AnyMessage],
    *,
    key: str,
    tokens: int | None = None,
) -> Steps[Any]:
    """Return a summarizer's reply to a request.

    `key` names the call in its thread, and `tokens` is the longest reply; `None` takes the settings'.
    A summarizer of the host's keeps the `max_tokens` and `temperature` that it was made with. Raises
    what `ask_model` raises, for example `BudgetExceededError` or the error of the model's client.
    """
    settings = scope.settings
    model_request = ModelRequest(
        scope=scope,
        model=model,
        value=list(request),
        purpose="summary",
        key=key,
        timeout_seconds=settings.judge_timeout_seconds,
    )
    options: dict[str, Any] = {"max_tokens": tokens or settings.summary_tokens}
    if settings.summary_temperature is not None:
        options["temperature"] = settings.summary_temperature
    services = scope.services
    is_own = services.own_summarizer is not None or model is not services.summarizer
    return (yield from ask_with_options(model_request, options, is_own=is_own))


def _title_of_model(scope: Scope, request: list[AnyMessage], *, key: str) -> Steps[str]:
    """Return a model's title; empty without a model, or if it fails, which is logged."""
    try:
        model = yield from off_loop(lambda: scope.services.titler)
        if model is None:
            return ""
        model_request = ModelRequest(
            scope=scope,
            model=model,
            value=request,
            purpose="title",
            key=key,
            timeout_seconds=scope.settings.judge_timeout_seconds,
        )
        reply = yield from ask_model(model_request)
        return reply if isinstance(reply, str) else text_of(reply)
    except BudgetExceededError:  # a title never asks for more
        return ""
    except Exception as error:  # noqa: BLE001 - such a model is anyone's code, and a title is optional
        log_failure("title_failed", scope.thread_id, error)
        return ""


def title_of(state: Mapping[str, Any], scope: Scope) -> Steps[str]:
    """Return a thread's title: the title model's, or else the beginning of the first question.

    It has at most `TITLE_CHARS` characters. Forgotten questions do not count; empty without a
    question. Errors of the model are ignored.
    """
    messages = state.get("messages", [])
    hidden = forgotten_ids(messages, state.get("segments", []), state.get("forgotten", []))
    first = next((m for m in spoken(messages) if is_question(m) and m.id not in hidden), None)
    question = "" if first is None else without_files(text_of(first))
    plain = preview(question, TITLE_CHARS)
    if first is None or not question:
        return plain
    texts = scope.texts([HumanMessage(question)])
    parts = {"conversation": question[:2_000]}
    request = request_of(texts.say("title_system"), parts, texts)
    model_title = yield from _title_of_model(scope, request, key=first.id or "")
    return preview(model_title.strip(" \"'「」“”\n"), TITLE_CHARS) or plain
