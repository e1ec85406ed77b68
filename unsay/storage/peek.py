"""A look into a SQLite file without opening it as a database of unsay, which takes a second."""

import sqlite3
from contextlib import closing
from pathlib import Path

# The prefix of the entries of threads in LangGraph's table `store`.
THREAD_ENTRIES = "unsay.threads"


def has_no_threads(path: Path) -> bool:
    """Return whether a SQLite file does not exist or lists no thread.

    `False` if it lists a thread, cannot be read or is not a database of unsay. It is not changed.
    """
    if not path.exists():
        return True
    query = "SELECT 1 FROM store WHERE prefix = ? LIMIT 1"
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as file:
            return file.execute(query, (THREAD_ENTRIES,)).fetchone() is None
    except sqlite3.Error:
        return False
