"""The public classes: their methods, for a user, an editor and a type checker."""

import inspect
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import jedi
import pytest
from langgraph.store.memory import InMemoryStore

from unsay import AsyncConversation, AsyncRegistry, Conversation, Registry, evaluation
from unsay.conversation.asynchronous import AsyncLessons, AsyncPins, AsyncRatings
from unsay.conversation.collections import Lessons, Pins, Ratings
from unsay.errors import InputError

ROOT = Path(__file__).parents[2]
GENERATOR = runpy.run_path(str(ROOT / "docs" / "generate_async.py"))

PAIRS = [
    pytest.param(sync, on_loop, name, id=f"{sync.__name__}.{name}")
    for sync, on_loop in (
        (Conversation, AsyncConversation),
        (Registry, AsyncRegistry),
        (Pins, AsyncPins),
        (Lessons, AsyncLessons),
        (Ratings, AsyncRatings),
    )
    for name, member in inspect.getmembers(sync, inspect.isfunction)
    if not name.startswith("_")
]

CALLS = """
from typing import assert_type

from unsay import AsyncConversation, AsyncRegistry, Conversation, Registry
from unsay.evaluation import JudgedTurn, judge
from unsay.results.results import Checkpoint, RollbackResult, Reply
from unsay.history.runs import Run
from unsay.history.threads import SessionPage
from unsay.types import Pin


def blocking(conversation: Conversation, registry: Registry) -> None:
    assert_type(conversation.say("Hi", turn_id="a"), Reply)
    assert_type(conversation.rollback(), RollbackResult)
    assert_type(conversation.rollback(turns=1), RollbackResult)
    assert_type(conversation.fork("a"), Conversation)
    assert_type(conversation.pins.list(), tuple[Pin, ...])
    assert_type(conversation.checkpoint("a", task=True), Checkpoint)
    assert_type(registry.sessions(status="active", limit=3), SessionPage)
    assert_type(Conversation("a.db", thread="t"), Conversation)
    assert_type(Conversation.open("a.db", thread="t"), Conversation)
    assert_type(judge(conversation, turn=1), tuple[JudgedTurn, ...])
    conversation.rollback(turn=1)  # type: ignore[call-arg]
    conversation.recall(3)  # type: ignore[arg-type]


async def on_loop(conversation: AsyncConversation, registry: AsyncRegistry) -> None:
    assert_type(await conversation.say("Hi", turn_id="a"), Reply)
    assert_type(await conversation.rollback(turns=1), RollbackResult)
    assert_type(await conversation.fork("a"), AsyncConversation)
    assert_type(await registry.run("thread", "run"), Run)
    assert_type(await judge(conversation), tuple[JudgedTurn, ...])
    assert_type(await conversation.pins.list(), tuple[Pin, ...])
    await conversation.rollback(turn=1)  # type: ignore[call-arg]
"""


def test_the_async_classes_are_generated() -> None:
    """They are what the generator writes from the classes for scripts."""
    text = GENERATOR["TWIN"].read_text("utf-8")

    assert GENERATOR["twin"]() == text, "run python docs/generate_async.py"


@pytest.mark.parametrize(("sync", "on_loop", "name"), PAIRS)
def test_both_classes_have_the_method_with_its_parameters(
    sync: type, on_loop: type, name: str
) -> None:
    """The method for async code has the same parameters, and is a coroutine unless it streams."""
    blocking = getattr(sync, name)
    coroutine = getattr(on_loop, name)

    assert inspect.signature(blocking).parameters == inspect.signature(coroutine).parameters
    assert (False, not name.startswith("stream")) == tuple(
        map(inspect.iscoroutinefunction, (blocking, coroutine))
    )


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("name", ["Conversation", "AsyncConversation"])
def test_an_editor_completes_the_methods_without_running_code(name: str) -> None:
    """Jedi, which reads source code only, knows methods, results and parameters."""
    code = f"from unsay import {name}\nconversation = {name}('a.db')\nconversation."
    script = jedi.Script(code, project=jedi.Project(ROOT))
    completions = {completion.name for completion in script.complete()}
    (signature,) = jedi.Script(f"{code}rollback(", project=jedi.Project(ROOT)).get_signatures()

    assert {"say", "rollback", "undo", "checkpoints", "thread_id", "close"} <= completions
    assert ["to", "turns", "confirm"] == [
        parameter.name for parameter in signature.params if parameter.name != "*"
    ]


@pytest.mark.full
def test_a_type_checker_knows_the_verbs_of_both_classes(tmp_path: Path) -> None:
    """In strict mode mypy knows parameters and results, and refuses wrong ones."""
    file = tmp_path / "calls.py"
    file.write_text(CALLS)
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", str(file)]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ("", 0) == (process.stdout, process.returncode)


def test_a_wrong_argument_is_refused_before_anything_runs() -> None:
    """A parameter that the verb does not have is an `InputError` that names the known ones."""
    with Conversation(":memory:") as conversation, pytest.raises(InputError, match="turn"):
        conversation.rollback(turn=1)  # type: ignore[call-arg]


def test_a_function_of_a_conversation_refuses_everything_else() -> None:
    """A path is no conversation, and an option that there is not is named."""
    with pytest.raises(
        InputError, match=r"judge: conversation must be a Conversation, got 'a\.db'"
    ):
        evaluation.judge("a.db")  # type: ignore[call-overload]
    with (
        Conversation(":memory:") as conversation,
        pytest.raises(InputError, match=r"judge: .*trun"),
    ):
        evaluation.judge(conversation, trun=1)  # type: ignore[call-overload]


def test_a_registry_of_a_store_has_no_transcripts() -> None:
    """The verbs that need one say what to open instead."""
    with pytest.raises(InputError, match="open the registry with the database"):
        Registry(InMemoryStore()).events("t")


def test_a_class_of_ones_own_has_methods_of_its_own() -> None:
    """A method of a subclass takes what its author wants, and `open` makes that class."""

    class Own(Conversation):
        def shout(self, text: int) -> Any:
            return text

    with Own.open(":memory:") as conversation:
        assert "Hi" == conversation.shout("Hi")  # type: ignore[arg-type]
        assert Own is type(conversation)
