"""What a judge is shown, and what it decides."""

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from unsay.arguments import configurable

Outcome = Literal["passed", "failed", "unscored"]
Judge = Literal["model", "prejudge", "person"]
LocalCheck = Literal[
    "empty", "refusal", "loop", "echo", "repetition", "truncation", "off_topic", "demand"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUse:
    """One tool call of a turn, for a judge.

    `arguments` are JSON. `result` is `None` if the call has no result.
    """

    name: str
    arguments: str
    result: str | None
    message_id: str = ""  # by which a judge may blame the call
    irrelevant: bool = False  # the result was left out of the context


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A question and its answer, either of which may be empty, for a judge.

    `earlier` has earlier questions with their answers, oldest first, and `earlier_ids` the ids of
    these answers; empty if they are not known. `calls` are the tool calls of the turn. `truncated`:
    the provider stopped the answer at its length limit. `found_nothing`: documents were searched
    for, and none of them is relevant. `topics` has the id and the texts of
    each topic before the question, the current one first; the judge then labels the question.
    """

    question: str
    answer: str
    earlier: tuple[tuple[str, str], ...] = ()
    earlier_ids: tuple[str, ...] = ()
    truncated: bool = False
    calls: tuple[ToolUse, ...] = ()
    found_nothing: bool = False
    topics: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a judge decided about one answer.

    A passed answer may become a checkpoint, and a failed one may be rolled back. The score is from
    0 to 1; it is `None` if the answer is unscored, and `reason` is then what went wrong with the
    judge. Otherwise `reason` is for the user, and `advice` for the next attempt. `blamed` has ids
    of messages. `consistency` says from 0 to 1 how well the answer agrees with what was said;
    `None` if unknown. `query` is another search, for an irrelevant document. `agreement` is the
    share of several judgements that agree; `None` for one judgement. `intent` is what the
    question does to the topic, in the judge's words, and `returns_to` the id of the earlier topic
    that the judge names; empty if the judge says neither.
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
    intent: str = ""
    returns_to: str = ""
    skipped: bool = False  # the judge was not asked, by the setting `judge_share`


@dataclass(frozen=True, slots=True, kw_only=True)
class PreVerdict:
    """The verdict of the local checks, with a score from 0 to 1.

    If it is `decided`, a rule is certain that the answer failed, and no judge is asked. `signals`
    has the names of the rules that apply, and `reason` is what the strongest says, as a row of the
    texts' `check_reasons`. `hint` is the reason of a rule that is not certain, for a judge; empty if
    no rule is sure enough. `doubt` is how bad the
    answer seems to the fitted experts, from 0 to 1; from 0.5 on they give a hint.
    """

    score: float
    decided: bool
    reason: str
    signals: tuple[str, ...] = ()
    hint: str = ""
    doubt: float = 0.0


ShiftKind = Literal["same", "new", "back"]


@configurable
@dataclass(frozen=True, slots=True, kw_only=True)
class TopicMemory:
    """The newest questions and answers of a topic, oldest first, for a topic detector."""

    topic_id: str
    texts: tuple[str, ...]


@configurable
@dataclass(frozen=True, slots=True, kw_only=True)
class TopicShift:
    """The topic of a question, which a detector returns.

    `same` is the current topic, `new` another one, and `back` the earlier one with the id
    `topic_id`. `similarity`, from 0 to 1, is that of the question to its topic; for `new`, to the
    current one.
    """

    kind: ShiftKind
    similarity: float
    topic_id: str | None = None


class TopicDetector(Protocol):
    """Tells whether a question continues the topic, changes it, or returns to an earlier one.

    `detect` may be async; a blocking one runs in another thread beside an event loop. If it raises,
    or takes longer than 30 seconds, the question stays in the current topic.
    """

    def detect(
        self, question: str, current: TopicMemory, others: Sequence[TopicMemory]
    ) -> TopicShift | Awaitable[TopicShift]:
        """Return the topic of a question: the current one, a new one, or one of `others`.

        It is not called for a conversation's first question. If it raises, the topic stays.

        Args:
            question: The user's newest message.
            current: The topic of the turn before; it has at least one text.
            others: Earlier topics, the most recently left one first.
        """
