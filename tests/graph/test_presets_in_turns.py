"""Each number of each preset has an effect on what a model is sent, or on what the state holds."""

from typing import Any

import pytest

from tests.graph.kit import make, say
from unsay.messages.content import text_of
from unsay.settings.presets import PRESETS
from unsay.testing import ScriptedDetector

TURNS = 55  # more messages than the widest window of a preset
ANSWER = " ".join(f"word{position}" for position in range(60))
LOW = {
    "window_messages": 10,
    "agent_budget_tokens": 2_000,
    "task_budget_tokens": 2_000,
    "primers": 0,
    "recents": 4,
    "live_messages": 10,
}


def requests_and_size(preset: str, **changed: int) -> tuple[list[list[str]], int]:
    """What the model was sent in each turn, and how many messages the state has at the end."""
    requests: list[list[str]] = []

    def model(messages: list[Any]) -> str:
        requests.append([text_of(message)[:40] for message in messages])
        return f"Answer {len(requests)}. {ANSWER}"

    fixed = {
        "summaries": "local",
        "recall_tokens": 0,
        "budget_mode": "soft",
        "judging": "off",
        "backpressure": [],
    }
    graph = make(
        model,
        detector=ScriptedDetector(),
        settings={**fixed, "preset": preset, **changed},
    )
    state = say(graph, *(f"Question {number}?" for number in range(TURNS)))
    return requests, len(state["messages"])


@pytest.mark.full
@pytest.mark.parametrize(
    ("preset", "name"),
    [
        pytest.param(preset, name, id=f"{preset} {name}")
        for preset, values in PRESETS.items()
        for name in values
    ],
)
def test_each_number_of_a_preset_has_an_effect(preset: str, name: str) -> None:
    """With another number the same conversation has other requests, or another state."""
    assert requests_and_size(preset) != requests_and_size(preset, **{name: LOW[name]})
