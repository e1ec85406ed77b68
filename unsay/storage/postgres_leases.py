"""One writer per thread among all processes of a Postgres database.

A lease is an advisory lock of a connection that does nothing else. It ends with that connection:
when its process ends, when the server stops, or when the network is down for longer than a lease
lasts. An owner that lost it is refused at its next write. A process that is suspended keeps its
leases; `pg_terminate_backend` ends them.
"""

import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, LiteralString

from unsay.storage.leases import Leases, on_loop

# Keepalive packets that may be lost before the server ends the connection of a silent machine.
SIGNS = 4
_TRY: LiteralString = (
    "SELECT key, pg_backend_pid() AS pid, pg_try_advisory_lock(key) AS got"
    " FROM (SELECT hashtextextended(%s, 0) AS key) AS name"
)
_UNLOCK: LiteralString = "SELECT pg_advisory_unlock(%s) WHERE pg_backend_pid() = %s"
_ALIVE: LiteralString = (
    "SELECT set_config(name, wanted, false) FROM pg_settings JOIN (VALUES"
    " ('tcp_keepalives_idle', %s), ('tcp_keepalives_interval', %s), ('tcp_keepalives_count', %s),"
    " ('idle_session_timeout', '0')) AS ours (name, wanted) USING (name)"
)

# Divides by zero, and so ends its transaction, unless a lease is still held. Source: PostgreSQL,
# pg_locks: a bigint key's high half is the class, its low half the object.
GUARD: LiteralString = (
    "SELECT 1 / count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted AND pid = %s"
    " AND objsubid = 1 AND classid = %s AND objid = %s"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)


@dataclass(slots=True, eq=False)
class PostgresLease:
    """The right to write to a thread while a connection is open."""

    leases: "PostgresLeases"
    thread_id: str
    seconds: float
    key: int = 0
    pid: int | None = None
    ended: bool = False
    mutex: threading.Lock = field(default_factory=threading.Lock)

    def release(self) -> None:
        """Give up the lease; on an event loop, a background thread does this."""
        self.leases.forget(self)


class PostgresLeases(Leases):
    """The leases of one Postgres database, all on one connection (a `postgres.Session`)."""

    def __init__(self, session: Any) -> None:
        super().__init__()
        self._session = session
        self._tuned: tuple[int, float] | None = None
        self._freeing = ThreadPoolExecutor(max_workers=1, thread_name_prefix="unsay-lease")

    def _make(self, thread_id: str, seconds: float) -> PostgresLease:
        return PostgresLease(self, thread_id, seconds)

    def proofs(self, thread_ids: Iterable[str | None]) -> list[tuple[int | None, int, int]]:
        """Return the parameters of `GUARD` for some threads; none for threads without a lease."""
        held = [self._held.get(each or "") for each in dict.fromkeys(thread_ids)]
        return [
            (lease.pid, lease.key >> 32 & 0xFFFFFFFF, lease.key & 0xFFFFFFFF)
            for lease in held
            if lease is not None
        ]

    def forget(self, lease: PostgresLease) -> None:
        """Free a lease's lock."""
        super().forget(lease)
        lease.ended = True
        done = self._freeing.submit(self._free, lease)
        if not on_loop():
            done.result()

    def close(self) -> None:
        """Give up every lease."""
        self._freeing.shutdown()
        self._session.close()

    def _ask(self, lease: PostgresLease, *, waits: bool) -> str:
        del waits  # the server's locks keep no queue
        elsewhere = " in another process"
        with lease.mutex:
            if lease.ended:
                return elsewhere
            row = self._session.ask(_TRY, lease.thread_id)
            if row["got"]:
                lease.key, lease.pid = row["key"], row["pid"]
        if self._tuned != (row["pid"], lease.seconds):
            half = lease.seconds / 2  # the server counts in whole seconds
            idle, interval = max(1, int(half)), max(1, int(half / SIGNS))
            self._session.ask(_ALIVE, str(idle), str(interval), str(SIGNS))
            self._tuned = row["pid"], lease.seconds
        return "" if row["got"] else elsewhere

    def _free(self, lease: PostgresLease) -> None:
        """Free a lock, unless its connection was replaced, which freed it already."""
        with lease.mutex:
            if lease.pid is not None:
                self._session.execute(_UNLOCK, lease.key, lease.pid)
