"""What unsay notes on a message is for unsay alone."""

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from tests.providers.converters import PROVIDERS, convert
from unsay.context.manifest import NOTE
from unsay.messages.annotations import annotate
from unsay.types import Provider

CALL = {"name": "search", "args": {"q": "x"}, "id": "call-1", "type": "tool_call"}
TRANSCRIPT: list[AnyMessage] = [
    HumanMessage("What is x?", id="q"),
    AIMessage("Let me look.", id="step", tool_calls=[CALL]),
    ToolMessage("It is y.", tool_call_id="call-1", id="result"),
    AIMessage("It is y.", id="a"),
    HumanMessage("Thanks. And z?", id="q2"),
]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_no_provider_is_sent_an_annotation(provider: Provider) -> None:
    """With a manifest and a verdict on every message the request is what it is without."""
    annotated = [
        annotate(
            message, score=0.9, reason="a secret", **{NOTE: {"sent": "1-5", "digest": "secret"}}
        )
        for message in TRANSCRIPT
    ]
    assert str(convert(TRANSCRIPT, provider)) == str(convert(annotated, provider))
    assert "secret" not in str(convert(annotated, provider))
