"""The terminal's keyboard: whether it can be used, and keys that come before a prompt asks for them.

Nothing heavy is imported here: the keys are kept while the chat is still loaded.
"""

import os
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager


def is_dumb() -> bool:
    """Return whether the terminal cannot move its cursor, by `TERM`; also if that is not set."""
    return os.environ.get("TERM", "dumb") in ("", "dumb", "unknown")


def is_rich() -> bool:
    """Return whether prompt_toolkit can be used.

    Standard input and output must be a terminal that can move its cursor.
    """
    return sys.stdin.isatty() and sys.stdout.isatty() and not is_dumb()


@contextmanager
def keys_kept() -> Iterator[None]:
    """Within the block, keep keys for the next prompt that are pressed before it asks for them.

    They are not echoed into an answer, and Enter arrives as Enter: without this, it would arrive as
    Ctrl-J, which adds a line. Ctrl-C works. Standard input must be a terminal; afterwards it is as
    it was.
    """
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    during = termios.tcgetattr(terminal)
    during[0] &= ~termios.ICRNL
    during[3] &= ~(termios.ECHO | termios.ICANON)
    termios.tcsetattr(terminal, termios.TCSADRAIN, during)
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
