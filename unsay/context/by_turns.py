"""Whole turns: so many of the newest word for word, a summary for the others."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AnyMessage

from unsay.context.base import PerTurn, check_per_turn
from unsay.context.situation import Plan, Situation
from unsay.context.summaries import SUMMARY_TOKENS, Summarizer, fold_summarized
from unsay.effects import Steps
from unsay.errors import ConfigurationError, ContextOverflowError
from unsay.transcript.cut import turns

WHY = "turns"
"""The rule's name."""


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
    """How long each summary should be at most."""

    summarizer: Any = None
    """The model that summarizes; `None` is the graph's."""

    per_turn: PerTurn = True
    """At the end of a turn, before every call, or before every Nth."""

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
        limits = (
            self.compress_at_turns,
            self.compress_at_tokens,
            self.keep_turns,
            self.keep_tokens,
        )
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
        if not self._called_for(now, said):
            return now.keep()
        if self.compress_at_tokens and (stuck := self._stuck(now, said)) is not None:
            return now.keep(stuck)
        return (yield from self._summed(now, said))

    def reduce(self, now: Situation) -> Steps[Plan]:
        """Summarize the older turns, because a view was too long."""
        return (yield from self._summed(now, _said(now)))

    def _called_for(self, now: Situation, said: Sequence[AnyMessage]) -> bool:
        many = self.compress_at_turns and len(turns(said)) >= self.compress_at_turns
        return bool(many or (self.compress_at_tokens and now.tokens > self.compress_at_tokens))

    def _stuck(self, now: Situation, said: Sequence[AnyMessage]) -> ContextOverflowError | None:
        """Why no summary could bring a request under the ceiling."""
        newest = said[turns(said)[-1].start :] if said else []
        fixed = [each for each in now.messages if each.type == "system"]
        least = now.overhead_tokens + now.count([*fixed, *newest])
        if self.compress_at_tokens is None or least <= self.compress_at_tokens:
            return None
        return ContextOverflowError(
            f"The newest turn with what every request costs has {least} tokens, and compression "
            f"begins over {self.compress_at_tokens}: raise compress_at_tokens"
        )

    def _summed(self, now: Situation, said: Sequence[AnyMessage]) -> Steps[Plan]:
        how = Summarizer(model=self.summarizer, tokens=self.summary_tokens)
        return (yield from fold_summarized(now, said[: self._kept_from(now, said)], how, why=WHY))

    def _kept_from(self, now: Situation, said: Sequence[AnyMessage]) -> int:
        """Where the turns begin that stay; the newest one always does."""
        starts = [turn.start for turn in turns(said)]
        if not starts:
            return 0
        newest = now.count(said[starts[-1] :])
        place = starts[-1]
        for kept, start in enumerate(reversed(starts), start=1):
            over = self.keep_turns and kept > self.keep_turns
            if over or (self.keep_tokens and now.count(said[start:]) - newest > self.keep_tokens):
                break
            place = start
        return place


def _said(now: Situation) -> list[AnyMessage]:
    """What is shown, without instructions."""
    return [each for each in now.shown if each.type != "system"]
