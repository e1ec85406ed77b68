"""Many messages that a host adds at once: linear work, and later turns that cost what any turn does."""

import cProfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

from tests.graph.kit import config
from unsay import Conversation
from unsay.memory.offload import FIRST_MESSAGES
from unsay.storage.sqlite import open_database

Entry = Callable[[Conversation, list[AnyMessage]], object]

ENTRIES: dict[str, Entry] = {
    "add": lambda talk, messages: (talk.add(messages), talk.say("And now?")),
    "update_state": lambda talk, messages: (
        talk.graph.update_state(config("t"), {"messages": messages}),
        talk.say("And now?"),
    ),
    "run": lambda talk, messages: talk.graph.invoke(
        {"messages": [*messages, HumanMessage("And now?")]}, config("t")
    ),
}


def imported(turns: int) -> list[AnyMessage]:
    """Answered turns of another program."""
    pairs = [
        (HumanMessage(f"What is item {n}?", id=f"q{n}"), AIMessage(f"It is {7 * n}.", id=f"a{n}"))
        for n in range(turns)
    ]
    return [message for pair in pairs for message in pair]


def opened(database: Any) -> Conversation:
    """A conversation in which every answer passes."""
    verdict = {"score": 0.9, "reason": "It is complete."}
    return Conversation.open(
        database, thread="t", model=lambda _: "So it is.", judge=lambda _: verdict
    )


def calls_of(work: Callable[[], object]) -> int:
    """Return how many functions some work calls."""
    with cProfile.Profile() as profile:
        work()
    return sum(entry.callcount for entry in profile.getstats())


@pytest.mark.parametrize(
    "name", ["add", pytest.param("update_state", marks=pytest.mark.full), "run"]
)
def test_an_import_is_linear(tmp_path: Path, name: str) -> None:
    """Four times as many messages take at most four times the calls and bytes, later turns as many."""
    costs: list[list[int]] = []
    for turns in (FIRST_MESSAGES * 5 // 8, FIRST_MESSAGES * 5 // 2):
        file = tmp_path / f"{turns}.db"
        with closing(open_database(file)) as database:
            talk = opened(database)
            entering = calls_of(lambda talk=talk, turns=turns: ENTRIES[name](talk, imported(turns)))
            # The second turn still makes ready what recall reads.
            talk.say("And then?")
            later = calls_of(lambda talk=talk: talk.say("And at last?"))
            live = len(talk.graph.get_state(config("t")).values["messages"])
            assert 2 * turns + 6 == len(talk.messages())
        costs.append([entering, file.stat().st_size, later, live])
    (small, small_bytes, small_later, _), (large, large_bytes, large_later, large_live) = costs
    assert large < 4 * small
    assert large_bytes < 4 * small_bytes
    assert large_later < 1.25 * small_later
    assert large_live <= 110


@pytest.mark.parametrize("name", ["add", "update_state"])
def test_an_undo_takes_an_import_back(tmp_path: Path, name: str) -> None:
    """It is one step, also once its ids have left the state, and a redo brings it again."""
    messages = imported(FIRST_MESSAGES)
    with closing(open_database(tmp_path / "t.db")) as database:
        talk = opened(database)
        ENTRIES[name](talk, messages)
        talk.say("And then?")
        talk.say("And at last?")
        steps = talk.graph.get_state(config("t")).values["operations"]
        assert ["turn"] * 3 == [step["kind"] for step in steps]
        for _ in range(3):
            talk.undo()
        assert [m.id for m in messages] == [m.id for m in talk.messages()]
        talk.undo()
        assert [] == talk.messages()
        talk.redo()
        assert [m.id for m in messages] == [m.id for m in talk.messages()]
