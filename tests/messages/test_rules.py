"""The rules by themselves: the common law, each provider's own, and what an error says."""

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from unsay.errors import InputError, TranscriptError
from unsay.messages.call_rules import COMMON, DIALECTS, RULES, Fault
from unsay.messages.conformance import faults, validate
from unsay.types import Provider

PROVIDERS: tuple[Provider, ...] = get_args(Provider)

ASK = HumanMessage("Where am I?")
TEXT = {"type": "text", "text": "Let me look."}
THINKING = {"type": "thinking", "thinking": "A map helps.", "signature": "c2ln"}


def calls(*ids: str, content: Any = "", **options: Any) -> AIMessage:
    """An assistant message that calls a tool for each id."""
    tool_calls = [
        {"name": "look", "args": {}, "id": call_id, "type": "tool_call"} for call_id in ids
    ]
    return AIMessage(content, tool_calls=tool_calls, **options)


def result(call_id: str) -> ToolMessage:
    """What a tool returned."""
    return ToolMessage("Kyoto", tool_call_id=call_id)


def brief(fault_list: tuple[Fault, ...]) -> list[tuple[int, str]]:
    """Where and by which rule, without the words."""
    return [(fault.index, fault.rule) for fault in fault_list]


COMMON_LAW: dict[str, tuple[list[BaseMessage], list[tuple[int, str]]]] = {
    "nothing": ([], []),
    "an assistant alone": ([AIMessage("Hello")], []),
    "one call": ([ASK, calls("a"), result("a")], []),
    "results in another order": ([calls("a", "b"), result("b"), result("a")], []),
    "a call in the content alone": (
        [AIMessage([{"type": "tool_use", "id": "a", "name": "look", "input": {}}]), result("a")],
        [],
    ),
    "no result": ([calls("a")], [(0, "results_follow_calls")]),
    "one result of two": ([calls("a", "b"), result("a")], [(0, "results_follow_calls")]),
    "a user between": (
        [ASK, calls("a"), ASK, result("a")],
        [(1, "results_follow_calls"), (3, "results_match_calls")],
    ),
    "a result of another call": (
        [calls("a"), result("b")],
        [(0, "results_follow_calls"), (1, "results_match_calls")],
    ),
    "a result too many": ([calls("a"), result("a"), result("b")], [(2, "results_match_calls")]),
    "a result first": ([result("a"), ASK], [(0, "results_match_calls")]),
    "a result twice": ([calls("a"), result("a"), result("a")], [(2, "results_once")]),
    "a result without an id": (
        [calls("a"), result("a"), result("")],
        [(2, "results_match_calls")],
    ),
    "a call without an id": ([calls("")], [(0, "call_ids")]),
    "two calls of one id": ([calls("a", "a"), result("a")], [(0, "call_ids")]),
    "an id used again in a later message": (
        [calls("a"), result("a"), calls("a"), result("a")],
        [],
    ),
    "a role of no provider's": ([ChatMessage("Hi", role="narrator")], [(0, "known_roles")]),
    "a function's message": ([FunctionMessage("4", name="add")], [(0, "known_roles")]),
}


@pytest.mark.parametrize(("messages", "expected"), COMMON_LAW.values(), ids=COMMON_LAW)
def test_the_common_law(messages: list[BaseMessage], expected: list[tuple[int, str]]) -> None:
    """Calls are answered by exactly the tool messages that directly follow them."""
    assert expected == brief(faults(messages))


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(
    ("messages", "expected"),
    [law for law in COMMON_LAW.values() if law[1]],
    ids=[name for name, law in COMMON_LAW.items() if law[1]],
)
def test_every_provider_keeps_the_common_law(
    messages: list[BaseMessage], expected: list[tuple[int, str]], provider: Provider
) -> None:
    """What no provider accepts is refused for every provider."""
    assert set(expected) <= set(brief(faults(messages, provider)))


THINKING_LAW: dict[str, tuple[list[BaseMessage], list[tuple[int, str]]]] = {
    "thinking, then words, then a call": (
        [calls("a", content=[THINKING, TEXT]), result("a")],
        [],
    ),
    "redacted thinking": (
        [calls("a", content=[{"type": "redacted_thinking", "data": "x"}]), result("a")],
        [],
    ),
    "Bedrock's thinking": (
        [
            calls(
                "a",
                content=[
                    {
                        "type": "reasoning_content",
                        "reasoning_content": {"text": "Hm.", "signature": "x"},
                    }
                ],
            ),
            result("a"),
        ],
        [],
    ),
    "standard reasoning": (
        [
            calls(
                "a",
                content=[
                    {"type": "reasoning", "reasoning": "Hm.", "extras": {"signature": "x"}},
                ],
            ),
            result("a"),
        ],
        [],
    ),
    "no thinking": ([calls("a", content="Look"), result("a")], [(0, "thinking_first")]),
    "unsigned": (
        [calls("a", content=[{"type": "thinking", "thinking": "Hm."}]), result("a")],
        [(0, "thinking_signed")],
    ),
    "words first": (
        [calls("a", content=[TEXT, THINKING]), result("a")],
        [(0, "thinking_first"), (0, "parts_in_order"), (0, "thinking_leads")],
    ),
    "words behind a call": (
        [
            calls(
                "a",
                content=[
                    THINKING,
                    {"type": "tool_use", "id": "a", "name": "look", "input": {}},
                    TEXT,
                ],
            ),
            result("a"),
        ],
        [(0, "parts_in_order")],
    ),
    "thinking again behind the provider's own tool": (
        [
            AIMessage(
                [
                    THINKING,
                    {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
                    {"type": "web_search_tool_result", "tool_use_id": "s", "content": []},
                    THINKING,
                    TEXT,
                ]
            )
        ],
        [],
    ),
    "the next step goes on": (
        [ASK, calls("a", content=[THINKING]), result("a"), calls("b"), result("b")],
        [],
    ),
    "the turn began with words": (
        [ASK, AIMessage("Well."), calls("a", content="Look"), result("a")],
        [(2, "thinking_first")],
    ),
    "an earlier turn is free": ([ASK, calls("a"), result("a"), AIMessage("Kyoto"), ASK], []),
    "words behind results go on with the turn": (
        [ASK, calls("a"), result("a"), ASK, ASK],
        [(1, "thinking_first")],
    ),
}


@pytest.mark.parametrize(("messages", "expected"), THINKING_LAW.values(), ids=THINKING_LAW)
def test_the_law_of_thinking(messages: list[BaseMessage], expected: list[tuple[int, str]]) -> None:
    """While thinking is on, a turn that calls tools begins by thinking."""
    assert expected == brief(faults(messages, thinking=True))
    assert [] == brief(faults(messages))


OWN_LAWS: dict[str, tuple[Provider, list[BaseMessage], list[tuple[int, str]]]] = {
    "OpenAI: a name with a blank": (
        "openai",
        [HumanMessage("Hi", name="Sam Doe")],
        [(0, "author_names")],
    ),
    "OpenAI: an empty name": ("openai", [HumanMessage("Hi", name="")], [(0, "author_names")]),
    "OpenAI: a document's name": ("openai", [HumanMessage("Hi", name="document")], []),
    "OpenAI: a text block without text": (
        "openai",
        [HumanMessage([TEXT, {"type": "text"}])],
        [(0, "known_blocks")],
    ),
    "OpenAI: an image from a tool": (
        "openai",
        [
            ASK,
            calls("a"),
            ToolMessage([{"type": "image", "url": "https://e.com/a.png"}], tool_call_id="a"),
        ],
        [(2, "known_blocks")],
    ),
    "OpenAI: a recording as MPEG": (
        "openai",
        [HumanMessage([{"type": "audio", "base64": "AA==", "mime_type": "audio/mpeg"}])],
        [(0, "mime_types")],
    ),
    "OpenAI: a file's name in its extras": (
        "openai",
        [
            HumanMessage(
                [
                    {
                        "type": "file",
                        "base64": "AA==",
                        "mime_type": "application/pdf",
                        "extras": {"filename": "a.pdf"},
                    }
                ]
            )
        ],
        [],
    ),
    "OpenAI: an image in Anthropic's form": (
        "openai",
        [
            HumanMessage(
                [
                    {
                        "type": "image",
                        "source": {"type": "base64", "media_type": "image/bmp", "data": "AA=="},
                    }
                ]
            )
        ],
        [(0, "mime_types")],
    ),
    "Anthropic: an image in a data URL": (
        "anthropic",
        [
            HumanMessage(
                [{"type": "image_url", "image_url": {"url": "data:image/tiff;base64,AA=="}}]
            )
        ],
        [(0, "mime_types")],
    ),
    "Anthropic: an image that is nowhere": (
        "anthropic",
        [HumanMessage([{"type": "image"}])],
        [(0, "media_sources")],
    ),
    "Anthropic: a file in LangChain's oldest form": (
        "anthropic",
        [HumanMessage([{"type": "file", "source_type": "id", "id": "f"}])],
        [],
    ),
    "Anthropic: a text as a file": (
        "anthropic",
        [HumanMessage([{"type": "text-plain", "text": "a,b", "mime_type": "text/plain"}])],
        [],
    ),
    "Anthropic: a call that could not be read": (
        "anthropic",
        [
            ASK,
            AIMessage(
                "Look",
                invalid_tool_calls=[{"id": "a", "name": "look", "args": "{", "error": None}],
            ),
            ASK,
        ],
        [(1, "calls_are_parsed")],
    ),
    "Anthropic: thinking that Gemini signed": (
        "anthropic",
        [
            ASK,
            AIMessage([THINKING, TEXT], response_metadata={"model_provider": "google_genai"}),
            ASK,
        ],
        [(1, "thinking_own")],
    ),
    "Anthropic: thinking that Bedrock signed": (
        "anthropic",
        [ASK, AIMessage([THINKING, TEXT], response_metadata={"model_provider": "bedrock"}), ASK],
        [],
    ),
    "Anthropic: standard blocks of its own": (
        "anthropic",
        [
            ASK,
            calls(
                "a",
                content=[
                    {"type": "reasoning", "reasoning": "Hm.", "extras": {"signature": "x"}},
                    {"type": "tool_call", "id": "a", "name": "look", "args": {}},
                ],
                response_metadata={"output_version": "v1", "model_provider": "anthropic"},
            ),
            result("a"),
        ],
        [],
    ),
    "Anthropic: a last block that is bare text": (
        "anthropic",
        [ASK, AIMessage(["Kyoto "])],
        [(1, "ends_without_space")],
    ),
    "Anthropic: a last block that is text": (
        "anthropic",
        [ASK, AIMessage([{"type": "text", "text": "Kyoto\n"}])],
        [(1, "ends_without_space")],
    ),
    "Anthropic: two system messages at the beginning": (
        "anthropic",
        [SystemMessage("a"), SystemMessage("b"), ASK],
        [],
    ),
    "Bedrock: a document in its own form": (
        "bedrock",
        [
            HumanMessage(
                [
                    TEXT,
                    {"type": "document", "document": {"name": "a", "source": {"text": "b"}}},
                ]
            )
        ],
        [],
    ),
    "Bedrock: a document without words": (
        "bedrock",
        [
            HumanMessage("Hi"),
            AIMessage("Hello"),
            HumanMessage(
                [{"type": "document", "document": {"name": "a", "source": {"text": "b"}}}]
            ),
        ],
        [(2, "texts_with_files")],
    ),
    "Gemini: a text that only carries a signature": (
        "gemini",
        [
            ASK,
            AIMessage([TEXT, {"type": "text", "text": "", "extras": {"signature": "c2ln"}}]),
            ASK,
        ],
        [],
    ),
    "Gemini: another's block in its own message": (
        "gemini",
        [
            ASK,
            AIMessage(
                [{"type": "redacted_thinking", "data": "x"}, TEXT],
                response_metadata={"model_provider": "google_genai"},
            ),
            ASK,
        ],
        [(1, "known_blocks")],
    ),
    "Gemini: a GIF": (
        "gemini",
        [HumanMessage([{"type": "image", "base64": "AA==", "mime_type": "image/gif"}])],
        [(0, "mime_types")],
    ),
    "Gemini: a call first": (
        "gemini",
        [calls("a"), result("a")],
        [(0, "starts_with_user"), (0, "calls_follow_user")],
    ),
    "Gemini: blanks are words": ("gemini", [HumanMessage(" ")], []),
}


@pytest.mark.parametrize(("provider", "messages", "expected"), OWN_LAWS.values(), ids=OWN_LAWS)
def test_a_provider_has_its_own_laws(
    provider: Provider, messages: list[BaseMessage], expected: list[tuple[int, str]]
) -> None:
    """What one provider demands beyond the common law."""
    assert expected == brief(faults(messages, provider))


def test_an_error_says_where_which_rule_and_what_to_do() -> None:
    """It names the first message at fault, the rule, the ids, the way out and the document."""
    with pytest.raises(TranscriptError) as caught:
        validate([ASK, calls("a", "b"), result("a"), ASK], "gemini")

    assert (
        "Message 1 breaks 'results_follow_calls' of 'gemini': The call 'b' of 'look' in message 1 "
        "has no result directly after it: add the result, or one with status 'error'. Source: "
        "Gemini API docs, Function calling (ai.google.dev/gemini-api/docs/function-calling), "
        "error: response parts must equal call parts."
    ) == str(caught.value)


def test_an_error_counts_the_other_faults() -> None:
    """It says how many there are, and where a misplaced result is."""
    with pytest.raises(TranscriptError, match=r"move it there from message 3\. \(1 more"):
        validate([ASK, calls("a"), ASK, result("a")])


def test_valid_messages_pass_in_silence() -> None:
    """Nothing is raised, for any provider."""
    for provider in (None, *PROVIDERS):
        validate([ASK, calls("a"), result("a")], provider)


def test_an_unknown_provider_is_refused() -> None:
    """A provider without rules is an error, not a transcript without faults."""
    with pytest.raises(InputError, match="'cohere'"):
        faults([ASK], "cohere")  # type: ignore[arg-type]


def test_every_rule_has_a_source_and_every_source_a_rule() -> None:
    """No rule holds without a document, and no document speaks of a rule that is not there."""
    dialects = (COMMON, *DIALECTS.values())
    cited_rules = {
        name for dialect in dialects for name in (*dialect.sources, *dialect.thinking_sources)
    }

    assert set(RULES) == cited_rules
    assert set(PROVIDERS) == set(DIALECTS)
    assert all(source for dialect in dialects for source in dialect.sources.values())


MESSAGES = st.lists(
    st.sampled_from(
        [
            ASK,
            AIMessage("Kyoto"),
            SystemMessage("Be short."),
            calls("a"),
            calls("a", "b"),
            calls("c", content=[THINKING]),
            result("a"),
            result("b"),
        ]
    ),
    max_size=8,
)


@given(messages=MESSAGES, provider=st.sampled_from([None, *PROVIDERS]), thinking=st.booleans())
def test_faults_are_in_order_and_change_nothing(
    messages: list[BaseMessage], provider: Provider | None, *, thinking: bool
) -> None:
    """They stand oldest first, name real messages, and leave the messages as they were."""
    before = [message.model_copy(deep=True) for message in messages]
    fault_list = faults(messages, provider, thinking=thinking)

    assert before == messages
    assert sorted(fault.index for fault in fault_list) == [fault.index for fault in fault_list]
    assert all(0 <= fault.index < max(1, len(messages)) for fault in fault_list)


@given(messages=MESSAGES, provider=st.sampled_from(PROVIDERS))
def test_a_provider_never_takes_what_the_common_law_refuses(
    messages: list[BaseMessage], provider: Provider
) -> None:
    """Its faults contain those of the common law."""
    assert set(brief(faults(messages))) <= set(brief(faults(messages, provider)))
