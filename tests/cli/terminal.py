"""A program in a real terminal, as a person would use it."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from typing import Self

PATIENCE_SECONDS = 60.0
"""How long to wait for what must appear."""

START = """
import fcntl, signal, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
signal.signal(signal.SIGINT, signal.default_int_handler)
from unsay.cli.main import cli
cli(prog_name="unsay")
"""
"""Takes the terminal, so that Ctrl-C reaches the program, and runs the command line.

A suite that is started in the background hands down that Ctrl-C is ignored.
"""

PROMPT = "\x1b[?2004h"
"""What prompt_toolkit prints when it begins to read: bracketed paste is turned on."""


class Terminal:
    """A command in a pseudo terminal; `screen` is everything it has printed."""

    def __init__(
        self,
        *arguments: str,
        before: str = "",
        columns: int = 60,
        lines: int = 24,
        term: str = "xterm",
    ) -> None:
        self._controller, worker = pty.openpty()
        fcntl.ioctl(worker, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.screen = ""
        environment = {**os.environ, "TERM": term, "PROMPT_TOOLKIT_NO_CPR": "1"}
        self._process = subprocess.Popen(
            [sys.executable, "-c", f"{before}\n{START}", *arguments],
            stdin=worker,
            stdout=worker,
            stderr=worker,
            env=environment,
            start_new_session=True,
        )
        os.close(worker)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        os.close(self._controller)

    def type(self, keys: str) -> None:
        r"""Press keys; `\r` is Enter, `\x03` Ctrl-C, `\x04` Ctrl-D."""
        os.write(self._controller, keys.encode())

    def expect(self, text: str) -> str:
        """Wait until a text appears after what was seen before; what came until then.

        Raises:
            AssertionError: It did not appear.
        """
        end = time.monotonic() + PATIENCE_SECONDS
        while text not in self.screen:
            if time.monotonic() > end or not self._read():
                raise AssertionError(f"{text!r} never appeared; there was {self.screen!r}")
        output, _, self.screen = self.screen.partition(text)
        return output

    def wait(self) -> int:
        """The exit code, once the program has ended."""
        while self._read():
            pass
        return self._process.wait(PATIENCE_SECONDS)

    def _read(self) -> bool:
        ready, _, _ = select.select([self._controller], [], [], PATIENCE_SECONDS)
        try:
            piece = os.read(self._controller, 65_536) if ready else b""
        except OSError:
            # Linux tells so that nobody holds the other end any more.
            return False
        self.screen += piece.decode(errors="replace")
        return bool(piece)
