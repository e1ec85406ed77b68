"""Turns of computers whose clocks differ, on Postgres, over our saver and LangGraph's."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hosts.savers import CONFIG, answering, invoke, open_savers, question_input
from tests.hosts.test_clocks import HOUR, computer, of_newest, parent_of, speeches

pytestmark = pytest.mark.full


@pytest.fixture
def tmp_path(tmp_path: Path, url: str) -> Iterator[Path]:
    """A folder whose databases are on the server."""
    (tmp_path / "url").write_text(url)
    return tmp_path


@pytest.mark.parametrize("around", [False, True])
@pytest.mark.parametrize("kind", ["ours", "postgres"])
def test_no_turn_is_lost_to_a_clock(tmp_path: Path, *, kind: str, around: bool) -> None:
    """Turns of processes with different clocks all land, and so does a fork by the id of a state."""
    with open_savers(kind, tmp_path) as savers:
        if kind == "postgres":
            savers["checkpointer"].setup()
        expected: list[str] = []
        for number, seconds in enumerate([9 * HOUR, 0, -HOUR, 40 * 8760 * HOUR, 0]):
            with computer(seconds):
                graph = parent_of(answering(), **savers) if around else answering(**savers)
                invoke(graph, f"Question {number}")
                expected.append(f"Question {number}")
                assert expected == speeches(graph.get_state(CONFIG))
        if not around:
            with computer(0):
                earlier = [state for state in graph.get_state_history(CONFIG) if not state.next][-1]
                graph.invoke(question_input("Question"), earlier.config)
                assert [*speeches(earlier), "Question"] == speeches(graph.get_state(CONFIG))
                of_newest(list(graph.get_state_history(CONFIG)))
