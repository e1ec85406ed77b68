"""An index of messages by their terms: a value that grows without being changed."""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, chain
from math import log

from langchain_core.messages import AnyMessage

from unsay.messages.annotations import is_document
from unsay.retrieval.terms import terms_of

BLOCK_MESSAGES = 1_024
"""Most messages of one block; whatever is added, no more than these are merged anew."""


COUNT_BITS = 8
"""Bits of a posting that tell how often the message has the term."""


COUNT_MASK = (1 << COUNT_BITS) - 1


@dataclass(frozen=True, kw_only=True)
class Block:
    """A stretch of messages that was indexed together, wherever it stands."""

    keys: tuple[str, ...]
    """By which each message is known again."""

    speakers: tuple[str, ...]
    """Who said each: a name, or the kind of message."""

    lengths: tuple[int, ...]
    """How many terms each has."""

    substance: tuple[float, ...]
    """How much each says, growing with the logarithm of its different terms."""

    postings: Mapping[str, tuple[int, ...]]
    """By term: the places of the messages that have it, from the block's first, each with how often."""

    def __len__(self) -> int:
        return len(self.keys)

    @cached_property
    def places(self) -> Mapping[str, int]:
        """By key, the place of a message, from the block's first."""
        return {key: place for place, key in enumerate(self.keys)}

    @cached_property
    def voices(self) -> frozenset[str]:
        """Who speaks in it."""
        return frozenset(self.speakers)

    @cached_property
    def words(self) -> int:
        """How many terms its messages have together."""
        return sum(self.lengths)

    @cached_property
    def said(self) -> float:
        """How much its messages say together."""
        return sum(self.substance)

    def newest(self, count: int) -> "Block":
        """The block of its newest messages alone."""
        first = len(self) - count
        behind, postings = first << COUNT_BITS, {}
        for term, entries in self.postings.items():
            if kept := entries[bisect_left(entries, behind) :]:
                postings[term] = tuple(entry - behind for entry in kept)
        return Block(
            keys=self.keys[first:],
            speakers=self.speakers[first:],
            lengths=self.lengths[first:],
            substance=self.substance[first:],
            postings=postings,
        )

    def joined(self, later: "Block") -> "Block":
        """One block of two neighbours."""
        postings, behind = dict(self.postings), len(self) << COUNT_BITS
        for term, places in later.postings.items():
            moved = tuple(entry + behind for entry in places)
            postings[term] = postings.get(term, ()) + moved
        return Block(
            keys=self.keys + later.keys,
            speakers=self.speakers + later.speakers,
            lengths=self.lengths + later.lengths,
            substance=self.substance + later.substance,
            postings=postings,
        )


@dataclass(frozen=True, kw_only=True)
class RecallIndex:
    """Which messages have which terms; every addition gives a new index.

    Old and new share what they have in common. Blocks of like size are merged as
    they come, so that a message is moved about ten times in its life.
    """

    blocks: tuple[Block, ...] = field(default=())
    """Neighbouring stretches, oldest first."""

    def __len__(self) -> int:
        return self.starts[-1]

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """Place of the first message of each block, and at last how many there are."""
        return tuple(accumulate(map(len, self.blocks), initial=0))

    def covering(
        self, messages: Sequence[AnyMessage], *, unread: int | None = None
    ) -> "RecallIndex":
        """The index of these messages, with as much of this one as still holds.

        Args:
            messages: Oldest first. A stretch that was indexed together and does not stand so
                any more is read again; what was put before it or taken away there does not matter.
            unread: How many may be read; older ones than the newest among which so many are not
                indexed yet are left out. `None` reads all.
        """
        keys = keys_of(messages)
        standing = self._standing(keys)
        first = 0 if unread is None else _first(standing, len(keys), unread)
        blocks: list[Block] = []
        covered = first
        for start, block in standing:
            if start < first:
                continue
            _read(blocks, messages[covered:start])
            blocks.append(block)
            covered = start + len(block)
        _read(blocks, messages[covered:])
        return RecallIndex(blocks=tuple(blocks))

    def _standing(self, keys: Sequence[str]) -> list[tuple[int, Block]]:
        """The blocks that stand among these keys as they were indexed, in order, and where."""
        found: list[tuple[int, Block]] = []
        firsts = {block.keys[0]: block for block in self._left(keys)}
        covered = 0
        for start in [place for place, key in enumerate(keys) if key in firsts]:
            block = firsts[keys[start]]
            end = start + len(block)
            if start >= covered and tuple(keys[start:end]) == block.keys:
                found.append((start, block))
                covered = end
        return found

    def _left(self, keys: Sequence[str]) -> Iterator[Block]:
        """The blocks, but of one that began before these keys only what is left of it."""
        for block in self.blocks:
            gone = block.places.get(keys[0], 0) if keys else 0
            yield block.newest(len(block) - gone) if gone else block

    def places(self, keys: Collection[str]) -> set[int]:
        """The places of the messages with these keys, as far as they are indexed."""
        wanted = frozenset(keys)
        return {
            start + block.places[key]
            for start, block in zip(self.starts, self.blocks, strict=False)
            for key in wanted & block.places.keys()
        }

    def found(self, term: str) -> list[tuple[int, int]]:
        """The messages that have a term: the place of each, and how often it has it."""
        return [
            (start + (entry >> COUNT_BITS), entry & COUNT_MASK)
            for start, entries in self.postings(term)
            for entry in entries
        ]

    def postings(self, term: str) -> list[tuple[int, tuple[int, ...]]]:
        """Of each block that has a term: where it starts, and the term's postings."""
        return [
            (start, entries)
            for start, block in zip(self.starts, self.blocks, strict=False)
            if (entries := block.postings.get(term))
        ]

    def has(self, place: int, term: str) -> bool:
        """Whether the message at a place has a term."""
        number = bisect_right(self.starts, place) - 1
        entries = self.blocks[number].postings.get(term, ())
        wanted = place - self.starts[number]
        found = bisect_left(entries, wanted << COUNT_BITS)
        return found < len(entries) and entries[found] >> COUNT_BITS == wanted

    @cached_property
    def voices(self) -> frozenset[str]:
        """Who speaks in any of the messages."""
        return frozenset().union(*(block.voices for block in self.blocks))

    @cached_property
    def words(self) -> int:
        """How many terms the messages have together."""
        return sum(block.words for block in self.blocks)

    @cached_property
    def said(self) -> float:
        """How much the messages say together."""
        return sum(block.said for block in self.blocks)

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """By which each message is known again, in order."""
        return tuple(chain.from_iterable(block.keys for block in self.blocks))

    @cached_property
    def speakers(self) -> tuple[str, ...]:
        """Who said each message, in order."""
        return tuple(chain.from_iterable(block.speakers for block in self.blocks))

    @cached_property
    def lengths(self) -> tuple[int, ...]:
        """How many terms each message has, in order."""
        return tuple(chain.from_iterable(block.lengths for block in self.blocks))

    @cached_property
    def substance(self) -> tuple[float, ...]:
        """How much each message says, in order."""
        return tuple(chain.from_iterable(block.substance for block in self.blocks))


def key_of(message: AnyMessage) -> str:
    """By what a message is known again: its id, or what it says where it has none."""
    return message.id or f"{message.type} {message.content}"


def keys_of(messages: Sequence[AnyMessage]) -> list[str]:
    """By what messages are known again."""
    return [message.id or key_of(message) for message in messages]


def speaker_of(message: AnyMessage) -> str:
    """Who speaks: the name that a message bears, or the kind of message that it is."""
    named = message.name if message.type in ("human", "ai") and not is_document(message) else None
    return (named or message.type).lower()


def _block(messages: Sequence[AnyMessage]) -> Block:
    counted = [Counter(terms_of(message)) for message in messages]
    return Block(
        keys=tuple(map(key_of, messages)),
        speakers=tuple(map(speaker_of, messages)),
        lengths=tuple(each.total() for each in counted),
        substance=tuple(log(1 + len(each)) for each in counted),
        postings=_postings(counted),
    )


def _postings(counted: Sequence[Counter[str]]) -> dict[str, tuple[int, ...]]:
    places: dict[str, list[int]] = {}
    for place, each in enumerate(counted):
        for term, times in each.items():
            places.setdefault(term, []).append(place << COUNT_BITS | min(times, COUNT_MASK))
    return {term: tuple(entries) for term, entries in places.items()}


def _first(standing: Sequence[tuple[int, Block]], size: int, unread: int) -> int:
    """Where the newest messages begin among which so many at most stand in no block."""
    behind = size
    for start, block in reversed(standing):
        between = behind - start - len(block)
        if between > unread:
            break
        unread, behind = unread - between, start
    return max(0, behind - unread)


def _read(blocks: list[Block], messages: Sequence[AnyMessage]) -> None:
    """Put messages behind the blocks that no block holds yet."""
    for start in range(0, len(messages), BLOCK_MESSAGES):
        _push(blocks, _block(messages[start : start + BLOCK_MESSAGES]))


def _push(blocks: list[Block], newest: Block) -> None:
    """Put a block behind the others, merged with those that are no larger than it."""
    while blocks and len(blocks[-1]) <= len(newest):
        if len(blocks[-1]) + len(newest) > BLOCK_MESSAGES:
            break
        newest = blocks.pop().joined(newest)
    blocks.append(newest)
