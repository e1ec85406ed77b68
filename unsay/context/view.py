"""The context of one call: the system message, the planned messages, hints and recalled messages."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from langchain_core.messages import AnyMessage, SystemMessage, ToolMessage

from unsay.context.compaction import fenced, summaries_as_user, summary_message
from unsay.context.reminders import append_to_question
from unsay.messages.annotations import is_document, is_question
from unsay.messages.conformance import conform
from unsay.messages.content import text_of
from unsay.messages.truncation import shortened_result
from unsay.prompts.catalogue import Texts
from unsay.prompts.fence import Fence
from unsay.types import Offloaded, Provider

# Largest tool result that contexts have whole. Source: Goa-AI, MaxToolResultContentBytes.
RESULT_BYTES = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class Hints:
    """What a model gets for one attempt besides the conversation; the transcript never has it."""

    attempt: int = 1  # number of the attempt in the turn
    rejections: tuple[str, ...] = ()  # why this turn's earlier drafts were rejected, oldest first
    lessons: tuple[str, ...] = ()  # why drafts of earlier turns were rejected, oldest first
    context_reason: str | None = None  # why messages before the question were rolled back
    guidance: str | None = None  # a person's instruction for this attempt
    earlier_answers: tuple[str, ...] = ()  # which a person wants replaced by another one
    found_nothing: bool = False  # documents were searched for, and none of them is relevant


def head_of(
    transcript: Sequence[AnyMessage],
    summaries: Sequence[str],
    *,
    system_prompt: str | None,
    texts: Texts,
    offloaded: Offloaded | None = None,
) -> list[AnyMessage]:
    """Return the system message of a context, in a list; the list is empty without any text.

    It has the system prompt, the transcript's system messages and the `summaries` of topics. System
    messages that were offloaded come before the others.
    """
    # What changes least comes first, so that most of the provider's cache stays valid.
    known = offloaded.get("instructions", []) if offloaded else []
    live = (text_of(message) for message in transcript if message.type == "system")
    parts = [system_prompt] if system_prompt else []
    parts += [text for text in (*known, *live) if text.strip()]
    if summaries:
        quotes = [fenced(each, texts) for each in summaries]
        parts.append("\n".join([texts.say("summary_heading"), *quotes]))
    return [SystemMessage("\n\n".join(parts))] if parts else []


def lay_out(
    shown: Sequence[AnyMessage],
    hints: Hints,
    texts: Texts,
    *,
    summaries: Mapping[str, Sequence[str]] | None = None,
    recalled: AnyMessage | None = None,
) -> list[AnyMessage]:
    """Return the messages of a plan with summaries of topics, recalled messages and hints.

    `summaries` are texts of topics, by the id of the message that they precede; if that one is
    not shown, they come first. Documents come before their question. `recalled` quotes earlier
    messages and precedes the newest question and its documents. `hints` are added to the end of
    that question; without one, to the system message, which is made if it is missing.
    """
    # All that changes from call to call is at the end: the provider's cache before it stays valid.
    view = summaries_as_user(_presented(_with_summaries(shown, summaries or {}, texts), texts))
    if recalled is not None:
        place = next((i for i in range(len(view) - 1, -1, -1) if is_question(view[i])), len(view))
        while 0 < place < len(view) and is_document(view[place - 1]):
            place -= 1
        view.insert(place, recalled)
    if parts := _hints(hints, texts):
        view = append_to_question(view, texts.say("turn_hints", hints="\n\n".join(parts)))
    return view


def _with_summaries(
    shown: Sequence[AnyMessage], summaries: Mapping[str, Sequence[str]], texts: Texts
) -> list[AnyMessage]:
    ids = {message.id for message in shown}
    lost = [text for name, group in summaries.items() if name not in ids for text in group]
    view: list[AnyMessage] = [summary_message(lost, texts)] if lost else []
    for message in shown:
        if texts_before := summaries.get(message.id or ""):
            view.append(summary_message(texts_before, texts))
        view.append(message)
    return view


def sendable(
    context: Sequence[AnyMessage],
    *,
    texts: Texts,
    provider: Provider | None,
    readable: bool = False,
) -> list[AnyMessage]:
    """Return the context in the provider's form, with large tool results shortened.

    The result is not checked: the caller gives it to `validate`, which raises. `texts` has the words
    to add; with `None` as `provider` only the rules that all providers share apply.
    `readable`: whether the model can read the rest of a result longer than `RESULT_BYTES`.
    """
    shorten = partial(shortened_result, limit_bytes=RESULT_BYTES, readable=readable)
    shown = [shorten(each) if isinstance(each, ToolMessage) else each for each in context]
    interrupted = texts.say("interrupted_tool")
    return conform(shown, opening=texts.say("opening"), provider=provider, interrupted=interrupted)


def _presented(messages: Sequence[AnyMessage], texts: Texts) -> list[AnyMessage]:
    # Documents come before their question and are fenced as data.
    ordered: list[AnyMessage] = []
    for message in messages:
        place = len(ordered)
        if is_document(message):
            while place > 0 and is_question(ordered[place - 1]):
                place -= 1
            message = _as_data(message, texts)  # noqa: PLW2901 - the same message, presented
        ordered.insert(place, message)
    return ordered


def _as_data(document: AnyMessage, texts: Texts) -> AnyMessage:
    words = text_of(document)
    fence = Fence.around(words, salt=texts.salt)
    fenced = texts.say("document", document=fence.wrap("document", words))
    blocks = document.content if isinstance(document.content, list) else []
    others = [block for block in blocks if isinstance(block, dict) and block.get("type") != "text"]
    content = [{"type": "text", "text": fenced}, *others] if others else fenced
    return document.model_copy(update={"content": content})


def _hints(hints: Hints, texts: Texts) -> list[str]:
    fence = Fence.around(
        *hints.rejections,
        hints.context_reason or "",
        *hints.lessons,
        hints.guidance or "",
        *hints.earlier_answers,
        salt=texts.salt,
    )
    parts = [texts.say("found_nothing")] if hints.found_nothing else []
    if hints.lessons:
        listed = "\n".join(fence.wrap("reason", lesson) for lesson in hints.lessons)
        parts.append(texts.say("lessons", lessons=listed))
    if hints.context_reason is not None:
        reason = fence.wrap("reason", hints.context_reason or texts.say("no_reason"))
        parts.append(texts.say("retry_context", reasons=reason))
    if hints.rejections:
        # A judge of the user's may give a score alone.
        given = [reason or texts.say("no_reason") for reason in hints.rejections]
        reasons = "\n".join(fence.wrap("reason", reason) for reason in given)
        parts.append(texts.say("retry", attempt=hints.attempt, reasons=reasons))
    if hints.earlier_answers:
        answers = "\n".join(fence.wrap("answer", each) for each in hints.earlier_answers)
        parts.append(texts.say("another_answer", answers=answers))
    if hints.guidance:
        parts.append(texts.say("guidance", guidance=fence.wrap("reason", hints.guidance)))
    return parts
