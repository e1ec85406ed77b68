"""What the commands print: JSON on standard output, notes on standard error."""

import json
import math
from base64 import b64encode
from collections.abc import Mapping
from typing import Any

import click

SCHEMA_VERSION = 1
"""Of every JSON object that the command line prints."""


def print_json(value: Mapping[str, Any]) -> None:
    """Print one object on one line."""
    click.echo(json.dumps(plain(value), ensure_ascii=False))


def plain(value: Any) -> Any:
    """The value as JSON can hold it, whatever a message had in it.

    Bytes become Base64, what is no number text such as `NaN`, half surrogates the question
    marks that a checkpoint makes of them, and all else its words.
    """
    if isinstance(value, Mapping):
        return {_text(str(key)): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, set | frozenset):
        return sorted(map(plain, value), key=str)
    if isinstance(value, bytes | bytearray):
        return b64encode(value).decode("ascii")
    if isinstance(value, float) and not math.isfinite(value):
        return json.dumps(value)
    return value if value is None or isinstance(value, int | float) else _text(str(value))


def _text(words: str) -> str:
    return words.encode("utf-8", "replace").decode("utf-8")


def versioned(**fields: Any) -> dict[str, Any]:
    """An object for programs."""
    return {"schema_version": SCHEMA_VERSION, **fields}


def note(text: str) -> None:
    """Print a line about what happens, dimmed, on standard error."""
    click.echo(click.style(text, dim=True), err=True)
