"""Index of messages by their terms; each message is read once."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from math import log
from threading import Lock
from typing import NamedTuple

from langchain_core.messages import AnyMessage

from unsay.messages.annotations import is_document
from unsay.retrieval.terms import terms_of

COUNT_BITS = 8  # bits of a posting that hold how often the message has the term
COUNT_MASK = (1 << COUNT_BITS) - 1

# A table is rebuilt when more unused messages than the index has, plus this many, come before it.
SPARE = 1_024


class Entry(NamedTuple):
    """An indexed message."""

    key: str  # see `key_of`; empty in a table if the message has to be read again
    speaker: str  # see `speaker_of`
    length: int  # number of terms
    substance: float  # how much it says: the logarithm of the number of its different terms


@dataclass(slots=True, kw_only=True, eq=False)
class Table:
    """The messages that were read, in this order, with their terms.

    Several indexes can share a table: each is a range of it.
    """

    # A table only grows: an index is a range of it, and stays valid while another thread adds.

    entries: list[Entry] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)  # of entries, by the messages' keys
    # By term: the numbers of the messages that have it, ascending, each with its frequency.
    postings: dict[str, list[int]] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)

    def read(self, message: AnyMessage) -> None:
        """Add a message with its terms; the caller checks that the table lacks it."""
        counts = Counter(terms_of(message))
        for term, times in counts.items():
            # A higher count does not fit into the bits, and BM25 would hardly score it higher.
            posting = len(self.entries) << COUNT_BITS | min(times, COUNT_MASK)
            self.postings.setdefault(term, []).append(posting)
        entry = Entry(key_of(message), speaker_of(message), counts.total(), log(1 + len(counts)))
        self.add(entry)

    def add(self, entry: Entry) -> None:
        """Add an entry without the terms of its message; the caller adds those to `postings`."""
        self.numbers[entry.key] = len(self.entries)
        self.entries.append(entry)

    def reordered(self, messages: Sequence[AnyMessage]) -> "Table":
        """Return a new table of only these messages in this order.

        Messages that this table has are not read again.
        """
        new_table = Table()
        new_places: dict[int, list[int]] = {}
        for place, message in enumerate(messages):
            number = self.numbers.get(key_of(message))
            if number is None:
                new_table.read(message)
            else:
                new_places.setdefault(number, []).append(place)
                new_table.add(self.entries[number])
        for term, old in self.postings.items():
            new_postings = [
                place << COUNT_BITS | posting & COUNT_MASK
                for posting in old
                for place in new_places.get(posting >> COUNT_BITS, ())
            ]
            if new_postings:
                new_table.postings[term] = sorted(
                    [*new_table.postings.get(term, ()), *new_postings]
                )
        return new_table


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallIndex:
    """Which messages of a transcript have which terms; an index never changes.

    `covering` makes the index of a longer transcript.
    """

    entries: tuple[Entry, ...] = ()
    start: int = 0  # number of the first message in the table
    table: Table = field(default_factory=Table, repr=False)

    def __len__(self) -> int:
        return len(self.entries)

    def covering(
        self, messages: Sequence[AnyMessage], *, unread: int | None = None
    ) -> "RecallIndex":
        """Return the index of these messages, in their order; known messages are not read again.

        At most `unread` unknown messages are read, the newest ones. The index then leaves out the
        last one that was not read and all before it. `None` sets no limit.
        """
        keys, table = list(map(key_of, messages)), self.table
        with table.lock:
            if unread is not None:
                fresh = [place for place, key in enumerate(keys) if key not in table.numbers]
                first = fresh[-unread - 1] + 1 if len(fresh) > unread else 0
                keys, messages = keys[first:], messages[first:]
            start = table.numbers.get(keys[0], len(table.entries)) if keys else 0
            table_keys = [entry.key for entry in table.entries[start : start + len(keys)]]
            if table_keys != keys[: len(table_keys)] or start > len(keys) + SPARE:
                table, start = table.reordered(messages), 0
            else:
                for message in messages[len(table_keys) :]:
                    table.read(message)
            entries = tuple(table.entries[start : start + len(keys)])
        return RecallIndex(entries=entries, start=start, table=table)

    def forget(self, keys: Collection[str]) -> None:
        """Make the shared table forget these messages, and all that this index does not have.

        It is for messages that were edited, or for a table that became large. `covering` reads the
        messages again when they are needed.
        """
        kept_keys, table = {entry.key for entry in self.entries}.difference(keys), self.table
        with table.lock:
            for key in [key for key in table.numbers if key not in kept_keys]:
                number = table.numbers.pop(key)
                table.entries[number] = table.entries[number]._replace(key="")

    def places(self, keys: Collection[str]) -> set[int]:
        """Return the places (indices) of the messages with these keys; unknown keys are skipped."""
        key_set = frozenset(keys)
        return {place for place, entry in enumerate(self.entries) if entry.key in key_set}

    def matches(self, term: str) -> list[tuple[int, int]]:
        """Return, for each message that has a term, its place and how often it has the term."""
        postings, start = self.table.postings.get(term, []), self.start
        return [
            ((posting >> COUNT_BITS) - start, posting & COUNT_MASK)
            for posting in postings[self._range(postings)]
        ]

    def having(self, term: str) -> int:
        """Return the number of messages that have a term."""
        postings = self.table.postings.get(term, [])
        return len(postings[self._range(postings)])

    def has(self, place: int, term: str) -> bool:
        """Return whether the message at a place has a term."""
        postings, number = self.table.postings.get(term, []), self.start + place
        position = bisect_left(postings, number << COUNT_BITS)
        return position < len(postings) and postings[position] >> COUNT_BITS == number

    def _range(self, postings: Sequence[int]) -> slice:
        first = bisect_left(postings, self.start << COUNT_BITS)
        end = (self.start + len(self)) << COUNT_BITS
        return slice(first, bisect_left(postings, end, lo=first))


def key_of(message: AnyMessage) -> str:
    """Return the key of a message: its id, or its type and content if it has no id."""
    return message.id or f"{message.type} {message.content}"


def speaker_of(message: AnyMessage) -> str:
    """Return the speaker of a message in lower case: its name if it has one, else its type.

    The names of tools and documents do not count.
    """
    name = message.name if message.type in ("human", "ai") and not is_document(message) else None
    return (name or message.type).lower()
