"""`unsay threads`: answered at once if there is nothing to list."""

import json
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import Any

from unsay.cli.output import check_exists, location, note, shell_texts, show
from unsay.storage.pagination import moment_of, window
from unsay.storage.urls import file_at

# The prefix of the entries of threads in LangGraph's table `store`.
THREAD_ENTRIES = "unsay.threads"


def lists_none(path: Path, wanted: Callable[[Mapping[str, Any]], bool]) -> bool:
    """Return whether a SQLite file does not exist, or lists no thread that is `wanted`.

    `wanted` takes an entry as plain JSON. `False` if there is one, or if the file or an entry cannot
    be read. The file is not changed.
    """
    if not path.exists():
        return True
    query = "SELECT value FROM store WHERE prefix = ?"
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as file:
            entries = file.execute(query, (THREAD_ENTRIES,))
            return not any(wanted(json.loads(value)) for (value,) in entries)
    except (sqlite3.Error, ValueError, TypeError, KeyError, AttributeError):
        return False


def threads(*, db: str | None, as_json: bool, **filters: Any) -> None:
    active_filters = {name: value for name, value in filters.items() if value not in (None, {})}
    check_exists(db)
    bounds = {name: filters[name] for name in ("labels", "since", "until", "cursor")}
    page_window = window("sessions", **bounds, limit=1)  # an impossible filter is an error

    def matches(entry: Mapping[str, Any]) -> bool:
        in_window = page_window.holds(moment_of(entry["created_at"]), entry["labels"])
        return in_window and filters["status"] in (None, entry["status"])

    file = file_at(location(db))
    if file is None or not lists_none(file, matches):
        import_module("unsay.cli.records").list_threads_of(db, active_filters, as_json=as_json)
        return
    cursor = {"cursor": None} if active_filters else {}
    show(lambda: note(nothing_text(db, active_filters)), as_json=as_json, threads=[], **cursor)


def nothing_text(db: str | None, asked: Mapping[str, Any]) -> str:
    """Return what to print if no thread is listed: none matches what was `asked`, or none exists."""
    if asked:
        return shell_texts().say("no_thread_matches")
    return shell_texts().say("no_threads_yet", path=location(db))
