"""The commands of `unsay` with their options.

Only Click and the table of commands are imported here, so that `--help`, `--version` and
completion are instant; a command's module is imported when the command runs.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from importlib import import_module
from typing import Any, get_args

import click

from unsay.cli.help_text import groups, short_help
from unsay.cli.language import show_loading
from unsay.cli.numbers import COST, COUNT, SHARE
from unsay.operations.command_entries import COMMANDS
from unsay.types import EventType, RunPhase, RunStatus

INTERRUPTED = 130
"""Exit code after Ctrl-C: 128 and the signal's number. Source: POSIX shells."""


class LazyGroup(click.Group):
    """The group `unsay`: it imports a command's module when the command runs."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,  # noqa: FBT001, FBT002 - Click's own signature
        **extra: Any,
    ) -> Any:
        """Run a command, print its error if it fails, and exit.

        The exit codes are 0 done, 1 failed, 2 wrong usage or input, 3 not found, 4 conflict and 130
        after Ctrl-C. With `standalone_mode=False` it returns or raises as Click does, and does not
        exit.
        """
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        given = list(sys.argv[1:] if args is None else args)
        try:
            code = super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        except click.Abort:
            code = INTERRUPTED
        except click.exceptions.NoArgsIsHelpError as error:
            click.echo(short_help(), err=True)
            code = error.exit_code
        except Exception as error:  # noqa: BLE001 - the process's edge: every error becomes a line
            options = given[: given.index("--")] if "--" in given else given
            report = import_module("unsay.cli.output").report
            code = report(error, as_json="--json" in options)
        sys.exit(code or 0)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands in groups; Click calls this for `--help`."""
        del ctx
        for title, rows in groups():
            with formatter.section(title):
                formatter.write_dl(rows, col_max=12)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands' names in the order of `COMMANDS`, for completion in the shell."""
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
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") in ("dumb", "unknown"):
        context.color = False


def _option(usage: str, meaning: str, *, into: str | None = None, **more: Any) -> click.Option:
    """Return Click's option for a usage such as `--model NAME`, or `--json` for a flag.

    `meaning` is its help, `into` the name of the command's parameter if it differs from the flag's,
    and `more` is passed to Click.
    """
    flag, _, value = usage.partition(" ")
    kind: dict[str, Any] = {"metavar": value} if value else {"is_flag": True}
    return click.Option([flag, *([into] if into else [])], help=meaning, **kind, **more)


def _thread(note: str = "default: the last one") -> click.Option:
    return _option("--thread ID", f"Id of the conversation; {note}.")


def _labelled(what: str) -> click.Option:
    meaning = f"Only {what} with this label; repeatable."
    return _option("--label NAME=VALUE", meaning, into="labels", multiple=True, callback=_pairs)


def _choice(
    names: Sequence[str], choices: Sequence[str], meaning: str, **more: Any
) -> click.Option:
    return click.Option(names, type=click.Choice(choices), help=meaning, **more)


def _started(what: str) -> tuple[click.Option, click.Option]:
    return (
        _option("--since ISO", f"Only {what} started at this time or later."),
        _option("--until ISO", f"Only {what} started before this time."),
    )


def _pairs(
    context: click.Context, parameter: click.Parameter, given: Sequence[str]
) -> dict[str, str]:
    for each in given:
        if "=" not in each:
            raise click.BadParameter(
                f"{each!r} is not a label: write NAME=VALUE.", context, parameter
            )
    return {name: value for name, _, value in (each.partition("=") for each in given)}


SHARED = (
    _option("--db PATH", "Database file or URL; default: the user's data folder."),
    _option("--json", "Print JSON.", into="as_json"),
)

MODELS = (
    _option("--model NAME", "Model that answers; default $UNSAY_MODEL."),
    _option("--judge-model NAME", "Model that judges; default: the answering model."),
)

GIVEN = (
    _option("--system TEXT", "System prompt; default $UNSAY_SYSTEM_PROMPT."),
    _option(
        "--file PATH",
        "Text file or image to attach to the first message; repeatable.",
        into="files",
        multiple=True,
    ),
    _option("--tools MODULE:NAME", "Function, tool or list of tools; repeatable.", multiple=True),
    _option("--mcp FILE", "JSON file with MCP servers whose tools are offered."),
)

PLACE = (
    click.Argument(["to"], metavar="[CHECKPOINT]", required=False),
    _option("--turns N", "Roll back N turns instead of to a checkpoint.", type=COUNT),
)

PINNED = (
    click.Argument(["message_id"], metavar="[ID]", required=False),
    _option("--turn N", "All messages of turn N.", type=COUNT),
)

PAGE = (
    _option("--limit N", "At most N rows; default: all.", type=COUNT),
    _option("--cursor C", "Continue after the page that printed this cursor."),
)

NAMED = click.Argument(["named"], metavar="[THREAD]", required=False)
"""The id of a conversation instead of `--thread`, in commands without other arguments."""

REPEATABLE = "Only these; repeatable."

PARAMETERS: Mapping[str, Sequence[click.Parameter]] = {
    "chat": (
        _thread("default: a new one, or on a terminal one of the recent ones"),
        *MODELS,
        *GIVEN,
    ),
    "say": (
        click.Argument(["text"], required=False),
        _thread("default: a new one; with --resume and --decide the last one"),
        *MODELS,
        _option("--resume", "Continue an interrupted turn."),
        _option(
            "--decide DECISION",
            "Decide about rejected drafts: approve, reject, edit:TEXT, or instructions for "
            "the next attempt.",
        ),
        _option(
            "--turn-id ID",
            "Id of this turn, which you choose: TEXT is answered once per id, even if the "
            "command is repeated. Needs --thread.",
        ),
        _option(
            "--answer TEXT",
            "The answer that an error showed because it could not be saved: it is saved, and no "
            "model is called. Needs --turn-id.",
        ),
        *GIVEN,
    ),
    "threads": (
        _choice(["--status"], ["active", "ended"], "Only these."),
        _labelled("threads"),
        *_started("threads"),
        *PAGE,
    ),
    "timeline": (
        _option(
            "--context TURN",
            "Show the model calls of this turn and what they were sent.",
            type=COUNT,
        ),
        _thread(),
    ),
    "checkpoint": (click.Argument(["name"], required=False), _thread()),
    "task": (click.Argument(["name"]), _thread()),
    "rollback": (
        *PLACE,
        _option("--preview", "Show what would be removed; change nothing."),
        _thread(),
    ),
    "retry": (_thread(), *MODELS),
    "compact": (
        click.Argument(["up_to"], metavar="[UP_TO]", required=False),
        _thread(),
        *MODELS,
    ),
    "remove": (click.Argument(["turn"], metavar="N", type=COUNT), _thread()),
    "edit": (
        click.Argument(["turn"], metavar="N", type=COUNT),
        click.Argument(["text"]),
        _thread(),
        *MODELS,
    ),
    "fork": (
        *PLACE,
        _option("--as ID", "Id of the new conversation; default: a random id.", into="name"),
        _thread(),
    ),
    "diff": (
        click.Argument(["a"]),
        click.Argument(["b"], required=False, default="live"),
        _thread(),
    ),
    "restore": (click.Argument(["what"], required=False), _thread()),
    "pin": (*PINNED, _thread()),
    "unpin": (*PINNED, _thread()),
    "forget": (
        click.Argument(["what"], required=False),
        click.Argument(["through"], required=False),
        _option("--turn N[-M]", "Forget turn N, or turns N to M."),
        _option(
            "--results-below SCORE",
            "Forget the tool results that score less than this for the topic's questions.",
            type=SHARE,
        ),
        _option("--reason TEXT", "A note that `unsay forgotten` shows.", default=""),
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
        _option("--from BRANCH", "Id of a branch or of a thread.", into="branch", required=True),
        _thread(),
    ),
    "lesson": (
        click.Argument(["number"], metavar="N", type=COUNT),
        click.Argument(["text"]),
        _thread(),
    ),
    "unlearn": (click.Argument(["number"], metavar="N", type=COUNT), _thread()),
    "rate": (
        click.Argument(["turn"], metavar="N", type=COUNT),
        click.Argument(["label"], type=click.Choice(["good", "bad"])),
        _option("--reason TEXT", "Why; that of a bad answer is a lesson.", default=""),
        _thread(),
    ),
    "ratings": (
        _option("--import FILE", "Give these ratings to the conversation's turns.", into="source"),
        _option("--all", "Print the ratings of all conversations.", into="everywhere"),
        _thread(),
    ),
    "judge": (
        _option("--turn N", "Only the answer of turn N.", type=COUNT),
        _thread(),
        *MODELS,
    ),
    "bisect": (_option("--yes", "Roll back to before the turn."), _thread(), *MODELS),
    "calibrate": (
        click.Argument(["file"]),
        _option("--alarm-cost X", "Cost of a good answer that fails.", type=COST, default=1.0),
        _option("--miss-cost X", "Cost of a bad answer that passes.", type=COST, default=1.0),
        _option("--write", "Store the thresholds in unsay.toml."),
    ),
    "runs": (
        _thread(),
        _option("--all", "List the runs of all conversations.", into="everywhere"),
        _choice(["--status"], get_args(RunStatus), REPEATABLE, multiple=True),
        _choice(["--phase"], get_args(RunPhase), "Only runs in this phase."),
        _labelled("runs"),
        *_started("runs"),
        *PAGE,
    ),
    "events": (
        _thread(),
        _choice(["--type", "types"], get_args(EventType), REPEATABLE, multiple=True),
        _option("--run ID", "Only events of this run."),
        _labelled("events"),
        *PAGE,
        _option("--verify", "Only check that the log is complete and gives the stored messages."),
    ),
    "replay": (
        _thread(),
        _option("--turn N", "Turn to show.", type=COUNT),
        _option("--run ID", "Run to show: one that failed or rejected a draft."),
        _option("--attempt N", "Failed attempt to show, from 1.", type=COUNT),
        _option("--model NAME", "Send the request to this model; nothing is stored."),
        _option("--judge-model NAME", "Model that judges the new answer; default: as configured."),
        _option("--payload", "Print only the request body, as JSON."),
    ),
    "label": (
        click.Argument(["labels"], metavar="[NAME=VALUE]...", nargs=-1, callback=_pairs),
        _thread(),
        _option("--remove NAME", "Remove this label; repeatable.", multiple=True),
    ),
    "end": (_thread("needed; it stays readable"),),
    "purge": (
        _thread("needed; deletion cannot be undone"),
        _option("--yes", "Do not ask for confirmation; required without a terminal."),
    ),
    "doctor": (),
    "settings": (*MODELS, GIVEN[0]),
    "schema": (click.Argument(["command"]),),
    "completion": (click.Argument(["shell"], type=click.Choice(["bash", "zsh", "fish"])),),
    "demo": (_choice(["--lang"], ["en", "ja"], "Language; default: en.", default="en"),),
}
"""Parameters of each command besides `--db` and `--json`; one that is not listed takes a thread."""

HOMES = {each.name: f"unsay.cli.{each.module}_commands" for each in COMMANDS if each.module}
"""The module of each command; its function is named like the command."""

SLOW = frozenset({"chat", "say", "retry", "edit"})  # these load a model
FINAL = frozenset({"end", "purge"})  # these do not take the last conversation by default


def _run(name: str, /, **options: Any) -> None:
    context = click.get_current_context()
    for parameter in context.command.params:
        given = options[parameter.name or ""]
        is_empty = given == "" or (isinstance(given, tuple) and "" in given)
        if is_empty and parameter.name not in ("text", "reason", "turn"):
            flag = parameter.opts[0]
            option = flag if flag[0] == "-" else parameter.human_readable_name
            raise click.UsageError(f"{option} must not be empty.", context)
    named = options.pop("named", None)
    if named is not None:
        if options["thread"] is not None:
            raise click.UsageError(
                "Name the conversation once: as THREAD or with --thread.", context
            )
        options["thread"] = named
    if name in FINAL and options["thread"] is None:
        raise click.UsageError("Missing option '--thread'.", context)
    with _keys_kept() if name == "chat" else nullcontext():
        if name in SLOW and not options["as_json"]:
            show_loading()
        getattr(import_module(HOMES[name]), name)(**options)


def _keys_kept() -> AbstractContextManager[None]:
    """Return a context manager that keeps keys for the chat's prompt, if there is a terminal."""
    # Not at the top of the file: Windows lacks it, and gets at least the help.
    keyboard = import_module("unsay.cli.keyboard")
    return keyboard.keys_kept() if keyboard.is_rich() else nullcontext()


def _parameters(name: str) -> list[click.Parameter]:
    """Return a command's parameters; a thread is an argument too if there is no other argument."""
    own = list(PARAMETERS.get(name, (_thread(),)))
    has_argument = any(isinstance(each, click.Argument) for each in own)
    takes_thread = any("--thread" in each.opts for each in own)
    return [*([NAMED] if takes_thread and not has_argument else []), *own, *SHARED]


for _entry in COMMANDS:
    if _entry.module:
        cli.add_command(
            click.Command(
                _entry.name,
                callback=partial(_run, _entry.name),
                params=_parameters(_entry.name),
                help=f"{_entry.summary}\n\n{_entry.details}".rstrip(),
            )
        )
