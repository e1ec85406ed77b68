"""Metrics of other libraries as judges: openevals, deepeval, ragas, or any function."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from langchain_core.messages import AnyMessage
from langchain_core.runnables import Runnable

from unsay.arguments import arity_problem, configured, inner_function, shown
from unsay.effects import is_async
from unsay.errors import ConfigurationError
from unsay.judging.verdict import judged_parts

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
        given = {**values, "context": "\n".join(context)}
        own = {name: parts.get(name, "") for name in ("question", "answer") if name in names}
        given = {name: value for name, value in given.items() if takes_all or name in names}
        return _verdict(metric(**given, **own))

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
        score, named = result.get("score"), result
    else:
        score = getattr(result, "score", result)
        named = {name: getattr(result, name, "") for name in _REASONS}
    reason = next((str(named[name]) for name in _REASONS if named.get(name)), "")
    return {"score": f"{score:.0%}" if isinstance(score, bool) else score, "reason": reason}
