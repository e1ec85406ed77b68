"""The options that several commands share. Only Click is imported here, as in `main`."""

from collections.abc import Sequence

import click

THREAD = "the last one by default"

SHARED = (
    click.Option(["--db"], metavar="PATH", help="Database file, instead of unsay's own."),
    click.Option(["--json", "as_json"], is_flag=True, help="Print JSON for programs."),
)
"""The options of every command."""

MODELS = (
    click.Option(["--model"], metavar="NAME", help="Answers; default $UNSAY_MODEL."),
    click.Option(
        ["--judge-model"],
        metavar="NAME",
        help="Judges the answers; default the answering model.",
    ),
)
"""Who answers, and who judges."""

PLACE = (
    click.Argument(["to"], metavar="[CHECKPOINT]", required=False),
    click.Option(["--turns"], metavar="N", type=int, help="So many turns back instead."),
)
"""A checkpoint or a number of turns."""

PINNED = (
    click.Argument(["message_id"], metavar="[ID]", required=False),
    click.Option(["--turn"], metavar="N", type=int, help="All of this turn."),
)
"""A message or a turn."""

PAGE = (
    click.Option(["--limit"], metavar="N", type=int, help="At most so many; default all."),
    click.Option(["--cursor"], metavar="C", help="Go on where a shorter list ended."),
)
"""How much at once, and from where on."""


def thread(note: str = THREAD, *, required: bool = False) -> click.Option:
    """Return the option that says which conversation is meant."""
    return click.Option(
        ["--thread"], metavar="ID", required=required, help=f"The conversation; {note}."
    )


def labelled(what: str) -> click.Option:
    """Return the option for labels that must match."""
    return click.Option(
        ["--label", "labels"],
        metavar="NAME=VALUE",
        multiple=True,
        callback=pairs,
        help=f"Only {what} with this label; may be given several times.",
    )


def begun(what: str) -> tuple[click.Option, click.Option]:
    """Return the options for bounds in time."""
    return (
        click.Option(["--since"], metavar="ISO", help=f"Only {what} begun then or later."),
        click.Option(["--until"], metavar="ISO", help=f"Only {what} begun before."),
    )


def pairs(
    context: click.Context, parameter: click.Parameter, given: Sequence[str]
) -> dict[str, str]:
    """Split each NAME=VALUE."""
    for each in given:
        if "=" not in each:
            raise click.BadParameter(f"{each!r} is no label: write NAME=VALUE", context, parameter)
    split = (each.partition("=") for each in given)
    return {name: value for name, _, value in split}
