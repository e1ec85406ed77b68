"""The operations that cases name, each bound to the library."""

from pathlib import Path
from typing import Any

import pytest

from tests.cases import (
    budgets,
    config,
    event_logs,
    reminders,
    sessions,
    snapshots,
    stores,
    strategies,
    strategy_rules,
    tokens,
    transcripts,
)
from tests.cases.observation import Case, Observation, Operation
from tests.cases.world import REJECTED, NotBoundError, World
from unsay.context.strategy import is_context_overflow
from unsay.errors import UnknownCheckpointError
from unsay.judging.scores import read_reply


def judge_parse_score(case: Case, folder: Path) -> Observation:
    """The score in a judge's reply."""
    del folder
    return Observation(value=read_reply(case["given"]["reply"]).score)


def is_overflow(case: Case, folder: Path) -> Observation:
    """Whether errors mean that the window is full."""
    del folder
    inputs = case["given"]
    if "errors" in inputs:
        return Observation(
            value=[is_context_overflow(ValueError(text)) for text in inputs["errors"]]
        )
    return Observation(value=is_context_overflow(_provider_error(inputs["error"])))


def _provider_error(spec: Any) -> Exception:
    if isinstance(spec, str):
        return ValueError(spec)
    error = ValueError(spec.get("message", ""))
    for key in ("code", "status"):
        if key in spec:
            setattr(error, "status_code" if spec[key] == 400 else key, spec[key])
    return error


def turn_run(case: Case, folder: Path) -> Observation:
    """Run one turn."""
    params = case["params"]
    if "user" not in case["given"] and {"max_overflow_retries", "reducer", "proactive"} & {*params}:
        return strategy_rules.turn_with_retries(case)
    world = World(folder=folder, params=params, given=case["given"])
    if "user" not in case["given"]:
        raise NotBoundError(f"given {sorted(case['given'])}")
    if "reducer" in params or "proactive" in params:
        world.strategy = strategy_rules.reducer_of(params)
    if "store" in params:
        return stores.turn_that_cannot_be_saved(world)
    if case["params"].get("judge_when") == "before_answer":
        _reject_before_answering(world)
    world.say([case["given"]["user"]])
    return Observation(world=world)


def _reject_before_answering(world: World) -> None:
    """A good turn, then an exchange that an app put in: it is what the next turn judges."""
    scores = world.scores
    world.scores = [0.9]
    if world.params.get("checkpoint_exists", world.given.get("checkpoint_exists", True)):
        world.say(["q1"])
    with world.open() as conversation:
        conversation.add([("user", "What is the capital of Australia?"), ("ai", REJECTED)])
    world.scores = scores


def turn_run_n(case: Case, folder: Path) -> Observation:
    """Several turns."""
    world = World(folder=folder, params=case["params"], given=case["given"])
    world.say(case["given"]["users"])
    return Observation(world=world)


def two_threads(case: Case, folder: Path) -> Observation:
    """Two threads in one file, their turns alternating."""
    worlds = {
        name: World(
            folder=folder,
            params={**case["params"], "judge": case["params"]["judge"][name]},
            given=case["given"],
            thread=name,
        )
        for name in case["given"]
    }
    for turn in range(max(len(users) for users in case["given"].values())):
        for name, users in case["given"].items():
            worlds[name].say(users[turn : turn + 1])
    return Observation(worlds=worlds)


def _turns(case: Case, folder: Path) -> World:
    world = World(folder=folder, params=case["params"], given=case["given"])
    turns = case["given"]["turns"]
    users = turns if isinstance(turns, list) else [f"question {n}" for n in range(1, turns + 1)]
    world.say(users)
    return world


def restart_then_rollback(case: Case, folder: Path) -> Observation:
    """A rollback by a process that did not make the checkpoint."""
    world = _turns(case, folder)
    with world.open() as conversation:
        before = conversation.checkpoints()
        conversation.rollback()
        checkpoints = conversation.checkpoints()
        assert len(checkpoints) < len(before)
        world.expected_record = world.records[checkpoints[-1]["id"]]
    return Observation(world=world)


def rollback_manual(case: Case, folder: Path) -> Observation:
    """A person's rollback to a checkpoint by its id; an unknown id changes nothing."""
    world = _turns(case, folder)
    with world.open() as conversation:
        annotation = conversation.checkpoints()[0]
        transcript = world.transcript(conversation)
        with pytest.raises(UnknownCheckpointError):
            conversation.rollback("no-such-checkpoint")
        assert transcript == world.transcript(conversation)
        conversation.rollback(annotation["id"])
        world.expected_record = world.records[annotation["id"]]
    return Observation(world=world)


def rollback_undo(case: Case, folder: Path) -> Observation:
    """A rollback, and its undo."""
    world = _turns(case, folder)
    inputs = case["given"]
    with world.open() as conversation:
        conversation.rollback(conversation.checkpoints()[inputs["rollback_to"] - 1]["id"])
        if inputs.get("undo"):
            conversation.undo()
        if inputs.get("redo"):
            conversation.redo()
    return Observation(world=world)


def checkpoint_restore(case: Case, folder: Path) -> Observation:
    """A rollback to the checkpoint after a turn."""
    world = _turns(case, folder)
    after = case["given"].get("checkpoint_after_turn") or case["given"]["restore_to"]
    with world.open() as conversation:
        annotation = conversation.checkpoints()[after - 1]
        conversation.rollback(annotation["id"])
        world.expected_record = world.records[annotation["id"]]
    return Observation(world=world)


OPERATIONS: dict[str, Operation] = {
    **transcripts.OPERATIONS,
    **event_logs.OPERATIONS,
    **sessions.OPERATIONS,
    **reminders.OPERATIONS,
    **snapshots.OPERATIONS,
    **stores.OPERATIONS,
    **budgets.OPERATIONS,
    **config.OPERATIONS,
    **strategies.OPERATIONS,
    **strategy_rules.OPERATIONS,
    **tokens.OPERATIONS,
    "judge.parse_score": judge_parse_score,
    "errors.is_context_overflow": is_overflow,
    "turn.run": turn_run,
    "turn.run_n": turn_run_n,
    "two_threads": two_threads,
    "restart_then_rollback": restart_then_rollback,
    "rollback.manual": rollback_manual,
    "rollback.undo": rollback_undo,
    "checkpoint.restore": checkpoint_restore,
    "checkpoint.restore_supersedes": checkpoint_restore,
}
