"""Which points of the record a finished turn marks, as `checkpoint_on` says.

Every point is the end of a turn, so that a rollback to it parts no call from its result:

- `task_start`: where the talk stood before the question that opened a topic.
- `error`: where it stood before the turn in which a tool or the model failed. A failed step commits
  nothing, so the mark is made with the next answer: of the same turn, when it went on, or of the one
  that took its place.
- `instruction`: behind the answer to words that hold from then on. Who goes back there has just
  given the instruction and has it answered.
- `tool_step`: behind the answer of a turn that called tools. Behind the last result nobody could
  go on, because the answer to it is owed; going back there keeps the calls and what was said of them.
- `score`: behind an answer that scored `checkpoint_threshold` or more.
"""

from collections.abc import Iterator, Sequence

from langchain_core.messages import AnyMessage, ToolMessage

from unsay.effects import Steps
from unsay.errors import UnknownCheckpointError
from unsay.history.checkpoints import add_checkpoint, check_name, make_checkpoint
from unsay.history.runs import find_run
from unsay.judging.instructions import is_lasting
from unsay.messages.annotations import is_answer, mark_of, spoken
from unsay.messages.content import text_of
from unsay.operations.rollback import turns_left
from unsay.runtime import Scope
from unsay.state import State, offloaded_of
from unsay.types import Checkpoint, CheckpointReason, Verdict


def checkpoints_due(
    state: State, scope: Scope, draft: Sequence[AnyMessage], verdict: Verdict
) -> Steps[list[Checkpoint]]:
    """The checkpoints that a turn has earned, oldest first, at most one at a place.

    Args:
        state: As the answer is delivered.
        scope: Of the run.
        draft: The turn's tool steps and its answer.
        verdict: On the answer; behind one that failed nothing is marked.
    """
    turn, wanted = state["turn"], scope.settings.checkpoint_on
    due = []
    failed = "error" in wanted and (_failed(state, draft) or (yield from _set_out_again(scope)))
    before: CheckpointReason | None = "error" if failed else None
    if before is None and turn["new_topic"] and "task_start" in wanted:
        before = "task_start"
    if before is not None and turn["base"]:
        due.append(_checkpoint(state, scope, turn["base"], turn["number"] - 1, None, before))
    behind = next((each for each in _behind(state, scope, draft, verdict) if each in wanted), None)
    if behind is not None and verdict.outcome != "failed":
        name = draft[-1].id or ""
        due.append(_checkpoint(state, scope, name, turn["number"], verdict.score, behind))
    return due


def _failed(state: State, draft: Sequence[AnyMessage]) -> bool:
    """Whether one of the turn's tools failed, or the turn before it never came to its end."""
    rejected = (each["messages"] for each in state["turn"]["rejections"])
    return any(map(_tool_failed, (draft, *rejected))) or _stopped_here(state)


def _behind(
    state: State, scope: Scope, draft: Sequence[AnyMessage], verdict: Verdict
) -> Iterator[CheckpointReason]:
    """Why the place behind the answer is worth a mark, the most telling reason first."""
    asked = state["turn"]["pending"]
    said = [m for m in state["messages"] if m.id in asked and m.type == "human"]
    if any(is_lasting(text_of(message)) for message in said if message.name is None):
        yield "instruction"
    if len(draft) > 1:
        yield "tool_step"
    passed = verdict.outcome == "passed"
    if passed and (verdict.score or 0.0) >= scope.settings.checkpoint_threshold:
        yield "score"


def _tool_failed(messages: Sequence[AnyMessage]) -> bool:
    return any(isinstance(each, ToolMessage) and each.status == "error" for each in messages)


def _stopped_here(state: State) -> bool:
    """Whether the turn before was set aside at the place where this one began."""
    turn = state["turn"]
    refs = [each for each in state.get("cuts", []) if each["id"] not in turn["cuts"]]
    return bool(refs) and (refs[-1]["kind"], refs[-1]["base"]) == ("interrupted", turn["base"])


def _set_out_again(scope: Scope) -> Steps[bool]:
    """Whether the run had stopped with an error and was resumed."""
    if scope.store is None or scope.thread_id is None or not scope.run_id:
        return False
    run = yield from find_run(scope.store, scope.thread_id, scope.run_id)
    return run is not None and run.attempt > 1


def _checkpoint(
    state: State,
    scope: Scope,
    message_id: str,
    turn: int,
    score: float | None,
    reason: CheckpointReason,
) -> Checkpoint:
    return make_checkpoint(
        message_id=message_id,
        turn=turn,
        score=score,
        topic=state.get("current_topic", ""),
        reason=reason,
        created_at=scope.now(),
    )


def checkpoint_by_order(
    state: State, scope: Scope, name: str | None, *, pending: Sequence[str] = ()
) -> Checkpoint:
    """Make a checkpoint at the newest answer by a person's order.

    Raises:
        InvalidNameError: The name cannot be used.
        CheckpointExistsError: Another checkpoint has it.
        UnknownCheckpointError: Nothing has been answered.
    """
    said = [m for m in spoken(state.get("messages", [])) if m.id not in pending]
    while said and not is_answer(said[-1]):
        said.pop()
    if not said:
        raise UnknownCheckpointError("Nothing has been answered yet, so there is no point to mark")
    mark = make_checkpoint(
        message_id=said[-1].id or "",
        turn=turns_left(said, offloaded_of(state)),
        score=mark_of(said[-1]).get("score"),
        topic=state.get("current_topic", ""),
        reason="order",
        created_at=scope.now(),
        name=None if name is None else check_name(name),
    )
    add_checkpoint(state.get("checkpoints", []), mark, limit=scope.settings.checkpoint_limit)
    return mark
