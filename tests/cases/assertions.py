"""What cases assert about a conversation, by name."""

from collections.abc import Callable
from typing import Any

from tests.cases.budgets import BUDGET_CLAIMS
from tests.cases.seen import Seen
from tests.cases.sessions import SESSION_CLAIMS
from tests.cases.snapshots import SNAPSHOT_CLAIMS
from tests.cases.stores import STORE_CLAIMS, VERSION_CLAIMS
from tests.cases.strategy_kit import STRATEGY_CLAIMS
from tests.cases.tokens import TOKEN_CLAIMS
from tests.cases.transcripts import MESSAGE_CLAIMS
from tests.cases.world import NotBoundError, World
from unsay.history.threads import list_threads
from unsay.messages.annotations import annotation_of, is_answer
from unsay.messages.content import text_of
from unsay.testing.scripts import question_of

Claim = dict[str, Any]


def _call_texts(world: World, claim: Claim) -> list[str]:
    return [text_of(message) for message in world.model_inputs[claim["call"] - 1]]


def _users(world: World, call: int) -> list[str]:
    """The user's own words; a retry's hints stand behind them in the same message."""
    said = [question_of([message]) for message in world.model_inputs[call - 1]]
    return [words for words in said if words]


def _values(world: World, value: str) -> list[str]:
    """The value itself, or what a placeholder in angle brackets stands for."""
    return world.rejected_drafts() if value == "<bad answer>" else [value]


def _roles(world: World) -> list[str]:
    names = {"human": "user", "ai": "assistant"}
    return [names.get(message.type, message.type) for message in world.messages()]


def _last_answer(world: World) -> Any:
    return next(m for m in reversed(world.messages()) if is_answer(m))


def _title_falls_back(world: World) -> bool:
    with world.open() as talk:
        (entry,) = list_threads(talk.graph.store)  # type: ignore[arg-type]
    return entry.title == world.given["user"]


def _rolled_back_event(world: World) -> bool:
    return any(note["node"] == "rollback" for note in world.state()["state_history"])


def _no_late_system(world: World, index: int) -> bool:
    lists = [world.messages(), *world.model_inputs]
    return not any(m.type == "system" for each in lists for m in each[index + 1 :])


CLAIMS: dict[str, Callable[[World, Claim], bool]] = {
    **SNAPSHOT_CLAIMS,
    **STORE_CLAIMS,
    "answer_returned": lambda w, c: bool(text_of(_last_answer(w))),
    "checkpoints_eq": lambda w, c: w.counters()["checkpoints"] == c["value"],
    "final_messages_roles": lambda w, c: _roles(w) == c["value"],
    "flag": lambda w, c: (annotation_of(_last_answer(w)).get("flag") == c["name"]) == c["value"],
    "judge_input_contains": lambda w, c: any(
        all(value in asked for value in c["values"]) for asked in w.judge_inputs
    ),
    "live_len_eq": lambda w, c: len(w.messages()) == c["value"],
    "model_calls_eq": lambda w, c: len(w.model_inputs) == c["value"],
    "model_calls_le": lambda w, c: len(w.model_inputs) <= c["value"],
    "model_input_contains": lambda w, c: any(c["value"] in t for t in _call_texts(w, c)),
    "model_input_last_user": lambda w, c: _users(w, c["call"])[-1] == c["value"],
    "model_input_not_contains": lambda w, c: (
        not any(value in text for value in _values(w, c["value"]) for text in _call_texts(w, c))
    ),
    "model_input_user_texts": lambda w, c: _users(w, c["call"]) == c["value"],
    "no_system_message_after_index": lambda w, c: _no_late_system(w, c["index"]),
    "reloaded_equals_checkpoint": lambda w, c: w.transcript() == w.expected_record,
    "restored_equals_checkpoint": lambda w, c: w.transcript() == w.expected_record,
    "rollback_event_recorded": lambda w, c: _rolled_back_event(w),
    "rollbacks_eq": lambda w, c: w.counters()["rollbacks"] == c["value"],
    "title_fallback_from_user_text": lambda w, c: _title_falls_back(w),
}


def holds(claim: Claim, seen: Seen) -> bool:
    """Whether an assertion of a case is true.

    Raises:
        NotBoundError: No binding knows it.
    """
    name = claim["op"]
    if name == "thread_not_contains" and seen.worlds is not None:
        other = seen.worlds[claim["thread"]]
        told = [text_of(m) for call in other.model_inputs for m in call] + other.judge_inputs
        return not any(claim["value"] in text for text in [*told, *_record_texts(other)])
    if name in BUDGET_CLAIMS:
        return BUDGET_CLAIMS[name](seen.value, claim)
    if name in TOKEN_CLAIMS:
        return TOKEN_CLAIMS[name](seen.value, claim)
    if name in VERSION_CLAIMS:
        return VERSION_CLAIMS[name](seen.value, claim)
    if name in SESSION_CLAIMS:
        return SESSION_CLAIMS[name](seen.value, claim)
    if seen.state is not None and name in STRATEGY_CLAIMS:
        return STRATEGY_CLAIMS[name](seen, claim)
    if seen.messages is not None and name in MESSAGE_CLAIMS:
        return MESSAGE_CLAIMS[name](seen.messages, claim)
    if seen.world is None or name not in CLAIMS:
        raise NotBoundError(f"assertion {name}")
    return CLAIMS[name](seen.world, claim)


def _record_texts(world: World) -> list[str]:
    return [text_of(message) for message in world.messages()]
