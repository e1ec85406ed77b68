"""Reminders: short instructions of the developer that are part of contexts, not of the transcript.

Source:
    Goa-AI's reminders (two tiers, a cap for each run except for safety, a spacing in turns, two
    places, never between a tool call and its result).
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypedDict, get_args

from langchain_core.messages import AnyMessage, SystemMessage

from unsay.errors import ConfigurationError
from unsay.messages.annotations import is_question
from unsay.messages.content import text_of
from unsay.prompts.fence import Fence
from unsay.prompts.fields import Texts

Tier = Literal["safety", "guidance"]
Attach = Literal["run_start", "user_turn"]

_TAG = re.compile(r"<(?=/?reminder\b)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reminder:
    """One instruction, its place in a context, and how often it is shown.

    Attributes:
        reminder_id: Unique; its count is kept by this id.
        text: The instruction.
        tier: `safety` comes before `guidance`.
        attach: `user_turn` ends the newest question, `run_start` ends the system message.
        max_per_run: Most drafts of one run that show it; `None` sets no limit, `safety` has none.
            A `run_start` reminder stays for a whole turn, which counts once, so that no attempt of
            the turn loses the prompt cache.
        min_turns_between: Least distance between two turns that show it; 0 and 1 are every turn.
            Use it with `user_turn`: a `run_start` reminder that comes and goes changes the system
            message, which cost seven times the uncached tokens over 20 turns.
            Source: own measurement.
    """

    reminder_id: str
    text: str
    tier: Tier = "guidance"
    attach: Attach = "user_turn"
    max_per_run: int | None = None
    min_turns_between: int = 0

    def __post_init__(self) -> None:
        for name in ("reminder_id", "text"):
            value = getattr(self, name)
            if not isinstance(value, str) or not value.strip():
                raise ConfigurationError(f"{self._of(name)}: write at least one word")
        for name, kind in (("tier", Tier), ("attach", Attach)):
            if getattr(self, name) not in get_args(kind):
                choices = " or ".join(map(repr, get_args(kind)))
                raise ConfigurationError(f"{self._of(name)}: write {choices}")
        if self.max_per_run is not None and not _is_whole(self.max_per_run, 1):
            raise ConfigurationError(
                f"{self._of('max_per_run')}: write a whole number from 1, or None for no cap"
            )
        if not _is_whole(self.min_turns_between, 0):
            raise ConfigurationError(
                f"{self._of('min_turns_between')}: write a whole number from 0 (every turn)"
            )

    def _of(self, name: str) -> str:
        return f"A reminder ({self.reminder_id!r}) cannot have {name} {getattr(self, name)!r}"


class ReminderCount(TypedDict):
    """How often a reminder was shown in its latest run, and its latest turn."""

    run_id: str
    times: int
    turn: int


ReminderCounts = dict[str, ReminderCount]  # the latest showing by `reminder_id`


def ordered(reminders: Sequence[Reminder]) -> tuple[Reminder, ...]:
    """Return the reminders with safety first, else in the order given.

    Raises:
        ConfigurationError: Two of them have the same id.
    """
    names = [each.reminder_id for each in reminders]
    if doubled := sorted({name for name in names if names.count(name) > 1}):
        raise ConfigurationError(
            f"{doubled[0]!r} is the id of {names.count(doubled[0])} reminders: give each its own"
        )
    tiers = get_args(Tier)
    return tuple(sorted(reminders, key=lambda each: tiers.index(each.tier)))


def due(
    reminders: Sequence[Reminder], counts: Mapping[str, ReminderCount], *, turn: int, run_id: str
) -> tuple[Reminder, ...]:
    """Return the reminders that the next context shows, in their order.

    A `turn` at or before the last showing means a rollback: the spacing begins again.
    """
    return tuple(
        each
        for each in ordered(reminders)
        if (before := counts.get(each.reminder_id)) is None or _is_due(each, before, turn, run_id)
    )


def counted(
    reminders: Sequence[Reminder],
    counts: Mapping[str, ReminderCount],
    shown: Sequence[Reminder],
    *,
    turn: int,
    run_id: str,
) -> ReminderCounts:
    """Return the counts after a context that has `shown`; unknown reminders are dropped."""
    after: ReminderCounts = {}
    for each in reminders:
        before = counts.get(each.reminder_id)
        if before is not None and (each not in shown or before["run_id"] == run_id):
            more = 1 if each in shown and not _stays(each, before, turn) else 0
            last = turn if each in shown else before["turn"]
            after[each.reminder_id] = {**before, "times": before["times"] + more, "turn": last}
        elif each in shown:
            after[each.reminder_id] = ReminderCount(run_id=run_id, times=1, turn=turn)
    return after


def inject(
    messages: Sequence[AnyMessage], shown: Sequence[Reminder], texts: Texts
) -> list[AnyMessage]:
    """Return a context with its reminders at the end of the newest question and system message.

    They follow the message's own text, so that the next turn's context, which lacks them, has the
    same beginning. Without a question all go into the system message.
    """
    view = list(messages)
    question = next((each for each in reversed(view) if is_question(each)), None)
    asked = [each for each in shown if question is not None and each.attach == "user_turn"]
    at_start = [each for each in shown if each not in asked]
    if asked and question is not None:
        fenced = _fenced(asked, text_of(question))
        view = append_to_question(view, texts.turn_reminders.format(reminders=fenced))
    if at_start:
        view = _in_head(view, texts.run_reminders.format(reminders=_fenced(at_start)))
    return view


def append_to_question(view: Sequence[AnyMessage], words: str) -> list[AnyMessage]:
    """Return a context with words added to the newest question, else to the system message."""
    place = next((i for i in range(len(view) - 1, -1, -1) if is_question(view[i])), None)
    if place is None:
        return _in_head(view, words)
    return [*view[:place], _longer(view[place], words), *view[place + 1 :]]


def _in_head(view: Sequence[AnyMessage], words: str) -> list[AnyMessage]:
    if view and view[0].type == "system":
        return [_longer(view[0], words), *view[1:]]
    return [SystemMessage(words), *view]


def _is_whole(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _is_due(reminder: Reminder, before: ReminderCount, turn: int, run_id: str) -> bool:
    if 0 < turn - before["turn"] < reminder.min_turns_between:
        return False
    cap = None if reminder.tier == "safety" else reminder.max_per_run
    if cap is None or before["run_id"] != run_id:
        return True
    return _stays(reminder, before, turn) or before["times"] < cap


def _stays(reminder: Reminder, before: ReminderCount, turn: int) -> bool:
    return reminder.attach == "run_start" and before["turn"] == turn


def _fenced(reminders: Sequence[Reminder], *around: str) -> str:
    # `Fence.mark` would escape every tag of ours, but a developer may ask for an answer between
    # `<answer>` tags: only the fence's own tag is escaped here.
    key = Fence.around(*(each.text for each in reminders), *around).key
    return "\n".join(
        f'<reminder key="{key}">\n{_TAG.sub("&lt;", each.text)}\n</reminder key="{key}">'
        for each in reminders
    )


def _longer(message: AnyMessage, words: str) -> AnyMessage:
    content = message.content
    if isinstance(content, str):
        return message.model_copy(update={"content": f"{content}\n\n{words}"})
    block = {"type": "text", "text": f"\n\n{words}"}
    return message.model_copy(update={"content": [*content, block]})
