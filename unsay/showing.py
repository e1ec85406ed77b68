"""Settings of what models are shown: strategies, recall, and the tools of memory."""

from typing import Annotated, Literal

from pydantic import Field
from pydantic_settings import BaseSettings

from unsay.spending import Share


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
