"""What every database keeps of a conversation, and what it gives back."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt

from tests.graph.kit import Numbered, scores
from tests.reading import replayed, said
from tests.storage.conftest import Opens
from tests.threads import registry_of
from unsay import AsyncConversation, Conversation, Registry
from unsay.errors import (
    BudgetExceededError,
    ConflictError,
    NotFoundError,
    SessionEndedError,
    UnknownThreadError,
    UnsayError,
)
from unsay.storage.base import Database
from unsay.testing import ScriptedChat, ScriptedDetector, ToolCalls
from unsay.tools import reversible

OpensThread = Callable[..., Conversation]
SHIFTS = ScriptedDetector(shifts={"NEW": "new"})


@pytest.fixture
def open_thread(opens: Opens) -> OpensThread:
    """Opens a conversation, each time over a reopened database."""

    def open_it(thread: str = "t", **options: Any) -> Conversation:
        given_options = {"model": Numbered(), "judge": scores(), **options}
        return Conversation.open(opens(), thread=thread, **given_options)

    return open_it


def words(conversation: Conversation) -> list[str]:
    """The questions of a transcript."""
    return [message.text for message in conversation.messages() if message.type == "human"]


def conversation_of(open_thread: OpensThread, *questions: str, **options: Any) -> Conversation:
    """A conversation after some turns."""
    conversation = open_thread(**options)
    for question in questions:
        conversation.say(question)
    return conversation


def test_a_transcript_is_read_again_as_it_was_said(open_thread: OpensThread) -> None:
    """Another opening finds the same messages, with their ids and verdicts."""
    first = conversation_of(open_thread, "京都は？", "And Nara?").messages()

    assert first == open_thread().messages()


def test_threads_do_not_mix(open_thread: OpensThread) -> None:
    """Names that begin alike, or differ in case, are separate threads."""
    for name in ("t", "t.1", "t%", "T"):
        open_thread(name).say(f"said in {name}")

    assert {name: [f"said in {name}"] for name in ("t", "t.1", "t%", "T")} == {
        name: words(open_thread(name)) for name in ("t", "t.1", "t%", "T")
    }


def test_undo_and_redo_outlive_the_process(open_thread: OpensThread) -> None:
    """Each step is taken by another opening."""
    conversation_of(open_thread, "q1", "q2", "q3")
    open_thread().undo()
    open_thread().undo()
    one = words(open_thread())
    open_thread().redo()
    open_thread().redo()

    assert (["q1"], ["q1", "q2", "q3"]) == (one, words(open_thread()))


def test_a_rollback_is_kept_as_a_branch(open_thread: OpensThread) -> None:
    """What a rollback removes can be listed and restored later."""
    conversation_of(open_thread, "q1", "q2", "q3")
    open_thread().rollback(turns=2)
    questions = words(open_thread())
    branch = next(branch for branch in open_thread().branches() if branch.kind == "person")
    open_thread().restore(branch.id)

    assert (["q1"], ["q1", "q2", "q3"]) == (questions, words(open_thread()))


def test_one_message_of_a_branch_is_picked(open_thread: OpensThread) -> None:
    """A single message comes back, and the rest of its branch does not."""
    conversation = conversation_of(open_thread, "q1", "q2")
    answer = conversation.messages()[-1]
    conversation.rollback(turns=1)
    branch = next(branch for branch in conversation.branches() if branch.kind == "person")
    open_thread().pick([answer.id or ""], branch.id)

    assert answer.text in [message.text for message in open_thread().messages()]


def test_a_named_checkpoint_is_found_again(open_thread: OpensThread) -> None:
    """Another opening goes back to it by its name."""
    conversation = conversation_of(open_thread, "q1")
    conversation.checkpoint("home")
    conversation.say("q2")
    open_thread().rollback("home")

    assert ["q1"] == words(open_thread())
    assert "home" in [checkpoint["name"] for checkpoint in open_thread().checkpoints()]


def test_a_fork_is_a_thread_of_its_own(open_thread: OpensThread) -> None:
    """Messages of a fork are not in the thread that it began from."""
    conversation_of(open_thread, "q1", "q2").fork(thread="f", turns=1)
    open_thread("f").say("another")

    assert (["q1", "q2"], ["q1", "another"]) == (words(open_thread()), words(open_thread("f")))


def test_a_retry_keeps_the_first_answer(open_thread: OpensThread) -> None:
    """The answer that was there before comes back with an undo."""
    before = conversation_of(open_thread, "q1").messages()[-1].text
    open_thread(model=ScriptedChat(default="Another answer, about what was asked.")).retry()
    text = open_thread().messages()[-1].text
    open_thread().undo()

    assert "Another answer, about what was asked." == text
    assert before == open_thread().messages()[-1].text


def test_a_turn_id_is_answered_once(open_thread: OpensThread) -> None:
    """The second time the stored answer is given, and the model is not asked."""
    model = Numbered()
    first = open_thread(model=model).say("q1", turn_id="one")
    second = open_thread(model=model).say("q1", turn_id="one")

    assert (first.text, 1) == (second.text, len(model.inputs))


def test_a_turn_id_is_of_one_question(open_thread: OpensThread) -> None:
    """Other words under the same id are refused, and nothing is stored."""
    open_thread().say("q1", turn_id="one")
    with pytest.raises(ConflictError):
        open_thread().say("q2", turn_id="one")

    assert ["q1"] == words(open_thread())


def test_a_turn_whose_model_fails_goes_on_later(open_thread: OpensThread) -> None:
    """The question is kept, and is asked once."""

    def fails(_: Any) -> Any:
        raise RuntimeError("no model today")

    with pytest.raises(RuntimeError, match="no model today"):
        open_thread(model=fails).say("q1")
    reply = open_thread().resume()

    assert ["human: q1", f"ai: {reply.text}"] == said(open_thread().messages())


def test_a_tool_that_finished_is_not_called_again(open_thread: OpensThread) -> None:
    """Its result is there when the next process resumes the turn."""
    calls: list[int] = []

    @reversible(undo=lambda result: None, describe="nothing")
    def count() -> str:
        """Count."""
        calls.append(1)
        return "counted"

    def script(messages: list[Any]) -> Any:
        if messages[-1].type == "tool" and not talked:
            talked.append(1)
            raise RuntimeError("after the tool")
        return ToolCalls(calls=[{"name": "count"}], then="It is {result} now.")

    talked: list[int] = []
    model = ScriptedChat(script=script)
    with pytest.raises(RuntimeError, match="after the tool"):
        open_thread(model=model, tools=[count]).say("Count, please.")
    reply = open_thread(model=model, tools=[count]).resume()

    assert ("It is counted now.", 1) == (reply.text, len(calls))


def test_a_decision_waits_for_the_next_process(open_thread: OpensThread) -> None:
    """Rejected drafts are shown to a person, who decides in another opening."""
    settings = {"on_exhausted": "ask", "max_rollbacks": 0}
    open_thread(judge=scores(0.1), settings=settings).say("q1")
    with pytest.raises(ConflictError):
        open_thread(settings=settings).say("q2")
    last = open_thread(settings=settings).resume("approve")

    assert ["human: q1", f"ai: {last.text}"] == said(open_thread().messages())


def test_topics_and_summaries_are_kept(open_thread: OpensThread) -> None:
    """The timeline of another opening is the same."""
    first = conversation_of(open_thread, "q1", "NEW: q2", "q3", detector=SHIFTS).timeline()

    assert first == open_thread().timeline()
    assert 2 == len({turn.topic for turn in first.turns})


def test_pins_and_forgotten_messages_are_kept(open_thread: OpensThread) -> None:
    """Both can be undone by another opening."""
    conversation = conversation_of(open_thread, "q1", "q2", "q3")
    names = [message.id or "" for message in conversation.messages()]
    conversation.pins.add(names[0])
    conversation.forget(names[2])
    pins = open_thread().pins.list()
    forgotten = open_thread().forgotten()
    open_thread().undo()

    assert [names[0]] == [pin["message_id"] for pin in pins]
    assert 1 == len(forgotten)
    assert () == open_thread().forgotten()


def test_what_was_forgotten_is_not_sent(open_thread: OpensThread) -> None:
    """The next opening's model does not see it."""
    conversation = conversation_of(open_thread, "the parrot is green", "q2")
    conversation.forget(conversation.messages()[0].id or "")
    model = Numbered()
    open_thread(model=model).say("q3")

    assert not [text for text in model.texts() if "parrot" in text]


def test_old_messages_are_loaded_again(open_thread: OpensThread) -> None:
    """With a small window the state lets go of the oldest messages; reading finds them all."""
    questions = [f"Question {number}?" for number in range(12)]
    conversation = conversation_of(
        open_thread,
        *(f"NEW: {q}" if n % 3 == 0 else q for n, q in enumerate(questions)),
        settings={"live_messages": 4},
        detector=SHIFTS,
    )
    messages = conversation.graph.get_state({"configurable": {"thread_id": "t"}}).values["messages"]

    assert len(messages) < 24
    assert 24 == len(open_thread(settings={"live_messages": 4}).messages())


def test_events_replay_to_the_transcript(open_thread: OpensThread) -> None:
    """The event log of any database makes the transcript again."""
    conversation = conversation_of(open_thread, "q1", "q2", "q3")
    conversation.rollback(turns=1)
    conversation.undo()

    assert open_thread().messages() == replayed(registry_of(open_thread()).events()).messages


def test_events_have_no_gaps(open_thread: OpensThread) -> None:
    """Each event is there once, in order of time, from any writer."""
    for question in ("q1", "q2", "q3"):
        open_thread().say(question)
    events = registry_of(open_thread()).events()

    assert len(events) == len({event["id"] for event in events})
    assert sorted(event["at"] for event in events) == [event["at"] for event in events]
    assert 3 == len([event for event in events if event["type"] == "user_message"])


def test_runs_are_listed_by_status(open_thread: OpensThread) -> None:
    """Failed and completed runs are distinguished."""

    def fails(_: Any) -> Any:
        raise RuntimeError("no model today")

    open_thread().say("q1")
    with pytest.raises(RuntimeError):
        open_thread(model=fails).say("q2")

    by_status = {
        status: len(registry_of(open_thread()).runs(status=status).runs)
        for status in ("completed", "failed")
    }
    assert {"completed": 1, "failed": 1} == by_status


def test_runs_come_in_pages(open_thread: OpensThread) -> None:
    """Each run is on one page, the newest first."""
    conversation = conversation_of(open_thread, *(f"q{number}" for number in range(5)))
    first = registry_of(conversation).runs(limit=3)
    second = registry_of(open_thread()).runs(limit=3, cursor=first.cursor)

    assert (3, 2, None) == (len(first.runs), len(second.runs), second.cursor)
    assert 5 == len({run.run_id for page in (first, second) for run in page.runs})


def test_tokens_are_counted_over_all_openings(open_thread: OpensThread) -> None:
    """What was used before is not forgotten."""
    conversation_of(open_thread, "q1")
    before = open_thread().tokens()
    conversation_of(open_thread, "q2")

    assert before.spent != open_thread().tokens().spent


def test_labels_are_filtered_by(open_thread: OpensThread, database: Database) -> None:
    """A thread is found by its labels, and by no other's."""
    open_thread("a").say("q1")
    registry_of(open_thread("a")).label(project="kyoto")
    open_thread("b").say("q1")
    registry_of(open_thread("b")).label(project="nara")

    sessions = Registry(database.store).sessions(labels={"project": "kyoto"})
    assert ["a"] == [entry.thread_id for entry in sessions.sessions]


def test_threads_come_in_pages(open_thread: OpensThread, database: Database) -> None:
    """Each thread is on one page."""
    for number in range(5):
        open_thread(f"t{number}").say("q1")
    first = Registry(database.store).sessions(limit=3)
    second = Registry(database.store).sessions(limit=3, cursor=first.cursor)

    names = sorted(entry.thread_id for page in (first, second) for entry in page.sessions)
    assert [f"t{number}" for number in range(5)] == names


def test_a_thread_that_was_ended_is_refused(open_thread: OpensThread) -> None:
    """It can be read, and nothing is said in it."""
    registry_of(conversation_of(open_thread, "q1")).end()
    with pytest.raises(SessionEndedError):
        open_thread().say("q2")

    assert ["q1"] == words(open_thread())


def test_a_purge_leaves_nothing(open_thread: OpensThread, database: Database) -> None:
    """No item and no state of the thread is left; its neighbour is whole."""
    for name in ("t", "t2"):
        conversation = conversation_of(open_thread, "q1", "q2", thread=name)
        conversation.rollback(turns=1)
        conversation.checkpoint("home")
    before = open_thread("t2").messages()
    purge = registry_of(open_thread("t")).purge()

    assert min(purge.checkpoints, purge.items) > 0
    assert [] == [
        namespace for namespace in database.store.list_namespaces() if namespace[-1] == "t"
    ]
    assert [] == list(database.saver.list({"configurable": {"thread_id": "t"}}))
    assert ["t2"] == [entry.thread_id for entry in Registry(database.store).sessions().sessions]
    assert before == open_thread("t2").messages()


def test_a_thread_that_was_purged_is_unknown(open_thread: OpensThread) -> None:
    """Its name is free, and begins empty."""
    registry_of(conversation_of(open_thread, "q1")).purge()
    with pytest.raises(UnknownThreadError):
        open_thread().timeline()
    open_thread().say("q2")

    assert ["q2"] == words(open_thread())


def test_a_failed_request_is_replayed(open_thread: OpensThread) -> None:
    """What the failed model was sent can be sent to another one."""

    def fails(_: Any) -> Any:
        raise RuntimeError("no model today")

    with pytest.raises(RuntimeError):
        open_thread(model=fails).say("q1")

    replay = open_thread().replay(model=lambda _: "This would work, about what was asked.")

    assert ("q1", True) == (replay.question, replay.exact)
    assert replay.again is not None
    assert "This would work, about what was asked." == replay.again.answer


def test_what_a_tool_did_is_taken_back_once(open_thread: OpensThread) -> None:
    """The compensation runs in another opening, and never twice."""
    world: list[str] = []

    @reversible(undo=lambda result: world.append(f"-{result}"), describe="a booking")
    def book() -> str:
        """Book a seat."""
        world.append("+seat")
        return "seat"

    options = {
        "model": ScriptedChat(script=lambda _: ToolCalls(calls=[{"name": "book"}], then="Done.")),
        "tools": [book],
    }
    open_thread(**options).say("Book a seat.")
    open_thread(**options).undo()
    with pytest.raises(UnsayError):
        open_thread(**options).undo()

    assert ["+seat", "-seat"] == world


def test_a_budget_counts_over_all_openings(open_thread: OpensThread) -> None:
    """What an earlier process used is refused to the next one."""
    settings = {"session_budget_tokens": 3_000, "budget_mode": "hard", "backpressure": ()}
    answer_count = 0
    with suppress(BudgetExceededError):
        for number in range(20):
            open_thread(settings=settings).say(f"q{number}")
            answer_count += 1

    assert 1 <= answer_count < 20


@pytest.mark.parametrize("target", ["branch-none", "nothing"])
def test_what_is_not_there_cannot_be_restored(open_thread: OpensThread, target: str) -> None:
    """The error is ours, and nothing is changed."""
    before = conversation_of(open_thread, "q1").messages()
    with pytest.raises(NotFoundError):
        open_thread().restore(target)

    assert before == open_thread().messages()


async def test_the_async_form_works_on_the_same_thread(
    open_thread: OpensThread, opens: Opens
) -> None:
    """Messages that were written in one form are read in the other."""
    open_thread().say("q1")
    conversation = AsyncConversation.open(opens(), thread="t", model=Numbered(), judge=scores())
    await conversation.say("q2")
    await conversation.undo()
    await conversation.redo()

    assert ["q1", "q2"] == words(open_thread())


def test_a_host_builds_its_graph_over_it(database: Database) -> None:
    """A graph with this checkpointer and store is the same thread as a conversation."""
    with Conversation.open(database, thread="t", model=Numbered(), judge=scores()) as conversation:
        conversation.graph.invoke(
            {"messages": [("user", "q1")]}, {"configurable": {"thread_id": "t"}}
        )
        assert ["q1"] == words(conversation)


def sending_agent() -> Any:
    """An agent that asks a person, maybe twice, and fails with an answer that is no mapping."""

    def send(_: MessagesState) -> dict[str, Any]:
        answer = interrupt({"question": "Send it?"})
        if "more" in answer:
            answer = interrupt({"question": "Send it with more?"})
        return {"messages": [AIMessage("Sent." if answer["send"] else "Kept.")]}

    return StateGraph(MessagesState).add_node("send", send).add_edge(START, "send").compile()


def test_a_decision_that_an_agent_cannot_read_may_be_taken_again(open_thread: OpensThread) -> None:
    """Its error is raised, the turn still waits, also in another process; earlier right ones count."""
    assert "decision" == open_thread(model=sending_agent()).say("Send it.").kind
    for wrong in ("maybe", ["yes"]):
        with pytest.raises(TypeError):
            open_thread(model=sending_agent()).resume(wrong)
    conversation = open_thread(model=sending_agent())
    assert "decision" == conversation.resume({"more": True}).kind
    with pytest.raises(TypeError):
        conversation.resume(["yes"])
    assert "Sent." == conversation.resume({"send": True}).text
    assert "decision" == conversation.say("And again.").kind
    with pytest.raises(TypeError):
        list(conversation.stream(decision="maybe"))
    assert "Kept." == list(conversation.stream(decision={"send": False}))[-1].text
    assert ["Send it.", "And again."] == words(open_thread())
