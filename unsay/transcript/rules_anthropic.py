"""What Anthropic's Messages demands of a transcript, with the documents that say so."""

from unsay.transcript.rules_base import Dialect
from unsay.transcript.rules_common import (
    CLAUDE,
    CLAUDE_THINKING,
    CLAUDE_TOOLS,
    COMMON,
    IMAGES,
    TEXT,
    WORD,
    call_law,
)

ANTHROPIC = Dialect(
    sources={
        **COMMON.sources,
        **call_law(CLAUDE_TOOLS),
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
        "thinking_leads": f"{CLAUDE}, error: if an assistant message contains any thinking "
        "blocks, the first block must be thinking or redacted_thinking",
        "no_thinking_at_end": f"{CLAUDE}, errors on an assistant message in the final position",
        "media_sources": "langchain-anthropic, `_format_data_content_block`",
        "mime_types": "Claude docs, Vision and PDF support (types of inline data)",
    },
    thinking_sources={
        "thinking_first": CLAUDE_THINKING,
        "parts_in_order": CLAUDE_THINKING,
        "ends_with_user": f"{CLAUDE_THINKING}, Feature compatibility (no prefill)",
    },
    blocks={
        "system": TEXT,
        "human": frozenset(
            {"text", "image", "image_url", "file", "document", "text-plain", "search_result"}
        ),
        "ai": frozenset(
            {
                "text",
                "thinking",
                "redacted_thinking",
                "tool_use",
                "server_tool_use",
                "mcp_tool_use",
                "mcp_tool_result",
                "web_search_tool_result",
                "web_fetch_tool_result",
                "code_execution_tool_result",
                "bash_code_execution_tool_result",
                "text_editor_code_execution_tool_result",
                "tool_search_tool_result",
                "compaction",
            }
        ),
        "tool": frozenset(
            {"text", "image", "image_url", "file", "document", "text-plain", "search_result"}
        ),
    },
    dropped=frozenset({"reasoning", "function_call"}),
    own=frozenset({"anthropic", "bedrock", "bedrock_converse", "google_anthropic_vertex"}),
    translated=frozenset({"anthropic"}),
    tool_name=rf"{WORD}{{1,64}}",
    tool_id=rf"{WORD}+",
    media={
        "image": frozenset({"url", "base64", "file_id", "source"}),
        "image_url": frozenset({"url", "base64"}),
        "file": frozenset({"url", "base64", "file_id", "text"}),
        "document": frozenset({"source"}),
        "text-plain": frozenset({"text"}),
    },
    mime_types={"image": IMAGES, "file": frozenset({"application/pdf"})},
    thinking_types=frozenset({"thinking", "redacted_thinking"}),
)
