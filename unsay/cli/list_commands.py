"""`unsay threads`: answered at once if there is nothing to list."""

from importlib import import_module
from typing import Any

from unsay.cli.output import note, show
from unsay.cli.paths import location
from unsay.storage.peek import has_no_threads


def threads(*, db: str | None, as_json: bool, **filters: Any) -> None:
    asked = {name: given for name, given in filters.items() if given not in (None, {})}
    # With filters the slow way is taken, which checks their values.
    if db is None and not asked and has_no_threads(location(db)):
        show(lambda: note(begin_text(db)), as_json=as_json, threads=[])
        return
    import_module("unsay.cli.thread_commands").list_threads_of(db, asked, as_json=as_json)


def begin_text(db: str | None) -> str:
    """Return the text that `unsay threads` prints if the database `db` has no threads."""
    return f"There is no thread in {location(db)!r} yet; `unsay chat` starts one."
