"""What the commands print: JSON on standard output, notes and errors on standard error.

Nothing heavy is imported here: a usage error must be instant.
"""

import json
import math
import os
import shlex
import sys
import tomllib
import traceback
from base64 import b64encode
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

import click
from platformdirs import user_data_dir

from unsay.errors import ConflictError, InputError, NotFoundError, UnsayError
from unsay.storage.urls import file_at
from unsay.types import SCHEMA_VERSION, Language

if TYPE_CHECKING:
    from unsay.prompts.catalogue import Door, Texts


def chosen_language() -> Language | None:
    """Return the setting `language`, from `UNSAY_LANGUAGE` or else from the file unsay.toml.

    `None` if it is `auto` or no known language, is not set, or cannot be read.
    """
    language_code: object = os.environ.get("UNSAY_LANGUAGE")
    if not language_code:
        with suppress(OSError, ValueError):
            language_code = tomllib.loads(Path("unsay.toml").read_text("utf-8")).get("language")
    return cast("Language", language_code) if language_code in get_args(Language) else None


def shell_language() -> Language:
    """Return the language of texts that belong to no conversation, such as errors of options.

    It is the setting `language`, or with `auto` that of the locale: Japanese or else English.
    """
    locale = next(filter(None, map(os.environ.get, ("LC_ALL", "LC_MESSAGES", "LANG"))), "")
    return chosen_language() or ("ja" if locale.startswith("ja") else "en")


def shell_texts() -> "Texts":
    """Return the texts that belong to no conversation, in the `shell_language`."""
    texts: Texts = import_module("unsay.prompts").Texts(shell_language())
    return texts


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


EXIT_CODES: Mapping[type[Exception], int] = {InputError: 2, NotFoundError: 3, ConflictError: 4}
"""By class; every other error is 1."""


def print_json(value: Mapping[str, Any]) -> None:
    """Print an object as JSON on one line of standard output; its values are first made `plain`."""
    click.echo(json.dumps(plain(value), ensure_ascii=False))


def plain(value: Any) -> Any:
    """Return a value that JSON can hold, from anything that a message may contain.

    A dataclass becomes its fields, and a message the type and the data that LangChain stores of it.
    Bytes become Base64, sets become sorted lists, and numbers that JSON lacks become text such as
    `NaN`. Lone surrogates become question marks, as they do in a checkpoint. Keys and values of
    other types become their text.
    """
    if is_dataclass(value):
        value = fields_of(value)
    elif hasattr(value, "model_dump"):
        value = {"type": value.type, "data": value.model_dump()}
    if isinstance(value, Mapping):
        return {plain(str(key)): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, set | frozenset):
        return sorted(map(plain, value), key=str)
    if isinstance(value, bytes | bytearray):
        return b64encode(value).decode("ascii")
    if isinstance(value, float) and not math.isfinite(value):
        return json.dumps(value)
    if value is None or isinstance(value, int | float):
        return value
    return str(value).encode("utf-8", "replace").decode("utf-8")


def fields_of(result: Any) -> dict[str, Any]:
    """Return the fields of a dataclass by name, as they are."""
    return {field.name: getattr(result, field.name) for field in fields(result)}


def show(words: Callable[[], str | None], result: Any = None, *, as_json: bool, **own: Any) -> None:
    """Print a command's result: as JSON its fields in one object, or for a person a text.

    `own` are further fields, or other values of its fields. `words` makes the text and is called
    only without `as_json`. It may print for itself: if it returns `None` or an empty text, nothing
    else is printed.
    """
    if as_json:
        print_json(versioned(**{**(fields_of(result) if result is not None else {}), **own}))
    elif text := words():
        click.echo(text)


def call_text(name: str, args: Any) -> str:
    """Return a tool call for people, as its name and its arguments in JSON.

    >>> call_text("search", {"query": "Kyoto"})
    'search({"query": "Kyoto"})'
    """
    return f"{name}({json.dumps(plain(args), ensure_ascii=False)})"


def versioned(**fields: Any) -> dict[str, Any]:
    """Return the fields with `schema_version` as the first, as every JSON object is printed."""
    return {"schema_version": SCHEMA_VERSION, **fields}


def note(text: str) -> None:
    """Print a dimmed line on standard error."""
    click.echo(click.style(text, dim=True), err=True)


def usage_error(message: str) -> click.UsageError:
    """Return the error to raise for options that do not go together; the exit code is then 2.

    It can only be made while a command runs, because its line names that command's `--help`.
    """
    return click.UsageError(message, click.get_current_context())


def show_error(
    error: Exception,
    *,
    as_json: bool,
    door: "Door" = "shell",
    texts: "Texts | None" = None,
    layout: Callable[[str], str] = str,
) -> None:
    """Print an error as a line on standard error; with `as_json` also as JSON on standard output.

    `door` decides how the next step is named, such as `/undo` or `unsay undo`; that of the chat
    gives the JSON the fields of an event, too. `texts` are in the user's language, by default that
    of the shell, and `layout` breaks the line for a terminal. If the error has an answer that could
    not be saved, the answer is printed too.
    """
    if isinstance(error, click.ClickException):
        words = _usage_words(error)
    elif isinstance(error, UnsayError):
        words = (texts or shell_texts()).message(error, door)
    else:
        words = str(error)
    name = "" if isinstance(error, UnsayError | click.ClickException) else type(error).__name__
    line = ": ".join(part for part in ("unsay", name, words) if part)
    click.echo(layout(" ".join(line.split())), err=True)
    answer = getattr(error, "answer", None)
    if answer is not None:
        note((texts or shell_texts()).say("answer_not_saved", answer=answer))
    if as_json:
        # Where standard output itself is what failed, the line above must do.
        with suppress(OSError):
            details = {"type": type(error).__name__, "message": words}
            unsaved = {} if answer is None else {"answer": answer}
            beside: dict[str, Any] = {}
            if door == "chat":
                beside = {"event": "error", "text": words, "message_id": None, "data": {}}
            print_json(versioned(**beside, error={**details, **unsaved}))


def _usage_words(error: click.ClickException) -> str:
    """Return the text of an error that Click raised, with the help to call for a wrong usage."""
    words = " ".join(error.format_message().split())
    if not isinstance(error, click.UsageError) or error.ctx is None:
        return words
    sentences = [words if words.endswith((".", "?", "?)")) else f"{words}."]
    if "unexpected extra argument" in words and _takes(error.ctx, "text"):
        sentences.append("A TEXT of several words needs quotes.")
    if "unexpected extra argument" in words and _takes(error.ctx, "--thread"):
        sentences.append("A thread is named with --thread ID.")
    if isinstance(error, click.NoSuchOption) and _takes(error.ctx, "text"):
        sentences.append("A TEXT that begins with a dash comes after --.")
    if isinstance(error, click.NoSuchOption) and isinstance(error.ctx.command, click.Group):
        sentences.append("Options come after the command.")
    sentences.append(f"Try '{error.ctx.command_path} --help'.")
    return " ".join(sentences)


def _takes(context: click.Context, option: str) -> bool:
    return any(option in parameter.opts for parameter in context.command.params)


def report(error: Exception, *, as_json: bool) -> int:
    """Print an error that ends the program, and return the exit code.

    A reader that has closed the pipe, such as `head`, is not an error: nothing is printed.
    An error that is not of unsay, of Click (such as a wrong option) or of the system is a bug: it
    is printed with its traceback.
    """
    if isinstance(error, BrokenPipeError):  # the reader has enough, as with `| head`
        # What is still buffered would fail again when the program ends. Source: Python, `signal`.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    if not isinstance(error, UnsayError | click.ClickException | OSError):
        click.echo("".join(traceback.format_exception(error)), err=True, nl=False)
    show_error(error, as_json=as_json)
    return exit_code_of(error)


def exit_code_of(error: Exception) -> int:
    """Return the exit code for an error that ends the program or fails a turn of a piped chat."""
    if isinstance(error, click.ClickException):
        return error.exit_code
    return next((code for kind, code in EXIT_CODES.items() if isinstance(error, kind)), 1)


def location(db: str | None) -> str:
    """Return the path or URL that `--db` gives; `None` is the path of the default database.

    The default is `unsay.db` in the folder `UNSAY_HOME`, or in the platform's folder for user data.
    Nothing is opened or created.
    """
    home = os.environ.get("UNSAY_HOME") or user_data_dir("unsay", appauthor=False)
    return str(Path(home) / "unsay.db") if db is None else db


def check_exists(db: str | None) -> None:
    """Raise `NotFoundError` if the user named a database file that does not exist."""
    file = None if db is None else file_at(db)
    if db is not None and file is not None and not file.exists():
        raise NotFoundError(code="no_database_file", path=db, argument=shlex.quote(db))


def history_file() -> Path:
    """Return the path of the file with all texts typed in chats; it need not exist.

    It is beside the default database, also for a chat in another database.
    """
    return Path(location(None)).with_name("chat_history.jsonl")
