"""What every store keeps: items by namespace and key, exactly as they were put."""

from collections.abc import Mapping
from typing import Any

import pytest
from langgraph.store.base import GetOp, PutOp, SearchOp

from tests.storage.conftest import Opens
from unsay.storage.base import Database

PLACE = ("unsay", "contract", "t")
VALUES: dict[str, Any] = {
    "japanese": "京都に二日。宿は？",
    "emoji": "👨‍👩‍👧 \U0001f600",
    "quotes": "O'Hara said \"no\"; -- \\ % _ '",
    "control": "tab\tline\nend\x01",
    "long": "long " * 200_000,
    "nested": {"a": [1, {"b": [[], {}]}], "c": None},
    "numbers": [0, -1, 2**53, 0.1, 1e-7],
    "booleans": [True, False, None],
    "empty": {"text": "", "list": [], "dict": {}},
}
KEYS = [
    "plain",
    "with space",
    "京都",
    "a%b",
    "a_b",
    "quo'te",
    'double"quote',
    "back\\slash",
    "a/b:c",
]


def search_keys(database: Database, prefix: tuple[str, ...], **options: Any) -> list[str]:
    """The keys of a search, sorted."""
    return sorted(item.key for item in database.store.search(prefix, limit=1_000, **options))


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_a_value_comes_back_as_it_was_put(database: Database, value: Any) -> None:
    """No value changes on its way."""
    database.store.put(PLACE, "k", {"value": value})

    item = database.store.get(PLACE, "k")

    assert item is not None
    assert {"value": value} == item.value


@pytest.mark.parametrize("key", KEYS)
def test_a_key_names_one_item(database: Database, key: str) -> None:
    """Characters that mean something to SQL or LIKE mean nothing here."""
    database.store.put(PLACE, key, {"mine": True})
    database.store.put(PLACE, "axb", {"mine": False})

    item = database.store.get(PLACE, key)

    assert item is not None
    assert (key, {"mine": True}) == (item.key, item.value)


def test_what_was_never_put_is_none(database: Database) -> None:
    """A missing item is no error."""
    assert database.store.get(PLACE, "k") is None


def test_the_last_put_counts(database: Database) -> None:
    """A second put replaces the value, and its time is not earlier."""
    database.store.put(PLACE, "k", {"n": 1})
    first = database.store.get(PLACE, "k")
    database.store.put(PLACE, "k", {"n": 2})
    second = database.store.get(PLACE, "k")

    assert first is not None
    assert second is not None
    assert {"n": 2} == second.value
    assert first.updated_at <= second.updated_at


def test_what_was_deleted_is_gone(database: Database) -> None:
    """Deleting takes one item, and a second time changes nothing."""
    database.store.put(PLACE, "k", {"n": 1})
    database.store.put(PLACE, "other", {"n": 1})
    database.store.delete(PLACE, "k")
    database.store.delete(PLACE, "k")

    assert ["other"] == search_keys(database, PLACE)


def test_a_search_finds_what_is_below_its_prefix(database: Database) -> None:
    """A prefix is whole labels: a thread whose name begins alike is another thread."""
    for label in ("t", "t2", "t%", "T"):
        database.store.put(("unsay", "contract", label), f"of {label}", {"n": 1})
    database.store.put(("unsay", "contract", "t", "deep"), "below", {"n": 1})

    assert ["below", "of t"] == search_keys(database, PLACE)
    assert ["of t%"] == search_keys(database, ("unsay", "contract", "t%"))


@pytest.mark.parametrize(
    ("options", "keys"),
    [
        ({"kind": "a"}, ["0", "2", "4"]),
        ({"kind": "b", "half": 1}, ["3"]),
        ({"kind": "c"}, []),
    ],
    ids=["one field", "two fields", "none"],
)
def test_a_search_filters_by_fields(
    database: Database, options: Mapping[str, Any], keys: list[str]
) -> None:
    """Every field of the filter must be equal."""
    for number in range(5):
        value = {"kind": "ab"[number % 2], "half": number // 2}
        database.store.put(PLACE, str(number), value)

    assert keys == search_keys(database, PLACE, filter=dict(options))


def test_pages_hold_every_item_once(database: Database) -> None:
    """Limit and offset cut one order into pages."""
    for number in range(23):
        database.store.put(PLACE, f"{number:02}", {"n": number})

    pages = [database.store.search(PLACE, limit=5, offset=offset) for offset in range(0, 30, 5)]

    assert [5, 5, 5, 5, 3, 0] == [len(page) for page in pages]
    assert 23 == len({item.key for page in pages for item in page})


def test_namespaces_are_listed(database: Database) -> None:
    """By prefix, and cut to a depth."""
    for namespace in [PLACE, (*PLACE, "deep"), ("unsay", "other", "t"), ("app", "x")]:
        database.store.put(namespace, "k", {"n": 1})

    namespaces = database.store.list_namespaces(prefix=("unsay",), max_depth=2)

    assert [("unsay", "contract"), ("unsay", "other")] == sorted(namespaces)
    assert [PLACE, (*PLACE, "deep")] == sorted(database.store.list_namespaces(prefix=PLACE))


def test_a_batch_answers_in_its_order(database: Database) -> None:
    """Every operation gets its own result; of two puts to one key the last counts."""
    database.store.put(PLACE, "a", {"n": 1})

    results = database.store.batch([GetOp(PLACE, "a"), SearchOp(PLACE), GetOp(PLACE, "missing")])
    database.store.batch([PutOp(PLACE, "b", {"n": 1}), PutOp(PLACE, "b", {"n": 2})])
    kept = database.store.get(PLACE, "b")

    item, items, missing = results
    assert {"n": 1} == getattr(item, "value", None)
    assert isinstance(items, list)
    assert 1 == len(items)
    assert missing is None
    assert kept is not None
    assert {"n": 2} == kept.value


async def test_awaited_calls_do_the_same(database: Database) -> None:
    """Sync and async methods work on the same items."""
    await database.store.aput(PLACE, "k", {"n": 1})
    item = await database.store.aget(PLACE, "k")
    items = await database.store.asearch(PLACE)
    spaces = await database.store.alist_namespaces(prefix=PLACE)
    await database.store.adelete(PLACE, "k")

    assert item is not None
    assert {"n": 1} == item.value
    assert ["k"] == [item.key for item in items]
    assert [PLACE] == spaces
    assert database.store.get(PLACE, "k") is None


def test_another_opening_sees_what_was_put(opens: Opens) -> None:
    """What one process has put, the next one finds."""
    opens().store.put(PLACE, "k", {"n": 1})

    item = opens().store.get(PLACE, "k")

    assert item is not None
    assert {"n": 1} == item.value
