"""Inputs, commands and updates of a host: read and checked before LangGraph stores them.

A host may write the channels of `Input`. Messages are read as LangGraph's `add_messages` reads them.
Each gets an id here, so that the same question is another message in another thread or run.
"""

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import partial
from typing import Annotated, Any
from uuid import UUID, uuid4

from langchain_core.messages import AnyMessage, BaseMessage, convert_to_messages
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.types import Command, Overwrite, StateUpdate
from pydantic import BaseModel, BeforeValidator, WithJsonSchema

from unsay.arguments import check_text
from unsay.errors import InputError
from unsay.messages.conformance import plain
from unsay.messages.content import preview
from unsay.orders.order import order_values, read_order
from unsay.state import Input, State

_MAY_WRITE = f"a host may write {', '.join(Input.__annotations__)}. Nothing was stored"
_SERIALIZER = JsonPlusSerializer()


@dataclass(frozen=True, slots=True, kw_only=True)
class HostInput:
    """A host's input or update, as LangGraph takes it; made by `read_input` and `read_update`.

    `value` has only what a host may write. `others` has all other values by name. A host may pass
    those of the graph's other channels as long as they are those of the thread.
    """

    value: Any
    others: dict[str, Any] = field(default_factory=dict)


def read_input(value: Any) -> HostInput:
    """Read what a host passes to `invoke` or `stream`: a state, a `Command`, or `None` to resume.

    Raises:
        InputError: The graph cannot take it; the message says why.
    """
    if value is None:
        return HostInput(value=None)
    if isinstance(value, Command):
        return _read_command(value)
    values = _by_channel(value)
    if values and State.__annotations__.keys().isdisjoint(values):
        names = ", ".join(map(repr, values))
        raise InputError(f"The input has only {names}, which the graph does not read; {_MAY_WRITE}")
    return _read_values(values)


def read_update(update: StateUpdate) -> HostInput:
    """Read one update of `update_state`; the result's `value` is an update that can be written.

    Raises:
        InputError: The graph cannot take it; the message says why.
    """
    values: Any = update.values
    if update.as_node != "__copy__" or not isinstance(values, list):
        host_input = read_input(values)
        return HostInput(value=update._replace(values=host_input.value), others=host_input.others)
    # LangGraph takes a list of updates, with their nodes, only together with a copy.
    copies = [read_update(StateUpdate(*_pair(item))) for item in values]
    others = {name: other for each in copies for name, other in each.others.items()}
    pairs: Any = [each.value[:2] for each in copies]
    return HostInput(value=update._replace(values=pairs), others=others)


def check_thread_id(given: object) -> None:
    """Raise `InputError` for an id that several users could share by mistake, or that breaks a saver.

    LangGraph makes a text of any value, so all runs without an id would share the thread "None".
    """
    is_id = isinstance(given, str | int | UUID) and not isinstance(given, bool) and str(given)
    if not is_id or "\0" in str(given):
        raise InputError(
            f"thread_id={given!r} cannot name a thread: put a text of 1 character or more into "
            "config['configurable']. Nothing was stored"
        )
    check_text(str(given), "thread_id")


def refusal_of(others: Collection[str]) -> InputError:
    """Return the error to raise for channels that a host may not write."""
    writer = "unsay" if set(others) <= State.__annotations__.keys() else "the agent inside"
    return InputError(f"{', '.join(sorted(others))}: only {writer} writes this; {_MAY_WRITE}")


def read_messages(value: Any) -> list[BaseMessage]:
    """Read messages as LangGraph's `add_messages` does, and give an id to each that has none.

    One message or text is read as a list of one. Raises `InputError` if they are not messages.
    """
    try:
        raw_messages = convert_to_messages(value if isinstance(value, list) else [value])
        messages = [plain(message) for message in raw_messages]
    except Exception as error:  # LangChain raises many kinds
        raise InputError(
            f"messages: LangChain reads no messages in {_shown(value)}. Pass a text, a message, or "
            'a list of these, such as [{"role": "user", "content": "…"}]. Nothing was stored'
        ) from error
    return [m if m.id else m.model_copy(update={"id": str(uuid4())}) for m in messages]


# LangChain's own schema of messages has 20 kB, which a model would be sent with every call.
_MESSAGE_SCHEMA = {
    "type": "object",
    "properties": {"role": {"type": "string"}, "content": {"type": "string"}},
    "required": ["role", "content"],
}


class ToolInput(BaseModel):
    """The input as a tool's arguments; messages may have every form that the graph reads."""

    messages: Annotated[
        list[AnyMessage],
        BeforeValidator(read_messages),
        WithJsonSchema({"type": "array", "items": _MESSAGE_SCHEMA}),
    ] = []
    order: dict[str, Any] | None = None
    should_rollback: bool = False
    rollback_checkpoint_id: str | None = None
    start_task: str | None = None


def _read_command(command: Command[Any]) -> HostInput:
    if command.goto:
        raise InputError(
            f"goto={_shown(command.goto)}: the graph itself chooses its next node; pass only "
            "update or resume. Nothing was stored"
        )
    _check_storable("resume", command.resume)
    update: Any = command.update
    if isinstance(update, list | tuple):
        update = dict(_pair(item) for item in update)
    host_input = _read_values({} if update is None else _by_channel(update))
    if command.resume is None and not host_input.value:
        if others := host_input.others.keys() & State.__annotations__:
            raise refusal_of(others)
        raise InputError(f"The command is empty: pass update or resume; {_MAY_WRITE}")
    return HostInput(
        value=replace(command, update=host_input.value or None), others=host_input.others
    )


def _pair(item: Any) -> tuple[Any, Any]:
    if isinstance(item, list | tuple) and len(item) == 2:
        return item[0], item[1]
    raise InputError(f"{_shown(item)} is not a pair. Nothing was stored")


def _by_channel(value: Any) -> Mapping[Any, Any]:
    """Return the values of a state by channel: a mapping, a pydantic model, or a dataclass.

    Raises `InputError` for anything else.
    """
    if isinstance(value, BaseModel):
        return {name: getattr(value, name) for name in value.model_fields_set}
    if is_dataclass(value) and not isinstance(value, type | Overwrite):
        return {each.name: getattr(value, each.name) for each in fields(value)}
    if isinstance(value, Mapping):
        return value
    raise InputError(f"{_shown(value)} is not a mapping of values by channel; {_MAY_WRITE}")


def _read_values(given: Mapping[Any, Any]) -> HostInput:
    """Read values by channel; the result's `value` has those that a host may write, checked.

    Messages without an id get one. `others` has the other values, unchecked: the caller must refuse
    those of channels if they change something. Raises `InputError` for a bad value.
    """
    value = {}
    for name in Input.__annotations__.keys() & given.keys():
        _refuse_overwrite(name, given[name])
        value[name] = _READERS[name](given[name])
        _check_storable(name, value[name])
    others = given.keys() - value.keys()
    return HostInput(value=value, others={name: given[name] for name in others})


def _refuse_overwrite(name: str, value: Any) -> None:
    """Raise `InputError` if a host's value is an overwrite, in any of LangGraph's three forms."""
    is_form = isinstance(value, Mapping) and (
        "__overwrite__" in value or value.get("type") == "__overwrite__"
    )
    if is_form or isinstance(value, Overwrite):
        raise InputError(
            f"{name}: a host cannot overwrite it; to replace the messages, pass "
            "RemoveMessage(REMOVE_ALL_MESSAGES) and then the new ones. Nothing was stored"
        )


def _read_flag(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise InputError(
        f"should_rollback must be true or false, got {_shown(value)}. Nothing was stored"
    )


def _read_name(value: Any, *, rule: str) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise InputError(f"{rule} or null, got {_shown(value)}. Nothing was stored")


def _read_order(value: Any) -> dict[str, Any] | None:
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise InputError(
            f"order must be a mapping with a verb, got {_shown(value)}. Nothing was stored"
        )
    return order_values(read_order(value))


_READERS: dict[str, Callable[[Any], Any]] = {
    "messages": read_messages,
    "should_rollback": _read_flag,
    "rollback_checkpoint_id": partial(
        _read_name, rule="rollback_checkpoint_id must be a checkpoint's id"
    ),
    "start_task": partial(_read_name, rule="start_task must be the task's name"),
    "order": _read_order,
}


def _check_storable(name: str, value: Any) -> None:
    """Raise `InputError` if a value cannot be stored, such as one with a lone surrogate.

    `name` names the value in the error.
    """
    try:
        _SERIALIZER.dumps_typed(value)
        json.dumps(value, ensure_ascii=False, default=_plain, skipkeys=True).encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"{name}: the text has {error.object[error.start]!r}, which is half a character; "
            "remove it. Nothing was stored"
        ) from error
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"{name} cannot be stored: {error}. Nothing was stored") from error


def _plain(value: Any) -> Any:
    return value.model_dump() if isinstance(value, BaseModel) else str(value)


def _shown(value: Any) -> str:
    return preview(repr(value))
