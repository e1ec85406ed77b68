"""The settings of judging, rollbacks and topics; `Settings` has them with all others."""

import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, cast

from pydantic import (
    AfterValidator,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    field_validator,
)
from pydantic_core import CoreSchema, core_schema
from pydantic_settings import BaseSettings
from typing_extensions import TypedDict

from unsay.errors import ConfigurationError
from unsay.types import CheckpointReason, CommandName, Language

BudgetMode = Literal["hard", "soft", "ask"]


class Context(TypedDict, total=False):
    """What one run may override; a missing key or `None` leaves the setting as it is.

    This is the graph's `context_schema`: servers accept it as plain JSON. A host may add keys of its
    own: the graph ignores them and passes them on to tools and to an agent that answers. A key that
    looks like a misspelt one of these is a Python warning.
    """

    quality_threshold: float | None
    checkpoint_threshold: float | None
    max_rollbacks: int | None
    rollback_to: Literal["turn", "checkpoint"] | None
    confirm_rollback: bool | None
    on_exhausted: Literal["deliver", "ask"] | None
    stream: Literal["live", "held"] | None
    judging: Literal["model", "local", "off"] | None
    language: Literal["auto", "en", "ja"] | None
    commands: Literal["all", "none"] | list[CommandName] | None
    system_prompt: str | None
    preset: str | None
    window_messages: int | None
    primers: int | None
    recents: int | None
    trigger_ratio: float | None
    target_ratio: float | None
    summary_ratio: float | None
    preserve_recent_messages: int | None
    per_turn: bool | int | None
    summaries: Literal["model", "local"] | None
    summary_tokens: int | None
    summary_temperature: float | None
    on_topic_change: Literal["summarize", "keep", "delete"] | None
    session_budget_tokens: int | None
    task_budget_tokens: int | None
    agent_budget_tokens: int | None
    budget_mode: BudgetMode | None
    budget_warning: float | None
    truncate_results: bool | None
    summary_system_prompt: str | None
    use_case_preset: str | None
    context_window_default: int | None
    window_size: int | None
    history_window_size: int | None
    token_budget_per_agent: int | None
    token_budget_per_task: int | None
    primers_count: int | None
    recents_count: int | None
    compression_trigger_ratio: float | None
    compression_target_ratio: float | None
    warning_threshold: float | None
    hard_limit: bool | None
    require_approval: bool | None
    should_truncate_results: bool | None
    summarization_system_prompt: str | None
    """Other names of the settings above; see `unsay.settings.presets.ALIASES` and `BUDGET_ALIASES`."""

    labels: dict[str, str] | None
    """Words of the host's own, kept with the run and its events, to search by."""

    parent_run_id: str | None
    """The run that started this one; `None` where a person did."""


def context_of(value: object) -> Context:
    """Return what a host passed as the context of a run; empty if that is not a mapping."""
    return cast("Context", value) if isinstance(value, Mapping) else Context()


Share = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]
# Longest wait, 46 days. Source: the least `threading.TIMEOUT_MAX` of all systems is 4,294,967 s.
MOST_SECONDS = 4_000_000
Seconds = Annotated[float, Field(gt=0.0, le=MOST_SECONDS, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0.0, allow_inf_nan=False)]
Finite = Annotated[float, Field(allow_inf_nan=False)]


def _two_numbers(scale: tuple[float, float]) -> tuple[float, float]:
    if scale[0] == scale[1]:
        raise ValueError("the worst and the best number must differ")
    return scale


Scale = Annotated[tuple[Finite, Finite], AfterValidator(_two_numbers)]

LOG = logging.getLogger(__name__)


def clamped(name: str, value: float, least: float, most: float) -> float:
    """Return the value, or the nearest limit, `least` or `most`, with a warning in the log.

    `name` is for the message. Raises `ConfigurationError` for `nan`.
    """
    if math.isnan(value):
        raise ConfigurationError(f"{name} must be from {least!r} to {most!r}, got {value!r}")
    result = min(max(value, least), most)
    if result != value:
        LOG.warning("name=%s value=%r used=%r a setting is outside its limits", name, value, result)
    return result


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a setting; a number outside is replaced by the nearer one, with a logged warning."""

    least: float
    most: float

    def __get_pydantic_core_schema__(self, kind: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.with_info_after_validator_function(self._limited, handler(kind))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {**handler(schema), "minimum": self.least, "maximum": self.most}

    def _limited(self, value: float, info: core_schema.ValidationInfo) -> float:
        return clamped(info.field_name or "", value, self.least, self.most)


PriceKind = Literal["input", "output", "cache_read", "cache_creation"]

# Costs are counted in millionths: less would be a limit of 0.
Cost = Annotated[float, Field(ge=0.000_001, allow_inf_nan=False)]

BACKPRESSURE = ((0.8, 50), (0.85, 300), (0.9, 750), (0.95, 1_500), (1.0, 5_000))
"""Source: Zhang 2026, chapter 7.6; the last step is Shannon's `MAX_BACKPRESSURE_DELAY_MS`."""


class BudgetSettings(BaseSettings):
    """Limits on tokens and cost, and on the calls that one model gets."""

    session_budget_tokens: Annotated[int, Field(ge=1)] | None = None
    """Most tokens of the thread; `None` sets no limit."""

    task_budget_tokens: Annotated[int, Field(ge=1)] | None = None
    """Most tokens of one task, counted from the start of the task; `None` sets no limit."""

    agent_budget_tokens: Annotated[int, Field(ge=1)] | None = None
    """Most tokens of one agent within a task; `None` sets no limit."""

    session_budget_cost: Cost | None = None
    """Highest cost of the thread in the currency of `prices`; `None` sets no limit."""

    task_budget_cost: Cost | None = None
    """Highest cost of one task in the currency of `prices`; `None` sets no limit."""

    agent_budget_cost: Cost | None = None
    """Highest cost of one agent within a task in the currency of `prices`; `None` sets no limit."""

    budget_mode: BudgetMode = "ask"
    """What happens to a call that would exceed a budget: `hard` refuses it, `ask` asks a person,
    `soft` warns. Source: Zhang 2026, chapter 7.9 (approval is its advice)."""

    budget_warning: Share = 0.8
    """Share of a budget from which each call gets a warning. Source: Zhang 2026, 7.5."""

    backpressure: tuple[tuple[Share, Annotated[int, Field(ge=0, le=600_000)]], ...] = BACKPRESSURE
    """By share of a budget, how many milliseconds a call waits; empty never waits."""

    prices: dict[str, dict[PriceKind, NotNegative]] = Field(default={})
    """Cost of a million tokens by model name: `input` and `output`, and `cache_read` and
    `cache_creation` if they differ from `input`."""

    fallback_model: str | None = None
    """Name of the model that answers while the first one's circuit is open; `None` for none."""

    parallel_calls: Annotated[int, Field(ge=1, le=10_000)] = 16
    """Calls of one process that a model gets at once. Of more, 256 wait in a queue, each for at most a
    minute; others are refused."""

    @field_validator("prices")
    @classmethod
    def _prices_whole(
        cls, prices: dict[str, dict[PriceKind, float]]
    ) -> dict[str, dict[PriceKind, float]]:
        for model, kinds in prices.items():
            if not {"input", "output"} <= kinds.keys():
                raise ValueError(f"{model!r} has {sorted(kinds)}; give its input and its output")
        return prices


class ContextSettings(BaseSettings):
    """What a model call is sent of a long conversation."""

    strategy: Literal["three_stage", "summarizing", "sliding", "null"] = "three_stage"
    """What contexts leave out within each topic. A summary replaces the middle (`three_stage`) or the
    oldest messages (`summarizing`); `sliding` leaves out the oldest messages, `null` nothing."""

    context_window_tokens: Annotated[int, Field(ge=1_000)] | None = None
    """Most tokens of a request and its answer together; `None` reads the model's own profile, else
    200,000. Source: strands-agents 1.62.0, `DEFAULT_CONTEXT_WINDOW_LIMIT`."""

    window_messages: Annotated[int, Limits(5, 200)] = 40
    """Most messages of a `sliding` context, and of a `three_stage` one if a source sets this number.
    Brought into 5 to 200. Sources: strands-agents (40); Shannon, history window (the limits)."""

    primers: Annotated[int, Field(ge=0, le=1000)] = 3
    """First messages that are always included. Source: Zhang 2026, chapter 7.4."""

    recents: Annotated[int, Field(ge=0, le=1000)] = 20
    """Newest messages that are never compacted. Source: Zhang 2026, chapter 7.4."""

    trigger_ratio: Annotated[Finite, Limits(0.1, 0.95)] = 0.75
    """Share of the window, or of a smaller budget of a task or agent, at which `three_stage`
    summarizes. Brought into 0.1 to 0.95. Source: Zhang 2026, chapter 7.3."""

    target_ratio: Annotated[Finite, Limits(0.1, 0.9)] = 0.375
    """Share of the same window that `three_stage` leaves. Brought into 0.1 to 0.9. Source: Zhang
    2026, chapter 7.3."""

    summary_ratio: Annotated[Finite, Limits(0.1, 0.8)] = 0.3
    """Share of the messages that `summarizing` summarizes at once, brought into 0.1 to 0.8. Source:
    strands-agents."""

    preserve_recent_messages: Annotated[int, Field(ge=0, le=1000)] = 10
    """Newest messages that `summarizing` never summarizes. Source: strands-agents."""

    per_turn: bool | Annotated[int, Field(ge=1)] | None = None
    """When the strategy plans: `false` at the end of a turn, `true` also before each model call, N
    before every Nth. `None` is the strategy's own default. Source: strands-agents."""

    summaries: Literal["model", "local"] = "model"
    """`model` asks the summarizer, or the answering chat model; `local` asks neither and quotes the
    questions and the most important sentences of the answers."""

    truncate_results: bool = True
    """Whether `sliding` shortens tool results first if a request is too long. Source: strands-agents."""

    summary_system_prompt: str | None = None
    """Instructions for the summarizer; `None` uses those of the prompts. Source: strands-agents."""

    summary_tokens: Annotated[int, Field(ge=20, le=100_000)] = 400
    """Longest summary, in tokens. Source: Zhang 2026, chapter 7.4."""

    summary_temperature: Annotated[float, Field(ge=0, le=2, allow_inf_nan=False)] | None = 0.2
    """Sent with a summary; `None` sends none. Source: Zhang 2026, chapter 7.4."""

    recall_tokens: Annotated[int, Field(ge=0)] = 1_500
    """Most tokens of recalled messages in one context; 0 turns automatic recall off."""

    memory_tools: Literal["auto", "on", "off"] = "auto"
    """Whether the model gets tools that fetch earlier messages; `auto` if it has other tools."""


class JudgingSettings(BaseSettings):
    """What a judge decides, what follows from it, and how topics are recognized."""

    judging: Literal["model", "local", "off"] = "model"
    """`model` asks a judge, `local` uses only the local checks, `off` leaves all answers unscored."""

    judge_scale: Scale = (0.0, 1.0)
    """The worst and the best number of the judges, such as 1 and 5; their request names it. A number
    outside it is unscored. Thresholds and stored scores are from 0 to 1 with any scale."""

    quality_threshold: Share = 0.5
    """An answer below it fails and is rolled back. Source: LayerX's article on forgetting (2025)."""

    quality_thresholds: dict[Language, Share] = Field(default={})
    """By language (`en`, `ja`), instead of `quality_threshold`; `unsay calibrate --write` sets them. A
    `quality_threshold` from a stronger source, such as a run's context over the file, replaces them.
    `checkpoint_threshold` stays, and of the answers that reach it only those that pass become one."""

    judge_rubric: tuple[str, ...] = ()
    """Your own criteria, one sentence each, which the judge applies beside its own."""

    judge_share: Share = 1.0
    """Most tokens of the judge over those of the answers; 1 judges every answer. Beyond a lower share,
    answers that the local checks find plainly good are unscored and counted as skipped, from the
    fifth turn on."""

    judge_panel: tuple[str, ...] = ()
    """Names of further judges; one named several times is asked several times. The median of all scores
    counts; without a majority for one outcome the answer is unscored."""

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

    on_topic_change: Literal["summarize", "keep", "delete"] = "summarize"
    """What contexts show of a topic that was left: a summary; a summary and the newest
    four messages of the topic left last; or nothing. Source: LayerX 2025 (summarize or delete)."""

    judge_timeout_seconds: Seconds = 30.0
    """Time after which a judge counts as silent and the answer stays unscored."""

    @property
    def judge_labels_topics(self) -> bool:
        """Whether the judge also says what the topic is, in the call for its verdict.

        For an answer that it skips, the local detector's decision stays.
        """
        return self.topics == "model" and self.judging == "model"
