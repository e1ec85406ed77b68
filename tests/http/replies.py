"""The replies of llmock's two models."""

import json
from typing import Any

from llmock.pytest_plugin import LLMock
from llmock.scenarios import Behavior, Match, Reply, ToolCall

ANSWERER = Match(model="answerer")
JUDGE = Match(model="judge")
QUESTION = "How many legs does a spider have?"
ANSWER = "A spider has eight legs, two more than an insect."


def answers(text: str = ANSWER, *, times: int | None = None) -> Behavior:
    """The answerer's words."""
    return Reply(text=text, times=times, match=ANSWERER)


def grades(score: float, reason: str = "It answers.", *, times: int | None = None) -> Behavior:
    """The judge's verdict, as the structure it is asked for."""
    verdict = json.dumps({"score": score, "reason": reason})
    return Reply(text=verdict, times=times, match=JUDGE)


def calls(name: str, *, times: int | None = 1, **arguments: Any) -> Behavior:
    """The answerer's call of a tool."""
    return Reply(tool_calls=(ToolCall(name, arguments),), times=times, match=ANSWERER)


def bodies(llmock: LLMock, model: str) -> list[Any]:
    """The requests for one model, oldest first."""
    return [transcript.body for transcript in llmock.requests if transcript.model == model]
