"""Short names for topics, taken from the question that opened them."""

import re

from unsay.judging.vocabulary import terms
from unsay.messages.content import preview

LABEL_CHARS = 40
"""Longest label, in characters."""

_SENTENCE_END = re.compile(r"[.!?。！？\n]")
_TOKEN = re.compile(r"[\u3400-\u9fff々]+|[\u30a0-\u30ff]+|[^\W_\u3040-\u30ff\u3400-\u9fff々]+[+#]*")


def label_of(question: str) -> str:
    """The stretch of the first sentence from its first telling word to its last.

    >>> label_of("Please tell me about Python list comprehensions.")
    'Python list comprehensions'
    >>> label_of("ところで、今日の天気はどうですか?")
    '天気'
    """
    for sentence in _SENTENCE_END.split(question[:2_000]):
        telling = [found for found in _TOKEN.finditer(sentence) if terms(found.group())]
        if telling:
            return preview(sentence[telling[0].start() : telling[-1].end()], LABEL_CHARS)
    return preview(question, LABEL_CHARS)
