"""A process that opens a database and is killed: before an SQL statement, or at any instant.

Its arguments: the path, the number of the statement, and after how many seconds; 0 kills never.
"""

import os
import signal
import sys
import time
from typing import Any

from unsay.storage import sqlite

left = 0


class Counted(sqlite.Connection):
    """A connection that counts the SQL statements and kills its process before a certain one."""

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


def main(path: str, statement: int, seconds: float) -> None:
    """Open the database; print its statements, and last how long it took."""
    global left  # noqa: PLW0603 - one count for all connections
    left = statement
    sqlite.Connection = Counted  # type: ignore[misc]
    # Nothing handles the alarm, so the kernel ends the process at once, also inside of SQLite.
    signal.setitimer(signal.ITIMER_REAL, seconds)
    began = time.perf_counter()
    sqlite.open_database(path).close()
    signal.setitimer(signal.ITIMER_REAL, 0)
    print(time.perf_counter() - began)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
