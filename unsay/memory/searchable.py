"""The messages that a search may find, and the entries that an index keeps of them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import accumulate, islice
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage

from unsay.messages.annotations import annotate, answers_by_turn, is_irrelevant, spoken
from unsay.messages.content import CALL_TYPES, blocks_of, calls_of, is_thinking, text_of
from unsay.retrieval.quotation import LACKING, is_quoting
from unsay.retrieval.terms import TEXT_LIMIT, Entry, entry_of, with_steps

# Longest field of a content block, in characters; a longer one is the data of an image or a file.
SMALL = 200


def page_entries(
    messages: Sequence[AnyMessage], topic_ids: Mapping[str, str], *, goes_on: bool
) -> tuple[list[Entry], list[str]]:
    """Return the entries of a segment's messages, and the ids of the tool calls with results.

    `topic_ids` has the topics by message id; `goes_on` says that there are older segments.
    """
    found = searchable(messages)
    places = {message.id: place for place, message in enumerate(messages)}
    turns = turns_of(found, goes_on=goes_on)
    entries = [
        entry._replace(
            place=places[message.id],
            turn=turn,
            topic=topic_ids.get(message.id or "", ""),
        )
        for entry, message, turn in zip(
            with_steps(map(entry_of, found), found), found, turns, strict=True
        )
    ]
    return entries, [m.tool_call_id for m in found if isinstance(m, ToolMessage)]


def turns_of(messages: Sequence[AnyMessage], *, goes_on: bool) -> Iterator[int]:
    """Return how many of the turns were answered before each message."""
    ends = {answers[-1].id for answers in answers_by_turn(messages, goes_on=goes_on)}
    numbers = accumulate((message.id in ends for message in messages), initial=0)
    return islice(numbers, len(messages))


def searchable(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """Return the messages that recall may find.

    System messages, notices, commands and irrelevant documents are left out, and so are the calls and results of the
    recall tool, which repeat messages.
    """
    conversation = [
        m
        for m in spoken(messages)
        if m.type != "system" and (m.type == "tool" or not is_irrelevant(m))
    ]
    results = (m for m in conversation if isinstance(m, ToolMessage))
    quoting = {m.tool_call_id for m in results if is_quoting(m) or is_irrelevant(m)}
    return [
        m
        for m in conversation
        if quoting.isdisjoint(_call_ids(m)) or (m.type == "ai" and text_of(m).strip())
    ]


def _call_ids(message: AnyMessage) -> list[str]:
    if isinstance(message, ToolMessage):
        return [message.tool_call_id]
    return [call.id for call in calls_of(message)]


def light(message: AnyMessage) -> AnyMessage:
    """Return a message without images, files, thinking and usage, and with a long text shortened."""
    content = message.content
    update: dict[str, Any] = {"additional_kwargs": {}, "response_metadata": {}}
    update["content"] = _indexed_part(content) if isinstance(content, str) else _blocks(message)
    if isinstance(message, AIMessage):
        calls = [asdict(call) | {"type": "tool_call"} for call in calls_of(message)]
        update |= {"tool_calls": calls, "usage_metadata": None}
    light = message.model_copy(update=update)
    lacking = len(text_of(message)) - len(text_of(light))
    return annotate(light, **{LACKING: lacking}) if lacking else light


def _blocks(message: AnyMessage) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    for block in blocks_of(message):
        if block.get("type") == "text":
            blocks.append({"type": "text", "text": _indexed_part(str(block.get("text", "")))})
        elif not is_thinking(block) and block.get("type") not in CALL_TYPES:
            small = (e for e in block.items() if e[1] is None or len(str(e[1])) <= SMALL)
            blocks.append(dict(small))
    return blocks


def _indexed_part(text: str) -> str:
    half = TEXT_LIMIT // 2
    return text if len(text) <= TEXT_LIMIT else f"{text[:half]}\n[…]\n{text[-half:]}"
