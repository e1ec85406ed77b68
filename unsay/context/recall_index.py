"""An index of messages by their terms: a value that grows without being changed."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import log

from langchain_core.messages import AnyMessage

from unsay.context.recall_terms import terms_of
from unsay.transcript.marks import is_document

BLOCK_MESSAGES = 1_024
"""Most messages of one block; whatever is added, no more than these are merged anew."""

_COUNT_BITS = 8
_COUNT_MASK = (1 << _COUNT_BITS) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A stretch of messages that was indexed together."""

    start: int
    """Place of its first message among all that are indexed."""

    keys: tuple[str, ...]
    """By which each message is known again."""

    speakers: tuple[str, ...]
    """Who said each: a name, or the kind of message."""

    lengths: tuple[int, ...]
    """How many terms each has."""

    substance: tuple[float, ...]
    """How much each says, growing with the logarithm of its different terms."""

    postings: Mapping[str, tuple[int, ...]]
    """By term: the places of the messages that have it, each with how often."""

    def __len__(self) -> int:
        return len(self.keys)

    def joined(self, later: "Block") -> "Block":
        """One block of two neighbours."""
        postings = dict(self.postings)
        for term, places in later.postings.items():
            postings[term] = postings.get(term, ()) + places
        return Block(
            start=self.start,
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
        return self.blocks[-1].start + len(self.blocks[-1]) if self.blocks else 0

    def covering(self, messages: Sequence[AnyMessage]) -> "RecallIndex":
        """The index of these messages, with as much of this one as still holds.

        Args:
            messages: Oldest first. What was indexed before and stands at another
                place now, or behind a place that changed, is read again.
        """
        keys = [key_of(message) for message in messages]
        blocks: list[Block] = []
        for block in self.blocks:
            if tuple(keys[block.start : block.start + len(block)]) != block.keys:
                break
            blocks.append(block)
        known = blocks[-1].start + len(blocks[-1]) if blocks else 0
        for start in range(known, len(messages), BLOCK_MESSAGES):
            _push(blocks, _block(messages[start : start + BLOCK_MESSAGES], start))
        return RecallIndex(blocks=tuple(blocks))

    def found(self, term: str) -> list[tuple[int, int]]:
        """The messages that have a term: the place of each, and how often it has it."""
        return [
            (entry >> _COUNT_BITS, entry & _COUNT_MASK)
            for block in self.blocks
            for entry in block.postings.get(term, ())
        ]

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """By which each message is known again, in order."""
        return tuple(key for block in self.blocks for key in block.keys)

    @cached_property
    def speakers(self) -> tuple[str, ...]:
        """Who said each message, in order."""
        return tuple(speaker for block in self.blocks for speaker in block.speakers)

    @cached_property
    def lengths(self) -> tuple[int, ...]:
        """How many terms each message has, in order."""
        return tuple(length for block in self.blocks for length in block.lengths)

    @cached_property
    def substance(self) -> tuple[float, ...]:
        """How much each message says, in order."""
        return tuple(value for block in self.blocks for value in block.substance)


def key_of(message: AnyMessage) -> str:
    """By what a message is known again: its id, or what it says where it has none."""
    return message.id or f"{message.type} {message.content}"


def speaker_of(message: AnyMessage) -> str:
    """Who speaks: the name that a message bears, or the kind of message that it is."""
    named = message.name if message.type in ("human", "ai") and not is_document(message) else None
    return (named or message.type).lower()


def _block(messages: Sequence[AnyMessage], start: int) -> Block:
    counted = [Counter(terms_of(message)) for message in messages]
    return Block(
        start=start,
        keys=tuple(map(key_of, messages)),
        speakers=tuple(map(speaker_of, messages)),
        lengths=tuple(each.total() for each in counted),
        substance=tuple(log(1 + len(each)) for each in counted),
        postings=_postings(counted, start),
    )


def _postings(counted: Sequence[Counter[str]], start: int) -> dict[str, tuple[int, ...]]:
    places: dict[str, list[int]] = {}
    for place, each in enumerate(counted, start):
        for term, times in each.items():
            places.setdefault(term, []).append(place << _COUNT_BITS | min(times, _COUNT_MASK))
    return {term: tuple(entries) for term, entries in places.items()}


def _push(blocks: list[Block], newest: Block) -> None:
    """Put a block behind the others, merged with those that are no larger than it."""
    while blocks and len(blocks[-1]) <= len(newest):
        if len(blocks[-1]) + len(newest) > BLOCK_MESSAGES:
            break
        newest = blocks.pop().joined(newest)
    blocks.append(newest)
