"""Write `docs/commands.md` from the table of commands: `python docs/generate_commands.py`."""

from pathlib import Path

import click

from unsay.cli.main import cli
from unsay.operations.command_table import COMMANDS, SLASH_COMMANDS, CommandEntry

PAGE = Path(__file__).with_name("commands.md")

INTRODUCTION = """\
# Commands

`docs/generate_commands.py` writes this page from the table in `unsay/operations/command_table.py`,
which also makes `/help`, the completion in the chat and `unsay --help`.

## In the chat

A message with one of these commands alone on its line is carried out and never sent to a model.
`/resume` and `/exit` exist in `unsay chat` only; a program that calls the graph has the others.
"""

SHELL = """
## On the command line

Every command takes `--db PATH` (a database file or address, instead of unsay's own) and `--json`
(one JSON object with a `schema_version`, for programs). Exit codes: 0 done, 1 failed, 2 wrong usage
or input, 3 not found, 4 conflict, 130 stopped with Ctrl-C.
"""


def commands_page() -> str:
    """Return the page as Markdown."""
    rows = [
        (f"`{each.usage('en')}`", each.meaning("en"), each.meaning("ja")) for each in SLASH_COMMANDS
    ]
    parts = [INTRODUCTION, _table(("command", "what it does", "日本語"), rows).rstrip("\n"), SHELL]
    return "\n".join([*parts, *(_section(each) for each in COMMANDS if each.module)])


def _section(entry: CommandEntry) -> str:
    command = cli.commands[entry.name]
    # Click keeps the help option of a command as the first context names it.
    context = click.Context(command, info_name=f"unsay {entry.name}", **cli.context_settings)
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    shared = {"--db PATH", "--json"}
    records = [each.get_help_record(context) for each in command.params]
    rows = [(f"`{name}`", words) for name, words in filter(None, records) if name not in shared]
    words = f"{entry.summary} {entry.details}".strip()
    head = f"### {entry.name}\n\n```text\n{usage}\n```\n\n{words}\n"
    return f"{head}\n{_table(('option', 'meaning'), rows)}" if rows else head


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "".join(f"| {' | '.join(_cell(each) for each in line)} |\n" for line in lines)


def _cell(words: str) -> str:
    return words.replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(commands_page(), encoding="utf-8")
