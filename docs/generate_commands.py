"""Write `docs/commands.md` from the table of commands: `python docs/generate_commands.py`."""

from pathlib import Path

import click

from unsay.cli.main import cli
from unsay.orders.orders import COMMANDS, SLASH_COMMANDS, CommandEntry

PAGE = Path(__file__).with_name("commands.md")

INTRODUCTION = """\
# Commands

`docs/generate_commands.py` writes this page from the table in `unsay/orders/orders.py`,
which also makes `/help`, the completion in the chat and `unsay --help`.

## In the chat

A message with one of these commands alone on its line is carried out and never sent to a model.
`/resume` and `/exit` exist in `unsay chat` only; a program that calls the graph has the others.
A full-width slash counts as one. A line that is almost a command is answered with "Did you mean …?", and so is every text
whose first word is a slash and letters of any script (`/clear`, `/model gpt`): there is no such command, and the model is sent nothing. A command with other
text, on a line of its own or behind a sentence, is not carried out: a notice asks to send it alone. Other texts with a slash, such as `/etc/hosts is wrong` or
`/24 subnets`, are questions. Two slashes send a text with one: the model is sent `//clear …` as `/clear …`.

Commands are not part of the conversation. `Conversation.say`, the chat and the command line write neither a command nor its notice to the
transcript. Typed into another page of the same graph, both are messages there, because that page shows its messages; counts, titles,
previews, branches, searches and every model call leave them out. A command that only shows something (`/help`, `/timeline`, `/tokens` …) changes
nothing: a waiting question or decision stays as it is, and `/undo` and `/resume` do what they did before. A question that is sent
together with a command stays, and the notice says that it waits for the next message.

`build_graph(commands=…)`, the setting `commands` (`UNSAY_COMMANDS`) and the context of a run say which commands users may send:
`"all"`, `"none"`, or a list of names without the slash. Another command is answered, not carried out, and not sent to a model.
With `"none"` a word with a slash that is no command (`/weather Kyoto`) is a question, for hosts with commands of their own.
A caller that may send a run's context may allow commands in it. On a server, set or check the context there.
"""

SHELL = """
## On the command line

Every command takes `--db PATH` (a database file or address, instead of unsay's own) and `--json`
(one JSON object with a `schema_version`, for programs; `chat` and `demo` print one for each event, and `ratings` its rows, one a line). A command without other arguments takes the thread
as an argument too: `unsay undo trip` is `unsay undo --thread trip`. With a Japanese locale, errors and
`unsay doctor` are Japanese, and what a thread shows is in its own language; with `UNSAY_LANGUAGE=ja` all of it is Japanese. `--help`, rarer errors and what
the system or a server says stay English. Exit codes: 0 done, 1 failed, 2 wrong usage
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
    # The summary explains an argument without words of its own.
    rows = [
        (f"`{name}`", words)
        for name, words in filter(None, records)
        if words and name not in shared
    ]
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
