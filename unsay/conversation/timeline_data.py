"""The timeline of a thread as plain values: turns, topics, and the question that waits."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from unsay.conversation.results import Checkpoint, Removed
from unsay.types import BranchRef, Forgotten, Language, Pin, TopicChange


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedDraft:
    """A draft that failed; `score` is `None` for an unscored one."""

    text: str
    score: float | None
    reason: str
    message_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoneCall:
    """A tool call that was rolled back, and what became of it; as in the event `compensation`.

    After `failed` and `skipped` the call is still in effect, and `reason` says why. `unknown`: a
    crash came while it was undone.
    """

    tool: str
    tool_call_id: str
    description: str
    result: Literal["undone", "failed", "skipped", "unknown"]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineTurn:
    """One turn on the current branch.

    The fields `score`, `reason`, `topic`, `topic_change`, `flag`, `rollbacks`, `removed` and
    `checkpoints_removed` are those of its `Reply`.

    Attributes:
        question: Empty for an answer that was added without one.
        answer: `None` while the question waits.
        message_id: The answer's id; the question's while it waits.
        step_ids: Ids of the messages of its tool steps, oldest first.
        outcome: As in `Reply`; `None` also for an answer that was not judged.
        similarity: Of the question to the topic before, if it changed the topic, as in the event `topic`.
        rejected: The turn's drafts that failed, oldest first; only `Conversation.timeline` sets them.
    """

    number: int
    question: str
    answer: str | None
    message_id: str | None
    question_id: str | None
    score: float | None
    outcome: str | None
    reason: str
    topic: str
    flag: str | None
    rollbacks: int
    pinned: bool = False
    forgotten: bool = False
    skipped: bool = False  # the judge was not asked, by the setting `judge_share`
    step_ids: tuple[str, ...] = ()
    topic_change: TopicChange | None = None
    similarity: float | None = None
    removed: tuple[Removed, ...] = ()
    checkpoints_removed: tuple[str, ...] = ()
    rejected: tuple[RejectedDraft, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineTopic:
    """One topic of the thread; `summarized` means that contexts leave its messages out.

    `summary` is `None` for the current topic, and for one that has no summary yet.
    """

    label: str
    summarized: bool
    summary: str | None

    forgotten: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingCall:
    """A tool call in a turn that has no answer yet, as in the events `tool_call` and `tool_result`.

    `status` and `text` are those of its result; both are `None` while it has none.
    """

    call_id: str | None
    name: str
    args: Mapping[str, Any]
    status: Literal["success", "error"] | None
    text: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingQuestion:
    """A question that waits for its answer: its turn runs, was stopped, or waits for a decision.

    Attributes:
        request: LangChain's human-in-the-loop request that waits for a person; `None` without one.
        rejected: The turn's drafts that failed so far, each with its score and the reason.
        calls: The tool calls of these drafts and of the draft under way, oldest first.
    """

    question: str
    question_id: str | None
    request: Mapping[str, Any] | None = None
    rejected: tuple[RejectedDraft, ...] = ()
    calls: tuple[PendingCall, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineData:
    """The whole thread at one moment; checkpoints, branches, pins and forgotten are oldest first.

    `pending` is the question that waits for its answer; `None` if none does. `undone_calls` are the
    tool calls that were rolled back. Only `Conversation.timeline` sets both. `language` is that of
    the thread, in which the timeline is printed and drawn.
    """

    thread_id: str
    turns: tuple[TimelineTurn, ...]
    checkpoints: tuple[Checkpoint, ...]
    branches: tuple[BranchRef, ...]
    topics: tuple[TimelineTopic, ...]
    current_topic: str
    quality_threshold: float
    checkpoint_threshold: float
    pins: tuple[Pin, ...] = ()
    forgotten: tuple[Forgotten, ...] = ()
    pending: PendingQuestion | None = None
    undone_calls: tuple[UndoneCall, ...] = ()
    language: Language = "en"

    @property
    def skipped(self) -> int:
        """The number of turns whose answers `judge_share` left out, so that no judge was asked."""
        return sum(turn.skipped for turn in self.turns)
