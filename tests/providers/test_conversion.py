"""Transcripts that pass the rules go through the integrations' own conversion, and others do not."""

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from tests.providers.converters import PROVIDERS, aws, convert
from tests.providers.servers import complaints
from unsay.messages.conformance import faults, validate
from unsay.types import Provider


def call(call_id: str = "c1", name: str = "add") -> dict[str, object]:
    """A tool call."""
    return {"name": name, "args": {"a": 1}, "id": call_id, "type": "tool_call"}


def result(call_id: str = "c1", content: str = "2", status: str = "success") -> ToolMessage:
    """What a tool returned."""
    return ToolMessage(content, tool_call_id=call_id, status=status)


ASK = HumanMessage("What is one and one?")
CALLS = AIMessage("", tool_calls=[call()])
TEXT = {"type": "text", "text": "Let me add."}
THINKING = {"type": "thinking", "thinking": "Adding helps.", "signature": "c2lnbmVk"}
REDACTED = {"type": "redacted_thinking", "data": "c2VjcmV0"}
AWS_THINKING = {
    "type": "reasoning_content",
    "reasoning_content": {"text": "Adding helps.", "signature": "c2lnbmVk"},
}
IMAGE = {"type": "image", "base64": "iVBORw0KGgo=", "mime_type": "image/png"}
FILE = {
    "type": "file",
    "base64": "JVBERi0=",
    "mime_type": "application/pdf",
    "filename": "report",
}
THOUGHT = [ASK, AIMessage([THINKING, TEXT], tool_calls=[call()]), result()]

GOOD: dict[str, list[BaseMessage]] = {
    "one question": [ASK],
    "system first": [SystemMessage("Be short."), SystemMessage("Be kind."), ASK],
    "plain talk": [ASK, AIMessage("Two."), HumanMessage("And one more?")],
    "Japanese": [HumanMessage("一足す一は？"), AIMessage("二です。"), HumanMessage("ありがとう")],
    "two questions in a row": [ASK, HumanMessage("Please.")],
    "two answers in a row": [ASK, AIMessage("Two."), AIMessage("I mean it."), ASK],
    "one call": [ASK, CALLS, result(), AIMessage("Two."), HumanMessage("Thanks")],
    "words beside a call": [ASK, AIMessage("Let me add.", tool_calls=[call()]), result()],
    "parallel calls, answered in another order": [
        ASK,
        AIMessage("", tool_calls=[call("c1"), call("c2", "sub")]),
        result("c2"),
        result("c1"),
    ],
    "several steps": [ASK, CALLS, result(), AIMessage("", tool_calls=[call("c2")]), result("c2")],
    "a failed tool": [ASK, CALLS, result(content="overflow", status="error")],
    "a tool that says nothing": [ASK, CALLS, result(content="")],
    "the user speaks behind results": [ASK, CALLS, result(), HumanMessage("Wait.")],
    "thinking": THOUGHT,
    "thinking in an earlier turn": [
        ASK,
        AIMessage([THINKING, {"type": "text", "text": "Two."}]),
        HumanMessage("Sure?"),
    ],
    "an image": [HumanMessage([{"type": "text", "text": "What is it?"}, IMAGE])],
    "a file": [HumanMessage([{"type": "text", "text": "Sum it up."}, FILE])],
    "a file and its question apart": [HumanMessage([FILE]), HumanMessage("Sum it up.")],
}
"""Transcripts that every provider takes."""

OWN: dict[str, tuple[set[Provider], list[BaseMessage]]] = {
    "redacted thinking": (
        {"anthropic", "bedrock", "gemini"},
        [ASK, AIMessage([REDACTED, TEXT], tool_calls=[call()]), result()],
    ),
    "Bedrock's thinking": (
        {"openai", "bedrock", "gemini"},
        [ASK, AIMessage([AWS_THINKING, TEXT], tool_calls=[call()]), result()],
    ),
    "standard reasoning": (
        set(PROVIDERS),
        [ASK, AIMessage([{"type": "reasoning", "reasoning": "Hm."}, TEXT]), ASK],
    ),
    "an assistant speaks first": ({"openai"}, [AIMessage("Hello!"), ASK]),
    "a system message inside": ({"openai"}, [ASK, SystemMessage("Be short."), ASK]),
    "a system message alone": ({"openai"}, [SystemMessage("Be short.")]),
    "an assistant speaks, then calls": (
        {"openai", "anthropic", "bedrock"},
        [ASK, AIMessage("Let me add."), CALLS, result()],
    ),
    "an assistant's answer last": (set(PROVIDERS), [ASK, AIMessage("Two.")]),
    "an id with a dot": (
        {"openai", "gemini"},
        [ASK, AIMessage("", tool_calls=[call("add.0")]), result("add.0")],
    ),
    "a tool's name with a dot": (
        {"gemini"},
        [ASK, AIMessage("", tool_calls=[call(name="math.add")]), result()],
    ),
    "an image by its address": (
        {"openai", "anthropic", "gemini"},
        [HumanMessage([TEXT, {"type": "image", "url": "https://example.com/a.png"}])],
    ),
    "a file's name with a dot": (
        {"openai", "anthropic", "gemini"},
        [HumanMessage([TEXT, {**FILE, "filename": "report.pdf"}])],
    ),
    "a recording": (
        {"openai", "gemini"},
        [HumanMessage([TEXT, {"type": "audio", "base64": "UklGRg==", "mime_type": "audio/wav"}])],
    ),
}
"""Transcripts that only these providers take."""


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("messages", GOOD.values(), ids=GOOD)
def test_a_good_transcript_arrives(messages: list[BaseMessage], provider: Provider) -> None:
    """It passes the rules, is converted without a word, and the server has no complaint."""
    validate(messages, provider)

    assert [] == complaints(convert(messages, provider), provider)


@pytest.mark.parametrize(("takers", "messages"), OWN.values(), ids=OWN)
def test_a_transcript_for_some_providers(
    takers: set[Provider], messages: list[BaseMessage]
) -> None:
    """It passes the rules of exactly those providers, and arrives there."""
    assert takers == {provider for provider in PROVIDERS if not faults(messages, provider)}

    # langchain-google-genai fetches an address while it converts
    offline = takers - ({"gemini"} if "https://" in str(messages) else set())
    assert [[]] * len(offline) == [complaints(convert(messages, name), name) for name in offline]


BAD: dict[str, tuple[list[BaseMessage], dict[Provider, tuple[int, str]]]] = {
    "no messages": ([], dict.fromkeys(PROVIDERS, (0, "not_empty"))),
    "an unanswered call": ([ASK, CALLS], dict.fromkeys(PROVIDERS, (1, "results_follow_calls"))),
    "a call answered later": (
        [ASK, CALLS, HumanMessage("Wait."), result()],
        dict.fromkeys(("openai", "anthropic", "bedrock"), (1, "results_follow_calls")),
    ),
    "half of the calls answered": (
        [ASK, AIMessage("", tool_calls=[call("c1"), call("c2")]), result("c1")],
        dict.fromkeys(PROVIDERS, (1, "results_follow_calls")),
    ),
    "a result without a call": (
        [ASK, result(), ASK],
        dict.fromkeys(("openai", "anthropic", "bedrock"), (1, "results_match_calls")),
    ),
    "a call answered twice": (
        [ASK, CALLS, result(), result()],
        dict.fromkeys(("openai", "anthropic", "bedrock"), (3, "results_once")),
    ),
    "an id used again": (
        [ASK, CALLS, result(), CALLS, result(content="3")],
        dict.fromkeys(("anthropic", "bedrock"), (3, "call_ids_differ")),
    ),
    "an id that is too long": (
        [ASK, AIMessage("", tool_calls=[call("c" * 65)]), result("c" * 65)],
        dict.fromkeys(("openai", "bedrock"), (1, "tool_ids")),
    ),
    "a tool's name in words": (
        [ASK, AIMessage("", tool_calls=[call(name="add numbers")]), result()],
        dict.fromkeys(PROVIDERS, (1, "tool_names")),
    ),
    "a call in the content alone": (
        [
            ASK,
            AIMessage([TEXT, {"type": "tool_use", "id": "c1", "name": "add", "input": {}}]),
            result(),
        ],
        {"openai": (1, "calls_are_declared")},
    ),
    "an assistant that says nothing": (
        [ASK, AIMessage(""), ASK],
        dict.fromkeys(("openai", "bedrock", "gemini"), (1, "has_content")),
    ),
    "an assistant that only thinks": (
        [ASK, AIMessage([THINKING]), ASK],
        dict.fromkeys(("openai",), (1, "has_content")),
    ),
    "a user who says nothing": ([HumanMessage("")], dict.fromkeys(PROVIDERS, (0, "has_content"))),
    "a user who says blanks": (
        [HumanMessage("  ")],
        dict.fromkeys(("anthropic", "bedrock"), (0, "no_blank_text")),
    ),
    "blanks beside a call": (
        [ASK, AIMessage("\n\n", tool_calls=[call()]), result()],
        {"anthropic": (1, "no_blank_text")},
    ),
    "an empty text beside an image": (
        [HumanMessage([{"type": "text", "text": ""}, IMAGE])],
        dict.fromkeys(("bedrock", "gemini"), (0, "no_blank_text")),
    ),
    "an assistant speaks first": (
        [AIMessage("Hello!"), ASK],
        dict.fromkeys(("anthropic", "bedrock", "gemini"), (0, "starts_with_user")),
    ),
    "a system message alone": (
        [SystemMessage("Be short.")],
        dict.fromkeys(("anthropic", "bedrock", "gemini"), (0, "has_turns")),
    ),
    "system messages apart": (
        [SystemMessage("Be short."), ASK, SystemMessage("Be kind."), ASK],
        {"anthropic": (2, "system_first")},
    ),
    "a call behind an answer": (
        [ASK, AIMessage("Let me add."), CALLS, result()],
        {"gemini": (2, "calls_follow_user")},
    ),
    "redacted thinking": (
        [ASK, AIMessage([REDACTED, TEXT]), ASK],
        {"openai": (1, "known_blocks")},
    ),
    "Bedrock's thinking": (
        [ASK, AIMessage([AWS_THINKING, TEXT]), ASK],
        {"anthropic": (1, "known_blocks")},
    ),
    "unsigned thinking": (
        [ASK, AIMessage([{"type": "thinking", "thinking": "Hm."}, TEXT]), ASK],
        {"anthropic": (1, "thinking_signed")},
    ),
    "thinking behind words": (
        [ASK, AIMessage([TEXT, THINKING], tool_calls=[call()]), result()],
        dict.fromkeys(("anthropic", "bedrock"), (1, "thinking_leads")),
    ),
    "thinking at the end": (
        [ASK, AIMessage([THINKING, TEXT])],
        {"anthropic": (1, "no_thinking_at_end")},
    ),
    "a signature that is none": (
        [
            ASK,
            AIMessage(
                [{**THINKING, "signature": "s"}, TEXT],
                response_metadata={"model_provider": "google_genai"},
            ),
            ASK,
        ],
        {"gemini": (1, "signatures_decode")},
    ),
    "an image by its address": (
        [HumanMessage([TEXT, {"type": "image", "url": "https://example.com/a.png"}])],
        {"bedrock": (0, "media_sources")},
    ),
    "a file by its address": (
        [HumanMessage([TEXT, {"type": "file", "url": "https://example.com/a.pdf"}])],
        dict.fromkeys(("openai", "bedrock"), (0, "media_sources")),
    ),
    "an image without a MIME type": (
        [HumanMessage([TEXT, {"type": "image", "base64": "iVBORw0KGgo="}])],
        dict.fromkeys(("openai", "anthropic", "bedrock"), (0, "mime_types")),
    ),
    "a file without a name": (
        [HumanMessage([TEXT, {key: FILE[key] for key in ("type", "base64", "mime_type")}])],
        dict.fromkeys(("openai", "bedrock"), (0, "file_names")),
    ),
    "a file's name with a dot": (
        [HumanMessage([TEXT, {**FILE, "filename": "report.pdf"}])],
        {"bedrock": (0, "file_names")},
    ),
    "a file without words": ([HumanMessage([FILE])], {"bedrock": (0, "texts_with_files")}),
    "two files of one name": (
        [HumanMessage([TEXT, FILE]), AIMessage("Read."), HumanMessage([TEXT, FILE])],
        {"bedrock": (2, "file_names_differ")},
    ),
    "a recording": (
        [HumanMessage([TEXT, {"type": "audio", "base64": "UklGRg==", "mime_type": "audio/wav"}])],
        dict.fromkeys(("anthropic", "bedrock"), (0, "known_blocks")),
    ),
    "a film": (
        [HumanMessage([TEXT, {"type": "video", "base64": "AAAA", "mime_type": "video/mp4"}])],
        dict.fromkeys(("openai", "anthropic"), (0, "known_blocks")),
    ),
    "an image from the assistant": (
        [ASK, AIMessage([TEXT, IMAGE]), ASK],
        {"openai": (1, "known_blocks")},
    ),
    "a block of an unknown type": (
        [HumanMessage([TEXT, {"type": "hologram", "hologram": "x"}])],
        dict.fromkeys(PROVIDERS, (0, "known_blocks")),
    ),
}
"""Transcripts that a provider refuses: where, and by which rule."""


@pytest.mark.parametrize(
    ("messages", "provider", "expected"),
    [
        pytest.param(messages, provider, expected, id=f"{name}-{provider}")
        for name, (messages, refusers) in BAD.items()
        for provider, expected in refusers.items()
    ],
)
def test_a_bad_transcript_is_refused_before_it_is_sent(
    messages: list[BaseMessage], provider: Provider, expected: tuple[int, str]
) -> None:
    """Our rules name its place, where the conversion raises, warns or sends what is refused."""
    first = faults(messages, provider)[0]

    assert expected == (first.index, first.rule)
    assert first.source
    assert _is_refused(messages, provider)


SAID = "seventy"

SILENT: dict[str, tuple[list[BaseMessage], Provider, tuple[int, str]]] = {
    "Gemini drops a result without a call": (
        [ASK, result(content=SAID), ASK],
        "gemini",
        (1, "results_match_calls"),
    ),
    "Gemini drops a second result": (
        [ASK, CALLS, result(), result(content=SAID)],
        "gemini",
        (3, "results_once"),
    ),
    "Gemini sends the first result again for an id used again": (
        [ASK, CALLS, result(), CALLS, result(content=SAID)],
        "gemini",
        (3, "call_ids_differ"),
    ),
    "Gemini drops a call that stands in the content alone": (
        [
            ASK,
            AIMessage([TEXT, {"type": "tool_use", "id": "c1", "name": SAID, "input": {}}]),
            result(),
        ],
        "gemini",
        (1, "calls_are_declared"),
    ),
    "Gemini drops a system message inside": (
        [ASK, SystemMessage(SAID), ASK],
        "gemini",
        (1, "system_first"),
    ),
    "Bedrock drops thinking that another provider signed": (
        [
            ASK,
            AIMessage(
                [{**THINKING, "thinking": SAID}, TEXT],
                tool_calls=[call()],
                response_metadata={"model_provider": "anthropic"},
            ),
            result(),
        ],
        "bedrock",
        (1, "thinking_first"),
    ),
    "Bedrock drops Anthropic's redacted thinking": (
        [ASK, AIMessage([{**REDACTED, "data": SAID}, TEXT], tool_calls=[call()]), result()],
        "bedrock",
        (1, "thinking_first"),
    ),
    "Bedrock drops unsigned thinking": (
        [ASK, AIMessage([{"type": "thinking", "thinking": SAID}, TEXT]), ASK],
        "bedrock",
        (1, "thinking_signed"),
    ),
}
"""Transcripts of which the conversion would lose words without telling anybody."""


@pytest.mark.parametrize(("messages", "provider", "expected"), SILENT.values(), ids=SILENT)
def test_what_a_conversion_would_lose_is_refused(
    messages: list[BaseMessage], provider: Provider, expected: tuple[int, str]
) -> None:
    """Our rules refuse what would be sent without some of its words."""
    first = faults(messages, provider, thinking=True)[0]

    assert expected == (first.index, first.rule)
    assert SAID in str(messages)
    assert SAID not in str(convert(messages, provider))


def test_gemini_would_move_a_result() -> None:
    """A result away from its call is refused, though the conversion moves it to its call."""
    messages = [ASK, CALLS, HumanMessage("Wait."), result(content="seventy")]
    request = str(convert(messages, "gemini"))

    assert "results_follow_calls" == faults(messages, "gemini")[0].rule
    assert request.index("seventy") < request.index("Wait.")


def test_anthropic_would_drop_an_empty_answer() -> None:
    """An assistant message without content is refused, though the conversion leaves it out."""
    messages = [ASK, AIMessage(""), ASK]

    assert "has_content" == faults(messages, "anthropic")[0].rule
    assert ["user", "user"] == [message["role"] for message in convert(messages, "anthropic")]


def test_bedrock_writes_into_the_messages_it_is_given() -> None:
    """A final answer that ends in whitespace is refused: the conversion would change it."""
    messages = [ASK, AIMessage("Two. ")]

    assert "ends_without_space" == faults(messages, "bedrock")[0].rule
    aws._messages_to_bedrock(messages)
    assert "Two." == messages[1].content


@pytest.mark.parametrize("author", [None, "anthropic", "bedrock_converse", "google_genai"])
@pytest.mark.parametrize("provider", ["anthropic", "bedrock"])
def test_standard_reasoning_counts_where_it_arrives(author: str | None, provider: Provider) -> None:
    """Rules and server agree on whose reasoning in LangChain's standard blocks is thinking."""
    reasoning = {"type": "reasoning", "reasoning": "Hm.", "extras": {"signature": "c2ln"}}
    metadata = {"output_version": "v1"} | ({"model_provider": author} if author else {})
    answer = AIMessage(
        [reasoning, TEXT, {"type": "tool_call", "id": "c1", "name": "add", "args": {"a": 1}}],
        tool_calls=[call()],
        response_metadata=metadata,
    )
    messages = [ASK, answer, result()]

    assert () == faults(messages, provider)
    assert bool(complaints(convert(messages, provider), provider, thinking=True)) == bool(
        faults(messages, provider, thinking=True)
    )


THINKS: dict[str, tuple[list[BaseMessage], tuple[int, str] | None]] = {
    "thinking first": (THOUGHT, None),
    "no thinking": ([ASK, CALLS, result()], (1, "thinking_first")),
    "a later step goes on without": (
        [*THOUGHT, AIMessage("", tool_calls=[call("c2")]), result("c2")],
        None,
    ),
    "no thinking in an earlier turn": (
        [ASK, CALLS, result(), AIMessage("Two."), HumanMessage("Sure?")],
        None,
    ),
    "no thinking, and the user spoke behind the results": (
        [ASK, CALLS, result(), HumanMessage("Go on.")],
        (1, "thinking_first"),
    ),
    "words before thinking": (
        [ASK, AIMessage([TEXT, THINKING], tool_calls=[call()]), result()],
        (1, "thinking_first"),
    ),
    "an answer at the end": ([ASK, AIMessage("Two.")], (1, "ends_with_user")),
}


@pytest.mark.parametrize("provider", ["anthropic", "bedrock"])
@pytest.mark.parametrize(("messages", "expected"), THINKS.values(), ids=THINKS)
def test_thinking_is_on(
    messages: list[BaseMessage], expected: tuple[int, str] | None, provider: Provider
) -> None:
    """Rules and server agree about when the newest turn must begin with thinking."""
    problems = faults(messages, provider, thinking=True)

    assert (expected in [(fault.index, fault.rule) for fault in problems]) == bool(expected)
    assert bool(expected) == bool(problems)
    assert bool(expected) == bool(complaints(convert(messages, provider), provider, thinking=True))


def _is_refused(messages: list[BaseMessage], provider: Provider) -> bool:
    """Whether the conversion or the server refuses; warnings are errors here."""
    try:
        return bool(complaints(convert(messages, provider), provider))
    except (ValueError, KeyError, TypeError, UserWarning):
        return True
