"""Write the table of stream events in `docs/observability.md`: `python docs/generate_events.py`.

Keys, types and meanings are those of the classes in `unsay/events/stream_events.py`.
"""

import inspect
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from unsay.events.stream_events import StreamEvent

PAGE = Path(__file__).with_name("observability.md")

START, END = "<!-- start of what docs/generate_events.py writes -->", "<!-- end -->"


def table() -> str:
    """Return one row for each kind of event, as Markdown."""
    rows = [("event", "keys", "meaning"), ("---", "---", "---")]
    rows += [row(kind) for kind in get_args(StreamEvent)]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in rows)


def row(event: type) -> tuple[str, str, str]:
    """Return the cells of an event: its kind, its other keys with their types, its docstring."""
    hints = get_type_hints(event)
    (kind,) = get_args(hints.pop("unsay"))
    optional = event.__optional_keys__
    keys = [
        f"`{name}{'?' if name in optional else ''}: {words(hint)}`" for name, hint in hints.items()
    ]
    meaning = " ".join((inspect.getdoc(event) or "").split())
    return f"`{kind}`", ", ".join(keys).replace("|", "\\|"), meaning


def words(hint: Any) -> str:
    """Return a type as code, with the words that a literal allows."""
    if get_origin(hint) is Literal:
        return " | ".join(map(repr, get_args(hint)))
    if get_origin(hint) in (UnionType, Union):
        return " | ".join(map(words, get_args(hint)))
    if get_origin(hint) is list:
        return f"list[{words(*get_args(hint))}]"
    return "None" if hint is NoneType else getattr(hint, "__name__", str(hint))


def page() -> str:
    """Return `docs/observability.md` with a fresh table; the text around it stays."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(START)
    return f"{before}{START}\n\n{table()}\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
