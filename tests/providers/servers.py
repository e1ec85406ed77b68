"""The servers' own rules, checked on what is sent, by other code than the rules under test.

A check returns what the server would complain of; an empty list passes. Each
complaint stands in the provider's API reference or is a reply of its server.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import groupby, pairwise
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from tests.providers.converters import CLAUDE, WHY
from unsay.types import Provider

claude = pytest.importorskip("anthropic.types", reason=WHY)
aws_session = pytest.importorskip("botocore.session", reason=WHY)
aws_validate = pytest.importorskip("botocore.validate", reason=WHY)

ID = re.compile(r"[a-zA-Z0-9_-]+")
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
GOOGLE_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}")


def complaints(payload: Any, provider: Provider, *, thinking: bool = False) -> list[str]:
    """What the provider's server would refuse about a request.

    Args:
        payload: The messages as they are sent.
        provider: Whose server is asked.
        thinking: Whether the request turns extended thinking on.
    """
    checks = {"openai": _openai, "anthropic": _anthropic, "bedrock": _bedrock, "gemini": _gemini}
    if not payload:
        return ["no messages"]
    return [*checks[provider](payload), *(_thinking(payload) if thinking else ())]


def _thinking(messages: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Claude's: the turn that goes on began by thinking, and it is not the assistant's move."""
    if messages[-1]["role"] == "assistant":
        yield "the conversation must end with a user message"
    turn: list[dict[str, Any]] = []
    for message in messages:
        blocks = _blocks(message)
        if message["role"] == "user" and not any("ool" in str(list(b.items())) for b in blocks):
            turn = []
        turn += blocks if message["role"] == "assistant" else []
    calls = [block for block in turn if block.get("type") == "tool_use" or "toolUse" in block]
    if calls and not {turn[0].get("type"), *turn[0]} & {
        "thinking",
        "redacted_thinking",
        "reasoningContent",
    }:
        yield "a final assistant message must start with a thinking block"


def _openai(messages: Sequence[dict[str, Any]]) -> Iterator[str]:
    waiting: list[str] = []
    for index, message in enumerate(messages):
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                yield f"{index}: tool message without a preceding call"
                continue
            waiting.remove(message["tool_call_id"])
        elif waiting:
            yield f"{index}: calls {waiting} were not answered"
            waiting = []
        calls = message.get("tool_calls", [])
        waiting = waiting or [call["id"] for call in calls]
        yield from _openai_content(index, message)
        yield from (
            f"{index}: name {c}" for c in calls if not NAME.fullmatch(c["function"]["name"])
        )
        yield from (f"{index}: id {c} is too long" for c in calls if len(c["id"]) > 64)
    if waiting:
        yield f"calls {waiting} were not answered"


def _openai_content(index: int, message: dict[str, Any]) -> Iterator[str]:
    content = message["content"]
    role = message["role"]
    if not content and role != "tool" and not message.get("tool_calls"):
        yield f"{index}: {role} without content"
    known_types = {
        "user": {"text", "image_url", "file", "input_audio"},
        "assistant": {"text", "refusal"},
    }.get(role, {"text"})
    for block in content if isinstance(content, list) else []:
        if block["type"] not in known_types:
            yield f"{index}: {role} with a block of type {block['type']!r}"


def _anthropic(messages: Sequence[dict[str, Any]]) -> Iterator[str]:
    for index, message in enumerate(messages):
        if not message["content"]:
            yield f"{index}: empty content"
        for block in _blocks(message):
            yield from (f"{index}: {problem}" for problem in _anthropic_block(block))
    turns = [
        {"role": role, "content": [block for message in group for block in _blocks(message)]}
        for role, group in groupby(messages, key=lambda message: message["role"])
    ]
    yield from _pairs(turns, _anthropic_call, _anthropic_result)
    for turn in turns:
        kinds = [block["type"] for block in turn["content"]]
        if {"thinking", "redacted_thinking"} & set(kinds) and "thinking" not in kinds[0]:
            yield f"the first block must be thinking: {kinds}"
        if turn is turns[-1] and turn["role"] == "assistant" and "thinking" in str(kinds):
            yield "an assistant message in the final position cannot contain thinking"


def _anthropic_block(block: dict[str, Any]) -> Iterator[str]:
    try:
        _claude_block().validate_python(block)
    except ValidationError as error:
        yield f"{block['type']}: {error.error_count()} fields are wrong"
    if block["type"] == "text" and not block["text"].strip():
        yield "text blocks must contain non-whitespace text"
    if block["type"] == "tool_use" and not (
        ID.fullmatch(block["id"] or "") and NAME.fullmatch(block["name"])
    ):
        yield f"tool_use {block['id']!r} of {block['name']!r} does not match the pattern"
    if block["type"] == "thinking" and not block.get("signature"):
        yield "thinking without signature"


@cache
def _claude_block() -> TypeAdapter[Any]:
    return TypeAdapter(claude.ContentBlockParam)


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _anthropic_call(block: dict[str, Any]) -> str | None:
    return block["id"] if block["type"] == "tool_use" else None


def _anthropic_result(block: dict[str, Any]) -> str | None:
    return block["tool_use_id"] if block["type"] == "tool_result" else None


def _pairs(turns: Sequence[dict[str, Any]], call: Any, result: Any) -> Iterator[str]:
    """Turns alternate from the user on; results lead the turn behind their calls, exactly."""
    if turns[0]["role"] != "user":
        yield "the first message must be a user's"
    ids = [call_id for turn in turns for block in turn["content"] if (call_id := call(block))]
    if len(set(ids)) < len(ids):
        yield "tool_use ids must be unique"
    for before, turn in pairwise(
        [{"role": "", "content": []}, *turns, {"role": "", "content": []}]
    ):
        if before["role"] == turn["role"]:
            yield "roles must alternate"
        call_ids = [call_id for block in before["content"] if (call_id := call(block))]
        result_ids = [result(block) for block in turn["content"]]
        results = [result_id for result_id in result_ids if result_id]
        if sorted(call_ids) != sorted(results):
            yield f"calls {call_ids} are answered by {results}"
        if results and result_ids[: len(results)] != results:
            yield "results must come first"


def _bedrock(turns: Sequence[dict[str, Any]]) -> Iterator[str]:
    report = aws_validate.ParamValidator().validate(
        {"modelId": CLAUDE, "messages": turns}, _converse()
    )
    if report.has_errors():
        yield report.generate_report()
        return
    yield from _pairs(turns, _bedrock_call, _bedrock_result)
    documents = [
        block["document"]["name"] for block in _blocks_of_turns(turns) if "document" in block
    ]
    if len(set(documents)) < len(documents):
        yield f"documents with the same name: {documents}"
    for index, turn in enumerate(turns):
        keys = [next(iter(block)) for block in turn["content"]]
        if not keys:
            yield f"{index}: the content field is empty"
        if "document" in keys and "text" not in keys:
            yield f"{index}: a text block must be included when using documents"
        if "reasoningContent" in keys and keys[0] != "reasoningContent":
            yield f"{index}: reasoning must come first"
        for block in turn["content"]:
            yield from (f"{index}: {problem}" for problem in _bedrock_block(block))


def _blocks_of_turns(turns: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [block for turn in turns for block in turn["content"]]


def _bedrock_block(block: dict[str, Any]) -> Iterator[str]:
    if not block.get("text", "x").strip():
        yield "the text field is blank"
    if block.get("text") == ".":
        yield "words that nobody said: the converter's placeholder"
    use = block.get("toolUse")
    if use and not (NAME.fullmatch(use["toolUseId"]) and NAME.fullmatch(use["name"])):
        yield f"toolUse {use['toolUseId']!r} of {use['name']!r} does not match the pattern"
    name = block.get("document", {}).get("name", "x")
    if not re.fullmatch(r"[A-Za-z0-9\s\-()\[\]]{1,200}", name):
        yield f"the document's name {name!r} has other characters than it may"
    reasoning = block.get("reasoningContent", {}).get("reasoningText", {"signature": "x"})
    if not reasoning.get("signature"):
        yield "reasoning without signature"


@cache
def _converse() -> Any:
    model = aws_session.get_session().get_service_model("bedrock-runtime")
    return model.operation_model("Converse").input_shape


def _bedrock_call(block: dict[str, Any]) -> str | None:
    return block["toolUse"]["toolUseId"] if "toolUse" in block else None


def _bedrock_result(block: dict[str, Any]) -> str | None:
    return block["toolResult"]["toolUseId"] if "toolResult" in block else None


def _gemini(contents: Sequence[Any]) -> Iterator[str]:
    if contents[0].role != "user":
        yield "the first content must be a user's"
    for before, content, after in zip(
        [None, *contents], contents, [*contents[1:], None], strict=False
    ):
        content_parts = content.parts or []
        if not content_parts:
            yield "contents.parts must not be empty"
        if any(
            not content_part.model_dump(exclude_none=True, exclude_defaults=True)
            for content_part in content_parts
        ):
            yield "required oneof field 'data' must have one initialized field"
        if any(
            content_part.text == "" and not content_part.thought_signature
            for content_part in content_parts
        ):
            yield "empty text parameter"
        calls = [
            content_part.function_call.name
            for content_part in content_parts
            if content_part.function_call
        ]
        yield from (f"name {name!r}" for name in calls if not GOOGLE_NAME.fullmatch(name))
        if calls and (before is None or before.role != "user"):
            yield "a function call turn comes immediately after a user turn or function response"
        if sorted(calls) != sorted(_responses(after)):
            yield f"calls {calls} are answered by {_responses(after)}"
        if _responses(content) and (before is None or before.role != "model"):
            yield "a function response turn comes immediately after a function call turn"


def _responses(content: Any) -> list[str]:
    content_parts = content.parts if content is not None else []
    return [
        content_part.function_response.name
        for content_part in content_parts or []
        if content_part.function_response
    ]
