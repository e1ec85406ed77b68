"""What each model call was sent, told afterwards."""

import json
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langgraph.graph import START, MessagesState, StateGraph

from tests.graph.back_kit import SHIFTS, Opening, Paid
from tests.graph.kit import GOOD, Numbered, make, say, scores
from tests.graph.test_tools import ASK, trains
from tests.reading import offloaded_messages, state_of
from unsay import AsyncConversation, Conversation
from unsay.context.manifest import CallContext, manifest_in
from unsay.context.windows import SlidingWindow
from unsay.conversation.branching import LIVE
from unsay.conversation.model_calls import PENDING, TurnCall
from unsay.errors import (
    UnknownContextError,
    UnknownThreadError,
    UnknownTurnError,
)
from unsay.messages.annotations import annotate
from unsay.testing import ScriptedChat

PLAIN = {"topics": "off"}


def sent_of(conversation: Conversation, turn: int | None = None) -> list[tuple[int, ...]]:
    """The places that each call of a turn was sent."""
    return [call.context.sent.places for call in conversation.context(turn).calls]


def rules_of(view: CallContext) -> dict[str, tuple[int, ...]]:
    """The places of each rule."""
    return {rule.name: rule.places for rule in view.rules}


def calls_in_brief(calls: tuple[TurnCall, ...]) -> list[tuple[str, int, str]]:
    """Where each call's answer is, its attempt, and its number."""
    return [(call.kind, call.context.attempt, call.words) for call in calls]


def test_each_turn_says_what_it_was_sent(open_thread: Opening) -> None:
    """The transcript up to the question, with what the model reported of it."""
    conversation = open_thread(Paid(), settings=PLAIN)
    conversation.say("q1")
    conversation.say("q2")
    assert [(1,)] == sent_of(conversation, 1)
    assert [(1, 2, 3)] == sent_of(conversation)
    (call,) = conversation.context(2).calls
    assert [m.id for m in conversation.messages()][:3] == list(call.context.sent.message_ids)
    assert call.context.usage is not None
    assert (10, 1) == (call.context.usage.input, call.context.usage.output)
    assert {"recents", "reply"} == call.context.parts.keys()
    assert call.context.message_id == conversation.messages()[-1].id


def test_each_step_of_tools_has_a_call_of_its_own(open_thread: Opening) -> None:
    """A call that asks for a tool and the one that answers stand behind each other."""
    conversation = open_thread(ScriptedChat(replies={"train": ASK}), tools=[trains])
    conversation.say("When is the train?")
    calls = conversation.context().calls
    assert [1, 2] == [call.context.call for call in calls]
    assert [(1,), (1,)] == sent_of(conversation)
    assert ["", "It leaves at 10:15."] == [call.words for call in calls]
    assert all(call.context.parts["tools"] > 0 for call in calls)


class Named(ScriptedChat):
    """A model with a name, by which its vocabulary is known."""

    model_name: str = "gpt-4o"


def test_tokens_are_counted_with_the_vocabulary_of_the_model(open_thread: Opening) -> None:
    """A Japanese question has more tokens for a model with an older vocabulary."""
    counted_texts = []
    for name in ("gpt-4o", "gpt-4"):
        conversation = open_thread(
            Named(model_name=name, default=GOOD), thread=name, settings=PLAIN
        )
        conversation.say("京都の桜はいつ見頃ですか。二日で足りますか。" * 20)
        call = conversation.context().calls[0]
        counted_texts.append(call.context.parts["recents"])

    assert counted_texts[0] < counted_texts[1]


def test_drafts_that_were_taken_back_are_told(open_thread: Opening) -> None:
    """Each attempt has its view, also one whose draft went with an older part of the transcript."""
    conversation = open_thread(judge=scores(0.9, 0.9, 0.1, 0.1, 0.9), settings=PLAIN)
    for question in ("q1", "q2", "q3"):
        conversation.say(question)
    calls = conversation.context().calls
    assert [("draft", 1), ("draft", 2), (LIVE, 3)] == [call[:2] for call in calls_in_brief(calls)]
    assert all(call.context.fits for call in calls)
    assert calls[0].context.sent.places == (1, 2, 3, 4, 5)
    assert [0.1, 0.1, 0.9] == [call.score for call in calls]
    assert {branch.id for branch in conversation.branches()} >= {call.branch for call in calls}
    assert calls[1:2] == conversation.context(attempt=2).calls


def test_a_turn_that_came_back_says_the_same(open_thread: Opening) -> None:
    """An undo and a redo change nothing of what a turn was sent."""
    conversation = open_thread(settings=PLAIN)
    conversation.say("q1")
    conversation.say("q2")
    before = conversation.context()
    conversation.undo()
    conversation.redo()
    assert before == conversation.context()


def test_drafts_that_wait_for_a_person_are_told(open_thread: Opening) -> None:
    """Where all drafts failed and a person is asked, each is listed once."""
    ask = {"on_exhausted": "ask", "max_rollbacks": 1}
    conversation = open_thread(judge=scores(0.1, 0.2), settings={**PLAIN, **ask})
    conversation.say("q1")
    calls = conversation.context().calls
    assert [1, 2] == [call.context.attempt for call in calls]
    assert [PENDING] == [call.branch for call in calls][1:]
    conversation.resume("approve")
    assert [("draft", 1), (LIVE, 2)] == [
        call[:2] for call in calls_in_brief(conversation.context().calls)
    ]


def test_the_best_of_failed_drafts_is_told_where_it_stands(open_thread: Opening) -> None:
    """A draft that was taken back and then delivered is live, and told once."""
    conversation = open_thread(judge=scores(0.2, 0.1), settings={**PLAIN, "max_rollbacks": 1})
    conversation.say("q1")
    assert [(LIVE, 1), ("rejected", 2)] == [
        call[:2] for call in calls_in_brief(conversation.context().calls)
    ]


def test_what_a_strategy_left_out_is_told_by_its_name(open_thread: Opening) -> None:
    """The rule of a window names the messages that it leaves out."""
    conversation = open_thread(strategy=SlidingWindow(window_size=2), settings=PLAIN)
    for question in ("q1", "q2", "q3"):
        conversation.say(question)
    (call,) = conversation.context().calls
    rules = rules_of(call.context)
    assert set(range(1, 6)) == {*call.context.sent.places, *rules["window"]}
    assert 5 in call.context.sent.places


def test_forgotten_messages_are_listed_under_their_rule(open_thread: Opening) -> None:
    """A context names the messages that a person forgot, and has no such rule without them."""
    conversation = open_thread(settings=PLAIN)
    conversation.say("q1")
    conversation.say("q2")
    (call,) = conversation.context().calls
    assert "forgotten" not in rules_of(call.context)
    conversation.forget(conversation.messages()[0].id)
    conversation.say("q3")
    (call,) = conversation.context().calls
    assert (1,) == rules_of(call.context)["forgotten"]


def test_offloaded_messages_are_shown_as_such(open_thread: Opening) -> None:
    """On a long thread the places count the whole transcript, and the old ones are offloaded."""
    conversation = open_thread(detector=SHIFTS, settings={"live_messages": 4})
    for number in range(8):
        conversation.say(f"NEW: {number}?")
    assert len(state_of(conversation)["messages"]) < len(conversation.messages())
    (call,) = conversation.context().calls
    rules = rules_of(call.context)
    positions = sorted([*call.context.sent.places, *rules["offloaded"], *rules["topic"]])
    assert list(range(1, 16)) == positions
    assert call.context.fits
    (first,) = conversation.context(1).calls
    assert first.context.fits
    assert (1,) == first.context.sent.places


def test_the_status_of_a_thread_with_offloaded_messages_names_the_others(
    open_thread: Opening,
) -> None:
    """The newest context is the same as in the whole transcript, without the offloaded ids."""
    conversation = open_thread(detector=SHIFTS, settings={"live_messages": 4, "recall_tokens": 0})
    for number in range(8):
        conversation.say(f"NEW: question {number}")
    assert offloaded_messages(conversation)
    status = conversation.tokens(spent=False).window
    window = conversation.tokens().window
    assert status is not None
    assert window is not None
    assert (True, True) == (status.fits, window.fits)
    assert window.sent == status.sent
    assert status.sent.message_ids
    for mine, full in zip(status.rules, window.rules, strict=True):
        assert mine.places == full.places
        assert set(mine.message_ids) <= set(full.message_ids)


def test_a_record_that_a_host_changed_is_told(open_thread: Opening) -> None:
    """Where a message was removed since, no other is named in its place."""
    conversation = open_thread(settings=PLAIN)
    conversation.say("q1")
    conversation.say("q2")
    conversation.add([RemoveMessage(id=conversation.messages()[0].id or "")])
    (call,) = conversation.context().calls
    assert (False, (1, 2, 3), ()) == (
        call.context.fits,
        call.context.sent.places,
        call.context.sent.message_ids,
    )


@pytest.mark.parametrize(
    "changed_value",
    ["no JSON", "[]", "{}", {"sent": 7}, {"sent": "1-"}, {"parts": "many"}],
    ids=["no-json", "a-list", "empty", "a-number", "half-a-range", "a-word"],
)
def test_a_manifest_that_a_host_changed_is_not_believed(
    open_thread: Opening, changed_value: Any
) -> None:
    """The readers show what the thread's own log says of the call."""
    conversation = open_thread(settings=PLAIN)
    conversation.say("q1")
    answer = conversation.messages()[-1]
    manifest = manifest_in(answer)
    assert manifest is not None
    text = (
        changed_value
        if isinstance(changed_value, str)
        else json.dumps({**manifest, **changed_value})
    )
    readers = (conversation.tokens, conversation.context)
    before = [reader() for reader in readers]
    conversation.add([annotate(answer, manifest=text)])
    assert before == [reader() for reader in readers]
    conversation.say("q2")
    assert conversation.tokens(spent=False).window is not None


def test_a_fork_knows_what_its_turns_were_sent(open_thread: Opening) -> None:
    """A fork begins with the transcript, and with what its answers tell."""
    conversation = open_thread(settings=PLAIN)
    conversation.say("q1")
    conversation.say("q2")
    assert conversation.context(2) == conversation.fork().context(2)


@pytest.mark.parametrize(
    ("turn", "attempt", "error", "text"),
    [
        (9, None, UnknownTurnError, "There is no turn 9"),
        (1, 3, UnknownContextError, r"no attempt 3; there are \[1\]"),
        (2, None, UnknownContextError, "not kept: a host or an older version answered it"),
    ],
    ids=["no such turn", "no such attempt", "answered by a host"],
)
def test_what_nobody_knows_is_refused(
    open_thread: Opening, turn: int, attempt: int | None, error: type[Exception], text: str
) -> None:
    """A turn, an attempt or a manifest that is not there is a clear error."""
    conversation = open_thread()
    conversation.say("q1")
    conversation.add([HumanMessage("q2"), AIMessage("put in by a host")])
    with pytest.raises(error, match=text):
        conversation.context(turn, attempt=attempt)


def test_a_thread_that_does_not_exist_has_no_context(open_thread: Opening) -> None:
    """Nothing was said, so nothing was sent."""
    with pytest.raises(UnknownThreadError):
        open_thread().context()


def test_a_manifest_is_small_on_the_record(open_thread: Opening) -> None:
    """For any answer of a turn, its metadata stays under 400 bytes."""
    conversation = open_thread(strategy=SlidingWindow(window_size=4))
    for number in range(12):
        conversation.say(f"Question {number}?")
    sizes = [len(json.dumps(found)) for m in conversation.messages() if (found := manifest_in(m))]
    assert 12 == len(sizes)
    assert max(sizes) < 400


async def test_the_context_and_the_tokens_for_async_code(tmp_path: Any) -> None:
    """Both forms of a conversation tell the same."""
    path = tmp_path / "t.db"
    model = Paid()
    judge = scores()
    async with AsyncConversation.open(path, thread="t", model=model, judge=judge) as conversation:
        await conversation.say("q1")
        view = await conversation.context(1)
        tokens = await conversation.tokens()
    with Conversation.open(path, thread="t", model=model, judge=judge) as second_conversation:
        assert (view, tokens) == (second_conversation.context(1), second_conversation.tokens())


def test_tokens_say_who_uses_the_window_and_what_was_spent(open_thread: Opening) -> None:
    """The newest call's parts, and each purpose's tokens: what was taken back is apart."""
    conversation = open_thread(Paid(), scores(0.9, 0.1, 0.9), settings=PLAIN)
    conversation.say("q1")
    conversation.say("q2")
    usage = conversation.tokens()
    assert usage.window is not None
    assert 2 == usage.window.attempt
    assert (22, 11) == (usage.spent.live.total, usage.spent.abandoned.total)
    assert usage.spent.total.total == sum(
        getattr(usage.spent, item).total
        for item in ("live", "abandoned", "judging", "summaries", "titles")
    )
    assert () == usage.gauges


class Cached(Paid):
    """A model whose provider had half of each prompt in its cache."""

    def __call__(self, messages: list[Any]) -> AIMessage:
        """The next draft."""
        draft = super().__call__(messages)
        assert draft.usage_metadata is not None
        usage = {**draft.usage_metadata, "input_token_details": {"cache_read": 5}}
        return draft.model_copy(update={"usage_metadata": usage})


def test_the_cache_and_the_cost_are_told(open_thread: Opening) -> None:
    """The cached share comes from the model's report, the cost from the prices."""
    prices = {"m": {"input": 10.0, "output": 100.0, "cache_read": 1.0}}
    conversation = open_thread(Cached(), settings={**PLAIN, "model": "m", "prices": prices})
    conversation.say("q1")
    live = conversation.tokens().spent.live
    assert (10, 5, 1) == (live.input, live.cached, live.output)
    assert 5 * 10 + 5 * 1 + 100 == live.micros
    assert "cost 0.0002" in conversation.say("/tokens").text


def test_budgets_are_told_where_they_are_set(open_thread: Opening) -> None:
    """Each limit has its gauge, in the report and in the notice."""
    limits = {"session_budget_tokens": 100_000, "task_budget_tokens": 50_000}
    conversation = open_thread(Paid(), settings={**PLAIN, **limits})
    conversation.say("q1")
    gauges = conversation.tokens().gauges
    assert [("session", 100_000), ("task", 50_000)] == [(g.layer, g.limit) for g in gauges]
    assert all(gauge.used > 0 for gauge in gauges)
    assert "of 100,000" in conversation.say("/tokens").text


def test_tokens_by_order_read_no_more_than_what_is_at_hand(open_thread: Opening) -> None:
    """In a chat the offloaded part is not read; the notice says that it is the least."""
    conversation = open_thread(Paid(), detector=SHIFTS, settings={"live_messages": 4})
    for number in range(8):
        conversation.say(f"NEW: {number}?")
    notice = conversation.say("/tokens").text
    assert "Used, at least: " in notice
    assert 88 == conversation.tokens().spent.live.total


def test_tokens_in_any_chat() -> None:
    """A graph without a store answers the order too, and no model is asked."""
    model = Numbered()
    graph = make(model, store=None)
    text = say(graph, "q1", "/tokens")["messages"][-1].text
    assert text.startswith("Context: ")
    assert "Used: " in text
    assert 1 == len(model.inputs)
    assert "No model call has been measured" in say(make(model), "/tokens")["messages"][-1].text


def test_an_agent_says_what_it_was_given(open_thread: Opening) -> None:
    """A graph in the model's place has one view: what its first step was given."""
    agent = StateGraph(MessagesState)
    agent.add_node("answer", lambda state: {"messages": [AIMessage(GOOD)]})
    agent.add_edge(START, "answer")
    conversation = open_thread(agent.compile(), settings=PLAIN)
    conversation.say("q1")
    assert [(1,)] == sent_of(conversation)
