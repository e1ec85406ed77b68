"""What a person typed in earlier chats: one JSON object a line, in a file of mode 0600.

Each line has its thread's id, so that `unsay purge` can remove what was typed in a thread.
"""

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

# Newest lines that are read; older ones stay in the file.
NEWEST = 1_000


def typed_texts(path: Path) -> list[str]:
    """Return the last texts that were typed in any chat, newest first, and at most `NEWEST`.

    Damaged lines are skipped. Empty if the file does not exist or cannot be read.
    """
    entries: list[tuple[str, str]] = []
    with suppress(OSError):
        entries.extend(_entries(path))
    return [text for _, text in reversed(entries[-NEWEST:])]


def add_text(path: Path, thread_id: str, text: str) -> None:
    """Append a text to the history file, which is created if needed.

    If the file cannot be written, nothing is kept and no error is raised.
    """
    line = json.dumps({"thread": thread_id, "text": text}, ensure_ascii=False)
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(path, f"{line}\n", os.O_APPEND)


def forget_thread(path: Path, thread_id: str) -> None:
    """Remove everything that was typed in a thread from the history file, and any damaged lines.

    If the file does not exist, nothing happens. Raises `OSError` if it cannot be read or written;
    the file is then as it was.
    """
    if not path.exists():
        return
    kept = [(thread, text) for thread, text in _entries(path) if thread != thread_id]
    lines = (
        json.dumps({"thread": thread, "text": text}, ensure_ascii=False) for thread, text in kept
    )
    # The old file is replaced in one step: a process killed before it loses nothing.
    new = path.with_name(f"{path.name}.new")
    _write(new, "".join(f"{line}\n" for line in lines), os.O_TRUNC)
    new.replace(path)


def _write(path: Path, text: str, how: int) -> None:
    """Append all of the text to a file; with the flag `os.O_TRUNC` as `how`, replace its content.

    Raises `OSError` if that fails, as on a full disk; no part of the text is then in the file.
    """
    file = os.open(path, os.O_WRONLY | os.O_CREAT | how, 0o600)
    try:
        os.fchmod(file, 0o600)
        end, rest = os.fstat(file).st_size, text.encode("utf-8", "replace")
        try:
            while rest:  # a disk that is nearly full takes a part, and the next write fails
                rest = rest[os.write(file, rest) :]
        except OSError:
            os.ftruncate(file, end)  # the next line would continue a part of this one
            raise
    finally:
        os.close(file)


def _entries(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the thread and the text of each line, oldest first; a damaged line is skipped.

    Raises `OSError` if the file cannot be read.
    """
    # Not `splitlines`: JSON does not escape U+2028, which that takes for the end of a line.
    for line in path.read_text("utf-8", "replace").split("\n"):
        with suppress(ValueError, KeyError, TypeError, RecursionError):
            entry = json.loads(line)
            thread, text = entry["thread"], entry["text"]
            if isinstance(thread, str) and isinstance(text, str):
                yield thread, text
