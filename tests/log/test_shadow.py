"""The shadow: what it notices, and that it can fail."""

from collections.abc import Sequence

import pytest

from tests.log.shadow import Difference, Shadow
from unsay import Conversation
from unsay.effects import Steps
from unsay.runtime import Scope
from unsay.testing import ScriptedChat
from unsay.transcript import live
from unsay.types import BranchRef, StoredBranch


def back_and_forth(monkeypatch: pytest.MonkeyPatch, *, lost: int) -> None:
    """Undo a rollback whose branch lost its newest messages."""
    load = live.load_branches

    def shorter(
        ids: Sequence[str], scope: Scope, refs: Sequence[BranchRef]
    ) -> Steps[list[StoredBranch]]:
        branches = yield from load(ids, scope, refs)
        return [{**b, "messages": b["messages"][: len(b["messages"]) - lost]} for b in branches]

    with Conversation(":memory:", model=ScriptedChat(default="An answer.")) as conversation:
        conversation.say("One?")
        conversation.say("Two?")
        conversation.rollback(turns=1)
        monkeypatch.setattr(live, "load_branches", shorter)
        conversation.undo()


def test_a_right_undo_is_that_of_the_model(shadow: Shadow, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each update is a change, and the undo is compared."""
    back_and_forth(monkeypatch, lost=0)
    assert (2, 1, 1) == (
        shadow.counts["step turn"],
        shadow.counts["step rollback"],
        shadow.counts["undo rollback"],
    )


def test_a_wrong_undo_is_noticed(shadow: Shadow, monkeypatch: pytest.MonkeyPatch) -> None:
    """A message that does not return is missing in the transcript, with what belongs to it."""
    back_and_forth(monkeypatch, lost=1)
    differences: list[Difference] = list(shadow.differences)
    shadow.differences.clear()

    assert {"undo"} == {each.verb for each in differences}
    assert "transcript" in {each.name for each in differences}
