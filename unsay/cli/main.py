"""The commands of `unsay`: their options and help, without what carries them out.

Only Click is imported here, so that `--help`, `--version` and completion are
instant; a command's module is imported when the command runs.
"""

import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, TypeVar

import click

HOMES = {
    "chat": "unsay.cli.chat",
    "say": "unsay.cli.say",
    "threads": "unsay.cli.reading",
    "timeline": "unsay.cli.reading",
    "checkpoints": "unsay.cli.reading",
    "checkpoint": "unsay.cli.moving",
    "rollback": "unsay.cli.moving",
    "undo": "unsay.cli.moving",
    "demo": "unsay.cli.demo",
}
"""The module that has each command's function, which bears the command's name."""

INTERRUPTED = 130
"""Exit code after Ctrl-C: 128 and the signal's number. Source: POSIX shells."""

F = TypeVar("F", bound=Callable[..., Any])


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
            code = import_module("unsay.cli.faults").report(error, as_json=_wants_json(given))
        sys.exit(code or 0)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands in the order in which one meets them."""
        del ctx
        return list(self.commands)


def _wants_json(given: Sequence[str]) -> bool:
    end = given.index("--") if "--" in given else len(given)
    return "--json" in given[:end]


def _run(name: str, options: dict[str, Any]) -> None:
    """Import a command's module and call the function that does its work."""
    getattr(import_module(HOMES[name]), name)(**options)


def _shared(command: F) -> F:
    """The options of every command."""
    db = click.option("--db", metavar="PATH", help="Database file, instead of unsay's own.")
    as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
    return db(as_json(command))


def _thread(note: str) -> Callable[[F], F]:
    return click.option("--thread", metavar="ID", help=f"The conversation; {note}.")


def _models(command: F) -> F:
    model = click.option("--model", metavar="NAME", help="Answers; default $UNSAY_MODEL.")
    judge = click.option(
        "--judge-model", metavar="NAME", help="Judges the answers; default the answering model."
    )
    return model(judge(command))


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


@cli.command()
@_thread("a new one by default")
@_models
@_shared
def chat(**options: Any) -> None:
    """Talk; /help lists what can be taken back."""
    _run("chat", options)


@cli.command()
@click.argument("text", required=False)
@_thread("a new one by default, the last one for --resume and --decide")
@_models
@click.option("--resume", is_flag=True, help="Go on with a turn that was interrupted.")
@click.option(
    "--decide",
    metavar="DECISION",
    help="Decide about rejected drafts: approve, reject, edit:YOUR WORDS, or what the next "
    "attempt should do.",
)
@_shared
def say(**options: Any) -> None:
    """Say TEXT, or standard input for -; print the answer."""
    _run("say", options)


@cli.command()
@_shared
def threads(**options: Any) -> None:
    """List the conversations, the newest first."""
    _run("threads", options)


@cli.command()
@_thread("the last one by default")
@_shared
def timeline(**options: Any) -> None:
    """Show the turns, the scores and what was taken back."""
    _run("timeline", options)


@cli.command()
@_thread("the last one by default")
@_shared
def checkpoints(**options: Any) -> None:
    """List the checkpoints."""
    _run("checkpoints", options)


@cli.command()
@click.argument("name", required=False)
@_thread("the last one by default")
@_shared
def checkpoint(**options: Any) -> None:
    """Mark this point as good, with or without a name."""
    _run("checkpoint", options)


@cli.command()
@click.argument("to", metavar="[CHECKPOINT]", required=False)
@_thread("the last one by default")
@_shared
def rollback(**options: Any) -> None:
    """Go back to a checkpoint, by default the last good one."""
    _run("rollback", options)


@cli.command()
@_thread("the last one by default")
@_shared
def undo(**options: Any) -> None:
    """Take back the last step, a turn or a rollback."""
    _run("undo", options)


@cli.command()
@click.option("--lang", type=click.Choice(["en", "ja"]), default="en", help="Default en.")
@_shared
def demo(**options: Any) -> None:
    """Show it all on a scripted conversation; no key needed."""
    _run("demo", options)
