"""The help of `unsay`: a short one without arguments, all commands in groups with `--help`."""

from collections.abc import Iterator

from unsay.cli.language import in_shell_language
from unsay.operations.command_entries import COMMANDS

GROUPS = (
    ("Chat", ("chat", "say", "retry", "edit", "demo")),
    (
        "Go back",
        ("timeline", "undo", "redo", "rollback", "checkpoint", "checkpoints", "task", "remove"),
    ),
    ("Branches", ("branches", "restore", "diff", "pick", "fork")),
    (
        "Context",
        (
            "tokens",
            "compact",
            "recall",
            "pin",
            "unpin",
            "forget",
            "forgotten",
            "same",
            "lessons",
            "lesson",
            "unlearn",
        ),
    ),
    ("Judging", ("rate", "ratings", "calibrate", "judge", "bisect")),
    ("Threads", ("threads", "label", "end", "purge")),
    ("Records", ("runs", "events", "replay")),
    ("Setup", ("doctor", "settings", "schema", "completion")),
)
"""The commands by what a person wants to do; every command is in one group."""

SHORT = ("demo", "doctor", "chat", "say", "threads", "timeline", "undo")

_SUMMARIES = {each.name: each.summary for each in COMMANDS}


def groups() -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield each group's title, with the names and summaries of its commands."""
    for title, names in GROUPS:
        yield title, [(name, _SUMMARIES[name]) for name in names]


def short_help() -> str:
    """Return the help that `unsay` alone prints, in the language of the shell."""
    width = max(map(len, SHORT))
    rows = [f"  unsay {name:<{width}}  {in_shell_language(_SUMMARIES[name])}" for name in SHORT]
    return "\n".join(
        [
            in_shell_language("Chat with an LLM that judges its answers, and roll back bad ones."),
            "",
            in_shell_language("Commands:"),
            *rows,
            "",
            in_shell_language(
                "`unsay --help` lists all commands, `unsay COMMAND --help` explains one."
            ),
        ]
    )
