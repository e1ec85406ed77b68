"""Processes of this machine: their names, and whether one has ended."""

import os
from pathlib import Path


def this_process() -> str:
    """A name for this process that no other has, on this machine or elsewhere."""
    process = os.getpid()
    return f"{_PLACE} {process} {_life_of(process)[1]}"


def is_gone(owner: str) -> bool:
    """Whether the process of that name has certainly ended.

    It can be seen from the same machine, since the same boot and in the same container alone.

    Source:
        Linux, proc(5): `/proc/PID/stat`. kill(2): signal 0 finds processes that `/proc` hides.
    """
    place, process, began = owner.rsplit(" ", 2)
    if not _PLACE or place != _PLACE:
        return False
    state, since = _life_of(int(process))
    if state:
        return state in "ZX" or since != began
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False


def _life_of(process: int) -> tuple[str, str]:
    """A process's state and when it began, in ticks since the boot; empty where unknown."""
    try:
        text = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "", ""
    found = text.rpartition(") ")[2].split()
    return found[0], found[19]


def _place() -> str:
    """Where process ids mean the same: this boot of this machine, in this container."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


_PLACE = _place()
