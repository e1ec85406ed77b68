"""A folder in which every database lies on a server instead."""

from pathlib import Path
from typing import Any

URL = "url"
"""The file that says where."""


class Places:
    """A folder, for code that opens a database in it and writes other files."""

    def __init__(self, folder: Path, url: str | None = None) -> None:
        """Remember where the databases lie.

        Args:
            folder: A real one.
            url: Of the server's database; `None` reads what another process wrote down.
        """
        self._folder = folder
        if url is not None:
            (folder / URL).write_text(url)
        self._url = (folder / URL).read_text()

    def __truediv__(self, name: str) -> Any:
        return self._url if name.endswith(".db") else self._folder / name

    def __str__(self) -> str:
        return str(self._folder)
