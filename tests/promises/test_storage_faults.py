"""Storage that fails during a conversation: a clear error, and nothing is lost."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.children import run_child

TWO = ["human: q1", "ai: A long answer, about", "human: q2", "ai: A long answer, about"]
THREE = [*TWO, "human: q3", "ai: A long answer, about"]

MOMENTS = ("before", "in-the-model")
NOT_WRITTEN = "give this user write access to the file and its folder"
WORDS = {
    "small-files": "disk I/O error",
    "few-pages": "database or disk is full): free disk space",
    "only-queries": NOT_WRITTEN,
    "read-only-file": "cannot be written (Permission denied)",
    "read-only-folder": NOT_WRITTEN,
}
"""What the error says, by fault."""

CASES = [
    *(
        f"{name}:{moment}"
        for name in ("small-files", "few-pages", "only-queries")
        for moment in MOMENTS
    ),
    "read-only-file:before",
    "read-only-folder:before",
]


def run(folder: Path, *cases: str) -> dict[str, Any]:
    """What a process saw of faults that it made and took away again, by case."""
    child = run_child("tests.promises.fault_child", str(folder), *cases)
    assert child.returncode == 0, child.stderr
    lines = child.stdout.splitlines()
    return dict(zip(cases, map(json.loads, lines), strict=True))


@pytest.fixture(scope="module")
def outcomes() -> Iterator[dict[str, Any]]:
    """What came of each case, in a folder that every user may enter."""
    with TemporaryDirectory() as directory:
        Path(directory).chmod(0o777)
        yield run(Path(directory), *CASES)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 3 MiB, where this user may mount one."""
    mount = ["mount", "-t", "tmpfs", "-o", "size=3m", "none", str(tmp_path)]
    if os.getuid() or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("only root can mount a small file system")
    try:
        yield tmp_path
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)  # noqa: S607 - wherever it is


def check(outcomes: dict[str, Any], question: str) -> None:
    """A clear error each time; what was committed is there; the turn happens once, afterwards."""
    kinds, texts = zip(*outcomes["errors"], strict=True)
    assert ("StorageError", "StorageError") == kinds
    assert all(question in text and "t.db'" in text for text in texts), texts
    assert TWO == outcomes["before"] == outcomes["after"]
    assert THREE == outcomes["final"]


@pytest.mark.parametrize("case", CASES)
def test_a_thread_outlives_a_file_that_cannot_be_written(
    case: str, outcomes: dict[str, Any]
) -> None:
    """Before a turn or in the middle of it: the error says what to do, the turn is made later."""
    check(outcomes[case], WORDS[case.partition(":")[0]])


def test_a_thread_outlives_a_full_disk(small_disk: Path) -> None:
    """On a full file system the same process continues once there is room."""
    cases = [f"full-disk:{moment}" for moment in MOMENTS]
    for item in run(small_disk, *cases).values():
        check(item, "database or disk is full): free disk space")
