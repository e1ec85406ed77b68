"""Checkpoints that a turn earned, and those that a person orders.

`checkpoint_on` says for which reasons a turn makes one:

- `task_start`: before the question that opened a topic; before a thread's first question only if
  `checkpoint_on` is set.
- `instruction`: after the answer to an instruction for all later turns.
- `score`: after an answer that scored `checkpoint_threshold` or more.
- `tool_step`: after each finished tool step, and after the answer of its turn.
- `risky`: before each step that calls a tool marked as `risky`.
- `error`: after a step in which a tool failed, and before the turn in which a tool or the model
  failed. A failed model call commits nothing, so the latter is made with the next answer.

A checkpoint at a step is within its turn (`in_turn`). A rollback goes there only if a person or host
names it; the question then waits, and the next attempt goes on from the finished steps. No call
is separated from its results: a step ends with its last result.
"""

import re
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage

from unsay.effects import Steps
from unsay.errors import UnknownCheckpointError
from unsay.history.checkpoints import (
    add_checkpoint,
    beside_named,
    check_name,
    id_with_name,
    make_checkpoint,
)
from unsay.history.runs import find_run
from unsay.judging.vocabulary import TEXT_LIMIT, normal
from unsay.messages.annotations import annotation_of, found_nothing, is_answer, spoken
from unsay.messages.boundaries import steps
from unsay.messages.content import text_of
from unsay.protocols import Verdict
from unsay.runtime import Scope
from unsay.state import State, offloaded_of
from unsay.tools import is_risky
from unsay.transcript.live import count_turns
from unsay.types import Checkpoint, CheckpointReason, Turn

_QUOTED = re.compile(
    r"```.*?(?:```|\Z)|`[^`\n]*`|^\s*>.*$|\"[^\"\n]*\"|“[^”]*”|(?<!\w)'[^'\n]*'(?!\w)|「[^」]*」|『[^』]*』",
    re.DOTALL | re.MULTILINE,
)
_SENTENCE = re.compile(r"[^.!?。\n]+(?:\.(?!\s|$)[^.!?。\n]*)*[.!?。]*")

_WORDING: dict[str, Any] = tomllib.loads(
    Path(__file__).with_name("wording.toml").read_text("utf-8")
)


def _fill(pattern: str) -> str:
    """Return a pattern of `wording.toml` with its parts, which may have parts themselves."""
    return re.sub(r"\{([a-z_]+)\}|\n", lambda m: _fill(_WORDING["parts"].get(m[1], "")), pattern)


_THIS_ONCE, _ONCE, _WANTS_BACK, _APOLOGY = (
    re.compile(_fill(_WORDING["patterns"][name]))
    for name in ("this_once", "once", "wants_back", "apology")
)
_ENGLISH, _JAPANESE = (
    [re.compile(_fill(each)) for each in _WORDING["patterns"][name]]
    for name in ("english", "japanese")
)


def wants_back(text: str) -> bool:
    """Return whether a message asks in words to undo a turn or to go back, in one short line.

    >>> wants_back("Go back to the second question, please.")
    True
    >>> wants_back("一つ前に戻して")
    True
    """
    return bool(_WANTS_BACK.fullmatch(normal(text).strip(" .!。")))


def is_lasting(text: str) -> bool:
    """Return whether a user's message gives a lasting instruction or decision, worth a checkpoint.

    >>> is_lasting("Please always answer in French."), is_lasting("今後は敬語を使ってください。")
    (True, True)
    >>> is_lasting("Why do people always say 'from now on'?")
    False
    """
    # Only the beginning is read, so instructions after a pasted file are missed.
    unquoted = _QUOTED.sub(" x ", normal(text[:TEXT_LIMIT]))
    return any(_holds(match.group().strip(" -*・•\t()")) for match in _SENTENCE.finditer(unquoted))


def _holds(sentence: str) -> bool:
    if "?" in sentence or re.search(r"(?:か|かな|かしら|の)[。 ]*$", sentence):
        return False
    english = not _THIS_ONCE.search(sentence) and any(p.search(sentence) for p in _ENGLISH)
    return english or (not _ONCE.search(sentence) and any(p.search(sentence) for p in _JAPANESE))


BEGINNING_CHARS = 200


def checkpoints_due(
    state: State, scope: Scope, draft: Sequence[AnyMessage], verdict: Verdict
) -> Steps[list[Checkpoint]]:
    """Return the checkpoints that the settings want for a turn with this draft, oldest first.

    They are before the turn, at its tool steps, and after its answer. A named task and the names
    that a retry keeps get one with any settings. The list can be empty. The node
    `create_checkpoint` stores them. Raises `DatabaseCorruptError` if the turn's stored run is
    damaged.
    """
    turn, reasons = state["turn"], scope.settings.checkpoint_on
    turns, topic = turn["number"], state.get("current_topic", "")

    def checkpoint(
        at: str | None, turn: int, score: float | None, reason: CheckpointReason
    ) -> Checkpoint:
        created_at = scope.now()
        return make_checkpoint(
            message_id=at, turn=turn, score=score, topic=topic, reason=reason, created_at=created_at
        )

    due: list[Checkpoint] = []
    if task := turn.get("task"):
        start = checkpoint(turn["base"], turns - 1, None, "task_start")
        due.append({**start, "name": task, "id": id_with_name(turn["base"], task)})
    before: CheckpointReason | None = None
    if "error" in reasons and (yield from _failed(state, scope, draft)):
        before = "error"
    elif (
        turn.get("topic_change") == "new" or _is_first_task(turn, scope)
    ) and "task_start" in reasons:
        before = "task_start"
    if before is not None and (turn["base"] or before == "task_start"):
        due.append(checkpoint(turn["base"], turns - 1, None, before))
    for at, reason in _places_within(turn, draft, scope):
        due.append({**checkpoint(at, turns - 1, None, reason), "in_turn": True})
    after = next(
        (each for each in _reasons_after(state, scope, draft, verdict) if each in reasons), None
    )
    pending_messages = [message for message in state["messages"] if message.id in turn["pending"]]
    if found_nothing([*pending_messages, *draft]) and not _knew_of_search(verdict):
        after = None
    if after is not None and verdict.outcome != "failed":
        due.append(checkpoint(draft[-1].id or "", turns, verdict.score, after))
    for name in turn.get("keep_names", []):
        turn_checkpoint = checkpoint(draft[-1].id or "", turns, verdict.score, "order")
        due.append(beside_named(due, {**turn_checkpoint, "name": name}))
    return due


def _is_first_task(turn: Turn, scope: Scope) -> bool:
    """Return whether a turn is a thread's first and gets a checkpoint `task_start` before it.

    Only if `checkpoint_on` is set, since by default every thread would begin with a checkpoint; and
    not if a host named the task, which has its own.
    """
    is_set = "checkpoint_on" in scope.settings.model_fields_set
    return turn["base"] is None and is_set and not turn.get("task")


def _knew_of_search(verdict: Verdict) -> bool:
    """Return whether a model judge passed the answer.

    The request to such a judge says if a search found nothing; the local checks do not know it.
    """
    return verdict.outcome == "passed" and verdict.source == "model"


def _places_within(
    turn: Turn, draft: Sequence[AnyMessage], scope: Scope
) -> Iterator[tuple[str, CheckpointReason]]:
    """Yield the places and reasons of checkpoints within a turn, oldest first.

    A place is the id of the last message before the checkpoint. All are at the draft's tool steps. A
    place between two steps can come twice: the caller stores one checkpoint there.
    """
    reasons, tools = scope.settings.checkpoint_on, scope.services.tools
    risky = {tool.name for tool in tools if is_risky(tool)}
    before = turn["pending"][-1]  # a step follows the one before it, the first one the question
    for step in steps(draft[:-1]):
        messages = [draft[index] for index in step]
        calls = [call for m in messages if isinstance(m, AIMessage) for call in m.tool_calls]
        results = [m for m in messages if isinstance(m, ToolMessage)]
        after: CheckpointReason = "tool_step"
        if any(result.status == "error" for result in results):
            after = "error"
        if "risky" in reasons and any(call["name"] in risky for call in calls):
            yield before, "risky"
        before = messages[-1].id or ""
        if results and after in reasons:
            yield before, after


def _failed(state: State, scope: Scope, draft: Sequence[AnyMessage]) -> Steps[bool]:
    """Return whether a tool failed in any draft of this turn, or this turn is not the first try.

    That is so if its run was stopped before, as by a model's error, or if the question before it at
    the same place got no answer for such a reason. Raises `DatabaseCorruptError` if the stored run
    is damaged.
    """
    turn = state["turn"]
    drafts = (draft, *(each["messages"] for each in turn["rejections"]))
    if any(isinstance(m, ToolMessage) and m.status == "error" for draft in drafts for m in draft):
        return True
    refs = [each for each in state.get("branches", []) if each["id"] not in turn["branches"]]
    if refs and (refs[-1]["kind"], refs[-1]["base"]) == ("interrupted", turn["base"]):
        return True
    if scope.address is None or not scope.run_id:
        return False
    run = yield from find_run(*scope.address, scope.run_id)
    return run is not None and run.attempt > 1


def _reasons_after(
    state: State, scope: Scope, draft: Sequence[AnyMessage], verdict: Verdict
) -> Iterator[CheckpointReason]:
    """Yield the reasons for a checkpoint after the answer, the most important first."""
    pending_ids = state["turn"]["pending"]
    questions = [m for m in state["messages"] if m.id in pending_ids and m.type == "human"]
    # Only a command goes back: the model can only apologize.
    is_apology = _APOLOGY.search(text_of(draft[-1])[:BEGINNING_CHARS])
    if is_apology and any(wants_back(text_of(question)) for question in questions):
        return
    if any(is_lasting(text_of(question)) for question in questions if question.name is None):
        yield "instruction"
    if len(draft) > 1:
        yield "tool_step"
    passed = verdict.outcome == "passed"
    if passed and (verdict.score or 0.0) >= scope.settings.checkpoint_threshold:
        yield "score"


def checkpoint_by_order(
    state: State, scope: Scope, name: str | None, *, reason: CheckpointReason = "order"
) -> Checkpoint:
    """Return a checkpoint at the newest answer, for the caller to store, or the one that is there.

    With the reason `task_start` and without an answer it is at the beginning. A `name` of `None` is
    unnamed.

    Raises `UnknownCheckpointError` if there is no answer, `InvalidNameError` or
    `CheckpointExistsError` for the name, `ConflictError` if too many checkpoints have names.
    """
    messages = spoken(state.get("messages", []))
    while messages and not is_answer(messages[-1]):
        messages.pop()
    if not messages and reason != "task_start":
        raise UnknownCheckpointError(code="no_answer_yet")
    checkpoint = make_checkpoint(
        message_id=messages[-1].id if messages else None,
        turn=count_turns(messages, offloaded_of(state)),
        score=annotation_of(messages[-1]).get("score") if messages else None,
        topic=state.get("current_topic", ""),
        reason=reason,
        created_at=scope.now(),
        name=None if name is None else check_name(name),
    )
    before = state.get("checkpoints", [])
    checkpoint = beside_named(before, checkpoint)
    kept = add_checkpoint(before, checkpoint)
    return next(each for each in kept if each["id"] == checkpoint["id"])
