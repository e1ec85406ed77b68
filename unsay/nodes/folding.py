"""Folds: the summaries by which views tell of what they leave out."""

from collections.abc import Sequence

from langchain_core.messages import AnyMessage, HumanMessage, SystemMessage

from unsay.context.topics import by_topic, current_topic_id
from unsay.effects import Steps
from unsay.history.line import Line
from unsay.nodes.logbook import log_fold
from unsay.prompts.catalogue import Fence
from unsay.prompts.texts import Texts
from unsay.services import Scope
from unsay.transcript.marks import is_question
from unsay.transcript.text import preview, text_of
from unsay.types import Topic

SUMMARY_CHARS = 1_500
"""Longest summary of one topic that a view carries, in characters."""

LOCAL_CHARS = 400
"""Longest summary that is made without a model: a list of questions tells less for its length, and
the state carries it in every turn."""

MATERIAL_CHARS = 24_000
"""How much of a topic a summarizer is shown, its newest part."""


def fold(line: Line, topics: Sequence[Topic], scope: Scope) -> Steps[list[Topic]]:
    """Summarize each topic that is not under way and has grown since its last summary."""
    current = current_topic_id(line.segments)
    grouped = by_topic(line.messages, line.segments)
    folded: list[Topic] = []
    for topic in topics:
        said = grouped.get(topic["id"], [])
        if topic["id"] == current or not said or said[-1].id == topic["summarized_through"]:
            folded.append(topic)
            continue
        summary = yield from summary_of(said, scope, earlier=topic.get("sealed"))
        folded.append({**topic, "summary": summary, "summarized_through": said[-1].id})
        log_fold(scope, folded[-1])
        scope.tell("fold", label=topic["label"], messages=len(said), summary=summary)
    return folded


def summary_of(
    messages: list[AnyMessage], scope: Scope, *, earlier: str | None = None
) -> Steps[str]:
    """A summary by the summarizer, or the local one where there is none or it fails.

    Args:
        messages: Of one topic.
        scope: Of the step.
        earlier: What tells of the topic's messages before these; it is told again.
    """
    texts = scope.texts(messages)
    local = local_summary(messages, texts, earlier)
    try:
        summarizer = yield scope.resolve("summarizer")
        if summarizer is None:
            return local
        said = "\n".join(f"{m.type}: {text_of(m)}" for m in messages)[-MATERIAL_CHARS:]
        said = said if earlier is None else f"{earlier}\n{said}"
        material = Fence.around(said).mark("conversation", said)
        request = [
            SystemMessage(texts.summary_system),
            HumanMessage(texts.summary_request.format(material=material)),
        ]
        limit = scope.settings.judge_timeout_seconds
        reply = yield scope.ask(summarizer, request, quiet=True, aside=True, timeout_seconds=limit)
    except Exception as error:  # noqa: BLE001 - a summarizer is anyone's code; folding needs none
        scope.tell("summary_failed", error=f"{type(error).__name__}: {error}"[:300])
        return local
    written = (reply if isinstance(reply, str) else text_of(reply)).strip()
    return written[:SUMMARY_CHARS] or local


def local_summary(messages: Sequence[AnyMessage], texts: Texts, earlier: str | None = None) -> str:
    """What was asked, in the user's own words, shortened: a summary without a model.

    What an earlier summary told comes first, as far as there is room beside the newer words.
    """
    questions = [preview(text_of(m), 120) for m in messages if is_question(m)]
    newer = texts.local_summary.format(questions=" / ".join(questions))[:LOCAL_CHARS]
    room = max(LOCAL_CHARS // 2, LOCAL_CHARS - len(newer) - 1)
    return newer if earlier is None else f"{earlier[:room]}\n{newer}"[:LOCAL_CHARS]
