"""`Context`: what one run may override."""

from collections.abc import Mapping
from typing import Literal, cast

from typing_extensions import TypedDict

from unsay.types import CommandName

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
    kept_messages: int | None
    session_budget_tokens: int | None
    task_budget_tokens: int | None
    agent_budget_tokens: int | None
    budget_mode: BudgetMode | None
    budget_warning: float | None
    truncate_results: bool | None
    summary_system_prompt: str | None
    summary_pause_turns: int | None
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
    """Other names of the settings above; see `unsay.presets.ALIASES` and `BUDGET_ALIASES`."""

    labels: dict[str, str] | None
    """Words of the host's own, kept with the run and its events, to search by."""

    parent_run_id: str | None
    """The run that started this one; `None` where a person did."""


def context_of(value: object) -> Context:
    """Return what a host passed as the context of a run; empty if that is not a mapping."""
    return cast("Context", value) if isinstance(value, Mapping) else Context()
