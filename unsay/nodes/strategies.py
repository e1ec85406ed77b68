"""Which strategy plans the views, and how large the window is."""

from typing import Any

from langchain_core.runnables import Runnable

from unsay.context.base import Strategy, rhythm_of
from unsay.context.composed import Composed
from unsay.context.null import Null
from unsay.context.sliding import SlidingWindow
from unsay.context.summarizing import Summarizing
from unsay.context.three_stage import ThreeStage
from unsay.context.topic_scoped import TopicScoped
from unsay.nodes.usage import inner_of
from unsay.services import Scope
from unsay.settings import Settings


def strategy_of(scope: Scope) -> Strategy:
    """What plans the views: within each topic, where topics are folded."""
    chosen = scope.services.strategy or _named(scope.settings)
    if scope.settings.topics == "off" or isinstance(chosen, TopicScoped):
        return chosen
    return TopicScoped(within=chosen)


def plans_at_end(strategy: Strategy) -> bool:
    """Whether a turn's end is another moment for it than the beginning of the next."""
    if isinstance(strategy, Composed):
        return any(plans_at_end(each) for each in strategy.strategies)
    if isinstance(strategy, TopicScoped):
        return plans_at_end(strategy.within)
    return rhythm_of(strategy) is not True


def window_of(model: Runnable[Any, Any] | None) -> int | None:
    """The window as the model's own profile tells it; `None` where it has none."""
    profile = None if model is None else getattr(inner_of(model), "profile", None)
    tokens = (profile or {}).get("max_input_tokens")
    return tokens if isinstance(tokens, int) and tokens > 0 else None


def _named(settings: Settings) -> Strategy:
    if settings.strategy == "three_stage":
        return ThreeStage(primers=settings.primers, recents=settings.recents)
    if settings.strategy == "sliding":
        return SlidingWindow(window_size=settings.window_messages)
    return Summarizing() if settings.strategy == "summarizing" else Null()
