"""What a search needs of the offloaded segments, in items of their own beside the pages."""

from base64 import b64decode, b64encode
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cached_property

from langgraph.store.base import BaseStore

from unsay.effects import Steps
from unsay.errors import DatabaseCorruptError
from unsay.retrieval.terms import Entry, Part, filter_of, part_of, terms
from unsay.storage import items
from unsay.storage.segments import OffloadedSegment, segment_chain

# Suffix of the key of an item with what a search needs of a segment.
TERMS = ".terms"
# Older segments that the item of a segment names: so many are read in one query.
TRAIL = 32


@dataclass(frozen=True)
class IndexedSegment:
    """What a search needs of a segment, without the messages themselves; its fields are plain JSON.

    `trail` has the older segments that one query reads next, newest first, with their numbers of
    entries. `turns` counts the answered turns before the segment, and `size` its entries. `mask` is
    the filter of the entries' terms, of their speakers and of the ids of tool calls.
    """

    trail: Sequence[tuple[str, int]]
    turns: int
    size: int
    mask: str
    packed: str

    @cached_property
    def bits(self) -> bytes:
        """The filter, for `may_have`."""
        return b64decode(self.mask)

    @cached_property
    def part(self) -> Part:
        """The messages that a search may find; decoded when they are needed."""
        with items.reading("The index of a segment"):
            rows, postings = items.thaw(self.packed)
            return Part([Entry(*row) for row in rows], postings)


def indexed_segment(
    trail: Sequence[tuple[str, int]], turns: int, entries: Sequence[Entry], call_ids: Iterable[str]
) -> IndexedSegment:
    """Return what a search needs of a segment with these entries."""
    part = part_of(entries)
    speakers = {term for entry in entries for term in terms(entry.speaker)}
    calls = (each for name in call_ids for each in (name, name[::-1]))
    mask = b64encode(filter_of(speakers.union(part.postings, calls))).decode("ascii")
    rows = [[*entry._replace(counts={})] for entry in part.entries]
    packed = items.freeze([rows, part.postings])
    return IndexedSegment(trail, turns, len(entries), mask, packed)


def put_terms(
    store: BaseStore,
    thread_id: str,
    segment: OffloadedSegment,
    entries: Sequence[Entry],
    call_ids: Iterable[str],
) -> Steps[None]:
    """Write what a search needs of a new segment, beside its page."""
    trail: list[tuple[str, int]] = []
    if segment.before is not None:
        name = segment.before["page_id"]
        older = (yield from read_terms(store, thread_id, [name])).get(name)
        following = older.trail if older is not None and len(older.trail) < TRAIL else ()
        trail = [(name, older.size if older else 0), *following]
    turns = segment.before["turns"] if segment.before else 0
    value = asdict(indexed_segment(trail, turns, entries, call_ids))
    namespace = segment_chain(store, thread_id).namespace
    yield from items.put_items(store, namespace, {f"{segment.id}{TERMS}": value})


def read_terms(
    store: BaseStore, thread_id: str, names: Sequence[str]
) -> Steps[dict[str, IndexedSegment]]:
    """Read what a search needs of segments, by id, in one query; damaged ones are left out."""
    namespace = segment_chain(store, thread_id).namespace
    indexed: dict[str, IndexedSegment] = {}
    try:
        values = yield from items.get_items(store, namespace, [f"{n}{TERMS}" for n in names])
    except DatabaseCorruptError:
        # One damaged item fails the whole query.
        for name in names if len(names) > 1 else ():
            indexed |= yield from read_terms(store, thread_id, [name])
        return indexed
    for key, value in values.items():
        with suppress(DatabaseCorruptError), items.reading(f"The item {key!r}"):
            indexed[key.removesuffix(TERMS)] = IndexedSegment(**value)
    return indexed
