"""Where a turn goes after process_message."""

from typing import Any

import pytest

from unsay.graph.builder import after_process_message
from unsay.history.checkpoints import make_checkpoint

MARK = make_checkpoint(message_id="m", turn=1, score=0.9, topic="", reason="score", created_at="")


@pytest.mark.parametrize(
    ("state", "following"),
    [
        pytest.param({"turn": {"checkpoints_due": []}}, "continue", id="nothing due"),
        pytest.param(
            {"should_rollback": False, "turn": {"checkpoints_due": []}},
            "continue",
            id="no rollback",
        ),
        pytest.param(
            {"should_rollback": False, "turn": {"checkpoints_due": [MARK]}},
            "checkpoint",
            id="a checkpoint",
        ),
        pytest.param(
            {"should_rollback": True, "turn": {"checkpoints_due": []}}, "rollback", id="a rollback"
        ),
        pytest.param(
            {"should_rollback": True, "turn": {"checkpoints_due": [MARK]}},
            "rollback",
            id="a rollback before a checkpoint",
        ),
    ],
)
def test_the_state_alone_decides(state: Any, following: str) -> None:
    """Back when a rollback is flagged, on to a checkpoint when one was earned, else the end."""
    assert following == after_process_message(state)
