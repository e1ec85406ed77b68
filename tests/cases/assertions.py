"""What cases assert about a conversation, by name."""

import math
import sqlite3
from collections.abc import Callable, Mapping
from typing import Any

from tests.cases.budgets import APPROVAL_CLAIMS, BUDGET_CLAIMS
from tests.cases.observation import Observation
from tests.cases.sessions import SESSION_CLAIMS
from tests.cases.snapshots import FIELD_CLAIMS, SNAPSHOT_CLAIMS
from tests.cases.stores import STORE_CLAIMS, VERSION_CLAIMS
from tests.cases.strategy_kit import STRATEGY_CLAIMS
from tests.cases.tokens import TOKEN_CLAIMS
from tests.cases.transcripts import MESSAGE_CLAIMS
from tests.cases.world import NotBoundError, World
from tests.threads import registry_of
from unsay.errors import StorageError
from unsay.history.threads import list_threads
from unsay.messages.annotations import annotation_of, is_answer
from unsay.messages.content import text_of
from unsay.testing.scripts import question_of

Claim = dict[str, Any]


def _call_texts(world: World, claim: Claim) -> list[str]:
    return [text_of(message) for message in world.model_inputs[claim["call"] - 1]]


def _users(world: World, call: int) -> list[str]:
    """The user's own words; a retry's hints stand behind them in the same message."""
    questions = [question_of([message]) for message in world.model_inputs[call - 1]]
    return [question for question in questions if question]


def _values(world: World, value: str) -> list[str]:
    """Return the value, or the texts that a placeholder in angle brackets names."""
    return world.rejected_drafts() if value == "<bad answer>" else [value]


def _roles(world: World) -> list[str]:
    names = {"human": "user", "ai": "assistant"}
    return [names.get(message.type, message.type) for message in world.messages()]


def _last_answer(world: World) -> Any:
    return next(m for m in reversed(world.messages()) if is_answer(m))


def _title_falls_back(world: World) -> bool:
    with world.open() as conversation:
        (entry,) = list_threads(conversation.graph.store)  # type: ignore[arg-type]
    return entry.title == world.given["user"]


def _rolled_back_event(world: World) -> bool:
    return any(note["node"] == "rollback" for note in world.state()["state_history"])


def _no_late_system(world: World, index: int) -> bool:
    lists = [world.messages(), *world.model_inputs]
    return not any(m.type == "system" for messages in lists for m in messages[index + 1 :])


def _is_verdict(observation: Observation, value: float | None) -> bool:
    """Return whether the last answer, or a judge's reply, has this score; `None` is unscored."""
    score = observation.value
    outcome = None
    if observation.world is not None:
        annotation = annotation_of(_last_answer(observation.world))
        score = annotation.get("score")
        outcome = annotation.get("outcome")
    if value is None:
        return score is None and outcome in (None, "unscored")
    return isinstance(score, float | int) and math.isclose(score, value, abs_tol=1e-9)


def _is_gone(world: World, claim: Claim) -> bool:
    """Return whether a raw value is neither in the stored thread nor in any request."""
    value = claim.get("value", world.given.get("value"))
    if value is None:
        raise NotBoundError("original_value_gone without a value")
    with world.open() as conversation:
        stored_texts = [
            *map(repr, conversation.messages()),
            *map(repr, registry_of(conversation).events()),
        ]
    texts_sent = [text_of(message) for call in world.model_inputs for message in call]
    requests = [*texts_sent, *world.judge_inputs, *world.summarizer_inputs]
    files = [path.read_bytes() for path in world.folder.iterdir() if path.is_file()]
    is_in_text = any(value in text for text in [*stored_texts, repr(world.state()), *requests])
    return not is_in_text and not any(value.encode() in content for content in files)


def _is_reported(observation: Observation) -> bool:
    """Return whether the caller learned that a save failed, from an error of the storage."""
    errors = []
    error = observation.error
    while error is not None:
        errors.append(error)
        error = error.__cause__ or error.__context__
    return any(isinstance(failure, StorageError | sqlite3.Error | OSError) for failure in errors)


ERROR_CLAIMS: dict[str, Callable[[Observation, Claim], bool]] = {
    "answer_available_to_caller": lambda s, c: (s.state or {}).get("answer_available", False),
    "persistence_error_reported": lambda s, c: _is_reported(s),
}
"""Claims about a turn that may end with an error, although a case names none."""

CALL_CLAIMS: dict[str, Callable[[Observation, Claim], bool]] = {
    **ERROR_CLAIMS,
    "model_calls_eq": lambda s, c: s.model_calls == c["value"],
    "model_was_called": lambda s, c: bool(s.model_calls),
    "no_exception": lambda s, c: s.error is None and (s.world is None or not s.world.failures),
    "summarizer_calls_eq": lambda s, c: s.summarizer_calls == c["value"],
    "verdict": lambda s, c: _is_verdict(s, c["value"]),
}
"""Claims about calls and their outcomes, for every kind of operation."""

CLAIMS: dict[str, Callable[[World, Claim], bool]] = {
    **SNAPSHOT_CLAIMS,
    **STORE_CLAIMS,
    "answer_returned": lambda w, c: bool(text_of(_last_answer(w))),
    "checkpoints_eq": lambda w, c: w.counters()["checkpoints"] == c["value"],
    "final_messages_roles": lambda w, c: _roles(w) == c["value"],
    "flag": lambda w, c: (annotation_of(_last_answer(w)).get("flag") == c["name"]) == c["value"],
    "judge_input_contains": lambda w, c: any(
        all(value in request for value in c["values"]) for request in w.judge_inputs
    ),
    "live_len_eq": lambda w, c: len(w.messages()) == c["value"],
    "model_calls_le": lambda w, c: len(w.model_inputs) <= c["value"],
    "model_input_contains": lambda w, c: any(c["value"] in t for t in _call_texts(w, c)),
    "model_input_last_user": lambda w, c: _users(w, c["call"])[-1] == c["value"],
    "model_input_not_contains": lambda w, c: (
        not any(value in text for value in _values(w, c["value"]) for text in _call_texts(w, c))
    ),
    "model_input_user_texts": lambda w, c: _users(w, c["call"]) == c["value"],
    "no_duplicate_message_ids": lambda w, c: MESSAGE_CLAIMS["no_duplicate_message_ids"](
        w.messages(), c
    ),
    "original_value_gone": _is_gone,
    "no_system_message_after_index": lambda w, c: _no_late_system(w, c["index"]),
    "reloaded_equals_checkpoint": lambda w, c: w.transcript() == w.expected_record,
    "restored_equals_checkpoint": lambda w, c: w.transcript() == w.expected_record,
    "rollback_event_recorded": lambda w, c: _rolled_back_event(w),
    "rollbacks_eq": lambda w, c: w.counters()["rollbacks"] == c["value"],
    "title_fallback_from_user_text": lambda w, c: _title_falls_back(w),
}


VALUE_CLAIMS: dict[str, Callable[[Any, Claim], bool]] = {
    **BUDGET_CLAIMS,
    **TOKEN_CLAIMS,
    **VERSION_CLAIMS,
    **SESSION_CLAIMS,
}
"""Claims about the value that an operation returned."""


def holds(claim: Claim, observation: Observation) -> bool:
    """Return whether an assertion of a case is true.

    Raises:
        NotBoundError: No binding knows it for this operation.
    """
    name = claim["op"]
    if name == "thread_not_contains" and observation.worlds is not None:
        return _never_in(observation.worlds[claim["thread"]], claim["value"])
    tables: list[tuple[Mapping[str, Callable[[Any, Claim], bool]], Any]] = [
        (CALL_CLAIMS, observation),
        (VALUE_CLAIMS, observation.value),
    ]
    if observation.state is not None:
        tables.append(({**FIELD_CLAIMS, **APPROVAL_CLAIMS, **STRATEGY_CLAIMS}, observation))
    if observation.messages is not None:
        tables.append((MESSAGE_CLAIMS, observation.messages))
    if observation.world is not None:
        tables.append((CLAIMS, observation.world))
    for claims, subject in tables:
        if name in claims:
            return claims[name](subject, claim)
    raise NotBoundError(f"assertion {name}")


def _never_in(world: World, value: str) -> bool:
    """Return whether a thread has a value neither in its transcript nor in a request."""
    texts_sent = [text_of(message) for call in world.model_inputs for message in call]
    stored_texts = [text_of(message) for message in world.messages()]
    return not any(value in text for text in [*texts_sent, *world.judge_inputs, *stored_texts])
