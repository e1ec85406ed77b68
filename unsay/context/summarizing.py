"""`Summarizing` and `ByTurns`, which replace the oldest messages or turns with a summary."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, Literal

from langchain_core.messages import AnyMessage

from unsay.arguments import configurable
from unsay.context.plan import Plan, PlanContext
from unsay.context.strategy import PerTurn, Strategy, check_least, check_per_turn
from unsay.context.summaries import (
    SUMMARY_TOKENS,
    Summarizer,
    compact_with_model,
    refuse_two_instructions,
)
from unsay.context.windows import Proactive
from unsay.effects import Steps
from unsay.errors import ConfigurationError, ContextOverflowError
from unsay.messages.boundaries import safe_split, turns
from unsay.settings.groups import clamped


@configurable
@dataclass(frozen=True, slots=True, kw_only=True)
class Summarizing(Strategy):
    """Replace the oldest share of the context with a summary when the window fills up.

    Attributes:
        summary_ratio: Share of the context to summarize; limited to 0.1 to 0.8 with a warning.
        preserve_recent_messages: Number of newest messages that are never summarized.
        summarizer: A model that has its own instructions; `None` uses the graph's summarizer.
        system_prompt: Instructions for the graph's summarizer; excludes `summarizer`.
        summary_tokens: Requested length of a summary.
        measure: Whether `summary_ratio` is a share of the messages or of their tokens.
        proactive: When to summarize; `None` waits until the model refuses a context.
        per_turn: See `Strategy.per_turn`.
        pin_first: Number of messages at the beginning that are never left out.

    Source: strands-agents, `SummarizingConversationManager`.
    """

    summary_ratio: float = 0.3
    preserve_recent_messages: int = 10
    summarizer: Any = None
    system_prompt: str | None = None
    summary_tokens: int = SUMMARY_TOKENS
    measure: Literal["messages", "tokens"] = "messages"
    proactive: Proactive | None = field(default_factory=Proactive)
    per_turn: PerTurn = True
    pin_first: int = 0

    def __post_init__(self) -> None:
        check_per_turn(self.per_turn)
        refuse_two_instructions(self.summarizer, self.system_prompt)
        check_least(self, 0, "preserve_recent_messages", "pin_first")
        check_least(self, 1, "summary_tokens")
        ratio = clamped("summary_ratio", self.summary_ratio, 0.1, 0.8)
        object.__setattr__(self, "summary_ratio", ratio)

    def plan(self, ctx: PlanContext) -> Steps[Plan]:
        """Return a plan that summarizes if the request reaches the threshold of `proactive`.

        Else, and if the summarizer fails, the plan changes nothing; after a failure it has the
        problem. Raises `ContextOverflowError` if only results of unknown tool calls would be left.
        """
        window_size = ctx.window if ctx.window_tokens or ctx.budget_tokens else None
        if self.proactive is None or not self.proactive.reached(ctx.tokens, window_size):
            return ctx.keep()
        return (yield from self._summarized(ctx, self.oldest(ctx)))

    def reduce(self, ctx: PlanContext) -> Steps[Plan]:
        """Return a plan that summarizes, after the model refused the context as too long.

        If nothing can be summarized or the summarizer fails, the plan changes nothing, and the reason is
        in its `problems`. Raises `ContextOverflowError` if only results of unknown tool calls would be
        left.
        """
        oldest = self.oldest(ctx)
        plan = yield from self._summarized(ctx, oldest)
        if plan.after is not ctx or plan.problems:
            return plan
        protected = ctx.protected_ids(self.pin_first)
        if oldest and all(message.id in protected for message in oldest):
            reason = "all messages in this range are pinned: unpin some, or raise summary_ratio"
        else:
            recent = self.preserve_recent_messages
            reason = f"insufficient messages, because the newest {recent} are preserved"
        return ctx.keep(ContextOverflowError(f"Cannot summarize: {reason}"))

    def oldest(self, ctx: PlanContext) -> list[AnyMessage]:
        """Return the oldest messages, from which the next summary is made; empty if too few.

        Pinned messages and the first `pin_first` ones are included, although they are not
        summarized. A tool call at the end is included with all its results, or not at all if a
        result is among the preserved newest messages. Raises `ContextOverflowError` if only results
        of unknown tool calls would be left.
        """
        body: list[AnyMessage] = [message for message in ctx.shown if message.type != "system"]
        most = len(body) - self.preserve_recent_messages
        target_count = min(self._share(ctx, body), most)
        if target_count <= 0:
            return []
        place = split_point(body, target_count)
        return body[: place if place <= most else safe_split(body, target_count, towards="older")]

    def _summarized(self, ctx: PlanContext, messages: Sequence[AnyMessage]) -> Steps[Plan]:
        protected = ctx.protected_ids(self.pin_first)
        unpinned = [message for message in messages if message.id not in protected]
        summarizer = Summarizer(
            model=self.summarizer, system=self.system_prompt, tokens=self.summary_tokens
        )
        return (yield from compact_with_model(ctx, unpinned, summarizer, why="summary"))

    def _share(self, ctx: PlanContext, body: Sequence[AnyMessage]) -> int:
        """Return how many of the oldest messages are `summary_ratio` of the context, 1 or more."""
        if self.measure == "messages":
            summary = 1 if ctx.summaries else 0  # the message that holds the earlier summaries
            return max(1, int((len(body) + summary) * self.summary_ratio) - summary)
        goal = self.summary_ratio * ctx.count(body)
        return 1 + bisect_left(
            range(1, len(body)), goal, key=lambda oldest: ctx.count(body[:oldest])
        )


def split_point(messages: Sequence[AnyMessage], wanted: int) -> int:
    """Return the first index from `wanted` on at which a summary may end; it may be the end.

    The messages from there on never begin with a tool result without its call. Raises
    `ContextOverflowError` if there is no such index.
    """
    if wanted > len(messages):
        raise ContextOverflowError(f"Cannot split {len(messages)} messages at index {wanted!r}")
    place = safe_split(messages, wanted, towards="newer")
    results = takewhile(lambda each: each.type == "tool", messages[place:])
    after = place + len(list(results))
    if after == len(messages) > place:
        raise ContextOverflowError(
            "Cannot split the messages: only results of unknown tool calls would be left"
        )
    return after


@configurable
@dataclass(frozen=True, slots=True, kw_only=True)
class ByTurns(Strategy):
    """Replace all but the newest turns with a summary once there are too many turns or tokens.

    The newest turn always stays. Set `compress_at_turns` or `compress_at_tokens` or both, and
    `keep_turns` or `keep_tokens` or both.

    Attributes:
        compress_at_turns: Summarize from this number of turns on.
        compress_at_tokens: Summarize a request of more tokens than this.
        keep_turns: Number of newest turns that stay; less than `compress_at_turns`.
        keep_tokens: Most tokens of the turns that stay besides the newest one.
        summary_tokens: Requested length of a summary.
        summarizer: A model; `None` uses the graph's summarizer.
        per_turn: See `Strategy.per_turn`.

    Source: goa-ai 97ae50f, runtime/agent/runtime/history.go (`Compress`).
    """

    compress_at_turns: int | None = None
    compress_at_tokens: int | None = None
    keep_turns: int | None = None
    keep_tokens: int | None = None
    summary_tokens: int = SUMMARY_TOKENS
    summarizer: Any = None
    per_turn: PerTurn = True

    def __post_init__(self) -> None:
        check_per_turn(self.per_turn)
        check_least(self, 1, "summary_tokens")
        if not self.compress_at_turns and not self.compress_at_tokens:
            raise ConfigurationError(
                f"compress_at_turns={self.compress_at_turns!r} and compress_at_tokens="
                f"{self.compress_at_tokens!r} never summarize: set one of them to 1 or more"
            )
        if not self.keep_turns and not self.keep_tokens:
            raise ConfigurationError(
                f"keep_turns={self.keep_turns!r} and keep_tokens={self.keep_tokens!r} do not say "
                "what stays: set one of them to 1 or more"
            )
        begin = (self.compress_at_turns, self.compress_at_tokens)
        limits = (*begin, self.keep_turns, self.keep_tokens)
        if any(limit is not None and limit < 0 for limit in limits):
            raise ConfigurationError(f"{limits!r} has a number below 0: use None for no limit")
        if self.compress_at_turns and (self.keep_turns or 0) >= self.compress_at_turns:
            raise ConfigurationError(
                f"keep_turns={self.keep_turns!r} must be less than compress_at_turns="
                f"{self.compress_at_turns!r}: otherwise there is nothing to summarize"
            )

    def plan(self, ctx: PlanContext) -> Steps[Plan]:
        """Summarize the older turns once there are too many turns or tokens; else change nothing.

        If the summarizer fails, or the newest turn alone has too many tokens, the plan changes
        nothing and has the problem.
        """
        body = [message for message in ctx.shown if message.type != "system"]
        many = self.compress_at_turns and len(turns(body)) >= self.compress_at_turns
        if not many and not (self.compress_at_tokens and ctx.tokens > self.compress_at_tokens):
            return ctx.keep()
        newest = body[turns(body)[-1].start :] if body else []
        fixed = [message for message in ctx.messages if message.type == "system"]
        least = ctx.overhead_tokens + ctx.count([*fixed, *newest])
        if self.compress_at_tokens and least > self.compress_at_tokens:
            problem = ContextOverflowError(
                f"The newest turn, instructions and tools take {least} tokens, and compression "
                f"begins above {self.compress_at_tokens}: raise compress_at_tokens"
            )
            return ctx.keep(problem)
        return (yield from self.reduce(ctx))

    def reduce(self, ctx: PlanContext) -> Steps[Plan]:
        """Return a plan that summarizes the older turns, after an overflow of the window.

        The newest turns stay. If there are no older ones, or the summarizer fails, the plan changes
        nothing; in the second case it has the problem.
        """
        body = [message for message in ctx.shown if message.type != "system"]
        older = body[: self._kept_from(ctx, body)]
        summarizer = Summarizer(model=self.summarizer, tokens=self.summary_tokens)
        return (yield from compact_with_model(ctx, older, summarizer, why="turns"))

    def _kept_from(self, ctx: PlanContext, body: Sequence[AnyMessage]) -> int:
        starts = [turn.start for turn in turns(body)]
        if not starts:
            return 0
        place = starts[-1]
        newest = ctx.count(body[place:])
        for turn_count, start in enumerate(reversed(starts), start=1):
            over = self.keep_turns and turn_count > self.keep_turns
            if over or (self.keep_tokens and ctx.count(body[start:]) - newest > self.keep_tokens):
                break
            place = start
        return place
