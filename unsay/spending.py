"""Settings of what may be spent: budgets, prices, and the way to the models."""

from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator
from pydantic_settings import BaseSettings

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
