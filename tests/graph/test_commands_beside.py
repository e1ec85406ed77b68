"""Commands are not conversation: typed into any page, they leave no trace where people or models look."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.types import Command

from tests.graph.kit import Numbered, config, make, say, scores
from tests.reading import said, transcript
from tests.threads import open_conversation, registry_of
from unsay import Conversation, Registry
from unsay.errors import ConflictError, ModelError, UnknownThreadError
from unsay.messages.annotations import is_notice, spoken
from unsay.messages.content import text_of
from unsay.orders.orders import READING
from unsay.storage.base import Database
from unsay.storage.sqlite import open_database

pytestmark = pytest.mark.usefixtures("closes_databases")

CHANGES = ["/undo", "/redo", "/rollback 1", "/rewind", "/checkpoint a", "/pin", "/forget 1"]
READS = [f"/{name}" for name in sorted(READING)] + ["/usage", "／ｈｅｌｐ", "/rolback", "/threads"]


@pytest.fixture
def database() -> Database:
    """One database in memory."""
    return open_database(":memory:")


class Failing:
    """A model that answers, except while `fails` is set."""

    def __init__(self) -> None:
        self.fails = False
        self.numbered = Numbered()

    def __call__(self, messages: Any) -> AIMessage:
        """The next draft."""
        if self.fails:
            raise ModelError("down")
        return self.numbered(messages)


def values(conversation: Conversation) -> dict[str, Any]:
    """The state as it is stored."""
    return dict(conversation.graph.get_state(config()).values)


# Our own interfaces


@pytest.mark.sample(every=4)
@pytest.mark.parametrize("command", [*CHANGES, *READS, "/retry", "/rollback nowhere", "/unpin"])
@pytest.mark.parametrize("form", ["say", "stream"])
def test_our_own_interfaces_write_no_command(database: Database, command: str, form: str) -> None:
    """Neither the command nor its notice is in the transcript, the log, a branch or a title."""
    conversation = open_conversation(database)
    conversation.say("one")
    conversation.say("two")

    reply = (
        conversation.say(command) if form == "say" else [*conversation.stream(command)][-1].reply
    )

    assert reply is not None
    assert reply.text
    assert [] == [
        m for m in conversation.messages() if is_notice(m) or text_of(m).startswith(("/", "／"))
    ]
    assert "one" == Registry.open(database).sessions().sessions[0].title
    assert not any(branch.words.startswith("/") for branch in conversation.branches())


@pytest.mark.parametrize("command", ["/help", "/undo", "/retry", "/rolback", "/recall tea"])
def test_a_command_begins_no_thread(database: Database, command: str) -> None:
    """A thread begins with its first question, which gives the title."""
    conversation = open_conversation(database)

    assert "notice" == conversation.say(command).kind
    assert () == Registry.open(database).sessions().sessions
    with pytest.raises(UnknownThreadError):
        conversation.timeline()
    conversation.say("Where is Kyoto?")
    assert "Where is Kyoto?" == Registry.open(database).sessions().sessions[0].title


def test_commands_do_what_the_verbs_do(database: Database) -> None:
    """The notices say what changed, in the language of the conversation."""
    conversation = open_conversation(database)
    for question in ("one", "two", "three"):
        conversation.say(question)

    texts = [conversation.say(command).text for command in ("/undo", "/redo", "/rewind 2", "/undo")]

    assert ["/redo", "/undo", "/undo", "/redo"] == [
        "/redo" if "/redo" in text else "/undo" for text in texts
    ]
    assert ["one", "two", "three"] == [turn.question for turn in conversation.timeline().turns]
    conversation.say("/checkpoint tea")
    assert "tea" in conversation.say("/checkpoints").text
    conversation.say("/pin 1")
    assert 2 == len(conversation.pins.list())
    conversation.say("/forget 2")
    assert 1 == len(conversation.forgotten())
    conversation.say("/undo")
    assert 0 == len(conversation.forgotten())


# What changes nothing


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("command", READS)
def test_what_only_shows_changes_nothing(database: Database, command: str) -> None:
    """The stored state is the same, so undo, redo and the pending question are too."""
    conversation = open_conversation(database)
    conversation.say("one")
    conversation.say("two")
    conversation.undo()
    before = values(conversation)

    assert conversation.say(command).text

    assert before == values(conversation)
    assert 2 == conversation.redo().turns


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("command", READS)
def test_a_stopped_turn_can_be_resumed_after_a_command(database: Database, command: str) -> None:
    """Through our own verbs."""
    model = Failing()
    conversation = open_conversation(database, model=model)
    conversation.say("one")
    model.fails = True
    with pytest.raises(ModelError):
        conversation.say("two")
    model.fails = False

    assert conversation.say(command).text
    conversation.resume()

    assert ["one", "two"] == [turn.question for turn in conversation.timeline().turns]
    assert None is not conversation.timeline().turns[-1].answer


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("command", READS)
def test_a_pending_decision_waits_after_a_command(database: Database, command: str) -> None:
    """It is answered, and the person then decides."""
    conversation = open_conversation(
        database,
        judge=scores(*[0.1] * 9),
        settings={"on_exhausted": "ask"},
    )
    assert "decision" == conversation.say("one").kind

    notice = conversation.say(command)
    assert "notice" == notice.kind
    assert "waits for your decision." in notice.text
    assert "still waits" not in notice.text
    with pytest.raises(ConflictError):
        conversation.say("/undo")
    assert "answer" == conversation.resume("approve").kind


@pytest.mark.parametrize("command", ["/undo", "/rollback 1", "/help"])
def test_a_question_that_a_host_added_waits_after_a_typed_command(
    database: Database, command: str
) -> None:
    """The command is about the turns before it; the notice says that the question waits."""
    conversation = open_conversation(database)
    conversation.say("one")
    conversation.add([HumanMessage("two")])

    reply = conversation.say(command)

    assert "“two” still waits" in reply.text
    assert "two" == text_of(conversation.messages()[-1])


# Somebody else's page


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("command", READS)
def test_a_stopped_turn_of_a_host_waits_after_a_command(command: str) -> None:
    """Its question is neither removed nor counted as answered; the notice says that it waits."""
    model = Failing()
    graph = make(model)
    say(graph, "one")
    model.fails = True
    with pytest.raises(ModelError):
        say(graph, "two")
    before = graph.get_state(config()).values
    model.fails = False

    after = say(graph, command)

    assert "“two” still waits: send it again" in text_of(after["messages"][-1])
    changed_before = {key for key in before if before[key] != after.get(key)}
    assert {"messages", "event_log", "refusal"} >= changed_before
    graph.invoke({"messages": []}, config())
    assert ["human: one", "human: two"] == [
        line
        for line in said(spoken(graph.get_state(config()).values["messages"]))
        if "human" in line
    ]
    assert command not in model.numbered.texts()


@pytest.mark.parametrize("form", ["resume", "again"])
def test_a_turn_that_stopped_before_a_hosts_command_is_resumed(
    database: Database, form: str
) -> None:
    """Our verbs find it, whichever page the command was typed into."""
    model = Failing()
    conversation = open_conversation(database, model=model)
    conversation.say("one")
    model.fails = True
    with pytest.raises(ModelError):
        conversation.say("two")
    model.fails = False
    say(conversation.graph, "/help", "/usage")

    reply = conversation.resume() if form == "resume" else conversation.say("two")

    assert "answer" == reply.kind
    assert ["one", "two"] == [turn.question for turn in conversation.timeline().turns]
    assert {"completed"} == {run.status for run in registry_of(conversation).runs().runs}


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("command", READS)
def test_a_pending_decision_of_a_host_is_asked_again(command: str) -> None:
    """The command is answered, and the person can decide."""
    graph = make(Numbered(), scores(*[0.1] * 9), settings={"on_exhausted": "ask"})
    interrupt = say(graph, "one")["__interrupt__"]

    after = say(graph, command)

    assert is_notice(after["messages"][-1])
    assert interrupt[0].value == after["__interrupt__"][0].value
    state = graph.invoke(Command(resume="approve"), config())
    assert ["human: one"] == [line for line in said(spoken(state["messages"])) if "human" in line]


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("command", [*CHANGES, *READS])
def test_a_question_beside_a_command_waits(command: str) -> None:
    """In one input: the command is obeyed, and the question is answered with the next message."""
    model = Numbered()
    graph = make(model)
    say(graph, "one", "two")

    state = graph.invoke(
        {"messages": [HumanMessage("What is a list?"), HumanMessage(command)]}, config()
    )

    assert "“What is a list?” still waits; it is answered together" in text_of(
        state["messages"][-1]
    )
    assert 2 == len(model.inputs)
    say(graph, "Please.")
    assert "What is a list?\n\nPlease." == model.texts()[-1]
    assert command not in model.texts()


def test_commands_of_a_host_are_left_out_everywhere(database: Database) -> None:
    """Timeline, counts, titles, previews, branches, diffs, contexts, judges, summaries and recall."""
    model = Numbered()
    judged = []

    def judge(exchange: Any) -> float:
        judged.append(str(exchange))
        return 0.9

    conversation = open_conversation(database, model=model, judge=judge)
    graph = conversation.graph
    for text in ("/timeline", "one", "/help", "/checkpoint tea", "two", "/recall one", "three"):
        say(graph, text)
    before = conversation.branches()
    preview = conversation.preview(turns=1)
    say(graph, "/undo", "/usage", "/redo", "/rewind 1", "/help")

    assert ["one", "two"] == [turn.question for turn in conversation.timeline().turns]
    assert 0 == sum(branch.words.startswith("/") for branch in (*before, *conversation.branches()))
    assert [2] == [b.messages for b in conversation.branches() if b.kind == "person"]
    assert ("three",) == preview.questions
    conversation.say("four")
    (session,) = Registry.open(database).sessions().sessions
    assert ("one", 3) == (session.title, session.turns)
    assert not any("/" in text for call in model.inputs for text in map(text_of, call))
    assert not any("/help" in text or "/undo" in text for text in judged)
    finds = conversation.recall("timeline help checkpoint usage")
    assert not any("/" in str(find) for find in finds)
    assert not any(
        command in str(conversation.timeline()) for command in ("/help", "/timeline", "/usage")
    )
    texts = [
        str(conversation.diff(branch.id))
        for branch in conversation.branches()
        if branch.kind == "person"
    ]
    assert not any("/help" in text or "/usage" in text for text in texts)


@pytest.mark.parametrize("store", [True, False])
def test_a_retry_does_not_lose_a_waiting_question(*, store: bool) -> None:
    """It is refused while a question waits, which stays."""
    graph = make(Numbered(), **({} if store else {"store": None}))
    say(graph, "one")

    state = graph.invoke({"messages": [HumanMessage("two"), HumanMessage("/retry")]}, config())

    assert "Nothing was changed" in text_of(state["messages"][-1])
    assert "human: two" in transcript(graph)


def test_a_retry_leaves_no_branch_of_its_command(database: Database) -> None:
    """The timeline shows the old answer as a branch, and not the command that asked again."""
    conversation = open_conversation(database)
    conversation.say("Hello")
    conversation.retry()

    assert ["retry"] == [
        branch["kind"] for branch in conversation.timeline().branches if branch["size"]
    ]


# Commands that change earlier turns while a question waits


def conversation_with_failed_turn(database: Database) -> Conversation:
    """Three answered turns, and a question whose turn failed."""
    model = Failing()
    conversation = open_conversation(database, model=model)
    for question in ("one", "two", "three"):
        conversation.say(question)
    model.fails = True
    with pytest.raises(ModelError):
        conversation.say("four")
    model.fails = False
    return conversation


def waiting(database: Database) -> Conversation:
    """The same, but the failed turn was taken back, and its question restored."""
    conversation = conversation_with_failed_turn(database)
    conversation.undo()
    conversation.restore()
    return conversation


def questions(conversation: Conversation) -> list[str]:
    """The questions of the timeline, with the one that waits."""
    return [turn.question for turn in conversation.timeline().turns]


@pytest.mark.parametrize("form", ["method", "command"])
def test_an_edit_keeps_a_waiting_question_for_its_undo(database: Database, form: str) -> None:
    """The question goes to the branch of the removed turns, and returns with them."""
    conversation = waiting(database)

    if form == "method":
        conversation.edit(1, "uno")
    else:
        conversation.say("/edit 1 uno")
    removed = [branch for branch in conversation.branches() if branch.kind == "edit"]
    conversation.say("/undo")

    assert [7] == [branch.messages for branch in removed]
    assert ["one", "two", "three", "four"] == questions(conversation)


def test_what_an_undo_brought_back_with_a_waiting_question_can_be_redone(
    database: Database,
) -> None:
    """The undo offers /redo, so /redo repeats the rollback."""
    conversation = conversation_with_failed_turn(database)
    conversation.say("/rollback 1")

    undone = conversation.say("/undo")
    conversation.say("/redo")

    assert "/redo" in undone.text
    assert ["one", "two", "four"] == questions(conversation)


def test_a_rollback_names_its_place_and_not_the_question_that_waits(database: Database) -> None:
    """The place is the last answer that stays."""
    conversation = waiting(database)
    checkpoint_id = conversation.checkpoints()[1]["id"]

    notice = conversation.say("/rollback 1")

    assert notice.text.startswith(f"Rolled back to checkpoint {checkpoint_id}.")


def test_all_questions_of_the_first_removed_turn_are_given_back(database: Database) -> None:
    """A question that waited and the next one have one answer, so a rollback gives both back."""
    conversation = waiting(database)
    conversation.say("and this")

    assert "four\nand this" == conversation.rollback(turns=1).question


@pytest.mark.parametrize("form", ["method", "command", "graph"])
def test_an_undo_takes_back_a_restored_question_that_waits(database: Database, form: str) -> None:
    """The restore put the question there, so its undo removes it, and the redo brings it back."""
    conversation = waiting(database)
    send = {
        "method": lambda verb: getattr(conversation, verb)(),
        "command": lambda verb: conversation.say(f"/{verb}"),
        "graph": lambda verb: say(conversation.graph, f"/{verb}"),
    }[form]

    send("undo")
    undone = questions(conversation)
    send("redo")
    redone = questions(conversation)
    send("undo")

    assert ["one", "two", "three"] == undone == questions(conversation)
    assert ["one", "two", "three", "four"] == redone


def test_an_undo_of_a_restore_keeps_a_question_that_waited_before(database: Database) -> None:
    """In a host's graph a restore keeps that question, and only what it put back leaves."""
    conversation = open_conversation(database)
    conversation.say("one")
    conversation.say("two")
    conversation.rollback(turns=1)
    conversation.add([("user", "and this")])

    say(conversation.graph, "/restore")
    restored = questions(conversation)
    say(conversation.graph, "/undo")

    assert ["one", "two", "and this"] == restored
    assert ["one", "and this"] == questions(conversation)


@pytest.mark.parametrize("form", ["method", "command"])
def test_an_undo_of_a_rollback_keeps_the_question_that_the_rollback_kept(
    database: Database, form: str
) -> None:
    """The chat rolled back, and the undo may come from code or the command line."""
    conversation = waiting(database)
    conversation.say("/rollback 1")

    if form == "method":
        conversation.undo()
    else:
        conversation.say("/undo")

    assert ["one", "two", "three", "four"] == questions(conversation)


def test_a_second_command_beside_a_waiting_question_has_a_notice_of_its_own(
    database: Database,
) -> None:
    """In a host's graph it does not replace the first one's, and the next question is answered."""
    conversation = waiting(database)

    texts = [
        [text_of(m) for m in say(conversation.graph, text)["messages"][6:]]
        for text in ("/checkpoints", "/undo", "five")
    ]

    assert ["four", "/checkpoints"] == texts[0][:2]
    assert ["/checkpoints", texts[0][2], "/undo"] == texts[1][:3]
    assert [4, 6] == [len(texts[1]), len(texts[2])]
    assert texts[2][-1].startswith("This is draft")
