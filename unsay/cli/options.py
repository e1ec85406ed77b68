"""The options and arguments of each command, from `parameters.toml`."""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from math import inf
from pathlib import Path
from typing import Any, get_args

import click

from unsay.types import EventType, RunPhase, RunStatus


class Number(click.FloatRange):
    """Click's type for a number from `least` to `most`; `None` for `most` is no upper bound."""

    def __init__(self, kind: type[int | float], *, least: int, most: int | None = None) -> None:
        super().__init__(least, most)
        self._kind, self._least, self._most = kind, least, most

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> int | float:
        """Return the number; `UsageError` names the option and the value that it does not take."""
        noun = "a whole number" if self._kind is int else "a number"
        bounds = (
            f"{self._least} or more" if self._most is None else f"{self._least} to {self._most}"
        )
        option = param.opts[0] if param else "The number"
        try:
            number = self._kind(value)
        except ValueError:
            raise click.UsageError(f"{option} must be {noun}, got {value!r}.", ctx) from None
        if not self._least <= number <= (inf if self._most is None else self._most):
            raise click.UsageError(f"{option} must be {bounds}, got {value}.", ctx)
        return number


def _zoned(context: click.Context, parameter: click.Parameter, given: str | None) -> str | None:
    """Return a time with its zone; what is not a time is returned unchanged, and refused later."""
    del context, parameter
    try:
        moment = datetime.fromisoformat(given or "")
    except ValueError:
        return given
    return given if moment.tzinfo else moment.astimezone().isoformat()


def _pairs(
    context: click.Context, parameter: click.Parameter, given: Sequence[str]
) -> dict[str, str]:
    for each in given:
        if "=" not in each:
            raise click.BadParameter(
                f"{each!r} is not a label: write NAME=VALUE.", context, parameter
            )
    return {name: value for name, _, value in (each.partition("=") for each in given)}


PARAMETERS = tomllib.loads(Path(__file__).with_name("parameters.toml").read_text("utf-8"))

_TYPES: Mapping[str, Any] = {
    "count": Number(int, least=1),
    "share": Number(float, least=0, most=1),
    "cost": Number(float, least=0),
    "event_type": click.Choice(get_args(EventType)),
    "run_phase": click.Choice(get_args(RunPhase)),
    "run_status": click.Choice(get_args(RunStatus)),
}
_CALLBACKS = {"pairs": _pairs, "zoned": _zoned, "joined": lambda *given: " ".join(given[-1])}


def parameters(rows: Sequence[str | Mapping[str, Any]]) -> Iterator[click.Parameter]:
    """Yield the parameters of rows of `parameters.toml`, of which a text names a set of rows."""
    for row in rows:
        if isinstance(row, str):
            yield from parameters(PARAMETERS["sets"][row])
        else:
            yield _parameter(**row)


def _parameter(
    *, argument: str = "", option: str = "", into: str = "", **own: Any
) -> click.Parameter:
    """Return Click's parameter of a row: an argument, or an option such as `--model NAME`.

    `into` is the name of the command's parameter if it differs from the flag's. A `type` or a
    `callback` is the name of one of this file, and an option without a value and choices is a flag.
    `own` is passed to Click.
    """
    if choices := own.pop("choices", ()):
        own["type"] = click.Choice(choices)
    elif "type" in own:
        own["type"] = _TYPES[own["type"]]
    if "callback" in own:
        own["callback"] = _CALLBACKS[own["callback"]]
    if argument:
        return click.Argument([argument], **own)
    flag, _, value = option.partition(" ")
    kind: dict[str, Any] = {"metavar": value} if value else {"is_flag": "type" not in own}
    return click.Option([flag, *filter(None, [into])], **kind, **own)


def parameters_of(command: str) -> list[click.Parameter]:
    """Return a command's parameters; a thread is an argument too if there is no other argument."""
    rows = PARAMETERS["commands"].get(command, [])
    if command not in PARAMETERS["threadless"]:
        note = PARAMETERS["thread_notes"].get(command, "default: the last one")
        thread = {"option": "--thread ID", "help": f"Id of the conversation; {note}."}
        rows = [thread, *rows]
    own = list(parameters([*rows, "shared"]))
    arguments: list[click.Parameter] = [each for each in own if isinstance(each, click.Argument)]
    options = [each for each in own if each not in arguments]
    if command not in PARAMETERS["threadless"]:
        arguments = arguments or list(parameters(["named"]))
    return [*arguments, *options]
