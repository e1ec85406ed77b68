"""What a strategy plans from, and the plan that it makes."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from langchain_core.messages import AnyMessage

from unsay.context.compaction import (
    Compaction,
    hidden,
    hidden_by_span,
    live_spans,
    render,
    with_partners,
    with_span,
)
from unsay.context.tool_results import shortened
from unsay.effects import Steps
from unsay.errors import ConfigurationError, InputError
from unsay.messages.annotations import is_answer, is_question
from unsay.messages.boundaries import steps
from unsay.prompts.fields import Texts
from unsay.types import ExpandedTopic, Segment

TokenCounter = Callable[[Sequence[AnyMessage]], int]
"""Counts the tokens of a sequence; costs of single messages do not add up."""

Ask = Callable[[Sequence[AnyMessage], Any], Steps[Any]]
"""Sends a request to the strategy's own model, or for `None` to the graph's summarizer."""

WINDOW_TOKENS = 200_000
"""Assumed window of a model whose window is not known.
Source: strands-agents 1.62.0, `DEFAULT_CONTEXT_WINDOW_LIMIT`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Omission:
    """Messages that one rule leaves out of a context, or shows shortened.

    `why` is the rule's name: `cleared` and `truncated` for tool results, `topic` for other topics,
    else a strategy's own.
    """

    why: str
    message_ids: tuple[str, ...]
    summary: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The situation after a strategy's decision, and the problems that changed nothing."""

    after: "PlanContext"
    problems: tuple[Exception, ...] = ()

    @property
    def messages(self) -> tuple[AnyMessage, ...]:
        """The planned messages; `compaction.in_place` makes their summaries ready to be sent."""
        return self.after.context

    @property
    def compaction(self) -> Compaction:
        """The fold to keep in the state for the next plan."""
        return self.after.compaction

    @property
    def left_out(self) -> tuple[Omission, ...]:
        """What is not shown, or not whole, by rule."""
        return self.after.left_out


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanContext:
    """All that a strategy may know when it plans one context."""

    messages: Sequence[AnyMessage]  # the transcript, oldest first, and the current draft
    count: TokenCounter
    texts: Texts = field(repr=False)
    compaction: Compaction = field(default_factory=Compaction)
    topic_id: str | None = None  # whose part of the fold is used; `None` if all topics share it
    window_tokens: int | None = None  # for a request and its answer; `None` if unknown
    overhead_tokens: int = 0  # of a request beside the messages: system prompt, tools
    pins: frozenset[str] = frozenset()
    pending: frozenset[str] = frozenset()  # the running question; if empty, the newest unanswered
    ask: Ask | None = None  # `None` summarizes without a model
    has_summarizer: bool = True  # of the graph; without it only a strategy's own model is asked
    call: int | None = None  # number of the next call of the turn, from 1; `None` at its end
    overflows: int = 0  # how often this call was too long for the model
    minutes: float | None = None  # time by the caller's clock; `None` without one
    segments: Sequence[Segment] = ()
    expanded: Sequence[ExpandedTopic] = ()  # topics that are shown beside the current one
    loaded: frozenset[str] = frozenset()  # offloaded messages, loaded for the topics shown
    other_topics: tuple[str, ...] = ()  # messages that are left out because of their topic

    def __post_init__(self) -> None:
        nameless = next((i for i, m in enumerate(self.messages) if not m.id), None)
        if nameless is not None:
            raise InputError(f"message {nameless!r} has no id: give it one, folds go by ids")
        if self.window_tokens is not None and self.window_tokens < 1:
            raise ConfigurationError(
                f"window_tokens {self.window_tokens!r} leaves no room: write 1 or more, or None"
            )

    @property
    def own_compaction(self) -> Compaction:
        """The topic's part of the fold, or all of it."""
        if self.topic_id is None:
            return self.compaction
        return self.compaction.get("topics", {}).get(self.topic_id, Compaction())

    @property
    def context(self) -> tuple[AnyMessage, ...]:
        """The messages to send if nothing more is left out."""
        return render(self.messages, self.own_compaction, pins=self.pins, texts=self.texts)

    @property
    def shown(self) -> list[AnyMessage]:
        """The messages that are not left out, each as in the transcript."""
        out = hidden(self.messages, self.own_compaction, self.pins)
        return [message for index, message in enumerate(self.messages) if index not in out]

    @property
    def conversation(self) -> list[AnyMessage]:
        """All messages except instructions, left out or not."""
        return [each for each in self.messages if each.type != "system"]

    @property
    def unpinned(self) -> list[AnyMessage]:
        """The shown messages that are neither instructions nor pinned."""
        return self.unprotected(0)

    def unprotected(self, first: int) -> list[AnyMessage]:
        """Return the shown messages that are neither instructions nor `held`."""
        held = self.protected_ids(first)
        return [each for each in self.shown if each.type != "system" and each.id not in held]

    @property
    def summaries(self) -> tuple[str, ...]:
        """The summaries of what was left out, oldest first."""
        spans = live_spans(self.messages, self.own_compaction)
        return tuple(words for each in spans if (words := each["summary"]))

    @property
    def shortened_ids(self) -> frozenset[str | None]:
        """Ids of the tool results that are cleared or truncated."""
        return frozenset(each.id for each in self.context if shortened(each))

    @property
    def window(self) -> int:
        """The window in tokens, assumed if unknown."""
        return self.window_tokens or WINDOW_TOKENS

    @property
    def tokens(self) -> int:
        """The tokens of the request if nothing more is left out."""
        return self.overhead_tokens + self.count(self.context)

    @property
    def utilization(self) -> float:
        """Tokens as a share of the window; 1.0 is full."""
        return self.tokens / self.window

    def removable(self, messages: Iterable[AnyMessage]) -> list[AnyMessage]:
        """Return the messages that `leave_out` would leave out: whole steps of loose messages."""
        ids = {each.id for each in messages}
        running = self.pending or running_question(self.messages)
        # No model has seen yet what a tool has just found.
        if self.messages and self.messages[-1].type == "tool":
            running |= {self.messages[-1].id or ""}
        fixed = {i for i, m in enumerate(self.messages) if m.type == "system"}
        fixed |= with_partners(self.messages, self.pins | running)
        fixed |= hidden(self.messages, self.own_compaction, self.pins)
        return [
            self.messages[index]
            for step in steps(self.messages)
            if all(self.messages[i].id in ids and i not in fixed for i in step)
            for index in step
        ]

    @property
    def left_out(self) -> tuple[Omission, ...]:
        """What is not shown, or not whole, by rule."""
        found: list[Omission] = []
        for span, out in hidden_by_span(self.messages, self.own_compaction, self.pins):
            ids = tuple(self.messages[index].id or "" for index in out)
            found.append(Omission(why=span["why"], message_ids=ids, summary=span["summary"]))
        for how in ("cleared", "truncated"):
            ids = tuple(each.id or "" for each in self.context if shortened(each) == how)
            found.append(Omission(why=how, message_ids=ids))
        found.append(Omission(why="topic", message_ids=self.other_topics))
        return tuple(each for each in found if each.message_ids)

    def protected_ids(self, first: int = 0) -> set[str | None]:
        """Return the ids of pins and of the first messages, with all that must stay with them."""
        pins = self.pins | {each.id or "" for each in self.conversation[:first]}
        return {self.messages[index].id for index in with_partners(self.messages, pins)}

    def keep(self, *problems: Exception) -> Plan:
        """Return the plan that leaves out nothing more."""
        return Plan(after=self, problems=problems)

    def leave_out(
        self,
        messages: Iterable[AnyMessage],
        *,
        why: str,
        summary: str | None = None,
        rolling: bool = False,
    ) -> Plan:
        """Return the plan that leaves out those of the messages that may be left out.

        Args:
            messages: Any messages; pins, the running question and parts of steps stay.
            why: The rule's name.
            summary: Replaces the messages.
            rolling: Whether the summary also replaces all earlier ones.
        """
        ids = {each.id for each in self.removable(messages)}
        chosen = [index for index, each in enumerate(self.messages) if each.id in ids]
        if not chosen:
            return self.keep()
        extend = partial(with_span, self.messages, self.own_compaction, chosen, pins=self.pins)
        try:
            return self._with(extend(why=why, summary=summary, rolling=rolling))
        except InputError as problem:
            return self.keep(problem)

    def shorten(
        self, *, clear: AnyMessage | None = None, truncate: AnyMessage | None = None
    ) -> Plan:
        """Return the plan that clears or truncates the tool results up to these messages."""
        compaction = self.own_compaction.copy()
        if clear is not None:
            compaction["cleared"] = clear.id or ""
        if truncate is not None:
            compaction["truncated"] = truncate.id or ""
        return self._with(compaction)

    def _with(self, compaction: Compaction) -> Plan:
        if self.minutes is not None:
            compaction = {**compaction, "minutes": self.minutes}
        if self.topic_id is not None:
            compaction = {
                **self.compaction,
                "topics": {**self.compaction.get("topics", {}), self.topic_id: compaction},
            }
        return Plan(after=replace(self, compaction=compaction))


def running_question(messages: Sequence[AnyMessage]) -> frozenset[str]:
    """Return the id of the newest question if the messages do not end with an answer."""
    said = [each for each in messages if each.type != "system"]
    if not said or is_answer(said[-1]):
        return frozenset()
    return frozenset(next(([m.id or ""] for m in reversed(said) if is_question(m)), []))
