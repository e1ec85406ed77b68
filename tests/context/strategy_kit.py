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
    return sum(10 + len(text_of(message)) for message in messages)


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
            answer = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
            if isinstance(answer, Exception):
                raise answer
            return answer

        async def areply() -> Any:
            return reply()

        return (yield from Call(blocking=reply, awaitable=areply))


def transcript_of(shape: str, text: str = "some words of the text") -> list[AnyMessage]:
    """Messages by letters: `s` system, `u` user, `a` answer, `c` a call and its result.

    >>> [m.id for m in transcript_of("uca")]
    ['m0', 'm1', 'm1-result', 'm2']
    """
    messages: list[AnyMessage] = []
    for index, letter in enumerate(shape):
        name = f"m{index}"
        if letter == "s":
            messages.append(SystemMessage(f"rule {index}", id=name))
        elif letter == "u":
            messages.append(HumanMessage(f"question {index}: {text}", id=name))
        elif letter == "a":
            messages.append(AIMessage(f"answer {index}: {text}", id=name))
        else:
            call = {"id": f"call-{index}", "name": "search", "args": {"q": index}}
            messages.append(AIMessage("", id=name, tool_calls=[call]))
            result = ToolMessage(f"found {index}: {text}", tool_call_id=f"call-{index}")
            result.id = f"{name}-result"
            messages.append(result)
    return messages


def plan_context(messages: Sequence[AnyMessage], **options: Any) -> PlanContext:
    """A situation in English."""
    return PlanContext(messages=messages, count=count, texts=TEXTS, **options)


def ids(messages: Sequence[AnyMessage]) -> list[str | None]:
    """The ids of messages."""
    return [message.id for message in messages]


class QuestionsOnly(Strategy):
    """A user's own strategy: without the older answers, once the window is half full."""

    per_turn = True

    def plan(self, ctx: PlanContext) -> Plan:
        """The answers before the newest four messages go."""
        if ctx.utilization < 0.5:
            return ctx.keep()
        old = [message for message in ctx.shown[:-4] if message.type == "ai"]
        return ctx.leave_out(old, why="answers")


class Sparse(Strategy):
    """A user's strategy that leaves out every other message where it can."""

    def plan(self, ctx: PlanContext) -> Plan:
        """Every other message is left out."""
        return ctx.leave_out(list(ctx.messages)[::2], why="sparse")


class Broken(Strategy):
    """A user's own strategy that fails."""

    def plan(self, ctx: PlanContext) -> Plan:
        """No plan."""
        raise ValueError(f"no plan for {len(ctx.messages)} messages")
