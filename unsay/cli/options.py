"""The options that several commands share. Only Click is imported here, as in `main`."""

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
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


INTERRUPTED = 130
"""Exit code after Ctrl-C: 128 and the signal's number. Source: POSIX shells."""


class LazyGroup(click.Group):
    """Commands whose work is imported when it is called for, and whose errors are one line."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,  # noqa: FBT001, FBT002 - Click's own signature
        **extra: Any,
    ) -> Any:
        """Run a command and exit: 0 done, 1 failed, 2 usage, 3 not found, 4 conflict."""
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        given = list(sys.argv[1:] if args is None else args)
        try:
            code = super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        except click.Abort:
            code = INTERRUPTED
        except Exception as error:  # noqa: BLE001 - the process's edge: every error becomes a line
            code = import_module("unsay.cli.exit_codes").report(error, as_json=_wants_json(given))
        sys.exit(code or 0)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands in the order in which one meets them."""
        del ctx
        return list(self.commands)


def _wants_json(given: Sequence[str]) -> bool:
    end = given.index("--") if "--" in given else len(given)
    return "--json" in given[:end]


HOMES = {
    "chat": "unsay.cli.chat",
    "say": "unsay.cli.say",
    "threads": "unsay.cli.thread_commands",
    "timeline": "unsay.cli.thread_commands",
    "checkpoints": "unsay.cli.thread_commands",
    "checkpoint": "unsay.cli.rollback_commands",
    "rollback": "unsay.cli.rollback_commands",
    "undo": "unsay.cli.rollback_commands",
    "redo": "unsay.cli.rollback_commands",
    "retry": "unsay.cli.say",
    "fork": "unsay.cli.rollback_commands",
    "branches": "unsay.cli.rollback_commands",
    "diff": "unsay.cli.rollback_commands",
    "restore": "unsay.cli.rollback_commands",
    "pin": "unsay.cli.visibility_commands",
    "unpin": "unsay.cli.visibility_commands",
    "forget": "unsay.cli.visibility_commands",
    "forgotten": "unsay.cli.visibility_commands",
    "recall": "unsay.cli.visibility_commands",
    "pick": "unsay.cli.rollback_commands",
    "tokens": "unsay.cli.thread_commands",
    "runs": "unsay.cli.event_commands",
    "events": "unsay.cli.event_commands",
    "replay": "unsay.cli.replay_commands",
    "label": "unsay.cli.thread_commands",
    "end": "unsay.cli.thread_commands",
    "purge": "unsay.cli.thread_commands",
    "demo": "unsay.cli.demo",
}
"""The module that has each command's function, which bears the command's name."""
