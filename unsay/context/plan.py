"""What a strategy plans from, and the plan that it makes."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from langchain_core.messages import AnyMessage

from unsay.context.compaction import Fold, hidden, render, standing, with_partners, with_span
from unsay.context.tool_results import shortened
from unsay.effects import Steps
from unsay.errors import ConfigurationError, InputError
from unsay.messages.annotations import is_answer, is_question
from unsay.messages.boundaries import steps
from unsay.prompts.fields import Texts
from unsay.types import Segment, Unfolded

TokenCounter = Callable[[Sequence[AnyMessage]], int]
"""Tokens of a sequence of messages, not of each; costs are not additive."""

Ask = Callable[[Sequence[AnyMessage], Any], Steps[Any]]
"""Asks a summarizer: a request, and the strategy's own model or `None` for the graph's."""

WINDOW_TOKENS = 200_000
"""Assumed where nobody knows the model's window.

Source:
    strands-agents 1.62.0, `DEFAULT_CONTEXT_WINDOW_LIMIT`.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Omission:
    """What one rule leaves out of a view, or shows shortened."""

    why: str
    """The rule's name; `cleared` and `truncated` are those of tool results, `topic` of topics."""

    message_ids: tuple[str, ...]
    summary: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A view, what was left out of it and why, and where the next plan begins."""

    after: "Situation"
    problems: tuple[Exception, ...] = ()
    """What could not be done, and changed nothing."""

    @property
    def messages(self) -> tuple[AnyMessage, ...]:
        """The view; `rendering.in_place` makes its summaries ready to be sent."""
        return self.after.view

    @property
    def fold(self) -> Fold:
        """What the state keeps for the next plan: plain JSON, bounded."""
        return self.after.fold

    @property
    def left_out(self) -> tuple[Omission, ...]:
        """What the view does not show, or not whole, by the rules that did it."""
        return self.after.left_out


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """All that a strategy may know when it plans one view."""

    messages: Sequence[AnyMessage]
    """What belongs to the conversation, oldest first, and what the draft under way has so far."""

    count: TokenCounter
    texts: Texts = field(repr=False)
    fold: Fold = field(default_factory=Fold)
    """As the plan before left it; empty for a new conversation."""

    topic_id: str | None = None
    """Whose part of the fold is meant; `None` where all topics share one."""

    window_tokens: int | None = None
    """What a request and its answer may take together; `None` where nobody knows."""

    overhead_tokens: int = 0
    """What a request costs beside the messages: system prompt, tools."""

    pins: frozenset[str] = frozenset()
    """Ids of messages that no view leaves out."""

    pending: frozenset[str] = frozenset()
    """Ids of the running question; empty finds the newest one that has no answer."""

    ask: Ask | None = None
    """Asks a summarizer; `None` summarizes without a model."""

    has_summarizer: bool = True
    """Whether the graph has one: without, only a strategy's own model is asked."""

    call: int | None = None
    """Which model call of the turn is planned, from 1; `None` at the turn's end."""

    overflows: int = 0
    minutes: float | None = None
    """Of the caller's clock, for what may not happen too often; `None` for no clock."""

    segments: Sequence[Segment] = ()
    unfolded: Sequence[Unfolded] = ()
    """Topics that are shown as well while the talk stays where it is."""

    earlier: frozenset[str] = frozenset()
    """Ids of messages out of the sealed part, which were fetched for the topics that are shown."""

    elsewhere: tuple[str, ...] = ()
    """Ids of messages that are left out because they belong to other topics."""

    def __post_init__(self) -> None:
        nameless = next((i for i, m in enumerate(self.messages) if not m.id), None)
        if nameless is not None:
            raise InputError(f"message {nameless!r} has no id: give it one, folds go by ids")
        if self.window_tokens is not None and self.window_tokens < 1:
            raise ConfigurationError(
                f"window_tokens {self.window_tokens!r} leaves no room: write 1 or more, or None"
            )

    @property
    def own_fold(self) -> Fold:
        """The part of the fold that speaks of these messages."""
        if self.topic_id is None:
            return self.fold
        return self.fold.get("topics", {}).get(self.topic_id, Fold())

    @property
    def view(self) -> tuple[AnyMessage, ...]:
        """What is sent if nothing more is left out."""
        return render(self.messages, self.own_fold, pins=self.pins, texts=self.texts)

    @property
    def shown(self) -> list[AnyMessage]:
        """The messages that the view shows, each as the record has it."""
        out = hidden(self.messages, self.own_fold, self.pins)
        return [message for index, message in enumerate(self.messages) if index not in out]

    @property
    def said(self) -> list[AnyMessage]:
        """All of the messages but the instructions, shown or not."""
        return [each for each in self.messages if each.type != "system"]

    @property
    def unpinned(self) -> list[AnyMessage]:
        """Those of the shown messages that are neither instructions nor held by a pin."""
        return self.loose(0)

    def loose(self, first: int) -> list[AnyMessage]:
        """Those of the shown messages that are neither instructions nor `held`."""
        held = self.held(first)
        return [each for each in self.shown if each.type != "system" and each.id not in held]

    @property
    def summaries(self) -> tuple[str, ...]:
        """What stands in the place of what was left out, oldest first."""
        spans = standing(self.messages, self.own_fold)
        return tuple(words for each in spans if (words := each["summary"]))

    @property
    def shortened_ids(self) -> frozenset[str | None]:
        """Ids of the tool results that the view does not show whole."""
        return frozenset(each.id for each in self.view if shortened(each))

    @property
    def window(self) -> int:
        """The window in tokens, assumed where nobody knows it."""
        return self.window_tokens or WINDOW_TOKENS

    @property
    def tokens(self) -> int:
        """What the request costs as it stands."""
        return self.overhead_tokens + self.count(self.view)

    @property
    def utilization(self) -> float:
        """Tokens as a share of the window; 1.0 is full."""
        return self.tokens / self.window

    def leavable(self, messages: Iterable[AnyMessage]) -> list[AnyMessage]:
        """Those of the messages that `leave_out` would leave out: loose, and in whole steps."""
        ids = {each.id for each in messages}
        running = self.pending or running_question(self.messages)
        # No model has seen yet what a tool has just found.
        if self.messages and self.messages[-1].type == "tool":
            running |= {self.messages[-1].id or ""}
        fixed = {i for i, m in enumerate(self.messages) if m.type == "system"}
        fixed |= with_partners(self.messages, self.pins | running)
        fixed |= hidden(self.messages, self.own_fold, self.pins)
        return [
            self.messages[index]
            for step in steps(self.messages)
            if all(self.messages[i].id in ids and i not in fixed for i in step)
            for index in step
        ]

    @property
    def left_out(self) -> tuple[Omission, ...]:
        """What the view does not show, or not whole, by the rules that did it."""
        spans = standing(self.messages, self.own_fold)
        found: list[Omission] = []
        for index, span in enumerate(spans):
            earlier = hidden(self.messages, Fold(spans=spans[:index]))
            out = hidden(self.messages, Fold(spans=[span]), self.pins) - earlier
            ids = tuple(self.messages[place].id or "" for place in sorted(out))
            found.append(Omission(why=span["why"], message_ids=ids, summary=span["summary"]))
        for how in ("cleared", "truncated"):
            ids = tuple(each.id or "" for each in self.view if shortened(each) == how)
            found.append(Omission(why=how, message_ids=ids))
        found.append(Omission(why="topic", message_ids=self.elsewhere))
        return tuple(each for each in found if each.message_ids)

    def held(self, first: int = 0) -> set[str | None]:
        """Ids of pins, and of so many of the first messages, with what no cut may part from them."""
        pins = self.pins | {each.id or "" for each in self.said[:first]}
        return {self.messages[index].id for index in with_partners(self.messages, pins)}

    def keep(self, *problems: Exception) -> Plan:
        """The plan that leaves out nothing more, perhaps because of problems."""
        return Plan(after=self, problems=problems)

    def leave_out(
        self,
        messages: Iterable[AnyMessage],
        *,
        why: str,
        summary: str | None = None,
        rolling: bool = False,
    ) -> Plan:
        """The plan that leaves out those of the messages that are loose, in whole steps.

        Args:
            messages: Any of the conversation; those that may not be left out stay.
            why: The name of the rule that does it.
            summary: What stands in their place.
            rolling: Whether the summary also stands for all that was left out before.
        """
        ids = {each.id for each in self.leavable(messages)}
        chosen = [index for index, each in enumerate(self.messages) if each.id in ids]
        if not chosen:
            return self.keep()
        extend = partial(with_span, self.messages, self.own_fold, chosen, pins=self.pins)
        try:
            return self._with(extend(why=why, summary=summary, rolling=rolling))
        except InputError as problem:
            return self.keep(problem)

    def shorten(
        self, *, clear: AnyMessage | None = None, truncate: AnyMessage | None = None
    ) -> Plan:
        """The plan that clears or truncates the tool results up to these messages."""
        fold = self.own_fold.copy()
        if clear is not None:
            fold["cleared"] = clear.id or ""
        if truncate is not None:
            fold["truncated"] = truncate.id or ""
        return self._with(fold)

    def _with(self, fold: Fold) -> Plan:
        if self.minutes is not None:
            fold = {**fold, "minutes": self.minutes}
        if self.topic_id is not None:
            fold = {**self.fold, "topics": {**self.fold.get("topics", {}), self.topic_id: fold}}
        return Plan(after=replace(self, fold=fold))


def running_question(messages: Sequence[AnyMessage]) -> frozenset[str]:
    """Id of the newest question, where the conversation does not end in an answer."""
    said = [each for each in messages if each.type != "system"]
    if not said or is_answer(said[-1]):
        return frozenset()
    return frozenset(next(([m.id or ""] for m in reversed(said) if is_question(m)), []))
