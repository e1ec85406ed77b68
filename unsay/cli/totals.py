"""`unsay tokens`: who uses the window, what was spent, and how much of the budgets is left."""

from dataclasses import asdict
from typing import Any

import click

from unsay.cli.moving import language_in
from unsay.cli.output import print_json, versioned
from unsay.cli.place import existing_thread
from unsay.nodes.totals import Totals
from unsay.nodes.totals_text import PURPOSES, totals_text
from unsay.prompts.catalogue import texts


def tokens(*, thread: str | None, db: str | None, as_json: bool) -> None:
    """Print a thread's totals."""
    with existing_thread(db, thread) as found:
        conversation = found.open()
        totals = conversation.tokens()
        if as_json:
            print_json(versioned(thread_id=found.thread_id, **totals_dict(totals)))
        else:
            click.echo(totals_text(totals, texts(language_in(conversation))))


def totals_dict(totals: Totals) -> dict[str, Any]:
    """A thread's totals as plain JSON; costs in millionths."""
    window = totals.window
    used = None if window is None else {"size": window.window, "parts": dict(window.parts)}
    named = {name: asdict(getattr(totals.spent, name)) for name in PURPOSES}
    gauges = [{**asdict(each), "share": each.share} for each in totals.gauges]
    total = asdict(totals.spent.total)
    return {"window": used, "spent": {**named, "total": total}, "budgets": gauges}
