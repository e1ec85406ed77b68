"""One writer per thread over a checkpointer of LangGraph: leases among its checkpoints.

Checkpointers have no lock, but they store the first write of a task only if it is absent. So each
lease is a checkpoint of the thread in a separate namespace, its id is a term number that counts
up, and the writer whose claim is stored under the fixed task id has the term. The next term can be
claimed when the writer released its lease, ended, or did not renew it in time.

A writer that lost its lease is refused by `verify`, before its step is committed: a checkpointer
cannot check that in the transaction that writes. `graph/single_writer.py` repairs what is written later.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, empty_checkpoint
from langgraph.checkpoint.memory import InMemorySaver

from unsay.effects import Call, Steps
from unsay.errors import ThreadBusyError
from unsay.storage.leases import KeptLease, KeptLeases, Leases, is_gone, this_process

NAMESPACE = "unsay-lease"
# The fixed task id of all claims; ids are UUIDs, because some databases store no others.
CLAIM = str(UUID(int=0))
# A renewal replaces the one before: checkpointers do this for LangGraph's own channels alone.
# Source: langgraph-checkpoint, WRITES_IDX_MAP.
RENEWED = "__scheduled__"
# When the claim of a released term expires.
RELEASED = 0.0
_ATTRIBUTE = "unsay_leases"


def leases_of(saver: BaseCheckpointSaver[Any]) -> Leases:
    """Return the leases on a checkpointer's threads; every caller gets the same object.

    They are those of `set_leases`. If there are none, the first call makes them: for an
    `InMemorySaver`, leases of this process alone, for any other, leases among its checkpoints.
    """
    found: Leases | None = getattr(saver, _ATTRIBUTE, None)
    if found is not None:
        return found
    in_memory = isinstance(saver, InMemorySaver)
    made: Leases = Leases() if in_memory else SaverLeases(saver)
    shared: Leases = vars(saver).setdefault(_ATTRIBUTE, made)
    return shared


def set_leases(saver: BaseCheckpointSaver[Any], leases: Leases) -> None:
    """Set the leases that `leases_of` returns for a checkpointer, when unsay opens a database."""
    setattr(saver, _ATTRIBUTE, leases)


@dataclass(slots=True, eq=False)
class SaverLease(KeptLease):
    """A lease among a checkpointer's checkpoints; `claim_id` tells its claims from all others.

    `unreleased` is the newest earlier term whose owner did not release it, and so may still write;
    0 if there is none. `loop` is the event loop on which the checkpointer is awaited, if it is.
    """

    claim_id: str = field(default_factory=lambda: str(uuid4()))
    unreleased: int = 0
    loop: asyncio.AbstractEventLoop | None = None


class SaverLeases(KeptLeases):
    """The leases on the threads of a checkpointer that other processes may use as well.

    A checkpointer whose blocking methods are missing has no leases in blocking code: there the lock
    in this process is the only protection.
    """

    kind = SaverLease

    def __init__(
        self, saver: BaseCheckpointSaver[Any], *, clock: Callable[[], float] = time.time
    ) -> None:
        super().__init__()
        self._saver = saver
        self._clock = clock

    def verify(self, lease: SaverLease) -> Steps[None]:
        """Raise `ThreadBusyError` if another writer took over the lease.

        Nothing is done for a checkpointer without leases, or if the lease's rows were deleted.
        """
        if lease.token is None:
            return
        term, _ = yield from self._newest(lease.thread_id)
        # 0: the rows were deleted, by a retention job for example, and no term was claimed since.
        if term not in (0, lease.token):
            raise ThreadBusyError(
                f"This process did not renew its lease on the thread {lease.thread_id!r} for "
                f"{lease.seconds:g} s, and another one took over the thread: read its messages, "
                "then repeat this. What it was doing is not in the transcript"
            )

    def _request(self, lease: SaverLease, *, waits: bool) -> Steps[str]:
        del waits  # terms keep no queue
        saver = self._saver
        try:
            term, holder = yield from self._newest(lease.thread_id)
        except NotImplementedError:
            return ""
        if holder is not None and not self._is_over(holder):
            return _where(holder)
        lease.unreleased = _unreleased(term, holder)
        # A term whose claim is missing is claimed again: its owner may have died before the claim.
        if holder is not None or term == 0:
            term += 1
        place = _place(lease.thread_id, term)
        checkpoint = empty_checkpoint()
        checkpoint["id"] = place["configurable"]["checkpoint_id"]
        metadata: Any = {"source": "update", "step": -1}
        anywhere = _place(lease.thread_id)
        yield from Call.of(saver.put, saver.aput, anywhere, checkpoint, metadata, {})
        claim = [("claim", self._claim(lease))]
        yield from Call.of(saver.put_writes, saver.aput_writes, place, claim, CLAIM)
        newest, holder = yield from self._newest(lease.thread_id)
        if newest != term or holder is None or holder["id"] != lease.claim_id:
            return _where(holder)
        lease.token = term
        lease.loop = yield from Call(
            blocking=lambda: None,
            awaitable=lambda: asyncio.sleep(0, asyncio.get_running_loop()),
        )
        self._keep(lease)
        return ""

    def _claim(self, lease: SaverLease) -> dict[str, Any]:
        claim = {"id": lease.claim_id, "owner": this_process(), "unreleased": lease.unreleased}
        return {**claim, "expires": self._clock() + lease.seconds}

    def _newest(self, thread_id: str) -> Steps[tuple[int, dict[str, Any] | None]]:
        """Return the number (the term) of a thread's newest lease, and the claim of its owner.

        Without a lease they are 0 and `None`. The claim is as last renewed; it is `None` if the
        writer ended before it claimed the lease.
        """
        saver = self._saver
        found = yield from Call.of(saver.get_tuple, saver.aget_tuple, _place(thread_id))
        if found is None:
            return 0, None
        writes = {task: value for task, _, value in found.pending_writes or ()}
        claim = writes.get(CLAIM)
        return UUID(found.checkpoint["id"]).int, claim and writes.get(claim["id"], claim)

    def _is_over(self, claim: dict[str, Any]) -> bool:
        return bool(claim["expires"] <= self._clock() or is_gone(claim["owner"]))

    def _renew(self, lease: SaverLease) -> None:
        self._write(lease, self._claim(lease))

    def _end(self, lease: SaverLease) -> None:
        self._write(lease, {**self._claim(lease), "expires": RELEASED})

    def _write(self, lease: SaverLease, claim: dict[str, Any]) -> None:
        # If this fails, the lease expires in time.
        with suppress(Exception):
            place = _place(lease.thread_id, lease.token or 0)
            saver, write = self._saver, (place, [(RENEWED, claim)], lease.claim_id)
            if lease.loop is None:
                saver.put_writes(*write)
            elif not lease.loop.is_closed():
                asyncio.run_coroutine_threadsafe(saver.aput_writes(*write), lease.loop).result()


def _place(thread_id: str, term: int | None = None) -> RunnableConfig:
    """Return the config of the checkpoint that holds a lease.

    `term` is the lease's number; `None` means the newest lease.
    """
    named = {} if term is None else {"checkpoint_id": str(UUID(int=term))}
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": NAMESPACE, **named}}


def _unreleased(term: int, claim: dict[str, Any] | None) -> int:
    """Return the number of the newest lease whose owner may still write; 0 if there is none.

    `term` is the newest lease's number, `claim` what its owner stored; if that is missing, the
    lease before counts. An owner that released its lease, or has ended, writes no more.
    """
    if claim is None:
        return max(0, term - 1)  # its claim was deleted, so the term before may be unreleased
    is_released = claim["expires"] == RELEASED or is_gone(claim["owner"])
    return int(claim.get("unreleased", 0)) if is_released else term


def _where(claim: dict[str, Any] | None) -> str:
    return f" in process {claim['owner'].rsplit(' ', 2)[1]}" if claim else " in another process"
