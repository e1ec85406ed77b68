"""Automatic rollbacks: what they remove, how a person confirms it, and how a turn gets it back."""

from collections.abc import Collection, Sequence
from typing import cast

from langchain_core.messages import AnyMessage

from unsay.decisions import ask_person, read_permission, rollback_request
from unsay.effects import Steps
from unsay.events.stream_events import RemovedPart
from unsay.history.branch import (
    Change,
    Label,
    LiveBranch,
    as_one,
    put_in,
    replace_tail,
    take_out,
    whole_steps,
)
from unsay.messages.annotations import answers_by_turn, exchange_start, is_answer, spoken
from unsay.messages.boundaries import steps
from unsay.models.agents import agent_state, with_agent_state
from unsay.runtime import Scope
from unsay.state import RollbackRequest, State, Update, offloaded_of, with_update
from unsay.transcript.live import (
    count_turns,
    live_branch,
    load_branches,
    save_branch,
    settle,
    target_of_drafts,
)
from unsay.types import BranchKind, BranchRef, Offloaded, Operation, OperationKind, Rejection, Turn


class Removal(RemovedPart):
    """One run of adjacent messages that an automatic rollback removed; `remove_parts` makes it."""

    base: str | None  # the message that they followed; `None`: the beginning


def without_retries(state: State, scope: Scope, label: Label) -> Steps[list[Change]]:
    """Return the changes that put back what the rollbacks of the turn's rejected drafts removed.

    It is for a turn that ends without a passed attempt. The caller logs and commits the changes;
    `label` describes each. Empty without branches. Raises `ConflictError` if a branch is no longer
    kept, or the message that it followed is gone; `DatabaseCorruptError` if a branch is damaged.
    """
    branch_ids = state["turn"]["draft_branches"]
    branches = yield from load_branches(branch_ids, scope, state.get("branches", []))
    return put_in(live_branch(state), branches, label)


def remove_parts(
    state: State, scope: Scope, message_ids: Collection[str | None], label: Label
) -> tuple[Update, list[Removal]]:
    """Keep messages as branches; return the update that removes them, and the `Removal`s.

    There is one branch and one `Removal` for each group of adjacent messages, the newest first. Ids
    that the transcript does not have are ignored. The other messages of the same steps, such as a
    tool call's results, are removed too; all others stay.
    """
    live, refs = live_branch(state), list(state.get("branches", []))
    changes, removed = take_out(live, whole_steps(live.messages, message_ids), label), []
    for change in changes:
        refs = save_branch(change, scope, refs)
        messages = spoken(change.branch["messages"])
        removal = Removal(
            turns=len(answers_by_turn(messages)),
            messages=len(messages),
            branch=change.branch["id"],
            reason=label.reason,
            base=change.branch["base"],
        )
        removed.append(removal)
    return settle(state, as_one(live, changes, label), refs), removed


def resumed_steps(draft: Sequence[AnyMessage], blamed: Collection[str]) -> list[AnyMessage]:
    """Return the finished tool steps of a rejected draft, with which the next attempt begins.

    `blamed` are ids of messages: the first step that has one of them is left out, and so are all
    later steps. The draft's answer is never included; empty if no tool step is left.
    """
    kept_messages: list[AnyMessage] = []
    for step in steps(draft):
        messages = [draft[index] for index in step]
        if any(message.id in blamed for message in messages):
            break
        kept_messages += messages
    while kept_messages and kept_messages[-1].type != "tool":
        kept_messages.pop()
    # Without the last message, the answer, every step has its results.
    return kept_messages


def base_of(live: LiveBranch, pending: Sequence[str]) -> str | None:
    """Return the id of the message that a turn follows: the last one before its `pending` ones.

    It can be an offloaded message; `None` is the start. If the transcript has no pending message,
    it is the last message.
    """
    places = live.positions()
    first = min((places[name] for name in pending if name in places), default=len(live.messages))
    return live.position_before(first)


def turn_number(live: LiveBranch, pending: Sequence[str], offloaded: Offloaded | None) -> int:
    """Return the number, counted from 1, of the turn that answers the pending messages."""
    return count_turns([m for m in live.messages if m.id not in pending], offloaded) + 1


def without_base(removal: Removal) -> RemovedPart:
    """Return a removal as a reply shows it: without the message that it followed."""
    part = {key: value for key, value in removal.items() if key != "base"}
    return cast("RemovedPart", part)


def turn_step(state: State, branches: Sequence[str], ids: Sequence[str]) -> Operation:
    """Return the step with which an undo takes back a turn and its rollbacks.

    `branches` are the ids of those that the rollbacks made, maybe none. `ids` are the messages that
    the turn added; if they are empty, the step is the rollbacks alone.
    """
    turn, live = state["turn"], live_branch(state)
    kind: OperationKind = "turn" if ids else "rollback"
    removed = [each for each in turn.get("removed", []) if each["branch"] in branches]
    earlier, start = turn["pending"], turn["base"]
    # Where a rollback left a question and its tool steps waiting, they are not the turn's own, nor is
    # what a host added before the question.
    waiting_base = None
    for step in state.get("operations", []):
        if step["kind"] == "rollback" and step["base"] in earlier:
            waiting_base = step["base"]
        added = step.get("ids", []) if ids and step["kind"] in ("rollback", "add") else []
        if turn["question_id"] not in added:
            waiting_base = next((name for name in reversed(earlier) if name in added), waiting_base)
    if waiting_base is not None:
        start, earlier = waiting_base, earlier[: earlier.index(waiting_base) + 1]
        ids = [name for name in ids if name not in earlier]
    if not removed:
        return Operation(kind=kind, base=start, branches=list(branches))
    # An undo needs all messages from the first place from which one was removed.
    places = {**live.positions(), live.before: -1}
    bases = [each["base"] for each in removed if each["base"] in places]
    base = min([start, *bases], key=lambda name: places.get(name, -1))
    return Operation(kind=kind, base=base, branches=list(branches), ids=list(ids))


def automatic_rollback(
    state: State,
    scope: Scope,
    kind: BranchKind,
    request: RollbackRequest,
    message_ids: Collection[str],
) -> tuple[Update, list[Removal]]:
    """Make an automatic rollback: store messages as branches; return the update that removes them.

    It also returns the `Removal`s, as `remove_parts` does. The branches are of the given `kind` and
    have the reason of the `request`. The turn in the update has its new number and base, and one
    rollback more.
    """
    turn = state["turn"]
    label = Label(kind=kind, reason=request["reason"], created_at=scope.now())
    update, removed = remove_parts(state, scope, message_ids, label)
    live = live_branch(with_update(state, update))
    update["turn"] = {
        **turn,
        "number": turn_number(live, turn["pending"], offloaded_of(state)),
        "base": base_of(live, turn["pending"]),
        "rollbacks": turn["rollbacks"] + 1,
        "removed": [*turn.get("removed", []), *removed],
    }
    return update, removed


def ids_to_remove(state: State, scope: Scope, request: RollbackRequest) -> Collection[str]:
    """Return the ids of the messages that an automatic rollback removes; empty if it removes none.

    With `rollback_to="turn"` they are whole exchanges, with documents, question and tool steps:
    those of added answers that failed or, for a failed draft, of earlier answers that the judge
    blames.

    With `rollback_to="checkpoint"` they are all messages after a checkpoint, whatever is blamed:
    the last checkpoint before the first added exchange that failed or, for a draft, before the
    turn. From the second failed draft on it is an older one. Without a checkpoint they are all
    messages from that exchange on, and none for a draft. The draft itself and pending messages are
    never among them.
    """
    turn, live = state["turn"], live_branch(state)
    is_draft, to_checkpoint = request["kind"] == "draft", scope.settings.rollback_to == "checkpoint"
    if not to_checkpoint:
        return blamed_ids(state, request) if is_draft else request.get("ids", [])
    target = request["to"]
    if is_draft:
        target = target_of_drafts(live, turn["base"], len(turn["rejections"]))
    after = live.messages[live.index_of(target) + 1 :]
    return [message.id or "" for message in after if message.id not in turn["pending"]]


def confirmed(
    state: State,
    scope: Scope,
    request: RollbackRequest,
    removed_ids: Collection[str],
    best: Rejection | None = None,
) -> bool:
    """Return whether an automatic rollback may be made; `True` unless `confirm_rollback` is set.

    With that setting an interrupt asks a person: the run stops here, and the node runs again with
    the answer, so call this before any effect. The person sees `removed_ids` and `best`, the draft
    that the caller delivers after a no; `None` if there is no draft.
    """
    if not scope.settings.confirm_rollback:
        return True
    # The interrupt comes before any effect: LangGraph runs the node again with the answer.
    texts = scope.texts(state["messages"])
    removed = [m for m in spoken(state["messages"]) if m.id in removed_ids]
    question = rollback_request(removed, request["reason"], best, texts)
    agreed = ask_person(question, read_permission, texts)
    scope.emit("decision", decision="approve" if agreed else "reject")
    return agreed


def blamed_ids(state: State, request: RollbackRequest) -> list[str]:
    """Return the ids of all messages in the exchanges whose answers the judge blames; may be empty.

    An exchange is the documents, the question, the tool steps and the answer. Only the transcript
    counts, not the draft.
    """
    messages, ids = state["messages"], request.get("ids", [])
    blamed = [index for index, m in enumerate(messages) if m.id in ids and is_answer(m)]
    ranges = (range(exchange_start(messages, index), index + 1) for index in blamed)
    return [messages[index].id or "" for each in ranges for index in each]


def keep_draft(
    state: State,
    scope: Scope,
    update: Update,
    request: RollbackRequest,
    removed: Sequence[Removal],
    draft: Sequence[AnyMessage],
) -> Update:
    """Keep a rejected draft as a branch; return `update` with it and the next attempt's steps.

    The branch has only the draft. What the rollback removed from the transcript is in the branches
    of `removed`.

    Args:
        state: The state before the rollback.
        scope: The scope of the run.
        update: The update of the rollback; it includes the turn.
        request: Why the draft was rejected, and which messages the judge blames.
        removed: What the rollback removed from the transcript.
        draft: The draft's messages, tool steps first.
    """
    turn, reason = state["turn"], request["reason"]
    resumed, after = resumed_steps(draft, request.get("ids", ())), with_update(state, update)
    own_state = agent_state(draft[-1])
    if own_state and len(resumed) < len(draft) - 1:
        resumed = []  # an agent's state is known after all of its steps only
    refs, branch_id = branch_of_draft(after, scope, draft[len(resumed) :], reason)
    branch_ids = [*(each["branch"] for each in removed), branch_id]
    attempt: Turn = {
        **update["turn"],
        "draft_branches": [*turn["draft_branches"], *branch_ids],
        "branches": [*turn["branches"], *branch_ids],
        "steps": with_agent_state(resumed, own_state),
    }
    return {**update, "branches": refs, "turn": attempt}


def branch_of_draft(
    state: State, scope: Scope, draft: Sequence[AnyMessage], reason: str
) -> tuple[list[BranchRef], str]:
    """Keep messages of a rejected draft as a branch; return all references to branches, and its id.

    The transcript does not change. `reason` says why the draft was rejected.
    """
    label = Label(kind="draft", reason=reason, created_at=scope.now(), drafts=tuple(draft))
    live = live_branch(state)
    base = base_of(live, state["turn"]["pending"])
    after = [message.id or "" for message in live.messages[live.index_of(base) + 1 :]]
    change = replace_tail(live, base, label=label, keep=after)
    return save_branch(change, scope, state.get("branches", [])), change.branch["id"]


def keep_newest_draft(state: State, scope: Scope) -> list[BranchRef]:
    """Keep the turn's newest rejected draft as a branch, and return all references to branches.

    It is for a draft about which a person was asked, and which is not delivered. Tool steps with
    which the turn goes on are left out.
    """
    newest, turn = state["turn"]["rejections"][-1], state["turn"]
    resumed = {message.id for message in turn.get("steps", [])}
    draft = [message for message in newest["messages"] if message.id not in resumed]
    refs, _ = branch_of_draft(state, scope, draft, newest["reason"])
    return refs


def reasons_of(rejection: Rejection) -> list[str]:
    """Return the reason and the advice of a rejected draft; an empty one is left out."""
    return [text for text in (rejection["reason"], rejection.get("advice", "")) if text]


def rejected_messages(turn: Turn) -> list[AnyMessage]:
    """Return the messages of the turn's rejected drafts that the next attempt does not reuse.

    They are not in the transcript. Their tool calls are to be undone; empty without rejections.
    """
    resumed = {message.id for message in turn.get("steps", [])}
    drafts = (rejection["messages"] for rejection in turn["rejections"])
    return [message for draft in drafts for message in draft if message.id not in resumed]
