"""The settings of budgets, prices, and the calls that one model gets at once."""

from typing import Annotated, Literal

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings

from unsay.run_context import BudgetMode
from unsay.setting_types import NotNegative, Seconds, Share

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

    circuit_failures: Annotated[int, Field(ge=1, le=1000)] = 5
    """Failures in a row after which a model gets no calls for `circuit_reset_seconds`."""

    circuit_reset_seconds: Seconds = 60.0
    """Time in which a model that failed too often gets no calls; then a few calls test it."""

    circuit_probes: Annotated[int, Field(ge=1, le=100)] = 1
    """Calls that test such a model. If all of them succeed, it gets all calls again."""

    parallel_calls: Annotated[int, Field(ge=1, le=10_000)] = 16
    """Calls of one process that a model gets at once; more wait in a queue."""

    waiting_calls: Annotated[int, Field(ge=0, le=100_000)] = 256
    """Longest queue; further calls are refused."""

    call_wait_seconds: Seconds = 60.0
    """Time in the queue after which a call is refused."""

    @field_validator("prices")
    @classmethod
    def _prices_whole(
        cls, prices: dict[str, dict[PriceKind, float]]
    ) -> dict[str, dict[PriceKind, float]]:
        for model, kinds in prices.items():
            if not {"input", "output"} <= kinds.keys():
                raise ValueError(f"{model!r} has {sorted(kinds)}; give its input and its output")
        return prices
