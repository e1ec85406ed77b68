"""Reminders: instructions of the developer in the context, never in the transcript.

Source: Goa-AI, reminders (two tiers, a limit for each run except for safety, a distance in turns,
two places, never between a tool call and its result).
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from langchain_core.messages import AnyMessage, SystemMessage
from typing_extensions import TypedDict

from unsay.arguments import configurable
from unsay.errors import ConfigurationError
from unsay.messages.annotations import is_question
from unsay.messages.content import text_of
from unsay.prompts.catalogue import Texts
from unsay.prompts.fence import Fence

Tier = Literal["safety", "guidance"]
Attach = Literal["run_start", "user_turn"]

_TAG = re.compile(r"<(?=/?reminder\b)", re.IGNORECASE)


@configurable
@dataclass(frozen=True, slots=True, kw_only=True)
class Reminder:
    """An instruction that is repeated to the model, with its place and frequency.

    Use it for rules that a model forgets in a long conversation.

    Attributes:
        reminder_id: Unique id, under which the uses of the reminder are counted.
        text: The instruction.
        tier: Reminders of tier `safety` come before those of `guidance`.
        attach: `user_turn` appends the text to the newest question, `run_start` to the system
            message.
        max_per_run: Most drafts of one run that get the reminder; `None` sets no limit, and `safety`
            never has one. A `run_start` reminder counts once for a whole turn.
        min_turns_between: Least distance in turns between two uses; 0 and 1 mean every turn. Use it
            with `user_turn`: with `run_start` each change of the system message invalidates the
            provider's cache (measured: seven times the uncached tokens over 20 turns).
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
                f"{self._of('max_per_run')}: write a whole number from 1, or None for no limit"
            )
        if not _is_whole(self.min_turns_between, 0):
            raise ConfigurationError(
                f"{self._of('min_turns_between')}: write a whole number from 0 (every turn)"
            )

    def _of(self, name: str) -> str:
        return f"Reminder {self.reminder_id!r} cannot have {name} {getattr(self, name)!r}"


class ReminderCount(TypedDict):
    """How often a reminder was used in its latest run (`times`), and the turn of the latest use."""

    run_id: str
    times: int
    turn: int


ReminderCounts = dict[str, ReminderCount]  # by `reminder_id`


def ordered(reminders: Sequence[Reminder]) -> tuple[Reminder, ...]:
    """Return the reminders with those of tier `safety` first, otherwise in the given order.

    Raises `ConfigurationError` if two have the same id.
    """
    names = [reminder.reminder_id for reminder in reminders]
    if doubled := sorted({name for name in names if names.count(name) > 1}):
        raise ConfigurationError(
            f"{doubled[0]!r} is the id of {names.count(doubled[0])} reminders: use unique ids"
        )
    tiers = get_args(Tier)
    return tuple(sorted(reminders, key=lambda each: tiers.index(each.tier)))


def due(
    reminders: Sequence[Reminder], counts: Mapping[str, ReminderCount], *, turn: int, run_id: str
) -> tuple[Reminder, ...]:
    """Return the reminders that the next context gets, those of tier `safety` first.

    `counts` is what `counted` returned after the previous context. Every reminder is due unless its
    `min_turns_between` or, within the run, its `max_per_run` forbids it. Raises
    `ConfigurationError` if two have the same id.
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
    """Return the counts after a context of this turn and run that included the `shown` reminders.

    Counts of other ids than those of `reminders` are dropped.
    """
    after: ReminderCounts = {}
    for reminder in reminders:
        before = counts.get(reminder.reminder_id)
        if before is not None and (reminder not in shown or before["run_id"] == run_id):
            more = 1 if reminder in shown and not _stays(reminder, before, turn) else 0
            last = turn if reminder in shown else before["turn"]
            after[reminder.reminder_id] = {**before, "times": before["times"] + more, "turn": last}
        elif reminder in shown:
            after[reminder.reminder_id] = ReminderCount(run_id=run_id, times=1, turn=turn)
    return after


def inject(
    messages: Sequence[AnyMessage], shown: Sequence[Reminder], texts: Texts
) -> list[AnyMessage]:
    """Return the context with reminders appended where their `attach` says.

    That is the newest question or the system message; without a question, always the system
    message, which is made if it is missing.
    """
    # They follow the message's own text: the next turn's context, which lacks them, then begins
    # with the same bytes, and the provider's cache stays valid.
    context = list(messages)
    question = next((message for message in reversed(context) if is_question(message)), None)
    in_turn = [r for r in shown if question is not None and r.attach == "user_turn"]
    at_start = [reminder for reminder in shown if reminder not in in_turn]
    if in_turn and question is not None:
        fenced = _fenced(in_turn, text_of(question), salt=texts.salt)
        context = append_to_question(context, texts.say("turn_reminders", reminders=fenced))
    if at_start:
        context = _in_head(
            context, texts.say("run_reminders", reminders=_fenced(at_start, salt=texts.salt))
        )
    return context


def append_to_question(context: Sequence[AnyMessage], text: str) -> list[AnyMessage]:
    """Return the context with text appended to the newest question.

    Without a question, the text is appended to the system message, which is made if it is missing.
    """
    index = next((i for i in range(len(context) - 1, -1, -1) if is_question(context[i])), None)
    if index is None:
        return _in_head(context, text)
    return [*context[:index], _longer(context[index], text), *context[index + 1 :]]


def _in_head(context: Sequence[AnyMessage], text: str) -> list[AnyMessage]:
    if context and context[0].type == "system":
        return [_longer(context[0], text), *context[1:]]
    return [SystemMessage(text), *context]


def _is_whole(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _is_due(reminder: Reminder, before: ReminderCount, turn: int, run_id: str) -> bool:
    # A turn at or before the last use means a rollback, after which the distance begins again.
    if 0 < turn - before["turn"] < reminder.min_turns_between:
        return False
    cap = None if reminder.tier == "safety" else reminder.max_per_run
    if cap is None or before["run_id"] != run_id:
        return True
    return _stays(reminder, before, turn) or before["times"] < cap


def _stays(reminder: Reminder, before: ReminderCount, turn: int) -> bool:
    return reminder.attach == "run_start" and before["turn"] == turn


def _fenced(reminders: Sequence[Reminder], *around: str, salt: str) -> str:
    # Only the tag of this fence is escaped: a developer may well ask for an answer between
    # `<answer>` tags, which `Fence` would escape.
    key = Fence.around(*(reminder.text for reminder in reminders), *around, salt=salt).key
    return "\n".join(
        f'<reminder key="{key}">\n{_TAG.sub("&lt;", each.text)}\n</reminder key="{key}">'
        for each in reminders
    )


def _longer(message: AnyMessage, text: str) -> AnyMessage:
    content = message.content
    if isinstance(content, str):
        return message.model_copy(update={"content": f"{content}\n\n{text}"})
    block = {"type": "text", "text": f"\n\n{text}"}
    return message.model_copy(update={"content": [*content, block]})
