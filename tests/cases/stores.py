"""Operations on how a conversation is saved: crashes, failing saves, and earlier versions."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage

from tests.cases.observation import Case, Observation, Operation
from tests.cases.world import NotBoundError, World
from tests.threads import registry_of
from unsay.conversation.conversation import Conversation
from unsay.events.transcript_replay import replay
from unsay.history.threads import list_threads
from unsay.messages.content import text_of


class _Died(BaseException):
    """The process ends."""


INSTANTS = {
    "between_stores": ("put", "put_writes"),
    "after_body": ("put", "put_writes"),
    "before_metadata": ("put", "put_writes"),
}
"""Calls of the checkpointer at which a process ends whose words are in the store."""


def _questions(count: int) -> list[str]:
    return [f"question {number}" for number in range(1, count + 1)]


def _run_turns(case: Case, folder: Path, count: int) -> World:
    world = World(folder=folder, params={}, given=case["given"])
    world.say(_questions(count))
    return world


@contextmanager
def _dying(conversation: Conversation, calls: tuple[str, ...]) -> Iterator[None]:
    """The process ends at a call of its checkpointer."""
    saver: Any = conversation.graph.checkpointer

    def dies(*_: Any, **__: Any) -> Any:
        raise _Died

    for name in calls:
        setattr(saver, name, dies)
    try:
        yield
    except _Died:
        return
    raise AssertionError("nothing was saved")


def save_crash(case: Case, folder: Path) -> Observation:
    """A turn whose words are in the store when the process ends, and not yet in the state."""
    instant = case["params"].get("crash_at")
    if instant not in INSTANTS:
        raise NotBoundError(f"crash_at {instant!r}")
    world = _run_turns(case, folder, case["given"]["turns"])
    world.expected_record = world.transcript()
    with world.open() as conversation, _dying(conversation, INSTANTS[instant]):
        conversation.say("the turn that the process dies in")
    return Observation(world=world)


def save_fails(case: Case, folder: Path) -> Observation:
    """Say what no serializer can write, after turns that were saved."""
    world = _run_turns(case, folder, case["given"]["previous_turns"])
    world.expected_record = world.transcript()
    before = world.messages()
    unwritable = AIMessage("An answer.", additional_kwargs={"made": object()})
    with Conversation.open(
        folder / "case.db", thread=world.thread, model=lambda _: unwritable, judge=lambda _: 0.9
    ) as conversation:
        try:
            conversation.say("the turn that cannot be saved")
        except Exception as failure:  # noqa: BLE001 - the case judges the error
            after = world.messages()
            return Observation(error=failure, world=world, messages=after, given=before)
    return Observation(world=world)


def turn_that_cannot_be_saved(world: World) -> Observation:
    """Run a turn after whose answer every write fails, then send it again once writes work.

    The state says whether the caller can have the answer without a second call of the model.
    """
    if world.params["store"] != "fails":
        raise NotBoundError(f"store {world.params['store']!r}")
    question = world.given["user"]
    error = None
    before = world.messages()
    with world.open() as conversation:
        _break_writes(conversation, world)
        world.is_store_broken = True
        try:
            conversation.say(question, turn_id="turn")
        except Exception as failure:  # noqa: BLE001 - the case judges the error
            error = failure
        world.is_store_broken = False
        calls = len(world.model_inputs)
        answer = world.drafts[0]
        after = conversation.messages()
        answers = [str(getattr(error, name, "")) for name in ("answer", "reply")]
        reply = conversation.say(question, turn_id="turn").text
    is_free = reply == answer and len(world.model_inputs) == calls
    state = {"model_calls": calls, "answer_available": is_free or answer in answers}
    return Observation(error=error, world=world, messages=after, given=before, state=state)


def _break_writes(conversation: Conversation, world: World) -> None:
    """Let every write fail from the model's first answer on, while the world's storage is broken."""
    database: Any = conversation._handle.database

    def broken(call: Callable[..., Any]) -> Callable[..., Any]:
        def write(*arguments: Any, **options: Any) -> Any:
            if world.drafts and world.is_store_broken:
                raise sqlite3.OperationalError("disk I/O error")
            return call(*arguments, **options)

        return write

    for owner, names in ((database.saver, ("put", "put_writes")), (database.store, ("batch",))):
        for name in names:
            setattr(owner, name, broken(getattr(owner, name)))


def versions(case: Case, folder: Path) -> Observation:
    """Count the different transcripts after each turn, each read in a separate fork."""
    turns = case["given"]["turns"]
    world = _run_turns(case, folder, turns)
    with world.open() as conversation:
        transcripts_of_turns = [
            conversation.fork(turns=turn or None).messages() for turn in range(turns)
        ]
    transcripts = {
        tuple(text_of(message) for message in transcript)
        for transcript in transcripts_of_turns
        if transcript
    }
    return Observation(world=world, value=len(transcripts))


def _intact(world: World) -> bool:
    """Whether what was saved before is there, whole and in order."""
    expected = world.expected_record or []
    return world.transcript()[: len(expected)] == expected


def _consistent(world: World) -> bool:
    """Whether the transcript is as before or with the new turn, and every account of it agrees."""
    with world.open() as conversation:
        transcript = world.transcript(conversation)
        events = registry_of(conversation).events()
        replayed_texts = [(message.id, text_of(message)) for message in replay(events).messages]
        turns = len(conversation.timeline().turns)
        (entry,) = list_threads(conversation.graph.store)  # type: ignore[arg-type]
    previous = world.expected_record or []
    return (
        _intact(world)
        and len(transcript) - len(previous) in (0, 2)
        and replayed_texts == transcript
        and (entry.turns in (turns, turns - 1))
    )


def _all_load(world: World) -> bool:
    """Whether each thread that is listed can be read and gone on with."""
    with world.open() as conversation:
        names = [entry.thread_id for entry in list_threads(conversation.graph.store)]  # type: ignore[arg-type]
    for name in names:
        other_world = World(folder=world.folder, params={}, given=world.given, thread=name)
        with other_world.open() as conversation:
            if not conversation.messages() or not conversation.say("are you there?").text:
                return False
    return True


STORE_CLAIMS: dict[str, Callable[[World, Case], bool]] = {
    "list_has_no_dangling_entry": lambda w, c: _all_load(w),
    "load_returns_consistent_previous_or_new": lambda w, c: _consistent(w),
    "previous_version_intact": lambda w, c: _intact(w),
}
"""What is claimed of a conversation after a save that did not end."""

VERSION_CLAIMS: dict[str, Callable[[Any, Case], bool]] = {
    "versions_ge": lambda version, claim: version >= claim["value"],
}
"""What is claimed of an operation's value."""

OPERATIONS: dict[str, Operation] = {
    "history.save_crash": save_crash,
    "history.save_serialization_fails": save_fails,
    "history.versions": versions,
}
