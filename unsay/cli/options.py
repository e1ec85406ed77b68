"""The options and arguments of each command."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from math import inf
from typing import Any, get_args

import click

from unsay.types import EventType, RunPhase, RunStatus


class Number(click.FloatRange):
    """Click's type for a number from `least` to `most`; `None` for `most` is no upper bound."""

    def __init__(self, kind: type[int | float], *, least: int, most: int | None = None) -> None:
        super().__init__(least, most)
        self._kind, self._least, self._most = kind, least, most

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> int | float:
        """Return the number; `UsageError` names the option and the value that it does not take."""
        noun = "a whole number" if self._kind is int else "a number"
        bounds = (
            f"{self._least} or more" if self._most is None else f"{self._least} to {self._most}"
        )
        option = param.opts[0] if param else "The number"
        try:
            number = self._kind(value)
        except ValueError:
            raise click.UsageError(f"{option} must be {noun}, got {value!r}.", ctx) from None
        if not self._least <= number <= (inf if self._most is None else self._most):
            raise click.UsageError(f"{option} must be {bounds}, got {value}.", ctx)
        return number


COUNT = Number(int, least=1)
SHARE = Number(float, least=0, most=1)
COST = Number(float, least=0)


def _option(usage: str, meaning: str, *, into: str | None = None, **more: Any) -> click.Option:
    """Return Click's option for a usage such as `--model NAME`, or `--json` for a flag.

    `meaning` is its help, `into` the name of the command's parameter if it differs from the flag's,
    and `more` is passed to Click.
    """
    flag, _, value = usage.partition(" ")
    kind: dict[str, Any] = {"metavar": value} if value else {"is_flag": True}
    return click.Option([flag, *([into] if into else [])], help=meaning, **kind, **more)


def thread_option(command: str) -> click.Option:
    """Return the option `--thread` of a command; its help says which thread is the default."""
    note = THREAD_NOTES.get(command, "default: the last one")
    return _option("--thread ID", f"Id of the conversation; {note}.")


def _labelled(what: str) -> click.Option:
    meaning = f"Only {what} with this label; repeatable."
    return _option("--label NAME=VALUE", meaning, into="labels", multiple=True, callback=_pairs)


def _choice(
    names: Sequence[str], choices: Sequence[str], meaning: str, **more: Any
) -> click.Option:
    return click.Option(names, type=click.Choice(choices), help=meaning, **more)


def _started(what: str) -> tuple[click.Option, click.Option]:
    return (
        _option(
            "--since TIME",
            f"Only {what} started at this time or later, such as 2026-01-31 or "
            "2026-01-31T09:00; local time unless it has a zone.",
            callback=_zoned,
        ),
        _option("--until TIME", f"Only {what} started before this time.", callback=_zoned),
    )


def _zoned(context: click.Context, parameter: click.Parameter, given: str | None) -> str | None:
    """Return a time with its zone; what is not a time is returned unchanged, and refused later."""
    del context, parameter
    try:
        moment = datetime.fromisoformat(given or "")
    except ValueError:
        return given
    return given if moment.tzinfo else moment.astimezone().isoformat()


def _pairs(
    context: click.Context, parameter: click.Parameter, given: Sequence[str]
) -> dict[str, str]:
    for each in given:
        if "=" not in each:
            raise click.BadParameter(
                f"{each!r} is not a label: write NAME=VALUE.", context, parameter
            )
    return {name: value for name, _, value in (each.partition("=") for each in given)}


SHARED = (
    _option("--db PATH", "Database file or URL; default: the user's data folder."),
    _option("--json", "Print JSON.", into="as_json"),
)

MODELS = (
    _option("--model NAME", "Model that answers; default $UNSAY_MODEL."),
    _option("--judge-model NAME", "Model that judges; default: the answering model."),
)

SYSTEM = _option("--system TEXT", "System prompt; default $UNSAY_SYSTEM_PROMPT.")

TOOLS = _option(
    "--tools MODULE:NAME", "Function, tool or list of tools; repeatable.", multiple=True
)

MCP = _option("--mcp FILE", "JSON file with MCP servers whose tools are offered.")

GIVEN = (
    SYSTEM,
    _option(
        "--file PATH",
        "Text file or image to attach to the first message; repeatable.",
        into="files",
        multiple=True,
    ),
    TOOLS,
    MCP,
)

# What a question that is answered again needs: the model, its tools and its instructions.
AGAIN = (*MODELS, SYSTEM, TOOLS, MCP)

UNDOING = _option(
    "--tools MODULE:NAME",
    "Tool whose calls are undone, or a list of tools; repeatable.",
    multiple=True,
)

PLACE = click.Argument(["to"], metavar="[CHECKPOINT]", required=False)

PINNED = (
    click.Argument(["message_id"], metavar="[ID]", required=False),
    _option("--turn N", "All messages of turn N.", type=COUNT),
)

PAGE = (
    _option("--limit N", "At most N rows; default: all.", type=COUNT),
    _option("--cursor C", "Continue after the page that printed this cursor."),
)

TURN = click.Argument(["turn"], metavar="N", type=COUNT)

NAMED = click.Argument(["named"], metavar="[THREAD]", required=False)
"""The id of a conversation instead of `--thread`, in commands without other arguments."""

REPEATABLE = "Only these; repeatable."

PARAMETERS: Mapping[str, Sequence[click.Parameter]] = {
    "chat": (*MODELS, *GIVEN),
    "say": (
        click.Argument(["text"], required=False),
        *MODELS,
        _option("--resume", "Continue an interrupted turn."),
        _option(
            "--decide DECISION",
            "Decide about rejected drafts: approve, reject, edit:TEXT, or instructions for "
            "the next attempt.",
        ),
        _option(
            "--turn-id ID",
            "Id of this turn, which you choose: TEXT is answered once per id, even if the "
            "command is repeated. Needs --thread.",
        ),
        _option(
            "--answer TEXT",
            "The answer that an error showed because it could not be saved: it is saved, and no "
            "model is called. Needs --turn-id.",
        ),
        *GIVEN,
    ),
    "threads": (
        _choice(["--status"], ["active", "ended"], "Only these."),
        _labelled("threads"),
        *_started("threads"),
        *PAGE,
    ),
    "timeline": (
        _option(
            "--context TURN",
            "Show the model calls of this turn and what they were sent.",
            type=COUNT,
        ),
    ),
    "checkpoint": (click.Argument(["name"], required=False),),
    "task": (click.Argument(["name"]),),
    "rollback": (
        PLACE,
        _option("--turns N", "Roll back N turns instead of to a checkpoint.", type=COUNT),
        _option("--preview", "Show what would be removed; change nothing."),
        UNDOING,
    ),
    "undo": (UNDOING,),
    "redo": (UNDOING,),
    "retry": AGAIN,
    "compact": (click.Argument(["up_to"], metavar="[UP_TO]", required=False), *MODELS),
    "remove": (TURN, UNDOING),
    "edit": (TURN, click.Argument(["text"]), *AGAIN),
    "fork": (
        PLACE,
        _option(
            "--turns N", "Leave out the last N turns instead of all after a checkpoint.", type=COUNT
        ),
        _option("--as ID", "Id of the new conversation; default: a random id.", into="name"),
    ),
    "diff": (click.Argument(["a"]), click.Argument(["b"], required=False, default="live")),
    "restore": (click.Argument(["what"], required=False), UNDOING),
    "pin": PINNED,
    "unpin": PINNED,
    "forget": (
        click.Argument(["what"], required=False),
        click.Argument(["through"], required=False),
        _option("--turn N[-M]", "Forget turn N, or turns N to M."),
        _option(
            "--results-below SCORE",
            "Forget the tool results that score less than this for the topic's questions.",
            type=SHARE,
        ),
        _option("--reason TEXT", "A note that `unsay forgotten` shows.", default=""),
    ),
    "recall": (
        click.Argument(
            ["words"], nargs=-1, required=True, callback=lambda *given: " ".join(given[-1])
        ),
    ),
    "pick": (
        click.Argument(["message_ids"], metavar="ID...", nargs=-1, required=True),
        _option("--from BRANCH", "Id of a branch or of a thread.", into="branch", required=True),
    ),
    "lesson": (click.Argument(["number"], metavar="N", type=COUNT), click.Argument(["text"])),
    "unlearn": (click.Argument(["number"], metavar="N", type=COUNT),),
    "rate": (
        TURN,
        click.Argument(["label"], type=click.Choice(["good", "bad"])),
        _option("--reason TEXT", "Why; that of a bad answer is a lesson.", default=""),
    ),
    "ratings": (
        _option("--import FILE", "Give these ratings to the conversation's turns.", into="source"),
        _option("--all", "Print the ratings of all conversations.", into="everywhere"),
    ),
    "judge": (_option("--turn N", "Only the answer of turn N.", type=COUNT), *MODELS),
    "bisect": (_option("--yes", "Roll back to before the turn."), *MODELS),
    "calibrate": (
        click.Argument(["file"]),
        _option("--alarm-cost X", "Cost of a good answer that fails.", type=COST, default=1.0),
        _option("--miss-cost X", "Cost of a bad answer that passes.", type=COST, default=1.0),
        _option("--write", "Store the thresholds in unsay.toml."),
    ),
    "runs": (
        _option("--all", "List the runs of all conversations.", into="everywhere"),
        _choice(["--status"], get_args(RunStatus), REPEATABLE, multiple=True),
        _choice(["--phase"], get_args(RunPhase), "Only runs in this phase."),
        _labelled("runs"),
        *_started("runs"),
        *PAGE,
    ),
    "events": (
        _choice(["--type", "types"], get_args(EventType), REPEATABLE, multiple=True),
        _option("--run ID", "Only events of this run."),
        _labelled("events"),
        *PAGE,
        _option("--verify", "Only check that the log is complete and gives the stored messages."),
    ),
    "replay": (
        _option("--turn N", "Turn to show.", type=COUNT),
        _option("--run ID", "Run to show: one that failed or rejected a draft."),
        _option("--attempt N", "Failed attempt to show, from 1.", type=COUNT),
        _option("--model NAME", "Send the request to this model; nothing is stored."),
        _option("--judge-model NAME", "Model that judges the new answer; default: as configured."),
        _option("--payload", "Print only the request body, as JSON."),
    ),
    "label": (
        click.Argument(["labels"], metavar="[NAME=VALUE]...", nargs=-1, callback=_pairs),
        _option("--remove NAME", "Remove this label; repeatable.", multiple=True),
    ),
    "purge": (_option("--yes", "Do not ask for confirmation; required without a terminal."),),
    "settings": (*MODELS, SYSTEM),
    "schema": (click.Argument(["command"]),),
    "completion": (click.Argument(["shell"], type=click.Choice(["bash", "zsh", "fish"])),),
    "demo": (_choice(["--lang"], ["en", "ja"], "Language; default: that of the shell."),),
}
"""Parameters of each command besides `--db` and `--json`.

Before its options it takes `--thread`, unless it is in `THREADLESS`.
"""

THREADLESS = {"threads", "calibrate", "doctor", "settings", "schema", "completion", "demo"}
"""Commands that are about no conversation, or about all."""

THREAD_NOTES = {
    "chat": "default: a new one, or on a terminal one of the recent ones",
    "say": "default: a new one; with --resume and --decide the last one",
    "end": "needed; it stays readable",
    "purge": "needed; deletion cannot be undone",
}
"""Which thread these commands take without `--thread`; the others take the last one."""
