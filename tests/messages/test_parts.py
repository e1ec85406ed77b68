import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from tests.transcripts import IMAGE, valid_transcripts, wild_transcripts
from unsay.messages.content import (
    Media,
    Other,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    calls_of,
    message_of,
    parts_of,
)

CALL = {"id": "c1", "name": "search", "args": {"q": "x"}}
DECLARED = ToolCall(id="c1", name="search", args={"q": "x"})
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "s"}


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        pytest.param(THOUGHT, Thinking(text="hm", signature="s"), id="anthropic"),
        pytest.param({"type": "thinking", "thinking": "hm"}, Thinking(text="hm"), id="unsigned"),
        pytest.param(
            {"type": "redacted_thinking", "data": "xx"},
            Thinking(text="", redacted="xx"),
            id="redacted",
        ),
        pytest.param(
            {"type": "reasoning_content", "reasoning_content": {"text": "hm", "signature": "s"}},
            Thinking(text="hm", signature="s"),
            id="bedrock",
        ),
        pytest.param(
            {"type": "reasoning_content", "reasoning_content": {"redacted_content": b"\x00"}},
            Thinking(text="", redacted=b"\x00"),
            id="bedrock-redacted",
        ),
        pytest.param(
            {"type": "reasoning", "reasoning": "hm", "extras": {"signature": "s"}},
            Thinking(text="hm", signature="s"),
            id="langchain-v1",
        ),
        pytest.param(
            {"type": "reasoning", "reasoning": "hm"},
            Thinking(text="hm"),
            id="langchain-v1-unsigned",
        ),
        pytest.param({"type": "text", "text": "hi"}, Text(text="hi"), id="text"),
        pytest.param("hi", Text(text="hi"), id="bare-words"),
        pytest.param(IMAGE, Media(kind="image", block=IMAGE), id="image-url"),
        *(
            pytest.param({"type": kind}, Media(kind=block, block={"type": kind}), id=kind)
            for kind, block in [
                ("image", "image"),
                ("file", "file"),
                ("document", "file"),
                ("input_audio", "audio"),
                ("audio", "audio"),
                ("video", "video"),
            ]
        ),
        pytest.param(
            {"type": "refusal", "refusal": "no"},
            Other(block={"type": "refusal", "refusal": "no"}),
            id="other",
        ),
    ],
)
def test_block_is_read_as_its_part(block: dict | str, expected: Part) -> None:
    """Each provider's content block is one part."""
    assert (expected,) == parts_of(AIMessage([block]))


@pytest.mark.parametrize(
    "block",
    [
        THOUGHT,
        {"type": "thinking", "thinking": "hm"},
        {"type": "redacted_thinking", "data": "xx"},
        {"type": "text", "text": "hi"},
        IMAGE,
        {"type": "refusal", "refusal": "no"},
    ],
)
def test_part_makes_its_block_again(block: dict) -> None:
    """A message made of the part of a block has the block."""
    assert block in message_of([*parts_of(AIMessage([block])), Text(text="!")]).content


def test_openai_reasoning_keeps_its_summary_and_what_was_encrypted() -> None:
    """Reasoning of OpenAI's Responses is thinking whose proof is the encrypted text."""
    summary = [{"type": "summary_text", "text": "a"}, {"type": "summary_text", "text": "b"}]
    message = AIMessage([{"type": "reasoning", "summary": summary, "encrypted_content": "e"}])

    assert (Thinking(text="a\n\nb", signature="e"),) == parts_of(message)


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ({"id": "rs_1", "summary": []}, "rs_1"),
        ({"id": "lc_1", "reasoning": "hm"}, None),
        ({"id": "rs_1", "extras": {"encrypted_content": "e"}}, "e"),
    ],
    ids=["kept-under-its-id", "langchain's-own-id", "encrypted"],
)
def test_openai_reasoning_is_signed_by_reference(block: dict, expected: str | None) -> None:
    """Reasoning that OpenAI keeps for itself is known by its id."""
    (thought,) = parts_of(AIMessage([{"type": "reasoning", **block}]))

    assert expected == thought.signature


def test_bedrock_reasoning_as_plain_words() -> None:
    """Reasoning content that is a bare text is unsigned thinking."""
    message = AIMessage([{"type": "reasoning_content", "reasoning_content": "hm"}])

    assert (Thinking(text="hm"),) == parts_of(message)


def test_sacred_order_whatever_the_order_of_the_blocks() -> None:
    """Thinking is listed first, then words and media as they stand, then calls."""
    content = [{"type": "tool_use", **CALL, "input": {}}, {"type": "text", "text": "a"}, IMAGE]
    message = AIMessage([*content, THOUGHT, "b"], tool_calls=[CALL])

    assert (
        Thinking(text="hm", signature="s"),
        Text(text="a"),
        Media(kind="image", block=IMAGE),
        Text(text="b"),
        DECLARED,
    ) == parts_of(message)


@pytest.mark.parametrize(
    "block",
    [
        {"type": "tool_use", "id": "c1", "name": "search", "input": {"q": "x"}},
        {"type": "tool_call", **CALL},
    ],
    ids=["anthropic", "langchain-v1"],
)
def test_call_that_only_the_content_names(block: dict) -> None:
    """A call in the content counts once, whether or not `tool_calls` repeats it."""
    assert (DECLARED,) == calls_of(AIMessage([block]))
    assert (DECLARED,) == calls_of(AIMessage([block], tool_calls=[CALL]))


def test_call_without_an_id_has_an_empty_one() -> None:
    """A call that the provider gave no id is read with an empty one."""
    message = AIMessage("", tool_calls=[{**CALL, "id": None}])

    assert (ToolCall(id="", name="search", args={"q": "x"}),) == parts_of(message)


def test_tool_message_is_its_result_then_its_media() -> None:
    """A result's words are one text; what else the tool returned follows."""
    message = ToolMessage([{"type": "text", "text": "a"}, IMAGE], tool_call_id="c1", status="error")

    assert (
        ToolResult(tool_call_id="c1", content="a", is_error=True),
        Media(kind="image", block=IMAGE),
    ) == parts_of(message)


@pytest.mark.parametrize(
    "message",
    [
        AIMessage(""),
        AIMessage([]),
        AIMessage([{"type": "text", "text": ""}, ""]),
        HumanMessage(""),
        SystemMessage(""),
    ],
    ids=["words", "no-blocks", "empty-blocks", "human", "system"],
)
def test_nothing_is_invented(message: AnyMessage) -> None:
    """A message that holds nothing has no parts."""
    assert () == parts_of(message)


@pytest.mark.parametrize(
    ("message_parts", "expected"),
    [
        pytest.param([Text(text="hi")], AIMessage("hi"), id="words-stay-plain"),
        pytest.param([], AIMessage(""), id="nothing"),
        pytest.param([Text(text="hi"), DECLARED], AIMessage("hi", tool_calls=[CALL]), id="call"),
        pytest.param(
            [DECLARED, Text(text="hi"), Thinking(text="hm", signature="s")],
            AIMessage([THOUGHT, {"type": "text", "text": "hi"}], tool_calls=[CALL]),
            id="sacred-order",
        ),
    ],
)
def test_message_of_parts(message_parts: list[Part], expected: AnyMessage) -> None:
    """Parts make a message whose content is as plain as it can be."""
    assert expected == message_of(message_parts)


@given(messages=st.one_of(valid_transcripts(), wild_transcripts()))
def test_parts_survive_the_way_there_and_back(messages: list[AnyMessage]) -> None:
    """An answer made of another's parts has the same parts and the id that it was given."""
    for message in (answer for answer in messages if answer.type == "ai"):
        copy = message_of(parts_of(message), message_id=message.id)

        assert parts_of(message) == parts_of(copy)
        assert message.id == copy.id
