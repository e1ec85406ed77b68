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


# Source: xterm control sequences, bracketed paste mode.
_PASTES_MARKED, _PASTES_AS_KEYS = "\x1b[?2004h", "\x1b[?2004l"


def paste_in_one_piece() -> None:
    """Have the terminal mark a paste from now on, so that the next prompt reads it as one text.

    Standard output must be a terminal. prompt_toolkit ends this after each prompt and list, so that
    it is called again before each turn, and while something is loaded.
    """
    print(_PASTES_MARKED, end="", flush=True)


@contextmanager
def keys_kept() -> Iterator[None]:
    """Within the block, keep keys for the next prompt that are pressed before it asks for them.

    They are not echoed into an answer, and Enter arrives as Enter: without this, it would arrive as
    Ctrl-J, which adds a line. A paste of several lines is marked as one text. Ctrl-C works. Standard
    input and output must be a terminal; afterwards it is as it was.
    """
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    during = termios.tcgetattr(terminal)
    during[0] &= ~termios.ICRNL
    during[3] &= ~(termios.ECHO | termios.ICANON)
    termios.tcsetattr(terminal, termios.TCSADRAIN, during)
    paste_in_one_piece()
    try:
        yield
    finally:
        print(_PASTES_AS_KEYS, end="", flush=True)
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
