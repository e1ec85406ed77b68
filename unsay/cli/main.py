"""The commands of `unsay`: their options and help, without what carries them out.

Only Click and our fixed words are imported here, so that `--help`, `--version` and completion
are instant; a command's module is imported when the command runs.
"""

import os
from importlib import import_module
from typing import Any, get_args

import click

from unsay.cli.options import (
    HOMES,
    LazyGroup,
    begun,
    labelled,
    models,
    paged,
    pairs,
    place,
    shared,
    thread,
)
from unsay.types import EventType, RunPhase, RunStatus


def _run(name: str, options: dict[str, Any]) -> None:
    """Import a command's module and call the function that does its work."""
    getattr(import_module(HOMES[name]), name)(**options)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="unsay", message="unsay %(version)s")
@click.pass_context
def cli(context: click.Context) -> None:
    """Conversations that judge their own answers and can take them back.

    `unsay demo` shows everything without a key. For a conversation of your own
    set OPENAI_API_KEY (or OPENAI_BASE_URL for a server of your own) and
    UNSAY_MODEL, then run `unsay chat`.
    """
    if os.environ.get("NO_COLOR"):
        context.color = False


@cli.command()
@thread("a new one by default")
@models
@shared
def chat(**options: Any) -> None:
    """Talk; /help lists what can be taken back."""
    _run("chat", options)


@cli.command()
@click.argument("text", required=False)
@thread("a new one by default, the last one for --resume and --decide")
@models
@click.option("--resume", is_flag=True, help="Go on with a turn that was interrupted.")
@click.option(
    "--decide",
    metavar="DECISION",
    help="Decide about rejected drafts: approve, reject, edit:YOUR WORDS, or what the next "
    "attempt should do.",
)
@click.option(
    "--turn-id",
    metavar="ID",
    help="Your name for this turn: with the same one TEXT is answered once, however often it is "
    "sent to the --thread.",
)
@shared
def say(**options: Any) -> None:
    """Say TEXT, or standard input for -; print the answer."""
    _run("say", options)


@cli.command()
@click.option("--status", type=click.Choice(["active", "ended"]), help="Only these.")
@labelled("threads")
@begun("threads")
@paged
@shared
def threads(**options: Any) -> None:
    """List the conversations, the newest first.

    Without filters the one spoken in last comes first, with them the one begun last.
    """
    _run("threads", options)


@cli.command()
@click.option(
    "--view", metavar="TURN", type=int, help="Show what the model was sent in this turn, instead."
)
@thread("the last one by default")
@shared
def timeline(**options: Any) -> None:
    """Show the turns, the scores and what was taken back.

    Below stands who uses the window, and what was spent.
    """
    _run("timeline", options)


@cli.command()
@thread("the last one by default")
@shared
def checkpoints(**options: Any) -> None:
    """List the checkpoints."""
    _run("checkpoints", options)


@cli.command()
@click.argument("name", required=False)
@thread("the last one by default")
@shared
def checkpoint(**options: Any) -> None:
    """Mark this point as good, with or without a name."""
    _run("checkpoint", options)


@cli.command()
@place
@click.option("--preview", is_flag=True, help="Only tell what would go; nothing is changed.")
@thread("the last one by default")
@shared
def rollback(**options: Any) -> None:
    """Go back to a checkpoint, by default the last good one."""
    _run("rollback", options)


@cli.command()
@thread("the last one by default")
@shared
def undo(**options: Any) -> None:
    """Take back the last step, a turn or a rollback."""
    _run("undo", options)


@cli.command()
@thread("the last one by default")
@shared
def redo(**options: Any) -> None:
    """Make the step again that was undone last."""
    _run("redo", options)


@cli.command()
@thread("the last one by default")
@models
@shared
def retry(**options: Any) -> None:
    """Ask the last question again; print the new answer.

    `unsay undo` brings the old answer back.
    """
    _run("retry", options)


@cli.command()
@place
@click.option("--as", "name", metavar="ID", help="The new conversation; a new id by default.")
@thread("the last one by default")
@shared
def fork(**options: Any) -> None:
    """Begin a conversation as this one was; print its id."""
    _run("fork", options)


@cli.command()
@thread("the last one by default")
@shared
def branches(**options: Any) -> None:
    """List the live line, what was left, and the forks.

    Each with its id, the turn after which it begins, its own turns and what they cost.
    """
    _run("branches", options)


@cli.command()
@click.argument("a")
@click.argument("b", required=False, default="live")
@thread("the last one by default")
@shared
def diff(**options: Any) -> None:
    """Show how two lines differ, B by default the live one.

    A line is `live`, a checkpoint, a cut's id or a conversation's; `unsay branches` lists them.
    """
    _run("diff", options)


@cli.command()
@click.argument("what")
@thread("the last one by default")
@shared
def restore(**options: Any) -> None:
    """Bring back a cut, what was forgotten, or a folded topic.

    WHAT is the id of a cut, of something forgotten or of a message, or a topic's id or label.
    """
    _run("restore", options)


@cli.command()
@click.argument("message_id", metavar="[ID]", required=False)
@click.option("--turn", metavar="N", type=int, help="All of this turn.")
@thread("the last one by default")
@shared
def pin(**options: Any) -> None:
    """Keep a message in every view, by default the last turn.

    `unsay timeline --json` has the messages' ids.
    """
    _run("pin", options)


@cli.command()
@click.argument("message_id", metavar="[ID]", required=False)
@click.option("--turn", metavar="N", type=int, help="All of this turn.")
@thread("the last one by default")
@shared
def unpin(**options: Any) -> None:
    """Take a pin off, by default those of the last turn."""
    _run("unpin", options)


@cli.command()
@click.argument("what", required=False)
@click.argument("through", required=False)
@click.option("--turn", metavar="N[-M]", help="These turns instead.")
@click.option(
    "--results-below",
    metavar="SCORE",
    type=click.FloatRange(0, 1),
    help="Instead the tool results that score less against the topic's questions.",
)
@click.option("--reason", metavar="TEXT", default="", help="Why, for whoever lists it.")
@thread("the last one by default")
@shared
def forget(**options: Any) -> None:
    """Hide words from the model; the record keeps them.

    WHAT is a message's id, the first of a span that ends with THROUGH, or a topic's id or label.
    `unsay restore` or `unsay undo` shows it to the model again.
    """
    _run("forget", options)


@cli.command()
@thread("the last one by default")
@shared
def forgotten(**options: Any) -> None:
    """List what is forgotten."""
    _run("forgotten", options)


@cli.command()
@click.argument("words", nargs=-1, required=True)
@thread("the last one by default")
@shared
def recall(*, words: tuple[str, ...], **options: Any) -> None:
    """Find what was said that bears on WORDS.

    The model is shown it with the next question.
    """
    _run("recall", {**options, "words": " ".join(words)})


@cli.command()
@click.argument("message_ids", metavar="ID...", nargs=-1, required=True)
@click.option(
    "--from", "branch", metavar="BRANCH", required=True, help="A cut's id, or a conversation's."
)
@thread("the last one by default")
@shared
def pick(**options: Any) -> None:
    """Put messages of another line at the end of this one.

    `unsay diff BRANCH --json` has the messages' ids.
    """
    _run("pick", options)


@cli.command()
@thread("the last one by default")
@shared
def tokens(**options: Any) -> None:
    """Show who uses the window, and what was spent on what.

    On the answers that stand, on what was taken back, on judging, summaries and titles.
    """
    _run("tokens", options)


@cli.command()
@thread("the last one by default")
@click.option("--all", "everywhere", is_flag=True, help="The runs of all conversations.")
@click.option(
    "--status",
    type=click.Choice(get_args(RunStatus)),
    multiple=True,
    help="Only these; may be given several times.",
)
@click.option("--phase", type=click.Choice(get_args(RunPhase)), help="Only those at this work.")
@labelled("runs")
@begun("runs")
@paged
@shared
def runs(**options: Any) -> None:
    """List what ran, the first run first, and how it ended."""
    _run("runs", options)


@cli.command()
@thread("the last one by default")
@click.option(
    "--type",
    "types",
    type=click.Choice(get_args(EventType)),
    multiple=True,
    help="Only these; may be given several times.",
)
@click.option("--run", metavar="ID", help="Only those of this run.")
@labelled("events")
@paged
@click.option(
    "--verify", is_flag=True, help="Only check that none is missing and all make the record."
)
@shared
def events(**options: Any) -> None:
    """List everything that happened, oldest first."""
    _run("events", options)


@cli.command()
@thread("the last one by default")
@click.option("--turn", metavar="N", type=int, help="Of this turn.")
@click.option("--run", metavar="ID", help="Of this run, which failed or took a draft back.")
@click.option("--attempt", metavar="N", type=int, help="This failed attempt, from 1.")
@click.option("--model", metavar="NAME", help="Asks this model the same; nothing is recorded.")
@click.option("--judge-model", metavar="NAME", help="Judges its answer; default as configured.")
@click.option("--payload", is_flag=True, help="Print the request's body alone, as JSON.")
@shared
def replay(**options: Any) -> None:
    """Show what a model was sent, and ask another the same.

    By default the newest attempt that failed; without one, the last turn.
    """
    _run("replay", options)


@cli.command()
@pairs
@thread("the last one by default")
@click.option("--remove", metavar="NAME", multiple=True, help="Take this label off.")
@shared
def label(**options: Any) -> None:
    """Set labels to find a conversation by, and list them."""
    _run("label", options)


@cli.command()
@thread("it can be read ever after", required=True)
@shared
def end(**options: Any) -> None:
    """End a conversation for good."""
    _run("end", options)


@cli.command()
@thread("nothing brings it back", required=True)
@click.option("--yes", is_flag=True, help="Do not ask; needed where nobody can be asked.")
@shared
def purge(**options: Any) -> None:
    """Remove a conversation, to the last byte."""
    _run("purge", options)


@cli.command()
@click.option("--lang", type=click.Choice(["en", "ja"]), default="en", help="Default en.")
@shared
def demo(**options: Any) -> None:
    """Show it all on a scripted conversation; no key needed."""
    _run("demo", options)
