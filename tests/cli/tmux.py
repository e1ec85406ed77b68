"""A program in tmux, as a person sees it: keys go in, and the screen comes out."""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from select import select
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
        defaults = {
            "LANG": "C.UTF-8",
            "LANGCHAIN_OPENAI_TCP_KEEPALIVE": "0",  # else it warns of proxies
        }
        variables = {**os.environ, **defaults, **(environment or {})}
        self._environment = {k: v for k, v in variables.items() if k != "TMUX"}
        term = (environment or {}).get("TERM", "screen-256color")
        command = shlex.join([sys.executable, "-m", "unsay", *arguments])
        command_and_status = f"echo $? > {shlex.quote(str(self._status))}; tmux wait-for -S ended"
        self._command = f"TERM={term} {command}; {command_and_status}"
        self._output = folder / f"{self._name}.output"
        self._changes = -1  # file descriptor of what the program writes to the screen

    def __enter__(self) -> Self:
        self._tmux("-f", os.devnull, "new-session", "-d", *self._size, "sh")
        self._tmux("set-option", "-g", "remain-on-exit", "on")
        self._tmux("respawn-pane", "-k", self._command)
        os.mkfifo(self._output)
        self._changes = os.open(self._output, os.O_RDWR | os.O_NONBLOCK)
        self._tmux("pipe-pane", "-O", f"cat > {shlex.quote(str(self._output))}")
        return self

    def __exit__(self, *exc: object) -> None:
        self._tmux("kill-server")
        os.close(self._changes)

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

    def screen(self, *, scrollback: bool = False, colors: bool = False) -> str:
        """Return what is on the screen, or also what scrolled away."""
        options = [*(["-S", "-"] if scrollback else []), *(["-e"] if colors else [])]
        return self._tmux("capture-pane", "-p", *options)

    def expect(self, text: str, *, is_absent: bool = False) -> str:
        """Wait until a text is on the screen, or `is_absent` from it; return the screen.

        Raises `AssertionError` if that does not happen.
        """
        while (text in (screen := self.screen())) is is_absent:
            if not select([self._changes], [], [], PATIENCE_SECONDS)[0]:
                raise AssertionError(
                    f"{text!r} {'stays' if is_absent else 'is not shown'}:\n{screen}"
                )
            os.read(self._changes, 65_536)
        return screen

    def code(self) -> int:
        """Wait for the end of the program and return its exit code."""
        self._tmux("wait-for", "ended")
        return int(self._status.read_text())

    def _tmux(self, *arguments: str) -> str:
        tmux = shutil.which("tmux")
        assert tmux is not None, "install tmux"
        process = subprocess.run(
            [tmux, "-L", self._name, *arguments],
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_SECONDS,
        )
        return process.stdout
