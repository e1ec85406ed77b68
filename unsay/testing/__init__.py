"""Scripted models, judges and detectors for testing agents without a provider.

They are pure functions of the messages they get: no hidden cursor, clock or randomness. So a
replay after a rollback, in a fork or in a second thread is answered alike.
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
