"""A process that opens a database and is killed: before an SQL statement, or at any instant.

Its arguments: the path, the number of the statement, and after how many seconds; 0 kills never.
"""

import os
import signal
import sys
import time
from typing import Any

from unsay.storage import sqlite

PATH, LAST, SECONDS = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
left = LAST


class Counted(sqlite.Connection):
    """A connection that kills its process before statement number `LAST`."""

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
# Nothing handles the alarm, so the kernel ends the process at once, also inside of SQLite.
signal.setitimer(signal.ITIMER_REAL, SECONDS)
began = time.perf_counter()
sqlite.open_database(PATH).close()
signal.setitimer(signal.ITIMER_REAL, 0)
print(time.perf_counter() - began)
