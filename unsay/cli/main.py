"""The commands of `unsay` with their options, without what carries them out.

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
    """Conversations that judge their own answers and can take them back.

    `unsay demo` shows everything without a key. For a conversation of your own
    set OPENAI_API_KEY (or OPENAI_BASE_URL for a server of your own) and
    UNSAY_MODEL, then run `unsay chat`.
    """
    if os.environ.get("NO_COLOR"):
        context.color = False


SHARED = (
    click.Option(["--db"], metavar="PATH", help="Database file, instead of unsay's own."),
    click.Option(["--json", "as_json"], is_flag=True, help="Print JSON for programs."),
)

MODELS = (
    click.Option(["--model"], metavar="NAME", help="Answers; default $UNSAY_MODEL."),
    click.Option(
        ["--judge-model"], metavar="NAME", help="Judges the answers; default the answering model."
    ),
)

PLACE = (
    click.Argument(["to"], metavar="[CHECKPOINT]", required=False),
    click.Option(["--turns"], metavar="N", type=int, help="So many turns back instead."),
)

PINNED = (
    click.Argument(["message_id"], metavar="[ID]", required=False),
    click.Option(["--turn"], metavar="N", type=int, help="All of this turn."),
)

PAGE = (
    click.Option(["--limit"], metavar="N", type=int, help="At most so many; default all."),
    click.Option(["--cursor"], metavar="C", help="Go on where a shorter list ended."),
)


def _thread(note: str = "the last one by default", *, required: bool = False) -> click.Option:
    return click.Option(
        ["--thread"], metavar="ID", required=required, help=f"The conversation; {note}."
    )


def _labelled(what: str) -> click.Option:
    return click.Option(
        ["--label", "labels"],
        metavar="NAME=VALUE",
        multiple=True,
        callback=_pairs,
        help=f"Only {what} with this label; may be given several times.",
    )


def _several(names: Sequence[str], words: Sequence[str]) -> click.Option:
    help_text = "Only these; may be given several times."
    return click.Option(names, type=click.Choice(words), multiple=True, help=help_text)


def _begun(what: str) -> tuple[click.Option, click.Option]:
    return (
        click.Option(["--since"], metavar="ISO", help=f"Only {what} begun then or later."),
        click.Option(["--until"], metavar="ISO", help=f"Only {what} begun before."),
    )


def _pairs(
    context: click.Context, parameter: click.Parameter, given: Sequence[str]
) -> dict[str, str]:
    for each in given:
        if "=" not in each:
            raise click.BadParameter(f"{each!r} is no label: write NAME=VALUE", context, parameter)
    return {name: value for name, _, value in (each.partition("=") for each in given)}


PARAMETERS: Mapping[str, Sequence[click.Parameter]] = {
    "chat": (_thread("a new one by default"), *MODELS),
    "say": (
        click.Argument(["text"], required=False),
        _thread("a new one by default, the last one for --resume and --decide"),
        *MODELS,
        click.Option(["--resume"], is_flag=True, help="Go on with a turn that was interrupted."),
        click.Option(
            ["--decide"],
            metavar="DECISION",
            help="Decide about rejected drafts: approve, reject, edit:YOUR WORDS, or what the "
            "next attempt should do.",
        ),
        click.Option(
            ["--turn-id"],
            metavar="ID",
            help="Your name for this turn: with the same one TEXT is answered once, however "
            "often it is sent to the --thread.",
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
            help="Show what the model was sent in this turn, instead.",
        ),
        _thread(),
    ),
    "checkpoint": (click.Argument(["name"], required=False), _thread()),
    "rollback": (
        *PLACE,
        click.Option(
            ["--preview"], is_flag=True, help="Only tell what would go; nothing is changed."
        ),
        _thread(),
    ),
    "retry": (_thread(), *MODELS),
    "fork": (
        *PLACE,
        click.Option(
            ["--as", "name"], metavar="ID", help="The new conversation; a new id by default."
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
        click.Option(["--turn"], metavar="N[-M]", help="These turns instead."),
        click.Option(
            ["--results-below"],
            metavar="SCORE",
            type=click.FloatRange(0, 1),
            help="Instead the tool results that score less against the topic's questions.",
        ),
        click.Option(["--reason"], metavar="TEXT", default="", help="Why, for whoever lists it."),
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
            help="A cut's id, or a conversation's.",
        ),
        _thread(),
    ),
    "runs": (
        _thread(),
        click.Option(["--all", "everywhere"], is_flag=True, help="The runs of all conversations."),
        _several(["--status"], get_args(RunStatus)),
        click.Option(
            ["--phase"], type=click.Choice(get_args(RunPhase)), help="Only those at this work."
        ),
        _labelled("runs"),
        *_begun("runs"),
        *PAGE,
    ),
    "events": (
        _thread(),
        _several(["--type", "types"], get_args(EventType)),
        click.Option(["--run"], metavar="ID", help="Only those of this run."),
        _labelled("events"),
        *PAGE,
        click.Option(
            ["--verify"],
            is_flag=True,
            help="Only check that none is missing and all make the record.",
        ),
    ),
    "replay": (
        _thread(),
        click.Option(["--turn"], metavar="N", type=int, help="Of this turn."),
        click.Option(
            ["--run"], metavar="ID", help="Of this run, which failed or took a draft back."
        ),
        click.Option(["--attempt"], metavar="N", type=int, help="This failed attempt, from 1."),
        click.Option(
            ["--model"], metavar="NAME", help="Asks this model the same; nothing is recorded."
        ),
        click.Option(
            ["--judge-model"], metavar="NAME", help="Judges its answer; default as configured."
        ),
        click.Option(["--payload"], is_flag=True, help="Print the request's body alone, as JSON."),
    ),
    "label": (
        click.Argument(["labels"], metavar="[NAME=VALUE]...", nargs=-1, callback=_pairs),
        _thread(),
        click.Option(["--remove"], metavar="NAME", multiple=True, help="Take this label off."),
    ),
    "end": (_thread("it can be read ever after", required=True),),
    "purge": (
        _thread("nothing brings it back", required=True),
        click.Option(["--yes"], is_flag=True, help="Do not ask; needed where nobody can be asked."),
    ),
    "demo": (
        click.Option(["--lang"], type=click.Choice(["en", "ja"]), default="en", help="Default en."),
    ),
}
"""What each command takes beside `--db` and `--json`; one that is not listed takes a thread."""

HOMES = {each.name: f"unsay.cli.{each.module}_commands" for each in COMMANDS if each.module}
"""The module that has each command's function, which bears the command's name."""


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
