"""Messages through the four integrations' own conversion: offline, with keys that open nothing."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest
from langchain_core.messages import BaseMessage
from langchain_openai import ChatOpenAI

from unsay.types import Provider

WHY = "the provider's integration is not installed: pip install 'unsay[providers]'"

anthropic = pytest.importorskip("langchain_anthropic", reason=WHY)
aws = pytest.importorskip("langchain_aws.chat_models.bedrock_converse", reason=WHY)
google = pytest.importorskip("langchain_google_genai", reason=WHY)

PROVIDERS: tuple[Provider, ...] = ("openai", "anthropic", "bedrock", "gemini")

CLAUDE = "anthropic.claude-sonnet-4-5-20250929-v1:0"


def convert(messages: Sequence[BaseMessage], provider: Provider) -> Any:
    """What the integration would send for these messages, which stay as they are.

    langchain-aws writes into the messages it is given, so it is given copies.
    """
    copies = [message.model_copy(deep=True) for message in messages]
    return {
        "openai": _to_openai,
        "anthropic": _to_anthropic,
        "bedrock": _to_bedrock,
        "gemini": _to_gemini,
    }[provider](copies)


def _to_openai(messages: list[BaseMessage]) -> list[dict[str, Any]]:
    return _openai()._get_request_payload(messages)["messages"]


def _to_anthropic(messages: list[BaseMessage]) -> list[dict[str, Any]]:
    return _anthropic()._get_request_payload(messages)["messages"]


def _to_bedrock(messages: list[BaseMessage]) -> list[dict[str, Any]]:
    turns, _system = aws._messages_to_bedrock(messages, model_id=CLAUDE, provider="anthropic")
    return turns


def _to_gemini(messages: list[BaseMessage]) -> list[Any]:
    return _google()._prepare_request(messages)["contents"]


@cache
def _openai() -> ChatOpenAI:
    return ChatOpenAI(model="gpt-4o", api_key="none")


@cache
def _anthropic() -> Any:
    return anthropic.ChatAnthropic(model="claude-sonnet-4-5", api_key="none")


@cache
def _google() -> Any:
    return google.ChatGoogleGenerativeAI(model="gemini-2.5-pro", google_api_key="none")
