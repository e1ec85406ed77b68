"""A program in tmux, as a person sees it: keys go in, and the screen comes out."""

import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self
from uuid import uuid4

PATIENCE_SECONDS = 60.0
"""How long to wait for what must appear."""


class Tmux:
    """One program in a window of its own tmux server."""

    def __init__(
        self,
        folder: Path,
        *arguments: str,
        columns: int = 80,
        lines: int = 30,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._name = f"unsay-{uuid4().hex[:8]}"
        self._size = ("-x", str(columns), "-y", str(lines))
        self._status = folder / f"{self._name}.status"
        # The server keeps the environment of its start, and sets TERM itself.
        own = {"LANG": "C.UTF-8", "LANGCHAIN_OPENAI_TCP_KEEPALIVE": "0"}  # else it warns of proxies
        given = {**os.environ, **own, **(environment or {})}
        self._environment = {k: v for k, v in given.items() if k != "TMUX"}
        term = (environment or {}).get("TERM", "screen-256color")
        command = shlex.join([sys.executable, "-m", "unsay", *arguments])
        self._command = f"TERM={term} {command}; echo $? > {shlex.quote(str(self._status))}"

    def __enter__(self) -> Self:
        self._tmux("-f", os.devnull, "new-session", "-d", *self._size, "sh")
        self._tmux("set-option", "-g", "remain-on-exit", "on")
        self._tmux("respawn-pane", "-k", self._command)
        return self

    def __exit__(self, *exc: object) -> None:
        self._tmux("kill-server")

    def press(self, *keys: str) -> None:
        """Press keys by tmux's names, such as `Enter`, `C-c` and `Escape`."""
        self._tmux("send-keys", *keys)

    def type(self, text: str, *, enter: bool = True) -> None:
        """Type a text, and Enter."""
        self._tmux("send-keys", "-l", "--", text)
        if enter:
            self.press("Enter")

    def paste(self, text: str) -> None:
        """Paste a text as a terminal does it: bracketed if the program asked for that."""
        self._tmux("set-buffer", "--", text)
        self._tmux("paste-buffer", "-p")

    def screen(self, *, scrolled: bool = False, colors: bool = False) -> str:
        """Return what is on the screen, or also what scrolled away."""
        more = [*(["-S", "-"] if scrolled else []), *(["-e"] if colors else [])]
        return self._tmux("capture-pane", "-p", *more)

    def expect(self, text: str, *, gone: bool = False) -> str:
        """Wait until a text is on the screen, or `gone` from it; return the screen.

        Raises `AssertionError` if that does not happen.
        """
        end = time.monotonic() + PATIENCE_SECONDS
        while (text in (screen := self.screen())) is gone:
            if time.monotonic() > end:
                raise AssertionError(f"{text!r} {'stays' if gone else 'is not shown'}:\n{screen}")
            time.sleep(0.05)
        return screen

    def code(self) -> int:
        """Wait for the end of the program and return its exit code."""
        end = time.monotonic() + PATIENCE_SECONDS
        while not (self._status.exists() and self._status.read_text().strip()):
            if time.monotonic() > end:
                raise AssertionError(f"The program goes on:\n{self.screen()}")
            time.sleep(0.05)
        return int(self._status.read_text())

    def _tmux(self, *arguments: str) -> str:
        tmux = shutil.which("tmux")
        assert tmux is not None, "install tmux"
        done = subprocess.run(
            [tmux, "-L", self._name, *arguments],
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout
