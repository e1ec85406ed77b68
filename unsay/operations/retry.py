"""Retry: the last question is asked again, and its old answer is kept."""

import hashlib
from collections.abc import Sequence

from langchain_core.messages import AnyMessage

from unsay.effects import Steps
from unsay.errors import NothingToUndoError
from unsay.history.branch import Label, LiveBranch, replace_tail
from unsay.messages.annotations import annotation_of, is_notice, is_question
from unsay.messages.content import text_of
from unsay.operations.commands import parse_command
from unsay.operations.pending import check_message
from unsay.operations.rollback import (
    count_turns,
    live_branch,
    load_branches,
    save_branch,
    settle,
    store_turn_places,
)
from unsay.operations.targets import safe_base
from unsay.runtime import Scope
from unsay.state import RollbackRequest, State, Update, offloaded_of
from unsay.types import Segment, Turn


def retried(state: State, pending: Sequence[str], limit: int) -> str | None:
    """Return the branch of an interrupted turn, which a retry asks again; `None` for the last turn.

    Raises `NothingToUndoError` if there is no question, `InputError` if it is empty or over
    `limit`.
    """
    refs, turn = state.get("branches", []), state.get("turn")
    stopped = turn is not None and not turn["done"]
    if stopped and refs and refs[-1]["kind"] == "interrupted":
        return refs[-1]["id"]
    asked = _last_asked(live_branch(state), pending)
    question = next((m for m in reversed(asked) if is_question(m)), None)
    if question is None:
        raise NothingToUndoError("There is no question to ask again")
    check_message(question, limit)
    return None


def ask_again(state: State, scope: Scope, request: RollbackRequest) -> Steps[Update]:
    """Remove the command and the last turn, and add the turn's question again, with new ids."""
    turn, live = state["turn"], live_branch(state)
    before = live.id_at(live.index_of(turn["pending"][0]) - 1)
    order = Label(kind="order", reason=request["reason"], created_at=scope.now())
    change = replace_tail(live, before, label=order)
    refs = yield from save_branch(change, scope, state.get("branches", []))
    writes, branches = change.writes, []
    if request["to"] is not None:
        (branch,) = yield from load_branches([request["to"]], scope, refs)
        asked = branch["messages"]
    else:
        asked = _last_asked(change.live, ())
        base = safe_base(change.live, change.live.id_at(change.live.index_of(asked[0].id) - 1))
        label = Label(kind="retry", reason=request["reason"], created_at=order.created_at)
        change = replace_tail(change.live, base, label=label)
        refs = yield from save_branch(change, scope, refs)
        branch, branches, writes = change.branch, [change.branch["id"]], [*writes, *change.writes]
    update, live = settle(state, change, refs), change.live
    again = [_asked_again(message, turn) for message in asked]
    starts = {each["start"]: each["topic_id"] for each in branch["segments"]}
    topic = next((starts[m.id] for m in asked if m.id in starts), None)
    if topic is not None:
        segment = Segment(topic_id=topic, start=again[0].id or "")
        update["segments"] = [*update["segments"], segment]
        labels = {each["id"]: each["label"] for each in live.topics}
        update["current_topic"] = labels.get(topic, "")
    question_id = next(m.id for m in reversed(again) if is_question(m))
    update["messages"] = [*writes, *again]
    update["turn"] = {
        **turn,
        "number": count_turns(live.messages, offloaded_of(state)) + 1,
        "question_id": question_id,
        "pending": [message.id or "" for message in again],
        "base": live.id_at(len(live.messages) - 1),
        "done": False,
        "branches": branches,
    }
    if request["to"] is not None:
        names = [message.id or "" for message in asked if is_question(message)]
        yield from store_turn_places(dict.fromkeys(names, question_id or ""), scope)
    return update


def _asked_again(message: AnyMessage, turn: Turn) -> AnyMessage:
    # A hash and not a random id, so that a node that runs again after a crash adds no second question.
    seed = f"{message.id}\x00{turn['question_id'] or ''}".encode("utf-8", "surrogatepass")
    name = f"again-{hashlib.sha256(seed).hexdigest()[:20]}"
    return message.model_copy(update={"id": name})


def _last_asked(live: LiveBranch, pending: Sequence[str]) -> list[AnyMessage]:
    """Return the question that was answered last, with its documents; commands do not count."""
    asked: list[AnyMessage] = []
    skipped: set[str] = set()
    for message in reversed(live.messages):
        if is_notice(message):
            answers = annotation_of(message).get("answers", ())
            named = [m for m in live.messages if m.id in answers]
            if any(parse_command(text_of(m)) is not None for m in named):
                skipped.update(answers)
            elif named and not asked:
                return [m for m in named if m.type == "human"]
        elif message.id in skipped or message.id in pending:
            continue
        if message.type == "human":
            asked.append(message)
        elif asked:
            break
    return asked[::-1]
