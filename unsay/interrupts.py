"""Asking a person about rejected drafts or spent budgets, and reading any front end's answer.

Source: LangChain's human-in-the-loop request (`action_requests`,
`review_configs`) and the Agent Inbox answers (`accept`, `edit`, `response`,
`ignore`).
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from unsay.budget.limits import Check
from unsay.errors import InputError
from unsay.messages.content import text_of
from unsay.prompts.fields import Texts
from unsay.state import State

ACTION = "deliver_answer"
"""Name of the action that a person decides about."""


SPENDING = "exceed_budget"
"""Name of the action by which a call goes over a budget."""


Kind = Literal["approve", "edit", "reject", "respond"]


_KINDS: dict[str, Kind] = {
    "approve": "approve",
    "accept": "approve",
    "edit": "edit",
    "reject": "reject",
    "ignore": "reject",
    "respond": "respond",
    "response": "respond",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What a person decided about a turn whose drafts all failed."""

    kind: Kind
    """Deliver the best draft, deliver other words, deliver nothing, or try once more."""

    text: str = ""
    """The edited answer, or what the next attempt is told."""


def person_request(state: State, texts: Texts) -> dict[str, Any]:
    """The interrupt's payload: the best draft, its score, and what may be decided."""
    turn = state["turn"]
    best = max(turn["rejections"], key=lambda each: each["score"] or 0.0)
    reasons = " / ".join(each["reason"] for each in turn["rejections"])
    args = {"answer": text_of(best["messages"][-1]), "score": best["score"]}
    request = {
        "name": ACTION,
        "args": args,
        "arguments": args,
        "description": texts.ask_person.format(reasons=reasons),
    }
    allowed = ["approve", "edit", "reject", "respond"]
    review = {"action_name": ACTION, "allowed_decisions": allowed}
    return {"action_requests": [request], "review_configs": [review]}


def spending_request(over: Check, texts: Texts) -> dict[str, Any]:
    """The interrupt's payload for a call that a budget has no room for: which, and by how much."""
    limits = [asdict(gauge) for gauge in over.exceeded]
    args = {"limits": limits}
    request = {
        "name": SPENDING,
        "args": args,
        "arguments": args,
        "description": texts.ask_budget.format(limits="; ".join(map(str, over.exceeded))),
    }
    review = {"action_name": SPENDING, "allowed_decisions": ["approve", "reject"]}
    return {"action_requests": [request], "review_configs": [review]}


def read_permission(answer: Any) -> bool:
    """Whether a resumed value allows what was asked for.

    Args:
        answer: As `read_decision` takes it.

    Raises:
        InputError: It neither approves nor rejects; the interrupt stays open.
    """
    kind = _KINDS.get(str(_first(answer).get("type", "")))
    if kind not in ("approve", "reject"):
        raise InputError(
            f"{answer!r} is neither yes nor no: resume with "
            '{"decisions": [{"type": "approve" | "reject"}]}'
        )
    return kind == "approve"


def read_decision(answer: Any) -> Decision:
    """The decision in a resumed value.

    Args:
        answer: `{"decisions": [{"type": …}]}`, the Agent Inbox's list or single
            answer, or just the decision's name.

    Raises:
        InputError: It is none of these; the interrupt stays open.
    """
    first = _first(answer)
    kind = _KINDS.get(str(first.get("type", "")))
    if kind is None:
        raise InputError(
            f"{answer!r} is no decision: resume with "
            '{"decisions": [{"type": "approve" | "edit" | "reject" | "respond"}]}'
        )
    text = _text(first)
    if kind in ("edit", "respond") and not text.strip():
        raise InputError(f"A decision to {kind} needs words: {answer!r} has none")
    return Decision(kind=kind, text=text)


def _first(answer: Any) -> Mapping[str, Any]:
    if isinstance(answer, str):
        return {"type": answer}
    if isinstance(answer, Mapping) and "decisions" in answer:
        answer = answer["decisions"]
    if isinstance(answer, list) and answer:
        answer = answer[0]
    return answer if isinstance(answer, Mapping) else {}


def _text(decision: Mapping[str, Any]) -> str:
    """The words of a decision, wherever its front end puts them."""
    found: Any = decision
    for key in ("edited_action", "args", "arguments", "answer"):
        if isinstance(found, Mapping) and key in found:
            found = found[key]
    if isinstance(found, Mapping):
        found = found.get("args", found.get("message", ""))
        return _text(found) if isinstance(found, Mapping) else str(found or "")
    return str(found or "")
