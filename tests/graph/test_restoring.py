"""Bringing back what was cut or compacted, and messages of other branches."""

from typing import Any

import pytest
from langchain_core.messages import ToolMessage

from tests.graph.back_kit import SHIFTS, Opening, three
from tests.graph.kit import Numbered, scores
from tests.graph.test_event_log_of_the_graph import ASK, broken, check_events, trains
from tests.reading import branch_of, branches, expanded_topics, questions, said
from tests.threads import registry_of
from unsay.errors import ConflictError, InputError, UnknownBranchError, UnknownThreadError
from unsay.messages.conformance import faults
from unsay.messages.content import text_of
from unsay.testing import ScriptedChat, ScriptedJudge
from unsay.transcript.live import EXPANDED


def test_a_branch_returns_and_what_was_there_goes(open_thread: Opening) -> None:
    """Restoring a branch swaps two lines; undo and redo swap them again."""
    conversation = three(open_thread)
    first = conversation.messages()
    conversation.rollback(turns=2)
    conversation.say("other")
    second = conversation.messages()

    result = conversation.restore(branch_of(conversation, "person"))
    check_events(conversation)
    messages = conversation.messages()
    conversation.undo()
    undone = conversation.messages()
    conversation.redo()

    assert (2, 4) == (result.removed, result.restored)
    assert (first, second, first) == (messages, undone, conversation.messages())
    assert ["other"] == [
        branch.words for branch in conversation.branches() if branch.kind == "redo"
    ]
    check_events(conversation)


def test_a_rollback_names_its_branch(open_thread: Opening) -> None:
    """The result has the id that `restore` takes; a step that removes nothing has none."""
    conversation = three(open_thread)
    before = conversation.messages()
    rolled_back = conversation.rollback(turns=2)
    branch = branch_of(conversation, "person")
    nowhere = conversation.rollback(conversation.checkpoint("here")["id"])
    restored = conversation.restore(rolled_back.branch or "")

    assert (branch, None, None) == (rolled_back.branch, nowhere.branch, restored.branch)
    assert before == conversation.messages()


@pytest.mark.full
def test_a_branch_far_back_still_returns(open_thread: Opening) -> None:
    """All branches are kept, not only those that the state names."""
    conversation = open_thread()
    conversation.say("q0")
    conversation.say("the first one")
    for number in range(25):
        conversation.rollback(turns=1)
        conversation.say(f"other {number}")

    branches = [branch for branch in conversation.branches() if branch.words == "the first one"]
    conversation.restore(branches[0].id)

    assert 24 == len([branch for branch in conversation.branches() if branch.kind == "person"])
    assert ["other 24"] == [
        branch.words for branch in conversation.branches() if branch.kind == "restore"
    ]
    assert ["q0", "the first one"] == questions(conversation)
    check_events(conversation)


def test_one_message_returns_to_its_place(open_thread: Opening) -> None:
    """A message found in a branch returns to its place, and everything later stays."""
    conversation = three(open_thread)
    names = [m.id or "" for m in conversation.messages()]
    conversation.rollback(turns=2)
    conversation.say("q4")
    before = conversation.messages()

    conversation.restore(names[3])
    lines = said(conversation.messages())
    check_events(conversation)
    conversation.restore(names[2])
    ids = [m.id for m in conversation.messages()]
    conversation.undo()
    conversation.undo()

    assert "ai: This is draft 2, about what was asked." == lines[2]
    assert "human: q4" == lines[3]
    assert names[:4] == [*ids[:2], *sorted(ids[2:4], key=names.index)]
    assert before == conversation.messages()
    conversation.redo()
    assert lines == said(conversation.messages())
    check_events(conversation)


def test_a_tools_result_returns_with_its_call(open_thread: Opening) -> None:
    """One message of a batch brings the whole batch, so that the transcript is valid."""
    chat = ScriptedChat(replies={"train": ASK}, default="Yes, of course, it does.")
    conversation = open_thread(chat, ScriptedJudge(), tools=[trains, broken])
    conversation.say("Does it run?")
    conversation.say("When is the train?")
    result = next(m for m in conversation.messages() if isinstance(m, ToolMessage))
    conversation.rollback(turns=1)
    conversation.say("Does it stop?")

    conversation.restore(result.id or "")

    kinds = [m.type for m in conversation.messages()]
    assert ["human", "ai", "ai", "tool", "tool", "human", "ai"] == kinds
    assert () == faults([m for m in conversation.messages() if m.type != "system"], "openai")
    check_events(conversation)
    conversation.undo()
    check_events(conversation)


@pytest.mark.parametrize("name", ["topic-1", "label"])
def test_a_compacted_topic_is_shown_until_the_topic_changes(
    open_thread: Opening, name: str
) -> None:
    """Restored messages are in contexts again, until the next change of topic."""
    model = Numbered()
    conversation = open_thread(model, detector=SHIFTS)
    conversation.say("What is a list?")
    conversation.say("NEW: the weather")
    label = conversation.timeline().topics[0].label

    conversation.restore(name if name == "topic-1" else label)
    conversation.say("and tomorrow?")
    texts = model.texts()
    conversation.say("NEW: bread")

    assert "What is a list?" in texts
    assert not any("asked: What is a list?" in text for text in texts)
    assert "What is a list?" not in model.texts()
    assert ["expand"] == [
        e["type"] for e in registry_of(conversation).events() if e["type"] == "expand"
    ]
    check_events(conversation)


def test_an_opened_topic_closes_with_an_undo(open_thread: Opening) -> None:
    """Undo folds it again, redo shows it, and it cannot be shown twice."""
    model = Numbered()
    conversation = open_thread(model, detector=SHIFTS)
    conversation.say("What is a list?")
    conversation.say("NEW: the weather")
    transcript = conversation.messages()

    conversation.restore("topic-1")
    with pytest.raises(ConflictError, match="not compacted"):
        conversation.restore("topic-1")
    conversation.undo()
    after_undo = expanded_topics(conversation)
    conversation.redo()
    after_redo = expanded_topics(conversation)
    conversation.undo()
    conversation.say("and tomorrow?")

    assert (0, 1) == (len(after_undo), len(after_redo))
    assert "What is a list?" not in model.texts()
    assert transcript == conversation.messages()[:4]
    check_events(conversation)


def test_opened_topics_are_bounded(open_thread: Opening) -> None:
    """Only the newest few are shown beside the current one."""
    conversation = open_thread(detector=SHIFTS)
    for number in range(EXPANDED + 3):
        conversation.say(f"NEW: topic {number}")
    for number in range(EXPANDED + 2):
        conversation.restore(f"topic-{number + 1}")

    assert EXPANDED == len(expanded_topics(conversation))


@pytest.mark.sample(every=2)
@pytest.mark.parametrize(
    ("target", "error", "message"),
    [
        pytest.param("nothing", UnknownBranchError, "'nothing'", id="unknown"),
        pytest.param("branch-nothing", UnknownBranchError, "'branch-nothing'", id="no cut"),
        pytest.param("live message", ConflictError, "in the transcript already", id="stands"),
        pytest.param("draft", ConflictError, "only a rejected draft", id="a draft's cut"),
        pytest.param("draft message", UnknownBranchError, "rejected draft", id="a draft"),
        pytest.param("lost", ConflictError, "no longer there", id="its place is gone"),
        pytest.param("back", ConflictError, "in the transcript already", id="back already"),
    ],
)
def test_what_cannot_be_restored(
    open_thread: Opening, target: str, error: type[Exception], message: str
) -> None:
    """Each is refused with what to do instead, and nothing changes."""
    conversation = open_thread(judge=scores(0.1, 0.9, 0.9, 0.9))
    conversation.say("q1")
    draft = branch_of(conversation, "draft")
    draft_id = {branch.id: branch for branch in branches(conversation)}[draft].drafts[0].id
    for question in ("q2", "q3"):
        conversation.say(question)
    conversation.rollback(turns=1)
    late = branch_of(conversation, "person")
    stood = conversation.messages()[-1].id
    conversation.undo()
    late_text = late if target == "back" else ""
    if target != "back":
        conversation.rollback(turns=1)
    conversation.rollback(turns=1) if target == "lost" else None
    names = {
        "live message": stood,
        "draft": draft,
        "draft message": draft_id,
        "lost": late,
        "back": late_text,
    }
    before = conversation.messages()

    with pytest.raises(error, match=message):
        conversation.restore(str(names.get(target, target)))
    assert before == conversation.messages()


def test_a_rejected_draft_is_picked(open_thread: Opening) -> None:
    """A person puts a draft that the judge took back at the end of the transcript."""
    conversation = open_thread(judge=scores(0.1, 0.9))
    conversation.say("q1")
    branch = branch_of(conversation, "draft")
    draft = branches(conversation)[0].drafts[0]

    conversation.pick([draft.id], branch)

    assert ["ai: This is draft 1, about what was asked."] == said(conversation.messages()[-1:])
    check_events(conversation)
    conversation.undo()
    conversation.redo()
    assert 3 == len(conversation.messages())
    check_events(conversation)


def test_messages_of_a_fork_are_picked(open_thread: Opening) -> None:
    """Question and answer of another thread stand at the end, with ids that are free."""
    conversation = three(open_thread)
    fork = conversation.fork(turns=1)
    fork.say("elsewhere")
    ids = [m.id or "" for m in fork.messages()]

    conversation.pick(ids[-2:], fork.thread_id)
    conversation.pick(ids[:2], fork.thread_id)
    lines = said(conversation.messages())
    names = [m.id for m in conversation.messages()]
    conversation.undo()
    conversation.undo()

    assert ["human: elsewhere", "human: q1"] == lines[6::2]
    assert (10, ids[-2:]) == (len(set(names)), names[6:8])
    assert ["q1", "q2", "q3"] == questions(conversation)
    check_events(conversation)


def test_a_picked_call_brings_its_results(open_thread: Opening) -> None:
    """Calls, results and documents come along whole."""
    chat = ScriptedChat(replies={"train": ASK}, default="Yes, of course, it does.")
    conversation = open_thread(chat, ScriptedJudge(), tools=[trains, broken])
    conversation.say("When is the train?", documents=["The train to Kyoto runs every hour."])
    names = [m.id or "" for m in conversation.messages()]
    question = next(m.id or "" for m in conversation.messages() if text_of(m).startswith("When"))
    conversation.rollback(turns=1)
    branch = branch_of(conversation, "person")

    calls = next(
        n
        for n, m in zip(names, branches(conversation)[0].messages, strict=True)
        if m.type == "tool"
    )
    conversation.pick([question, calls, names[-1]], branch)

    assert sorted(names) == sorted(m.id or "" for m in conversation.messages())
    assert names[-1] == conversation.messages()[-1].id
    check_events(conversation)


@pytest.mark.parametrize(
    ("ids", "source", "error", "message"),
    [
        pytest.param([], "t", InputError, "a list of one or more message ids", id="none"),
        pytest.param("q", "t", InputError, "must be Sequence", id="a word"),
        pytest.param(["x"], "t", UnknownBranchError, "'x'", id="unknown message"),
        pytest.param(["x"], "branch-x", UnknownBranchError, "'branch-x'", id="unknown cut"),
        pytest.param(["x"], "no thread", UnknownThreadError, "'no thread'", id="unknown thread"),
        pytest.param(["question"], "t", InputError, "end in an answer", id="no answer"),
    ],
)
def test_what_cannot_be_picked(
    open_thread: Opening, ids: Any, source: str, error: type[Exception], message: str
) -> None:
    """Each is refused, and nothing changes."""
    conversation = three(open_thread)
    before = conversation.messages()
    message_ids = [before[0].id] if ids == ["question"] else ids

    with pytest.raises(error, match=message):
        conversation.pick(message_ids, source)
    assert before == conversation.messages()


def test_a_label_of_several_topics_is_not_enough(open_thread: Opening) -> None:
    """The ids are named, and one of them is."""
    conversation = open_thread(detector=SHIFTS)
    for question in ("NEW: bread", "NEW: bread", "NEW: rice"):
        conversation.say(question)
    label = conversation.timeline().topics[0].label

    with pytest.raises(ConflictError, match="topic-1, topic-2"):
        conversation.restore(label)
    assert 3 == conversation.restore("topic-1").turns


def test_the_beginning_of_a_branch_id_is_enough(open_thread: Opening) -> None:
    """As long as no other begins so."""
    conversation = three(open_thread)
    conversation.rollback(turns=1)
    branch = branch_of(conversation, "person")

    assert 3 == conversation.restore(branch[:10]).turns
    with pytest.raises(UnknownBranchError, match="'branch-'"):
        conversation.restore("branch-")
