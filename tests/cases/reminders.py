"""Operations on reminders."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from langchain_core.messages.utils import convert_to_messages

from tests.cases.observation import Case, Observation, Operation
from tests.cases.world import NotBoundError
from unsay.context.view import Reminder, ReminderCounts, counted, due, inject
from unsay.prompts.catalogue import Texts

NAMES = {
    "id": "reminder_id",
    "text": "text",
    "priority": "tier",
    "tier": "tier",
    "attach": "attach",
    "max_per_run": "max_per_run",
    "min_turns_between": "min_turns_between",
}
RUN = "run"


def _reminder(spec: Mapping[str, Any]) -> Reminder:
    if unknown := set(spec) - set(NAMES):
        raise NotBoundError(f"reminders with {sorted(unknown)}")
    values = {NAMES[key]: value for key, value in spec.items()}
    if values.get("max_per_run") == 0:
        values["max_per_run"] = None
    return Reminder(**{"text": str(values.get("reminder_id")), **values})


def _reminders(case: Case) -> list[Reminder]:
    """The case's reminders, with its params as what each of them leaves open."""
    if unknown := set(case["params"]) - set(NAMES):
        raise NotBoundError(f"params {sorted(unknown)}")
    inputs = case["given"].get("reminders", [{"id": "r"}])
    return [_reminder({**case["params"], **spec}) for spec in inputs]


def _due_by_turn(reminders: Sequence[Reminder], turns: int) -> list[tuple[Reminder, ...]]:
    counts: ReminderCounts = {}
    views = []
    for turn in range(1, turns + 1):
        views.append(due(reminders, counts, turn=turn, run_id=RUN))
        counts = counted(reminders, counts, views[-1], turn=turn, run_id=RUN)
    return views


def snapshot(case: Case, folder: Path) -> Observation:
    """The ids of the reminders that a run's first view shows, in order."""
    del folder
    (reminders,) = _due_by_turn(_reminders(case), 1)
    return Observation(value=[reminder.reminder_id for reminder in reminders])


def sequence(case: Case, folder: Path) -> Observation:
    """How many reminders each turn of one run shows."""
    del folder
    return Observation(
        value=[
            len(reminders) for reminders in _due_by_turn(_reminders(case), case["given"]["turns"])
        ]
    )


def inject_reminders(case: Case, folder: Path) -> Observation:
    """A message list with the reminders of a run's first view."""
    del folder
    (reminders,) = _due_by_turn(_reminders(case), 1)
    messages: Any = convert_to_messages(case["given"]["messages"])
    return Observation(messages=inject(messages, reminders, Texts("en")))


OPERATIONS: dict[str, Operation] = {
    "reminder.snapshot": snapshot,
    "reminder.sequence": sequence,
    "reminder.inject": inject_reminders,
}
