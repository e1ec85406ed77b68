"""For any arguments, only our own errors are raised, and the thread is unchanged."""

import asyncio
import inspect
from collections.abc import Iterator
from contextlib import closing, suppress
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

from unsay import AsyncConversation, AsyncRegistry, Conversation, Registry, UnsayError
from unsay.conversation.collections import Lessons, Pins, Ratings
from unsay.errors import ConfigurationError, InputError
from unsay.storage.sqlite import open_database
from unsay.testing import ScriptedChat, ScriptedJudge

WRONG = (
    None,
    -1,
    0,
    10,
    2**70,
    1.5,
    float("nan"),
    True,
    "",
    "\x00",
    "nothing here",
    "x" * 300,
    b"live",
    [],
    [None],
    ["a", 1],
    {},
    {"a": 1},
    {1: "a"},
    object(),
    len,
)

pytestmark = pytest.mark.full
RIGHT = {
    "text": "Hello?",
    "messages": [("user", "Hello?")],
    "words": "train",
    "what": "nothing",
    "a": "live",
    "message_ids": ["none"],
    "from_": "none",
    "tool_call_id": "none",
    "thread_id": "trip",
    "run_id": "none",
}


def methods(cls: type) -> list[str]:
    """Names of a class's public methods, except those that open and close it."""
    functions = inspect.getmembers(cls, inspect.isfunction)
    return [name for name, _ in functions if not name.startswith("_") and name != "close"]


VERBS = sorted(
    {*methods(Conversation)}
    | {f"pins.{name}" for name in methods(Pins)}
    | {f"lessons.{name}" for name in methods(Lessons)}
    | {f"ratings.{name}" for name in methods(Ratings)}
)


def calls(method: Any) -> Iterator[dict[str, Any]]:
    """Keyword arguments with one wrong value each, once for each parameter."""
    parameters = inspect.signature(method).parameters.values()
    needed = {
        parameter.name: RIGHT[parameter.name]
        for parameter in parameters
        if parameter.default is parameter.empty and parameter.name in RIGHT
    }
    for parameter in parameters:
        for wrong in WRONG:
            yield {**needed, parameter.name: wrong}
    yield {**needed, "unheard_of": 1}


@pytest.fixture
def model() -> ScriptedChat:
    """A model that answers everything alike."""
    return ScriptedChat(default="Take the train to Kyoto.")


@pytest.mark.parametrize("name", VERBS)
def test_only_our_errors_leave_a_conversation(name: str, model: ScriptedChat) -> None:
    """A wrong argument of any type raises an `UnsayError`, and an error changes nothing."""
    with Conversation.open(
        ":memory:", thread="trip", model=model, judge=ScriptedJudge()
    ) as conversation:
        for text in ("How do I travel?", "How long?"):
            conversation.say(text)
        verb = attrgetter(name)(conversation)
        for arguments in calls(verb):
            before = conversation.timeline(), conversation.messages(), conversation.pins.list()
            try:
                result = verb(**arguments)
                if name.startswith("stream"):
                    list(result)
            except UnsayError:
                assert before == (
                    conversation.timeline(),
                    conversation.messages(),
                    conversation.pins.list(),
                )


@pytest.mark.parametrize("name", methods(Registry))
def test_only_our_errors_leave_a_registry(name: str) -> None:
    """A registry refuses what it cannot use with an `UnsayError`."""
    with Registry.open(":memory:") as registry:
        for arguments in calls(getattr(registry, name)):
            with suppress(UnsayError):
                getattr(registry, name)(**arguments)


def test_only_our_errors_leave_the_async_classes(model: ScriptedChat) -> None:
    """The check belongs to the verb, so async code gets the same errors."""

    async def main() -> None:
        registry = AsyncRegistry.open(database)
        async with AsyncConversation.open(database, thread="trip", model=model) as conversation:
            for verb, wrong in (
                (conversation.rollback, 10),
                (conversation.recall, None),
                (registry.run, b""),
            ):
                with pytest.raises(InputError, match="must be str"):
                    await verb(*([wrong] * (2 if verb == registry.run else 1)))  # type: ignore[operator]
            with pytest.raises(InputError, match=r"stream: .*'decison'"):
                conversation.stream(decison="approve")  # type: ignore[call-arg]

    with closing(open_database(":memory:")) as database:
        asyncio.run(main())


@pytest.mark.parametrize("option", ["path", "thread", "context", "settings", "tools"])
def test_only_our_errors_leave_the_constructor(option: str) -> None:
    """Options are checked before a database is opened."""
    for wrong in (value for value in WRONG if not isinstance(value, str)):
        arguments: Any = {"path": ":memory:", option: wrong}
        with suppress(UnsayError):
            Conversation(**arguments).close()


def test_impossible_overrides_are_refused_by_open(tmp_path: Path) -> None:
    """The error comes at once, not from the first verb, and no file is made."""
    file = tmp_path / "chat.db"
    with pytest.raises(ConfigurationError, match="quality_threshold"):
        Conversation.open(file, context={"quality_threshold": 7})
    assert not file.exists()


def test_an_unknown_option_names_the_class_and_its_options() -> None:
    """A misspelt option is refused with the nearest one and the list of all."""
    with pytest.raises(
        InputError, match=r"^Conversation: .* 'judg' \(did you mean 'judge'\?\).*summarizer"
    ):
        Conversation(":memory:", judg=None)  # type: ignore[call-arg]


def test_a_wrong_type_is_named_with_what_fits() -> None:
    """The error names the verb, the parameter, what fits, and the value."""
    with Conversation.open(":memory:") as conversation:
        with pytest.raises(
            InputError,
            match=r"^rollback: to must be str \| Checkpoint \| None, got 10 \(did you mean turns=10\?\)$",
        ):
            conversation.rollback(10)  # type: ignore[arg-type]
        with pytest.raises(InputError, match=r"rollback: .*'turn'.*turns=None"):
            conversation.rollback(turn=1)  # type: ignore[call-arg]
