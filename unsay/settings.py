"""All settings, where they are read from, and which of them one run may override.

Sources, the strongest first: a run's `Context`, arguments, the preset that the
strongest of the sources names, the environment (`UNSAY_…`), the file `unsay.toml`
in the working directory, the defaults below. Source: Zhang 2026, chapter 7.7 (request before preset before environment before file).
"""

import logging
from collections.abc import Mapping
from os import environ
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    Field,
    PrivateAttr,
    field_validator,
    model_validator,
)
from pydantic_settings import (
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from unsay.errors import ConfigurationError
from unsay.judging_settings import JudgingSettings, Positive, Share
from unsay.presets import (
    ALIASES,
    BUDGET_ALIASES,
    DEBUGGING_WINDOW,
    aliases_in,
    hint,
    merged,
    refuse_misspelt,
    refusing,
    without_aliases,
)
from unsay.run_context import BudgetMode, Context, context_of
from unsay.types import CommandName, Language

__all__ = ["BudgetMode", "Context", "Settings", "context_of", "load_settings"]

NotNegative = Annotated[float, Field(ge=0.0, allow_inf_nan=False)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
PriceKind = Literal["input", "output", "cache_read", "cache_creation"]

BACKPRESSURE = ((0.8, 50), (0.85, 300), (0.9, 750), (0.95, 1_500), (1.0, 5_000))
"""Source: Zhang 2026, chapter 7.6; the last step is Shannon's `MAX_BACKPRESSURE_DELAY_MS`."""

LOG = logging.getLogger(__name__)

HOME = "home"
"""`UNSAY_HOME`, where the command line keeps its database, is not a setting."""


def _limited(name: str, least: float, most: float) -> AfterValidator:
    """Return a validator that replaces a value below `least` or above `most` by that limit.

    It logs a warning. `name` is the setting's.
    """

    def limit(value: float) -> float:
        used = min(max(value, least), most)
        if used != value:
            LOG.warning(
                "name=%s value=%r used=%r a setting is outside its limits", name, value, used
            )
        return used

    return AfterValidator(limit)


class Settings(JudgingSettings):
    """All settings; immutable once read."""

    model_config = SettingsConfigDict(env_prefix="UNSAY_", frozen=True, extra="forbid")

    # Limits on cost; `None` is no limit. A task budget starts with each task, the agents' within it.
    session_budget_tokens: Annotated[int, Field(ge=1)] | None = None
    task_budget_tokens: Annotated[int, Field(ge=1)] | None = None
    agent_budget_tokens: Annotated[int, Field(ge=1)] | None = None
    session_budget_cost: Positive | None = None
    """In the currency of `prices`, as are the two below."""

    task_budget_cost: Positive | None = None
    agent_budget_cost: Positive | None = None
    budget_mode: BudgetMode = "ask"
    """What happens to a call that would exceed a budget: `hard` refuses it, `ask` asks a person,
    `soft` warns. Source: Zhang 2026, chapter 7.9 (approval is its advice)."""

    budget_warning: Share = 0.8
    """Share of a budget from which each call gets a warning. Source: Zhang 2026, 7.5."""

    backpressure: tuple[tuple[Share, Annotated[int, Field(ge=0, le=600_000)]], ...] = BACKPRESSURE
    """By share of a budget, how many milliseconds a call waits; empty never waits."""

    prices: dict[str, dict[PriceKind, NotNegative]] = Field(default={})
    """Cost of a million tokens by model name: `input`, `output`; `cache_…` where it is not `input`."""

    fallback_model: str | None = None
    """Name of the model that answers while the first one's circuit is open; `None` for none."""

    circuit_failures: Annotated[int, Field(ge=1, le=1000)] = 5
    """Failures in a row after which a model gets no calls for `circuit_reset_seconds`."""

    circuit_reset_seconds: Positive = 60.0
    circuit_probes: Annotated[int, Field(ge=1, le=100)] = 1
    """Probes that must succeed before such a model gets all calls again."""

    parallel_calls: Annotated[int, Field(ge=1, le=10_000)] = 16
    """Calls of one process that a model gets at once; more wait in a queue."""

    waiting_calls: Annotated[int, Field(ge=0, le=100_000)] = 256
    """Longest queue; further calls are refused."""

    call_wait_seconds: Positive = 60.0
    """Time in the queue after which a call is refused."""

    # The context of a model call.
    strategy: Literal["three_stage", "summarizing", "sliding", "null"] = "three_stage"
    """What is left out within each topic: the middle, replaced by a summary; the oldest messages,
    replaced by a summary; the oldest messages; nothing."""

    context_window_tokens: Annotated[int, Field(ge=1_000)] | None = None
    """Most tokens of a request and its answer together; `None` reads the model's own profile, else
    200,000. Source: strands-agents 1.62.0, `DEFAULT_CONTEXT_WINDOW_LIMIT`."""

    window_messages: Annotated[int, _limited("window_messages", 5, 200)] = 40
    """Most messages of a `sliding` context, and of a `three_stage` one if a source sets this number.
    Brought into 5 to 200. Sources: strands-agents (40); Shannon, history window (the limits)."""

    primers: Annotated[int, Field(ge=0, le=1000)] = 3
    """First messages that are always included. Source: Zhang 2026, chapter 7.4."""

    recents: Annotated[int, Field(ge=0, le=1000)] = 20
    """Newest messages that are never compacted. Source: Zhang 2026, chapter 7.4."""

    trigger_ratio: Annotated[Finite, _limited("trigger_ratio", 0.1, 0.95)] = 0.75
    """Share of the window, or of a smaller budget of a task or agent, at which `three_stage`
    summarizes. Brought into 0.1 to 0.95. Source: Zhang 2026, chapter 7.3."""

    target_ratio: Annotated[Finite, _limited("target_ratio", 0.1, 0.9)] = 0.375
    """What `three_stage` leaves of it, brought into 0.1 to 0.9. Source: Zhang 2026, chapter 7.3."""

    summary_ratio: Annotated[Finite, _limited("summary_ratio", 0.1, 0.8)] = 0.3
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

    summary_pause_turns: Annotated[int, Field(ge=0, le=1000)] = 10
    """Turns after a failed summary in which the summarizer is not asked again."""

    recall_tokens: Annotated[int, Field(ge=0)] = 1_500
    """Most tokens of recalled messages in one context; 0 turns automatic recall off."""

    recall_share: Share = 0.5
    """Most of the room left by a compaction that recalled messages may take."""

    recall_floor: Share = 0.25
    """Least relevance of a recalled message, as a share of the best one's. Source: own measurement."""

    recall_gain: Annotated[float, Field(ge=0, le=10)] = 0.75
    """Least relevance of a recalled message, as a multiple of the best included one's. Source: own."""

    memory_tools: Literal["auto", "on", "off"] = "auto"
    """Whether the model may fetch earlier messages itself: `auto` where it has tools of the user's."""

    # Models, judging, rollbacks and storage.
    model: str | None = None
    """Name of the answering model for `langchain-openai`; `None` when one is passed."""

    judge_model: str | None = None
    """Name of the judge; `None` lets the answering model judge itself."""

    summarizer_model: str | None = None
    """Name of the model that summarizes; `None` lets the answering model summarize."""

    title_model: str | None = None
    """Name of the model that names threads; `None` takes the words of the first question."""

    stream: Literal["live", "held"] = "live"
    """`live` streams drafts as they are written; `held` sends an answer once it has passed."""

    language: Literal["auto", "en", "ja"] = "auto"
    """Language of prompts and notices; `auto` follows the user's newest message."""

    commands: Literal["all", "none"] | frozenset[CommandName] = "all"
    """The slash commands that users may send: `all`, `none` or a list of names. Another command is
    answered with a notice; it is not carried out, and no model is sent it."""

    system_prompt: str | None = None
    """First message of every context; `None` adds none."""

    part_timeout_seconds: Positive = 30.0
    """Time after which your detector, strategy or embeddings count as failed."""

    model_timeout_seconds: Positive = 120.0
    """Limit of one request to a model that unsay itself made from a name."""

    thread_wait_seconds: NotNegative = 30.0
    """How long a turn waits for the thread's other writers before it is refused; 0 asks once."""

    lease_seconds: Annotated[float, Field(ge=0.5, allow_inf_nan=False)] = 20.0
    """Time without renewal after which a writer loses its thread. Shorter than
    `thread_wait_seconds`, so that a waiting writer outlasts one that died elsewhere."""

    max_tool_steps: Annotated[int, Field(ge=1, le=100)] = 8
    """Most rounds of one draft from the model to its tools and back."""

    max_tool_result_bytes: Annotated[int, Field(ge=1_000)] = 65_536
    """Of a larger tool result the context holds the beginning; the transcript keeps it whole.
    Source: Goa-AI, MaxToolResultContentBytes."""

    max_message_chars: Annotated[int, Field(ge=1)] = 200_000
    """Longest accepted message."""

    live_messages: Annotated[int, Field(ge=2)] = 200
    """Most messages of a thread in the state. Older compacted ones are offloaded to the store and
    loaded again when needed. Messages of the current topic stay until it alone has twice as many."""

    history_limit: Annotated[int, Field(ge=0, le=1000)] = 20
    """Entries of `state_history` that are kept."""

    checkpoint_limit: Annotated[int, Field(ge=1, le=1000)] = 32
    """Unnamed checkpoints that are kept: the whole newest half, older ones ever sparser. Of named
    ones 200 are kept."""

    preset: str | None = None
    """`chat`, `debugging`, `long_task`, or a name under `presets`; `None` sets nothing."""

    presets: dict[str, dict[str, Any]] = Field(default={})
    """Settings by the name of a preset: new presets, or other values for built-in ones."""

    _below: dict[str, Any] = PrivateAttr(default={})
    """Values of the file, overridden by the environment's."""

    _given: dict[str, Any] = PrivateAttr(default={})
    """Arguments, overridden by a run's."""

    def __init__(self, *unnamed: Any, **given: Any) -> None:
        """Read the file and the environment, and put the preset and the arguments over them."""
        if unnamed:
            raise ConfigurationError(f"Settings: give each value with its name, got {unnamed[0]!r}")
        kind = type(self)
        with refusing(type(self).model_fields):
            file = TomlConfigSettingsSource(kind, toml_file="unsay.toml")
            variables = {**aliases_in(environ, "UNSAY_"), **EnvSettingsSource(kind)()}
            self._read({**without_aliases(file()), **variables}, without_aliases(given))

    def _read(self, below: dict[str, Any], given: dict[str, Any]) -> None:
        """Set the values; the sources are kept, so that `for_run` can merge them again."""
        super().__init__(**merged(below, given))
        self._below, self._given = below, given

    @field_validator("prices")
    @classmethod
    def _prices_whole(
        cls, prices: dict[str, dict[PriceKind, float]]
    ) -> dict[str, dict[PriceKind, float]]:
        for model, kinds in prices.items():
            if not {"input", "output"} <= kinds.keys():
                raise ValueError(f"{model!r} has {sorted(kinds)}; give its input and its output")
        return prices

    @field_validator("presets")
    @classmethod
    def _presets_of_settings(cls, presets: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        names = cls.model_fields.keys() - {"preset", "presets"}
        named = {preset: without_aliases(values) for preset, values in presets.items()}
        for preset, values in named.items():
            for name in values.keys() - names:
                raise ValueError(
                    f"preset {preset!r} sets {name!r}, which is no setting{hint(name, names)}"
                )
        return named

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        costs = (self.session_budget_cost, self.task_budget_cost, self.agent_budget_cost)
        if any(cost is not None for cost in costs) and not self.prices:
            raise ValueError("a budget of cost needs prices; give those of the models")
        quality = max(self.quality_threshold, *self.quality_thresholds.values(), 0.0)
        if quality > self.checkpoint_threshold:
            if "checkpoint_threshold" in self.model_fields_set:
                raise ValueError(
                    f"quality_threshold {quality!r} must not be above checkpoint_threshold "
                    f"{self.checkpoint_threshold!r}; raise the second as well, or lower the first"
                )
            # A checkpoint is at least as good as an answer that passes.
            self.__dict__["checkpoint_threshold"] = quality
        if self.target_ratio >= self.trigger_ratio:
            raise ValueError(
                f"target_ratio {self.target_ratio!r} must be below trigger_ratio "
                f"{self.trigger_ratio!r}; lower the first"
            )
        return self

    @classmethod
    def settings_customise_sources(
        cls, *_: Any, **sources: Any
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Read only the arguments, in which `_read` has merged all sources."""
        return (sources["init_settings"],)

    def quality_in(self, language: Language) -> float:
        """Return the score under which an answer in a language fails."""
        return self.quality_thresholds.get(language, self.quality_threshold)

    def allows(self, command: str) -> bool:
        """Return whether users may send a slash command."""
        return self.commands == "all" or command in self.commands

    def for_run(self, context: Context | None) -> "Settings":
        """Return the settings with a run's overrides; these settings themselves if it has none."""
        names = {*Settings.model_fields, *ALIASES, *BUDGET_ALIASES, DEBUGGING_WINDOW}
        known = Context.__annotations__.keys() & names
        given = {name: context.get(name) for name in known} if context else {}
        overrides = {name: value for name, value in given.items() if value is not None}
        if not overrides:
            return self
        with refusing(type(self).model_fields):
            return _RunSettings(self._below, {**self._given, **without_aliases(overrides)})


class _RunSettings(Settings):
    """Settings of one run; reading the file again would block an event loop."""

    def __init__(self, below: dict[str, Any], given: dict[str, Any]) -> None:
        self._read(below, given)


def load_settings(explicit: Mapping[str, Any] | Settings | None = None) -> Settings:
    """Return the settings from all sources; loaded ones are returned as they are.

    Raises:
        ConfigurationError: A setting is unknown or impossible, or the file cannot be read.
    """
    if isinstance(explicit, Settings):
        return explicit
    names = [*Settings.model_fields, *ALIASES, *BUDGET_ALIASES, DEBUGGING_WINDOW, HOME]
    refuse_misspelt(environ, names, prefix=Settings.model_config["env_prefix"])
    settings = Settings(**dict(explicit or {}))
    # A bad preset must fail here, and not in the first run that names it.
    for name in settings.presets:
        try:
            settings.for_run(Context(preset=name))
        except ConfigurationError as error:
            raise ConfigurationError(f"Preset {name!r}: {error}") from error
    return settings
