"""Names of processes, and whether the process of a name has ended."""

import os
from pathlib import Path


def this_process() -> str:
    """Return a name of this process; on Linux it is unique across machines and containers."""
    process = os.getpid()
    return f"{_PLACE} {process} {_life_of(process)[1]}"


def is_gone(owner: str) -> bool:
    """Return whether the owner of a lease has certainly ended; `False` if this is not certain.

    Only processes of the same machine, boot and container can be checked.
    """
    place, process, began = owner.rsplit(" ", 2)
    if not _PLACE or place != _PLACE:
        return False
    # A process that began at another time only has the same number. Source: Linux, proc(5).
    state, since = _life_of(int(process))
    if state:
        return state in "ZX" or since != began
    try:  # signal 0 also finds processes that `/proc` hides. Source: kill(2)
        os.kill(int(process), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False


def _life_of(process: int) -> tuple[str, str]:
    """Return a process's state and its start in ticks since boot; empty texts if unknown."""
    try:
        text = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "", ""
    # The name before it may have spaces and parentheses itself. Source: Linux, proc(5).
    found = text.rpartition(") ")[2].split()
    return found[0], found[19]


def _place() -> str:
    """Return an id of this machine, boot and container; empty if unknown, as on macOS."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


_PLACE = _place()
