"""What OpenAI's Chat Completions demands of a transcript, with the documents that say so."""

from unsay.transcript.rules_base import Dialect
from unsay.transcript.rules_common import COMMON, IMAGES, OPENAI_TOOLS, TEXT, WORD, call_law

_OPENAI = "OpenAI API reference, Create chat completion, "

OPENAI = Dialect(
    sources={
        **COMMON.sources,
        **call_law(OPENAI_TOOLS),
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
        "system": TEXT,
        "human": frozenset(
            {"text", "image_url", "image", "file", "input_audio", "audio"},
        ),
        "ai": frozenset({"text", "refusal"}),
        "tool": TEXT,
    },
    dropped=frozenset(
        {
            "thinking",
            "reasoning_content",
            "reasoning",
            "tool_use",
            "tool_call",
            "invalid_tool_call",
            "function_call",
            "code_interpreter_call",
        }
    ),
    tool_name=rf"{WORD}{{1,64}}",
    tool_id=r".{1,64}",
    media={
        "image": frozenset({"url", "base64", "source"}),
        "image_url": frozenset({"url", "base64"}),
        "file": frozenset({"base64", "file_id", "native"}),
        "audio": frozenset({"base64"}),
        "input_audio": frozenset({"native"}),
    },
    mime_types={
        "image": IMAGES,
        "audio": frozenset({"audio/wav", "audio/mp3"}),
    },
    file_name=r".+",
    file_name_keys=("filename",),
)
