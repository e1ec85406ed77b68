"""The commands, one entry each: what they do, in the chat and on the command line."""

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from unsay.errors import InputError
from unsay.types import CommandName, Language


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """One command: what it does, and where it is available."""

    name: str
    # `unsay.cli.<module>` has the function of this name; empty: not a shell command.
    module: str = ""
    summary: str = ""
    # What `unsay NAME --help` adds to the summary.
    details: str = ""
    # What it does in the chat, where the summary does not say it.
    chat_en: str = ""
    # What it does in the chat; empty: not a slash command.
    chat_ja: str = ""
    # The argument of the slash command as `/help` shows it; empty: it takes none.
    argument: str = ""
    # The argument in Japanese where it has other words.
    argument_ja: str = ""
    # Whether the terminal's chat carries out the slash command, and not the graph.
    by_chat: bool = False
    # Whether the slash command only shows something: it changes nothing in the thread.
    reads: bool = False
    # Other names of the slash command, as people know it from elsewhere.
    aliases: tuple[str, ...] = ()

    def usage(self, language: Language) -> str:
        """Return how a user types the command in the chat, such as `/pin [N]`."""
        argument = self.argument_ja if language == "ja" and self.argument_ja else self.argument
        return f"/{self.name} {argument}".rstrip()

    def meaning(self, language: Language) -> str:
        """Return what the command does in the chat, for `/help`, without a period at the end."""
        others = ", ".join(f"/{alias}" for alias in self.aliases)
        if language == "ja":
            return f"{self.chat_ja}(別名 {others})" if others else self.chat_ja
        text = self.chat_en or self.summary.removesuffix(".")
        text = text[:1].lower() + text[1:]
        return f"{text} (also {others})" if others else text


def _commands() -> tuple[CommandEntry, ...]:
    text = Path(__file__).with_name("commands.toml").read_text("utf-8")
    entries = tomllib.loads(text).items()
    return tuple(
        CommandEntry(name, **{**entry, "aliases": tuple(entry.get("aliases", ()))})
        for name, entry in entries
    )


COMMANDS = _commands()
"""All commands, in the order of `unsay --help`."""


_BY_NAME = {each.name: each for each in COMMANDS}

SLASH_COMMANDS = tuple(_BY_NAME[name] for name in (*get_args(CommandName), "resume", "exit"))
"""The commands of the chat, in the order of `/help`."""

VERBS = {each.name: bool(each.argument) for each in SLASH_COMMANDS if not each.by_chat}
"""The name of each command that the graph carries out, and whether it takes an argument."""

ALIASES = {alias: each.name for each in SLASH_COMMANDS for alias in each.aliases}
"""The command that each other name stands for."""

READING = frozenset(each.name for each in SLASH_COMMANDS if each.reads)
"""The commands that only show something."""

NOT_IN_GRAPH = frozenset(each.name for each in COMMANDS) - VERBS.keys()
"""Commands that the graph answers with a notice: the command line's, and the terminal chat's own."""


def chat_help(
    language: Language,
    *,
    by_chat: bool = False,
    only: str = "",
    allows: Callable[[str], bool] = lambda _: True,
) -> str:
    """Return the help, a command a line: the graph's commands, or with `by_chat` the chat's own.

    Only commands are listed for whose names `allows` returns `True`. `only` is what a person typed
    after `/help`: if it is not empty, only the command of this name or alias is listed. The result
    is empty if there is none.
    """
    name = only.lower().removeprefix("/")
    commands = [
        each
        for each in SLASH_COMMANDS
        if each.by_chat == by_chat
        and allows(each.name)
        and (not name or name in (each.name, *each.aliases))
    ]
    return "\n".join(f"{each.usage(language)}  {each.meaning(language)}" for each in commands)


def check_argument(verb: str, argument: str, language: Language) -> None:
    """Raise `InputError`, which says how to type it, for a command that needs an argument and has none."""
    entry = _BY_NAME[verb]
    if entry.argument and not entry.argument.startswith("[") and not argument:
        raise InputError(code="no_argument", usage=entry.usage(language))
