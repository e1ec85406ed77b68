"""Situations, scripted summarizers and strategies of users' own, for the tests of strategies."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage

from unsay.context.plan import Plan, PlanContext
from unsay.context.strategy import Strategy
from unsay.effects import Call, Steps
from unsay.messages.content import text_of
from unsay.prompts.catalogue import Texts

TEXTS = Texts("en")


def count(messages: Sequence[AnyMessage]) -> int:
    """Ten tokens for each message and one for each of its characters."""
    return sum(10 + len(text_of(each)) for each in messages)


@dataclass(kw_only=True)
class Summarizer:
    """Gives its replies in order, and repeats the last; an exception is raised."""

    replies: list[Any] = field(default_factory=lambda: [AIMessage("- a summary")])
    requests: list[list[AnyMessage]] = field(default_factory=list)
    models: list[Any] = field(default_factory=list)

    def ask(self, request: Sequence[AnyMessage], model: Any) -> Steps[Any]:
        """The call, as a graph would make it."""

        def reply() -> Any:
            self.requests.append(list(request))
            self.models.append(model)
            said = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
            if isinstance(said, Exception):
                raise said
            return said

        async def later() -> Any:
            return reply()

        return (yield from Call(blocking=reply, awaitable=later))


def talk(shape: str, words: str = "some words of the talk") -> list[AnyMessage]:
    """Messages by letters: `s` system, `u` user, `a` answer, `c` a call and its result.

    >>> [m.id for m in talk("uca")]
    ['m0', 'm1', 'm1-result', 'm2']
    """
    messages: list[AnyMessage] = []
    for place, letter in enumerate(shape):
        name = f"m{place}"
        if letter == "s":
            messages.append(SystemMessage(f"rule {place}", id=name))
        elif letter == "u":
            messages.append(HumanMessage(f"question {place}: {words}", id=name))
        elif letter == "a":
            messages.append(AIMessage(f"answer {place}: {words}", id=name))
        else:
            call = {"id": f"call-{place}", "name": "search", "args": {"q": place}}
            messages.append(AIMessage("", id=name, tool_calls=[call]))
            result = ToolMessage(f"found {place}: {words}", tool_call_id=f"call-{place}")
            result.id = f"{name}-result"
            messages.append(result)
    return messages


def plan_context(messages: Sequence[AnyMessage], **more: Any) -> PlanContext:
    """A situation in English."""
    return PlanContext(messages=messages, count=count, texts=TEXTS, **more)


def ids(messages: Sequence[AnyMessage]) -> list[str | None]:
    """The ids of messages."""
    return [each.id for each in messages]


class QuestionsOnly(Strategy):
    """A user's own strategy: without the older answers, once the window is half full."""

    per_turn = True

    def plan(self, now: PlanContext) -> Plan:
        """The answers before the newest four messages go."""
        if now.utilization < 0.5:
            return now.keep()
        old = [each for each in now.shown[:-4] if each.type == "ai"]
        return now.leave_out(old, why="answers")


class Sparse(Strategy):
    """A user's strategy that leaves out every other message where it can."""

    def plan(self, now: PlanContext) -> Plan:
        """Every other message is left out."""
        return now.leave_out(list(now.messages)[::2], why="sparse")


class Broken(Strategy):
    """A user's own strategy that fails."""

    def plan(self, now: PlanContext) -> Plan:
        """No plan."""
        raise ValueError(f"no plan for {len(now.messages)} messages")
