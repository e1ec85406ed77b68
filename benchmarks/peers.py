"""How other libraries reduce a conversation: their rules, each in a few lines, at one budget.

Rules, not code: what is summarized is summarized by what the user asked, shortened, as everywhere
in these benchmarks, and cuts are made where a user speaks.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from langchain_core.messages import AnyMessage, HumanMessage, ToolMessage
from langchain_core.messages.utils import trim_messages

from unsay.context.summaries import local_summary
from unsay.prompts.catalogue import Texts

Count = Callable[[Sequence[AnyMessage]], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class LastTokens:
    """Keep this number of the newest tokens.

    Source:
        langchain-core 1.7, `trim_messages(strategy="last", start_on="human")`.
    """

    count: Count
    tokens: int

    def view(self, said: Sequence[AnyMessage]) -> Sequence[AnyMessage]:
        """The newest messages that fit, from a user's words on."""
        if self.count(said) <= self.tokens:
            return said
        return trim_messages(
            list(said),
            max_tokens=self.tokens,
            token_counter=self.count,
            strategy="last",
            start_on="human",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LastTurns:
    """Keep this number of the newest turns.

    Source:
        goa-ai 97ae50f, `KeepRecentTurns(20)` as in its documentation.
    """

    turns: int = 20

    def view(self, said: Sequence[AnyMessage]) -> Sequence[AnyMessage]:
        """The newest turns, whole."""
        starts = [index for index, each in enumerate(said) if isinstance(each, HumanMessage)]
        return said[starts[-self.turns] :] if len(starts) > self.turns else said


@dataclass(slots=True, kw_only=True)
class SummaryOfOlder:
    """A summary in the place of all but the newest, once the window is nearly full.

    Source:
        deepagents 0.7.32, summarization at 0.85 of the window, keeping 0.10 of it; LangChain's
        `SummarizationMiddleware` is the same rule with other numbers.
    """

    count: Count
    window: int
    trigger: float = 0.85
    keep: float = 0.10
    _from: int = 0
    _told: list[AnyMessage] = field(default_factory=list)

    def view(self, said: Sequence[AnyMessage]) -> Sequence[AnyMessage]:
        """Return the replacement of the older part, and the rest."""
        shown = [*self._told, *said[self._from :]]
        if self.count(shown) < self.trigger * self.window:
            return shown
        kept = LastTokens(count=self.count, tokens=int(self.keep * self.window))
        newest = kept.view(said[self._from :]) or said[-1:]
        start = len(said) - len(newest)
        self._told = [HumanMessage(local_summary(said[:start], Texts("en")))]
        self._from = start
        return [*self._told, *newest]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearedResults:
    """Old tool results cleared, and then the newest tokens.

    Source:
        LangChain's `ClearToolUsesEdit`, after Anthropic's `clear_tool_uses_20250919`: beyond a
        number of tokens all but the newest 3 results are cleared. Its 100,000 are more than the
        window here; the trigger is that of the other rules.
    """

    count: Count
    tokens: int
    keep: int = 3

    def view(self, said: Sequence[AnyMessage]) -> Sequence[AnyMessage]:
        """Return the messages, with a placeholder for each older tool result."""
        if self.count(said) <= self.tokens:
            return said
        results = [index for index, each in enumerate(said) if isinstance(each, ToolMessage)]
        old = set(results[: -self.keep])
        cleared = [
            each.model_copy(update={"content": "[cleared]"}) if index in old else each
            for index, each in enumerate(said)
        ]
        return LastTokens(count=self.count, tokens=self.tokens).view(cleared)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrimersAndRecents:
    """The first 3 messages, a summary of the middle, the newest 20: made again for each request.

    Source:
        Zhang 2026, chapter 7.4; Kocoro-lab/Shannon 0190a84 keeps no plan between two requests.
    """

    count: Count
    tokens: int
    primers: int = 3
    recents: int = 20

    def view(self, said: Sequence[AnyMessage]) -> Sequence[AnyMessage]:
        """Return the three parts once the messages exceed this number of tokens."""
        if self.count(said) <= self.tokens:
            return said
        first, last = self.primers, len(said) - self.recents
        while first < last and not isinstance(said[first], HumanMessage):
            first += 1
        while last > first and not isinstance(said[last], HumanMessage):
            last -= 1
        summary = HumanMessage(local_summary(said[first:last], Texts("en")))
        return [*said[:first], summary, *said[last:]]
