"""What two hundred threads looked like after each line is what they look like now."""

import json
from typing import Any

import pytest

from tests.promises.recording import SCRIPTS, load, play
from tests.tiers import sampled


@pytest.mark.parametrize("number", sampled(range(SCRIPTS), every=50, full=4))
def test_a_recorded_thread_looks_as_it_did(number: int) -> None:
    """Requests, notices, transcript, timeline and branches are the same after every line."""
    recorded = load()[number]
    scenes: Any = json.loads(json.dumps(play(recorded)))

    assert [scene["line"] for scene in recorded["scenes"]] == [scene["line"] for scene in scenes]
    for old, new in zip(recorded["scenes"], scenes, strict=True):
        assert old == new, old["line"]
