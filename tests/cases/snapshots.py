"""Operations on what can be gone back to: copies of a thread, checkpoints, and writes in their order."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from langchain_core.messages import AnyMessage, message_to_dict
from langchain_core.messages.utils import convert_to_messages

from tests.cases.observation import Case, Observation, Operation
from tests.cases.world import NotBoundError, World
from tests.threads import registry_of
from unsay.conversation.conversation import Conversation
from unsay.effects import drive
from unsay.history.branch import list_stored_branches
from unsay.history.export import FIELDS, from_dict, load_snapshot, resolve_fields, to_dict
from unsay.messages.annotations import is_answer
from unsay.messages.content import text_of
from unsay.storage.pagination import are_labels

SOURCE = "source"
"""The thread that a copy was made of."""


def _copy(case: Case, folder: Path) -> tuple[World, Conversation, list[AnyMessage]]:
    """A thread with the case's messages, and its fork, which is the copy."""
    world = World(folder=folder, params=case["params"], given=case["given"], thread=SOURCE)
    source = world.open()
    source.add(convert_to_messages(case["given"]["messages"]))
    source.fork(thread="case")
    copy = World(folder=folder, params=case["params"], given=case["given"])
    return copy, source, source.messages()


def take_then_mutate(case: Case, folder: Path) -> Observation:
    """A copy, and another's words in the place of a message afterwards."""
    copy, source, messages = _copy(case, folder)
    with source:
        mutate = case["given"]["mutate"]
        old = messages[mutate["index"]]
        source.add([old.model_copy(update={"content": mutate["content"]})])
        messages[mutate["index"]].content = mutate["content"]
        assert mutate["content"] == text_of(source.messages()[mutate["index"]])
    return Observation(world=copy)


def load_then_mutate(case: Case, folder: Path) -> Observation:
    """A copy that is gone on with, and more said where it came from."""
    copy, source, messages = _copy(case, folder)
    with source:
        source.add([("user", "more"), ("ai", "and more")])
        messages.append(messages[0])
    return Observation(world=copy)


def list_checkpoints(case: Case, folder: Path) -> Observation:
    """A page of the checkpoints, by the names that the case gives them."""
    options = case["given"]["created"]
    params = case["params"]
    if unknown := set(params) - {"limit", "start_after"}:
        raise NotBoundError(f"params {sorted(unknown)}")
    world = World(folder=folder, params={}, given=case["given"])
    with world.open() as conversation:
        for name in options:
            conversation.say(f"question {name}")
            conversation.checkpoint(name)
        return Observation(
            value=[annotation["name"] for annotation in conversation.checkpoints(**params)]
        )


def trigger_raises(case: Case, folder: Path) -> Observation:
    """Turns whose judge fails."""
    if case["given"].get("trigger") != "raises":
        raise NotBoundError(f"trigger {case['given'].get('trigger')!r}")
    params = {**case["params"], "judge": "raises"}
    world = World(folder=folder, params=params, given=case["given"])
    world.say([f"question {n}" for n in range(1, case["given"]["turns"] + 1)])
    return Observation(world=world)


class _Died(BaseException):
    """The process ends."""


def crash_between_writes(case: Case, folder: Path) -> Observation:
    """A process that ends when what a rollback takes is kept, and the state does not yet say so."""
    if case["given"]["crash_after"] != "immutable_write":
        raise NotBoundError(f"crash_after {case['given']['crash_after']!r}")
    world = World(folder=folder, params=case["params"], given=case["given"])
    world.say(["q1", "q2"])
    conversation = world.open()
    saver: Any = conversation.graph.checkpointer

    def dies(*_: Any, **__: Any) -> Any:
        raise _Died

    saver.put = saver.put_writes = dies
    try:
        conversation.rollback(turns=1)
    except _Died:
        conversation.close()
        return Observation(world=world)
    raise AssertionError("the rollback wrote no state")


OUR_FIELDS = {
    "messages": "messages",
    "state": "labels",
    "conversation_manager_state": "topics",
    "system_prompt": "settings",
}
"""Our fields for the words that cases use."""

CREATED = {"schema_version": "1.0", "created_at": "2026-01-01T00:00:00+00:00", "app_data": {}}


def _field(name: str) -> str:
    field = OUR_FIELDS.get(name, name)
    if field not in FIELDS:
        raise NotBoundError(f"field {name!r}")
    return field


def _ours(fields: Case) -> Case:
    """A case's fields as a portable snapshot holds them."""
    ours = {_field(name): value for name, value in fields.items()}
    if "messages" in ours:
        ours["messages"] = [message_to_dict(m) for m in convert_to_messages(ours["messages"])]
    if not are_labels(ours.get("labels", {})):
        raise NotBoundError("state that is no text")
    return ours


def _theirs(fields: Case) -> Case:
    """A thread's fields in the words that cases use."""
    names = {ours: theirs for theirs, ours in OUR_FIELDS.items()}
    values = {names.get(name, name): value for name, value in fields.items()}
    if "messages" in values:
        values["messages"] = [
            {"role": "user" if m.type == "human" else "assistant", "content": m.content}
            for m in values["messages"]
        ]
    return values


def read_snapshot(case: Case, folder: Path) -> Observation:
    """A portable snapshot from plain values, and what it then is as such."""
    del folder
    inputs = case["given"]["data"]
    data = inputs.get("data", {})
    snapshot = from_dict({**inputs, "data": _ours(data)} if isinstance(data, dict) else inputs)
    return Observation(value=to_dict(snapshot), state=_theirs(dict(snapshot.data)))


def partial_restore(case: Case, folder: Path) -> Observation:
    """Some fields of a snapshot put into a thread that has said and kept other things."""
    inputs = case["given"]
    params = case["params"]
    if unknown := set(params) - {"preset", "include", "exclude"}:
        raise NotBoundError(f"params {sorted(unknown)}")
    live = _ours(inputs["live"])
    world = World(folder=folder, params={}, given=inputs)
    with world.open() as conversation:
        conversation.add(convert_to_messages(inputs["live"].get("messages", [])))
        entry = registry_of(conversation).label(**live["labels"]) if "labels" in live else None
        fields = {**live, "messages": conversation.messages()}
        if entry is not None:
            fields["labels"] = dict(entry.labels)
    field_names = None
    if params:
        field_names = resolve_fields(
            preset=params.get("preset"),
            include=[_field(name) for name in params.get("include", [])],
            exclude=[_field(name) for name in params.get("exclude", [])],
        )
    snapshot = from_dict({**CREATED, "data": _ours(inputs["snapshot"])})
    return Observation(state=_theirs(load_snapshot(fields, snapshot, field_names)))


def choose_fields(case: Case, folder: Path) -> Observation:
    """The fields that a preset, inclusions and exclusions mean."""
    del folder
    options = {**case["given"], **case["params"]}
    if unknown := set(options) - {"preset", "include", "exclude"}:
        raise NotBoundError(f"params {sorted(unknown)}")
    field_names = resolve_fields(
        preset=options.get("preset"),
        include=[_field(name) for name in options.get("include") or []],
        exclude=[_field(name) for name in options.get("exclude") or []],
    )
    public_names = [name for name, ours in OUR_FIELDS.items() if ours in field_names]
    return Observation(value=public_names, state={"fields": [*public_names, *field_names]})


def _includes(observation: Observation, claim: Case) -> list[bool]:
    """Return for each field that a claim names, in its words or ours, whether it was chosen."""
    value = claim["value"]
    names = [value] if isinstance(value, str) else value
    for name in names:
        _field(name)
    return [name in (observation.state or {})["fields"] for name in names]


FIELD_CLAIMS: dict[str, Callable[[Observation, Case], bool]] = {
    "fields_exclude": lambda observation, claim: not any(_includes(observation, claim)),
    "fields_include": lambda observation, claim: all(_includes(observation, claim)),
}
"""Claims about the fields that a snapshot has."""


def _points_to_nothing(world: World) -> bool:
    """Whether the state names a branch or a checkpoint that is not there."""
    with world.open() as conversation:
        assert conversation.graph.store is not None
        branch_ids = {
            branch["id"]
            for branch in drive(list_stored_branches(conversation.graph.store, world.thread))
        }
    state = world.state()
    message_ids = {message.id for message in state["messages"]}
    refs = {ref["id"] for ref in state.get("branches", [])}
    return bool(refs - branch_ids) or any(
        c["message_id"] not in message_ids for c in state["checkpoints"]
    )


def _loads(world: World) -> bool:
    with world.open() as conversation:
        return bool(conversation.say("q3").text) and bool(registry_of(conversation).events())


SNAPSHOT_CLAIMS: dict[str, Callable[[World, Case], bool]] = {
    "latest_never_points_to_missing_checkpoint": lambda w, c: not _points_to_nothing(w),
    "latest_saved": lambda w, c: is_answer(w.messages()[-1]),
    "session_loads": lambda w, c: _loads(w),
    "snapshot_message_content": lambda w, c: text_of(w.messages()[c["index"]]) == c["value"],
}
"""What is claimed of a conversation that was copied, or gone on with after a crash."""

OPERATIONS: dict[str, Operation] = {
    "snapshot.take_then_mutate": take_then_mutate,
    "snapshot.load_then_mutate_snapshot": load_then_mutate,
    "snapshot.from_dict": read_snapshot,
    "snapshot.partial_restore": partial_restore,
    "snapshot.resolve_fields": choose_fields,
    "checkpoint.list": list_checkpoints,
    "checkpoint.trigger_raises": trigger_raises,
    "checkpoint.crash_between_writes": crash_between_writes,
}
