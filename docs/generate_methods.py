"""Write the tables of methods in `docs/api.md`: `python docs/generate_methods.py`.

Arguments and meanings are those of the methods of `Conversation` and `Registry`.
"""

import inspect
from pathlib import Path
from typing import Any

from unsay import Conversation, Registry
from unsay.conversation.collections import Lessons, Pins, Ratings

PAGE = Path(__file__).with_name("api.md")

START, END = "<!-- start of what docs/generate_methods.py writes -->", "<!-- end -->"


def table(cls: type[Any]) -> str:
    """Return one row for each public method of a class, as Markdown."""
    rows = [("method", "what it does"), ("---", "---")]
    rows += [
        (f"`{name}{arguments(member)}`", (inspect.getdoc(member) or "").split("\n")[0])
        for name, member in inspect.getmembers(cls)
        if not name.startswith("_")
    ]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in rows)


def arguments(member: Any) -> str:
    """Return a method's parameters with their defaults, without types; empty for a property."""
    if isinstance(member, property):
        return ""
    signature = inspect.signature(member)
    bare = [
        each.replace(annotation=each.empty)
        for each in signature.parameters.values()
        if each.name != "self"
    ]
    return str(inspect.Signature(bare)).replace("(/, ", "(")


def page() -> str:
    """Return `docs/api.md` with fresh tables; the text around them stays."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(START)
    tables = "\n".join(
        f"### `{cls.__name__}`\n\n{table(cls)}"
        for cls in (Conversation, Pins, Lessons, Ratings, Registry)
    )
    return f"{before}{START}\n\n{tables}\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
