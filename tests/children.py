"""Child processes for tests that kill them: forked from a server that has imported unsay once.

A new interpreter spends 1.5 s of processor time on its imports; a fork spends none.
"""

import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["unsay.conversation.conversation", "unsay.testing"])


class Child:
    """A module that runs as `__main__` in another process."""

    def __init__(self, module: str, *arguments: str) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="unsay-child-"))
        child_arguments = (module, arguments, self._folder, dict(os.environ))
        self._process = FORKS.Process(target=_main, args=child_arguments, daemon=True)
        self._process.start()

    @property
    def is_running(self) -> bool:
        """Whether the process has not ended."""
        return self._process.is_alive()

    @property
    def pid(self) -> int:
        """Id of the process."""
        assert self._process.pid is not None
        return self._process.pid

    def kill(self) -> None:
        """Send signal 9 to the process; one that has ended is left alone."""
        self._process.kill()

    def wait(self) -> subprocess.CompletedProcess[str]:
        """Wait for the end; the exit code is negative after a signal."""
        self._process.join()
        assert self._process.exitcode is not None
        return subprocess.CompletedProcess(
            self._process.name,
            self._process.exitcode,
            *(self._output(name) for name in ("stdout", "stderr")),
        )

    def _output(self, name: str) -> str:
        path = self._folder / name
        return path.read_text() if path.exists() else ""  # killed before it began


def run_child(module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a module in another process to its end."""
    return Child(module, *arguments).wait()


def _main(module: str, arguments: Sequence[str], folder: Path, environment: dict[str, str]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    for number, name in ((1, "stdout"), (2, "stderr")):
        file = os.open(folder / name, os.O_WRONLY | os.O_CREAT, 0o600)
        os.dup2(file, number)
        os.close(file)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT))
    sys.argv = [module, *arguments]
    # The modules read their arguments when they are imported, so each run imports them again.
    runpy.run_module(module, run_name="__main__", alter_sys=True)
