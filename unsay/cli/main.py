"""The commands of `unsay` with their options.

Only Click and the table of commands are imported here, so that `--help`, `--version` and
completion are instant; a command's module is imported when the command runs.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import Any, get_args

import click

from unsay.operations.command_table import COMMANDS
from unsay.types import EventType, RunPhase, RunStatus

INTERRUPTED = 130
"""Exit code after Ctrl-C: 128 and the signal's number. Source: POSIX shells."""


class LazyGroup(click.Group):
    """A group that imports a command's module when it runs, and prints an error as one line."""

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
            options = given[: given.index("--")] if "--" in given else given
            report = import_module("unsay.cli.output").report
            code = report(error, as_json="--json" in options)
        sys.exit(code or 0)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order of the table."""
        del ctx
        return list(self.commands)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="unsay", message="unsay %(version)s")
@click.pass_context
def cli(context: click.Context) -> None:
    """Chat with an LLM that judges its answers, and roll back bad ones.

    `unsay demo` needs no API key. To chat with a model, set OPENAI_API_KEY
    (or OPENAI_BASE_URL for your own server) and UNSAY_MODEL, then run
    `unsay chat`.
    """
    if os.environ.get("NO_COLOR"):
        context.color = False


COUNT = click.IntRange(min=1)

SHARED = (
    click.Option(
        ["--db"], metavar="PATH", help="Database file or URL; default: the user's data folder."
    ),
    click.Option(["--json", "as_json"], is_flag=True, help="Print JSON."),
)

MODELS = (
    click.Option(["--model"], metavar="NAME", help="Model that answers; default $UNSAY_MODEL."),
    click.Option(
        ["--judge-model"], metavar="NAME", help="Model that judges; default: the answering model."
    ),
)

PLACE = (
    click.Argument(["to"], metavar="[CHECKPOINT]", required=False),
    click.Option(
        ["--turns"], metavar="N", type=COUNT, help="Roll back N turns instead of to a checkpoint."
    ),
)

PINNED = (
    click.Argument(["message_id"], metavar="[ID]", required=False),
    click.Option(["--turn"], metavar="N", type=COUNT, help="All messages of turn N."),
)

PAGE = (
    click.Option(["--limit"], metavar="N", type=COUNT, help="At most N rows; default: all."),
    click.Option(
        ["--cursor"], metavar="C", help="Continue after the page that printed this cursor."
    ),
)


def _thread(note: str = "default: the last one", *, required: bool = False) -> click.Option:
    return click.Option(
        ["--thread"], metavar="ID", required=required, help=f"Id of the conversation; {note}."
    )


def _labelled(what: str) -> click.Option:
    return click.Option(
        ["--label", "labels"],
        metavar="NAME=VALUE",
        multiple=True,
        callback=_pairs,
        help=f"Only {what} with this label; repeatable.",
    )


def _several(names: Sequence[str], words: Sequence[str]) -> click.Option:
    help_text = "Only these; repeatable."
    return click.Option(names, type=click.Choice(words), multiple=True, help=help_text)


def _begun(what: str) -> tuple[click.Option, click.Option]:
    return (
        click.Option(
            ["--since"], metavar="ISO", help=f"Only {what} started at this time or later."
        ),
        click.Option(["--until"], metavar="ISO", help=f"Only {what} started before this time."),
    )


def _pairs(
    context: click.Context, parameter: click.Parameter, given: Sequence[str]
) -> dict[str, str]:
    for each in given:
        if "=" not in each:
            raise click.BadParameter(
                f"{each!r} is not a label: write NAME=VALUE", context, parameter
            )
    return {name: value for name, _, value in (each.partition("=") for each in given)}


PARAMETERS: Mapping[str, Sequence[click.Parameter]] = {
    "chat": (_thread("default: a new one"), *MODELS),
    "say": (
        click.Argument(["text"], required=False),
        _thread("default: a new one; with --resume and --decide the last one"),
        *MODELS,
        click.Option(["--resume"], is_flag=True, help="Continue an interrupted turn."),
        click.Option(
            ["--decide"],
            metavar="DECISION",
            help="Decide about rejected drafts: approve, reject, edit:TEXT, or instructions for "
            "the next attempt.",
        ),
        click.Option(
            ["--turn-id"],
            metavar="ID",
            help="Id of this turn, which you choose: TEXT is answered once per id, even if the "
            "command is repeated. Needs --thread.",
        ),
    ),
    "threads": (
        click.Option(["--status"], type=click.Choice(["active", "ended"]), help="Only these."),
        _labelled("threads"),
        *_begun("threads"),
        *PAGE,
    ),
    "timeline": (
        click.Option(
            ["--context"],
            metavar="TURN",
            type=int,
            help="Show the model calls of this turn and what they were sent.",
        ),
        _thread(),
    ),
    "checkpoint": (click.Argument(["name"], required=False), _thread()),
    "rollback": (
        *PLACE,
        click.Option(
            ["--preview"], is_flag=True, help="Show what would be removed; change nothing."
        ),
        _thread(),
    ),
    "retry": (_thread(), *MODELS),
    "fork": (
        *PLACE,
        click.Option(
            ["--as", "name"], metavar="ID", help="Id of the new conversation; default: a random id."
        ),
        _thread(),
    ),
    "diff": (
        click.Argument(["a"]),
        click.Argument(["b"], required=False, default="live"),
        _thread(),
    ),
    "restore": (click.Argument(["what"]), _thread()),
    "pin": (*PINNED, _thread()),
    "unpin": (*PINNED, _thread()),
    "forget": (
        click.Argument(["what"], required=False),
        click.Argument(["through"], required=False),
        click.Option(["--turn"], metavar="N[-M]", help="Forget turn N, or turns N to M."),
        click.Option(
            ["--results-below"],
            metavar="SCORE",
            type=click.FloatRange(0, 1),
            help="Forget the tool results that score less than this for the topic's questions.",
        ),
        click.Option(
            ["--reason"], metavar="TEXT", default="", help="A note that `unsay forgotten` shows."
        ),
        _thread(),
    ),
    "recall": (
        click.Argument(
            ["words"], nargs=-1, required=True, callback=lambda *given: " ".join(given[-1])
        ),
        _thread(),
    ),
    "pick": (
        click.Argument(["message_ids"], metavar="ID...", nargs=-1, required=True),
        click.Option(
            ["--from", "branch"],
            metavar="BRANCH",
            required=True,
            help="Id of a branch or of a thread.",
        ),
        _thread(),
    ),
    "runs": (
        _thread(),
        click.Option(
            ["--all", "everywhere"], is_flag=True, help="List the runs of all conversations."
        ),
        _several(["--status"], get_args(RunStatus)),
        click.Option(
            ["--phase"], type=click.Choice(get_args(RunPhase)), help="Only runs in this phase."
        ),
        _labelled("runs"),
        *_begun("runs"),
        *PAGE,
    ),
    "events": (
        _thread(),
        _several(["--type", "types"], get_args(EventType)),
        click.Option(["--run"], metavar="ID", help="Only events of this run."),
        _labelled("events"),
        *PAGE,
        click.Option(
            ["--verify"],
            is_flag=True,
            help="Only check that the log is complete and gives the stored messages.",
        ),
    ),
    "replay": (
        _thread(),
        click.Option(["--turn"], metavar="N", type=COUNT, help="Turn to show."),
        click.Option(
            ["--run"], metavar="ID", help="Run to show: one that failed or rejected a draft."
        ),
        click.Option(
            ["--attempt"], metavar="N", type=COUNT, help="Failed attempt to show, from 1."
        ),
        click.Option(
            ["--model"], metavar="NAME", help="Send the request to this model; nothing is stored."
        ),
        click.Option(
            ["--judge-model"],
            metavar="NAME",
            help="Model that judges the new answer; default: as configured.",
        ),
        click.Option(["--payload"], is_flag=True, help="Print only the request body, as JSON."),
    ),
    "label": (
        click.Argument(["labels"], metavar="[NAME=VALUE]...", nargs=-1, callback=_pairs),
        _thread(),
        click.Option(
            ["--remove"], metavar="NAME", multiple=True, help="Remove this label; repeatable."
        ),
    ),
    "end": (_thread("it stays readable", required=True),),
    "purge": (
        _thread("deletion cannot be undone", required=True),
        click.Option(
            ["--yes"],
            is_flag=True,
            help="Do not ask for confirmation; required without a terminal.",
        ),
    ),
    "demo": (
        click.Option(
            ["--lang"], type=click.Choice(["en", "ja"]), default="en", help="Language; default: en."
        ),
    ),
}
"""Parameters of each command besides `--db` and `--json`; one that is not listed takes a thread."""

HOMES = {each.name: f"unsay.cli.{each.module}_commands" for each in COMMANDS if each.module}
"""The module of each command; its function is named like the command."""


def _run(name: str, /, **options: Any) -> None:
    getattr(import_module(HOMES[name]), name)(**options)


for _entry in COMMANDS:
    if _entry.module:
        cli.add_command(
            click.Command(
                _entry.name,
                callback=partial(_run, _entry.name),
                params=[*PARAMETERS.get(_entry.name, (_thread(),)), *SHARED],
                help=f"{_entry.summary}\n\n{_entry.details}".rstrip(),
            )
        )
