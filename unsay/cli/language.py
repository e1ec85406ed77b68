"""The language in which the command line speaks before it knows the language of a conversation.

Nothing heavy is imported here: `unsay threads` answers at once where there is nothing to list.
"""

import os
import sys
import tomllib
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import cast, get_args

import click

from unsay.types import Language


def chosen_language() -> Language | None:
    """Return the setting `language`, from `UNSAY_LANGUAGE` or else from the file unsay.toml.

    `None` if it is `auto` or no known language, is not set, or cannot be read.
    """
    named: object = os.environ.get("UNSAY_LANGUAGE")
    if not named:
        with suppress(OSError, ValueError):
            named = tomllib.loads(Path("unsay.toml").read_text("utf-8")).get("language")
    return cast("Language", named) if named in get_args(Language) else None


def shell_language() -> Language:
    """Return the language of texts that belong to no conversation, such as errors of options.

    It is the setting `language`, or with `auto` that of the locale: Japanese or else English.
    """
    locale = next(filter(None, map(os.environ.get, ("LC_ALL", "LC_MESSAGES", "LANG"))), "")
    return chosen_language() or ("ja" if locale.startswith("ja") else "en")


def in_shell_language(text: str) -> str:
    """Return an English text of the command line in the `shell_language`.

    A text without a translation stays English.
    """
    if shell_language() == "en":
        return text
    return str(import_module("unsay.prompts").JAPANESE.reason(text))


_LOADING = {"en": "Loading…", "ja": "読み込み中…"}


def show_loading() -> None:
    """Say that the libraries of models are loaded, which takes a second, until `clear_loading`.

    Nothing is printed unless standard output is a terminal.
    """
    if sys.stdout.isatty():
        click.echo(f"{_LOADING[shell_language()]}\r", nl=False)


def clear_loading() -> None:
    """Erase what `show_loading` printed."""
    if sys.stdout.isatty():
        click.echo(f"{' ' * len(_LOADING['ja']) * 2}\r", nl=False)
