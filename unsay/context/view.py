"""The context of one call: the system message, the planned messages, hints and recalled messages."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, get_args

from langchain_core.messages import AnyMessage, SystemMessage, ToolMessage
from typing_extensions import TypedDict

from unsay.arguments import configurable
from unsay.context.compaction import fenced, summaries_as_user, summary_message
from unsay.errors import ConfigurationError
from unsay.messages.annotations import is_document, is_question
from unsay.messages.conformance import conform
from unsay.messages.content import shortened_result, text_of, with_text
from unsay.prompts.catalogue import Texts
from unsay.prompts.fence import Fence
from unsay.types import Offloaded, Provider

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


# Largest tool result that contexts have whole. Source: Goa-AI, MaxToolResultContentBytes.
RESULT_BYTES = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class Hints:
    """What a model gets for one attempt besides the conversation; the transcript never has it."""

    attempt: int = 1  # number of the attempt in the turn
    rejections: tuple[str, ...] = ()  # why this turn's earlier drafts were rejected, oldest first
    lessons: tuple[str, ...] = ()  # why drafts of earlier turns were rejected, oldest first
    context_reason: str | None = None  # why messages before the question were rolled back
    guidance: str | None = None  # a person's instruction for this attempt
    earlier_answers: tuple[str, ...] = ()  # which a person wants replaced by another one
    found_nothing: bool = False  # documents were searched for, and none of them is relevant


def head_of(
    transcript: Sequence[AnyMessage],
    summaries: Sequence[str],
    *,
    system_prompt: str | None,
    texts: Texts,
    offloaded: Offloaded | None = None,
) -> list[AnyMessage]:
    """Return the system message of a context, in a list; the list is empty without any text.

    It has the system prompt, the transcript's system messages and the `summaries` of topics. System
    messages that were offloaded come before the others.
    """
    # What changes least comes first, so that most of the provider's cache stays valid.
    instructions = offloaded.get("instructions", []) if offloaded else []
    live = (text_of(message) for message in transcript if message.type == "system")
    parts = [system_prompt] if system_prompt else []
    parts += [text for text in (*instructions, *live) if text.strip()]
    if summaries:
        quotes = [fenced(each, texts) for each in summaries]
        parts.append("\n".join([texts.say("summary_heading"), *quotes]))
    return [SystemMessage("\n\n".join(parts))] if parts else []


def lay_out(
    shown: Sequence[AnyMessage],
    hints: Hints,
    texts: Texts,
    *,
    summaries: Mapping[str, Sequence[str]] | None = None,
    recalled: AnyMessage | None = None,
) -> list[AnyMessage]:
    """Return the messages of a plan with summaries of topics, recalled messages and hints.

    `summaries` are texts of topics, by the id of the message that they precede; if that one is
    not shown, they come first. Documents come before their question. `recalled` quotes earlier
    messages and precedes the newest question and its documents. `hints` are added to the end of
    that question; without one, to the system message, which is made if it is missing.
    """
    # All that changes from call to call is at the end: the provider's cache before it stays valid.
    texts_by_id = summaries or {}
    ids = {message.id for message in shown}
    lost = [text for name, group in texts_by_id.items() if name not in ids for text in group]
    view: list[AnyMessage] = [summary_message(lost, texts)] if lost else []
    for message in shown:
        if texts_before := texts_by_id.get(message.id or ""):
            view.append(summary_message(texts_before, texts))
        view.append(message)
    view = summaries_as_user(_presented(view, texts))
    if recalled is not None:
        place = next((i for i in range(len(view) - 1, -1, -1) if is_question(view[i])), len(view))
        while 0 < place < len(view) and is_document(view[place - 1]):
            place -= 1
        view.insert(place, recalled)
    if parts := _hints(hints, texts):
        view = append_to_question(view, texts.say("turn_hints", hints="\n\n".join(parts)))
    return view


def sendable(
    context: Sequence[AnyMessage],
    *,
    texts: Texts,
    provider: Provider | None,
    readable: bool = False,
) -> list[AnyMessage]:
    """Return the context in the provider's form, with large tool results shortened.

    The result is not checked: the caller gives it to `validate`, which raises. `texts` has the words
    to add; with `None` as `provider` only the rules that all providers share apply.
    `readable`: whether the model can read the rest of a result longer than `RESULT_BYTES`.
    """
    shorten = partial(shortened_result, limit_bytes=RESULT_BYTES, readable=readable)
    messages = [shorten(each) if isinstance(each, ToolMessage) else each for each in context]
    interrupted = texts.say("interrupted_tool")
    return conform(
        messages, opening=texts.say("opening"), provider=provider, interrupted=interrupted
    )


def _presented(messages: Sequence[AnyMessage], texts: Texts) -> list[AnyMessage]:
    # Documents come before their question and are fenced as data.
    ordered: list[AnyMessage] = []
    for message in messages:
        place = len(ordered)
        if is_document(message):
            while place > 0 and is_question(ordered[place - 1]):
                place -= 1
            message = _as_data(message, texts)  # noqa: PLW2901 - the same message, presented
        ordered.insert(place, message)
    return ordered


def _as_data(document: AnyMessage, texts: Texts) -> AnyMessage:
    words = text_of(document)
    fence = Fence.around(words, salt=texts.salt)
    return with_text(document, texts.say("document", document=fence.wrap("document", words)))


def _hints(hints: Hints, texts: Texts) -> list[str]:
    fence = Fence.around(
        *hints.rejections,
        hints.context_reason or "",
        *hints.lessons,
        hints.guidance or "",
        *hints.earlier_answers,
        salt=texts.salt,
    )
    parts = [texts.say("found_nothing")] if hints.found_nothing else []
    if hints.lessons:
        lesson_lines = "\n".join(fence.wrap("reason", lesson) for lesson in hints.lessons)
        parts.append(texts.say("lessons", lessons=lesson_lines))
    if hints.context_reason is not None:
        reason = fence.wrap("reason", hints.context_reason or texts.say("no_reason"))
        parts.append(texts.say("retry_context", reasons=reason))
    if hints.rejections:
        # A judge of the user's may give a score alone.
        rejection_reasons = [reason or texts.say("no_reason") for reason in hints.rejections]
        reasons = "\n".join(fence.wrap("reason", reason) for reason in rejection_reasons)
        parts.append(texts.say("retry", attempt=hints.attempt, reasons=reasons))
    if hints.earlier_answers:
        answers = "\n".join(fence.wrap("answer", each) for each in hints.earlier_answers)
        parts.append(texts.say("another_answer", answers=answers))
    if hints.guidance:
        parts.append(texts.say("guidance", guidance=fence.wrap("reason", hints.guidance)))
    return parts
