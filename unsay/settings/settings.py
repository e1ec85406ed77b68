"""All settings, where they are read from, and which of them one run may override.

Sources, the strongest first: a run's `Context`, arguments, the preset that the
strongest of the sources names, the environment (`UNSAY_…`), the file `unsay.toml`
in the working directory, the defaults below. Source: Zhang 2026, chapter 7.7 (request before preset before environment before file).
"""

from collections.abc import Mapping
from os import environ
from os.path import abspath
from types import MappingProxyType
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import Field, PrivateAttr, ValidationInfo, field_validator, model_validator
from pydantic_settings import (
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from unsay.arguments import hint
from unsay.errors import ConfigurationError
from unsay.settings.groups import (
    MOST_SECONDS,
    BudgetMode,
    BudgetSettings,
    Context,
    ContextSettings,
    JudgingSettings,
    NotNegative,
    Seconds,
    context_of,
)
from unsay.settings.presets import (
    OTHER_NAMES,
    aliases_in,
    merged,
    preset_values,
    refuse_misspelt,
    refusing,
    warn_of_misspelt,
    without_aliases,
)
from unsay.types import CommandName, Language

__all__ = ["BudgetMode", "Context", "Settings", "context_of", "load_settings"]

HOME = "home"
"""`UNSAY_HOME`, where the command line keeps its database, is not a setting."""


Source = Literal["argument", "preset", "environment", "file", "default", "derived"]


class Settings(BudgetSettings, ContextSettings, JudgingSettings):
    """All settings; immutable once read."""

    model_config = SettingsConfigDict(
        env_prefix="UNSAY_", env_ignore_empty=True, frozen=True, extra="forbid"
    )

    model: str | None = None
    """Name of the answering model, such as `gpt-4.1-mini` or `anthropic:claude-sonnet-4-5`; `None` if
    a model object is passed."""

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
    """The slash commands that users may send: `all`, `none` or a list of names. Any other command is
    answered with a notice: it is neither carried out nor sent to a model."""

    system_prompt: str | None = None
    """First message of every context; `None` adds none."""

    model_timeout_seconds: Seconds = 120.0
    """Limit of one request to a model that unsay itself made from a name."""

    thread_wait_seconds: Annotated[NotNegative, Field(le=MOST_SECONDS)] = 30.0
    """How long a turn waits for the thread's other writers before it is refused; 0 asks once."""

    max_tool_steps: Annotated[int, Field(ge=1, le=100)] = 8
    """Most rounds of one draft from the model to its tools and back."""

    live_messages: Annotated[int, Field(ge=2)] = 200
    """Most messages of a thread in the state. Older compacted ones are offloaded to the store and
    loaded again when needed. Messages of the current topic stay until it alone has twice as many."""

    preset: str | None = None
    """`chat`, `debugging`, `long_task`, or a name under `presets`; `None` sets nothing."""

    presets: dict[str, dict[str, Any]] = Field(default={})
    """Settings by the name of a preset: new presets, or other values for built-in ones."""

    _file: dict[str, Any] = PrivateAttr(default={})
    """Values of the file, overridden by the environment's."""

    _variables: dict[str, Any] = PrivateAttr(default={})
    """Values of the environment, overridden by the preset's and the arguments."""

    _given: dict[str, Any] = PrivateAttr(default={})
    """Arguments, overridden by a run's."""

    def __init__(self, *unnamed: Any, **given: Any) -> None:
        """Read the file and the environment, and put the preset and the arguments over them.

        Raises `ConfigurationError` if a setting or a preset is unknown or impossible, or the file is
        there and cannot be read. Misspelt variables are found only by `load_settings`.
        """
        if unnamed:
            raise ConfigurationError(f"Settings: give each value with its name, got {unnamed[0]!r}")
        kind = type(self)
        origins: dict[str, str] = {}
        with refusing(kind.model_fields, origins):
            file = without_aliases(TomlConfigSettingsSource(kind, toml_file="unsay.toml")())
            variables = {**aliases_in(environ, "UNSAY_"), **EnvSettingsSource(kind)()}
            given = without_aliases(given)
            origins |= dict.fromkeys(file, repr(abspath("unsay.toml")))
            origins |= {name: f"the variable UNSAY_{name.upper()}" for name in variables}
            for name in given:
                origins.pop(name, None)
            self._read(file, variables, given)

    def _read(self, file: dict[str, Any], variables: dict[str, Any], given: dict[str, Any]) -> None:
        """Set the values, and keep those of each source, so that `for_run` can merge them again.

        Raises `ConfigurationError` if a preset is unknown or gives a setting two values, pydantic's
        `ValidationError` for another fault: call it within `refusing`.
        """
        preset = preset_values({**file, **variables, **given})
        file = _without_overruled(file, {**variables, **preset, **given})
        variables = _without_overruled(variables, {**preset, **given})
        super().__init__(**merged({**file, **variables}, given))
        self._file, self._variables, self._given = file, variables, given

    @field_validator("*", mode="before")
    @classmethod
    def _no_boolean_as_a_number(cls, value: Any, info: ValidationInfo) -> Any:
        kind = cls.model_fields[info.field_name or ""].annotation
        if isinstance(value, bool) and bool not in (kind, *get_args(kind)):
            raise ValueError("true and false are not values of this setting")
        return value

    @field_validator("commands", mode="before")
    @classmethod
    def _commands_in_a_list(cls, commands: Any) -> Any:
        if isinstance(commands, str) and commands not in ("all", "none"):
            raise ValueError("write 'all', 'none' or a list of commands, such as ['undo']")
        return commands

    @field_validator("presets")
    @classmethod
    def _presets_of_settings(cls, presets: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        names = cls.model_fields.keys() - {"preset", "presets"}
        own_presets = {preset: without_aliases(values) for preset, values in presets.items()}
        for preset, values in own_presets.items():
            for name in values.keys() - names:
                raise ValueError(
                    f"preset {preset!r} sets {name!r}, which is no setting{hint(name, names)}"
                )
        return own_presets

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        costs = (self.session_budget_cost, self.task_budget_cost, self.agent_budget_cost)
        if any(cost is not None for cost in costs) and not self.prices:
            raise ValueError(
                "a budget of cost needs the prices of a million tokens of each model: add prices = "
                '{"gpt-4.1-mini" = {input = …, output = …}} to unsay.toml, or set UNSAY_PRICES in JSON'
            )
        # Those of languages are not compared: only an answer that passes becomes a checkpoint, and
        # what Japanese answers need must not keep English ones from becoming checkpoints.
        quality = self.quality_threshold
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

    def source_of(self, name: str) -> Source:
        """Return where the value of the setting `name` comes from, for `unsay settings`.

        It is the strongest source that sets it; a run's overrides count as `argument`. If none does,
        it is `default`, or `derived` if another setting changed the default.
        """
        preset = preset_values({**self._file, **self._variables, **self._given})
        sources: dict[Source, dict[str, Any]] = {
            "argument": self._given,
            "preset": {key: value for key, value in preset.items() if key != "preset"},
            "environment": self._variables,
            "file": self._file,
        }
        for source, values in sources.items():
            if name in values:
                return source
        is_default = getattr(self, name) == type(self).model_fields[name].default
        return "default" if is_default else "derived"

    def quality_in(self, language: Language) -> float:
        """Return the threshold for answers in a language: a lower score fails.

        Without a value in `quality_thresholds` it is `quality_threshold`.
        """
        return self.quality_thresholds.get(language, self.quality_threshold)

    def allows(self, command: str) -> bool:
        """Return whether users may send a command; with `commands="all"` every name is allowed.

        `command` is its own name without the slash, not one of its other names (`ALIASES`).
        """
        allowed = self.commands
        return allowed == "all" or (allowed != "none" and command in allowed)

    def for_run(self, context: Context | None) -> "Settings":
        """Return the settings with a run's overrides; without any, these settings themselves.

        Keys that no run may override are ignored, since they may be the host's own; one that looks
        like a misspelt setting is a Python warning, once in a process. Raises `ConfigurationError`
        if a value is impossible or does not fit the others.
        """
        if not context:
            return self
        names = frozenset({*Settings.model_fields, *OTHER_NAMES})
        for key in context:
            if key not in Context.__annotations__:
                warn_of_misspelt(str(key), names.union(Context.__annotations__))
        setting_names = Context.__annotations__.keys() & names
        values = {name: context.get(name) for name in setting_names}
        overrides = {name: value for name, value in values.items() if value is not None}
        if not overrides:
            return self
        with refusing(type(self).model_fields):
            overrides = without_aliases(overrides)
            values = {**_without_overruled(self._given, overrides), **overrides}
            # Not `Settings()`: reading the file again would block an event loop.
            settings = Settings.__new__(Settings)
            settings._read(self._file, self._variables, values)
            return settings


def _without_overruled(values: dict[str, Any], stronger: Mapping[str, Any]) -> dict[str, Any]:
    """Return a source's values without thresholds by language if a stronger source sets one for all.

    Otherwise the file that `unsay calibrate` wrote would overrule an argument.
    """
    if "quality_threshold" not in stronger:
        return values
    return {name: value for name, value in values.items() if name != "quality_thresholds"}


SECTIONS: Mapping[str, type] = MappingProxyType(
    {
        "Models, threads and storage": Settings,
        "Context": ContextSettings,
        "Judging, rollbacks and topics": JudgingSettings,
        "Budgets and calls": BudgetSettings,
    }
)
"""The class of each group of settings; for `unsay settings` and the docs."""


def load_settings(explicit: Mapping[str, Any] | Settings | None = None) -> Settings:
    """Return the settings of all sources; `Settings` are returned as they are.

    The strongest source is `explicit`; then come the preset, the environment and the file
    `unsay.toml`, which need not exist.

    Raises:
        ConfigurationError: A setting is unknown, misspelt or impossible, or the file is there and
            cannot be read.
    """
    if isinstance(explicit, Settings):
        return explicit
    names = [*Settings.model_fields, *OTHER_NAMES, HOME]
    refuse_misspelt(environ, names, prefix=Settings.model_config["env_prefix"])
    settings = Settings(**dict(explicit or {}))
    # A bad preset must fail here, and not in the first run that names it.
    for name in settings.presets:
        try:
            settings.for_run(Context(preset=name))
        except ConfigurationError as error:
            raise ConfigurationError(f"Preset {name!r}: {error}") from error
    return settings
