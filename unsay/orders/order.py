"""Orders: what a person asks of a thread, the same at every door.

A method makes an order from its arguments, a chat from a typed line (`typed_order`), a host from a
mapping such as `{"verb": "rollback", "to": "draft"}` (`read_order`). `verbs/carry_out.py` carries it
out.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar, get_args

from pydantic import ConfigDict, TypeAdapter, ValidationError
from typing_extensions import dataclass_transform

from unsay.errors import InputError

if TYPE_CHECKING:  # the results of the orders, which are named in quotes
    from unsay.context.plan import Omission  # noqa: F401
    from unsay.memory.lessons import Lesson, Rating  # noqa: F401
    from unsay.memory.recall import Find  # noqa: F401
    from unsay.results.results import Checkpoint, RollbackResult  # noqa: F401
    from unsay.types import Forgotten, Pin  # noqa: F401

T = TypeVar("T")


@dataclass_transform(kw_only_default=True, frozen_default=True)
@dataclass(frozen=True, kw_only=True)
class Order(Generic[T]):
    """An order with its arguments; `T` is what its method returns. A subclass is a dataclass, too.

    Class attributes:
        verb: Its name in a host's mapping.
        reads: It changes nothing.
        rewrites: It changes which messages are in the transcript; in a graph the node `rollback`
            carries it out.
        asks: The model answers next, so only a graph carries it out.
        requires: `settled` also refuses it while a stopped turn can be resumed.

    Attributes:
        typed: The slash command that a person typed; empty if it was not typed.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")
    verb: ClassVar[str]
    reads: ClassVar[bool] = False
    rewrites: ClassVar[bool] = False
    asks: ClassVar[bool] = False
    requires: ClassVar[Literal["decided", "settled"]] = "decided"

    typed: str = ""

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True, kw_only=True)(cls)


class SaveCheckpoint(Order["Checkpoint"]):
    """Save a checkpoint at the newest answer; with `task` also before the first one."""

    verb = "checkpoint"
    name: str | None = None
    task: bool = False


class Rollback(Order["RollbackResult"]):
    """Roll back to a checkpoint (`to`) or by N turns; without both to the last good point."""

    verb = "rollback"
    rewrites = True
    to: str | None = None
    turns: int | None = None


class Undo(Order["RollbackResult"]):
    """Undo the newest step."""

    verb = "undo"
    rewrites = True


class Redo(Order["RollbackResult"]):
    """Redo the step that was undone last."""

    verb = "redo"
    rewrites = True


class Remove(Order["RollbackResult"]):
    """Take one turn out, and keep the later ones."""

    verb = "remove"
    rewrites = True
    requires = "settled"
    turn: int


class Restore(Order["RollbackResult"]):
    """Restore a branch, a message, a topic or what was forgotten; without a name the newest branch."""

    verb = "restore"
    rewrites = True
    requires = "settled"
    what: str | None = None


class Pick(Order["RollbackResult"]):
    """Copy messages of the branch or thread `source` to the end of the transcript."""

    verb = "pick"
    rewrites = True
    requires = "settled"
    message_ids: Sequence[str]
    source: str


class Retry(Order[None]):
    """Ask the last question again.

    `branch` is the id of the branch with the question of a turn that was stopped just now, which is
    asked instead; a graph sets it.
    """

    verb = "retry"
    rewrites = True
    asks = True
    branch: str | None = None


class Edit(Order[None]):
    """Replace the question of a turn, and ask it again without the later turns."""

    verb = "edit"
    rewrites = True
    asks = True
    requires = "settled"
    turn: int
    text: str


class AddPins(Order["tuple[Pin, ...]"]):
    """Pin a message, or the messages of turns (a number, a range or `None` for the newest)."""

    verb = "pin"
    message_id: str | None = None
    turn: int | str | None = None


class RemovePins(Order["tuple[Pin, ...]"]):
    """Remove the pin of a message, or those of turns, as `AddPins` names them."""

    verb = "unpin"
    message_id: str | None = None
    turn: int | str | None = None


class Forget(Order["Forgotten"]):
    """Forget a message, a span of messages or a topic (`what`), or else `turns`."""

    verb = "forget"
    requires = "settled"
    what: str | None = None
    through: str | None = None
    turns: str | int | None = None
    reason: str = ""


class ForgetToolResults(Order["Forgotten"]):
    """Forget the tool results of the current topic that score below a number from 0 to 1."""

    verb = "forget_tool_results"
    requires = "settled"
    below: float
    question: str | None = None
    reason: str = ""


class Compact(Order["Omission"]):
    """Summarize the context up to a turn or a checkpoint; `None` is the newest answer."""

    verb = "compact"
    requires = "settled"
    up_to: int | str | None = None


class JoinTopics(Order[str]):
    """Say that the topic did not change."""

    verb = "same"


class Recall(Order["tuple[Find, ...]"]):
    """Search earlier messages, and add the matches to the next context."""

    verb = "recall"
    words: str


class Rate(Order["Rating"]):
    """Rate the answer of a turn (`None` is the newest) as `good` or `bad`."""

    verb = "rate"
    turn: int | None = None
    label: str
    note: str = ""


class ChangeLesson(Order["Lesson"]):
    """Change the text of a lesson, an id or a number in the list; `None` removes the lesson."""

    verb = "lesson"
    lesson: str
    text: str | None = None


Subject = Literal["checkpoints", "timeline", "forgotten", "lessons", "help", "tokens", "branches"]


class Show(Order[None]):
    """Show one of the thread's lists; `argument` is what a person typed behind it."""

    verb = "show"
    reads = True
    subject: Subject
    argument: str = ""


def _edit(argument: str) -> Edit:
    number, _, text = argument.partition(" ")
    if not number.removeprefix("-").isdecimal():
        raise InputError(code="not_turn_and_text", given=argument)
    return Edit(turn=int(number), text=text)


def _remove(argument: str) -> Remove:
    if not argument.removeprefix("-").isdecimal():
        raise InputError(code="not_turn", given=argument)
    return Remove(turn=int(argument))


def _rating(label: str, argument: str) -> Rate:
    """Return the order of `/good` or `/bad`: `3 too long`, or only `too long` for the newest turn."""
    number, _, note = argument.partition(" ")
    if number.isdecimal():
        return Rate(turn=int(number), label=label, note=note.strip())
    return Rate(label=label, note=argument)


def _lesson(argument: str) -> ChangeLesson:
    name, _, text = argument.partition(" ")
    return ChangeLesson(lesson=name, text=text)


def _list(subject: Subject, argument: str) -> Show:
    return Show(subject=subject, argument=argument)


TYPED: dict[str, Callable[[str], Order[Any]]] = {
    "undo": lambda _: Undo(),
    "redo": lambda _: Redo(),
    "retry": lambda _: Retry(),
    "edit": _edit,
    "remove": _remove,
    "rollback": lambda argument: Rollback(to=argument or None),
    "restore": lambda argument: Restore(what=argument or None),
    "checkpoint": lambda argument: SaveCheckpoint(name=argument or None),
    "task": lambda argument: SaveCheckpoint(name=argument, task=True),
    "compact": lambda argument: Compact(up_to=argument or None),
    "recall": lambda argument: Recall(words=argument),
    "pin": lambda argument: AddPins(turn=argument or None),
    "unpin": lambda argument: RemovePins(turn=argument or None),
    "forget": lambda argument: Forget(what=argument or None),
    "same": lambda _: JoinTopics(),
    "good": partial(_rating, "good"),
    "bad": partial(_rating, "bad"),
    "lesson": _lesson,
    "unlearn": lambda argument: ChangeLesson(lesson=argument),
    **{subject: partial(_list, subject) for subject in get_args(Subject)},
}


def typed_order(verb: str, argument: str) -> Order[Any]:
    """Return the order that a slash command gives; `InputError` for an argument that it cannot have.

    >>> typed_order("rollback", "2").to
    '2'
    """
    return replace(TYPED[verb](argument), typed=f"/{verb} {argument}".strip())


@cache
def _adapters() -> dict[str, TypeAdapter[Order[Any]]]:
    return {each.verb: TypeAdapter(each) for each in Order.__subclasses__()}


def read_order(value: Mapping[str, Any]) -> Order[Any]:
    """Return the order that a host gives as a mapping of its `verb` and its arguments.

    >>> read_order({"verb": "remove", "turn": 2}).turn
    2

    Raises:
        InputError: The verb is unknown, or an argument is missing, unknown or of another type.
    """
    arguments = {name: argument for name, argument in value.items() if name != "verb"}
    adapter = _adapters().get(str(value.get("verb")))
    if adapter is None:
        names = ", ".join(sorted(_adapters()))
        raise InputError(f"order: {value.get('verb')!r} is not a verb; the verbs are {names}")
    try:
        return adapter.validate_json(json.dumps(arguments), strict=True)
    except TypeError as error:
        raise InputError(
            f"order: {value['verb']} with an argument that is not JSON: {error}"
        ) from error
    except ValidationError as error:
        fault = error.errors()[0]
        name = ".".join(map(str, fault["loc"]))
        raise InputError(f"order: {value['verb']}, {name}: {fault['msg']}") from error


def order_values(order: Order[Any]) -> dict[str, Any]:
    """Return an order as plain values, which `read_order` reads."""
    arguments = {each.name: getattr(order, each.name) for each in fields(order)}
    defaults = {each.name: each.default for each in fields(order)}
    given = {name: value for name, value in arguments.items() if value != defaults[name]}
    return {"verb": order.verb, **given}
