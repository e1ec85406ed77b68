"""The public classes are made from tables of verbs: for a user they are like classes by hand."""

import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from unsay import AsyncConversation, AsyncRegistry, Conversation, Registry
from unsay.conversation.verbs import ConversationVerbs, Opener, RegistryVerbs, Verb
from unsay.errors import InputError

ROOT = Path(__file__).parents[2]

PAIRS = [
    pytest.param(table, sync, on_loop, name, id=f"{sync.__name__}.{name}")
    for table, sync, on_loop in (
        (ConversationVerbs, Conversation, AsyncConversation),
        (RegistryVerbs, Registry, AsyncRegistry),
    )
    for name, verb in vars(table).items()
    if isinstance(verb, Verb | Opener)
]

CALLS = """
from typing import assert_type

from unsay import AsyncConversation, AsyncRegistry, Conversation, Registry
from unsay.conversation.results import RollbackResult, Reply
from unsay.history.runs import Run
from unsay.history.threads import SessionPage
from unsay.types import Pin


def blocking(conversation: Conversation, registry: Registry) -> None:
    assert_type(conversation.say("Hi", turn_id="a"), Reply)
    assert_type(conversation.rollback(turns=1), RollbackResult)
    assert_type(conversation.fork("a"), Conversation)
    assert_type(conversation.pins(), tuple[Pin, ...])
    assert_type(registry.sessions(status="active", limit=3), SessionPage)
    conversation.rollback(turn=1)  # type: ignore[call-arg]
    conversation.recall(3)  # type: ignore[arg-type]


async def on_loop(conversation: AsyncConversation, registry: AsyncRegistry) -> None:
    assert_type(await conversation.say("Hi", turn_id="a"), Reply)
    assert_type(await conversation.rollback(turns=1), RollbackResult)
    assert_type(await conversation.fork("a"), AsyncConversation)
    assert_type(await registry.run("thread", "run"), Run)
    await conversation.rollback(turn=1)  # type: ignore[call-arg]
"""


@pytest.mark.parametrize(("table", "sync", "on_loop", "name"), PAIRS)
def test_both_classes_have_the_verb_with_its_parameters_and_documentation(
    table: type, sync: type, on_loop: type, name: str
) -> None:
    """A verb's signature and docstring are those of its steps, in both classes."""
    verb: Any = vars(table)[name]
    subject, *own = inspect.signature(verb.steps).parameters.values()
    blocking, coroutine = vars(sync)[name], vars(on_loop)[name]
    for method in (blocking, coroutine):
        first, *parameters = inspect.signature(method).parameters.values()
        assert ("self", own) == (first.name, parameters)
        assert verb.steps.__doc__.splitlines()[0] == inspect.getdoc(method).splitlines()[0]
        assert f"\n    {subject.name}: " not in inspect.getdoc(method)
        assert inspect.getsource(verb.steps) == inspect.getsource(method)
    assert (False, True) == tuple(map(inspect.iscoroutinefunction, (blocking, coroutine)))
    assert f"{on_loop.__name__}.{name}" == coroutine.__qualname__
    if isinstance(verb, Opener):
        assert (sync, on_loop) == tuple(
            inspect.signature(each).return_annotation for each in (blocking, coroutine)
        )


@pytest.mark.full
def test_a_type_checker_knows_the_verbs_of_both_classes(tmp_path: Path) -> None:
    """In strict mode mypy knows parameters and results, and refuses wrong ones."""
    file = tmp_path / "calls.py"
    file.write_text(CALLS)
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", str(file)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ("", 0) == (done.stdout, done.returncode)


def test_a_wrong_argument_is_refused_before_anything_runs() -> None:
    """A parameter that the verb does not have is an `InputError` that names the known ones."""
    with Conversation.open(":memory:") as conversation, pytest.raises(InputError, match="turn"):
        conversation.rollback(turn=1)  # type: ignore[call-arg]
