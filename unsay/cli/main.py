"""The commands of `unsay` with their options.

Only Click and the table of commands are imported here, so that `--help`, `--version` and
completion are instant; a command's module is imported when the command runs.
"""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from importlib import import_module
from typing import Any

import click

from unsay.cli.options import PARAMETERS, parameters_of
from unsay.cli.output import show_loading
from unsay.orders.orders import COMMANDS

GROUPS: Mapping[str, str] = PARAMETERS["groups"]
"""The commands by what a person wants to do; every command is in one group."""

SHORT = ("demo", "doctor", "chat", "say", "threads", "timeline", "undo")

_SUMMARIES = {each.name: each.summary for each in COMMANDS}


def groups() -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield each group's title, with the names and summaries of its commands."""
    for title, names in GROUPS.items():
        yield title, [(name, _SUMMARIES[name]) for name in names.split()]


def short_help() -> str:
    """Return the help that `unsay` alone prints."""
    width = max(map(len, SHORT))
    rows = [f"  unsay {name:<{width}}  {_SUMMARIES[name]}" for name in SHORT]
    purpose, heading, more = (
        "Chat with an LLM that judges its answers, and roll back bad ones.",
        "Commands:",
        "`unsay --help` lists all commands, `unsay COMMAND --help` explains one.",
    )
    return "\n".join([purpose, "", heading, *rows, "", more])


INTERRUPTED = 130
"""Exit code after Ctrl-C: 128 and the signal's number. Source: POSIX shells."""


FAMILIAR: Mapping[str, str] = PARAMETERS["familiar"]
"""What other programs call a command of unsay; the error of such a word names the command."""


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
        arguments = list(sys.argv[1:] if args is None else args)
        try:
            code = super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        except click.Abort:
            code = INTERRUPTED
        except click.exceptions.NoArgsIsHelpError as error:
            click.echo(short_help(), err=True)
            code = error.exit_code
        except Exception as error:  # noqa: BLE001 - the process's edge: every error becomes a line
            options = arguments[: arguments.index("--")] if "--" in arguments else arguments
            report = import_module("unsay.cli.output").report
            code = report(error, as_json="--json" in options)
        sys.exit(code or 0)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return a command's name, the command and the other arguments, as Click does.

        An unknown command raises `click.UsageError`, which suggests the one that is meant.
        """
        meant = FAMILIAR.get(args[0])
        if meant and not ctx.resilient_parsing:
            ctx.fail(f"No such command {args[0]!r}. Did you mean {meant!r}?")
        return super().resolve_command(ctx, args)

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


HOMES = {each.name: f"unsay.cli.{each.module}" for each in COMMANDS if each.module}
"""The module of each command; its function is named like the command."""

SLOW = frozenset({"chat", "say", "retry", "edit"})  # these load a model
FINAL = frozenset({"end", "purge"})  # these do not take the last conversation by default


def _run(name: str, /, **options: Any) -> None:
    context = click.get_current_context()
    for parameter in context.command.params:
        value = options[parameter.name or ""]
        is_empty = value == "" or (isinstance(value, tuple) and "" in value)
        if is_empty and parameter.name not in ("text", "reason", "turn"):
            flag = parameter.opts[0]
            option = flag if flag[0] == "-" else parameter.human_readable_name
            raise click.UsageError(f"{option} must not be empty.", context)
    thread_id = options.pop("named", None)
    if thread_id is not None:
        if options["thread"] is not None:
            raise click.UsageError(
                "Name the conversation once: as THREAD or with --thread.", context
            )
        options["thread"] = thread_id
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


for _entry in COMMANDS:
    if _entry.module:
        cli.add_command(
            click.Command(
                _entry.name,
                callback=partial(_run, _entry.name),
                params=parameters_of(_entry.name),
                help=f"{_entry.summary}\n\n{_entry.details}".rstrip(),
            )
        )
