"""The settings of judging, rollbacks and topics; `Settings` has them with all others."""

from typing import Annotated, Literal, get_args

from pydantic import Field
from pydantic_settings import BaseSettings

from unsay.setting_types import Seconds, Share
from unsay.types import CheckpointReason, Language
from unsay.verdicts import LocalCheck


class JudgingSettings(BaseSettings):
    """What a judge decides, what follows from it, and how topics are recognized."""

    judging: Literal["model", "local", "off"] = "model"
    """`model` asks a judge, `local` uses only the local checks, `off` leaves all answers unscored."""

    local_checks: frozenset[LocalCheck] = frozenset(get_args(LocalCheck))
    """Local rules that are applied to an answer; leave one out to switch it off."""

    judge_format: Literal["auto", "text"] = "auto"
    """`auto` asks for structured output first; `text` reads the judge's words alone."""

    quality_threshold: Share = 0.5
    """An answer below it fails and is rolled back. Source: LayerX's article on forgetting (2025)."""

    quality_thresholds: dict[Language, Share] = Field(default={})
    """By language (`en`, `ja`), instead of `quality_threshold`; `unsay calibrate --write` sets them. A
    `quality_threshold` from a stronger source, such as a run's context over the file, replaces them.
    `checkpoint_threshold` stays, and of the answers that reach it only those that pass become one."""

    consistency_threshold: Share = 0.4
    """An answer that a judge finds less consistent with what was said fails as well. Source: own."""

    judge_rubric: tuple[str, ...] = ()
    """Your own criteria, one sentence each, which the judge applies beside its own."""

    judge_share: Share | None = None
    """Most tokens of the judge over those of the answers. Beyond it, answers that the local checks find
    plainly good are unscored and counted as skipped, from the fifth turn on; 1 skips none. Without a
    value it is 0.2 if the answering model judges itself, and 1 for a judge of your own."""

    judge_samples: Annotated[int, Field(ge=1, le=9)] = 1
    """How often each judge is asked about an answer; every second time it reads the answer first."""

    judge_panel: tuple[str, ...] = ()
    """Names of further judges. The median of all scores counts; without a majority for one outcome
    the answer is unscored."""

    checkpoint_threshold: Share = 0.8
    """An answer at or above it becomes a checkpoint. Source: LayerX 2025, `>= 0.8`."""

    max_rollbacks: Annotated[int, Field(ge=0, le=10)] = 2
    """Most automatic rollbacks of one turn; then `on_exhausted` decides."""

    rollback_to: Literal["turn", "checkpoint"] = "turn"
    """How far an automatic rollback goes. `turn`: to the start of the turn, or to its last finished
    tool step. `checkpoint`: to the last checkpoint, then to older ones."""

    confirm_rollback: bool = False
    """Whether a person is asked before an automatic rollback."""

    on_exhausted: Literal["deliver", "ask"] = "deliver"
    """When no draft of a turn passes: `deliver` the best one, flagged; or `ask` a person through an
    interrupt."""

    checkpoint_on: frozenset[CheckpointReason] = frozenset({"score", "task_start", "risky"})
    """What makes a checkpoint: an answer's `score`, a `task_start`, a lasting `instruction`, each
    finished `tool_step`, a step with a `risky` tool, an `error`. A person's `order` always does."""

    topics: Literal["compaction", "model", "off"] = "compaction"
    """`compaction` leaves finished topics out of the context; `off` includes the whole transcript.
    `model` is `compaction` with a model that decides when the topic changes: the judge, with its
    verdict on the answer, or without `judging="model"` in a call before the answer. For an answer
    that `judge_share` skips, the local detector decides."""

    topic_change_threshold: Share = 0.35
    """Probability of a change from which a question leaves its topic, for the local detector."""

    topic_hysteresis: Share = 0.0
    """Added to that threshold for the first question after a change, so that topics do not flicker."""

    topic_minimum_turns: Annotated[int, Field(ge=1, le=4)] = 1
    """Turns that a topic has before the local detector leaves it without a clear announcement."""

    on_topic_change: Literal["summarize", "keep", "delete"] = "summarize"
    """What contexts show of a topic that was left: a summary; a summary and the newest
    `kept_messages` of the topic left last; or nothing. Source: LayerX 2025 (summarize or delete)."""

    kept_messages: Annotated[int, Field(ge=0, le=1000)] = 4
    """Messages of the topic left last that `on_topic_change="keep"` shows word for word."""

    judge_retries: Annotated[int, Field(ge=0, le=3)] = 0
    """How often a judge is asked again after a reply without a certain score, or an error."""

    judge_timeout_seconds: Seconds = 30.0
    """Time after which a judge counts as silent and the answer stays unscored."""

    max_lessons: Annotated[int, Field(ge=0, le=20)] = 3
    """How many reasons of earlier rejections on this topic the model is sent; 0 sends none."""

    max_judged_entries: Annotated[int, Field(ge=1, le=50)] = 3
    """How many of the newest injected answers one turn judges; older ones stay unscored."""

    relevance_threshold: Share = 0.5
    """A retrieved document or search result below it is left out of the context. Source: own."""

    max_searches: Annotated[int, Field(ge=0, le=10)] = 2
    """How often a search that found nothing relevant is made again with another query."""

    max_judged_documents: Annotated[int, Field(ge=1, le=100)] = 10
    """How many of the newest retrieved documents one turn judges; older ones stay unscored."""

    @property
    def judge_labels_topics(self) -> bool:
        """Whether the judge also says what the topic is, in the call for its verdict.

        For an answer that it skips, the local detector's decision stays.
        """
        return self.topics == "model" and self.judging == "model"
