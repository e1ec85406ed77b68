"""The settings of a model call's context: what is left out, summarized and recalled."""

from typing import Annotated, Literal

from pydantic import Field
from pydantic_settings import BaseSettings

from unsay.setting_types import Finite, Limits, Share


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

    summary_pause_turns: Annotated[int, Field(ge=0, le=1000)] = 10
    """Turns after a failed summary in which the summarizer is not asked again."""

    recall_tokens: Annotated[int, Field(ge=0)] = 1_500
    """Most tokens of recalled messages in one context; 0 turns automatic recall off."""

    recall_share: Share = 0.5
    """Most of the room left by a compaction that recalled messages may take."""

    recall_floor: Share = 0.4
    """Least score of a recalled message, as a share of that of the best one; half of this
    for a search by a person or the model. Source: own measurement."""

    recall_gain: Annotated[float, Field(ge=0, le=10)] = 0.6
    """Nothing is recalled unless the words of one message are worth this many times those of the best
    message that the context has anyway. Source: own measurement."""

    memory_tools: Literal["auto", "on", "off"] = "auto"
    """Whether the model gets tools that fetch earlier messages; `auto` if it has other tools."""
