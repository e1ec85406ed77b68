"""Lines of a conversation: forks, lists, comparisons, and what each cost."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage

from tests.graph.back_kit import SHIFTS, Opening, Paid, entry, three
from tests.graph.kit import Numbered, scores
from tests.graph.test_event_log_of_the_graph import check_events
from tests.reading import branch_of, questions
from tests.threads import registry_of
from unsay import AsyncConversation, Conversation
from unsay.context.manifest import Tokens
from unsay.effects import drive
from unsay.errors import (
    ConflictError,
    InvalidNameError,
    ModelUnavailableError,
    SessionEndedError,
    UnknownBranchError,
)
from unsay.history.threads import revise
from unsay.messages.content import text_of
from unsay.storage.base import THREADS


def test_a_fork_is_a_thread_of_its_own(open_thread: Opening) -> None:
    """Record, checkpoints and topics begin as they were there; both threads go on apart."""
    conversation = open_thread(detector=SHIFTS)
    for question in ("京都に行きたい。", "NEW: q2", "q3"):
        conversation.say(question)
    conversation.checkpoint("here")
    conversation.say("q4")
    before = conversation.messages()
    events = registry_of(conversation).events()

    fork = conversation.fork("here", thread="other")
    fork_start = (fork.messages(), fork.checkpoints(), fork.timeline().current_topic)
    check_events(fork)
    fork.say("q5")
    fork.undo()
    fork.undo()
    fork.redo()

    assert before[:6] == fork_start[0]
    assert conversation.checkpoints()[:3] == fork_start[1]
    assert conversation.timeline().current_topic == fork_start[2]
    assert (type(conversation), "other") == (type(fork), fork.thread_id)
    assert ("t", before[5].id, 3) == (
        entry(fork).forked_from,
        entry(fork).forked_at,
        entry(fork).turns,
    )
    assert entry(conversation).title == entry(fork).title
    assert (None, None) == (entry(conversation).forked_from, entry(conversation).forked_at)
    assert "fork" == registry_of(fork).events()[0]["type"]
    assert (before, events) == (conversation.messages(), registry_of(conversation).events())
    check_events(fork)
    check_events(conversation)


def test_a_fork_of_all_that_was_said(open_thread: Opening) -> None:
    """Without a place the fork begins at the end, without a pending question."""

    class Down(Numbered):
        def __call__(self, messages: list[BaseMessage]) -> AIMessage:
            draft = super().__call__(messages)
            if len(self.inputs) == 3:
                raise ConnectionError("down")
            return draft

    conversation = open_thread(Down())
    conversation.say("q1")
    conversation.say("q2")
    with pytest.raises(ModelUnavailableError):
        conversation.say("q3")

    fork = conversation.fork()

    assert (["q1", "q2"], ["q1", "q2", "q3"]) == (questions(fork), questions(conversation))
    fork.rollback(turns=2)
    assert [] == fork.messages()
    check_events(fork)


def test_a_fork_of_a_thread_that_ended(open_thread: Opening) -> None:
    """An ended thread takes no more words; its fork does."""
    conversation = three(open_thread)
    registry_of(conversation).end()
    with pytest.raises(SessionEndedError):
        conversation.retry()

    assert "draft 4" in conversation.fork().say("q4").text


@pytest.mark.sample(every=2)
@pytest.mark.parametrize(
    ("name", "error"),
    [
        pytest.param("t", ConflictError, id="itself"),
        pytest.param("taken", ConflictError, id="another"),
        pytest.param(" ", InvalidNameError, id="blank"),
        pytest.param("x" * 201, InvalidNameError, id="long"),
    ],
)
def test_a_fork_needs_a_new_name(open_thread: Opening, name: str, error: type[Exception]) -> None:
    """A thread that exists is never written over."""
    conversation = three(open_thread)
    open_thread(thread="taken").say("mine")

    with pytest.raises(error):
        conversation.fork(thread=name)
    assert ["mine"] == questions(open_thread(thread="taken"))


def test_a_fork_does_not_take_the_name_of_a_listed_thread(open_thread: Opening) -> None:
    """A thread that has only its entry in the registry keeps it."""
    conversation = three(open_thread)
    assert conversation.graph.store is not None
    created_at = entry(conversation).created_at
    drive(revise(conversation.graph.store, "planned", now=created_at, title="Mine"))

    with pytest.raises(ConflictError, match="planned"):
        conversation.fork(thread="planned")
    item = conversation.graph.store.get(THREADS, "planned")
    assert item is not None
    assert "Mine" == item.value["title"]


def test_branches_lists_everything_that_was_removed(open_thread: Opening) -> None:
    """The live branch first, then removed ones, the newest first, then forks; each once."""
    conversation = open_thread(Paid(), scores(0.9, 0.1, 0.9, 0.9))
    conversation.say("q1")
    conversation.say("q2")
    for _ in range(3):
        conversation.rollback(turns=1)
        conversation.undo()
    conversation.rollback(turns=1)
    conversation.say("/help")
    conversation.say("q3")
    fork = conversation.fork()
    fork.say("elsewhere")

    branches = conversation.branches()

    assert ["live", "person", "draft", "thread"] == [branch.kind for branch in branches]
    assert ["q1", "q2", "This is draft 2, about what was asked.", "elsewhere"] == [
        branch.words for branch in branches
    ]
    assert [(2, 4, 22), (1, 2, 11), (0, 1, 11), (1, 2, 11)] == [
        (branch.turns, branch.messages, branch.tokens.total) for branch in branches
    ]
    assert [("live", None), ("t", conversation.messages()[-1].id)] == [
        (branches[0].id, branches[0].base),
        (entry(fork).forked_from, branches[-1].base),
    ]
    assert str(branches[0]).startswith("live  live  2 turns, 4 messages, 22 tokens")


def test_two_branches_compared(open_thread: Opening) -> None:
    """What both have, what each has alone, their scores, topics and prices."""
    conversation = open_thread(Paid(), scores(0.9, 0.7, 0.8, 1.0), detector=SHIFTS)
    for question in ("q1", "NEW: 天気", "q3"):
        conversation.say(question)
    conversation.rollback(turns=2)
    conversation.say("NEW: パン")

    diff = conversation.diff(branch_of(conversation, "person"))

    assert (2, 6, 4) == (diff.common, diff.a.messages, diff.b.messages)
    assert ["NEW: 天気", "q3"] == [text_of(m) for m in diff.a.only if m.type == "human"]
    assert ["NEW: パン"] == [text_of(m) for m in diff.b.only if m.type == "human"]
    assert [1, 1] == [len(diff.a.topics), len(diff.b.topics)]
    assert [0.8, 0.8, 0.95, 1.0] == [
        pytest.approx(item)
        for item in (
            diff.a.mean_score,
            diff.a.last_score,
            diff.b.mean_score,
            diff.b.last_score,
        )
    ]
    assert (33, 22) == (diff.a.tokens.total, diff.b.tokens.total)
    assert "user: NEW: パン" in str(diff)
    assert "score mean 0.95, last 1.00" in str(diff)


def test_messages_behind_a_removed_turn_are_in_common(open_thread: Opening) -> None:
    """Not only those that both branches begin with: the rest is what each has alone."""
    conversation = three(open_thread)
    fork = conversation.fork(thread="fork")
    fork.remove(1)
    diff = fork.diff(conversation.thread_id)
    assert (4, 6, 4) == (diff.common, diff.a.messages, diff.b.messages)
    assert (2, 0) == (len(diff.a.only), len(diff.b.only))


def test_any_branch_can_be_compared(open_thread: Opening) -> None:
    """A checkpoint, a branch whose base was removed, another thread, and the branch itself."""
    conversation = three(open_thread)
    conversation.checkpoint("end")
    conversation.rollback(turns=1)
    first = branch_of(conversation, "person")
    conversation.rollback(turns=1)
    fork = conversation.fork(thread="fork")
    fork.say("elsewhere")

    assert (2, 6) == (conversation.diff(first).common, conversation.diff(first).a.messages)
    assert (2, 1) == (conversation.diff("fork").common, len(conversation.diff("fork").a.only) - 1)
    assert ((), ()) == (conversation.diff("live").a.only, conversation.diff("live").b.only)
    annotation = conversation.checkpoints()[0]["id"]
    assert 2 == conversation.diff(annotation, first).a.messages
    with pytest.raises(UnknownBranchError, match="'nowhere' is neither"):
        conversation.diff("nowhere")


def test_each_message_is_paid_for_once(open_thread: Opening) -> None:
    """Live and abandoned branches together are all calls of the model, after any operation."""
    model = Paid()
    conversation = open_thread(model, scores(0.9, 0.1, 0.9))

    def total(*conversations: Conversation) -> int:
        usages = [conversation.tokens().spent for conversation in conversations]
        return sum(item.live.total + item.abandoned.total for item in usages)

    conversation.say("q1")
    conversation.say("q2")
    usage_spent = conversation.tokens().spent
    assert (Tokens(input=20, output=2, total=22), Tokens(input=10, output=1, total=11)) == (
        usage_spent.live,
        usage_spent.abandoned,
    )
    conversation.undo()
    conversation.redo()
    conversation.rollback(turns=2)
    conversation.restore(branch_of(conversation, "person"))
    conversation.retry()
    conversation.undo()
    assert 11 * len(model.inputs) == total(conversation)
    fork = conversation.fork(turns=1)
    fork.say("elsewhere")
    fork.rollback(turns=2)
    conversation.pick([m.id or "" for m in conversation.messages()[:2]], "t")
    conversation.undo()
    assert 11 * len(model.inputs) == total(conversation, fork)
    assert "abandoned: 22 tokens (20 in, 2 out)" in str(conversation.tokens().spent)


def test_two_at_once_wait_for_each_other(tmp_path: Path) -> None:
    """Threads that fork one another at the same time do not deadlock."""

    async def both() -> list[Any]:
        async with AsyncConversation.open(
            tmp_path / "t.db", thread="a", model=Numbered(), judge=scores()
        ) as a:
            await a.say("q1")
            b = await a.fork(thread="b")
            calls = (a.fork(thread="b"), b.fork(thread="a"), a.undo(), b.rollback(turns=1))
            return await asyncio.gather(*calls, return_exceptions=True)

    usages = asyncio.run(both())

    assert [ConflictError, ConflictError] == [type(item) for item in usages[:2]]
    assert [0, 0] == [item.turns for item in usages[2:]]


@pytest.mark.parametrize("change", ["retry", "edit"])
def test_a_retry_in_a_fork_sees_no_removed_answer_of_the_first_thread(
    tmp_path: Path, change: str
) -> None:
    """A fork copies what its branch says, and nothing of the answers that were replaced there."""
    requests: list[str] = []

    def model(messages: list[AnyMessage]) -> str:
        requests.append("\n".join(text_of(message) for message in messages))
        return f"This is answer {len(requests)} about what was asked."

    with Conversation.open(tmp_path / "a.db", model=model, judge=lambda _: 0.9) as conversation:
        conversation.say("one")
        conversation.say("How long?")
        if change == "retry":
            conversation.retry()
        else:
            conversation.edit(2, "How far?")
        fork = conversation.fork()
        shorter_fork = conversation.fork(turns=1)
        ids = [message.id or "" for message in conversation.messages()[-2:]]
        shorter_fork.pick(ids, conversation.thread_id)
        requests.clear()
        fork.retry()
        shorter_fork.retry()

    assert 2 == len(requests)
    assert not [text for text in requests if "This is answer 2 " in text]
