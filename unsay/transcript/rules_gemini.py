"""What Gemini demands of a transcript, with the documents that say so."""

from unsay.transcript.rules_base import Dialect
from unsay.transcript.rules_common import COMMON, TEXT, call_law

_GEMINI_TOOLS = "Gemini API docs, Function calling (ai.google.dev/gemini-api/docs/function-calling)"
_GEMINI = "Gemini API reference, Content (ai.google.dev/api/caching#Content)"
_GEMINI_SIGNATURES = (
    "Gemini API docs, Thought signatures (ai.google.dev/gemini-api/docs/thought-signatures)"
)

GEMINI = Dialect(
    sources={
        **COMMON.sources,
        **call_law(f"{_GEMINI_TOOLS}, error: response parts must equal call parts"),
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
        "signatures_decode": _GEMINI_SIGNATURES,
        "media_sources": "langchain-google-genai, `_convert_to_parts`",
        "mime_types": "Gemini API docs, Image understanding (ai.google.dev/gemini-api/docs/"
        "image-understanding)",
    },
    blocks={
        "system": TEXT,
        "human": frozenset({"text", "image", "image_url", "file", "audio", "video", "media"}),
        "ai": frozenset(
            {
                "text",
                "thinking",
                "reasoning",
                "image",
                "image_url",
                "media",
                "executable_code",
                "code_execution_result",
            }
        ),
        "tool": frozenset({"text", "image", "image_url", "file", "audio", "video", "json"}),
    },
    dropped=frozenset(
        {
            "redacted_thinking",
            "reasoning_content",
            "tool_use",
            "tool_call",
            "function_call",
            "function_call_signature",
            "server_tool_use",
            "refusal",
        }
    ),
    own=frozenset({"google_genai", "google_vertexai"}),
    strict=True,
    blank="empty",
    tool_name=r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}",
    media={
        "image": frozenset({"url", "base64"}),
        "image_url": frozenset({"url", "base64"}),
        "file": frozenset({"url", "base64", "file_id"}),
        "audio": frozenset({"url", "base64"}),
        "video": frozenset({"url", "base64"}),
    },
    mime_types={
        "image": frozenset({"image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"}),
    },
    thinking_types=frozenset({"thinking", "reasoning"}),
)
