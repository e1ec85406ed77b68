"""Cache for recall in this process; an entry is used only if it agrees with the transcript."""

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

# Threads in the cache; the one that was not used for the longest time is dropped first.
THREADS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedPage:
    """An offloaded segment of a transcript, with the messages that recall may show."""

    before: Offloaded | None
    messages: tuple[AnyMessage, ...]
    segments: tuple[Segment, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Cached values of a thread, by id of the segment (`pages`) or the message.

    `prints` are hashes of the indexed texts. `costs` are estimated tokens of a quotation, and are
    filled in place. To change another field, make a new memory and `keep` it.
    """

    pages: Mapping[str, CachedPage] = field(default_factory=dict)
    index: RecallIndex = field(default_factory=RecallIndex)
    prints: Mapping[str, int] = field(default_factory=dict)
    vectors: Mapping[str, Vector] = field(default_factory=dict)
    costs: MutableMapping[str, int] = field(default_factory=dict)


class Memories:
    """The caches of the threads of all stores, at most `most`; safe for several Python threads."""

    def __init__(self, most: int = THREADS) -> None:
        self._most, self._lock = most, Lock()
        self._known: OrderedDict[tuple[int, str], tuple[weakref.ref[Any], Memory]] = OrderedDict()

    def get(self, owner: object, thread_id: str) -> Memory:
        """Return a thread's cache, maybe empty; `owner` is its store, or the services without one."""
        key = (id(owner), thread_id)
        with self._lock:
            ref, memory = self._known.get(key, (None, Memory()))
            if ref is None or ref() is not owner:  # Python reuses the ids of deleted objects
                self._known.pop(key, None)
                return Memory()
            self._known.move_to_end(key)
            return memory

    def keep(self, owner: object, thread_id: str, memory: Memory) -> None:
        """Replace a thread's cache; over the limit, drop the least recently used. `owner` is as for `get`."""
        key = (id(owner), thread_id)
        with self._lock:
            # Weak, so that the cache keeps no store alive.
            self._known[key] = (weakref.ref(owner), memory)
            self._known.move_to_end(key)
            for stale in [key for key, (ref, _) in self._known.items() if ref() is None]:
                del self._known[stale]
            while len(self._known) > self._most:
                self._known.popitem(last=False)

    def drop(self, thread_id: str) -> None:
        """Delete the caches of a thread for all stores; a purge calls this."""
        with self._lock:
            for key in [key for key in self._known if key[1] == thread_id]:
                del self._known[key]


MEMORIES = Memories()
