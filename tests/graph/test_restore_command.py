"""`/restore` in a chat: what was removed returns, through `Conversation` and in any graph."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from tests.graph.back_kit import JAPANESE
from tests.graph.kit import Numbered, config, make, say, scores
from tests.reading import listed_branches, transcript
from unsay.conversation.conversation import Conversation
from unsay.messages.content import preview, text_of
from unsay.results.svg import mimebundle
from unsay.testing import ScriptedChat, ScriptedDetector, ScriptedJudge, ToolCalls

ENGLISH = ("one question", "two questions", "three questions")


@pytest.fixture(params=["en", "ja"])
def conversation(request: pytest.FixtureRequest) -> Any:
    """Three turns, in English or Japanese."""
    questions = ENGLISH if request.param == "en" else JAPANESE
    model = ScriptedChat(
        default="京都では二日で足ります。" if request.param == "ja" else "Two days."
    )
    with Conversation.open(":memory:", model=model, judge=ScriptedJudge()) as conversation:
        for question in questions:
            conversation.say(question)
        yield conversation


@pytest.mark.parametrize("names", [True, False], ids=["by-id", "newest"])
def test_the_chat_restores_a_branch(conversation: Conversation, *, names: bool) -> None:
    """It returns by its id or as the newest one, what came after becomes a branch, undo reverses."""
    before = conversation.messages()
    assert "/restore" in conversation.say("/rollback 1").text
    branch = conversation.branches()[1].id
    conversation.say(ENGLISH[0])
    after = conversation.messages()
    text = conversation.say(f"/restore {branch if names else ''}".strip()).text
    assert "/undo" in text
    assert before == conversation.messages()
    conversation.say("/undo")
    assert after == conversation.messages()


def test_a_restore_of_everything_is_told_in_its_language(conversation: Conversation) -> None:
    """Where every message was removed, the notice is in the language of what came back."""
    japanese = not conversation.messages()[0].text.isascii()
    conversation.say("/rollback 3")
    text = conversation.say("/restore").text
    assert japanese is not ("checkpoint" in text)


def test_the_chat_lists_how_to_restore(conversation: Conversation) -> None:
    """`/branches` names the command; with nothing removed, it and the command say so."""
    nothing = conversation.say("/branches").text, conversation.say("/restore").text
    assert "/restore" not in nothing[0]
    assert nothing[1].endswith((" Nothing was changed.", "。何も変更していません。"))
    removed = conversation.messages()[-2]
    conversation.rollback(turns=1)
    *rows, hint = conversation.say("/branches").text.splitlines()
    assert 1 == len(rows)
    assert "person" not in rows[0]
    assert preview(text_of(removed), 40) in rows[0]
    assert "/restore" in hint


def test_what_came_back_is_no_longer_listed(conversation: Conversation) -> None:
    """The timeline in every form lacks a branch that was restored, until an undo removes it again."""
    conversation.rollback(turns=1)
    conversation.say("/restore")
    timeline = conversation.timeline()
    assert "×" not in str(timeline)
    assert "×" not in mimebundle(timeline)["image/svg+xml"]
    assert () == timeline.to_dict()["branches"]
    conversation.undo()
    assert "×" in str(conversation.timeline())


def test_a_branch_counts_what_is_still_missing(conversation: Conversation) -> None:
    """A message that came back alone is no longer counted at its branch."""
    question = conversation.messages()[-2]
    conversation.rollback(turns=1)
    conversation.restore(question.id or "")
    (ref,) = conversation.timeline().branches
    assert 1 == ref["size"]


@pytest.mark.parametrize("store", [True, False], ids=["store", "no-store"])
@pytest.mark.parametrize("names", [True, False], ids=["by-id", "newest"])
def test_an_automatic_rollback_is_restored_before_what_follows(*, store: bool, names: bool) -> None:
    """The notice names the command; the removed turn returns to its place, and undo reverses it."""
    options: dict[str, Any] = {} if store else {"store": None}
    judge = scores(0.9, 0.6, 0.1, 0.9)
    graph = make(Numbered(), judge, settings={"rollback_to": "checkpoint"}, **options)
    state = say(graph, "q1", "q2", "q3")
    branch = next(branch.id for branch in listed_branches(graph) if branch.size == 2)
    assert any(f"/restore {branch} " in str(message.content) for message in state["messages"])
    say(graph, f"/restore {branch}" if names else "/restore")
    questions = ["human: q1", "human: q2", "human: q3"]
    assert questions == [line for line in transcript(graph) if line.startswith("human: q")]
    say(graph, "/undo")
    assert ["human: q1", "human: q3"] == [e for e in transcript(graph) if e.startswith("human: q")]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("/restore", "There is no removed branch to restore"),
        ("/restore branch-zzz", "/branches lists its 0 branches"),
        ("/restore nope", "/branches, /timeline and /forgotten list the branches"),
    ],
)
def test_a_refused_restore_changes_nothing(line: str, expected: str) -> None:
    """In a graph too it is a notice that names the next step."""
    graph = make(Numbered())
    state = say(graph, "q1", line)
    assert expected in str(state["messages"][-1].content)
    assert "human: q1" in transcript(graph)


def test_a_graph_restores_what_a_rollback_and_a_forget_removed() -> None:
    """A typed command brings back turns, and lets the model see what was forgotten."""
    model = Numbered()
    graph = make(model)
    say(graph, "q1", "q2", "/rollback 1", "/restore")
    assert "human: q2" in transcript(graph)
    state = say(graph, "/forget 1")
    state = say(graph, f"/restore {state['forgotten'][0]['id']}", "q3")
    assert [] == state["forgotten"]
    assert "q1" in " ".join(model.texts())


def test_a_graph_keeps_commands_out_of_what_it_restores() -> None:
    """The command itself stays where it was typed and is no part of a branch."""
    graph = make(Numbered())
    say(graph, "q1", "q2", "/rollback 1", "q3")
    state = say(graph, "/restore")
    assert "human: /restore" == transcript(graph)[-2]
    assert ["human: q1", "human: q2"] == [
        f"human: {m.content}"
        for m in graph.get_state(config()).values["messages"]
        if isinstance(m, HumanMessage) and str(m.content).startswith("q")
    ]
    assert isinstance(state["messages"][-1], AIMessage)
    assert [2] == [branch.size for branch in listed_branches(graph)]


def test_a_graph_restores_what_was_forgotten_and_rolled_back() -> None:
    """The message returns from its branch, as with `Conversation.restore`; it stays forgotten."""
    graph = make(Numbered())
    state = say(graph, "q1", "q2")
    name = next(m.id for m in state["messages"] if m.content == "q2")
    say(graph, "/forget 2", "/rollback 1")
    state = say(graph, f"/restore {name}")
    assert "human: q2" in transcript(graph)
    assert [name] == [message_id for e in state["forgotten"] for message_id in e["message_ids"]][:1]


def test_a_graph_restores_an_offloaded_message_with_the_result_of_its_call() -> None:
    """One message of a span that was offloaded: its call and result are visible again with it."""
    call: Any = {"name": "look", "args": {"word": "x"}}

    def look(word: str) -> str:
        """Look a word up."""
        return f"found {word}"

    model = ScriptedChat(default=ToolCalls(calls=[call], then="Found: {result}."))
    options: dict[str, Any] = {"live_messages": 4, "recall_tokens": 0}
    detector = ScriptedDetector(shifts={"NEW": "new"})
    graph = make(model, tools=[look], detector=detector, settings=options)
    state = say(graph, "q1", "NEW q2", "/forget 1")
    (entry,) = state["forgotten"]
    result = next(m.id for m in state["messages"] if m.type == "tool")
    state = say(graph, *(f"NEW q{number}" for number in range(3, 8)))
    assert result not in {m.id for m in state["messages"]}
    state = say(graph, f"/restore {result}")
    (shorter_entry,) = state["forgotten"]
    assert 2 == len(entry["message_ids"]) - len(shorter_entry["message_ids"])


def test_a_graph_restores_a_message_whose_place_was_offloaded() -> None:
    """The message that a removed one followed is loaded, as `Conversation.restore` does."""
    detector = ScriptedDetector(shifts={"NEW": "new"})
    graph = make(Numbered(), detector=detector, settings={"live_messages": 4})
    state = say(graph, "q1", "NEW q2")
    name = next(m.id for m in state["messages"] if m.content == "NEW q2")
    state = say(graph, "/rollback 1", *(f"NEW q{number}" for number in range(3, 9)))
    assert "q1" not in [m.content for m in state["messages"]]
    say(graph, f"/restore {name}")
    asked_transcript = [line for line in transcript(graph) if line.startswith("human: ")]
    assert ["human: q1", "human: NEW q2"] == asked_transcript[:2]


def test_a_delivered_draft_is_no_branch_of_its_own() -> None:
    """The chat, `branches()` and the timeline list a rejected draft unless it is delivered as the best."""
    judge = scores(0.3, 0.2)
    settings = {"max_rollbacks": 1}
    with Conversation.open(
        ":memory:", model=Numbered(), judge=judge, settings=settings
    ) as conversation:
        conversation.say("q1")
        (rejected,) = conversation.branches()[1:]
        *rows, _hint = conversation.say("/branches").text.splitlines()
        assert [rejected.id] == [row.split()[0] for row in rows]
        assert [rejected.id] == [branch["id"] for branch in conversation.timeline().branches]
        conversation.rollback(turns=1)
        assert {branch.id for branch in conversation.branches()[1:]} == {
            branch["id"] for branch in conversation.timeline().branches
        }


def test_a_delivered_draft_that_was_offloaded_is_no_branch() -> None:
    """Also when its turn has left the state, the chat lists the branches that `branches()` lists."""
    judge = scores(0.3, 0.2, *[0.9] * 12)
    settings = {"max_rollbacks": 1, "live_messages": 4}
    with Conversation.open(
        ":memory:", model=Numbered(), judge=judge, settings=settings
    ) as conversation:
        for number in range(12):
            conversation.say(f"q{number}")
        (rejected,) = conversation.branches()[1:]
        *rows, _hint = conversation.say("/branches").text.splitlines()
        assert [rejected.id] == [row.split()[0] for row in rows]
