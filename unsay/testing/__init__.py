"""Scripted models, judges and detectors for testing agents without a provider.

They are pure functions of the messages they get: no hidden cursor, so that a
replay after a rollback answers alike.

Example:
    >>> chat = ScriptedChat(replies={"How long": ["Buy a car.", "Two days."]})
    >>> chat.invoke("How long do I need?").content
    'Buy a car.'
"""

from unsay.testing.scripted_models import Scripted, ScriptedChat, ScriptedDetector, ScriptedJudge
from unsay.testing.scripts import Delay, Fault, ToolCalls, Truncated, attempt_of, question_of

__all__ = [
    "Delay",
    "Fault",
    "Scripted",
    "ScriptedChat",
    "ScriptedDetector",
    "ScriptedJudge",
    "ToolCalls",
    "Truncated",
    "attempt_of",
    "question_of",
]
