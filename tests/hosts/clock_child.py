"""A process whose clock is ahead: it answers each line of its input as a turn of the thread `t`."""

import sys

from tests.hosts.savers import answering, invoke
from tests.hosts.test_clocks import computer
from unsay.storage.sqlite import open_database


def main(path: str, seconds: str) -> None:
    """Write one line for each line that is read."""
    database = open_database(path)
    with computer(float(seconds)):
        graph = answering(checkpointer=database.saver, store=database.store)
        for line in sys.stdin:
            print(invoke(graph, line.strip()), flush=True)
    database.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
