"""A share of the oldest messages gives way to a summary."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, Literal

from langchain_core.messages import AnyMessage

from unsay.context.plan import Plan, Situation
from unsay.context.strategy import PerTurn, check_per_turn
from unsay.context.summaries import SUMMARY_TOKENS, Summarizer, fold_summarized
from unsay.context.three_stage import Proactive, clamped
from unsay.effects import Steps
from unsay.errors import ConfigurationError, ContextOverflowError
from unsay.messages.boundaries import safe_cut, turns

WHY = "summary"
"""The rule's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summarizing:
    """Summarizes the oldest share of a view when the window fills up.

    Source:
        strands-agents, `SummarizingConversationManager`.
    """

    summary_ratio: float = 0.3
    """Share of the view that one summary replaces; from 0.1 to 0.8, what lies outside is brought in."""

    preserve_recent_messages: int = 10
    """So many of the newest messages are never summarized."""

    summarizer: Any = None
    """The model that summarizes; `None` is the graph's. Not together with `system_prompt`."""

    system_prompt: str | None = None
    """Tells the summarizer what to keep; `None` takes the catalogue's words."""

    summary_tokens: int = SUMMARY_TOKENS
    measure: Literal["messages", "tokens"] = "messages"
    """What `summary_ratio` is a share of: the number of messages, or their tokens."""

    proactive: Proactive | None = field(default_factory=Proactive)
    """How full the window is when it begins; `None` waits for an overflow."""

    per_turn: PerTurn = True
    pin_first: int = 0
    """So many of the first messages are never left out."""

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

    def plan(self, now: Situation) -> Steps[Plan]:
        """Summarize when the window is filling up and there is enough to summarize."""
        if self.proactive is None or not self.proactive.reached(now.tokens, now.window_tokens):
            return now.keep()
        loose = self._loose(now, self.oldest(now))
        return (yield from fold_summarized(now, loose, self._how(), why=WHY))

    def reduce(self, now: Situation) -> Steps[Plan]:
        """Summarize, because a view was too long."""
        oldest = self.oldest(now)
        if loose := self._loose(now, oldest):
            return (yield from fold_summarized(now, loose, self._how(), why=WHY))
        held = now.held(self.pin_first)
        if oldest and all(each.id in held for each in oldest):
            reason = (
                "all messages in summarize range are pinned: unpin some, or raise summary_ratio"
            )
        else:
            kept = self.preserve_recent_messages
            reason = f"insufficient messages for summarization, as the newest {kept} are preserved"
        return now.keep(ContextOverflowError(f"Cannot summarize: {reason}"))

    def oldest(self, now: Situation) -> list[AnyMessage]:
        """The oldest messages, of which the next summary replaces those that are not pinned.

        A step that lies across the line is summarized as a whole, or not at all
        where that would take one of the newest that are preserved.
        """
        body = _said(now)
        most = len(body) - self.preserve_recent_messages
        wanted = min(self._share(now, body), most)
        if wanted <= 0:
            return []
        place = split_point(body, wanted)
        return body[: place if place <= most else safe_cut(body, wanted, towards="older")]

    def _loose(self, now: Situation, messages: Sequence[AnyMessage]) -> list[AnyMessage]:
        held = now.held(self.pin_first)
        return now.leavable(each for each in messages if each.id not in held)

    def _share(self, now: Situation, body: Sequence[AnyMessage]) -> int:
        """So many of the oldest make up the share; a summary in the view counts as one message."""
        if self.measure == "messages":
            told = 1 if now.summaries else 0
            return max(1, int((len(body) + told) * self.summary_ratio) - told)
        goal = self.summary_ratio * now.count(body)
        return 1 + bisect_left(
            range(1, len(body)), goal, key=lambda oldest: now.count(body[:oldest])
        )

    def _how(self) -> Summarizer:
        return Summarizer(
            model=self.summarizer, system=self.system_prompt, tokens=self.summary_tokens
        )


def split_point(messages: Sequence[AnyMessage], wanted: int) -> int:
    """The first place at or after the wanted one where a summary may end.

    What follows does not begin with a tool's result, whose call would be gone.

    Raises:
        ContextOverflowError: There is none.
    """
    if wanted > len(messages):
        raise ContextOverflowError(
            f"Split point {wanted!r} exceeds message array length {len(messages)}: count again"
        )
    place = safe_cut(messages, wanted, towards="newer")
    results = takewhile(lambda each: each.type == "tool", messages[place:])
    after = place + len(list(results))
    if after == len(messages) > place:
        raise ContextOverflowError(
            "Unable to trim conversation context: only results of unknown tool calls would be left"
        )
    return after


@dataclass(frozen=True, slots=True, kw_only=True)
class ByTurns:
    """Summarizes all but the newest logical turns once there are too many, or too long ones.

    Source:
        goa-ai 97ae50f, runtime/agent/runtime/history.go (`Compress`).
    """

    compress_at_turns: int | None = None
    """So many turns, or more, call for it; `None` does not count them."""

    compress_at_tokens: int | None = None
    """A request of more tokens calls for it; `None` does not count them."""

    keep_turns: int | None = None
    """So many of the newest turns stay; under `compress_at_turns`."""

    keep_tokens: int | None = None
    """Beside the newest turn, as many older ones stay as have this together at most."""

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

    def plan(self, now: Situation) -> Steps[Plan]:
        """Summarize the older turns when there is a reason to."""
        said = _said(now)
        many = self.compress_at_turns and len(turns(said)) >= self.compress_at_turns
        if not many and not (self.compress_at_tokens and now.tokens > self.compress_at_tokens):
            return now.keep()
        if stuck := self._stuck(now, said):
            return now.keep(stuck)
        return (yield from self._summed(now, said))

    def reduce(self, now: Situation) -> Steps[Plan]:
        """Summarize the older turns, because a view was too long."""
        return (yield from self._summed(now, _said(now)))

    def _stuck(self, now: Situation, said: Sequence[AnyMessage]) -> ContextOverflowError | None:
        newest = said[turns(said)[-1].start :] if said else []
        fixed = [each for each in now.messages if each.type == "system"]
        least = now.overhead_tokens + now.count([*fixed, *newest])
        if not self.compress_at_tokens or least <= self.compress_at_tokens:
            return None
        return ContextOverflowError(
            f"The newest turn with what every request costs has {least} tokens, and compression "
            f"begins over {self.compress_at_tokens}: raise compress_at_tokens"
        )

    def _summed(self, now: Situation, said: Sequence[AnyMessage]) -> Steps[Plan]:
        how = Summarizer(model=self.summarizer, tokens=self.summary_tokens)
        older = said[: self._kept_from(now, said)]
        return (yield from fold_summarized(now, older, how, why="turns"))

    def _kept_from(self, now: Situation, said: Sequence[AnyMessage]) -> int:
        """Where the turns begin that stay; the newest one always does."""
        starts = [turn.start for turn in turns(said)]
        if not starts:
            return 0
        place = starts[-1]
        newest = now.count(said[place:])
        for kept, start in enumerate(reversed(starts), start=1):
            over = self.keep_turns and kept > self.keep_turns
            if over or (self.keep_tokens and now.count(said[start:]) - newest > self.keep_tokens):
                break
            place = start
        return place


def _said(now: Situation) -> list[AnyMessage]:
    return [each for each in now.shown if each.type != "system"]
