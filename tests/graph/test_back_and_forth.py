"""Going back and forth: rollbacks, undo and redo, another attempt, and what a restart makes of them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from tests.events.events_kit import as_stored
from tests.graph.back_kit import JAPANESE, SHIFTS, Opening, three
from tests.graph.kit import Numbered, config, make, say, scores
from tests.graph.test_event_log_of_the_graph import ASK, broken, check_events, trains
from tests.reading import (
    branch_of,
    listed_branches,
    questions,
    replayed,
    said,
    state_of,
    topics,
    transcript,
)
from tests.threads import registry_of
from unsay import AsyncConversation, Conversation
from unsay.errors import (
    InputError,
    MessageTooLongError,
    ModelUnavailableError,
    NothingToRedoError,
    NothingToUndoError,
    UnknownCheckpointError,
    UnknownThreadError,
)
from unsay.hosts.entry import Trusted
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
def test_so_many_turns_back(open_thread: Opening, turns: int, left: list[str]) -> None:
    """A rollback of N turns takes N answered turns, and an undo brings them back."""
    conversation = three(open_thread)
    before = conversation.messages()

    result = conversation.rollback(turns=turns)
    remaining_questions = questions(conversation)
    check_events(conversation)
    conversation.undo()

    assert (left, len(left), 2 * turns) == (remaining_questions, result.turns, result.removed)
    assert f"q{4 - turns}" == result.question
    assert before == conversation.messages()
    check_events(conversation)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
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
    open_thread: Opening, arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    """Rollback and preview give the same error, and it lists the choices."""
    conversation = three(open_thread)
    before = conversation.messages()

    for verb in (
        conversation.rollback,
        conversation.preview,
        lambda **options: fork_at(conversation, **options),
    ):
        with pytest.raises(error, match=message):
            verb(**arguments)
    assert before == conversation.messages()


def fork_at(
    conversation: Conversation, to: str | None = None, turns: int | None = None
) -> Conversation:
    """A fork, asked for as a rollback is."""
    return conversation.fork(to, turns=turns)


def test_documents_go_and_return_with_their_turn(open_thread: Opening) -> None:
    """A turn back takes the question's documents too, in Japanese as well."""
    conversation = open_thread()
    conversation.say(JAPANESE[0])
    conversation.say(
        JAPANESE[1], documents=["京都は二日で回れます。", "三日なら奈良にも行けます。"]
    )
    before = conversation.messages()

    preview = conversation.preview(turns=1)
    conversation.rollback(turns=1)
    remaining_questions = questions(conversation)
    conversation.undo()

    assert [JAPANESE[0]] == remaining_questions
    assert (1, (JAPANESE[1],), 4) == (preview.turns, preview.questions, len(preview.message_ids))
    assert before == conversation.messages()
    check_events(conversation)


def test_a_number_in_the_chat_is_turns_unless_a_checkpoint_is_named_so(
    open_thread: Opening,
) -> None:
    """`/rollback 2` goes two turns back, and to the checkpoint named 2 once there is one."""
    conversation = three(open_thread)
    conversation.say("/rollback 2")
    first = questions(conversation)
    conversation.say("/undo")
    conversation.checkpoint("２")
    conversation.rollback(turns=3)
    conversation.undo()
    conversation.say("q4")
    conversation.say("/rollback ２")

    assert ["q1"] == first
    assert ["q1", "q2", "q3"] == [
        question for question in questions(conversation) if question.startswith("q")
    ]
    assert "99" in conversation.say("/rollback 99").text
    assert "9" * 400 in conversation.say("/rollback " + "9" * 400).text
    check_events(conversation)


def test_undo_and_redo_in_the_chat(open_thread: Opening) -> None:
    """The graph's own commands go back and forth; a redo too many is answered."""
    conversation = three(open_thread)
    before = [line for line in said(conversation.messages()) if "/" not in line]

    conversation.say("/undo")
    conversation.say("/undo")
    conversation.say("/redo")
    reply = conversation.say("/redo")
    refused_reply = conversation.say("/redo")

    messages = [m for m in conversation.messages() if m.type == "human" and "/" not in text_of(m)]
    assert ["q1", "q2", "q3"] == [text_of(m) for m in messages]
    assert before == [
        line for line in said(conversation.messages()) if "q" in line[:8] or "draft" in line
    ]
    assert "Restored 1 turn." in reply.text
    assert "nothing to redo" in refused_reply.text
    check_events(conversation)


def test_undo_and_redo_to_both_ends(open_thread: Opening) -> None:
    """Every step goes back and comes again exactly; past the ends both say so."""
    conversation = three(open_thread, detector=SHIFTS)
    conversation.say("NEW: q4")
    conversation.rollback(turns=2)
    state = state_of(conversation)
    runs = topics(conversation)

    steps = 0
    while True:
        try:
            conversation.undo()
        except NothingToUndoError:
            break
        steps += 1
    empty = conversation.messages()
    for _ in range(steps):
        conversation.redo()

    assert (5, []) == (steps, empty)
    for key in ("checkpoints", "current_topic"):
        assert state[key] == state_of(conversation)[key]
    assert runs == topics(conversation)
    assert as_stored(state["messages"]) == as_stored(conversation.messages())
    with pytest.raises(NothingToRedoError, match="nothing to redo"):
        conversation.redo()
    check_events(conversation)


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("step", ["say", "rollback", "restore", "pick", "add"])
def test_going_on_ends_what_could_be_redone(open_thread: Opening, step: str) -> None:
    """After a new step nothing is redone, and what was undone stays in a branch."""
    conversation = three(open_thread)
    conversation.rollback(turns=1)
    conversation.undo()
    conversation.undo()
    branch = branch_of(conversation, "undo")
    doings: dict[str, Callable[[], Any]] = {
        "say": lambda: conversation.say("q4"),
        "rollback": lambda: conversation.rollback(turns=1),
        "restore": lambda: conversation.restore(branch),
        "pick": lambda: conversation.pick(
            [conversation.messages()[1].id or ""], conversation.thread_id
        ),
        "add": lambda: conversation.add([("user", "put in"), ("ai", "An answer that was put in.")]),
    }

    doings[step]()

    with pytest.raises(NothingToRedoError):
        conversation.redo()
    texts = {text_of(m) for branch in replayed(conversation).branches.values() for m in branch}
    assert "q3" in texts
    check_events(conversation)


def test_a_rollback_of_the_agents_own_goes_back_and_forth(open_thread: Opening) -> None:
    """What a turn's rejected drafts removed returns with undo, and goes with redo."""
    conversation = open_thread(judge=scores(0.9, 0.6, 0.1, 0.1, 0.9))
    for question in ("q1", "q2", "q3"):
        conversation.say(question)
    after = conversation.messages()

    conversation.undo()
    before = questions(conversation)
    conversation.redo()

    assert ["q1", "q2"] == before
    assert after == conversation.messages()
    check_events(conversation)


def test_summaries_return_with_what_they_tell_of(open_thread: Opening) -> None:
    """A compaction's summary that a rollback took comes back with the words."""
    conversation = open_thread(detector=SHIFTS)
    for question in ("q1", "q2", "NEW: q3"):
        conversation.say(question)
    topics = state_of(conversation)["topics"]

    conversation.rollback(turns=2)
    lost_topics = state_of(conversation)["topics"]
    conversation.undo()

    assert [None, None] == [topic["summary"] for topic in lost_topics]
    assert topics[0]["summary"] is not None
    assert topics == state_of(conversation)["topics"]


def test_a_name_that_was_taken_meanwhile_stays_where_it_is(open_thread: Opening) -> None:
    """A checkpoint that returns without its name is still a checkpoint, in the event log too."""
    conversation = three(open_thread)
    conversation.checkpoint("home")
    conversation.rollback(turns=2)
    conversation.checkpoint("home")
    conversation.restore(conversation.branches()[1].id)

    marks = conversation.checkpoints()
    assert 1 == [mark["name"] for mark in marks].count("home")
    assert 3 == len(marks)
    check_events(conversation)


def test_a_preview_writes_nothing(open_thread: Opening) -> None:
    """What a rollback would take, tools and tokens among it; the thread is as it was."""
    conversation = open_thread(
        ScriptedChat(replies={"train": ASK}, default="Yes, of course."),
        ScriptedJudge(),
        tools=[trains, broken],
    )
    for question in ("Is it far?", "When is the train?"):
        conversation.say(question)
    before = state_of(conversation)
    events = registry_of(conversation).events()

    preview = conversation.preview(turns=2)

    assert ("trains", "broken") == preview.tool_calls
    assert ("Is it far?", "When is the train?") == preview.questions
    assert tuple(m.id for m in conversation.messages()) == preview.message_ids
    assert (2, conversation.checkpoints()) == (preview.turns, preview.checkpoints)
    assert preview.tokens == conversation.tokens().spent.live
    assert preview.tokens.total > 0
    assert (before, events) == (state_of(conversation), registry_of(conversation).events())


def test_a_retry_and_its_undo(open_thread: Opening) -> None:
    """The last question gets another answer; undo and redo change between the two."""
    model = Numbered()
    conversation = three(open_thread, model=model)
    before = conversation.messages()

    reply = conversation.retry()
    messages = conversation.messages()
    result = conversation.undo()
    old = conversation.messages()
    conversation.redo()

    assert (3, "") == (result.turns, result.question)
    assert "This is draft 4, about what was asked." == reply.text
    assert ["q1", "q2", "q3"] == questions(conversation)
    assert model.texts()[-1].startswith("q3")
    assert "draft 3" not in " ".join(model.texts()[:-1])
    assert (before, messages) == (old, conversation.messages())
    check_events(conversation)


def test_a_retry_takes_documents_and_the_topic_along(open_thread: Opening) -> None:
    """What came with the question comes again, and the topic it began stays its own."""
    model = Numbered()
    conversation = open_thread(model, detector=SHIFTS)
    conversation.say("q1")
    conversation.say("新しい話題です", documents=["資料です。"])
    label = conversation.timeline().current_topic

    conversation.retry()

    assert label == conversation.timeline().current_topic
    assert ["q1", "資料です。", "新しい話題です"] == questions(conversation)
    assert "資料です。" in model.texts()[-1]
    assert "新しい話題です" in model.texts()[-1]
    assert 2 == len(topics(conversation))
    check_events(conversation)


def test_a_retry_that_fails_loses_nothing(open_thread: Opening) -> None:
    """The old answer is kept while the model is down; a further retry or an undo works."""

    class Failing(Numbered):
        down = True

        def __call__(self, messages: list[BaseMessage]) -> AIMessage:
            draft = super().__call__(messages)
            if len(self.inputs) > 2 and self.down:
                raise ConnectionError("down")
            return draft

    model = Failing()
    conversation = open_thread(model)
    conversation.say("q1")
    conversation.say("q2")
    before = conversation.messages()
    for _ in range(2):
        with pytest.raises(ModelUnavailableError):
            conversation.retry()
    model.down = False
    reply = conversation.retry()
    check_events(conversation)
    conversation.undo()

    assert "draft 5" in reply.text
    assert before == conversation.messages()
    check_events(conversation)


def test_a_retry_whose_drafts_fail_is_delivered_as_it_began(open_thread: Opening) -> None:
    """Rollbacks within the retry cost no earlier turn, and undo brings the old answer."""
    conversation = open_thread(judge=scores(0.9, 0.6, 0.6, *[0.1] * 9))
    for question in ("q1", "q2", "q3"):
        conversation.say(question)
    before = conversation.messages()

    reply = conversation.retry()
    after = questions(conversation)
    conversation.undo()

    assert "low_quality" == reply.flag
    assert ["q1", "q2", "q3"] == after
    assert before == conversation.messages()
    check_events(conversation)


def test_a_retry_that_a_person_rejects_is_undone(open_thread: Opening) -> None:
    """When every new draft is rejected, an undo still brings the old answer back."""
    asking = {"on_exhausted": "ask", "max_rollbacks": 0}
    conversation = open_thread(judge=scores(0.9, 0.9, 0.1), settings=asking)
    conversation.say("q1")
    conversation.say("q2")
    before = conversation.messages()

    assert "decision" == conversation.retry().kind
    conversation.resume("reject")
    conversation.undo()

    assert before == conversation.messages()
    check_events(conversation)


def test_a_question_that_got_no_answer_is_asked_again(open_thread: Opening) -> None:
    """After a person rejected every draft, and some orders, a retry asks that question."""
    asking = {"on_exhausted": "ask", "max_rollbacks": 0}
    model = Numbered()
    conversation = open_thread(model, scores(0.9, 0.9, 0.1), settings=asking)
    conversation.say("q1")
    conversation.say("q2", documents=["資料です。"])
    conversation.resume("reject")
    conversation.say("/help")

    reply = conversation.say("/retry")

    assert "answer" == reply.kind
    assert model.texts()[-1].endswith("q2")
    assert ["q1", "資料です。", "q2"] == questions(conversation)
    check_events(conversation)


def test_what_cannot_be_answered_is_not_asked_again(
    open_thread: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message that was refused is refused once more."""
    monkeypatch.setattr("unsay.transcript.pending.MESSAGE_CHARS", 10)
    conversation = open_thread()
    conversation.say("q1")
    long = {"messages": [("user", "a message that is far too long")]}
    conversation.graph.invoke(long, config("t"))

    assert "the limit is 10" in conversation.say("/retry").text
    with pytest.raises(MessageTooLongError):
        conversation.retry()


def test_a_question_that_was_set_aside_is_tried_again_in_the_chat(open_thread: Opening) -> None:
    """`/retry` after a failed turn asks that turn's question."""

    class Once(Numbered):
        def __call__(self, messages: list[BaseMessage]) -> AIMessage:
            draft = super().__call__(messages)
            if len(self.inputs) == 2:
                raise ConnectionError("down")
            return draft

    model = Once()
    conversation = open_thread(model)
    conversation.say("q1")
    with pytest.raises(ModelUnavailableError):
        conversation.say("q2")

    reply = conversation.say("/retry")

    assert "answer" == reply.kind
    assert ["q1", "q2"] == questions(conversation)
    check_events(conversation)


def test_nothing_to_retry(open_thread: Opening) -> None:
    """Without a question there is none to ask again."""
    conversation = open_thread()
    with pytest.raises(UnknownThreadError):
        conversation.retry()
    conversation.add([("ai", "Hello, I am here.")])
    with pytest.raises(NothingToUndoError, match="no question"):
        conversation.retry()
    assert "no question" in conversation.say("/retry").text


def test_a_restart_forgets_nothing(open_thread: Opening) -> None:
    """The next process has all branches: undone, removed and forked."""
    conversation = three(open_thread)
    messages = conversation.messages()
    conversation.undo()
    conversation.undo()
    conversation.close()

    second = open_thread()
    second.redo()
    second.close()
    third = open_thread()
    third.redo()

    assert messages == third.messages()
    check_events(third)


async def test_every_verb_has_an_async_form(tmp_path: Path) -> None:
    """The same verbs, awaited."""
    async with AsyncConversation.open(
        tmp_path / "t.db", thread="t", model=Numbered(), judge=scores()
    ) as conversation:
        for question in ("q1", "q2", "q3"):
            await conversation.say(question)
        assert 2 == (await conversation.preview(turns=2)).turns
        assert 1 == (await conversation.rollback(turns=2)).turns
        branch = (await conversation.branches())[1].id
        assert 3 == (await conversation.undo()).turns
        assert 1 == (await conversation.redo()).turns
        assert 3 == (await conversation.restore(branch)).turns
        assert "draft 4" in (await conversation.retry()).text
        await conversation.checkpoint("here")
        fork = await conversation.fork("here")
        assert AsyncConversation is type(fork)
        assert (
            4
            == (
                await conversation.pick([m.id or "" for m in (await fork.messages())[:2]], "t")
            ).turns
        )
        assert 6 == (await conversation.diff("here")).common
        assert 0 == (await conversation.tokens()).spent.live.total


@pytest.mark.parametrize("has_store", [True, False], ids=["a store", "no store"])
def test_a_graph_of_a_host_goes_back_and_forth(*, has_store: bool) -> None:
    """The commands work in any host's graph, without a store too."""
    graph = make(Numbered(), **({} if has_store else {"store": None}))

    say(graph, "q1", "q2", "/retry", "/undo", "/undo")
    remaining_transcript = transcript(graph)
    say(graph, "/redo", "/redo")

    asked_transcript = [line for line in transcript(graph) if line.startswith("human: q")]
    assert ["human: q1"] == [line for line in remaining_transcript if line.startswith("human: q")]
    assert ["human: q1", "human: q2"] == asked_transcript
    assert "ai: This is draft 3, about what was asked." in transcript(graph)
    assert "ai: This is draft 2, about what was asked." not in transcript(graph)


@pytest.mark.parametrize("command", ["/undo", "/redo", "/retry"])
def test_a_step_run_twice_writes_the_same(open_thread: Opening, command: str) -> None:
    """A node that a server runs again after a crash makes the same messages, branches and pages."""
    conversation = three(open_thread)
    conversation.say("/undo")
    graph = conversation.graph
    store = conversation.graph.store
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
        values = graph.get_state(config("t")).values
        ids = [(m.id, text_of(m)) for m in values["messages"]]
        runs.append(
            (
                ids,
                [branch.id for branch in listed_branches(conversation)],
                values["turn"]["branches"],
            )
        )

    assert runs[0] == runs[1]


def test_another_question_after_a_retry_that_failed(open_thread: Opening) -> None:
    """The old answer is one undo behind the new question's turn."""

    class Failing(Numbered):
        def __call__(self, messages: list[BaseMessage]) -> AIMessage:
            draft = super().__call__(messages)
            if len(self.inputs) == 3:
                raise ConnectionError("down")
            return draft

    conversation = open_thread(Failing())
    conversation.say("q1")
    conversation.say("q2")
    before = conversation.messages()
    with pytest.raises(ModelUnavailableError):
        conversation.retry()

    conversation.say("q4")
    asked_questions = questions(conversation)
    conversation.undo()
    conversation.undo()

    assert ["q1", "q4"] == asked_questions
    assert before == conversation.messages()
    check_events(conversation)


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        pytest.param({}, ["a", "b", "c"], id="all"),
        pytest.param({"limit": 2}, ["a", "b"], id="some"),
        pytest.param({"limit": 1, "start_after": "a"}, ["b"], id="after one"),
        pytest.param({"start_after": "c"}, [], id="after the last"),
        pytest.param({"limit": 0}, [], id="none"),
    ],
)
def test_checkpoints_come_in_pages(
    open_thread: Opening, arguments: dict[str, Any], names: list[str]
) -> None:
    """Return several indices after a known one."""
    conversation = open_thread()
    for name in ("a", "b", "c"):
        conversation.say(f"question {name}")
        conversation.checkpoint(name)

    assert names == [annotation["name"] for annotation in conversation.checkpoints(**arguments)]
    with pytest.raises(UnknownCheckpointError):
        conversation.checkpoints(start_after="nowhere")
