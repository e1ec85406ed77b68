"""What the tests of whole conversations are given."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.graph.back_kit import Opening
from tests.graph.kit import Numbered, scores
from unsay.conversation.conversation import Conversation

collect_ignore = ["budget_child.py", "crash_child.py", "reversible_child.py", "writer_child.py"]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opening]:
    """Opens a thread of one file on each call."""
    talks: list[Conversation] = []

    def open_it(model: Any = None, judge: Any = None, **options: Any) -> Conversation:
        given = {"model": model or Numbered(), "judge": judge or scores(), **options}
        talks.append(Conversation.open(tmp_path / "t.db", **{"thread": "t", **given}))
        return talks[-1]

    yield open_it
    for conversation in talks:
        conversation.close()
