"""What a judge is shown, and what it decides."""

from dataclasses import dataclass
from typing import Literal

Outcome = Literal["passed", "failed", "unscored"]
Judge = Literal["model", "prejudge", "person"]
LocalCheck = Literal[
    "empty", "refusal", "loop", "echo", "repetition", "truncation", "off_topic", "demand"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUse:
    """One tool call of a turn, for a judge; the arguments are JSON, and `None` is no result."""

    name: str
    arguments: str
    result: str | None
    message_id: str = ""  # by which a judge may blame the call
    irrelevant: bool = False  # the result was left out of the context


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A question and its answer, with `earlier` ones and tool `calls`, oldest first, for a judge.

    Either may be empty. `truncated`: the provider stopped the answer at its length limit.
    `found_nothing`: documents were searched for, and none of them is relevant.
    """

    question: str
    answer: str
    earlier: tuple[tuple[str, str], ...] = ()
    earlier_ids: tuple[str, ...] = ()
    truncated: bool = False
    calls: tuple[ToolUse, ...] = ()
    found_nothing: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a judge decided about one answer.

    A passed one may become a checkpoint, a failed one be rolled back. The score is from 0 to 1, `None`
    for unscored, whose reason is what went wrong with the judge. `blamed` are ids of messages.
    `consistency` says from 0 to 1 how well the answer agrees with what was said; `None` if unknown.
    The `reason` is for the user, the `advice` for the next attempt. `query` is another search, for
    an irrelevant document. `agreement` is the share of several judgements that agree.
    """

    outcome: Outcome
    score: float | None
    reason: str
    source: Judge
    blamed: tuple[str, ...] = ()
    consistency: float | None = None
    advice: str = ""
    query: str = ""
    agreement: float | None = None
    skipped: bool = False  # the judge was not asked, by the setting `judge_every`


@dataclass(frozen=True, slots=True, kw_only=True)
class PreVerdict:
    """The verdict of the local checks, with a score from 0 to 1.

    If it is `decided`, no model need be asked. `reason` describes the strongest rule in `signals`.
    `hint` is the reason of a sign that is not certain, for a judge; empty without one. `doubt` is how
    bad the answer seems to the fitted experts, from 0 to 1; at 0.5 they give a hint.
    """

    score: float
    decided: bool
    reason: str
    signals: tuple[str, ...] = ()
    hint: str = ""
    doubt: float = 0.0
