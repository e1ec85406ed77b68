"""Operations on token counts."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from langchain_core.messages import BaseMessage
from langchain_core.messages.utils import convert_to_messages

from benchmarks.seed_estimate import seed_estimate
from tests.cases.observation import Case, Observation, Operation
from tests.cases.world import NotBoundError
from unsay.tokens.counter import REPLY_TOKENS, Encoder, TokenCounter

SEED_FORMULA = "(sum(chars//4)+5*n)*1.1"


def _messages(case: Case, params: Sequence[str] = ()) -> list[BaseMessage]:
    if unknown := set(case["params"]) - set(params):
        raise NotBoundError(f"params {sorted(unknown)}")
    if unknown := set(case["given"]) - {"messages", "tools"}:
        raise NotBoundError(f"given {sorted(unknown)}")
    return [_message_with_usage(spec) for spec in case["given"]["messages"]]


def _message_with_usage(spec: dict[str, Any]) -> BaseMessage:
    """A message, with the usage that its model reported."""
    (message,) = convert_to_messages([spec])
    usage = spec.get("usage_metadata")
    return message.model_copy(update={"usage_metadata": usage}) if usage else message


def count(case: Case, folder: Path) -> Observation:
    """The tokens of a prompt, where nothing was reported and no vocabulary is at hand."""
    del folder
    messages = _messages(case, ("max_relative_error", "reference_tokens"))
    return Observation(value=TokenCounter().count(messages, case["given"].get("tools", ())))


def project(case: Case, folder: Path) -> Observation:
    """Return the tokens of the next prompt from the usage of the last answer."""
    del folder
    messages = _messages(case, ("count_tokens_of_new_messages",))
    expected_count = case["params"].get("count_tokens_of_new_messages")
    counter = (
        TokenCounter()
        if expected_count is None
        else TokenCounter(encode=_encoder(messages, expected_count))
    )
    return Observation(value=counter.project(messages, case["given"].get("tools", ())))


def _encoder(messages: Sequence[BaseMessage], expected_count: Any) -> Encoder:
    """Return a vocabulary by which the messages after the last reported usage cost this much.

    A message costs framing beside its words, so the first text gets what the framing leaves.
    """
    indexes = [index for index, m in enumerate(messages) if getattr(m, "usage_metadata", None)]
    new = messages[indexes[-1] + 1 :] if indexes else messages
    framing = TokenCounter(encode=lambda _: 0).count(new) - REPLY_TOKENS if new else 0
    if expected_count != "raises" and (
        not isinstance(expected_count, int) or expected_count < framing
    ):
        raise NotBoundError(f"count_tokens_of_new_messages {expected_count!r}")
    counts = [expected_count]

    def encode(_: str) -> int:
        if expected_count == "raises":
            raise ValueError("the tokenizer is broken")
        return counts.pop() - framing if counts else 0

    return encode


def rule_of_thumb(case: Case, folder: Path) -> Observation:
    """What seed 004's rule of thumb says."""
    del folder
    messages = _messages(case, ("formula",))
    if case["params"].get("formula", SEED_FORMULA) != SEED_FORMULA:
        raise NotBoundError(f"formula {case['params']['formula']}")
    return Observation(value=seed_estimate(messages))


TOKEN_CLAIMS: dict[str, Callable[[int, Case], bool]] = {
    "relative_error_le": lambda count, c: (
        abs(count - c["reference"]) <= c["value"] * c["reference"]
    ),
}

OPERATIONS: dict[str, Operation] = {
    "tokens.estimate": count,
    "tokens.estimate_has_cost_for": count,
    "tokens.estimate_includes": count,
    "tokens.estimate_lower_bound": count,
    "tokens.estimate_seed_formula": rule_of_thumb,
    "tokens.project": project,
}
