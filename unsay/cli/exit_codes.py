"""Errors as one line for people, one object for programs, and one exit code."""

import traceback
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import click

from unsay.cli.output import SCHEMA_VERSION, print_json
from unsay.errors import ConflictError, InputError, NotFoundError, UnsayError

EXIT_CODES: Mapping[type[Exception], int] = {InputError: 2, NotFoundError: 3, ConflictError: 4}
"""By class; every other error is 1."""


def exit_code_of(error: Exception) -> int:
    """The exit code that tells scripts what kind of error it was."""
    if isinstance(error, click.ClickException):
        return error.exit_code
    return next((code for kind, code in EXIT_CODES.items() if isinstance(error, kind)), 1)


def error_object(error: Exception) -> dict[str, Any]:
    """An error for programs."""
    details = {"type": type(error).__name__, "message": _words(error)}
    return {"schema_version": SCHEMA_VERSION, "error": details}


def show(error: Exception, *, as_json: bool) -> None:
    """Print an error as a line on standard error and, if asked, as an object on standard output."""
    name = "" if isinstance(error, UnsayError | click.ClickException) else type(error).__name__
    line = ": ".join(part for part in ("unsay", name, _words(error)) if part)
    click.echo(" ".join(line.split()), err=True)
    if as_json:
        # Where standard output itself is what failed, the line above must do.
        with suppress(OSError):
            print_json(error_object(error))


def report(error: Exception, *, as_json: bool) -> int:
    """Print an error that ends the program, and return the exit code.

    An error that neither we nor the system foresaw keeps its traceback: it is ours to mend.
    """
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show()
        return error.exit_code
    if not isinstance(error, UnsayError | click.ClickException | OSError):
        click.echo("".join(traceback.format_exception(error)), err=True, nl=False)
    show(error, as_json=as_json)
    return exit_code_of(error)


def _words(error: Exception) -> str:
    if isinstance(error, click.UsageError) and error.ctx is not None:
        return f"{error.format_message()} Try '{error.ctx.command_path} --help'."
    return error.format_message() if isinstance(error, click.ClickException) else str(error)
