"""Calibration: the threshold of quality that fits a person's labels, and what it is worth.

A threshold is chosen on all labels of a language. Its figures are out of fold: each label is
decided by a threshold that was fitted without it and without the other labels of its question.
"""

import hashlib
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

from langchain_core.messages import AnyMessage
from langchain_core.runnables import Runnable

from unsay.arguments import arity_problem, configured, inner_function, shown
from unsay.effects import is_async
from unsay.errors import ConfigurationError
from unsay.judging.verdict import judged_parts
from unsay.types import Language

PARTS = 5
STEPS = 20
THRESHOLDS = [step / STEPS for step in range(STEPS + 1)]  # those that are tried
ALARM_SHARE = 0.05
"""The claim that is checked: at most this share of good answers fails."""

CONFIDENCE = 0.05
"""Chance that a claim is wrong."""

Z = 1.96
"""Quantile of the normal distribution for intervals of 95 %. Source: Wilson 1927."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Labelled:
    """The score of one answer from 0 to 1, and whether a person found the answer good."""

    question: str
    language: Language
    score: float
    good: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """What a good answer that fails costs, and what a bad one that passes costs."""

    alarm: float = 1.0
    miss: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Confusion:
    """How many good and bad answers passed and failed at a threshold."""

    good_passed: int
    good_failed: int
    bad_passed: int
    bad_failed: int

    @property
    def alarms(self) -> "Share":
        """The share of good answers that fail; without good answers its `value` is `None`."""
        return Share(hits=self.good_failed, items=self.good_failed + self.good_passed)

    @property
    def caught(self) -> "Share":
        """The share of bad answers that fail; without bad answers its `value` is `None`."""
        return Share(hits=self.bad_failed, items=self.bad_failed + self.bad_passed)

    def cost(self, costs: Costs) -> float:
        """Return the cost of all wrong decisions: of `good_failed` and of `bad_passed`."""
        return self.good_failed * costs.alarm + self.bad_passed * costs.miss


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A share of `items`, with an interval of 95 %."""

    hits: int
    items: int

    @property
    def value(self) -> float | None:
        """The share, from 0 to 1; `None` without items."""
        return self.hits / self.items if self.items else None

    @property
    def interval(self) -> tuple[float, float]:
        """The lower and the upper bound of Wilson's interval of 95 %; 0 and 1 without items."""
        if not self.items:
            return 0.0, 1.0
        share, n = self.hits / self.items, self.items
        middle = (share + Z * Z / (2 * n)) / (1 + Z * Z / n)
        half = Z * sqrt(share * (1 - share) / n + Z * Z / (4 * n * n)) / (1 + Z * Z / n)
        return max(0.0, middle - half), min(1.0, middle + half)


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """The threshold for one language, and how well it decides.

    `threshold` is fitted on all labels, whose number is `labels`. In `held_out` each label was
    decided by a threshold that was fitted without it. `curve` has each threshold that was tried,
    with its decisions on all labels.
    """

    language: Language
    threshold: float
    held_out: Confusion
    curve: tuple[tuple[float, Confusion], ...]
    labels: int

    @property
    def claim(self) -> str:
        """What may be claimed of false alarms, as a sentence; empty if there are too few labels.

        It is also empty if too many good answers fail.
        """
        alarms = self.held_out.alarms
        if alarms.items == 0 or upper_bound(alarms) > ALARM_SHARE:
            return ""
        return f"at most {ALARM_SHARE:.0%} of good answers fail (95 % sure, {alarms.items} labels)"


def upper_bound(share: Share) -> float:
    """Return the highest true share that fits the counted hits, with 95 % certainty.

    `share` has 1 item or more.
    """
    if share.hits == 0:
        return 1 - float(CONFIDENCE ** (1 / share.items))
    return share.interval[1]


def labels_needed() -> int:
    """Return how many labels of good answers are needed for `Calibration.claim`, if none fails.

    >>> labels_needed()
    59
    """
    return next(n for n in range(1, 1_000) if upper_bound(Share(hits=0, items=n)) <= ALARM_SHARE)


def calibrate(labels: Sequence[Labelled], costs: Costs) -> list[Calibration]:
    """Return the calibration of each language that has good labels and bad labels."""
    calibrations = []
    for language in dict.fromkeys(label.language for label in labels):
        own = [label for label in labels if label.language == language]
        if len({label.good for label in own}) == 1:
            continue
        curve = tuple((t, confusion(own, t)) for t in THRESHOLDS)
        calibrations.append(
            Calibration(
                language=language,
                threshold=fit(own, costs),
                held_out=_held_out(own, costs),
                curve=curve,
                labels=len(own),
            )
        )
    return calibrations


def fit(labels: Sequence[Labelled], costs: Costs) -> float:
    """Return the threshold from 0 to 1, in steps of 1/`STEPS`, whose wrong decisions cost least.

    If several cost the same, it is the lowest, which fails the fewest answers.
    """
    return min(THRESHOLDS, key=lambda t: (confusion(labels, t).cost(costs), t))


def confusion(labels: Iterable[Labelled], threshold: float) -> Confusion:
    """Return how many labels pass and fail at a threshold; a score that is equal to it passes."""
    outcomes = [(label.good, label.score >= threshold) for label in labels]
    return _counted(outcomes)


def _counted(decided: Sequence[tuple[bool, bool]]) -> Confusion:
    return Confusion(
        good_passed=decided.count((True, True)),
        good_failed=decided.count((True, False)),
        bad_passed=decided.count((False, True)),
        bad_failed=decided.count((False, False)),
    )


def _held_out(labels: Sequence[Labelled], costs: Costs) -> Confusion:
    decided: list[tuple[bool, bool]] = []
    for number in range(PARTS):
        fold = [label for label in labels if _part(label.question) == number]
        rest = [label for label in labels if _part(label.question) != number]
        if fold and rest:
            threshold = fit(rest, costs)
            decided += [(label.good, label.score >= threshold) for label in fold]
    return _counted(decided)


def _part(question: str) -> int:
    digest = hashlib.sha256(question.encode("utf-8", "surrogatepass")).digest()
    return digest[0] % PARTS


GIVEN = ("inputs", "outputs", "context", "question", "answer")
"""Names of the arguments that a metric can have; the last two are others for the first two."""
_REASONS = ("reason", "comment", "explanation")
_ANSWERS_ONLY = {"reason": "the metric scores answers only"}


@configured
def metric_judge(metric: Callable[..., Any]) -> Callable[[Sequence[AnyMessage]], Any]:
    r"""Return a judge that scores answers with a metric.

    Args:
        metric: A sync function with any of the parameters `inputs` (the question), `outputs` (the
            answer) and `context` (the earlier conversation and the tool results), as evaluators of
            openevals have them, or `question` and `answer`; other parameters need a default. It returns a number from 0 to 1,
            `True` or `False`, a mapping with `score` and perhaps `comment` or `reason`, or an
            object with these attributes.

    Returns:
        A function for `judge=…`, which is called with the request for one answer and returns
        `score` and `reason`. For a document or a summary it returns no score: they stay unscored.
        An error of the metric is raised; the graph then leaves the answer unscored.

    Raises:
        ConfigurationError: `metric` is not callable, is async, or needs another argument.

    Example:
        >>> from langchain_core.messages import HumanMessage
        >>> judge = metric_judge(lambda outputs: len(outputs) < 20)
        >>> judge([HumanMessage('<answer key="k">\nShort.\n</answer key="k">')])
        {'score': '100%', 'reason': ''}
    """
    parameters = _parameters(metric)
    takes_all = any(each.kind is each.VAR_KEYWORD for each in parameters)
    names = {each.name for each in parameters}

    def judge(messages: Sequence[AnyMessage]) -> Any:
        parts = judged_parts(messages)
        if "answer" not in parts:
            return _ANSWERS_ONLY
        context = [parts[name] for name in ("earlier", "tools") if name in parts]
        values = {"inputs": parts.get("question", ""), "outputs": parts["answer"]}
        metric_args = {**values, "context": "\n".join(context)}
        own = {name: parts.get(name, "") for name in ("question", "answer") if name in names}
        metric_args = {
            name: value for name, value in metric_args.items() if takes_all or name in names
        }
        return _verdict(metric(**metric_args, **own))

    return judge


def with_messages(judge: Any) -> Any:
    """Return a judge that is called with messages, also for a function of question and answer.

    Such a function has two positional parameters. It scores answers only: documents and summaries
    stay unscored. Everything else is returned unchanged.
    """
    is_function = callable(judge) and not isinstance(judge, type | Runnable)
    if not is_function or not arity_problem(judge, 1) or arity_problem(judge, 2):
        return judge

    def score(messages: Sequence[AnyMessage]) -> Any:
        parts = judged_parts(messages)
        is_answer = "answer" in parts
        return judge(parts.get("question", ""), parts["answer"]) if is_answer else _ANSWERS_ONLY

    async def score_on_loop(messages: Sequence[AnyMessage]) -> Any:
        reply = score(messages)
        return reply if reply is _ANSWERS_ONLY else await reply

    return score_on_loop if is_async(judge) else score


def _parameters(metric: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return a metric's parameters; `ConfigurationError` if it cannot be called with `GIVEN` alone."""
    if inspect.iscoroutinefunction(inner_function(metric)):
        raise ConfigurationError(f"metric={shown(metric)} is async: pass a sync function")
    try:
        parameters = list(inspect.signature(metric).parameters.values())
    except ValueError as error:
        raise ConfigurationError(
            f"metric={shown(metric)}: {error}; pass a function of inputs and outputs that calls it"
        ) from error
    for each in parameters:
        is_needed = each.default is each.empty and each.kind not in (
            each.VAR_POSITIONAL,
            each.VAR_KEYWORD,
        )
        if is_needed and (each.name not in GIVEN or each.kind is each.POSITIONAL_ONLY):
            raise ConfigurationError(
                f"metric={shown(metric)} needs the argument {each.name!r}, and a metric gets only "
                f"{', '.join(GIVEN)} by name: give {each.name!r} a default"
            )
    return parameters


def _verdict(result: Any) -> dict[str, Any]:
    """Return a metric's result as a judge's reply: a mapping with `score` and `reason`.

    The score is `None` if the result is a mapping without one. A result of another type becomes the
    score unchanged; the reader of the reply then leaves the answer unscored.
    """
    if isinstance(result, Mapping):
        score, result_fields = result.get("score"), result
    else:
        score = getattr(result, "score", result)
        result_fields = {name: getattr(result, name, "") for name in _REASONS}
    reason = next((str(result_fields[name]) for name in _REASONS if result_fields.get(name)), "")
    return {"score": f"{score:.0%}" if isinstance(score, bool) else score, "reason": reason}
