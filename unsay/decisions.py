"""Interrupts that ask a person, and answers of any front end.

Source: LangChain's human-in-the-loop requests, and the answers of the Agent Inbox.
"""

import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeVar

from langchain_core.messages import AnyMessage
from langgraph.types import StateSnapshot, interrupt

from unsay.budget.limits import Check, gauges_text
from unsay.errors import ConflictError, InputError
from unsay.history.compensations import Compensation
from unsay.messages.annotations import answers_by_turn
from unsay.messages.content import text_of
from unsay.phrases import Verb
from unsay.prompts.catalogue import Texts
from unsay.types import Rejection

T = TypeVar("T")

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
# Plain words of agreement and refusal that a person types.
_WORDS: dict[str, Literal["approve", "reject"]] = {
    **dict.fromkeys(("approve", "yes", "y", "ok", "はい", "承認", "採用"), "approve"),
    **dict.fromkeys(("reject", "no", "n", "いいえ", "却下"), "reject"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A person's decision about a turn whose drafts all failed; `read_decision` makes it.

    `approve` delivers the best draft, `edit` delivers `text`, `reject` nothing, and `respond` makes
    another attempt with `text` as advice.
    """

    kind: Kind
    text: str = ""


def ask_person(request: dict[str, Any], read: Callable[[Any], T], texts: Texts) -> T:
    """Interrupt the run to ask a person; return what `read` makes of the answer.

    The first call ends the run. When it is resumed, the node runs again from its start. If `read`
    raises `InputError`, the person is asked again, with the error's text in the language of `texts`
    as the description.
    """
    # LangGraph replays the node from its start on resume and gives each `interrupt` its old answer,
    # so the loop reaches the open question again.
    while True:
        try:
            return read(interrupt(request))
        except InputError as error:
            fault = texts.message(error, "chat")
            actions = [{**each, "description": fault} for each in request["action_requests"]]
            request = {**request, "action_requests": actions}


def refuse_undecided(snapshot: StateSnapshot) -> None:
    """Raise `ConflictError` if the thread of a LangGraph state waits for a person's decision."""
    if snapshot.interrupts:
        raise ConflictError(
            code="decision_waits",
            approve=Verb(
                "approve", 'resume("approve")', chat="approve", command="say --decide approve"
            ),
            reject=Verb("reject", 'resume("reject")', chat="reject", command="say --decide reject"),
        )


def person_request(
    rejections: Sequence[Rejection], best: Rejection, texts: Texts
) -> dict[str, Any]:
    """Return the request that asks a person about the rejected drafts of a turn.

    It shows the draft `best` and its score, the reasons of all, and the possible decisions.
    """
    reasons = " / ".join(dict.fromkeys(draft["reason"] for draft in rejections))
    args = {"answer": text_of(best["messages"][-1]), "score": best["score"]}
    action = _action("deliver_answer", args, texts.say("ask_person", reasons=reasons))
    return _request([action], ["approve", "edit", "reject", "respond"])


def rollback_request(
    removed: Sequence[AnyMessage], reason: str, best: Rejection | None, texts: Texts
) -> dict[str, Any]:
    """Return the request that asks a person whether an automatic rollback may remove `removed`.

    It shows the `reason` and the draft `best`, which a refusal delivers; `None` without a draft.
    """
    turns = len(answers_by_turn(removed))
    args = {"turns": turns, "messages": [message.id for message in removed], "reason": reason}
    name = "ask_rollback"
    if best is not None:
        args |= {"answer": text_of(best["messages"][-1]), "score": best["score"]}
        name = "ask_rollback_draft" if removed else "ask_another_draft"
    description = texts.say(name, turns=turns, messages=len(removed), reason=reason)
    return _request([_action("roll_back", args, description)], ["approve", "reject"])


def spending_request(over: Check, texts: Texts) -> dict[str, Any]:
    """Return the request that asks a person whether a call may exceed a budget."""
    args = {"limits": [asdict(gauge) for gauge in over.exceeded]}
    limits = texts.message(gauges_text(over.exceeded), "chat")
    raised = ", ".join(f"{each.amount(each.raised)} ({each.setting})" for each in over.exceeded)
    description = texts.say("ask_budget", raised=raised, limits=limits)
    return _request([_action("exceed_budget", args, description)], ["approve", "reject"])


def undo_request(calls: Sequence[Compensation], texts: Texts) -> dict[str, Any]:
    """Return the request that asks a person about each tool call whether to undo it."""
    actions = []
    for call in calls:
        args = {"tool": call.tool, "args": dict(call.args), "result": call.result}
        description = texts.say("ask_undo", call=call.description)
        actions.append(_action(f"undo_{call.tool}", args, description))
    return _request(actions, ["approve", "reject"])


def _action(name: str, args: dict[str, Any], description: str) -> dict[str, Any]:
    # Front ends read the arguments under one of two names.
    return {"name": name, "args": args, "arguments": args, "description": description}


def _request(actions: list[dict[str, Any]], allowed: list[str]) -> dict[str, Any]:
    reviews = [{"action_name": each["name"], "allowed_decisions": allowed} for each in actions]
    return {"action_requests": actions, "review_configs": reviews}


def read_permission(answer: Any) -> bool:
    """Return whether an answer means yes, in the forms of `read_decision` or a word of `yes_or_no`.

    Raises `InputError` for an answer that is neither yes nor no.
    """
    kind = _KINDS.get(str(_first(answer).get("type", "")))
    if kind not in ("approve", "reject"):
        raise InputError(code="not_yes_or_no", answer=_text(_first(answer)) or answer)
    return kind == "approve"


def read_decision(answer: Any) -> Decision:
    """Read a decision: `{"decisions": [{"type": …}]}`, a list, one answer, its name, yes or no.

    Raises `InputError` for any other form, and for `edit` or `respond` without a text.
    """
    first = _first(answer)
    kind = _KINDS.get(str(first.get("type", "")))
    if kind is None:
        raise InputError(
            code="not_a_decision",
            answer=answer,
            form='{"decisions": [{"type": "approve" | "edit" | "reject" | "respond"}]}',
        )
    text = _text(first)
    if kind in ("edit", "respond") and not text.strip():
        name = "answer" if kind == "edit" else "message"
        form = f'{{"type": "{kind}", "{name}": "…"}}'
        raise InputError(code="decision_empty", kind=kind, form=form, answer=answer)
    return Decision(kind=kind, text=text)


def read_approvals(answer: Any, count: int) -> list[bool]:
    """Read a yes or no for each of `count` actions, in their order.

    `answer` is a list, `{"decisions": [...]}`, or one answer that counts for all. Raises
    `InputError` for another number of answers, or if one is neither yes nor no.
    """
    raw_decisions = (
        answer["decisions"] if isinstance(answer, Mapping) and "decisions" in answer else answer
    )
    decisions = raw_decisions if isinstance(raw_decisions, list) else [raw_decisions] * count
    if len(decisions) != count:
        raise InputError(code="decision_count", answer=answer, given=len(decisions), count=count)
    return [read_permission(each) for each in decisions]


def yes_or_no(text: str) -> Literal["approve", "reject"] | None:
    """Return the decision that a word such as `yes`, `n` or `はい` means; `None` for other texts."""
    word = unicodedata.normalize("NFKC", text).strip().rstrip(".!。").lower()
    return _WORDS.get(word)


def _first(answer: Any) -> Mapping[str, Any]:
    """Return an answer's first decision as a mapping; a name becomes its `type`.

    Empty if the answer has another form.
    """
    if isinstance(answer, str):
        return {"type": yes_or_no(answer) or answer}
    if isinstance(answer, Mapping) and "decisions" in answer:
        answer = answer["decisions"]
    if isinstance(answer, list) and answer:
        answer = answer[0]
    return answer if isinstance(answer, Mapping) else {}


def _text(decision: Mapping[str, Any]) -> str:
    """Return an answer's text, which front ends put under different keys; empty if there is none."""
    value: Any = decision
    for key in ("edited_action", "args", "arguments", "answer"):
        if isinstance(value, Mapping) and key in value:
            value = value[key]
    if isinstance(value, Mapping):
        value = value.get("args", value.get("message", ""))
    return _text(value) if isinstance(value, Mapping) else str(value or "")
