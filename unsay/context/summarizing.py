"""Strategies that replace the oldest messages or turns with a summary."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, Literal

from langchain_core.messages import AnyMessage

from unsay.context.plan import Plan, PlanContext
from unsay.context.strategy import PerTurn, Strategy, check_per_turn
from unsay.context.summaries import SUMMARY_TOKENS, Summarizer, compact_with_model
from unsay.context.three_stage import Proactive, clamped
from unsay.effects import Steps
from unsay.errors import ConfigurationError, ContextOverflowError
from unsay.messages.boundaries import safe_split, turns


@dataclass(frozen=True, slots=True, kw_only=True)
class Summarizing(Strategy):
    """Summarize the oldest share of the context when the window fills up.

    Source: strands-agents, `SummarizingConversationManager`.
    """

    summary_ratio: float = 0.3  # of the context; values outside 0.1 to 0.8 are brought in
    preserve_recent_messages: int = 10  # newest messages that are never summarized
    summarizer: Any = None  # a model; `None` is the graph's. Excludes `system_prompt`
    system_prompt: str | None = None  # for the summarizer; `None` uses that of the prompts
    summary_tokens: int = SUMMARY_TOKENS
    measure: Literal["messages", "tokens"] = "messages"  # what `summary_ratio` is a share of
    proactive: Proactive | None = field(default_factory=Proactive)  # `None` waits for an overflow
    per_turn: PerTurn = True
    pin_first: int = 0  # first messages that are never left out

    def __post_init__(self) -> None:
        check_per_turn(self.per_turn)
        if self.summarizer is not None and self.system_prompt is not None:
            raise ConfigurationError(
                f"summarizer={self.summarizer!r} and system_prompt={self.system_prompt!r} cannot "
                "both be given: let the summarizer bring its own words"
            )
        for name in ("preserve_recent_messages", "pin_first"):
            if getattr(self, name) < 0:
                raise ConfigurationError(f"{name} {getattr(self, name)!r}: write 0 or more")
        ratio = clamped("summary_ratio", self.summary_ratio, 0.1, 0.8)
        object.__setattr__(self, "summary_ratio", ratio)

    def plan(self, ctx: PlanContext) -> Steps[Plan]:
        """Summarize when the window is filling up and there is enough to summarize."""
        if self.proactive is None or not self.proactive.reached(ctx.tokens, ctx.window_tokens):
            return ctx.keep()
        return (yield from self._summarized(ctx, self.oldest(ctx)))

    def reduce(self, ctx: PlanContext) -> Steps[Plan]:
        """Summarize because a context was too long."""
        oldest = self.oldest(ctx)
        plan = yield from self._summarized(ctx, oldest)
        if plan.after is not ctx or plan.problems:
            return plan
        held = ctx.protected_ids(self.pin_first)
        if oldest and all(each.id in held for each in oldest):
            reason = (
                "all messages in summarize range are pinned: unpin some, or raise summary_ratio"
            )
        else:
            kept = self.preserve_recent_messages
            reason = f"insufficient messages for summarization, as the newest {kept} are preserved"
        return ctx.keep(ContextOverflowError(f"Cannot summarize: {reason}"))

    def oldest(self, ctx: PlanContext) -> list[AnyMessage]:
        """Return the oldest messages; the next summary replaces those that are not pinned.

        A step across the end is included whole, or left out if it reaches into the preserved
        newest messages.
        """
        body = _said(ctx)
        most = len(body) - self.preserve_recent_messages
        wanted = min(self._share(ctx, body), most)
        if wanted <= 0:
            return []
        place = split_point(body, wanted)
        return body[: place if place <= most else safe_split(body, wanted, towards="older")]

    def _summarized(self, ctx: PlanContext, messages: Sequence[AnyMessage]) -> Steps[Plan]:
        held = ctx.protected_ids(self.pin_first)
        loose = [each for each in messages if each.id not in held]
        how = Summarizer(
            model=self.summarizer, system=self.system_prompt, tokens=self.summary_tokens
        )
        return (yield from compact_with_model(ctx, loose, how, why="summary"))

    def _share(self, ctx: PlanContext, body: Sequence[AnyMessage]) -> int:
        """The number of oldest messages in the share; a summary counts as one message."""
        if self.measure == "messages":
            told = 1 if ctx.summaries else 0
            return max(1, int((len(body) + told) * self.summary_ratio) - told)
        goal = self.summary_ratio * ctx.count(body)
        return 1 + bisect_left(
            range(1, len(body)), goal, key=lambda oldest: ctx.count(body[:oldest])
        )


def split_point(messages: Sequence[AnyMessage], wanted: int) -> int:
    """Return the first index from `wanted` on where a summary may end.

    The messages after it do not begin with a tool result, because its call would be missing.

    Raises:
        ContextOverflowError: There is no such index.
    """
    if wanted > len(messages):
        raise ContextOverflowError(
            f"Split point {wanted!r} exceeds message array length {len(messages)}: count again"
        )
    place = safe_split(messages, wanted, towards="newer")
    results = takewhile(lambda each: each.type == "tool", messages[place:])
    after = place + len(list(results))
    if after == len(messages) > place:
        raise ContextOverflowError(
            "Unable to trim conversation context: only results of unknown tool calls would be left"
        )
    return after


@dataclass(frozen=True, slots=True, kw_only=True)
class ByTurns(Strategy):
    """Summarize all but the newest turns once there are too many turns or tokens.

    Source: goa-ai 97ae50f, runtime/agent/runtime/history.go (`Compress`).
    """

    compress_at_turns: int | None = None  # begin at this number of turns
    compress_at_tokens: int | None = None  # begin above this size of a request
    keep_turns: int | None = None  # newest turns that stay; less than `compress_at_turns`
    keep_tokens: int | None = None  # most tokens of the turns that stay beside the newest one
    summary_tokens: int = SUMMARY_TOKENS
    summarizer: Any = None
    per_turn: PerTurn = True

    def __post_init__(self) -> None:
        check_per_turn(self.per_turn)
        if not self.compress_at_turns and not self.compress_at_tokens:
            raise ConfigurationError(
                f"compress_at_turns={self.compress_at_turns!r} and compress_at_tokens="
                f"{self.compress_at_tokens!r} never call for it: write a number from 1 into one"
            )
        if not self.keep_turns and not self.keep_tokens:
            raise ConfigurationError(
                f"keep_turns={self.keep_turns!r} and keep_tokens={self.keep_tokens!r} say nothing "
                "of what stays: write a number from 1 into one"
            )
        begin = (self.compress_at_turns, self.compress_at_tokens)
        limits = (*begin, self.keep_turns, self.keep_tokens)
        if any(each is not None and each < 0 for each in limits):
            raise ConfigurationError(f"{limits!r} has a number under 0: write None for no limit")
        if self.compress_at_turns and (self.keep_turns or 0) >= self.compress_at_turns:
            raise ConfigurationError(
                f"keep_turns={self.keep_turns!r} does not lie under compress_at_turns="
                f"{self.compress_at_turns!r}: nothing would be left to summarize"
            )

    def plan(self, ctx: PlanContext) -> Steps[Plan]:
        """Summarize the older turns once there are too many turns or tokens."""
        said = _said(ctx)
        many = self.compress_at_turns and len(turns(said)) >= self.compress_at_turns
        if not many and not (self.compress_at_tokens and ctx.tokens > self.compress_at_tokens):
            return ctx.keep()
        newest = said[turns(said)[-1].start :] if said else []
        fixed = [each for each in ctx.messages if each.type == "system"]
        least = ctx.overhead_tokens + ctx.count([*fixed, *newest])
        if self.compress_at_tokens and least > self.compress_at_tokens:
            problem = ContextOverflowError(
                f"The newest turn with what every request costs has {least} tokens, and "
                f"compression begins over {self.compress_at_tokens}: raise compress_at_tokens"
            )
            return ctx.keep(problem)
        return (yield from self.reduce(ctx))

    def reduce(self, ctx: PlanContext) -> Steps[Plan]:
        """Summarize the older turns because a context was too long."""
        said = _said(ctx)
        older = said[: self._kept_from(ctx, said)]
        how = Summarizer(model=self.summarizer, tokens=self.summary_tokens)
        return (yield from compact_with_model(ctx, older, how, why="turns"))

    def _kept_from(self, ctx: PlanContext, said: Sequence[AnyMessage]) -> int:
        """The index where the turns begin that stay; the newest one always does."""
        starts = [turn.start for turn in turns(said)]
        if not starts:
            return 0
        place = starts[-1]
        newest = ctx.count(said[place:])
        for kept, start in enumerate(reversed(starts), start=1):
            over = self.keep_turns and kept > self.keep_turns
            if over or (self.keep_tokens and ctx.count(said[start:]) - newest > self.keep_tokens):
                break
            place = start
        return place


def _said(ctx: PlanContext) -> list[AnyMessage]:
    return [each for each in ctx.shown if each.type != "system"]
