"""Scripted models, judges and detectors for testing agents without a provider.

They are pure functions of the messages they get: they have no hidden position, clock or randomness.
So a replay after a rollback, in a fork or in a second thread gets the same replies.
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
