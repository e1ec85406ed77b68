"""The same orders have the same effect, whichever door they come through."""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, seed, settings
from hypothesis import strategies as st

from tests.graph.doors import DOORS, Told

QUESTIONS = ("What of castle", "NEW: What of lake", "BACK: What of castle")
COMMANDS = (
    *("/undo", "/undo", "/undo", "/redo", "/redo", "/restore", "/retry"),
    *("/rollback", "/rollback 1", "/rollback 2", "/rollback a", "/rollback nowhere"),
    *("/remove 1", "/remove 2", "/edit 1 What of lake", "/edit 2 What of sea"),
    *("/checkpoint", "/checkpoint a", "/checkpoint b", "/task work"),
    *("/pin", "/pin 1", "/unpin", "/unpin 1", "/forget 1", "/forget 2", "/forget 1-2", "/same"),
    *("/compact", "/compact 1", "/good 1", "/bad 2 too short", "/recall castle"),
    *("/branches", "/checkpoints", "/forgotten", "/timeline", "/help"),
)
LINES = st.one_of(st.sampled_from(QUESTIONS), st.sampled_from(COMMANDS), st.sampled_from(COMMANDS))
SEQUENCES = st.lists(LINES, min_size=12, max_size=12)

EXAMPLES = settings().max_examples
PARTS = 1 if EXAMPLES < 60 else 4
SIZE = settings(max_examples=3 if PARTS == 1 else min(EXAMPLES, 500) // PARTS)
"""How many sequences a part has; each is carried out through all doors."""


def with_number(line: str, number: int) -> str:
    """Return a line in which a question is unlike all others."""
    return f"{line}, {number}?" if "What of" in line else line


def doors_agree(answers: Sequence[Told]) -> bool:
    """Return whether the doors said the same, as far as they said it."""
    refusals = {answer.refusal for answer in answers} - {None}
    notices = {answer.notice for answer in answers} - {None}
    return len(refusals) < 2 and len(notices) < 2


@pytest.mark.hypothesis
@pytest.mark.timeout(7200)
@pytest.mark.sample(every=1)
@pytest.mark.parametrize("part", range(PARTS))
def test_the_doors_agree(part: int) -> None:
    """Methods, typed lines, a host's graph with and without flags, and the shell do the same."""

    @seed(part)
    @SIZE
    @given(lines=SEQUENCES)
    @example(lines=["/checkpoint work", "/checkpoint", "NEW: What of lake", "/remove 2", "/same"])
    @example(lines=["/undo", "NEW: What of lake", "/remove 1", "/undo", "/rollback a", "/redo"])
    def agree(lines: list[str]) -> None:
        check_doors(lines)

    agree()


def check_doors(lines: Sequence[str]) -> None:
    """Carry the lines out through each door, and compare the threads after every line."""
    with TemporaryDirectory() as folder, ExitStack() as stack:
        doors = [door(Path(folder) / "talk.db") for door in DOORS]
        for door in doors:
            stack.callback(door.close)
        for number, line in enumerate(["What of mill", *lines]):
            answers = [door.carry_out(with_number(line, number)) for door in doors]
            assert doors_agree(answers), (line, answers)
            first, *other_contents = [door.seen() for door in doors]
            for door, seen in zip(doors[1:], other_contents, strict=True):
                assert first == seen, (line, type(door).__name__)
