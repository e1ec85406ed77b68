"""The process of `tests/promises/writer_child.py`, its thread on a Postgres server."""

import asyncio

from tests.postgres.places import Places
from tests.promises import writer_child

if __name__ == "__main__":
    writer_child.FOLDER = Places(writer_child.FOLDER)  # type: ignore[assignment]
    asked = writer_child.ASKED["form"]
    asyncio.run(writer_child.run_on_loop()) if asked == "awaited" else writer_child.blocking()
