"""Where the command line keeps its files; nothing heavy is imported here."""

import os
import shlex
from pathlib import Path

from platformdirs import user_data_dir

from unsay.errors import NotFoundError
from unsay.storage.urls import file_at


def location(db: str | None) -> str:
    """Return the path or URL that `--db` gives; `None` is the path of the default database.

    The default is `unsay.db` in the folder `UNSAY_HOME`, or in the platform's folder for user data.
    Nothing is opened or created.
    """
    home = os.environ.get("UNSAY_HOME") or user_data_dir("unsay", appauthor=False)
    return str(Path(home) / "unsay.db") if db is None else db


def check_exists(db: str | None) -> None:
    """Raise `NotFoundError` if the user named a database file that does not exist."""
    file = None if db is None else file_at(db)
    if db is not None and file is not None and not file.exists():
        raise NotFoundError(
            f"There is no database file {db!r}: check --db, or begin one with "
            f"`unsay chat --db {shlex.quote(db)}`"
        )


def history_file() -> Path:
    """Return the path of the file with all texts typed in chats; it need not exist.

    It is beside the default database, also for a chat in another database.
    """
    return Path(location(None)).with_name("chat_history.jsonl")
