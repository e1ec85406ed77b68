"""A process that opens a database and is killed with signal 9 before one of its SQL statements."""

import os
import signal
import sys
from typing import Any

from unsay.storage import sqlite

PATH, LAST = sys.argv[1], int(sys.argv[2])
left = LAST


class Counted(sqlite.Connection):
    """A connection that kills its process before statement number `LAST`; 0 kills never."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.set_trace_callback(count)


def count(statement: str) -> None:
    """Count one statement of any connection."""
    global left  # noqa: PLW0603 - one count for all connections
    print(statement.strip()[:60].replace("\n", " "), flush=True)
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)


sqlite.Connection = Counted  # type: ignore[misc]
sqlite.open_database(PATH).close()
