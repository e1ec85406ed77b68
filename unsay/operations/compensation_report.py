"""What was undone and what was not, as text."""

from unsay.history.compensations import Compensation, Outcome, Report
from unsay.operations.undoable_calls import FAILED_CALL
from unsay.prompts.fields import Texts


def report_text(report: Report, texts: Texts) -> str:
    """Return a report as text for a person or a model; empty if there is nothing to report.

    Calls that failed themselves are left out: they did nothing that could still be in effect.
    """
    left = report.of("failed", "skipped")
    parts = (
        (texts.effects_undone, report.undone),
        (texts.effects_left, [each for each in left if not _did_nothing(each.compensation)]),
        (texts.effects_unknown, report.of("unknown")),
        (texts.effects_returned, report.of("returned")),
    )
    return texts.sentences(
        template.format(calls=texts.listed(_outcome_text(each, texts) for each in outcomes))
        for template, outcomes in parts
        if outcomes
    )


def stays_in_effect(call: Compensation) -> bool:
    """Return whether a rollback cannot undo what a call did; `False` also if the call itself failed."""
    return bool(call.obstacle) and not _did_nothing(call)


def _did_nothing(call: Compensation) -> bool:
    return call.obstacle == FAILED_CALL


def _outcome_text(outcome: Outcome, texts: Texts) -> str:
    description, reason = outcome.compensation.description, outcome.reason
    if not reason or outcome.result in ("unknown", "returned"):
        return description
    gap = "" if texts.language == "ja" else " "
    return f"{description}{gap}({texts.rules.get(reason, reason)})"
