"""What two hundred threads looked like after each line is what they look like now."""

import json
from typing import Any

import pytest

from tests.promises.recording import load, play
from tests.tiers import sampled

RECORDED = load()


@pytest.mark.parametrize("number", sampled(range(len(RECORDED)), every=50, full=4))
def test_a_recorded_thread_looks_as_it_did(number: int) -> None:
    """Requests, notices, transcript, timeline and branches are the same after every line."""
    recorded = RECORDED[number]
    scenes: Any = json.loads(json.dumps(play(recorded)))

    assert [scene["line"] for scene in recorded["scenes"]] == [scene["line"] for scene in scenes]
    for old, new in zip(recorded["scenes"], scenes, strict=True):
        assert old == new, old["line"]
