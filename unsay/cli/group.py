"""The group of `unsay`'s commands: a failure is one line and an exit code."""

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import click

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
            code = import_module("unsay.cli.faults").report(error, as_json=_wants_json(given))
        sys.exit(code or 0)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands in the order in which one meets them."""
        del ctx
        return list(self.commands)


def _wants_json(given: Sequence[str]) -> bool:
    end = given.index("--") if "--" in given else len(given)
    return "--json" in given[:end]
