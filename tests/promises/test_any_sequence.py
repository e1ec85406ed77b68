"""After any sequence of operations, contexts are valid and nothing is lost."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from langchain_core.messages import AIMessage, HumanMessage

from tests.graph.scripted_parts import ANSWERS, KNOWN
from tests.graph.sequence import Step, play, sequences
from tests.transcripts import REDACTED

FILES = 4
"""There are as many times fewer examples on a file, where each takes longer."""


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few checkpoints are kept, and contexts have only the beginning of most tool results."""
    monkeypatch.setattr("unsay.context.view.RESULT_BYTES", 1_000)
    monkeypatch.setattr("unsay.history.checkpoints.UNNAMED_LIMIT", 2)


def _say(text: str, *beats: tuple, documents: tuple[str, ...] = ()) -> Step:
    return Step("say", {"text": text, "beats": list(beats), "documents": documents})


FOUND = {
    "S1": [
        _say("Go on", ("answer", ANSWERS[0], REDACTED)),
        Step("reopen", {"settings": {}, "kind": "openai-chat"}),
        _say("Go on"),
    ],
    "S3": [
        _say("Go on", ("unreachable",)),
        Step("update", {"messages": [AIMessage("a", id="m0")]}),
        _say("Go on"),
    ],
    "S4": [
        _say("Go on"),
        _say("NEW: the weather?"),
        Step("remove", {"position": 2}),
        _say("How do lists work?"),
    ],
    "S5": [
        _say("How do lists work?", ("unreachable",)),
        Step("crash", {"after": 5, "inner": _say("Go on")}),
        _say("Go on"),
    ],
    "journal": [
        _say("How do lists work?", ("unreachable",)),
        Step("clear"),
        Step("retry"),
    ],
    "offloaded": [
        Step("reopen", {"settings": {"live_messages": 4}, "kind": "scripted"}),
        _say("How do lists work?"),
        Step(
            "add", {"messages": [HumanMessage("hello", id=f"m{position}") for position in range(6)]}
        ),
        _say("Go on", ("boom",)),
        _say("Go on", documents=("A page on lists.", "A BAD page.")),
    ],
}
"""What `sequences` found before, by the name of the bug."""


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("name", sorted(FOUND.keys() - KNOWN))
def test_what_was_found_does_not_come_back(name: str) -> None:
    """A sequence that once broke a thread leaves it whole."""
    play(FOUND[name])


@given(steps=sequences())
def test_any_sequence_leaves_a_thread_whole(steps: Sequence[Step]) -> None:
    """Contexts are valid, the event log agrees, runs end like their turns, and nothing is lost."""
    play(steps)


@settings(max_examples=settings().max_examples // FILES)
@given(steps=sequences())
def test_any_sequence_leaves_a_file_whole(steps: Sequence[Step]) -> None:
    """The same holds on SQLite."""
    with TemporaryDirectory() as folder:
        play(steps, Path(folder) / "talk.db")
