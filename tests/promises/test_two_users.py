"""Two users of one host: whatever one of them sends, the other's words stay in the other's thread."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pytest
from langchain_core.messages import BaseMessage, HumanMessage, RemoveMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore

from tests.threads import registry_of
from tests.tiers import sampled
from unsay import Conversation, Registry, build_graph, open_database
from unsay.errors import ConflictError, InputError, NotFoundError, UnsayError
from unsay.hosts.entry import HostGraph
from unsay.storage.base import Database
from unsay.testing import ScriptedChat, ScriptedJudge

TOLD = "The code of my door is 4711 zebra."
ANN = "ann:1"
BOB = "bob:1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A host with one database, and what its model was sent."""

    database: Database
    model: ScriptedChat

    def open_thread(self, thread: str, **options: Any) -> Conversation:
        """A thread, opened as for one request."""
        return Conversation.open(
            self.database, thread=thread, model=self.model, judge=ScriptedJudge(), **options
        )

    def sent(self) -> str:
        """The newest request."""
        return " ".join(str(message.content) for message in self.model.calls[-1])


@pytest.fixture(params=["file", pytest.param("server", marks=pytest.mark.full)])
def host(request: pytest.FixtureRequest) -> Iterator[Host]:
    """A host whose user Ann has told a secret, set a checkpoint, and rolled a turn back."""
    location = request.getfixturevalue("url") if request.param == "server" else ":memory:"
    database = open_database(location)
    host = Host(database=database, model=ScriptedChat(default="Noted."))
    ann = host.open_thread(ANN)
    ann.say(TOLD, turn_id="turn")
    ann.checkpoint("mine")
    ann.say("And the cellar 4711?")
    ann.rollback(turns=1)
    registry_of(ann).label(user="shared")
    bob = host.open_thread(BOB)
    bob.say("I am Bob.")
    registry_of(bob).label(user="shared")
    yield host
    database.close()


@pytest.mark.sample(every=4)
@pytest.mark.parametrize(
    ("one", "second_id"),
    [
        ("ann/1", "ann"),
        ("ann", "Ann"),
        ("\u00e9", "e\u0301"),
        ("ann", "\uff41nn"),
        ("a.b", "a"),
        ("a*", "ab"),
        ("a_", "ab"),
        ("a%", "ab"),
        ("a%2Fb", "a/b"),
        ("../ann", "ann"),
        ("ann ", "ann"),
        ("a'b--", "a"),
        ("unsay-lease", "unsay"),
        ("x" * 200, "x" * 199),
    ],
)
def test_ids_that_look_alike(host: Host, one: str, second_id: str) -> None:
    """Neither reads the other's words, and a purge of one leaves the other whole."""
    host.open_thread(one).say(TOLD)
    host.open_thread(second_id).say("Which code has my door?")
    assert "4711" not in host.sent()
    Registry.open(host.database).purge(second_id)
    assert [TOLD, "Noted."] == [message.text for message in host.open_thread(one).messages()]
    assert [] == host.open_thread(second_id).messages()


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("name", ["", "a\0b", "ann\n", "\u202eann", "ann\u200b", "x" * 201])
def test_ids_that_cannot_be_told_apart(host: Host, name: str) -> None:
    """An id that looks like another one on a page is refused."""
    with pytest.raises(InputError, match="cannot name a thread"):
        host.open_thread(name)


def anns(host: Host) -> dict[str, str]:
    """Ids of Ann's thread, which Bob must not be able to use."""
    ann = host.open_thread(ANN)
    (branch,) = [branch.id for branch in ann.branches() if branch.id != "live"]
    message = ann.messages()[0].id
    assert message is not None
    checkpoint = ann.checkpoints()[0]["id"]
    run = registry_of(ann).runs().runs[0].run_id
    return {"branch": branch, "checkpoint": checkpoint, "message": message, "run": run}


@pytest.mark.parametrize(
    "use",
    sampled(
        [
            lambda bob, ids: bob.rollback(ids["checkpoint"]),
            lambda bob, _: bob.rollback("mine"),
            lambda bob, ids: bob.preview(ids["checkpoint"]),
            lambda bob, ids: bob.fork(ids["checkpoint"]),
            lambda bob, _: bob.fork(thread=ANN),
            lambda bob, ids: bob.restore(ids["branch"]),
            lambda bob, ids: bob.pick([ids["message"]], from_=ids["branch"]),
            lambda bob, ids: bob.diff(ids["branch"]),
            lambda bob, ids: bob.pins.add(ids["message"]),
            lambda bob, ids: bob.forget(ids["message"]),
            lambda bob, ids: bob.replay(run_id=ids["run"]),
        ],
        every=3,
    ),
    ids=lambda _: "",
)
def test_ids_of_another_thread(host: Host, use: Callable[[Conversation, Any], object]) -> None:
    """An id of Ann's thread is unknown in Bob's, and changes neither."""
    bob = host.open_thread(BOB)
    ids = anns(host)
    before = [host.open_thread(item).messages() for item in (ANN, BOB)]
    with pytest.raises((NotFoundError, ConflictError)):
        use(bob, ids)
    assert before == [host.open_thread(item).messages() for item in (ANN, BOB)]


def test_the_same_turn_id(host: Host) -> None:
    """A `turn_id` that Ann used answers Bob's own question."""
    bob = host.open_thread(BOB)
    bob.say("Again?", turn_id="turn")
    assert ["I am Bob.", "Noted.", "Again?", "Noted."] == [
        message.text for message in bob.messages()
    ]
    assert "4711" not in host.sent()


@pytest.mark.parametrize("line", ["/restore {branch}", "/rollback {checkpoint}", "/recall 4711"])
def test_what_a_user_types(host: Host, line: str) -> None:
    """A command with an id or the words of Ann's thread finds nothing."""
    bob = host.open_thread(BOB)
    assert "zebra" not in bob.say(line.format(**anns(host))).text
    assert not any("4711" in message.text for message in bob.messages() if message.type == "ai")


@pytest.mark.sample(every=2)
@pytest.mark.parametrize(
    "line", ["/rollback", "\uff0frollback", "/ROLLBACK 1", "  /rollback", "/rewind", "/forget 1"]
)
def test_a_command_that_users_may_not_send(host: Host, line: str) -> None:
    """However it is written, it changes nothing, and no model is asked."""
    bob = host.open_thread(BOB, commands=["undo", "help"])
    before = bob.messages()
    calls = len(host.model.calls)
    assert "is not available here" in bob.say(line).text
    assert (before, calls) == (bob.messages(), len(host.model.calls))


def test_a_label_is_no_permission(host: Host) -> None:
    """Both threads may have a label; a purge of one leaves the other listed and whole."""
    registry = Registry.open(host.database)
    sessions = registry.sessions(labels={"user": "shared"}).sessions
    assert {ANN, BOB} == {thread.thread_id for thread in sessions}
    registry.purge(BOB)
    (session,) = registry.sessions(labels={"user": "shared"}).sessions
    assert (ANN, 2) == (session.thread_id, len(host.open_thread(ANN).messages()))


def test_a_user_cannot_undo_a_label_of_the_host(host: Host) -> None:
    """Where the host limits commands, /undo removes the user's turn, also right after a label."""
    cid = host.open_thread("cid:1", commands=["undo", "redo"])
    cid.say("I am Cid.")
    registry_of(cid).label(user="cid")
    assert "Removed 1 turn" in cid.say("/undo").text
    assert "no step left to undo" in cid.say("/undo").text
    assert "Restored 1 turn" in cid.say("/redo").text
    assert {"user": "cid"} == registry_of(cid).label().labels


# The same of the compiled graph, whose hosts pass ids, states and messages themselves.


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A compiled graph, and what its model was sent."""

    graph: HostGraph
    model: ScriptedChat

    def invoke(self, thread: object, value: Any, **options: Any) -> list[BaseMessage]:
        """Run the graph on a thread; its transcript."""
        config: Any = {"configurable": {"thread_id": thread, **options}}
        messages: list[BaseMessage] = self.graph.invoke(value, config)["messages"]
        return messages

    def state(self, thread: object) -> Any:
        """The newest state of a thread."""
        return self.graph.get_state({"configurable": {"thread_id": thread}})


@pytest.fixture
def running() -> Running:
    """A graph to which Ann and Bob have said something, in messages with the same id."""
    model = ScriptedChat(default="Noted.")
    graph = build_graph(
        model, judge=ScriptedJudge(), checkpointer=InMemorySaver(), store=InMemoryStore()
    )
    running = Running(graph=graph, model=model)
    running.invoke(ANN, {"messages": [HumanMessage(TOLD, id="m1")]})
    running.invoke(ANN, {"messages": [HumanMessage("And the cellar 4711?", id="m2")]})
    running.invoke(BOB, {"messages": [HumanMessage("I am Bob.", id="m1")]})
    return running


def checkpoint_of_ann(running: Running) -> str:
    """The id of a checkpoint of Ann's."""
    checkpoint_id: str = running.state(ANN).values["checkpoints"][0]["id"]
    return checkpoint_id


def state_of_ann(running: Running) -> str:
    """LangGraph's id of the newest state of Ann's thread."""
    checkpoint_id: str = running.state(ANN).config["configurable"]["checkpoint_id"]
    return checkpoint_id


@pytest.mark.parametrize(
    "use",
    [
        lambda running: running.invoke(
            BOB,
            {"should_rollback": True, "rollback_checkpoint_id": checkpoint_of_ann(running)},
        ),
        lambda running: running.invoke(
            BOB, {"messages": [("user", "Hi")]}, checkpoint_id=state_of_ann(running)
        ),
        lambda running: running.invoke(BOB, {"messages": [RemoveMessage(id="m2")]}),
        lambda running: running.invoke(BOB, {"messages": [HumanMessage("Hi", id="m2")]}),
        lambda running: running.graph.update_state(
            {"configurable": {"thread_id": BOB, "checkpoint_id": state_of_ann(running)}},
            {"messages": [HumanMessage("Hi")]},
        ),
    ],
    ids=["checkpoint", "state", "removed message", "message of the same id", "update"],
)
def test_the_graph_with_ids_of_another_thread(
    running: Running, use: Callable[[Running], object]
) -> None:
    """Ann's thread stays as it was, and her words reach neither Bob's thread nor its contexts."""
    before = running.state(ANN).values
    calls = len(running.model.calls)
    try:
        use(running)
    except UnsayError as error:
        assert isinstance(error, NotFoundError)  # noqa: PT017 - some of the uses are allowed
    assert before == running.state(ANN).values
    assert "4711" not in str(running.state(BOB).values)
    assert "4711" not in str(running.model.calls[calls:])


@pytest.mark.parametrize("thread", [None, "", True, ("ann",), 1.5, "a\0b", "a\ud800"], ids=ascii)
def test_ids_that_the_graph_refuses(running: Running, thread: object) -> None:
    """An id that several users could share by mistake is refused before anything is stored."""
    calls = len(running.model.calls)
    with pytest.raises(InputError, match="thread_id"):
        running.invoke(thread, {"messages": [("user", TOLD)]})
    assert calls == len(running.model.calls)


@pytest.mark.parametrize("thread", [7, UUID(int=7), "ann/1"], ids=str)
def test_ids_that_the_graph_takes(running: Running, thread: object) -> None:
    """Numbers and UUIDs are ids too, as everywhere in LangGraph."""
    assert 2 == len(running.invoke(thread, {"messages": [("user", "Hi")]}))
