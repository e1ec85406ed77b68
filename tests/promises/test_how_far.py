"""How far an automatic rollback goes: what it keeps, what it removes, and how that comes back."""

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.types import Command

from tests.graph.kit import Numbered, config, make, say, scores, whole_state
from tests.reading import replayed, said, state_of
from tests.threads import open_conversation
from unsay.conversation.conversation import Conversation
from unsay.messages.annotations import annotation_of, is_answer, is_notice, spoken
from unsay.messages.content import text_of
from unsay.prompts import ENGLISH
from unsay.results.results import Checkpoint, Removed
from unsay.testing import ScriptedChat, ScriptedJudge

BLAMED = ENGLISH.say("check_reasons.blamed")

pytestmark = pytest.mark.usefixtures("closes_databases")

Rows = list[str]


def rows(messages: Sequence[AnyMessage]) -> Rows:
    """What was said, without commands and notices."""
    return said(spoken(messages))


def true(conversation: Conversation) -> None:
    """Checkpoints, metadata, history and event log agree with the transcript and the timeline."""
    state = state_of(conversation)
    messages = conversation.messages()
    turns = conversation.timeline().turns
    numbers = {turn.message_id: turn.number for turn in turns}
    positions = {message.id: index for index, message in enumerate(messages)}
    checkpoints = conversation.checkpoints()
    assert [numbers[checkpoint["message_id"]] for checkpoint in checkpoints] == [
        checkpoint["turn"] for checkpoint in checkpoints
    ]
    metadata = state.get("checkpoint_metadata", {})
    if checkpoints:
        newest_checkpoint = max(checkpoints, key=lambda item: positions[item["message_id"]])
        position = positions[newest_checkpoint["message_id"]]
        assert (newest_checkpoint["id"], newest_checkpoint["name"]) == (
            metadata["checkpoint_id"],
            metadata["name"],
        )
        assert (newest_checkpoint["score"], position + 1) == (
            metadata["quality_score"],
            metadata["message_count"],
        )
    else:
        assert metadata == {}
    log = replayed(conversation)
    assert [m.id for m in messages] == [m.id for m in log.messages]
    # The log has all that were made; the state keeps fewer of the old ones.
    logged_checkpoints = {checkpoint["id"]: checkpoint for checkpoint in log.checkpoints}
    assert list(checkpoints) == [
        Checkpoint.of(logged_checkpoints[checkpoint["id"]]) for checkpoint in checkpoints
    ]


def nine_after_a_checkpoint(**options: Any) -> Any:
    """Verdicts: a checkpoint, nine that pass, a rejected draft, one that passes."""
    return scores(0.9, *[0.7] * 9, 0.1, 0.7, **options)


def test_one_rejected_draft_removes_no_delivered_answer() -> None:
    """Nine answers of 0.7 after a checkpoint of 0.9 stay when the next draft fails."""
    conversation = open_conversation(judge=nine_after_a_checkpoint())
    for number in range(10):
        conversation.say(f"q{number}")
    before = conversation.messages()

    reply = conversation.say("q10")

    assert before == conversation.messages()[:-2]
    assert (1, (), "passed") == (reply.rollbacks, reply.removed, reply.outcome)
    true(conversation)
    conversation.undo()
    assert before == conversation.messages()


def test_one_rejected_draft_removes_no_delivered_answer_for_a_host() -> None:
    """The same through the compiled graph."""
    graph = make(Numbered(), nine_after_a_checkpoint())
    before = say(graph, *(f"q{number}" for number in range(10)))["messages"]

    state = say(graph, "q10")

    assert before == state["messages"][:-2]


def test_a_third_attempt_that_passes_keeps_what_the_user_said() -> None:
    """After two rejected drafts, "I leave on 5 May" is in the transcript and in the context."""
    model = Numbered()
    conversation = open_conversation(judge=scores(0.6, 0.6, 0.1, 0.1, 0.7), model=model)
    conversation.say("I leave on 5 May")
    conversation.say("Thanks")

    reply = conversation.say("When do I leave?")

    assert (2, ()) == (reply.rollbacks, reply.removed)
    assert "human: I leave on 5 May" == rows(conversation.messages())[0]
    assert "I leave on 5 May" in model.texts()


@pytest.mark.full
@pytest.mark.parametrize("front", ["conversation", "graph"])
def test_false_alarms_of_the_local_check_cost_no_delivered_turn(front: str) -> None:
    """Random words with a judge of 0.9: rejected drafts and all, every delivered turn stays."""
    chance = random.Random(7)  # noqa: S311 - the words of a test
    choices = [
        chance.choice(
            ["sun", "rain", "tea", "road", "salt", "moon", "fish", "wood", "iron", "corn"]
        )
        for _ in range(90)
    ]

    def script(_: Any) -> str:
        return " ".join(chance.choices(choices, k=chance.randint(1, 12)))

    model: Any = ScriptedChat(script=script)
    turns = 120
    if front == "graph":
        graph = make(model, lambda _: 0.9)
        state = say(graph, *(" ".join(chance.choices(choices, k=4)) for _ in range(turns)))
        answers = list(filter(is_answer, state["messages"]))
    else:
        conversation = open_conversation(judge=lambda _: 0.9, model=model)
        for _ in range(turns):
            conversation.say(" ".join(chance.choices(choices, k=4)))
        answers = list(filter(is_answer, conversation.messages()))
        true(conversation)
    assert turns == len(answers)


def blaming(index: int, second_score: Any = 0.1) -> Callable[[Any], Any]:
    """A judge that passes answers, and fails "bad" drafts with the blame on an earlier answer.

    `again` is its verdict on that answer when it reads it once more.
    """

    def judge(request: list[Any]) -> Any:
        text = text_of(request[-1])
        answer = text.rpartition("<answer")[2]
        if BLAMED in text:
            return second_score
        if "bad" not in answer:
            return 0.7
        ids = [piece.split("]")[0] for piece in text.split("[id ")[1:]]
        return {
            "score": 0.1,
            "reason": "An earlier answer is false.",
            "blamed": [*ids[index : index + 1], "no"],
        }

    return judge


def blamed_conversation(
    second_score: Any = 0.1, **options: Any
) -> tuple[Conversation, list[AnyMessage]]:
    """Three delivered answers; the next draft is bad and its judge blames the second one."""
    replies = {
        "one": "First.",
        "two": "Second.",
        "three": "Third.",
        "four": ["A bad one.", "Four."],
    }
    conversation = open_conversation(
        judge=blaming(1, second_score), model=ScriptedChat(replies=replies), **options
    )
    for question in ("one", "two", "three"):
        conversation.say(question)
    return conversation, conversation.messages()


def test_a_blamed_answer_is_removed_alone_and_the_reply_names_it() -> None:
    """The blamed turn goes; what came after it stays. The reply and a notice name it."""
    conversation, before = blamed_conversation()

    reply = conversation.say("four")

    (removed,) = reply.removed
    assert Removed(turns=1, messages=2, branch=removed.branch, reason=removed.reason) == removed
    assert "An earlier answer is false." in removed.reason
    assert rows(before[:2] + before[4:]) == rows(conversation.messages())[:-2]
    (said_so,) = filter(is_notice, conversation.messages())
    assert removed.branch in text_of(said_so)
    assert removed.reason in text_of(said_so)
    assert is_answer(conversation.messages()[-1])
    true(conversation)


@pytest.mark.parametrize("second_score", [0.7, "no verdict"], ids=["passed", "unscored"])
def test_a_blamed_answer_that_passes_once_more_stays(second_score: Any) -> None:
    """One verdict that names a passed answer by chance removes nothing; the draft is rejected."""
    conversation, before = blamed_conversation(second_score)

    reply = conversation.say("four")

    assert ("Four.", 1, ()) == (reply.text, reply.rollbacks, reply.removed)
    assert before == conversation.messages()[:-2]


def test_a_host_keeps_a_blamed_answer_that_passes_once_more() -> None:
    """The same through the compiled graph, blocking and on an event loop."""
    replies = {"one": "First.", "two": "Second.", "three": ["A bad one.", "Third."]}
    for second_score, score_left in ((0.7, 6), (0.1, 5)):
        graph = make(ScriptedChat(replies=replies), blaming(1, second_score))
        for question in replies:
            state = asyncio.run(graph.ainvoke({"messages": [("user", question)]}, config()))
        assert score_left == len(state["messages"])


def test_undo_takes_back_the_whole_say_with_its_rollback() -> None:
    """One undo removes the answer and brings the blamed turn back to its place; redo repeats it."""
    conversation, before = blamed_conversation()
    conversation.say("four")
    after = conversation.messages()

    conversation.undo()
    undone = conversation.messages()
    true(conversation)
    conversation.redo()

    assert before == undone
    assert [m.id for m in after] == [m.id for m in conversation.messages()]
    true(conversation)
    conversation.undo()
    assert before == conversation.messages()
    true(conversation)


def test_restore_puts_what_was_removed_back_and_keeps_what_came_after() -> None:
    """The blamed turn returns to its place, and the new answer stays."""
    conversation, before = blamed_conversation()
    reply = conversation.say("four")
    after = conversation.messages()

    conversation.restore(reply.removed[0].branch)

    assert [*rows(before), "human: four", "ai: Four."] == rows(conversation.messages())
    true(conversation)
    conversation.undo()
    assert after == conversation.messages()


def test_only_real_ids_that_the_judge_was_shown_are_blamed() -> None:
    """An id that the judge made up, or that of a message it was not shown, removes nothing."""
    conversation = open_conversation(
        judge=lambda request: (
            {"score": 0.1, "reason": "no", "blamed": ["no", first]}
            if "draft 6" in text_of(request[-1])
            else 0.7
        )
    )
    first = ""
    for number in range(5):
        conversation.say(f"q{number}")
    first = conversation.messages()[1].id or ""

    reply = conversation.say("q5")

    assert (1, ()) == (reply.rollbacks, reply.removed)
    assert 12 == len(conversation.messages())


def conversation_with_checkpoint(front: str, **options: Any) -> Any:
    """A conversation with a checkpoint and two later answers, whose next draft fails."""
    judge = scores(0.9, 0.7, 0.7, 0.1, 0.7)
    if front == "settings":
        return open_conversation(judge=judge, settings={"rollback_to": "checkpoint", **options})
    return open_conversation(judge=judge, context={"rollback_to": "checkpoint", **options})


@pytest.mark.parametrize("front", ["settings", "context"])
def test_a_host_may_choose_to_go_back_to_a_checkpoint(front: str) -> None:
    """The turns after it are removed and named; undo and restore bring them back in place."""
    conversation = conversation_with_checkpoint(front)
    for question in ("one", "two", "three"):
        conversation.say(question)
    before = conversation.messages()

    reply = conversation.say("four")
    after = rows(conversation.messages())

    assert ["human: one", "human: four"] == [item for item in after if "human" in item]
    (removed,) = reply.removed
    assert (2, 4) == (removed.turns, removed.messages)
    true(conversation)
    conversation.restore(removed.branch)
    assert [*rows(before), *after[-2:]] == rows(conversation.messages())
    true(conversation)
    conversation.undo()
    conversation.undo()
    assert before == conversation.messages()
    true(conversation)


def test_a_turn_that_fails_altogether_leaves_the_transcript_as_it_was() -> None:
    """What the attempts removed is back before the best draft, which is flagged."""
    replies = {"one": "First.", "two": "Second.", "three": ["A bad one.", "Still bad.", "bad too"]}
    conversation = open_conversation(judge=blaming(0), model=ScriptedChat(replies=replies))
    for question in ("one", "two"):
        conversation.say(question)
    before = conversation.messages()

    reply = conversation.say("three")

    assert ("low_quality", (), 2) == (reply.flag, reply.removed, reply.rollbacks)
    assert before == conversation.messages()[:-2]
    true(conversation)
    conversation.undo()
    assert before == conversation.messages()


def injected_messages(*texts: str) -> list[AnyMessage]:
    """Exchanges that an app adds, and a question."""
    pairs = [(HumanMessage(f"about {text}"), AIMessage(text)) for text in texts]
    return [*(message for pair in pairs for message in pair), HumanMessage("now")]


def test_a_bad_injected_exchange_before_a_good_one_is_lost_alone() -> None:
    """Only the bad exchange leaves the transcript; the stream and a notice name it."""
    graph = make(Numbered(), ScriptedJudge(scores={"bad": 0.1}))
    say(graph, "hello")

    chunks = list(
        graph.stream({"messages": injected_messages("bad", "fine")}, config(), stream_mode="custom")
    )
    state = whole_state(graph, {})

    assert ["hello", "about fine", "now"] == [
        m.content for m in state["messages"] if m.type == "human"
    ]
    (event,) = (chunk for chunk in chunks if chunk["unsay"] == "rollback")
    (removal,) = event["removals"]
    assert (1, 2) == (removal["turns"], removal["messages"])
    assert removal == annotation_of(state["messages"][-1])["removed"][0]
    assert any(
        removal["branch"] in chunk.get("text", "") for chunk in chunks if chunk["unsay"] == "notice"
    )


@pytest.mark.parametrize("answer", ["approve", "reject"])
def test_a_person_is_asked_before_a_rollback(answer: str) -> None:
    """`confirm_rollback` interrupts; a refusal delivers the draft and removes nothing."""
    conversation, before = blamed_conversation(settings={"confirm_rollback": True})

    asked_reply = conversation.say("four")
    (action,) = (asked_reply.request or {})["action_requests"]
    reply = conversation.resume(answer)

    assert ("decision", "A bad one.") == (asked_reply.kind, asked_reply.text)
    assert ("roll_back", 1) == (action["name"], action["args"]["turns"])
    assert ["approve", "reject"] == asked_reply.request["review_configs"][0]["allowed_decisions"]  # type: ignore[index]
    if answer == "approve":
        assert ("Four.", 1, None) == (reply.text, len(reply.removed), reply.flag)
    else:
        assert ("A bad one.", (), "low_quality") == (reply.text, reply.removed, reply.flag)
        assert before == conversation.messages()[:-2]
    true(conversation)


@pytest.mark.parametrize("answer", ["approve", "reject"])
def test_a_person_is_asked_before_injected_messages_are_removed(answer: str) -> None:
    """Through the compiled graph, by a run's context."""
    graph = make(Numbered(), ScriptedJudge(scores={"bad": 0.1}))

    options: Any = {"context": {"confirm_rollback": True}}
    state = graph.invoke({"messages": injected_messages("bad")}, config(), **options)
    (waiting,) = state["__interrupt__"]
    assert "roll_back" == waiting.value["action_requests"][0]["name"]
    state = graph.invoke(Command(resume=answer), config(), **options)

    assert (answer == "reject") == ("ai: bad" in said(state["messages"]))
    assert "ai: This is draft 1, about what was asked." == said(state["messages"])[-1]


def test_the_history_describes_what_happened() -> None:
    """Each entry has a sentence in the language of the conversation, and a number of the timeline."""
    graph = make(Numbered(), scores(0.9, 0.1, 0.9))

    notes = say(graph, "こんにちは", "また")["state_history"]

    assert "品質低下によりロールバックフラグ設定" in [note["description"] for note in notes]
    assert "最初の話題を開始" == notes[0]["description"]
    assert [1, 1, 2, 2, 2, 2] == [note["turn"] for note in notes if note["event"] != "new"]


VERDICTS = st.sampled_from([0.9, 0.7, 0.1])
STEPS = st.one_of(
    st.lists(VERDICTS, min_size=1, max_size=4).map(lambda item: ("say", item)),
    st.lists(VERDICTS, min_size=1, max_size=3).map(lambda item: ("inject", item)),
)


@given(steps=st.lists(STEPS, min_size=1, max_size=6))
def test_no_answer_that_passed_is_ever_removed(steps: list[tuple[str, list[float]]]) -> None:
    """Whatever fails, delivered and injected answers that passed stay, each undo is exact."""
    verdicts: list[float] = []
    conversation = open_conversation(judge=lambda _: verdicts.pop(0) if verdicts else 0.7)
    number = 0
    for kind, given_verdicts in steps:
        before = conversation.messages()
        messages: list[AnyMessage] = []
        if kind == "inject":
            for _ in given_verdicts:
                number += 1
                messages += [
                    HumanMessage(f"asked {number}", id=f"q{number}"),
                    AIMessage(f"said {number}", id=f"a{number}"),
                ]
            conversation.graph.update_state(
                config(conversation.thread_id), {"messages": messages}, as_node="process_message"
            )
        verdicts[:] = given_verdicts
        reply = conversation.say(f"question {number} of {len(before)}")
        failed = {
            message.id
            for pair, score in zip(
                zip(messages[::2], messages[1::2], strict=True), given_verdicts, strict=False
            )
            for message in pair
            if score < 0.5
        }
        ids = [m.id for m in (*before, *messages) if m.id not in failed]
        after = [m.id for m in conversation.messages()]
        assert ids == [name for name in after if name in set(ids)]
        assert not failed & set(after)
        assert sum(item.messages for item in reply.removed) == len(failed)
        true(conversation)
        if messages:
            continue
        conversation.undo()
        assert before == conversation.messages()
        conversation.redo()
        assert after == [m.id for m in conversation.messages()]
        true(conversation)


@given(
    blames=st.lists(
        st.tuples(st.booleans(), st.sets(st.integers(0, 2), max_size=3)), min_size=2, max_size=7
    )
)
def test_what_a_judge_blames_leaves_and_returns_exactly(
    blames: list[tuple[bool, set[int]]],
) -> None:
    """Only blamed turns leave; an undo, and restoring the branches, put them in their places."""
    plan: dict[str, Any] = {"fails": False, "blamed": set()}

    def judge(request: list[Any]) -> Any:
        ids = [piece.split("]")[0] for piece in text_of(request[-1]).split("[id ")[1:]]
        if BLAMED in text_of(request[-1]):
            return 0.1
        if not plan["fails"]:
            return 0.7
        plan["fails"] = False
        blamed_ids = [name for index, name in enumerate(ids) if index in plan["blamed"]]
        return {"score": 0.1, "reason": "no", "blamed": blamed_ids}

    conversation = open_conversation(judge=judge)
    for number, (fails, blamed) in enumerate(blames):
        before = conversation.messages()
        plan.update(fails=fails, blamed=blamed)
        reply = conversation.say(f"q{number}")
        true(conversation)
        after = conversation.messages()
        ids = {m.id for m in before} - {m.id for m in after}
        assert sum(item.messages for item in reply.removed) == len(ids)
        conversation.undo()
        assert before == conversation.messages()
        conversation.redo()
        assert [m.id for m in after] == [m.id for m in conversation.messages()]
        for item in reply.removed[::-1]:
            conversation.restore(item.branch)
        true(conversation)
        assert rows(before) == rows(conversation.messages())[:-2]
        for _ in reply.removed:
            conversation.undo()
        assert [m.id for m in after] == [m.id for m in conversation.messages()]
