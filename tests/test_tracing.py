"""Scores on their way to LangSmith."""

import os
import subprocess
import sys

import pytest

FORKED = """
import os, select, signal, threading
from unsay.tracing import SENDER

held, forked = threading.Event(), threading.Event()

def hold():
    with SENDER._waiting.mutex:
        held.set()
        forked.wait()

SENDER.put(forked.wait)  # a score of the parent is on its way
threading.Thread(target=hold).start()
held.wait()
there, here = os.pipe()
child = os.fork()
if not child:
    SENDER.put(lambda: os.write(here, b"sent"))
    SENDER.drain(60)
    os._exit(0)
print(os.read(there, 4).decode() if select.select([there], [], [], 20)[0] else "nothing")
os.kill(child, signal.SIGKILL)
forked.set()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_process_sends_its_own_scores() -> None:
    """Also if the parent was sending one, or was just putting one into the queue."""
    ran = subprocess.run(
        [sys.executable, "-c", FORKED], capture_output=True, text=True, check=True, timeout=60
    )
    assert "sent" == ran.stdout.strip()
