"""Replay: a turn's request made visible, and made again to another model."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import RunnableLambda
from langgraph.graph import END, START, MessagesState, StateGraph

from tests.events.events_kit import as_stored
from tests.graph.kit import GOOD, Numbered, config, make, scores
from tests.graph.test_topics import ENGLISH
from tests.reading import said
from tests.threads import open_conversation, registry_of
from unsay import AsyncConversation, Conversation
from unsay.conversation.model_calls import Answered
from unsay.errors import (
    ModelUnavailableError,
    UnknownRunError,
    UnknownThreadError,
    UnknownTurnError,
)
from unsay.testing import Fault, ScriptedChat, ScriptedJudge, ToolCalls

FISH = "Fish, mostly, and only now and then."
BETTER = "Another answer, with more in it."
JUDGE = {"Fish": 0.1, "Another": 0.8}


def open_thread(path: Path | str, model: Any, **options: Any) -> Conversation:
    """A conversation whose judge dislikes fish."""
    return open_conversation(path, model=model, **{"judge": ScriptedJudge(scores=JUDGE), **options})


@pytest.fixture
def conversation(tmp_path: Path) -> Iterator[Conversation]:
    """A conversation whose first turn succeeded at once, and whose second and third in the next attempt."""
    replies = {"q1": GOOD, "q2": [FISH, "It is a loop, in one line."], "q3": [FISH, "Yes, always."]}
    with open_thread(tmp_path / "t.db", ScriptedChat(replies=replies)) as conversation:
        for text in ("q1", "q2", "q3"):
            conversation.say(text)
        yield conversation


def everything(conversation: Conversation) -> tuple[Any, ...]:
    """What a replay must not change: transcript, state, event log, runs and store."""
    store: Any = conversation.graph.store
    items = store.search(("unsay",), limit=1_000)
    history = [
        state.config
        for state in conversation.graph.get_state_history(config(conversation.thread_id))
    ]
    return (
        as_stored(conversation.messages()),
        history,
        registry_of(conversation).events(),
        registry_of(conversation).runs(),
        [(item.namespace, item.key, item.value) for item in items],
    )


def test_the_newest_failed_attempt_is_shown(conversation: Conversation) -> None:
    """Its request, its draft, its score and its reason; no model is asked."""
    before = everything(conversation)

    replay = conversation.replay()

    (_, run) = registry_of(conversation).runs().runs[-2:]
    assert (3, 1, run.run_id, True, "q3") == (
        replay.turn,
        replay.attempt,
        replay.run_id,
        replay.exact,
        replay.question,
    )
    assert ["human", "ai", "human", "ai", "human"] == [m.type for m in replay.messages]
    assert Answered(answer=FISH, score=0.1, reason="scripted for 'Fish'") == replay.recorded
    assert (None, before) == (replay.again, everything(conversation))


@pytest.mark.parametrize("key", ["turn", "run", "attempt"])
def test_a_failed_attempt_is_found(conversation: Conversation, key: str) -> None:
    """By its turn's number, by its run, by its number in the turn, and by all of them."""
    run = registry_of(conversation).runs().runs[1].run_id
    arguments: dict[str, Any] = {"turn": {"turn": 2}, "run": {"run_id": run}}.get(
        key, {"turn": 2, "run_id": run, "attempt": 1}
    )
    assert ("q2", run) == (
        conversation.replay(**arguments).question,
        conversation.replay(**arguments).run_id,
    )


def test_each_attempt_of_a_turn_can_be_shown(tmp_path: Path) -> None:
    """Its hints tell the attempts apart, and the newest one comes without a number."""
    model = Numbered()
    with open_thread(tmp_path / "t.db", model, judge=scores(0.3, 0.2, 0.1)) as conversation:
        conversation.say("q")
        replays = [conversation.replay(attempt=number) for number in (1, 2, 3)]
        assert conversation.replay() == replays[-1]
    assert [as_stored(messages) for messages in model.inputs] == [
        as_stored(e.messages) for e in replays
    ]
    assert [0.3, 0.2, 0.1] == [replay.recorded.score for replay in replays]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        pytest.param({"turn": 9}, UnknownTurnError, "no turn 9", id="turn"),
        pytest.param({"turn": 0}, UnknownTurnError, "no turn 0", id="zero"),
        pytest.param({"run_id": "r"}, UnknownRunError, "'r'", id="run"),
        pytest.param({"attempt": 2}, UnknownRunError, "attempt 2", id="attempt"),
        pytest.param({"turn": 1, "attempt": 1}, UnknownRunError, "attempt 1", id="succeeded"),
    ],
)
def test_what_is_not_there_is_refused(
    conversation: Conversation, arguments: Any, error: type[Exception], message: str
) -> None:
    """The error names what was asked for and how to list the choices."""
    with pytest.raises(error, match=message):
        conversation.replay(**arguments)


def test_a_thread_in_which_nothing_was_said(tmp_path: Path) -> None:
    """There is nothing to replay, and the thread is named."""
    with (
        open_thread(tmp_path / "t.db", Numbered()) as conversation,
        pytest.raises(UnknownThreadError),
    ):
        conversation.replay()


def agent_graph(answer: str) -> Any:
    """A graph that takes and gives a state."""
    builder = StateGraph(MessagesState)
    builder.add_node("answer", lambda _: {"messages": [AIMessage(answer)]})
    builder.add_edge(START, "answer")
    builder.add_edge("answer", END)
    return builder.compile()


OTHERS: list[Any] = [
    pytest.param(ScriptedChat(default=BETTER), id="chat-model"),
    pytest.param(lambda _: BETTER, id="function"),
    pytest.param(RunnableLambda(lambda m: m) | ScriptedChat(default=BETTER), id="chain"),
    pytest.param(lambda _: [AIMessage("Hm."), AIMessage(BETTER)], id="list"),
    pytest.param(agent_graph(BETTER), id="agent-graph"),
    pytest.param(make(lambda _: BETTER, store=None, checkpointer=None), id="agent-of-ours"),
]


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("model", OTHERS)
@pytest.mark.parametrize("turn", [1, 2], ids=["succeeded", "failed"])
def test_another_model_is_asked_the_same(conversation: Conversation, model: Any, turn: int) -> None:
    """Its answer is judged and shown; nothing else changes anywhere."""
    before = everything(conversation)

    replay = conversation.replay(turn=turn, model=model)

    assert Answered(answer=BETTER, score=0.8, reason="scripted for 'Another'") == replay.again
    assert (turn == 2, before) == (replay.exact, everything(conversation))


def test_the_other_model_gets_the_same_messages(conversation: Conversation) -> None:
    """To the letter, ids and all."""
    other_model = Numbered()
    replay = conversation.replay(turn=2, model=other_model)
    assert as_stored(replay.messages) == as_stored(other_model.inputs[0])


FAILING: list[Any] = [
    pytest.param(
        ScriptedChat(default=Fault(error=TimeoutError("late"))), "TimeoutError", id="chat"
    ),
    pytest.param(lambda _: 5, "ModelReplyError", id="no-message"),
    pytest.param(lambda _: [], "ModelReplyError", id="nothing"),
    pytest.param(ScriptedChat(), "AssertionError", id="bug"),
    pytest.param(
        lambda _: [AIMessage("", tool_calls=[{"name": "x", "args": {}, "id": "1"}])],
        "ModelReplyError",
        id="unknown-tool",
    ),
]


@pytest.mark.parametrize(("model", "error"), FAILING)
def test_the_other_models_error_is_shown(
    conversation: Conversation, model: Any, error: str
) -> None:
    """It is part of the comparison and raises nothing; nothing changes."""
    before = everything(conversation)

    second_draft = conversation.replay(model=model).again

    assert second_draft is not None
    assert ("", error, None) == (second_draft.answer, second_draft.error, second_draft.score)
    assert before == everything(conversation)


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("model", OTHERS)
async def test_it_is_the_same_in_async_code(tmp_path: Path, model: Any) -> None:
    """`AsyncConversation.replay` shows and asks what `Conversation.replay` does."""
    chat = ScriptedChat(replies={"q1": GOOD, "q2": [FISH, "It is a loop, in one line."]})
    judge = ScriptedJudge(scores=JUDGE)
    async with AsyncConversation.open(
        tmp_path / "t.db", thread="t", model=chat, judge=judge
    ) as conversation:
        for text in ("q1", "q2"):
            await conversation.say(text)
        mine = [await conversation.replay(turn=turn, model=model) for turn in (1, 2)]
        with pytest.raises(UnknownRunError):
            await conversation.replay(run_id="r")
    with open_thread(tmp_path / "t.db", chat) as same:
        assert [same.replay(turn=turn, model=model) for turn in (1, 2)] == mine


def test_a_succeeded_turn_is_planned_again(tmp_path: Path) -> None:
    """It is the view that its model was sent, with the folds of then; the last turn by default."""
    chat = ScriptedChat(replies=ENGLISH)
    alone = {"summaries": "local"}
    with open_thread(
        tmp_path / "t.db", chat, judge=ScriptedJudge(), settings=alone
    ) as conversation:
        first, second, _ = ENGLISH
        conversation.say(first)
        conversation.say("/timeline")
        conversation.say(second)
        replays = [conversation.replay(turn=1), conversation.replay(turn=2), conversation.replay()]
        assert conversation.replay(turn=2) == replays[2]
        assert ["ai: " + ENGLISH[first]] == said(conversation.messages())[1:2]
    assert [False, False, False] == [item.exact for item in replays]
    assert [as_stored(call) for call in chat.calls] == [as_stored(e.messages) for e in replays[:2]]
    assert [(None, first), (None, second)] == [(e.run_id, e.question) for e in replays[:2]]
    assert (ENGLISH[second], 0.9) == (replays[1].recorded.answer, replays[1].recorded.score)


def test_a_waiting_question_can_be_replayed(tmp_path: Path) -> None:
    """After a failed call its exact request is there, with the error's class and words."""
    down = ScriptedChat(default=Fault(error=ConnectionError("the line is down")))
    with open_thread(tmp_path / "t.db", down) as conversation:
        with pytest.raises(Exception, match="could not be reached"):
            conversation.say("q")
        replay = conversation.replay(model=lambda _: BETTER)
        assert ["human: q"] == said(conversation.messages())
    assert (
        Answered(answer="", reason="the line is down", error="ConnectionError") == replay.recorded
    )
    assert (True, BETTER) == (replay.exact, replay.again.answer if replay.again else "")


def trains(to: str) -> str:
    """Tell when the next train leaves."""
    return f"10:15 to {to}"


CALLS = [{"name": "trains", "args": {"to": "Kyoto"}}]


def test_a_draft_with_tools(tmp_path: Path) -> None:
    """The request holds the calls and results; another model answers them, or calls again."""
    fish = ToolCalls(calls=CALLS, then=FISH)
    chat = ScriptedChat(replies={"train": [fish, ToolCalls(calls=CALLS, then="At {result}.")]})
    with open_thread(tmp_path / "t.db", chat, tools=[trains]) as conversation:
        conversation.say("When is the train?")
        replay = conversation.replay(model=ScriptedChat(default=BETTER))
        second_draft = conversation.replay(model=ScriptedChat(default=ToolCalls(calls=CALLS))).again
        assert 1 == len([m for m in conversation.messages() if m.type == "tool"])
    assert ["human", "ai", "tool"] == [message.type for message in replay.messages]
    assert replay.again is not None
    assert second_draft is not None
    assert (BETTER, 0.8) == (replay.again.answer, replay.again.score)
    assert (('trains({"to": "Kyoto"})',), None) == (second_draft.calls, second_draft.score)


def test_an_agent_of_ours_as_the_model(tmp_path: Path) -> None:
    """The kept request is what its model was sent, and not what its judge was."""
    chat = ScriptedChat(default=[FISH, "Fishes, again."])
    inner = make(chat, ScriptedJudge(), store=None, checkpointer=None)
    with open_thread(tmp_path / "t.db", inner, settings={"max_rollbacks": 0}) as conversation:
        conversation.say("q")
        replay = conversation.replay()
    assert as_stored(chat.calls[-1]) == as_stored(replay.messages)
    assert FISH == replay.recorded.answer


def test_a_plain_graph_as_the_model(tmp_path: Path) -> None:
    """Of an agent that calls no chat model the kept request is the view."""
    with open_thread(
        tmp_path / "t.db", agent_graph(FISH), settings={"max_rollbacks": 0}
    ) as conversation:
        conversation.say("q")
        replay = conversation.replay(model=agent_graph(BETTER))
    assert ["human: q"] == said(list(replay.messages))  # type: ignore[arg-type]
    assert {"messages": [{"role": "user", "content": "q"}]} == replay.payload
    assert replay.again is not None
    assert BETTER == replay.again.answer


def test_a_request_survives_a_restart_an_undo_and_a_rollback(tmp_path: Path) -> None:
    """What was sent stays to be seen when its turn is no longer in the transcript."""
    chat = ScriptedChat(replies={"q1": [FISH, GOOD], "q2": "Well, yes, in a way."})
    with open_thread(tmp_path / "t.db", chat) as conversation:
        conversation.say("q1")
        before = conversation.replay()
        conversation.undo()
    with open_thread(tmp_path / "t.db", chat) as conversation:
        assert before == conversation.replay()
        conversation.say("q2")
        assert before == conversation.replay(run_id=before.run_id)


def test_a_turns_number_means_the_turn_on_the_record(tmp_path: Path) -> None:
    """A failed attempt of a turn that was undone does not pass for the one in its place."""
    chat = ScriptedChat(replies={"q1": [FISH, GOOD], "q2": "Well, yes, in a way."})
    with open_thread(tmp_path / "t.db", chat) as conversation:
        conversation.say("q1")
        conversation.undo()
        conversation.say("q2")
        assert ("q2", False) == (
            conversation.replay(turn=1).question,
            conversation.replay(turn=1).exact,
        )
        assert ("q1", True) == (conversation.replay().question, conversation.replay().exact)


VIDEO: list[Any] = [
    {"type": "text", "text": "What is this?"},
    {"type": "video", "base64": "aa", "mime_type": "video/mp4"},
]


def test_a_request_that_has_no_openai_form_is_kept_all_the_same(tmp_path: Path) -> None:
    """A failure of optional storage does not end the turn: the messages are stored."""
    with open_thread(tmp_path / "t.db", Numbered(), judge=scores(0.1, 0.9)) as conversation:
        conversation.graph.invoke({"messages": [{"role": "user", "content": VIDEO}]}, config())
        replay = conversation.replay()
        assert "ai: This is draft 2, about what was asked." == said(conversation.messages())[-1]
        assert VIDEO == replay.messages[-1].content


def test_the_models_error_is_not_hidden_by_what_is_kept(tmp_path: Path) -> None:
    """A failed call over such a question raises what the model's failure means."""
    down = ScriptedChat(default=Fault(error=ConnectionError("the line is down")))
    with open_thread(tmp_path / "t.db", down) as conversation:
        with pytest.raises(ModelUnavailableError, match="the line is down"):
            conversation.graph.invoke({"messages": [{"role": "user", "content": VIDEO}]}, config())
        assert "ConnectionError" == conversation.replay().recorded.error


def test_another_threads_requests_are_not_shown(conversation: Conversation, tmp_path: Path) -> None:
    """One user's words never reach another's replay; a purge leaves none."""
    with open_thread(
        tmp_path / "t.db", ScriptedChat(default=GOOD), thread="t2"
    ) as other_conversation:
        other_conversation.say("hello")
        assert "hello" == other_conversation.replay().question
        with pytest.raises(UnknownRunError):
            other_conversation.replay(run_id=conversation.replay().run_id)
    registry_of(conversation).purge()
    store: Any = conversation.graph.store
    assert [] == store.search(("unsay", "requests"))


def test_messages_are_what_langchain_reads(conversation: Conversation) -> None:
    """They can be handed to any model as they are."""
    replay = conversation.replay()
    assert all(isinstance(message, BaseMessage) for message in replay.messages)
    assert BETTER == ScriptedChat(default=BETTER).invoke(list(replay.messages)).content
