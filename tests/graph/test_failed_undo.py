"""A call whose undo failed is tried or reported again when it is removed again, without a store too."""

from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.store.memory import InMemoryStore

from tests.graph.kit import GOOD, make, say
from tests.reading import transcript
from unsay import reversible
from unsay.history.compensations import Compensation, Outcome, Report
from unsay.history.unsaved_answers import UNSAVED
from unsay.judging.topic_detector import LexicalDetector
from unsay.moves.reconcile import error_of_undo
from unsay.runtime import Scope, Services
from unsay.settings.settings import load_settings
from unsay.testing import ScriptedChat, ScriptedJudge, ToolCalls
from unsay.turn.delivery import keep_undone, undone_calls

STORES = pytest.mark.parametrize("store", [None, InMemoryStore()], ids=["no store", "store"])


@STORES
@pytest.mark.parametrize("idempotent", [False, True], ids=["once", "idempotent"])
def test_a_failed_undo_is_tried_or_reported_again(
    store: InMemoryStore | None, *, idempotent: bool
) -> None:
    """The undo fails the first time; only that of an idempotent tool runs a second time."""
    undos: list[str] = []

    def cancel(to: str) -> None:
        undos.append(to)
        if len(undos) == 1:
            raise OSError("no line")

    @reversible(undo=cancel, idempotent=idempotent, describe="the ticket to {to}")
    def book(to: str) -> str:
        """Reserve a ticket."""
        return f"ticket {to}"

    thread = f"failed-{idempotent}"
    call = ToolCalls(calls=[{"name": "book", "args": {"to": "Kyoto"}}], then="It is done.")
    chat = ScriptedChat(replies={"Hello": GOOD, "Kyoto": call})
    graph: Any = make(chat, ScriptedJudge(), tools=[book], settings={"topics": "off"}, store=store)

    say(graph, "Hello", "Kyoto", "/undo", thread=thread)
    first = transcript(graph, thread)[-1]
    say(graph, "/redo", "/undo", thread=thread)
    second = transcript(graph, thread)[-1]

    failed = "Not undone, still in effect: the ticket to Kyoto (OSError: no line)."
    assert first.endswith(failed)
    assert second.endswith("Undone: the ticket to Kyoto." if idempotent else failed)
    assert ["Kyoto"] * (2 if idempotent else 1) == undos


def test_only_undone_and_failed_calls_are_kept_until_the_run_is_saved() -> None:
    """A call that was skipped is reported by the repeated run too."""
    services = Services(
        settings=load_settings({}),
        model_like=None,
        judge_like=None,
        summarizer_like=None,
        title_like=None,
        detector=LexicalDetector(),
        clock=lambda: datetime(2026, 1, 1, tzinfo=UTC),
    )
    scope = Scope(
        services=services,
        settings=services.settings,
        config={},
        store=None,
        thread_id="t",
        stream_writer=lambda _: None,
    )
    state: Any = {"turn": {"question_id": "q"}, "messages": [HumanMessage("Hi", id="q")]}
    calls: dict[Any, Compensation] = {
        result: Compensation(
            key=result,
            tool_call_id="1",
            message_id="m",
            tool="book",
            args={},
            result="",
            description="",
        )
        for result in ("undone", "failed", "skipped", "returned")
    }
    outcomes: Any = [Outcome(compensation=c, result=r, reason="why") for r, c in calls.items()]

    with suppress(OSError), UNSAVED.run(services, "t"):
        keep_undone(state, scope, Report(outcomes=tuple(outcomes)))
        raise OSError("the run cannot be saved")

    assert ["undone", "failed"] == list(undone_calls(state, scope))
    assert "why" == error_of_undo(
        calls["failed"],
        {**state, "own_writes": {"calls": undone_calls(state, scope)}},
        scope,
    )
