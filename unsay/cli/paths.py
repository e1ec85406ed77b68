"""Where the command line keeps its files; nothing heavy is imported here."""

import os
from pathlib import Path

from platformdirs import user_data_dir


def location(db: str | None) -> str:
    """Return the database; `None` is the default, in `UNSAY_HOME` or the platform's data folder."""
    home = os.environ.get("UNSAY_HOME") or user_data_dir("unsay", appauthor=False)
    return str(Path(home) / "unsay.db") if db is None else db


def history_file() -> Path:
    """Return the file of what was typed in chats, beside the default database."""
    return Path(location(None)).with_name("chat_history.jsonl")
