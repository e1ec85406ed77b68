"""What each provider requires of a transcript, with the documents that say so."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from unsay.messages.content import THINKING_TYPES

Role = Literal["system", "human", "ai", "tool"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """What one provider requires; a rule applies if it has a source here."""

    sources: Mapping[str, str]  # for each rule by name, the document that states it
    thinking_sources: Mapping[str, str] = field(default_factory=dict)  # while thinking is on
    blocks: Mapping[Role, frozenset[str]] = field(default_factory=dict)  # types it accepts

    dropped: frozenset[str] = frozenset()  # assistant blocks that LangChain leaves out of requests
    strict: bool = False  # whether it does so only where another provider wrote the message

    # Values of `response_metadata["model_provider"]`: those whose thinking the provider recognizes,
    # and those whose standard `reasoning` blocks LangChain turns into the provider's thinking.
    own: frozenset[str] = frozenset()
    translated: frozenset[str] = frozenset()
    thinking_types: frozenset[str] = frozenset()  # blocks that reach the provider as thinking

    blank: Literal["whitespace", "empty"] = "whitespace"  # what counts as blank text

    # Regular expressions that the whole name or id matches.
    tool_name: str = ""
    tool_id: str = ""
    file_name: str = ""
    file_name_keys: tuple[str, ...] = ()  # keys of a file block, or of its extras, with its name

    # Ways to give the data of a media block, by its type; `source` and `native` are Anthropic's and
    # Bedrock's own forms. And the MIME types of inline data, by the kind of media.
    media: Mapping[str, frozenset[str]] = field(default_factory=dict)
    mime_types: Mapping[str, frozenset[str]] = field(default_factory=dict)


OPENAI_TOOLS = "OpenAI guide, Function calling (platform.openai.com/docs/guides/function-calling)"
CLAUDE = "Claude API reference, Create a Message (platform.claude.com/docs/en/api/messages/create)"
CLAUDE_TOOLS = (
    "Claude docs, Handle tool calls "
    "(platform.claude.com/docs/en/agents-and-tools/tool-use/handle-tool-calls)"
)
CLAUDE_THINKING = (
    "Claude docs, Building with extended thinking "
    "(platform.claude.com/docs/en/build-with-claude/extended-thinking)"
)

_FIRST_THINKING = (
    f"{CLAUDE}, error: if an assistant message contains any thinking blocks, the first block must "
    "be thinking or redacted_thinking"
)
_LAST_THINKING = f"{CLAUDE}, errors on an assistant message in the final position"


def _kinds(names: str) -> frozenset[str]:
    return frozenset(names.split())


def _call_law(source: str) -> dict[str, str]:
    names = ("call_ids", "results_follow_calls", "results_match_calls", "results_once")
    return dict.fromkeys(names, source)


# Source: OpenAI, Images and vision; Claude docs, Vision; Amazon Bedrock, ImageBlock.
_IMAGES = _kinds("image/png image/jpeg image/gif image/webp")
_NAME = r"[a-zA-Z0-9_-]{1,64}"
_TEXT = frozenset({"text"})

COMMON = Dialect(
    sources={
        "known_roles": "LangChain docs, Messages (docs.langchain.com/oss/python/langchain/messages)",
        **_call_law(f"{OPENAI_TOOLS}; {CLAUDE_TOOLS}"),
    },
    thinking_sources=dict.fromkeys(
        ("thinking_first", "thinking_signed", "thinking_leads", "parts_in_order"), CLAUDE_THINKING
    ),
    thinking_types=THINKING_TYPES,
)

_OPENAI = "OpenAI API reference, Create chat completion, "

OPENAI = Dialect(
    sources={
        **COMMON.sources,
        **_call_law(OPENAI_TOOLS),
        "not_empty": f"{_OPENAI}messages",
        "known_blocks": f"{_OPENAI}messages, content parts by role",
        "has_content": f"{_OPENAI}messages, content (required unless tool_calls is given)",
        "tool_names": f"{_OPENAI}tools, function.name",
        "tool_ids": "OpenAI API, error string_above_max_length (call ids: 64 characters)",
        "author_names": r"OpenAI API, error on messages[].name (pattern '^[^\s<|\\/>]+$')",
        "calls_are_parsed": f"{_OPENAI}messages, tool_calls[].function.arguments",
        "calls_are_declared": "langchain-openai, `_format_message_content` (drops tool_use blocks)",
        "media_sources": "langchain-core, `convert_to_openai_data_block`",
        "mime_types": "OpenAI guides, Images and vision, Audio (types of inline data)",
        "file_names": "OpenAI guide, PDF files (platform.openai.com/docs/guides/pdf-files)",
    },
    blocks={
        "system": _TEXT,
        "human": _kinds("text image_url image file input_audio audio"),
        "ai": _kinds("text refusal"),
        "tool": _TEXT,
    },
    dropped=_kinds(
        "thinking reasoning_content reasoning tool_use tool_call invalid_tool_call "
        "function_call code_interpreter_call"
    ),
    tool_name=_NAME,
    tool_id=r".{1,64}",
    media={
        "image": _kinds("url base64 source"),
        "image_url": _kinds("url base64"),
        "file": _kinds("base64 file_id native"),
        "audio": frozenset({"base64"}),
        "input_audio": frozenset({"native"}),
    },
    mime_types={"image": _IMAGES, "audio": _kinds("audio/wav audio/mp3")},
    file_name=r".+",
    file_name_keys=("filename",),
)

ANTHROPIC = Dialect(
    sources={
        **COMMON.sources,
        **_call_law(CLAUDE_TOOLS),
        "not_empty": CLAUDE,
        "has_turns": CLAUDE,
        "starts_with_user": CLAUDE,
        "system_first": "langchain-anthropic, `_format_messages` (hoists or refuses the others)",
        "ends_without_space": f"{CLAUDE}, error on a final assistant message",
        "known_blocks": f"{CLAUDE}, content block parameters",
        "has_content": f"{CLAUDE}, error: all messages must have non-empty content",
        "no_blank_text": f"{CLAUDE}, error: text blocks must contain non-whitespace text",
        "tool_names": "Claude docs, Define tools (name: ^[a-zA-Z0-9_-]{1,64}$)",
        "tool_ids": f"{CLAUDE}, tool_use.id (^[a-zA-Z0-9_-]+$)",
        "call_ids_differ": f"{CLAUDE}, error: `tool_use` ids must be unique",
        "calls_are_parsed": "langchain-anthropic, `_format_messages` (sends unparsed calls)",
        "calls_are_declared": "langchain-anthropic, `_format_messages` (sends tool_use blocks)",
        "thinking_signed": "Anthropic SDK, ThinkingBlockParam (signature is required)",
        "thinking_own": "Anthropic SDK, ThinkingBlockParam (a modified block is refused)",
        "thinking_leads": _FIRST_THINKING,
        "no_thinking_at_end": _LAST_THINKING,
        "media_sources": "langchain-anthropic, `_format_data_content_block`",
        "mime_types": "Claude docs, Vision and PDF support (types of inline data)",
    },
    thinking_sources={
        "thinking_first": CLAUDE_THINKING,
        "parts_in_order": CLAUDE_THINKING,
        "ends_with_user": f"{CLAUDE_THINKING}, Feature compatibility (no prefill)",
    },
    blocks={
        "system": _TEXT,
        "human": _kinds("text image image_url file document text-plain search_result"),
        "ai": _kinds(
            "text thinking redacted_thinking tool_use server_tool_use mcp_tool_use "
            "mcp_tool_result web_search_tool_result web_fetch_tool_result "
            "code_execution_tool_result bash_code_execution_tool_result "
            "text_editor_code_execution_tool_result tool_search_tool_result compaction"
        ),
        "tool": _kinds("text image image_url file document text-plain search_result"),
    },
    dropped=_kinds("reasoning function_call"),
    own=_kinds("anthropic bedrock bedrock_converse google_anthropic_vertex"),
    translated=frozenset({"anthropic"}),
    tool_name=_NAME,
    tool_id=r"[a-zA-Z0-9_-]+",
    media={
        "image": _kinds("url base64 file_id source"),
        "image_url": _kinds("url base64"),
        "file": _kinds("url base64 file_id text"),
        "document": frozenset({"source"}),
        "text-plain": frozenset({"text"}),
    },
    mime_types={"image": _IMAGES, "file": frozenset({"application/pdf"})},
    thinking_types=_kinds("thinking redacted_thinking"),
)


def _aws(page: str) -> str:
    address = "docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_"
    return f"Amazon Bedrock API reference, {page} ({address}{page}.html)"


_AWS_THINKING = (
    "Amazon Bedrock user guide, Extended thinking "
    "(docs.aws.amazon.com/bedrock/latest/userguide/claude-messages-extended-thinking.html)"
)

BEDROCK = Dialect(
    sources={
        **COMMON.sources,
        **_call_law("Amazon Bedrock user guide, Use a tool to complete an Amazon Bedrock response"),
        "not_empty": _aws("Converse"),
        "has_turns": _aws("Converse"),
        "starts_with_user": f"{_aws('Converse')}, error: must start with a user message",
        "system_first": f"{_aws('Message')}, role (user or assistant; system is separate)",
        "ends_without_space": "langchain-aws, `trim_message_whitespace` (edits the message itself)",
        "known_blocks": _aws("ContentBlock"),
        "has_content": f"{_aws('Message')}, error: the content field is empty",
        "no_blank_text": f"{_aws('ContentBlock')}, error: the text field is blank",
        "tool_names": _aws("ToolUseBlock"),
        "tool_ids": _aws("ToolUseBlock"),
        "call_ids_differ": f"{CLAUDE}, error: `tool_use` ids must be unique (Claude on Bedrock)",
        "calls_are_parsed": "langchain-aws, `_lc_content_to_bedrock` (sends some of them)",
        "calls_are_declared": "langchain-aws, `_lc_content_to_bedrock` (sends tool_use blocks)",
        "thinking_signed": _aws("ReasoningTextBlock"),
        "thinking_leads": _FIRST_THINKING,
        "no_thinking_at_end": _LAST_THINKING,
        "media_sources": "langchain-aws, `_format_data_content_block` (inline base64 alone)",
        "mime_types": "Amazon Bedrock API reference, ImageBlock, DocumentBlock (format)",
        "file_names": _aws("DocumentBlock"),
        "file_names_differ": "langchain-aws, `_fallback_document_name` (duplicates are refused)",
        "texts_with_files": _aws("Message"),
    },
    thinking_sources={
        "thinking_first": _AWS_THINKING,
        "parts_in_order": _AWS_THINKING,
        "ends_with_user": f"{_AWS_THINKING} (no prefill)",
    },
    blocks={
        "system": _TEXT,
        "human": _kinds("text image image_url file document video search_result"),
        "ai": _kinds("text thinking reasoning_content tool_use tool_call server_tool_use"),
        "tool": _kinds("text image image_url file document video search_result json"),
    },
    dropped=_kinds(
        "reasoning redacted_thinking function_call refusal compaction executable_code "
        "code_execution_result function_call_signature code_interpreter_call"
    ),
    own=_kinds("bedrock bedrock_converse"),
    translated=_kinds("bedrock bedrock_converse"),
    tool_name=_NAME,
    tool_id=_NAME,
    media={
        "image": _kinds("base64 source native"),
        "image_url": frozenset({"base64"}),
        "file": frozenset({"base64"}),
        "document": frozenset({"native"}),
        "video": _kinds("base64 source native"),
    },
    mime_types={
        "image": _IMAGES,
        "file": _kinds(
            "application/pdf text/csv application/msword "
            "application/vnd.openxmlformats-officedocument.wordprocessingml.document "
            "application/vnd.ms-excel "
            "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet text/html "
            "text/plain text/markdown"
        ),
    },
    file_name=r"(?!.*\s\s)[A-Za-z0-9\s\-()\[\]]{1,200}",
    file_name_keys=("name", "filename"),
    thinking_types=_kinds("thinking reasoning_content"),
)

_GEMINI_TOOLS = "Gemini API docs, Function calling (ai.google.dev/gemini-api/docs/function-calling)"
_GEMINI = "Gemini API reference, Content (ai.google.dev/api/caching#Content)"

GEMINI = Dialect(
    sources={
        **COMMON.sources,
        **_call_law(f"{_GEMINI_TOOLS}, error: response parts must equal call parts"),
        "not_empty": "Gemini API, error: contents is not specified",
        "has_turns": "Gemini API, error: contents is not specified",
        "starts_with_user": f"{_GEMINI}, role",
        "system_first": "langchain-google-genai, `_parse_chat_history` (moves or loses the others)",
        "calls_follow_user": "Gemini API, error: a function call turn comes immediately after a "
        "user turn or after a function response turn",
        "known_blocks": "langchain-google-genai, `_convert_to_parts`",
        "has_content": f"{_GEMINI}, error: contents.parts must not be empty",
        "no_blank_text": f"{_GEMINI}, error: oneof field 'data' must have one initialized field",
        "tool_names": "Gemini API reference, FunctionDeclaration (ai.google.dev/api/caching)",
        "call_ids_differ": "langchain-google-genai, `_get_ai_message_tool_messages_parts` (sends "
        "the first result that has the id)",
        "calls_are_parsed": "langchain-google-genai, `_parse_chat_history` (drops them)",
        "calls_are_declared": "langchain-google-genai, `_prepare_ai_message_content` (drops them)",
        "signatures_decode": "Gemini API docs, Thought signatures "
        "(ai.google.dev/gemini-api/docs/thought-signatures)",
        "media_sources": "langchain-google-genai, `_convert_to_parts`",
        "mime_types": "Gemini API docs, Image understanding (ai.google.dev/gemini-api/docs/"
        "image-understanding)",
    },
    blocks={
        "system": _TEXT,
        "human": _kinds("text image image_url file audio video media"),
        "ai": _kinds(
            "text thinking reasoning image image_url media executable_code code_execution_result"
        ),
        "tool": _kinds("text image image_url file audio video json"),
    },
    dropped=_kinds(
        "redacted_thinking reasoning_content tool_use tool_call function_call "
        "function_call_signature server_tool_use refusal"
    ),
    own=_kinds("google_genai google_vertexai"),
    strict=True,
    blank="empty",
    tool_name=r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}",
    media={
        **dict.fromkeys(("image", "image_url", "audio", "video"), _kinds("url base64")),
        "file": _kinds("url base64 file_id"),
    },
    mime_types={"image": _kinds("image/png image/jpeg image/webp image/heic image/heif")},
    thinking_types=_kinds("thinking reasoning"),
)
