"""Retrieved documents: those that do not bear on the question are set aside before it is answered."""

from dataclasses import asdict

from unsay.effects import Steps
from unsay.history.line import Label, take_back
from unsay.nodes.entry import unjudged_documents
from unsay.nodes.judge import judge_document
from unsay.nodes.logbook import log_verdict
from unsay.nodes.moves import keep_cut, line_of, note
from unsay.services import Scope
from unsay.state import State, Update, merge_messages
from unsay.transcript.marks import with_verdict
from unsay.types import Turn


def judge_documents(state: State, scope: Scope, turn: Turn, update: Update) -> Steps[Update]:
    """Judge the documents that came with the question; each that fails goes alone.

    Args:
        state: With what the update so far has made of it.
        scope: Of the run.
        turn: The turn that is being opened; failed documents leave its pending messages.
        update: So far.
    """
    waiting = unjudged_documents(state["messages"], turn["pending"])
    question = next((m for m in state["messages"] if m.id == turn["question_id"]), None)
    if not waiting or question is None or scope.settings.judging == "off":
        return Update()
    stamped, failed, reasons = [], [], []
    for document in waiting[-scope.settings.max_judged_documents :]:
        verdict = yield from judge_document(question, document, scope)
        scope.tell("verdict", of="document", message_id=document.id, **asdict(verdict))
        topic = state.get("current_topic", "")
        stamped.append(with_verdict(document, verdict, turn=turn["number"], topic=topic))
        log_verdict(scope, stamped[-1])
        if verdict.outcome == "failed":
            failed.append(document.id or "")
            reasons.append(verdict.reason)
    result = Update(messages=[*update.get("messages", []), *stamped])
    result["state_history"] = note(state, scope, "evaluate_quality", "documents_judged", None)
    if failed:
        judged: State = {**state, "messages": merge_messages(state["messages"], [stamped])}
        result.update((yield from _set_aside(judged, scope, turn, failed, " / ".join(reasons))))
        result["messages"] = [*update.get("messages", []), *stamped, *result["messages"]]
    return result


def _set_aside(
    state: State, scope: Scope, turn: Turn, failed: list[str], reason: str
) -> Steps[Update]:
    """Take single documents off the record; everything around them stays."""
    turn["pending"] = [name for name in turn["pending"] if name not in failed]
    turn["context_reason"] = reason
    cause = Label(kind="document", reason=reason, created_at=scope.now())
    change = take_back(line_of(state), turn["base"], label=cause, keep=turn["pending"])
    refs = yield from keep_cut(change, scope, state.get("cuts", []))
    scope.tell("set_aside", reason=reason, messages=failed)
    return Update(messages=change.writes, cuts=refs)
