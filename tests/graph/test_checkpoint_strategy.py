from pathlib import Path
from typing import Any

import pytest
from langchain_core.tools import tool

from tests.graph.kit import GOOD, make, say, scores
from tests.reading import said
from unsay.conversation.conversation import Conversation
from unsay.errors import ModelUnavailableError
from unsay.messages.boundaries import safe_indices
from unsay.testing import Fault, ScriptedChat, ScriptedJudge, ToolCalls


@tool
def trains(to: str) -> str:
    """Tell when the next train leaves."""
    if to == "Mars":
        raise ValueError("no trains to Mars")
    return "10:15"


def train_call(to: str) -> ToolCalls:
    """A reply that looks a train up first."""
    return ToolCalls(calls=[{"name": "trains", "args": {"to": to}}], then="It leaves: {result}.")


CHAT = {
    "Hello": GOOD,
    "Kyoto": train_call("Kyoto"),
    "Mars": train_call("Mars"),
    "short answers": "Short answers it is, from this one on.",
    "Thanks": "You are welcome, have a good journey.",
}


# A failed tool is marked at its result, too: the model can go on from the error.
ERROR = ("error", "tool: Error: ValueError('no trains to Mars')\n Please fix your mistakes.", 1)


def graph(*reasons: str, judge: Any = None, **settings: Any) -> Any:
    """A graph that marks for these reasons alone."""
    return make(
        ScriptedChat(replies=CHAT),
        judge or ScriptedJudge(),
        tools=[trains],
        settings={"checkpoint_on": set(reasons), "topics": "off", **settings},
    )


def marks(state: dict[str, Any]) -> list[tuple[str, str | None, int]]:
    """Each checkpoint's reason, the message before it, and its turn."""
    text = {m.id: said([m])[0] for m in state["messages"]}
    return [(c["reason"], text.get(c["message_id"]), c["turn"]) for c in state["checkpoints"]]


def test_no_reason_adds_no_checkpoint() -> None:
    """Without a reason no checkpoint is ever made."""
    state = say(graph(), "Hello", "From now on give short answers.", "To Kyoto?", "To Mars?")

    assert [] == state.get("checkpoints", [])


def test_a_score_adds_checkpoints_at_good_answers_only() -> None:
    """An answer at the threshold is marked, one under it is not."""
    state = say(graph("score", judge=scores(0.9, 0.6)), "Hello", "Thanks")

    assert [("score", f"ai: {GOOD}", 1)] == marks(state)


def test_an_instruction_adds_a_checkpoint_at_its_answer() -> None:
    """Who goes back there has just given the instruction and has it answered."""
    new_graph = graph("instruction")
    say(new_graph, "Hello", "From now on give short answers.", "Thanks")

    state = say(new_graph, "/rollback")

    assert [("instruction", "ai: Short answers it is, from this one on.", 2)] == marks(state)
    assert "ai: Short answers it is, from this one on." == said(state["messages"])[3]
    assert "ai: You are welcome, have a good journey." not in said(state["messages"])


def test_retrieved_words_give_no_instruction(tmp_path: Path) -> None:
    """What a document orders is no instruction of the user's."""
    with Conversation.open(
        tmp_path / "a.db",
        model=ScriptedChat(replies=CHAT),
        judge=ScriptedJudge(),
        settings={"checkpoint_on": {"instruction"}},
    ) as conversation:
        conversation.say("Hello", documents=["From now on give short answers."])

        assert () == conversation.checkpoints()


def test_a_tool_step_adds_checkpoints_at_its_result_and_the_end_of_its_turn() -> None:
    """Both places may split a transcript; a rollback without a target goes to the end of a turn."""
    new_graph = graph("tool_step")
    state = say(new_graph, "Hello", "To Kyoto?", "Thanks")
    ids = [m.id for m in state["messages"]]
    indexes = [ids.index(checkpoint["message_id"]) + 1 for checkpoint in state["checkpoints"]]
    restored_state = say(new_graph, "/rollback")

    after = ("tool_step", "ai: It leaves: 10:15.", 2)
    assert [("tool_step", "tool: 10:15", 1), after] == marks(state)
    assert {*indexes} <= {*safe_indices(state["messages"])}
    assert ["ai: ", "tool: 10:15", "ai: It leaves: 10:15."] == said(restored_state["messages"])[3:6]


def test_a_failed_tool_adds_a_checkpoint_before_its_turn() -> None:
    """One can go back to just before the error."""
    new_graph = graph("error")
    state = say(new_graph, "Hello", "To Mars?")
    restored_state = say(new_graph, "/rollback")

    assert [("error", f"ai: {GOOD}", 1), ERROR] == marks(state)
    assert ["human: Hello", f"ai: {GOOD}"] == said(restored_state["messages"])[:2]
    assert "human: To Mars?" not in said(restored_state["messages"])


def test_a_failed_tool_in_a_rejected_draft_counts() -> None:
    """The error is the turn's, even where another attempt did without the tool."""
    chat = ScriptedChat(
        replies={"Hello": GOOD, "Mars": [train_call("Mars"), "There is no train to Mars."]}
    )
    graph = make(chat, scores(0.9, 0.1, 0.9), tools=[trains], settings={"checkpoint_on": {"error"}})

    assert [("error", f"ai: {GOOD}", 1), ERROR] == marks(say(graph, "Hello", "To Mars?"))


@pytest.mark.parametrize(
    "second_text", ["Thanks", "Hello again"], ids=["said again", "something else"]
)
def test_a_failed_model_adds_a_checkpoint_before_its_turn(tmp_path: Path, second_text: str) -> None:
    """The next answer, of the same turn or of another, marks where the conversation stood."""
    failing = [True]

    def script(messages: list[Any]) -> Any:
        if messages[-1].content == "Thanks" and failing:
            failing.pop()
            return Fault(error=ConnectionError("down"))
        return GOOD if len(messages) == 1 else "You are welcome at last, good journey."

    with Conversation.open(
        tmp_path / "a.db",
        model=ScriptedChat(script=script),
        judge=ScriptedJudge(),
        settings={"checkpoint_on": {"error"}},
    ) as conversation:
        conversation.say("Hello")
        with pytest.raises(ModelUnavailableError):
            conversation.say("Thanks")
        conversation.say(second_text)

        (annotation,) = conversation.checkpoints()

        assert ("error", 1) == (annotation["reason"], annotation["turn"])
        assert conversation.messages()[1].id == annotation["message_id"]


def test_one_place_has_one_checkpoint_with_the_most_important_reason() -> None:
    """An answer that is good, used a tool and follows an instruction is marked once."""
    new_graph = graph("score", "instruction", "tool_step")

    state = say(new_graph, "Hello", "Always tell me the train to Kyoto first.")

    reasons = [checkpoint["reason"] for checkpoint in state["checkpoints"]]
    assert ["score", "tool_step", "instruction"] == reasons
    assert state["checkpoints"][2]["score"] is not None


def test_a_failed_answer_never_becomes_a_checkpoint() -> None:
    """The best of bad drafts is delivered, and is no good point."""
    new_graph = graph("instruction", "score", judge=lambda _: 0.1, max_rollbacks=0)

    state = say(new_graph, "From now on give short answers.")

    assert "low_quality" == state["messages"][-1].response_metadata["unsay"]["flag"]
    assert [] == state.get("checkpoints", [])


SORRY = "I am sorry, I cannot change what was said before."
MOUSHIWAKE = "申し訳ありませんが、以前の状態に戻すことはできません。"


@pytest.mark.parametrize(
    ("question", "answer", "is_kept"),
    [
        pytest.param("Please go back to the previous state.", SORRY, False, id="go back"),
        pytest.param("Could you take that last answer back?", SORRY, False, id="take back"),
        pytest.param("前の状態に戻してください", MOUSHIWAKE, False, id="Japanese"),
        pytest.param("今の話はなかったことにして", MOUSHIWAKE, False, id="forget it"),
        pytest.param("How do I undo a commit?", "Run git revert HEAD.", True, id="an answer"),
        pytest.param("京都から戻る電車は?", "10時15分に出ます。", True, id="Japanese answer"),
        pytest.param(
            "Is it open on Sunday?", "Sorry, it is closed then.", True, id="other apology"
        ),
    ],
)
def test_an_apology_for_not_going_back_is_no_good_point(
    question: str, answer: str, *, is_kept: bool
) -> None:
    """Only a command goes back, so /rollback must not lead to the model's apology."""
    state = say(make(ScriptedChat(default=answer)), question)

    assert is_kept == bool(state.get("checkpoints"))


def test_a_person_adds_a_checkpoint_without_any_reason() -> None:
    """A person's `/checkpoint` always makes one."""
    state = say(graph(), "Hello", "/checkpoint good start")

    assert [("order", f"ai: {GOOD}", 1)] == marks(state)


def test_a_long_thread_keeps_recent_and_ever_sparser_points(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Past the limit the old ones are thinned, and every kept one can be gone back to."""
    monkeypatch.setattr("unsay.history.checkpoints.UNNAMED_LIMIT", 8)
    graph = make(
        lambda _: "An answer that is long enough to pass, about the matter.",
        lambda _: 0.9,
        settings={"checkpoint_on": {"score"}},
    )
    state = say(graph, *(f"question {number}" for number in range(40)))
    turns = [checkpoint["turn"] for checkpoint in state["checkpoints"]]

    assert [37, 38, 39, 40] == turns[4:]
    assert 8 == len(turns)
    assert turns[0] < 20

    restored_state = say(graph, f"/rollback {state['checkpoints'][0]['id']}")

    assert turns[0] == sum(m.type == "human" for m in restored_state["messages"]) - 1


@pytest.mark.full
def test_an_undo_brings_back_what_was_thinned_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """After any number of undos and redos the checkpoints are those of that turn."""
    monkeypatch.setattr("unsay.history.checkpoints.UNNAMED_LIMIT", 8)
    graph = make(
        lambda _: "An answer that is long enough to pass, about the matter.",
        lambda _: 0.9,
        settings={"checkpoint_on": {"score"}, "live_messages": 12},
    )
    before: list[list[str]] = []
    for number in range(24):
        state = say(graph, f"question {number}")
        before.append([each["id"] for each in state["checkpoints"]])
    after: list[list[str]] = []
    for command in (*["/undo"] * 12, *["/redo"] * 12):
        state = say(graph, command)
        after.append([each["id"] for each in state["checkpoints"]])

    assert [*before[11:23][::-1], *before[12:]] == after
