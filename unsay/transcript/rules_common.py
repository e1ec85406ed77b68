"""What holds whoever is asked, and what more than one provider says."""

from unsay.transcript.rules_base import Dialect

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

IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""Source: OpenAI, Images and vision; Claude docs, Vision; Amazon Bedrock, ImageBlock."""

WORD = r"[a-zA-Z0-9_-]"
"""A character of a tool's name or a call's id."""

TEXT = frozenset({"text"})
"""Where a role may say words only."""


def call_law(source: str) -> dict[str, str]:
    """The common law of tool calls, as one provider states it."""
    names = ("call_ids", "results_follow_calls", "results_match_calls", "results_once")
    return dict.fromkeys(names, source)


COMMON = Dialect(
    sources={
        "known_roles": "LangChain docs, Messages (docs.langchain.com/oss/python/langchain/messages)",
        **call_law(f"{OPENAI_TOOLS}; {CLAUDE_TOOLS}"),
    },
    thinking_sources={
        "thinking_first": CLAUDE_THINKING,
        "thinking_signed": CLAUDE_THINKING,
        "thinking_leads": CLAUDE_THINKING,
        "parts_in_order": CLAUDE_THINKING,
    },
    thinking_types=frozenset(
        {"thinking", "redacted_thinking", "reasoning_content", "reasoning"},
    ),
)
"""What holds whoever is asked."""
