"""Scripted models, judges and detectors for testing agents without a provider.

They are pure functions of the messages they get: no hidden cursor, so that a
replay after a rollback answers alike.

Example:
    >>> chat = ScriptedChat(replies={"How long": ["Buy a car.", "Two days."]})
    >>> chat.invoke("How long do I need?").content
    'Buy a car.'
"""

from unsay.scripted.base import Scripted
from unsay.scripted.detector import ScriptedDetector
from unsay.scripted.models import ScriptedChat, ScriptedJudge
from unsay.scripted.replies import Delay, Fault, ToolCalls, Truncated, attempt_of

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
]
