"""A decision that is pending is dropped by no verb, no command and no update."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage

from tests.graph.kit import Numbered, config, scores
from unsay.conversation.conversation import AsyncConversation, Conversation
from unsay.conversation.verbs import ConversationVerbs, Verb
from unsay.errors import ConflictError
from unsay.messages.annotations import DOCUMENT

ASKING = {"on_exhausted": "ask", "max_rollbacks": 0}

VERBS: dict[str, Callable[[Any], Any]] = {
    "say": lambda talk: talk.say("another"),
    "say-documents": lambda talk: talk.say("another", documents=["A page."]),
    "command": lambda talk: talk.say("/pin"),
    "add": lambda talk: talk.add([("ai", "Added.")]),
    "checkpoint": lambda talk: talk.checkpoint("here"),
    "start_task": lambda talk: talk.start_task("a task"),
    "edit": lambda talk: talk.edit(1, "another"),
    "remove": lambda talk: talk.remove(1),
    "compact": lambda talk: talk.compact(),
    "rate": lambda talk: talk.rate(1, "good"),
    "edit_lesson": lambda talk: talk.edit_lesson("a", "b"),
    "remove_lesson": lambda talk: talk.remove_lesson("a"),
    "rollback": lambda talk: talk.rollback(),
    "undo": lambda talk: talk.undo(),
    "redo": lambda talk: talk.redo(),
    "retry": lambda talk: talk.retry(),
    "restore": lambda talk: talk.restore("topic-1"),
    "pick": lambda talk: talk.pick(["x"], "branch-1"),
    "pin": lambda talk: talk.pin(),
    "unpin": lambda talk: talk.unpin(),
    "forget": lambda talk: talk.forget(turns=1),
    "forget_tool_results": lambda talk: talk.forget_tool_results(),
    "recall": lambda talk: talk.recall("first"),
    "note": lambda talk: talk.note("A remark."),
    "end": lambda talk: talk.end(),
    "resume": lambda talk: talk.resume(),
}


# Verbs that write beside the transcript.
BESIDE: dict[str, Callable[[Any], Any]] = {
    "label": lambda talk: talk.label(customer="7"),
    "judge": lambda talk: talk.judge(),
    "bisect": lambda talk: talk.bisect(),
    "import_ratings": lambda talk: talk.import_ratings([]),
    "judge_summaries": lambda talk: talk.judge_summaries(),
    "fork": lambda talk: talk.fork(),
}


def undecided(folder: Path, kind: Any = Conversation) -> Any:
    """Return a conversation with one answered turn, and one that waits for a decision."""
    judge = scores(0.9, 0.1)
    return kind.open(folder / "t.db", thread="t", model=Numbered(), judge=judge, settings=ASKING)


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_is_refused(tmp_path: Path, verb: str) -> None:
    """It names the decision, changes nothing, and the decision is still taken."""
    with undecided(tmp_path) as talk:
        talk.say("first")
        waiting = talk.say("second")
        before = talk.messages()

        with pytest.raises(ConflictError, match="decision"):
            VERBS[verb](talk)

        assert ("decision", before) == (waiting.kind, talk.messages())
        assert waiting.text == talk.resume("approve").text


@pytest.mark.parametrize("verb", BESIDE)
def test_a_verb_beside_the_transcript_leaves_the_decision(tmp_path: Path, verb: str) -> None:
    """It is carried out, and the decision is still taken."""
    with undecided(tmp_path) as talk:
        talk.say("first")
        waiting = talk.say("second")
        before = talk.messages()
        BESIDE[verb](talk)

        assert before == talk.messages()
        assert waiting.text == talk.resume("approve").text


def test_every_verb_that_writes_is_one_of_these() -> None:
    """A new verb joins a list above."""
    writing = {
        name
        for name, verb in vars(ConversationVerbs).items()
        if isinstance(verb, Verb) and verb._run.__qualname__.startswith(("_changes", "_opens"))
    }
    assert {"purge"} == writing - set(VERBS) - set(BESIDE)


async def test_a_verb_of_async_code_is_refused(tmp_path: Path) -> None:
    """The async form refuses the same verbs."""
    async with undecided(tmp_path, AsyncConversation) as talk:
        await talk.say("first")
        waiting = await talk.say("second")

        for verb in VERBS.values():
            with pytest.raises(ConflictError, match="decision"):
                await verb(talk)

        assert waiting.text == (await talk.resume("approve")).text


@pytest.mark.parametrize(
    "value",
    [
        pytest.param({"messages": [HumanMessage("/pin")]}, id="command"),
        pytest.param(
            {"messages": [HumanMessage("／元に戻す"), HumanMessage("/undo")]}, id="question"
        ),
        pytest.param({"messages": [HumanMessage("/undo")]}, id="undo"),
        pytest.param({"messages": [AIMessage("An answer.")]}, id="answer"),
        pytest.param({"messages": [HumanMessage("A page.", name=DOCUMENT)]}, id="document"),
        pytest.param({"messages": [RemoveMessage("x")]}, id="removal"),
        pytest.param({"should_rollback": True}, id="flag"),
        pytest.param({}, id="nothing"),
    ],
)
def test_a_hosts_input_without_a_question_is_refused(tmp_path: Path, value: dict[str, Any]) -> None:
    """The compiled graph refuses a run or an update that would drop the decision."""
    with undecided(tmp_path) as talk:
        talk.say("first")
        waiting = talk.say("second")

        for node in (None, "__start__", "create_checkpoint"):
            with pytest.raises(ConflictError, match="decision"):
                talk.graph.update_state(config(), value, as_node=node)
        newest = talk.graph.get_state(config()).config
        with pytest.raises(ConflictError, match="decision"):
            talk.graph.update_state(newest, value)
        if len(value.get("messages", [])) < 2:
            with pytest.raises(ConflictError, match="decision"):
                talk.graph.invoke(value, config())

        assert waiting.text == talk.resume("approve").text


def test_a_hosts_question_abandons_what_waits(tmp_path: Path) -> None:
    """LangGraph runs a new question instead; the drafts are kept in a branch."""
    with undecided(tmp_path) as talk:
        talk.say("first")
        talk.say("second")

        state = talk.graph.invoke({"messages": [HumanMessage("third")]}, config())

        assert ["first", "third"] == [m.text for m in state["messages"] if m.type == "human"]
        assert "interrupted" in [branch.kind for branch in talk.branches()]


def test_what_drops_nothing_is_allowed(tmp_path: Path) -> None:
    """Reading, labels and a fork work while a decision is pending."""
    with undecided(tmp_path) as talk:
        talk.say("first")
        waiting = talk.say("second")

        talk.label(project="garden")
        talk.judge_summaries()
        talk.preview()
        talk.fork()
        assert talk.pins() == talk.forgotten() == ()

        assert waiting.text == talk.resume("approve").text
