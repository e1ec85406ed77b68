"""LangGraph's store for one file, which refuses items that are no longer as they were written."""

import asyncio
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from langgraph.store.base import Item, Op, PutOp, Result
from langgraph.store.sqlite import SqliteStore

from unsay.storage.base import OURS
from unsay.storage.connection import Connection
from unsay.storage.items import damaged, summed, unsummed


class FileStore(SqliteStore):
    """LangGraph's SQLite store, usable from an event loop as well; our items have checksums."""

    conn: Connection

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """What some operations find, or nothing of them.

        Raises:
            DatabaseCorruptError: An item is not what was written.
        """
        given = [_guarded(op) for op in ops]
        with _told(puts=any(isinstance(op, PutOp) for op in given)):
            results = super().batch(given)
        for found in results:
            for item in found if isinstance(found, list) else [found]:
                if isinstance(item, Item) and item.namespace[0] == OURS:
                    item.value = unsummed(item.namespace, item.key, item.value)
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """`batch`, off the event loop."""
        return await asyncio.to_thread(self.batch, list(ops))

    @contextmanager
    def _cursor(self, *, transaction: bool = True) -> Iterator[sqlite3.Cursor]:
        """A cursor in a transaction that is taken back when anything ends it early."""
        with super()._cursor(transaction=transaction) as cursor:
            try:
                yield cursor
            except BaseException:  # whatever ends it early must leave no half transaction
                self.conn.rollback()
                raise


def _guarded(op: Op) -> Op:
    if isinstance(op, PutOp) and op.value is not None and op.namespace[0] == OURS:
        return op._replace(value=summed(op.namespace, op.key, op.value))
    return op


@contextmanager
def _told(*, puts: bool) -> Iterator[None]:
    """What a store's reader makes of damaged rows, as one error; a caller's own errors stay."""
    try:
        yield
    except (AttributeError, TypeError, ValueError) as error:
        if isinstance(error.__cause__, sqlite3.Error):
            raise error.__cause__ from None
        if puts or str(error).startswith(("Invalid filter key", "Unsupported operator")):
            raise
        raise damaged("An item", f"{type(error).__name__}: {error}") from error
