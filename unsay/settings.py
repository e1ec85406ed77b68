"""What can be set, where it is read from, and what one run may override.

Sources, the strongest first: a run's `Context`, arguments, the preset that the
strongest of the sources names, the environment (`UNSAY_…`), the file `unsay.toml`
in the working directory, the defaults below.

Source: Zhang 2026, chapter 7.7 (request before preset before environment before file).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from os import environ
from tomllib import TOMLDecodeError
from typing import Annotated, Any, Literal, Self

from pydantic import Field, PrivateAttr, ValidationError, field_validator, model_validator
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
    TomlConfigSettingsSource,
)

from unsay.errors import ConfigurationError
from unsay.presets import Layers, hint, refusal, refuse_misspelt
from unsay.types import CheckpointReason

Share = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]
Seconds = Annotated[float, Field(gt=0.0, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0.0, allow_inf_nan=False)]
Price = Annotated[float, Field(ge=0.0, allow_inf_nan=False)]
PriceKind = Literal["input", "output", "cache_read", "cache_creation"]
BudgetMode = Literal["hard", "soft", "ask"]

BACKPRESSURE = ((0.8, 50), (0.85, 300), (0.9, 750), (0.95, 1_500), (1.0, 5_000))
"""Source: Zhang 2026, chapter 7.6; the last step is Shannon's `MAX_BACKPRESSURE_DELAY_MS`."""


class Spending(BaseSettings):
    """The part of the settings that limits what models cost and how hard they are pressed."""

    session_budget_tokens: Annotated[int, Field(ge=1)] | None = None
    """Most tokens of a whole conversation; `None` is no limit."""

    task_budget_tokens: Annotated[int, Field(ge=1)] | None = None
    """Most tokens of one task; it starts anew with the next. `None` is no limit."""

    agent_budget_tokens: Annotated[int, Field(ge=1)] | None = None
    """Most tokens of each agent within a task; `None` is no limit."""

    session_budget_cost: Positive | None = None
    """Most that a whole conversation costs, in the currency of `prices`; `None` is no limit."""

    task_budget_cost: Positive | None = None
    """Most that one task costs; `None` is no limit."""

    agent_budget_cost: Positive | None = None
    """Most that each agent within a task costs; `None` is no limit."""

    budget_mode: BudgetMode = "ask"
    """What happens to a call that a budget has no room for: `hard` refuses it, `ask` waits for a
    person's word, `soft` warns. Source: Zhang 2026, chapter 7.9 (approval is its advice)."""

    budget_warning: Share = 0.8
    """From this share of a budget on a call comes with a warning. Source: Zhang 2026, 7.5."""

    backpressure: tuple[tuple[Share, Annotated[int, Field(ge=0, le=600_000)]], ...] = BACKPRESSURE
    """From each share of a budget on, how many milliseconds a call waits; empty never waits."""

    prices: dict[str, dict[PriceKind, Price]] = Field(default={})
    """By model name, what a million tokens cost: `input` and `output`, and where they differ from
    `input` also `cache_read` and `cache_creation`."""

    fallback_model: str | None = None
    """Name of the model that answers while the first one's circuit is open; `None` is none."""

    circuit_failures: Annotated[int, Field(ge=1, le=1000)] = 5
    """After so many failures in a row a model is left alone."""

    circuit_reset_seconds: Seconds = 60.0
    """For so long; then probes are let through."""

    circuit_probes: Annotated[int, Field(ge=1, le=100)] = 1
    """So many probes must answer before a model serves everybody again."""

    parallel_calls: Annotated[int, Field(ge=1, le=10_000)] = 16
    """How many calls of one process stand before a model at once; more wait in line."""

    waiting_calls: Annotated[int, Field(ge=0, le=100_000)] = 256
    """How many may wait in line; more are refused."""

    call_wait_seconds: Seconds = 60.0
    """How long one waits in line before it is refused."""

    @field_validator("prices")
    @classmethod
    def _prices_whole(
        cls, prices: dict[str, dict[PriceKind, float]]
    ) -> dict[str, dict[PriceKind, float]]:
        for model, kinds in prices.items():
            if not {"input", "output"} <= kinds.keys():
                raise ValueError(f"{model!r} has {sorted(kinds)}; give its input and its output")
        return prices

    @model_validator(mode="after")
    def _costs_have_prices(self) -> Self:
        costs = (self.session_budget_cost, self.task_budget_cost, self.agent_budget_cost)
        if any(cost is not None for cost in costs) and not self.prices:
            raise ValueError("a budget of cost needs prices; give those of the models")
        return self


class Showing(BaseSettings):
    """The part of the settings that says what views hold and what they leave out."""

    strategy: Literal["three_stage", "summarizing", "sliding", "null"] = "three_stage"
    """What views leave out, within each topic where `topics` is `fold`: the middle, for which a
    summary stands; the oldest, for which a summary stands; the oldest; nothing."""

    context_window_tokens: Annotated[int, Field(ge=1_000)] | None = None
    """What a request and its answer may take together; `None` takes what the model's own profile
    says, else 200,000. Source: strands-agents 1.62.0, `DEFAULT_CONTEXT_WINDOW_LIMIT`."""

    window_messages: Annotated[int, Field(ge=5, le=200)] = 50
    """How many of the newest messages a sliding view shows. Source: Shannon, history window."""

    primers: Annotated[int, Field(ge=0, le=1000)] = 3
    """How many of the first messages no view leaves out. Source: Zhang 2026, chapter 7.4."""

    recents: Annotated[int, Field(ge=0, le=1000)] = 20
    """How many of the newest messages are never folded. Source: Zhang 2026, chapter 7.4."""

    recall_tokens: Annotated[int, Field(ge=0)] = 1_500
    """What recalled messages may cost in one view at most; 0 recalls nothing by itself."""

    recall_share: Share = 0.5
    """Of the room that a fold leaves, the share that recalled messages may take at most."""

    recall_floor: Share = 0.25
    """A message is recalled that has at least this share of what the best one has in common with
    the question. Source: own measurement."""

    recall_gain: Annotated[float, Field(ge=0, le=10)] = 0.75
    """A message is recalled unasked that has at least so many times what the best message has in
    common with the question that is shown anyway; 0 compares with nothing. Source: own measurement."""

    memory_tools: Literal["auto", "on", "off"] = "auto"
    """Whether the model may fetch tool results and folded messages itself: `on` with every chat
    model, `auto` where it has tools of the user's anyway."""


HOME = "home"
"""`UNSAY_HOME` is where the command line keeps its database; it is no setting."""


class Settings(Showing, Spending):
    """Everything that can be set; immutable once read."""

    model_config = SettingsConfigDict(env_prefix="UNSAY_", frozen=True, extra="forbid")

    model: str | None = None
    """Name of the answering model for `langchain-openai`; `None` means that one must be given."""

    judge_model: str | None = None
    """Name of the judge; `None` means the answering model judges itself."""

    summarizer_model: str | None = None
    """Name of the model that summarizes folded topics; `None` means the local summary."""

    title_model: str | None = None
    """Name of the model that names threads; `None` means the first question's words."""

    judging: Literal["model", "local", "off"] = "model"
    """`model` asks a judge, `local` only the pre-judge, `off` leaves all answers unscored."""

    judge_format: Literal["auto", "text"] = "auto"
    """`auto` asks for structured output first; `text` reads the judge's words alone."""

    quality_threshold: Share = 0.5
    """An answer that scores under it fails and is taken back. Source: LayerX's article on forgetting (2025)."""

    checkpoint_threshold: Share = 0.8
    """An answer that scores it or more becomes a checkpoint. Source: LayerX 2025, `>= 0.8`."""

    max_rollbacks: Annotated[int, Field(ge=0, le=10)] = 2
    """How often one turn may be taken back before it ends as `on_exhausted` says."""

    on_exhausted: Literal["deliver", "ask"] = "deliver"
    """`deliver` the best draft, flagged; or `ask` a person through an interrupt."""

    stream: Literal["live", "held"] = "live"
    """`live` streams drafts as they are written; `held` sends an answer once it has passed."""

    checkpoint_on: frozenset[CheckpointReason] = frozenset({"score", "task_start"})
    """What makes a checkpoint: an answer's `score`, a `task_start`, an `instruction` that lasts, a
    turn with a `tool_step`, an `error` (the last good point before it). A person's `order` always
    does."""

    topics: Literal["fold", "off"] = "fold"
    """`fold` leaves finished topics out of the model's view; `off` shows the whole record."""

    language: Literal["auto", "en", "ja"] = "auto"
    """Language of prompts and notices; `auto` follows the user's newest words."""

    system_prompt: str | None = None
    """First words of every view; `None` sends no system prompt of ours."""

    judge_timeout_seconds: Seconds = 30.0
    """After it a judge counts as silent and the answer stays unscored."""

    model_timeout_seconds: Seconds = 120.0
    """Limit of one request to a model that unsay itself made from a name."""

    thread_wait_seconds: Annotated[float, Field(ge=0.0, allow_inf_nan=False)] = 30.0
    """How long a turn waits for the thread's other writers before it is refused; 0 asks once."""

    lease_seconds: Annotated[float, Field(ge=0.5, allow_inf_nan=False)] = 20.0
    """After so long without a sign of life a writer has lost its thread. Shorter than
    `thread_wait_seconds`, so that whoever waits outlasts a writer that died elsewhere."""

    max_tool_steps: Annotated[int, Field(ge=1, le=100)] = 8
    """How many times one draft may go from the model to its tools and back."""

    max_tool_result_bytes: Annotated[int, Field(ge=1_000)] = 65_536
    """A larger tool result is shown to the model as a record with its beginning; the record of
    the thread keeps it whole. Source: Goa-AI, MaxToolResultContentBytes."""

    max_message_chars: Annotated[int, Field(ge=1)] = 200_000
    """Longest accepted message, in characters."""

    live_messages: Annotated[int, Field(ge=2)] = 200
    """How many messages of a thread the state holds at most. The oldest folded ones beyond it lie
    in the store: they stay on the record, and come back when somebody goes back to them. Words of
    the topic under way stay until it alone has twice as many."""

    max_judged_entries: Annotated[int, Field(ge=1, le=50)] = 3
    """How many of the newest injected answers one turn judges; older ones stay unscored."""

    max_judged_documents: Annotated[int, Field(ge=1, le=100)] = 10
    """How many of the newest retrieved documents one turn judges; older ones stay unscored."""

    history_limit: Annotated[int, Field(ge=0, le=1000)] = 20
    """How many lines of `state_history` are kept."""

    checkpoint_limit: Annotated[int, Field(ge=1, le=1000)] = 32
    """How many unnamed checkpoints are kept: the newest half all, older ones ever sparser; named
    ones are kept until 200."""

    preset: str | None = None
    """`chat`, `debugging`, `long_task`, or a name under `presets`; `None` sets nothing."""

    presets: dict[str, dict[str, Any]] = Field(default={})
    """Settings by the name of a preset: new ones, or other values for those of ours."""

    _layers: Layers = PrivateAttr(default=Layers(below={}, given={}))

    def __init__(self, **given: Any) -> None:
        """Read the file and the environment, and put the preset and the arguments over them."""
        kind = type(self)
        file = TomlConfigSettingsSource(kind, toml_file="unsay.toml")
        below = {**file(), **EnvSettingsSource(kind)()}
        self._read(Layers(below=below, given=given))

    def _read(self, layers: Layers) -> None:
        super().__init__(**layers.merged())
        self._layers = layers

    @field_validator("presets")
    @classmethod
    def _presets_of_settings(cls, presets: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        names = cls.model_fields.keys() - {"preset", "presets"}
        for preset, values in presets.items():
            for name in values.keys() - names:
                raise ValueError(
                    f"preset {preset!r} sets {name!r}, which is no setting{hint(name, names)}"
                )
        return presets

    @model_validator(mode="after")
    def _thresholds_in_order(self) -> Self:
        if self.quality_threshold > self.checkpoint_threshold:
            raise ValueError(
                f"quality_threshold {self.quality_threshold!r} lies over "
                f"checkpoint_threshold {self.checkpoint_threshold!r}; lower the first"
            )
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Take the values as they were merged."""
        del settings_cls, env_settings, dotenv_settings, file_secret_settings
        return (init_settings,)

    def for_run(self, context: "Context | None") -> "Settings":
        """The settings of one run, with what its context overrides.

        Raises:
            ConfigurationError: An override is impossible.
        """
        names = Context.__dataclass_fields__.keys() & Settings.model_fields.keys()
        given = {name: getattr(context, name) for name in names} if context else {}
        overrides = {name: value for name, value in given.items() if value is not None}
        if not overrides:
            return self
        below, arguments = self._layers.below, self._layers.given
        layers = Layers(below=below, given={**arguments, **overrides})
        return _made(lambda: _RunSettings(layers))


class _RunSettings(Settings):
    """Settings of one run: no file is read anew, which would block an event loop."""

    def __init__(self, layers: Layers) -> None:
        self._read(layers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What one run may override; `None` leaves the setting as it is.

    This is the graph's `context_schema`: servers accept it as plain JSON.
    """

    quality_threshold: float | None = None
    """See `Settings.quality_threshold`."""

    checkpoint_threshold: float | None = None
    """See `Settings.checkpoint_threshold`."""

    max_rollbacks: int | None = None
    """See `Settings.max_rollbacks`."""

    on_exhausted: Literal["deliver", "ask"] | None = None
    """See `Settings.on_exhausted`."""

    stream: Literal["live", "held"] | None = None
    """See `Settings.stream`."""

    judging: Literal["model", "local", "off"] | None = None
    """See `Settings.judging`."""

    language: Literal["auto", "en", "ja"] | None = None
    """See `Settings.language`."""

    system_prompt: str | None = None
    """See `Settings.system_prompt`."""

    preset: str | None = None
    """See `Settings.preset`."""

    window_messages: int | None = None
    """See `Settings.window_messages`."""

    primers: int | None = None
    """See `Settings.primers`."""

    recents: int | None = None
    """See `Settings.recents`."""

    session_budget_tokens: int | None = None
    """See `Settings.session_budget_tokens`."""

    task_budget_tokens: int | None = None
    """See `Settings.task_budget_tokens`."""

    agent_budget_tokens: int | None = None
    """See `Settings.agent_budget_tokens`."""

    budget_mode: BudgetMode | None = None
    """See `Settings.budget_mode`."""

    labels: dict[str, str] | None = None
    """Words of the host's own, kept with the run and its events, to search by."""

    parent_run_id: str | None = None
    """The run that started this one; `None` where a person did."""


def load_settings(explicit: Mapping[str, Any] | Settings | None = None) -> Settings:
    """The settings from all sources.

    Args:
        explicit: Arguments that win over every other source; settings that
            were loaded already are returned as they are.

    Raises:
        ConfigurationError: A key is unknown or a value impossible, the message
            names each of them; or the file or a variable cannot be read.
    """
    if isinstance(explicit, Settings):
        return explicit
    names = [*Settings.model_fields, HOME]
    refuse_misspelt(environ, names, prefix=Settings.model_config["env_prefix"])
    settings = _made(lambda: Settings(**dict(explicit or {})))
    for name in settings.presets:
        try:
            settings.for_run(Context(preset=name))
        except ConfigurationError as error:
            raise ConfigurationError(f"Preset {name!r}: {error}") from error
    return settings


def _made(make: Callable[[], Settings]) -> Settings:
    try:
        return make()
    except ValidationError as error:
        raise refusal(error, Settings.model_fields) from error
    except SettingsError as error:
        raise ConfigurationError(
            f"These settings cannot be used: {error}; write it as JSON"
        ) from error
    except (TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise ConfigurationError(f"The file 'unsay.toml' cannot be read: {error}") from error


def context_of(value: object) -> Context | None:
    """A run's context, however the host handed it over.

    Args:
        value: `None`, a mapping, or the dataclass; keys of other libraries are
            left alone.
    """
    if value is None or isinstance(value, Context):
        return value
    if isinstance(value, Mapping):
        known = {key: value[key] for key in Context.__dataclass_fields__ if key in value}
        return Context(**known)
    return None
