"""Retry: the last question is asked again, and its old answer is kept."""

import hashlib
from collections.abc import Sequence

from langchain_core.messages import AnyMessage

from unsay.effects import Steps
from unsay.errors import NothingToUndoError
from unsay.history.branch import Change, Label, Line, replace_tail
from unsay.messages.annotations import is_notice, is_question, mark_of
from unsay.messages.content import text_of
from unsay.operations.commands import parse_command
from unsay.operations.pending import check_message
from unsay.operations.rollback import fetch_cuts, forward, keep_cut, line_of, settle, turns_left
from unsay.operations.targets import safe_base
from unsay.runtime import Scope
from unsay.state import Move, State, Update, offloaded_of
from unsay.types import Cut, Segment


def retried(state: State, pending: Sequence[str], limit: int) -> str | None:
    """Return the branch with a question that was just removed; `None` to retry the last turn.

    `pending` are the command's own messages; `limit` is in characters.

    Raises:
        NothingToUndoError: Nothing was asked.
        InputError: What was asked cannot be answered.
    """
    refs, turn = state.get("cuts", []), state.get("turn")
    stopped = turn is not None and not turn["done"]
    if stopped and refs and refs[-1]["kind"] == "interrupted":
        return refs[-1]["id"]
    asked = _last_asked(line_of(state), pending)
    question = next((m for m in reversed(asked) if is_question(m)), None)
    if question is None:
        raise NothingToUndoError("There is no question here that could be asked again")
    check_message(question, limit)
    return None


def ask_again(state: State, scope: Scope, move: Move) -> Steps[Update]:
    """Remove the last turn and add its question again, with the command removed.

    The removed turn is one branch, which an undo of the new answer restores. `move["to"]` is what
    `retried` returned.

    Raises:
        ConflictError: The removed question is no longer kept.
    """
    pending, now = state["turn"]["pending"], scope.now()
    line, refs = line_of(state), list(state.get("cuts", []))
    before = line.id_at(line.index_of(pending[0]) - 1)
    order = Label(kind="order", reason=move["reason"], created_at=now)
    first = replace_tail(line, before, label=order)
    refs = yield from keep_cut(first, scope, refs)
    if move["to"] is not None:
        (cut,) = yield from fetch_cuts([move["to"]], scope, refs)
        update = _asking(state, (first, settle(state, first, refs)), cut, cut["messages"], [])
        names = [message.id or "" for message in cut["messages"] if is_question(message)]
        yield from forward(dict.fromkeys(names, update["turn"]["question_id"] or ""), scope)
        return update
    asked = _last_asked(first.line, ())
    base = safe_base(first.line, first.line.id_at(first.line.index_of(asked[0].id) - 1))
    cause = Label(kind="retry", reason=move["reason"], created_at=now)
    change = replace_tail(first.line, base, label=cause)
    refs = yield from keep_cut(change, scope, refs)
    update = settle(state, change, refs)
    update["messages"] = [*first.writes, *change.writes]
    return _asking(state, (change, update), change.cut, asked, [change.cut["id"]])


def _asking(
    state: State,
    done: tuple[Change, Update],
    cut: Cut,
    asked: Sequence[AnyMessage],
    cuts: list[str],
) -> Update:
    change, update = done
    line, turn = change.line, state["turn"]
    again = []
    for message in asked:
        # The id follows from the message's and the command's, so that a node run twice makes one.
        seed = f"{message.id}\x00{turn['question_id'] or ''}".encode("utf-8", "surrogatepass")
        name = f"again-{hashlib.sha256(seed).hexdigest()[:20]}"
        again.append(message.model_copy(update={"id": name}))
    ids = [message.id or "" for message in again]
    starts = {each["start"]: each["topic_id"] for each in cut["segments"]}
    topic = next((starts[m.id] for m in asked if m.id in starts), None)
    if topic is not None:
        update["segments"] = [*update["segments"], Segment(topic_id=topic, start=ids[0])]
        labels = {each["id"]: each["label"] for each in line.topics}
        update["current_topic"] = labels.get(topic, "")
    update["messages"] = [*update["messages"], *again]
    update["turn"] = {
        **turn,
        "number": turns_left(line.messages, offloaded_of(state)) + 1,
        "question_id": next(m.id for m in reversed(again) if is_question(m)),
        "pending": ids,
        "base": line.id_at(len(line.messages) - 1),
        "done": False,
        "cuts": cuts,
    }
    return update


def _last_asked(line: Line, pending: Sequence[str]) -> list[AnyMessage]:
    """The question that was answered last, by the model or by a refusal, with its documents.

    Commands are no questions. Without a question the list is empty.
    """
    asked: list[AnyMessage] = []
    skipped: set[str] = set()
    for message in reversed(line.messages):
        if is_notice(message):
            answers = mark_of(message).get("answers", ())
            named = [m for m in line.messages if m.id in answers]
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
