"""The commands of the chat and of the command line: one table for both.

The chat's `/help` and completion, the commands that Click offers and `docs/commands.md` are all
made from it. It imports nothing heavy, so that `unsay --help` stays instant.
"""

import re
from collections.abc import Callable
from typing import Literal, get_args

from unsay.errors import InputError
from unsay.operations.command_entries import COMMANDS
from unsay.types import CommandName, Language

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
    listed = [
        each
        for each in SLASH_COMMANDS
        if each.by_chat == by_chat
        and allows(each.name)
        and (not name or name in (each.name, *each.aliases))
    ]
    return "\n".join(f"{each.usage(language)}  {each.meaning(language)}" for each in listed)


def check_argument(verb: str, argument: str, language: Language) -> None:
    """Raise `InputError`, which says how to type it, for a command that needs an argument and has none."""
    entry = _BY_NAME[verb]
    if entry.argument and not entry.argument.startswith("[") and not argument:
        raise InputError(f"The command has no argument: write {entry.usage(language)}")


# Methods that are not commands, and the command that lists the same.
_ELSEWHERE = {"pins": "timeline", "sessions": "threads"}

_NAMED = re.compile(
    rf"`?(?<!-)\b(?:unsay |Registry\.)?({'|'.join([*_BY_NAME, *_ELSEWHERE])})(?:`|(?:\.list)?\(\)`?)"
)

_OPTIONS = {
    "run_id": "run",
    "below": "results-below",
    "thread_id": "thread",
    "labels": "label",
    "turns": "turn",  # of `unsay forget`
}
_OPTION = re.compile(
    r"^(since|until|cursor|limit|run_id|below|thread_id|labels)=|the option `(\w+)`"
)


def in_terms_of(interface: Literal["chat", "shell"], message: str) -> str:
    """Return an error's text in which commands are named as one types them in this interface.

    The library names a command by its method, such as `branches()`, and a value at the beginning of
    the text by its argument, such as `since=`.

    >>> in_terms_of("chat", "timeline() lists the turns, events() the events")
    '/timeline lists the turns, `unsay events` the events'
    >>> in_terms_of("shell", "since='now' is not a time")
    "--since 'now' is not a time"
    """

    def typed(match: re.Match[str]) -> str:
        name = _ELSEWHERE.get(match[1], match[1])
        in_chat = interface == "chat" and _BY_NAME[name] in SLASH_COMMANDS
        return f"/{name}" if in_chat else f"`unsay {name}`"

    def option(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        shown = f"--{_OPTIONS.get(name, name)}"
        return f"{shown} " if match[1] else f"the option {shown}"

    return _OPTION.sub(option, _NAMED.sub(typed, message))
