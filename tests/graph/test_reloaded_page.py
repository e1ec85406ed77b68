"""A page that is loaded again shows what the live page showed."""

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.graph.test_stream_events import QUESTIONS, add_entry, judge, library
from unsay import Conversation, Event
from unsay.testing import ScriptedChat

RELOADED = """
import json, sys
from langchain_core.messages import messages_to_dict
from unsay import Conversation, Registry
with Conversation(sys.argv[1], thread="t") as page, Registry(sys.argv[1]) as registry:
    state = page.graph.get_state({"configurable": {"thread_id": "t"}}).values
    shown = {
        **page.timeline().to_dict(),
        "messages": messages_to_dict(page.messages()),
        "listed": [each.id for each in page.branches()],
        "history": state["state_history"],
        "notes": [each["data"]["text"] for each in registry.events("t") if each["type"] == "planner_note"],
    }
print(json.dumps(shown))
"""


class Played:
    """What the live page was shown, and what another process finds."""

    def __init__(self, events: list[tuple[str, Event]], page: dict[str, Any]) -> None:
        self.events = events
        self.page = page
        self.messages = {message["data"]["id"]: message["data"] for message in page["messages"]}
        drafts = [draft for turn in page["turns"] for draft in turn["rejected"]]
        self.rejected = drafts + page["pending"]["rejected"]

    def live(self, kind: str, *keys: str) -> list[tuple[Any, ...]]:
        """Values of all events of a kind, without those of the turns that were rolled back."""
        _, calendar, python, *_ = QUESTIONS
        return [
            tuple(event.message_id if key == "message_id" else event.data[key] for key in keys)
            for step, event in self.events
            if event.kind == kind and step not in (calendar, python)
        ]


@pytest.fixture(scope="module")
def play(tmp_path_factory: pytest.TempPathFactory) -> Played:
    """A conversation with everything in it, which ends with a decision that waits."""
    path = tmp_path_factory.mktemp("page") / "t.db"
    kyoto, calendar, python, town, failing, car = QUESTIONS
    steps = [kyoto, calendar, python, "/checkpoint good", "/rollback 2", town, failing, car]
    with Conversation.open(
        path,
        thread="t",
        model=ScriptedChat(replies=QUESTIONS),
        judge=judge,
        tools=[add_entry, library],
        settings={"on_exhausted": "ask", "max_rollbacks": 1, "judge_share": 1.0},
    ) as conversation:
        events = [(step, event) for step in steps for event in conversation.stream(step)]
    command = [sys.executable, "-c", RELOADED, str(path)]
    process = subprocess.run(command, capture_output=True, text=True, check=True)
    return Played(events, json.loads(process.stdout))


def test_drafts_and_verdicts_are_found_again(play: Played) -> None:
    """Each rejected draft with its reason, and each score of an answer or of a document."""
    keys = ("message_id", "score", "reason")
    rejected = [tuple(draft[key] for key in keys) for draft in play.rejected]
    assert rejected == play.live("draft_rejected", *keys)
    texts = ["Buy a car.", "Buy a car now.", "Buy a car now."]
    assert texts == [draft["text"] for draft in play.rejected]
    turns = [turn for turn in play.page["turns"] if turn["answer"]]
    drafts = [(*(turn[key] for key in keys), turn["outcome"]) for turn in turns]
    for name, message in play.messages.items():
        annotation = message["response_metadata"].get("unsay", {})
        if message["type"] == "tool" and "outcome" in annotation:
            drafts.append((name, annotation["score"], annotation["reason"], annotation["outcome"]))
    drafts += [(*draft, "failed") for draft in rejected]
    assert set(play.live("verdict", *keys, "outcome")) == set(drafts)


def test_tool_calls_are_found_again(play: Played) -> None:
    """Calls and results in the messages, and what became of a call that was rolled back."""
    messages = play.messages.values()
    calls = {(call["id"], call["name"]) for m in messages for call in m.get("tool_calls", [])}
    assert set(play.live("tool_call", "call_id", "name")) <= calls
    results = {
        (message["tool_call_id"], message["status"], message["content"])
        for message in messages
        if message["type"] == "tool"
    }
    assert results == set(play.live("tool_result", "call_id", "status", "text"))
    (undone,) = play.page["undone_calls"]
    assert ("add_entry", "undone", "") == (undone["tool"], undone["result"], undone["reason"])


def test_topics_checkpoints_and_branches_are_found_again(play: Played) -> None:
    """Each topic change at its turn, each checkpoint, and the turns that were rolled back."""
    turns = play.page["turns"]
    (first, *changes) = play.live("topic", "kind", "label", "similarity")
    assert first == ("new", turns[0]["topic"], None)
    assert changes == [
        (turn["topic_change"], turn["topic"], turn["similarity"])
        for turn in turns
        if turn["topic_change"]
    ]
    saved = {name for (name,) in play.live("checkpoint", "id")}
    assert saved == {checkpoint["id"] for checkpoint in play.page["checkpoints"]}
    (removed,) = [branch for branch in play.page["branches"] if branch["kind"] == "person"]
    assert 6 == removed["size"]
    branches = {branch["id"] for branch in play.page["branches"]}
    assert {"live", *branches} == set(play.page["listed"])
    history = {state["event"] for state in play.page["history"]}
    assert {"draft_rejected", "person", "created"} <= history


def test_failures_beside_the_answers_are_found_again(play: Played) -> None:
    """That of the judge is a note of the event log, in the words of the live event."""
    ((failure,),) = play.live("judge_failed", "error")
    assert [f"judge_failed: {failure}"] == play.page["notes"]


def test_the_decision_that_waits_is_found_again(play: Played) -> None:
    """The question, and what can be decided."""
    pending = play.page["pending"]
    assert list(QUESTIONS)[-1] == pending["question"]
    reply = play.events[-1][1].reply
    assert reply is not None
    assert reply.request == pending["request"]
