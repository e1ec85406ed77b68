from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.types import Command

from tests.graph.kit import GOOD, Numbered, config, make, say, scores, whole_state
from tests.reading import branches, listed_branches, said, stored_items, transcript
from unsay.errors import EmptyAnswerError, ModelUnavailableError
from unsay.hosts.entry import HostGraph
from unsay.messages.annotations import annotation_of
from unsay.testing import ScriptedChat, ScriptedJudge, ToolCalls
from unsay.tools import reversible


def asks(text: str) -> dict[str, Any]:
    """The input of one message."""
    return {"messages": [HumanMessage(text)]}


def last(state: dict) -> str:
    """The words of a transcript's newest message."""
    return str(state["messages"][-1].content)


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("language", ["en", "ja"])
@pytest.mark.parametrize(
    ("command", "expected"),
    [
        pytest.param("/help", "/rollback", id="help"),
        pytest.param("/help pin", "/pin [N]  ", id="help-of-one"),
        pytest.param("/help zzz", "/zzz ", id="help-of-none"),
        pytest.param("/timeline", "0.90  question two", id="timeline"),
        pytest.param("/checkpoints", "cp-", id="checkpoints"),
        pytest.param("/checkpoint home", "home", id="checkpoint"),
        pytest.param("/rollback", "/undo", id="rollback"),
        pytest.param("/undo", "1", id="undo"),
        pytest.param("/rollback nowhere", "nowhere", id="unknown-checkpoint"),
    ],
)
def test_a_command_is_answered_without_a_model(command: str, expected: str, language: str) -> None:
    """A slash command from any front end is answered by the graph, and no model sees it."""
    model = Numbered()
    graph = make(model, settings={"language": language})
    say(graph, "question one", "question two")

    state = say(graph, command)

    assert expected in last(state)
    assert annotation_of(state["messages"][-1])["kind"] == "notice"
    assert len(model.inputs) == 2


def test_a_command_is_answered_in_the_language_of_the_conversation() -> None:
    """An order in Latin letters does not turn a Japanese conversation English."""
    graph = make(Numbered())
    say(graph, "こんにちは。京都について教えてください。")

    assert "取り除きました" in last(say(graph, "/undo"))
    assert "復元しました" in last(say(graph, "/redo"))


def test_the_report_of_tool_calls_is_in_the_language_of_the_removed_question() -> None:
    """An undo that removes the only question says in its language what became of the tool's call."""

    @reversible(undo=lambda seat: None, describe="座席{seat}の予約")
    def book(seat: str) -> str:
        """Book a seat."""
        return "booked"

    def mail(to: str) -> str:
        """Send a mail."""
        return "sent"

    calls = [{"name": "book", "args": {"seat": "7C"}}, {"name": "mail", "args": {"to": "母"}}]
    call = ToolCalls(calls=calls, then="予約しました。")
    graph = make(ScriptedChat(default=call), ScriptedJudge(), tools=[book, mail])
    say(graph, "席を予約してください。")

    assert (
        "1ターンを取り除きました。/redo で復元できます。取り消した処理: 座席7Cの予約。"
        "取り消せなかった処理(有効なまま): mail(to='母')(取り消し方法が登録されていません)。"
    ) == last(say(graph, "/undo"))


def test_a_decision_that_cannot_be_read_is_asked_for_again_in_japanese() -> None:
    """The fault takes the place of the question, in the language of the thread."""
    graph = make(
        ScriptedChat(default="車を買いましょう。"),
        ScriptedJudge(default=0.2),
        settings={"on_exhausted": "ask", "max_rollbacks": 0},
    )
    say(graph, "京都には何日必要ですか?")
    state = graph.invoke(Command(resume="たぶん"), config())
    (waiting,) = state["__interrupt__"]
    description = waiting.value["action_requests"][0]["description"]
    assert description.startswith("「たぶん」は判断として読み取れません。")


def test_commands_and_notices_never_reach_a_model() -> None:
    """A view holds neither a command nor the notice that answered it."""
    model = Numbered()
    graph = make(model)
    say(graph, "q1", "/help", "/timeline", "/checkpoint here", "q2")

    assert model.texts() == ["q1", "This is draft 1, about what was asked.", "q2"]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("/etc/hosts is broken", id="path"),
        pytest.param("// TODO: what does this comment mean?", id="comment"),
        pytest.param("what does /undo do?", id="inside"),
    ],
)
def test_what_only_looks_like_a_command_is_answered(text: str) -> None:
    """A message that merely begins with a slash goes to the model."""
    model = Numbered()
    say(make(model), text)

    assert [text] == model.texts()


@pytest.mark.parametrize("text", ["//help me please", "／／undo", "//undo\nand more lines"])
def test_two_slashes_send_a_text_that_begins_with_one(text: str) -> None:
    """The model and the judge are sent the text with one slash; the transcript has what was typed."""
    model = Numbered()
    requests = []
    graph = make(model, lambda exchange: requests.append(str(exchange)) or 0.9)

    say(graph, text, "Thanks")

    assert text[1:] == model.texts(0)[-1] == model.texts(1)[0]
    assert text[1:6] in requests[0]
    assert text[:6] not in requests[0]
    assert f"human: {text}" == transcript(graph)[0]


def test_rollback_by_name_and_its_undo_by_chat() -> None:
    """A person goes back to a named point, and takes that back."""
    graph = make(Numbered())
    say(graph, "q1", "/checkpoint kyoto", "q2", "q3")
    before = [line for line in transcript(graph) if "q" in line[:9]]

    say(graph, "/rollback kyoto")
    transcript_after = transcript(graph)
    say(graph, "/undo")

    assert transcript_after[:2] == ["human: q1", "ai: This is draft 1, about what was asked."]
    assert "human: q2" not in transcript_after
    assert before == [line for line in transcript(graph) if line.startswith("human: q")]


def test_undo_takes_back_a_turn_with_its_rollbacks() -> None:
    """Undoing a turn whose retries removed more restores all of it."""
    graph = make(Numbered(), scores(0.9, 0.6, 0.1, 0.9), settings={"rollback_to": "checkpoint"})
    say(graph, "q1", "q2", "q3")
    assert "human: q2" not in transcript(graph)

    say(graph, "/undo")

    assert transcript(graph)[:4] == [
        "human: q1",
        "ai: This is draft 1, about what was asked.",
        "human: q2",
        "ai: This is draft 2, about what was asked.",
    ]


def test_undo_to_the_beginning_and_not_further() -> None:
    """Every step can be undone; after the last one the answer says so."""
    graph = make(Numbered())
    say(graph, "q1", "q2")

    texts = [last(say(graph, "/undo")) for _ in range(3)]

    assert texts[0].startswith("Removed 1 turn. /redo restores it.")
    assert texts[1].startswith("Removed 1 turn. /redo restores it.")
    assert "no step left" in texts[2]


class Failing(Numbered):
    """A model whose fourth call fails."""

    def __call__(self, messages: list) -> AIMessage:
        """The next draft, or the failure."""
        draft = super().__call__(messages)
        if len(self.inputs) == 4:
            raise ConnectionError("down")
        return draft


def graph_with_failed_turn() -> HostGraph:
    """A thread whose third turn rolled back the second and then failed."""
    graph = make(Failing(), scores(0.9, 0.6, 0.1))
    say(graph, "q1", "q2")
    with pytest.raises(ModelUnavailableError):
        say(graph, "q3")
    return graph


def test_undo_in_place_of_an_answer_takes_the_failed_question_away() -> None:
    """After a failed turn, undo removes its question and restores what its retry removed."""
    graph = graph_with_failed_turn()

    say(graph, "/undo")

    assert ["human: q1", "human: q2", "human: /undo"] == transcript(graph)[::2]


def test_a_failed_turn_leaves_the_record_as_it_began() -> None:
    """What the retries of a turn removed returns when its question is rolled back."""
    graph = graph_with_failed_turn()

    say(graph, "q4")
    assert ["human: q1", "human: q2", "human: q4"] == transcript(graph)[::2]
    say(graph, "/undo")

    assert ["human: q1", "human: q2", "human: /undo"] == transcript(graph)[::2]


def test_a_failed_turn_whose_branch_is_lost_still_leaves_a_usable_thread() -> None:
    """A store that lost a branch does not block the conversation."""
    graph = graph_with_failed_turn()
    items = stored_items(graph.store, "branches")
    assert [branch.id for branch in listed_branches(graph)] == [item.key for item in items]
    for item in items:
        graph.store.delete(item.namespace, item.key)  # type: ignore[union-attr]

    say(graph, "q4")

    assert ["human: q1", "human: q2", "human: q4"] == transcript(graph)[::2]


def test_a_model_that_returns_nothing_costs_no_earlier_turn() -> None:
    """After empty drafts only the question goes; a turn between the thresholds stays."""
    replies = [GOOD, "Another answer, to the second question.", "", "", "", "And a fourth one."]
    graph = make(lambda _: AIMessage(replies.pop(0)), scores(0.9, 0.6))
    say(graph, "q1", "q2")
    with pytest.raises(EmptyAnswerError):
        say(graph, "q3")

    say(graph, "q4")

    assert ["human: q1", "human: q2", "human: q4"] == transcript(graph)[::2]


def test_a_context_rollback_of_a_failed_turn_can_be_undone() -> None:
    """An exchange that was rejected stays away when the turn fails, until a person undoes it."""
    pushed_messages = [
        HumanMessage("bad?"),
        AIMessage("An answer that was put in."),
        HumanMessage("q4"),
    ]
    graph = make(Failing(), scores(0.9, 0.9, 0.9, 0.1))
    say(graph, "q1", "q2", "q3")
    with pytest.raises(ModelUnavailableError):
        graph.invoke({"messages": pushed_messages}, config())

    say(graph, "q5")
    assert ["q1", "q2", "q3", "q5"] == [t[7:] for t in transcript(graph) if t.startswith("human")]
    say(graph, "/undo", "/undo")

    assert "human: bad?" in transcript(graph)


def test_a_host_orders_a_rollback_without_a_question() -> None:
    """The flag as input rolls back, reports the position, and calls no model."""
    model = Numbered()
    graph = make(model)
    first = say(graph, "q1")["checkpoints"][0]["id"]
    say(graph, "q2", "q3")

    order = {"should_rollback": True, "rollback_checkpoint_id": first}
    state = whole_state(graph, graph.invoke(order, config()))

    assert said(state["messages"])[:2] == [
        "human: q1",
        "ai: This is draft 1, about what was asked.",
    ]
    assert first in last(state)
    assert len(state["messages"]) == 3
    assert len(model.inputs) == 3
    assert (state["should_rollback"], state["rollback_checkpoint_id"]) == (False, None)


def test_a_host_orders_a_rollback_behind_the_answer() -> None:
    """The flag written as `process_message`'s own leads to the rollback, and to a notice."""
    graph = make(Numbered())
    first = say(graph, "q1")["checkpoints"][0]["id"]
    say(graph, "q2")

    order = {"should_rollback": True, "rollback_checkpoint_id": first}
    graph.update_state(config(), order, as_node="process_message")
    state = whole_state(graph, graph.invoke(None, config()))

    assert ["human: q1", "ai: This is draft 1, about what was asked."] == said(state["messages"])[
        :2
    ]
    assert first in last(state)
    assert (state["should_rollback"], state["rollback_checkpoint_id"]) == (False, None)


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        pytest.param("good", "good", id="with a target"),
        pytest.param(None, "rollback", id="without a target"),
    ],
)
def test_a_rollback_behind_the_answer_has_a_reason(target: str | None, expected: str) -> None:
    """The reason of a host's rollback is its target, or else the verb."""
    graph = make(Numbered())
    say(graph, "q1", "/checkpoint good", "q2")

    order = {"should_rollback": True, "rollback_checkpoint_id": target}
    graph.update_state(config(), order, as_node="process_message")
    graph.invoke(None, config())

    (branch,) = branches(graph)
    assert ("person", expected) == (branch.kind, branch.reason)


def test_a_host_orders_a_rollback_with_a_question() -> None:
    """With a question pending the transcript goes back and the question is answered there."""
    model = Numbered()
    graph = make(model)
    say(graph, "q1", "q2")

    state = say(graph, "q3", should_rollback=True)

    assert [t for t in model.texts() if t.startswith("q")] == ["q1", "q3"]
    assert said(state["messages"])[-2] == "human: q3"


def test_an_unknown_checkpoint_from_a_host_changes_nothing_and_says_so() -> None:
    """A wrong id keeps the transcript, clears the flags, and the thread works."""
    graph = make(Numbered())
    say(graph, "q1")

    order = {"should_rollback": True, "rollback_checkpoint_id": "cp-nope"}
    state = graph.invoke(order, config())
    after = say(graph, "q2")

    assert "'cp-nope'" in last(state)
    assert state["should_rollback"] is False
    assert said(after["messages"])[-1] == "ai: This is draft 2, about what was asked."


UNKNOWN_PLACE = {"should_rollback": True, "rollback_checkpoint_id": "nope"}


@pytest.mark.sample(every=3)
@pytest.mark.parametrize(
    ("order", "kind"),
    [
        pytest.param(UNKNOWN_PLACE, "UnknownCheckpointError", id="flag"),
        pytest.param(UNKNOWN_PLACE | asks("q2"), "UnknownCheckpointError", id="flag and question"),
        pytest.param(asks("/rollback nope"), "UnknownCheckpointError", id="typed"),
        pytest.param(asks("/redo"), "NothingToRedoError", id="nothing to redo"),
        pytest.param(asks("/restore nope"), "UnknownBranchError", id="refused on its way"),
        pytest.param({"start_task": "/a"}, "InvalidNameError", id="task"),
        pytest.param(asks("/pin"), "CommandRefused", id="not allowed"),
        pytest.param(asks("/clear"), "CommandRefused", id="unknown"),
        pytest.param(asks("/undo now"), "CommandRefused", id="not alone"),
        pytest.param(asks("/threads"), "CommandRefused", id="of a shell"),
        pytest.param(asks("   "), "EmptyMessageError", id="empty message"),
    ],
)
@pytest.mark.parametrize("options", [{}, {"store": None}], ids=["store", "no store"])
async def test_a_program_sees_that_an_order_was_refused(
    order: dict[str, Any], kind: str, options: dict[str, Any]
) -> None:
    """The output names the error and the notice's text; the next run resets it."""
    commands = ["undo", "redo", "rollback", "restore"]
    graph = make(Numbered(), commands=commands, **options)
    assert say(graph, "q1")["refusal"] is None

    state = await graph.ainvoke(order, config())

    assert kind == state["refusal"]["kind"]
    assert last(state).startswith(state["refusal"]["message"])
    assert say(graph, "q3")["refusal"] is None
    assert graph.invoke(asks("/undo"), config())["refusal"] is None


def test_a_refusal_does_not_outlive_a_decision() -> None:
    """A command that is refused while a person is asked is not in the output of the resumed run."""
    graph = make(Numbered(), scores(0.1), settings={"max_rollbacks": 0, "on_exhausted": "ask"})
    assert say(graph, "q1")["__interrupt__"]

    state = say(graph, "/clear")
    assert "CommandRefused" == state["refusal"]["kind"]

    assert graph.invoke(Command(resume="approve"), config())["refusal"] is None


@pytest.mark.parametrize(
    ("text", "question"),
    [
        pytest.param("   \n", "empty", id="blank"),
        pytest.param("x" * 1_000_000, "1000000 characters", id="megabyte"),
    ],
)
def test_a_message_that_cannot_be_answered_is_refused_by_the_graph(
    text: str, question: str
) -> None:
    """Blank and oversized messages get a notice, and no model sees them, then or later."""
    model = Numbered()
    graph = make(model)

    state = say(graph, text)
    say(graph, "q1")

    assert question in last(state)
    assert model.inputs
    assert model.texts() == ["q1"]


ASK = {"settings": {"on_exhausted": "ask", "max_rollbacks": 1}}


def graph_without_passing_draft(*after: float) -> tuple:
    """A graph that waits for a person's decision on two rejected drafts."""
    model = Numbered()
    graph = make(model, scores(0.3, 0.2, *after), **ASK)
    state = say(graph, "q1")
    return model, graph, state["__interrupt__"][0].value


def test_the_request_to_a_person_fits_langchain_and_the_inbox() -> None:
    """The interrupt carries the best draft in the field's own format."""
    _, _, request = graph_without_passing_draft()

    (action,) = request["action_requests"]
    assert action["args"] == action["arguments"]
    assert action["args"]["answer"] == "This is draft 1, about what was asked."
    assert request["review_configs"][0]["allowed_decisions"] == [
        "approve",
        "edit",
        "reject",
        "respond",
    ]


EDITED = {"name": "deliver_answer", "args": {"answer": "My own words."}}


@pytest.mark.parametrize(
    ("decision", "text", "flag"),
    [
        pytest.param(
            {"decisions": [{"type": "approve"}]},
            "This is draft 1, about what was asked.",
            "low_quality",
            id="approve",
        ),
        pytest.param(
            [{"type": "accept", "args": None}],
            "This is draft 1, about what was asked.",
            "low_quality",
            id="inbox-accept",
        ),
        pytest.param(
            {"decisions": [{"type": "edit", "edited_action": EDITED}]},
            "My own words.",
            "by_person",
            id="edit",
        ),
        pytest.param(
            [{"type": "edit", "args": {"action": "deliver_answer", "args": {"answer": "Mine."}}}],
            "Mine.",
            "by_person",
            id="inbox-edit",
        ),
    ],
)
def test_a_person_decides_what_is_delivered(decision: object, text: str, flag: str) -> None:
    """Approve delivers the best draft, edit the person's words, both marked."""
    model, graph, _ = graph_without_passing_draft()

    state = graph.invoke(Command(resume=decision), config())

    assert text == last(state)
    assert flag == annotation_of(state["messages"][-1])["flag"]
    assert len(model.inputs) == 2


@pytest.mark.parametrize(
    "decision",
    [
        pytest.param({"decisions": [{"type": "respond", "message": "Use a table."}]}, id="respond"),
        pytest.param([{"type": "response", "args": "Use a table."}], id="inbox-response"),
    ],
)
def test_a_person_asks_for_one_more_attempt(decision: object) -> None:
    """The person's words reach the next attempt, which is judged like any other."""
    model, graph, _ = graph_without_passing_draft(0.9)

    state = graph.invoke(Command(resume=decision), config())

    assert "Use a table." in model.texts()[0]
    assert last(state) == "This is draft 3, about what was asked."


def test_a_person_rejects_every_draft() -> None:
    """Nothing is delivered, the question is answered by a notice, and the thread works."""
    model, graph, _ = graph_without_passing_draft(0.9)

    state = graph.invoke(Command(resume={"decisions": [{"type": "reject"}]}), config())
    after = say(graph, "q2")

    assert "No answer" in last(state)
    assert model.texts() == ["q2"]
    assert last(after) == "This is draft 3, about what was asked."
    assert 2 == len(listed_branches(graph))


def test_rejecting_every_draft_costs_no_earlier_turn() -> None:
    """What the retries removed is back in the transcript once a person has decided."""
    graph = make(Numbered(), scores(0.9, 0.6, 0.2, 0.2), **ASK)
    say(graph, "q1", "q2", "q3")

    graph.invoke(Command(resume="reject"), config())

    assert ["human: q1", "human: q2", "human: q3"] == transcript(graph)[::2]


def test_nonsense_as_a_decision_asks_again() -> None:
    """An answer that is no decision keeps the interrupt open and names the fault."""
    _, graph, _ = graph_without_passing_draft()

    second_state = graph.invoke(Command(resume={"what": "?"}), config())
    state = graph.invoke(Command(resume="approve"), config())

    request = second_state["__interrupt__"][0].value["action_requests"][0]
    assert "no decision" in request["description"]
    assert last(state) == "This is draft 1, about what was asked."


def test_a_checkpoint_name_is_taken_once() -> None:
    """A second checkpoint of the same name is refused, the first stays."""
    graph = make(Numbered())
    say(graph, "q1", "/checkpoint home", "q2")

    state = say(graph, "/checkpoint home")

    assert "exists already" in last(state)
    assert ["home"] == [
        annotation["name"] for annotation in state["checkpoints"] if annotation["name"]
    ]


def test_messages_of_a_front_end_keep_their_ids() -> None:
    """A rollback never gives a message another id."""
    graph = make(Numbered())
    graph.invoke({"messages": [HumanMessage("q1", id="h1")]}, config())
    before = graph.get_state(config()).values["messages"]
    say(graph, "q2", "/rollback")

    after = graph.get_state(config()).values["messages"]

    assert [m.id for m in before] == [m.id for m in after[:2]]
    assert after[0].id == "h1"


@pytest.mark.parametrize("value", [{"messages": [("user", "/undo")]}, {"order": {"verb": "undo"}}])
def test_an_undo_takes_a_stopped_turn_first(value: dict[str, Any]) -> None:
    """Typed or given by a host, it removes the question that got no answer, and no earlier turn."""

    def answer(messages: Any) -> AIMessage:
        if "fail" in messages[-1].text:
            raise ValueError("down")
        return AIMessage("Fine.")

    graph = make(answer)
    say(graph, "one?")
    with pytest.raises(ValueError, match="down"):
        say(graph, "fail?")
    state = graph.invoke(value, config())

    texts = [message.text for message in state["messages"]]
    assert ["one?", "Fine."] == texts[:2]
    assert "fail?" not in texts
