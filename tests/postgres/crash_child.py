"""The process of `tests/promises/crash_child.py`, its conversation on a Postgres server."""

import sys
from pathlib import Path
from typing import Any

from tests.promises import crash_child

URL = sys.argv[4]


class Places:
    """The folder, with the database in another place."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __truediv__(self, name: str) -> Any:
        return URL if name.endswith(".db") else self._folder / name


if __name__ == "__main__":
    crash_child.FOLDER = Places(crash_child.FOLDER)  # type: ignore[assignment]
    crash_child.main()
