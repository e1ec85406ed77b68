"""What Amazon Bedrock's Converse demands of a transcript, with the documents that say so."""

from unsay.transcript.rules_base import Dialect
from unsay.transcript.rules_common import CLAUDE, COMMON, IMAGES, TEXT, WORD, call_law

_AWS = "Amazon Bedrock API reference, "
_AWS_URL = "docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_"
_AWS_TOOLS = f"{_AWS}ToolUseBlock ({_AWS_URL}ToolUseBlock.html)"
_AWS_MESSAGE = f"{_AWS}Message ({_AWS_URL}Message.html)"
_AWS_BLOCK = f"{_AWS}ContentBlock ({_AWS_URL}ContentBlock.html)"
_AWS_DOCUMENT = f"{_AWS}DocumentBlock ({_AWS_URL}DocumentBlock.html)"
_AWS_CONVERSE = f"{_AWS}Converse ({_AWS_URL}Converse.html)"
_AWS_THINKING = (
    "Amazon Bedrock user guide, Extended thinking "
    "(docs.aws.amazon.com/bedrock/latest/userguide/claude-messages-extended-thinking.html)"
)

BEDROCK = Dialect(
    sources={
        **COMMON.sources,
        **call_law("Amazon Bedrock user guide, Use a tool to complete an Amazon Bedrock response"),
        "not_empty": _AWS_CONVERSE,
        "has_turns": _AWS_CONVERSE,
        "starts_with_user": f"{_AWS_CONVERSE}, error: must start with a user message",
        "system_first": f"{_AWS_MESSAGE}, role (user or assistant; system stands apart)",
        "ends_without_space": "langchain-aws, `trim_message_whitespace` (edits the message itself)",
        "known_blocks": _AWS_BLOCK,
        "has_content": f"{_AWS_MESSAGE}, error: the content field is empty",
        "no_blank_text": f"{_AWS_BLOCK}, error: the text field is blank",
        "tool_names": _AWS_TOOLS,
        "tool_ids": _AWS_TOOLS,
        "call_ids_differ": f"{CLAUDE}, error: `tool_use` ids must be unique (Claude on Bedrock)",
        "calls_are_parsed": "langchain-aws, `_lc_content_to_bedrock` (sends some of them)",
        "calls_are_declared": "langchain-aws, `_lc_content_to_bedrock` (sends tool_use blocks)",
        "thinking_signed": f"{_AWS}ReasoningTextBlock ({_AWS_URL}ReasoningTextBlock.html)",
        "thinking_leads": f"{CLAUDE}, error: if an assistant message contains any thinking "
        "blocks, the first block must be thinking or redacted_thinking",
        "no_thinking_at_end": f"{CLAUDE}, errors on an assistant message in the final position",
        "media_sources": "langchain-aws, `_format_data_content_block` (inline base64 alone)",
        "mime_types": f"{_AWS}ImageBlock, DocumentBlock (format)",
        "file_names": _AWS_DOCUMENT,
        "file_names_differ": "langchain-aws, `_fallback_document_name` (duplicates are refused)",
        "texts_with_files": _AWS_MESSAGE,
    },
    thinking_sources={
        "thinking_first": _AWS_THINKING,
        "parts_in_order": _AWS_THINKING,
        "ends_with_user": f"{_AWS_THINKING} (no prefill)",
    },
    blocks={
        "system": TEXT,
        "human": frozenset(
            {"text", "image", "image_url", "file", "document", "video", "search_result"}
        ),
        "ai": frozenset(
            {"text", "thinking", "reasoning_content", "tool_use", "tool_call", "server_tool_use"}
        ),
        "tool": frozenset(
            {"text", "image", "image_url", "file", "document", "video", "search_result", "json"}
        ),
    },
    dropped=frozenset(
        {
            "reasoning",
            "redacted_thinking",
            "function_call",
            "refusal",
            "compaction",
            "executable_code",
            "code_execution_result",
            "function_call_signature",
            "code_interpreter_call",
        }
    ),
    own=frozenset({"bedrock", "bedrock_converse"}),
    translated=frozenset({"bedrock", "bedrock_converse"}),
    tool_name=rf"{WORD}{{1,64}}",
    tool_id=rf"{WORD}{{1,64}}",
    media={
        "image": frozenset({"base64", "source", "native"}),
        "image_url": frozenset({"base64"}),
        "file": frozenset({"base64"}),
        "document": frozenset({"native"}),
        "video": frozenset({"base64", "source", "native"}),
    },
    mime_types={
        "image": IMAGES,
        "file": frozenset(
            {
                "application/pdf",
                "text/csv",
                "application/msword",
                "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
                "application/vnd.ms-excel",
                "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
                "text/html",
                "text/plain",
                "text/markdown",
            }
        ),
    },
    file_name=r"(?!.*\s\s)[A-Za-z0-9\s\-()\[\]]{1,200}",
    file_name_keys=("name", "filename"),
    thinking_types=frozenset({"thinking", "reasoning_content"}),
)
