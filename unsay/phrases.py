"""Texts with values, such as those of errors, which each interface renders in its language.

The texts are in `prompts/en/errors.toml` and `prompts/ja/errors.toml` under their codes;
`Texts.message` renders them. A text for developers has no code, and is where it is raised.
"""

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Verb:
    """A verb, which each interface names in its own way: `timeline()`, `/timeline`, `unsay timeline`.

    `python`, `chat` and `command` replace what follows from the name.
    """

    name: str
    python: str = ""
    chat: str = ""
    command: str = ""

    def __str__(self) -> str:
        return self.python or f"{self.name}()"


@dataclass(frozen=True)
class Setting:
    """A setting: its name, or the variable `UNSAY_…` where people type."""

    name: str

    def __str__(self) -> str:
        return f"the setting {self.name}"


@dataclass(frozen=True)
class Option:
    """An argument of a verb with its value, `since='now'`, or without one, `turns=…`.

    People type `--since 'now'` and `--turns`, or `typed` if the option has another name.
    """

    name: str
    value: object = ...
    typed: str = ""

    def __str__(self) -> str:
        return f"{self.name}={'…' if self.value is ... else repr(self.value)}"


@cache
def _texts() -> dict[str, str]:
    text = (Path(__file__).parent / "prompts" / "en" / "errors.toml").read_text("utf-8")
    errors: dict[str, str] = tomllib.loads(text)["errors"]
    return errors


class Phrase:
    """A text with values, which an interface renders in its language: `str` has Python's names.

    Attributes:
        code: Stable name of the text; empty for one that stays English.
        typed: The English template for people who type, where it is another one.
        values: Values of the template by name, of which some may be a `Verb` or a `Phrase`.
    """

    def __init__(
        self, english: str = "", *, code: str = "", typed: str = "", **values: Any
    ) -> None:
        self._english = english
        self.code = code
        self.typed = typed
        self.values = values

    @property
    def english(self) -> str:
        """The text, or with `values` the template in the form of `str.format`."""
        return self._english or _texts().get(self.code, "")

    def __str__(self) -> str:
        return self.english.format(**self.values) if self.values else self.english
