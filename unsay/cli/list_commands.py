"""`unsay threads`: answered at once if there is nothing to list."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from unsay.cli.language import in_shell_language
from unsay.cli.output import note, show
from unsay.cli.paths import check_exists, location
from unsay.storage.pagination import moment_of, window
from unsay.storage.peek import lists_none
from unsay.storage.urls import file_at


def threads(*, db: str | None, as_json: bool, **filters: Any) -> None:
    asked = {name: given for name, given in filters.items() if given not in (None, {})}
    check_exists(db)
    bounds = {name: filters[name] for name in ("labels", "since", "until", "cursor")}
    wanted = window("sessions", **bounds, limit=1)  # an impossible filter is an error

    def matches(entry: Mapping[str, Any]) -> bool:
        in_window = wanted.holds(moment_of(entry["created_at"]), entry["labels"])
        return in_window and filters["status"] in (None, entry["status"])

    file = file_at(location(db))
    if file is None or not lists_none(file, matches):
        import_module("unsay.cli.thread_commands").list_threads_of(db, asked, as_json=as_json)
        return
    cursor = {"cursor": None} if asked else {}
    show(lambda: note(nothing_text(db, asked)), as_json=as_json, threads=[], **cursor)


def nothing_text(db: str | None, asked: Mapping[str, Any]) -> str:
    """Return what to print if no thread is listed: none matches what was `asked`, or none exists."""
    if asked:
        return in_shell_language("No thread matches.")
    return in_shell_language(
        f"There is no thread in {location(db)!r} yet; `unsay chat` starts one."
    )
