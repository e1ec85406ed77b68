"""Going back and forth: rollbacks, undo and redo, another attempt, and what a restart makes of them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from tests.graph.back_kit import (
    JAPANESE,
    SHIFTS,
    Opening,
    branch_of,
    state,
    three,
    words,
)
from tests.graph.kit import Numbered, config, make, said, say, scores, transcript
from tests.graph.test_ledger_of_the_graph import ASK, broken, checked, trains
from tests.unit.ledger_kit import as_stored
from unsay.conversation.conversation import AsyncConversation, Conversation
from unsay.errors import (
    InputError,
    MessageTooLongError,
    ModelUnavailableError,
    NothingToRedoError,
    NothingToUndoError,
    UnknownCheckpointError,
    UnknownThreadError,
)
from unsay.events.transcript_replay import replay
from unsay.graph.compiled import Trusted
from unsay.messages.content import text_of
from unsay.testing import ScriptedChat, ScriptedJudge


@pytest.mark.parametrize(
    ("turns", "left"),
    [
        pytest.param(1, ["q1", "q2"], id="one"),
        pytest.param(2, ["q1"], id="two"),
        pytest.param(3, [], id="all"),
    ],
)
def test_so_many_turns_back(opened: Opening, turns: int, left: list[str]) -> None:
    """A rollback of N turns takes N answered turns, and an undo brings them back."""
    talk = three(opened)
    before = talk.messages()

    moved = talk.rollback(turns=turns)
    gone = words(talk)
    checked(talk)
    talk.undo()

    assert (left, len(left), 2 * turns) == (gone, moved.turns, moved.removed)
    assert f"q{4 - turns}" == moved.question
    assert before == talk.messages()
    checked(talk)


@pytest.mark.parametrize(
    ("asked", "error", "message"),
    [
        pytest.param({"turns": 4}, NothingToUndoError, "3 answered turns", id="too many"),
        pytest.param({"turns": 0}, InputError, "0 is not a number of turns", id="none"),
        pytest.param({"turns": -1}, InputError, "-1 is not a number of turns", id="negative"),
        pytest.param({"turns": True}, InputError, "True", id="no number"),
        pytest.param({"to": "x", "turns": 1}, InputError, "not both", id="both"),
        pytest.param({"to": "x"}, UnknownCheckpointError, "'x'", id="unknown"),
    ],
)
def test_an_impossible_way_back_changes_nothing(
    opened: Opening, asked: dict[str, Any], error: type[Exception], message: str
) -> None:
    """Rollback and preview give the same error, and it lists the choices."""
    talk = three(opened)
    before = talk.messages()

    for verb in (talk.rollback, talk.preview, lambda **given: fork_at(talk, **given)):
        with pytest.raises(error, match=message):
            verb(**asked)
    assert before == talk.messages()


def fork_at(talk: Conversation, to: str | None = None, turns: int | None = None) -> Conversation:
    """A fork, asked for as a rollback is."""
    return talk.fork(to, turns=turns)


def test_documents_go_and_return_with_their_turn(opened: Opening) -> None:
    """A turn back takes the question's documents too, in Japanese as well."""
    talk = opened()
    talk.say(JAPANESE[0])
    talk.say(JAPANESE[1], documents=["京都は二日で回れます。", "三日なら奈良にも行けます。"])
    before = talk.messages()

    shown = talk.preview(turns=1)
    talk.rollback(turns=1)
    left = words(talk)
    talk.undo()

    assert [JAPANESE[0]] == left
    assert (1, (JAPANESE[1],), 4) == (shown.turns, shown.questions, len(shown.message_ids))
    assert before == talk.messages()
    checked(talk)


def test_a_number_in_the_chat_is_turns_unless_a_checkpoint_is_named_so(opened: Opening) -> None:
    """`/rollback 2` goes two turns back, and to the checkpoint named 2 once there is one."""
    talk = three(opened)
    talk.say("/rollback 2")
    first = words(talk)
    talk.say("/undo")
    talk.checkpoint("２")
    talk.rollback(turns=3)
    talk.undo()
    talk.say("q4")
    talk.say("/rollback ２")

    assert ["q1"] == first
    assert ["q1", "q2", "q3"] == [each for each in words(talk) if each.startswith("q")]
    assert "99" in talk.say("/rollback 99").text
    assert "9" * 400 in talk.say("/rollback " + "9" * 400).text
    checked(talk)


def test_undo_and_redo_in_the_chat(opened: Opening) -> None:
    """The graph's own commands go back and forth; a redo too many is answered."""
    talk = three(opened)
    before = [line for line in said(talk.messages()) if "/" not in line]

    talk.say("/undo")
    talk.say("/undo")
    talk.say("/redo")
    done = talk.say("/redo")
    refused = talk.say("/redo")

    kept = [m for m in talk.messages() if m.type == "human" and "/" not in text_of(m)]
    assert ["q1", "q2", "q3"] == [text_of(m) for m in kept]
    assert before == [line for line in said(talk.messages()) if "q" in line[:8] or "draft" in line]
    assert "Restored 1 turn." in done.text
    assert "nothing to redo" in refused.text
    checked(talk)


def test_undo_and_redo_to_both_ends(opened: Opening) -> None:
    """Every step goes back and comes again exactly; past the ends both say so."""
    talk = three(opened, detector=SHIFTS)
    talk.say("NEW: q4")
    talk.rollback(turns=2)
    whole = state(talk)

    steps = 0
    while True:
        try:
            talk.undo()
        except NothingToUndoError:
            break
        steps += 1
    empty = talk.messages()
    for _ in range(steps):
        talk.redo()

    assert (5, []) == (steps, empty)
    for key in ("checkpoints", "segments", "current_topic"):
        assert whole[key] == state(talk)[key]
    assert as_stored(whole["messages"]) == as_stored(talk.messages())
    with pytest.raises(NothingToRedoError, match="nothing to redo"):
        talk.redo()
    checked(talk)


@pytest.mark.parametrize("step", ["say", "rollback", "restore", "pick", "add"])
def test_going_on_ends_what_could_be_redone(opened: Opening, step: str) -> None:
    """After a new step nothing is redone, and what was undone stays in a branch."""
    talk = three(opened)
    talk.rollback(turns=1)
    talk.undo()
    talk.undo()
    gone = branch_of(talk, "undo")
    doings: dict[str, Callable[[], Any]] = {
        "say": lambda: talk.say("q4"),
        "rollback": lambda: talk.rollback(turns=1),
        "restore": lambda: talk.restore(gone),
        "pick": lambda: talk.pick([talk.messages()[1].id or ""], talk.thread_id),
        "add": lambda: talk.add([("user", "put in"), ("ai", "An answer that was put in.")]),
    }

    doings[step]()

    with pytest.raises(NothingToRedoError):
        talk.redo()
    texts = {text_of(m) for branch in replay(talk.events()).branches.values() for m in branch}
    assert "q3" in texts
    checked(talk)


def test_a_rollback_of_the_agents_own_goes_back_and_forth(opened: Opening) -> None:
    """What a turn's rejected drafts removed returns with undo, and goes with redo."""
    talk = opened(judge=scores(0.9, 0.6, 0.1, 0.1, 0.9))
    for question in ("q1", "q2", "q3"):
        talk.say(question)
    after = talk.messages()

    talk.undo()
    before = words(talk)
    talk.redo()

    assert ["q1", "q2"] == before
    assert after == talk.messages()
    checked(talk)


def test_summaries_return_with_what_they_tell_of(opened: Opening) -> None:
    """A compaction's summary that a rollback took comes back with the words."""
    talk = opened(detector=SHIFTS)
    for question in ("q1", "q2", "NEW: q3"):
        talk.say(question)
    topics = state(talk)["topics"]

    talk.rollback(turns=2)
    lost = state(talk)["topics"]
    talk.undo()

    assert [None, None] == [each["summary"] for each in lost]
    assert topics[0]["summary"] is not None
    assert topics == state(talk)["topics"]


def test_a_name_that_was_taken_meanwhile_stays_where_it_is(opened: Opening) -> None:
    """A checkpoint that returns without its name is still a checkpoint, in the event log too."""
    talk = three(opened)
    talk.checkpoint("home")
    talk.rollback(turns=2)
    talk.checkpoint("home")
    talk.restore(talk.branches()[1].id)

    marks = talk.checkpoints()
    assert 1 == [each["name"] for each in marks].count("home")
    assert 3 == len(marks)
    checked(talk)


def test_a_preview_writes_nothing(opened: Opening) -> None:
    """What a rollback would take, tools and tokens among it; the thread is as it was."""
    talk = opened(
        ScriptedChat(replies={"train": ASK}, default="Yes, of course."),
        ScriptedJudge(),
        tools=[trains, broken],
    )
    for question in ("Is it far?", "When is the train?"):
        talk.say(question)
    before, events = state(talk), talk.events()

    shown = talk.preview(turns=2)

    assert ("trains", "broken") == shown.tool_calls
    assert ("Is it far?", "When is the train?") == shown.questions
    assert tuple(m.id for m in talk.messages()) == shown.message_ids
    assert (2, talk.checkpoints()) == (shown.turns, shown.checkpoints)
    assert shown.tokens == talk.tokens().spent.live
    assert shown.tokens.total > 0
    assert (before, events) == (state(talk), talk.events())


def test_a_retry_and_its_undo(opened: Opening) -> None:
    """The last question gets another answer; undo and redo change between the two."""
    model = Numbered()
    talk = three(opened, model=model)
    before = talk.messages()

    reply = talk.retry()
    again = talk.messages()
    moved = talk.undo()
    old = talk.messages()
    talk.redo()

    assert (3, "") == (moved.turns, moved.question)
    assert "This is draft 4, about what was asked." == reply.text
    assert ["q1", "q2", "q3"] == words(talk)
    assert model.texts()[-1].startswith("q3")
    assert "draft 3" not in " ".join(model.texts()[:-1])
    assert (before, again) == (old, talk.messages())
    checked(talk)


def test_a_retry_takes_documents_and_the_topic_along(opened: Opening) -> None:
    """What came with the question comes again, and the topic it began stays its own."""
    model = Numbered()
    talk = opened(model, detector=SHIFTS)
    talk.say("q1")
    talk.say("新しい話題です", documents=["資料です。"])
    label = talk.timeline().current_topic

    talk.retry()

    assert label == talk.timeline().current_topic
    assert ["q1", "資料です。", "新しい話題です"] == words(talk)
    assert "資料です。" in model.texts()[-1]
    assert "新しい話題です" in model.texts()[-1]
    assert 2 == len(state(talk)["segments"])
    checked(talk)


def test_a_retry_that_fails_loses_nothing(opened: Opening) -> None:
    """The old answer is kept while the model is down; a further retry or an undo works."""

    class Failing(Numbered):
        down = True

        def __call__(self, messages: list[BaseMessage]) -> AIMessage:
            draft = super().__call__(messages)
            if len(self.inputs) > 2 and self.down:
                raise ConnectionError("down")
            return draft

    model = Failing()
    talk = opened(model)
    talk.say("q1")
    talk.say("q2")
    before = talk.messages()
    for _ in range(2):
        with pytest.raises(ModelUnavailableError):
            talk.retry()
    model.down = False
    again = talk.retry()
    checked(talk)
    talk.undo()

    assert "draft 5" in again.text
    assert before == talk.messages()
    checked(talk)


def test_a_retry_whose_drafts_fail_is_delivered_as_it_began(opened: Opening) -> None:
    """Rollbacks within the retry cost no earlier turn, and undo brings the old answer."""
    talk = opened(judge=scores(0.9, 0.6, 0.6, *[0.1] * 9))
    for question in ("q1", "q2", "q3"):
        talk.say(question)
    before = talk.messages()

    reply = talk.retry()
    after = words(talk)
    talk.undo()

    assert "low_quality" == reply.flag
    assert ["q1", "q2", "q3"] == after
    assert before == talk.messages()
    checked(talk)


def test_a_retry_that_a_person_rejects_is_undone(opened: Opening) -> None:
    """When every new draft is rejected, an undo still brings the old answer back."""
    asking = {"on_exhausted": "ask", "max_rollbacks": 0}
    talk = opened(judge=scores(0.9, 0.9, 0.1), settings=asking)
    talk.say("q1")
    talk.say("q2")
    before = talk.messages()

    assert "decision" == talk.retry().kind
    talk.resume("reject")
    talk.undo()

    assert before == talk.messages()
    checked(talk)


def test_a_question_that_got_no_answer_is_asked_again(opened: Opening) -> None:
    """After a person rejected every draft, and some orders, a retry asks that question."""
    asking = {"on_exhausted": "ask", "max_rollbacks": 0}
    model = Numbered()
    talk = opened(model, scores(0.9, 0.9, 0.1), settings=asking)
    talk.say("q1")
    talk.say("q2", documents=["資料です。"])
    talk.resume("reject")
    talk.say("/help")

    reply = talk.say("/retry")

    assert "answer" == reply.kind
    assert model.texts()[-1].endswith("q2")
    assert ["q1", "資料です。", "q2"] == words(talk)
    checked(talk)


def test_what_cannot_be_answered_is_not_asked_again(opened: Opening) -> None:
    """A message that was refused is refused once more."""
    talk = opened(settings={"max_message_chars": 10})
    talk.say("q1")
    long = {"messages": [("user", "a message that is far too long")]}
    talk.graph.invoke(long, config("t"))

    assert "the limit is 10" in talk.say("/retry").text
    with pytest.raises(MessageTooLongError):
        talk.retry()


def test_a_question_that_was_set_aside_is_tried_again_in_the_chat(opened: Opening) -> None:
    """`/retry` after a failed turn asks that turn's question."""

    class Once(Numbered):
        def __call__(self, messages: list[BaseMessage]) -> AIMessage:
            draft = super().__call__(messages)
            if len(self.inputs) == 2:
                raise ConnectionError("down")
            return draft

    model = Once()
    talk = opened(model)
    talk.say("q1")
    with pytest.raises(ModelUnavailableError):
        talk.say("q2")

    reply = talk.say("/retry")

    assert "answer" == reply.kind
    assert ["q1", "q2"] == words(talk)
    checked(talk)


def test_nothing_to_retry(opened: Opening) -> None:
    """Without a question there is none to ask again."""
    talk = opened()
    with pytest.raises(UnknownThreadError):
        talk.retry()
    talk.add([("ai", "Hello, I am here.")])
    with pytest.raises(NothingToUndoError, match="no question"):
        talk.retry()
    assert "no question" in talk.say("/retry").text


def test_a_restart_forgets_nothing(opened: Opening) -> None:
    """The next process has all branches: undone, removed and forked."""
    talk = three(opened)
    whole = talk.messages()
    talk.undo()
    talk.undo()
    talk.close()

    second = opened()
    second.redo()
    second.close()
    third = opened()
    third.redo()

    assert whole == third.messages()
    checked(third)


async def test_every_verb_has_an_async_form(tmp_path: Path) -> None:
    """The same verbs, awaited."""
    async with AsyncConversation.open(
        tmp_path / "t.db", thread="t", model=Numbered(), judge=scores()
    ) as talk:
        for question in ("q1", "q2", "q3"):
            await talk.say(question)
        assert 2 == (await talk.preview(turns=2)).turns
        assert 1 == (await talk.rollback(turns=2)).turns
        branch = (await talk.branches())[1].id
        assert 3 == (await talk.undo()).turns
        assert 1 == (await talk.redo()).turns
        assert 3 == (await talk.restore(branch)).turns
        assert "draft 4" in (await talk.retry()).text
        await talk.checkpoint("here")
        fork = await talk.fork("here")
        assert AsyncConversation is type(fork)
        assert 4 == (await talk.pick([m.id or "" for m in (await fork.messages())[:2]], "t")).turns
        assert 6 == (await talk.diff("here")).common
        assert 0 == (await talk.tokens()).spent.live.total


@pytest.mark.parametrize("kept", [True, False], ids=["a store", "no store"])
def test_a_graph_of_a_host_goes_back_and_forth(*, kept: bool) -> None:
    """The commands work in any host's graph, without a store too."""
    graph = make(Numbered(), **({} if kept else {"store": None}))

    say(graph, "q1", "q2", "/retry", "/undo", "/undo")
    gone = transcript(graph)
    say(graph, "/redo", "/redo")

    asked = [line for line in transcript(graph) if line.startswith("human: q")]
    assert ["human: q1"] == [line for line in gone if line.startswith("human: q")]
    assert ["human: q1", "human: q2"] == asked
    assert "ai: This is draft 3, about what was asked." in transcript(graph)
    assert "ai: This is draft 2, about what was asked." not in transcript(graph)


@pytest.mark.parametrize("command", ["/undo", "/redo", "/retry"])
def test_a_step_run_twice_writes_the_same(opened: Opening, command: str) -> None:
    """A node that a server runs again after a crash makes the same messages, branches and pages."""
    talk = three(opened)
    talk.say("/undo")
    graph, store = talk.graph, talk.graph.store
    assert store is not None
    graph.update_state(
        config("t"), {"messages": [HumanMessage(command, id="order")]}, as_node="__start__"
    )
    for _ in graph.stream(None, config("t"), interrupt_before=["rollback"]):
        pass
    before = graph.get_state(config("t"))
    runs = []
    for _ in range(2):
        for _ in graph.stream(Trusted(None), before.config, interrupt_after=["rollback"]):
            pass
        then = graph.get_state(config("t")).values
        ids = [(m.id, text_of(m)) for m in then["messages"]]
        runs.append((ids, [ref["id"] for ref in then["branches"]], then["turn"]["branches"]))

    assert runs[0] == runs[1]


def test_another_question_after_a_retry_that_failed(opened: Opening) -> None:
    """The old answer is one undo behind the new question's turn."""

    class Failing(Numbered):
        def __call__(self, messages: list[BaseMessage]) -> AIMessage:
            draft = super().__call__(messages)
            if len(self.inputs) == 3:
                raise ConnectionError("down")
            return draft

    talk = opened(Failing())
    talk.say("q1")
    talk.say("q2")
    before = talk.messages()
    with pytest.raises(ModelUnavailableError):
        talk.retry()

    talk.say("q4")
    asked = words(talk)
    talk.undo()
    talk.undo()

    assert ["q1", "q4"] == asked
    assert before == talk.messages()
    checked(talk)


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        pytest.param({}, ["a", "b", "c"], id="all"),
        pytest.param({"limit": 2}, ["a", "b"], id="some"),
        pytest.param({"limit": 1, "start_after": "a"}, ["b"], id="after one"),
        pytest.param({"start_after": "c"}, [], id="after the last"),
        pytest.param({"limit": 0}, [], id="none"),
    ],
)
def test_checkpoints_come_in_pages(
    opened: Opening, asked: dict[str, Any], names: list[str]
) -> None:
    """Return several indices after a known one."""
    talk = opened()
    for name in ("a", "b", "c"):
        talk.say(f"question {name}")
        talk.checkpoint(name)

    assert names == [annotation["name"] for annotation in talk.checkpoints(**asked)]
    with pytest.raises(UnknownCheckpointError):
        talk.checkpoints(start_after="nowhere")
