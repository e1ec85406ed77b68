"""Reads the list of threads without opening the file as a database of unsay, which takes a second."""

import json
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

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
