"""The options that several commands share. Only Click is imported here, as in `main`."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def shared(command: F) -> F:
    """The options of every command."""
    db = click.option("--db", metavar="PATH", help="Database file, instead of unsay's own.")
    as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
    return db(as_json(command))


def thread(note: str, *, required: bool = False) -> Callable[[F], F]:
    """Which conversation is meant."""
    told = f"The conversation; {note}."
    return click.option("--thread", metavar="ID", required=required, help=told)


def models(command: F) -> F:
    """Who answers, and who judges."""
    model = click.option("--model", metavar="NAME", help="Answers; default $UNSAY_MODEL.")
    judge = click.option(
        "--judge-model", metavar="NAME", help="Judges the answers; default the answering model."
    )
    return model(judge(command))


def place(command: F) -> F:
    """A place on the record."""
    to = click.argument("to", metavar="[CHECKPOINT]", required=False)
    turns = click.option("--turns", metavar="N", type=int, help="So many turns back instead.")
    return to(turns(command))


def labelled(what: str) -> Callable[[F], F]:
    """Labels that must match."""
    return click.option(
        "--label",
        "labels",
        metavar="NAME=VALUE",
        multiple=True,
        callback=_pairs,
        help=f"Only {what} with this label; may be given several times.",
    )


def begun(what: str) -> Callable[[F], F]:
    """Bounds in time."""

    def both(command: F) -> F:
        since = click.option("--since", metavar="ISO", help=f"Only {what} begun then or later.")
        until = click.option("--until", metavar="ISO", help=f"Only {what} begun before.")
        return since(until(command))

    return both


def paged(command: F) -> F:
    """How much at once, and from where on."""
    limit = click.option("--limit", metavar="N", type=int, help="At most so many; default all.")
    cursor = click.option("--cursor", metavar="C", help="Go on where a shorter list ended.")
    return limit(cursor(command))


def pairs(command: F) -> F:
    """Any number of NAME=VALUE."""
    return click.argument("labels", metavar="[NAME=VALUE]...", nargs=-1, callback=_pairs)(command)


def _pairs(
    context: click.Context, parameter: click.Parameter, given: Sequence[str]
) -> dict[str, str]:
    for each in given:
        if "=" not in each:
            raise click.BadParameter(f"{each!r} is no label: write NAME=VALUE", context, parameter)
    split = (each.partition("=") for each in given)
    return {name: value for name, _, value in split}
