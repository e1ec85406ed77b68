"""The ways to ask one judge: with structured output or in words, with or without a temperature."""

from dataclasses import dataclass, replace
from typing import Any

from langchain_core.runnables import Runnable

from unsay.judging.verdict import reply_schema
from unsay.model_factory import at_temperature_0, change_inner, is_chat_model


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeForm:
    """One way to ask the judge; `judge_forms` lists them, the best first."""

    model: Runnable[Any, Any]
    structured: bool = False  # whether the reply is asked for by its JSON schema
    steady: bool = False  # whether the temperature is set to 0 for the call

    @property
    def name(self) -> str:
        """Suffix of the key under which a budget reserves a call of the judge in this form.

        It has `-plain` without structured output, and `-steady` at temperature 0; else it is empty.
        """
        words = [("plain", not self.structured), ("steady", self.steady)]
        return "".join(f"-{word}" for word, applies in words if applies)


def judge_forms(
    judge: Runnable[Any, Any], *, is_given: bool, labels_topics: bool = False
) -> tuple[JudgeForm, ...]:
    """Return the ways to ask a judge, best first; the last one is the judge as it is.

    `is_given` says that a host passed this model object, whose temperature it may have chosen.
    With `labels_topics` the structured reply has the question's intent as well.
    """
    steady = at_temperature_0(judge, is_given=is_given)
    both = [(steady, True), (judge, False)] if steady is not None else [(judge, False)]
    plain = [JudgeForm(model=model, steady=is_steady) for model, is_steady in both]
    schema = reply_schema(labels_topics=labels_topics)
    return (*(each for form in plain for each in _structured(form, schema)), *plain)


def _structured(form: JudgeForm, schema: dict[str, Any]) -> list[JudgeForm]:
    """Return a list with the form with structured output; empty if the model cannot give it."""
    if not is_chat_model(form.model):
        return []
    try:
        model = change_inner(
            form.model, lambda chat: chat.with_structured_output(schema, include_raw=True)
        )
    except NotImplementedError:
        return []
    return [replace(form, model=model, structured=True)]
