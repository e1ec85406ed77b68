"""JSON as Postgres' `jsonb` can hold it, byte for byte what it was."""

import json
import re
from typing import Any

ESCAPE = "\ufdd0"
"""Stands before the four digits of what cannot be stored; no character of any language.

Source: Unicode 16, chapter 23.7, noncharacters.
"""

_UNSTORABLE = re.compile(
    r"\\ud[89ab]..\\ud[c-f]..|\\u(0000|d[89a-f]..|fdd0)|\\.", re.IGNORECASE | re.DOTALL
)


def to_json(value: Any) -> str:
    r"""A value as JSON that `jsonb` accepts; `from_json` gives it back as it was.

    Source:
        PostgreSQL, chapter 8.14: `\u0000` and lone surrogates are refused.
    """
    text = json.dumps(value)
    return _UNSTORABLE.sub(_escaped, text) if "\\u" in text else text


def _escaped(found: re.Match[str]) -> str:
    return rf"\ufdd0{found[1]}" if found[1] else found[0]


def from_json(data: str | bytes) -> Any:
    """The value whose JSON it is."""
    text = data if isinstance(data, str) else bytes(data).decode()
    if ESCAPE in text:
        text = re.sub(f"{ESCAPE}(....)", r"\\u\1", text)
    return json.loads(text)
