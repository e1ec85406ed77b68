"""After `close` every public method says that the database was closed."""

import asyncio
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from unsay import AsyncConversation, AsyncRegistry, Conversation, Registry, build_graph
from unsay.errors import InputError
from unsay.storage.sqlite import open_database
from unsay.testing import ScriptedChat, ScriptedJudge

CLOSED = "was closed: open it again"
CONFIG: Any = {"configurable": {"thread_id": "t"}}
INPUT = {"messages": [("user", "Hi")]}

GIVEN: dict[str, dict[str, Any]] = {
    "add": {"messages": [("user", "Hi")]},
    "children": {"run_id": "run-1"},
    "diff": {"a": "branch-1"},
    "edit": {"turn": 1, "text": "Hi"},
    "forget": {"turns": 1},
    "end": {"thread_id": "t"},
    "events": {"thread_id": "t"},
    "note": {"thread_id": "t", "text": "Hi"},
    "pick": {"message_ids": ["m"], "from_": "branch-1"},
    "purge": {"thread_id": "t"},
    "recall": {"words": "Hi"},
    "remove": {"turn": 1},
    "restore": {"what": "branch-1"},
    "run": {"thread_id": "t", "run_id": "run-1"},
    "say": {"text": "Hi"},
    "session": {"thread_id": "t"},
    "stream": {"text": "Hi"},
    "tool_result": {"tool_call_id": "call"},
}
"""Arguments of the methods that need some, by name."""

POSITIONAL = {"label": ("t",)}
"""Arguments that have no name."""


def methods(*classes: type[Any]) -> list[Any]:
    """Each public method of the classes that uses the database."""
    return [
        pytest.param(facade, name, id=f"{facade.__name__}.{name}")
        for facade in classes
        for name, member in inspect.getmembers(facade, callable)
        if not name.startswith("_") and name not in ("open", "close")
    ]


def arguments(cls: type[Any], name: str) -> dict[str, Any]:
    """The arguments of a method that it needs."""
    parameters = inspect.signature(getattr(cls, name)).parameters
    return {key: value for key, value in GIVEN.get(name, {}).items() if key in parameters}


@pytest.mark.parametrize(("cls", "name"), methods(Conversation, Registry))
def test_a_blocking_method(cls: type[Any], name: str) -> None:
    """The error is the same for each, and the words of the interface."""
    model: dict[str, Any] = {"model": ScriptedChat(default="Hi")} if cls is Conversation else {}
    conversation = cls.open(":memory:", **model)
    conversation.close()
    conversation.close()
    with pytest.raises(InputError, match=CLOSED):
        list(getattr(conversation, name)(*POSITIONAL.get(name, ()), **arguments(cls, name)))


@pytest.mark.parametrize(("cls", "name"), methods(AsyncConversation, AsyncRegistry))
async def test_an_async_method(cls: type[Any], name: str) -> None:
    """The error is the same on an event loop."""
    model: dict[str, Any] = (
        {"model": ScriptedChat(default="Hi")} if cls is AsyncConversation else {}
    )
    conversation = cls.open(":memory:", **model)
    await conversation.close()

    async def use() -> None:
        result = getattr(conversation, name)(*POSITIONAL.get(name, ()), **arguments(cls, name))
        if not hasattr(result, "__aiter__"):
            await result
        async for _ in result:
            pass

    with pytest.raises(InputError, match=CLOSED):
        await use()


@pytest.mark.parametrize("database_path", [":memory:", "file"])
@pytest.mark.parametrize(
    "use",
    [
        lambda graph: graph.invoke(INPUT, CONFIG),
        lambda graph: list(graph.stream(INPUT, CONFIG)),
        lambda graph: graph.batch([INPUT], CONFIG),
        lambda graph: graph.get_state(CONFIG),
        lambda graph: list(graph.get_state_history(CONFIG)),
        lambda graph: graph.update_state(CONFIG, INPUT),
        lambda graph: asyncio.run(graph.ainvoke(INPUT, CONFIG)),
    ],
    ids=["invoke", "stream", "batch", "get_state", "get_state_history", "update_state", "ainvoke"],
)
def test_the_compiled_graph(
    use: Callable[[Any], object], database_path: str, tmp_path: Path
) -> None:
    """A graph over a closed database names the database, before the model is asked."""
    model = ScriptedChat(default="Hi")
    path = database_path if database_path == ":memory:" else str(tmp_path / "x.db")
    database = open_database(path)
    graph = build_graph(
        model, judge=ScriptedJudge(), checkpointer=database.saver, store=database.store
    )
    graph.invoke(INPUT, CONFIG)
    database.close()
    with pytest.raises(InputError, match=f"'{path}' {CLOSED}"):
        use(graph)
    assert 1 == len(model.calls)


def test_a_conversation_leaves_open_what_was_passed_to_it() -> None:
    """The database of several conversations stays open when one of them, or a fork, is closed."""
    database = open_database(":memory:")
    options: dict[str, Any] = {"model": ScriptedChat(default="Hi"), "judge": ScriptedJudge()}
    with Conversation.open(database, thread="a", **options) as first:
        first.say("One")
        first.fork(thread="b").close()
    second = Conversation.open(database, thread="a", **options)
    assert 2 == len(second.messages())

    database.close()

    with pytest.raises(InputError, match=CLOSED):
        second.messages()
