"""The rule of thumb that the token estimate is compared with."""

from collections.abc import Sequence

from langchain_core.messages import BaseMessage

from unsay.tokens.counter import words_of


def seed_estimate(messages: Sequence[BaseMessage]) -> int:
    """Return what the rule of thumb says: about half the truth in Japanese.

    Source:
        Zhang 2026, chapter 7 (a token is four characters, five a message, a tenth on top).
    """
    characters = sum(sum(map(len, words_of(message))) // 4 for message in messages)
    return int((characters + 5 * len(messages)) * 1.1)
