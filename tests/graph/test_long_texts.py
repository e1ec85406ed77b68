"""Texts of 100,000 characters that repeat one sign: no pattern reads them once for each sign.

A pattern whose time grows with the square of the length needs minutes for such a text.
"""

from pathlib import Path

import pytest

from unsay import Conversation
from unsay.testing import ScriptedChat

pytestmark = pytest.mark.full

SIGNS = [
    "?/",
    "七",
    "!",
    "五",
    "〇",
    "。",
    "／!",
    "_",
    "'",
    "ok ",
    "必ず",
    "回答で",
    "```",
    "<",
    " ",
]


@pytest.mark.parametrize("sign", SIGNS)
@pytest.mark.parametrize("position", ["question", "answer"])
def test_a_long_text_is_stored_and_read(tmp_path: Path, sign: str, position: str) -> None:
    """It is judged, compared with earlier turns and shown like any other."""
    text = f"{sign * (100_000 // len(sign))} x"
    question, answer = (
        ("Why is the sky blue?", text) if position == "answer" else (text, "It scatters light.")
    )
    chat = ScriptedChat(script=lambda _: answer)
    with Conversation.open(tmp_path / "long.db", thread="t", model=chat) as conversation:
        for message_text in (question, f"{question} again", "And at night?"):
            conversation.say(message_text)

        texts = [m.text for m in conversation.messages() if m.type == "human"]
        assert [question, f"{question} again", "And at night?"] == texts
        assert 3 == len(conversation.timeline().turns)
