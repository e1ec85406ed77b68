"""What the commands print: JSON on standard output, notes on standard error."""

import json
from collections.abc import Mapping
from typing import Any

import click

SCHEMA_VERSION = 1
"""Of every JSON object that the command line prints."""


def print_json(value: Mapping[str, Any]) -> None:
    """Print one object on one line."""
    click.echo(json.dumps(value, ensure_ascii=False))


def versioned(**fields: Any) -> dict[str, Any]:
    """An object for programs."""
    return {"schema_version": SCHEMA_VERSION, **fields}


def note(text: str) -> None:
    """Print a line about what happens, dimmed, on standard error."""
    click.echo(click.style(text, dim=True), err=True)
