"""What the tests talk about, and when."""

from contextlib import closing
from pathlib import Path

from unsay.storage.base import THREADS
from unsay.storage.sqlite import open_database

LISTS = "What is a list comprehension?"
NESTED = "Can a list comprehension be nested?"
ON_LISTS = "A list comprehension builds a list in a single expression from another iterable."
ON_NESTED = "Yes, a list comprehension can be nested, in the order in which the loops would stand."
CARS = "Buy a car. A list comprehension has four wheels, as every list comprehension does."
ANSWERS = {LISTS: ON_LISTS, NESTED: ON_NESTED}
DRAFTS = {LISTS: ON_LISTS, NESTED: [CARS, ON_NESTED]}
SCORES = {"Buy a car": 0.1}


def age(path: Path, thread: str) -> None:
    """Make a thread one that was spoken in long ago."""
    with closing(open_database(path)) as database:
        item = database.store.get(THREADS, thread)
        assert item is not None
        database.store.put(THREADS, thread, {**item.value, "updated_at": "2020-01-01T00:00:00"})
