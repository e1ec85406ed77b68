"""`PlanContext`, which a strategy plans from, and `Plan`, which it returns."""

import tomllib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from langchain_core.messages import AnyMessage

from unsay.context.compaction import (
    Compaction,
    hidden,
    hidden_by_span,
    live_spans,
    render,
    shortened,
    with_partners,
    with_span,
)
from unsay.effects import Steps
from unsay.errors import ConfigurationError, InputError
from unsay.messages.annotations import is_answer, is_question
from unsay.messages.boundaries import steps
from unsay.prompts.catalogue import Texts
from unsay.types import ExpandedTopic, Segment

TokenCounter = Callable[[Sequence[AnyMessage]], int]
"""Returns the tokens of a list of messages; the tokens of its parts do not add up to it."""

Ask = Callable[[Sequence[AnyMessage], Any], Steps[Any]]
"""Sends a request to the given model, or with `None` to the graph's summarizer; `yield from` it."""

WORDING = tomllib.loads(Path(__file__).with_name("wording.toml").read_text("utf-8"))

# The window that is assumed when the model's window is unknown.
# Source: strands-agents 1.62.0, `DEFAULT_CONTEXT_WINDOW_LIMIT`.
WINDOW_TOKENS = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Omission:
    """Messages that one rule leaves out of a context or shortens.

    `why` is the name of the rule: `cleared` or `truncated` for shortened tool results, `topic` for
    messages of other topics, otherwise the name that a strategy passed to `leave_out`.
    """

    why: str
    message_ids: tuple[str, ...]
    summary: str | None = None

    def __str__(self) -> str:
        number = len(self.message_ids)
        head = f"{number} message{'s' * (number != 1)} ({self.why})"
        return f"{head}: {self.summary}" if self.summary else head


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The result of a strategy; `keep`, `leave_out` and `shorten` of `PlanContext` make it."""

    after: "PlanContext"  # the same object as before if the plan changes nothing
    problems: tuple[Exception, ...] = ()  # errors that the strategy met; they are logged

    @property
    def messages(self) -> tuple[AnyMessage, ...]:
        """The transcript's messages that the context shows, oldest first, some shortened.

        One message with all summaries is in the place of the first message that is left out. What
        every context adds, such as the system prompt and reminders, is not included.
        """
        return self.after.context

    @property
    def compaction(self) -> Compaction:
        """What contexts leave out after this plan; the state keeps it for the next plan."""
        return self.after.compaction

    @property
    def left_out(self) -> tuple[Omission, ...]:
        """The messages that the context leaves out or shortens, by rule."""
        return self.after.left_out


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanContext:
    """What a strategy knows when it plans the context of one model call.

    It is a value: `leave_out` and `shorten` return a plan and change nothing here. Inspect
    `utilization`, `shown` and `pins`, then choose messages to leave out. Pins, instructions and
    the question that is being answered stay, even if the strategy names them.
    """

    messages: Sequence[AnyMessage]  # the transcript, oldest first, then the draft in progress
    count: TokenCounter
    texts: Texts = field(repr=False)
    compaction: Compaction = field(default_factory=Compaction)  # what earlier plans left out
    topic_id: str | None = None  # the topic that is planned; `None` plans all topics together
    window_tokens: int | None = None  # tokens for request and answer; `None` if unknown
    budget_tokens: int | None = None  # a budget that a request may use up; `None` without one
    overhead_tokens: int = 0  # tokens of the request besides messages: system prompt and tools
    pins: frozenset[str] = frozenset()  # ids of messages that are always included
    pending: frozenset[str] = frozenset()  # ids of the question; if empty, the newest unanswered
    ask: Ask | None = None  # `None` summarizes without a model
    has_summarizer: bool = True  # whether `ask` works without a model of the strategy's own
    is_paused: bool = False  # whether a summary failed lately, so that no model is asked for one
    call: int | None = None  # number of the next model call of the turn, from 1; `None` at its end
    overflows: int = 0  # how often the model has refused this call as too long
    minutes: float | None = None  # time on the caller's clock; `None` without a clock
    segments: Sequence[Segment] = ()  # where topics begin
    expanded: Sequence[ExpandedTopic] = ()  # topics that are shown besides the current one
    loaded: frozenset[str] = frozenset()  # ids of offloaded messages loaded for these topics
    other_topics: tuple[str, ...] = ()  # ids of messages left out because of their topic

    def __post_init__(self) -> None:
        nameless = next((i for i, m in enumerate(self.messages) if not m.id), None)
        if nameless is not None:
            raise InputError(f"message {nameless!r} has no id: give every message an id")
        if self.window_tokens is not None and self.window_tokens < 1:
            raise ConfigurationError(
                f"window_tokens must be 1 or more, or None if unknown, got {self.window_tokens!r}"
            )

    @property
    def own_compaction(self) -> Compaction:
        """The compaction of the planned topic, maybe empty; without a topic, that of the thread."""
        if self.topic_id is None:
            return self.compaction
        return self.compaction.get("topics", {}).get(self.topic_id, Compaction())

    @property
    def context(self) -> tuple[AnyMessage, ...]:
        """The messages to send if nothing more is left out, summaries included."""
        return render(self.messages, self.own_compaction, pins=self.pins, texts=self.texts)

    @property
    def shown(self) -> list[AnyMessage]:
        """The messages that are not left out, as they are in the transcript: without summaries."""
        out = hidden(self.messages, self.own_compaction, self.pins)
        return [message for index, message in enumerate(self.messages) if index not in out]

    @property
    def conversation(self) -> list[AnyMessage]:
        """All messages except system messages, whether they are left out or not."""
        return [message for message in self.messages if message.type != "system"]

    @property
    def unpinned(self) -> list[AnyMessage]:
        """The shown messages that are neither system messages nor pinned."""
        return self.unprotected(0)

    def unprotected(self, first: int) -> list[AnyMessage]:
        """Return the shown messages except system messages and those of `protected_ids(first)`."""
        protected = self.protected_ids(first)
        return [m for m in self.shown if m.type != "system" and m.id not in protected]

    @property
    def summaries(self) -> tuple[str, ...]:
        """The summaries that `context` shows for messages that are left out, oldest first.

        Empty if there are none. Do not add them to `context`: they are in it already.
        """
        spans = live_spans(self.messages, self.own_compaction)
        return tuple(summary for span in spans if (summary := span["summary"]))

    @property
    def shortened_ids(self) -> frozenset[str | None]:
        """The ids of the tool results that the context shows cleared or truncated."""
        return frozenset(message.id for message in self.context if shortened(message))

    @property
    def window(self) -> int:
        """The model's window in tokens, or `budget_tokens` if that is less.

        If the window is unknown, 200,000 tokens are assumed.
        """
        window = self.window_tokens or WINDOW_TOKENS
        return window if self.budget_tokens is None else min(window, self.budget_tokens)

    @property
    def tokens(self) -> int:
        """The tokens of the request if nothing more is left out, those of prompt and tools too."""
        return self.overhead_tokens + self.count(self.context)

    @property
    def utilization(self) -> float:
        """`tokens` as a share of `window`: 1.0 is full, and a request that is too long has more."""
        return self.tokens / self.window

    def removable(self, messages: Iterable[AnyMessage]) -> list[AnyMessage]:
        """Return those of the messages that `leave_out` would leave out.

        Pins, system messages and the running question stay, and so does a tool result at the end,
        which the model has not seen yet. A tool call is returned with all its results or not at
        all. Messages that are left out already are not returned.
        """
        ids = {message.id for message in messages}
        running = self.pending or running_question(self.messages)
        # The model has not seen the newest tool result yet: without it the call would be repeated.
        if self.messages and self.messages[-1].type == "tool":
            running |= {self.messages[-1].id or ""}
        fixed = {i for i, m in enumerate(self.messages) if m.type == "system"}
        fixed |= with_partners(self.messages, self.pins | running)
        fixed |= hidden(self.messages, self.own_compaction, self.pins)  # left out already
        return [
            self.messages[index]
            for step in steps(self.messages)
            if all(self.messages[i].id in ids and i not in fixed for i in step)
            for index in step
        ]

    @property
    def left_out(self) -> tuple[Omission, ...]:
        """The messages that the context leaves out or shortens, by rule."""
        omissions: list[Omission] = []
        for span, out in hidden_by_span(self.messages, self.own_compaction, self.pins):
            ids = tuple(self.messages[index].id or "" for index in out)
            omissions.append(Omission(why=span["why"], message_ids=ids, summary=span["summary"]))
        for rule in ("cleared", "truncated"):
            ids = tuple(message.id or "" for message in self.context if shortened(message) == rule)
            omissions.append(Omission(why=rule, message_ids=ids))
        omissions.append(Omission(why="topic", message_ids=self.other_topics))
        return tuple(omission for omission in omissions if omission.message_ids)

    def protected_ids(self, first: int = 0) -> set[str | None]:
        """Return the ids of the pins and of the `first` messages of the conversation.

        System messages do not count. If a tool call or one of its results is among them, the ids of
        the call and of all its results are included.
        """
        pins = self.pins | {message.id or "" for message in self.conversation[:first]}
        return {self.messages[index].id for index in with_partners(self.messages, pins)}

    def keep(self, *problems: Exception) -> Plan:
        """Return the plan that changes nothing; `problems` are errors that are the reason, if any."""
        return Plan(after=self, problems=problems)

    def leave_out(
        self,
        messages: Iterable[AnyMessage],
        *,
        why: str,
        summary: str | None = None,
        rolling: bool = False,
    ) -> Plan:
        """Return the plan that leaves out the messages, except those that must stay.

        If too many messages between them would stay, the plan changes nothing and has the problem.

        Args:
            messages: Any messages; those not in `removable` stay. If all stay, nothing changes.
            why: The name of your rule, which a user sees beside the messages.
            summary: Text that replaces the messages in the context; `None` replaces nothing.
            rolling: Whether the summary also replaces all earlier summaries.
        """
        ids = {message.id for message in self.removable(messages)}
        indices = [index for index, message in enumerate(self.messages) if message.id in ids]
        if not indices:
            return self.keep()
        extend = partial(with_span, self.messages, self.own_compaction, indices, pins=self.pins)
        extend = partial(extend, loaded=self.loaded)
        try:
            return self._with(extend(why=why, summary=summary, rolling=rolling))
        except InputError as problem:
            return self.keep(problem)

    def shorten(
        self, *, clear: AnyMessage | None = None, truncate: AnyMessage | None = None
    ) -> Plan:
        """Return the plan that shortens all tool results up to and including the given messages.

        Results up to `clear` become one line each; those up to `truncate` keep their beginning and
        end. Pinned and short results stay whole. `None` leaves the earlier limit as it is. A
        message that is not in the transcript shortens nothing.
        """
        compaction = self.own_compaction.copy()
        if clear is not None:
            compaction["cleared"] = clear.id or ""
        if truncate is not None:
            compaction["truncated"] = truncate.id or ""
        return self._with(compaction)

    def _with(self, compaction: Compaction) -> Plan:
        """Return the plan with another compaction of the planned topic.

        The compaction gets the time of the change, if there is a clock.
        """
        if self.minutes is not None:
            compaction = {**compaction, "minutes": self.minutes}
        if self.topic_id is not None:
            compaction = {
                **self.compaction,
                "topics": {**self.compaction.get("topics", {}), self.topic_id: compaction},
            }
        return Plan(after=replace(self, compaction=compaction))


def running_question(messages: Sequence[AnyMessage]) -> frozenset[str]:
    """Return the id of the newest question, as a set, if it still waits for its answer.

    It is empty without a question, and if the last message (system messages aside) is a final
    answer.
    """
    spoken = [message for message in messages if message.type != "system"]
    if not spoken or is_answer(spoken[-1]):
        return frozenset()
    return frozenset(next(([m.id or ""] for m in reversed(spoken) if is_question(m)), []))
