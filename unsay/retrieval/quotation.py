"""Quoting recalled messages as fenced data."""

import json
from collections.abc import Sequence

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from unsay.context.compaction import truncate, words_of
from unsay.messages.annotations import annotate, annotation_of, is_document
from unsay.messages.content import calls_of, text_of
from unsay.prompts.catalogue import Texts
from unsay.prompts.fence import Fence
from unsay.retrieval.terms import RESULT_CHARS

# Id of the message in a context that quotes the recalled messages.
RECALLED_ID = "unsay-recalled"
# Annotation of a message that is cached for recall: the characters that its middle lacks.
LACKING = "lacking"
_TAG = "recalled"


def quoting(messages: Sequence[AnyMessage], texts: Texts) -> HumanMessage:
    """Return a user message that quotes others as fenced data; it goes before the question."""
    content = f"{texts.say('recalled_heading')}\n{quotes(messages, texts)}"
    return annotate(HumanMessage(content, id=RECALLED_ID), kind="recalled")


def quotes(messages: Sequence[AnyMessage], texts: Texts) -> str:
    """Quote messages, each after its speaker, fenced as data; long tool results lose their middle."""
    quoted = [(speaker(message), _words(message, texts)) for message in messages]
    fence = Fence.around(*(words for _, words in quoted), salt=texts.salt)
    return fence.quotes(_TAG, quoted)


def is_quoting(message: AnyMessage) -> bool:
    """Return whether a message only quotes other messages, such as a result of the recall tool."""
    return isinstance(message.content, str) and message.content.startswith(f'<{_TAG} key="')


def speaker(message: AnyMessage) -> str:
    """Return who wrote a message, such as `user`, `assistant NAME`, `tool NAME` or `document`."""
    if isinstance(message, ToolMessage):
        return f"tool {message.name or message.tool_call_id}"
    if is_document(message):
        return "document"
    role = {"human": "user", "ai": "assistant"}.get(message.type, message.type)
    return f"{role} {message.name}" if message.name else role


def _words(message: AnyMessage, texts: Texts) -> str:
    if isinstance(message.content, str) and (
        isinstance(message, HumanMessage)
        or (isinstance(message, AIMessage) and not message.tool_calls)
    ):
        return text_of(message)
    short = message
    if isinstance(message, ToolMessage):
        lacking = annotation_of(message).get(LACKING, 0)
        short = truncate(message, texts, keep=RESULT_CHARS, lacking=lacking)
    calls = (
        f"[{call.name} {json.dumps(call.args, ensure_ascii=False, default=repr)}]"
        for call in calls_of(message)
    )
    return "\n".join(filter(None, (words_of(short, texts), *calls)))
