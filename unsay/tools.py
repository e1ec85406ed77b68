"""Tools with consequences: `@reversible` tells how to undo a call, `@risky` asks for a checkpoint before."""

import asyncio
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from functools import wraps
from string import Formatter
from typing import Any, TypeVar

from langchain_core.tools import BaseTool
from pydantic import BaseModel

from unsay.arguments import configured, shown
from unsay.effects import run_on_own_loop
from unsay.errors import ConfigurationError, InputError

T = TypeVar("T")

KEY = "__unsay_reversal__"
"""Attribute of a tool, or of its function, that holds its reversal."""

RISKY = "__unsay_risky__"
"""Attribute of a tool, or of its function, that is marked as `risky`."""

OURS = {"unsay": "memory"}  # the metadata of our own tools

WHOLE = ("args", "result")
"""Parameters that receive all arguments of a call, and the text of its result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reversal:
    """How to undo the calls of one tool; `reversible` makes it and explains the fields."""

    undo: Callable[..., Any] | None = None
    confirm: bool = False
    idempotent: bool = False
    describe: Callable[..., str] | str | None = None
    retrieval: bool = False

    def undo_sync(self, args: Mapping[str, Any], result: str) -> None:
        """Call `undo` with the arguments and the result of a call; errors of `undo` are raised.

        An asynchronous `undo` runs on a new event loop in another thread. This blocks until it
        ends. Raises `InputError` if the call lacks an argument that `undo` needs.
        """
        outcome = self._call_undo(args, result)
        if inspect.isawaitable(outcome):
            # In a new thread, because `asyncio.run` refuses a thread in which a loop runs already.
            with ThreadPoolExecutor(max_workers=1) as pool:
                pool.submit(copy_context().run, asyncio.run, _await(outcome)).result()

    async def undo_async(self, args: Mapping[str, Any], result: str) -> None:
        """Do on an event loop what `undo_sync` does; the same errors are raised.

        A blocking `undo` runs in another thread.
        """
        if inspect.iscoroutinefunction(self.undo):
            await self._call_undo(args, result)
            return
        outcome = await asyncio.to_thread(self._call_undo, args, result)
        if inspect.isawaitable(outcome):
            await outcome

    def describe_call(self, tool: str, args: Mapping[str, Any], result: str | None) -> str:
        """Return a call in words for a person: by `describe`, else its tool's name and arguments.

        An error of `describe` is not raised: the name and the arguments are returned.
        """
        plain = f"{tool}({', '.join(f'{name}={value!r}' for name, value in args.items())})"
        try:
            if isinstance(self.describe, str):
                return self.describe.format_map({**args, "args": dict(args), "result": result})
            if self.describe is not None:
                return str(self.describe(**_given(self.describe, args, result or "")))
        except Exception:  # noqa: BLE001 - the developer's own words may fail in any way
            return plain
        return plain

    def _call_undo(self, args: Mapping[str, Any], result: str) -> Any:
        assert self.undo is not None  # noqa: S101 - calls without consequences are never undone
        undo_args = _given(self.undo, args, result)
        for param in inspect.signature(self.undo).parameters.values():
            variadic = param.kind in (param.VAR_POSITIONAL, param.VAR_KEYWORD)
            if param.default is param.empty and not variadic and param.name not in undo_args:
                raise InputError(
                    f"The call has no argument {param.name!r}, which {shown(self.undo)} needs: give "
                    "this parameter of the undo a default, or read `args`"
                )
        return self.undo(**undo_args)


async def _await(outcome: Any) -> Any:
    return await outcome


@configured
def reversible(
    *,
    undo: Callable[..., Any] | None,
    confirm: bool = False,
    idempotent: bool = False,
    describe: Callable[..., str] | str | None = None,
    retrieval: bool = False,
) -> Callable[[T], T]:
    """Declare how to undo the calls of a tool when a rollback removes them from the transcript.

    Args:
        undo: Undoes one call, blocking or asynchronous. Its parameters are `args`, all arguments
            of the call; `result`, the text that the call returned; or arguments of the call by
            name. An argument that the call left out has the tool's default if that is text, a
            number, a boolean or `None`; otherwise the undo needs a default, else it fails. `None`
            declares that the tool has no consequences: it is never reported.
        confirm: Ask a person before; unless they agree, the call is not undone.
        idempotent: Whether `undo` may run twice for one call: after a crash it then runs again.
            If it may not, the call is then reported as one that may have been undone.
        describe: Describes the call to the person who is asked or notified: a function with the
            same parameters, or a text such as `"the order {order_id}"`.
        retrieval: Whether the tool searches for documents. A judge then reads each result. An
            irrelevant one is left out of the context; while all are irrelevant, another query is
            tried. `metadata={"retrieval": True}` of a LangChain tool says the same.

    Returns:
        A decorator for a function or a LangChain tool; it returns the same object.

    Raises:
        ConfigurationError: An argument has the wrong type; or, from the decorator: `undo` or
            `describe` has a parameter or placeholder that no call of the tool fills, or what is
            decorated is no tool.

    Example:
        >>> booked = []
        >>> def cancel(seat: str) -> None:
        ...     booked.remove(seat)
        >>> @reversible(undo=cancel, describe="the booking of seat {seat}")
        ... def book(seat: str) -> str:
        ...     '''Reserve a seat.'''
        ...     booked.append(seat)
        ...     return "booked"
        >>> reversal_of(book).describe_call("book", {"seat": "4A"}, "booked")
        'the booking of seat 4A'
    """
    reversal = Reversal(
        undo=undo, confirm=confirm, idempotent=idempotent, describe=describe, retrieval=retrieval
    )

    def decorate(target: T) -> T:
        _check_tool(target)
        for function in (undo, describe):
            if callable(function):
                _check(function, target)  # here, so that no rollback is the first to fail
        if isinstance(describe, str):
            _check_placeholders(describe, target)
        _attach(target, KEY, value=reversal)
        return target

    return decorate


def risky(target: T) -> T:
    """Mark a tool as risky: a checkpoint is made before each step that calls it.

    The argument is a function, a method or a LangChain tool, which is returned. A method is marked
    for all objects of its class. `checkpoint_on` must have `risky`, as it has by default.

    Raises:
        ConfigurationError: The argument is none of these.

    Example:
        >>> @risky
        ... def drop(table: str) -> str:
        ...     '''Delete a table.'''
        ...     return "deleted"
        >>> is_risky(drop)
        True
    """
    # A bound method takes no attributes, and has those of its function.
    _attach(target.__func__ if inspect.ismethod(target) else target, RISKY, value=True)
    return target


def is_risky(target: Any) -> bool:
    """Return whether `risky` marked a tool or the function of a tool."""
    return any(getattr(each, RISKY, False) for each in _holders(target))


def _attach(target: Any, name: str, *, value: Any) -> None:
    _check_tool(target)
    # A LangChain tool is a pydantic model, which refuses new attributes.
    object.__setattr__(target, name, value)


def _check_tool(target: Any) -> None:
    """Raise `ConfigurationError` unless the target is a function or a LangChain tool."""
    if not (isinstance(target, BaseTool) or inspect.isfunction(target)):
        raise ConfigurationError(
            f"{target!r} is not a tool: decorate a function or a LangChain tool, such as `tool(…)` "
            "makes of a method"
        )


def _holders(target: Any) -> tuple[Any, ...]:
    return target, getattr(target, "func", None), getattr(target, "coroutine", None)


def reversal_of(target: Any) -> Reversal | None:
    """Return how to undo a tool's calls; `None` if that was never declared, or for `None`."""
    reversals = (getattr(each, KEY, None) for each in _holders(target))
    return next((each for each in reversals if isinstance(each, Reversal)), None)


def is_retrieval(tool: BaseTool) -> bool:
    """Return whether a tool is marked as one that searches for documents."""
    reversal = reversal_of(tool)
    marked = reversal is not None and reversal.retrieval
    return marked or (tool.metadata or {}).get("retrieval") is True


def offers(tools: Iterable[BaseTool], name: str) -> bool:
    """Return whether unsay's own tool of this name is among the tools.

    A user's tool of the same name does not count.
    """
    return any(each.name == name and each.metadata == OURS for each in tools)


def whole_args(target: BaseTool, args: Mapping[str, Any]) -> dict[str, Any]:
    """Return a call's arguments and the defaults of those that it left out, for its undo.

    Only defaults that are text, numbers, booleans or `None` are added: others cannot be stored.
    They are those of the tool's pydantic model or, as on an MCP server, of its JSON schema.
    """
    schema, defaults = target.args_schema, {}
    if isinstance(schema, dict):  # JSON Schema, as tools of an MCP server have
        described = schema.get("properties", {}).items()
        # The schema of an argument that takes any value can be `True`.
        dicts = [(name, each) for name, each in described if isinstance(each, dict)]
        defaults = {name: each["default"] for name, each in dicts if "default" in each}
    elif isinstance(schema, type) and issubclass(schema, BaseModel):
        fields = schema.model_fields.items()
        defaults = {name: field.default for name, field in fields if not field.is_required()}
    plain = (str, int, float, bool, type(None))  # other defaults cannot be stored with the call
    return {**{name: value for name, value in defaults.items() if isinstance(value, plain)}, **args}


def _given(function: Callable[..., Any], args: Mapping[str, Any], result: str) -> dict[str, Any]:
    """Return those of a call's arguments (and `args`, `result`) that a function takes."""
    parameters = inspect.signature(function).parameters.values()
    call_args = {**args, "args": dict(args), "result": result}
    if any(param.kind is param.VAR_KEYWORD for param in parameters):
        return {
            **args,
            **{n: call_args[n] for n in WHOLE if n in {param.name for param in parameters}},
        }
    return {param.name: call_args[param.name] for param in parameters if param.name in call_args}


def _check(function: Callable[..., Any], target: Any) -> None:
    """Raise `ConfigurationError` if a parameter of the function is filled by no call of the tool."""
    parameter_names = _parameters(target)
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError as error:  # some builtins
        raise ConfigurationError(
            f"{shown(function)}: {error}; pass a function with named parameters that calls it"
        ) from None
    for param in parameters:
        is_by_name = param.kind in (param.POSITIONAL_OR_KEYWORD, param.KEYWORD_ONLY)
        filled = (
            param.default is not param.empty
            or parameter_names is None
            or param.name in parameter_names
        )
        if param.kind is not param.VAR_KEYWORD and not (is_by_name and filled):
            raise ConfigurationError(
                f"{shown(function)} has a parameter {str(param)!r} that no call of the tool fills: use "
                f"{', '.join(map(repr, sorted(parameter_names or WHOLE)))}, by name"
            )


def _check_placeholders(text: str, target: Any) -> None:
    """Raise `ConfigurationError` if a placeholder of a `describe` is filled by no call of the tool."""
    parameter_names = _parameters(target)
    try:
        fields = [field for _, field, _, _ in Formatter().parse(text) if field is not None]
    except ValueError as error:
        raise ConfigurationError(
            f"describe={text!r}: {error}; write {{{{ or }}}} for a brace"
        ) from None
    for field in fields:
        if parameter_names is not None and re.split(r"[.\[]", field)[0] not in parameter_names:
            raise ConfigurationError(
                f"describe={text!r} has a placeholder {{{field}}} that no call of the tool fills: use "
                f"{', '.join(f'{{{name}}}' for name in sorted(parameter_names))}"
            )


def _parameters(target: Any) -> set[str] | None:
    """Return the parameter names that an `undo` or `describe` of the tool may have.

    They are the tool's own parameters, and `args` and `result`. `None` means any name: the tool
    takes `**kwargs`.
    """
    if isinstance(target, BaseTool):
        return {*target.args, *WHOLE}
    parameters = inspect.signature(target).parameters.values()
    if any(param.kind is param.VAR_KEYWORD for param in parameters):
        return None  # a call can fill any name
    return {*(param.name for param in parameters), *WHOLE}


def is_hand_off(call: Mapping[str, Any]) -> bool:
    """Return whether a tool call only hands the conversation to another agent, so needs no undo.

    The tools of LangGraph's supervisors and swarms are known by their names and lack of arguments.
    """
    return not call["args"] and call["name"].startswith(("transfer_to_", "transfer_back_to_"))


def also_blocking(tool: BaseTool) -> BaseTool:
    """Return a tool that can also be called without an event loop, such as one of an MCP server.

    An async-only tool is copied: the copy's blocking call runs on an event loop in another thread.
    Any other tool is returned unchanged.
    """
    coroutine = getattr(tool, "coroutine", None)
    if coroutine is None or getattr(tool, "func", None) is not None:
        return tool

    @wraps(coroutine)
    def blocking(*args: Any, **kwargs: Any) -> Any:
        return run_on_own_loop(coroutine(*args, **kwargs))

    return tool.model_copy(update={"func": blocking})
