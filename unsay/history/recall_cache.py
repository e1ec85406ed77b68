"""What the process remembers of threads, so that recall reads nothing twice.

It follows from what is stored: another process reads it again, and what is remembered of a
record serves only where the record still says so.
"""

import weakref
from collections import OrderedDict
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from langchain_core.messages import AnyMessage

from unsay.retrieval.index import RecallIndex
from unsay.retrieval.vectors import Vector
from unsay.types import Offloaded, Segment

THREADS = 32
"""Of so many threads something is remembered at most, those that spoke last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """What is remembered of a page of a record."""

    before: Offloaded | None
    messages: tuple[AnyMessage, ...]
    """What was spoken there, without what recall never shows."""

    segments: tuple[Segment, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What is remembered of a thread; every addition gives a new one."""

    leaves: Mapping[str, Leaf] = field(default_factory=dict)
    index: RecallIndex = field(default_factory=RecallIndex)
    prints: Mapping[str, int] = field(default_factory=dict)
    """By message id, the hash of the words that were indexed."""

    vectors: Mapping[str, Vector] = field(default_factory=dict)
    """By message id, what the user's embeddings made of it."""

    costs: MutableMapping[str, int] = field(default_factory=dict)
    """By message id, about what quoting it costs; filled as messages are looked at."""


class Memories:
    """What is remembered of the threads of all stores; no thread sees another's."""

    def __init__(self, most: int = THREADS) -> None:
        self._most, self._lock = most, Lock()
        self._known: OrderedDict[tuple[int, str], tuple[weakref.ref[Any], Memory]] = OrderedDict()

    def get(self, owner: object, thread_id: str) -> Memory:
        """What is remembered of a thread; empty for one that is new.

        The owner is the store that holds the thread; without one, the object that serves it.
        """
        key = (id(owner), thread_id)
        with self._lock:
            alive, memory = self._known.get(key, (None, Memory()))
            if alive is None or alive() is not owner:  # an id may be another object's by now
                self._known.pop(key, None)
                return Memory()
            self._known.move_to_end(key)
            return memory

    def keep(self, owner: object, thread_id: str, memory: Memory) -> None:
        """Remember this of a thread, in place of what was remembered."""
        key = (id(owner), thread_id)
        with self._lock:
            self._known[key] = (weakref.ref(owner), memory)
            self._known.move_to_end(key)
            for each in [each for each, (alive, _) in self._known.items() if alive() is None]:
                del self._known[each]
            while len(self._known) > self._most:
                self._known.popitem(last=False)

    def drop(self, owner: object, thread_id: str) -> None:
        """Remember nothing of a thread any more."""
        with self._lock:
            self._known.pop((id(owner), thread_id), None)


MEMORIES = Memories()
