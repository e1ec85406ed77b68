"""Chains of pages in a store: immutable, named by their content, each linked to the one before.

The event log, the offloaded segments and the old operations of a thread are such chains. A page's
id is a hash of its link, its facts and its body. So a step that runs twice writes one page, and a
reader that starts at an id from the committed state notices every page that is missing, changed or
swapped. A page that a crash left before the commit cannot be reached from there.
"""

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from langgraph.store.base import BaseStore, Item

from unsay.effects import Call, Steps
from unsay.errors import DatabaseCorruptError, StorageError
from unsay.storage.items import (
    BACKUP,
    bytes_of,
    drop_items,
    freeze,
    frozen,
    get_item,
    packed,
    put_items,
    reading,
    storable,
    thaw,
    unpacked,
)
from unsay.storage.pagination import read_items

# Suffix of the key of an item that holds only the body of a page.
BODY = ".words"
MOST_PACKED = 1_000

WORTH_PACKING = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One immutable item of a chain; `before` is the id of the older page, `None` for the first.

    `facts` are plain JSON that can be read without the body. `body` is packed values; `None` if it
    is stored in a separate item and was not read. `digest` is the SHA-256 of the body.
    """

    id: str
    before: str | None
    facts: Mapping[str, Any]
    body: bytes | None
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """The pages of one kind in one thread, such as its event log; a function per kind makes it.

    Every method that reads a page raises `error`, a class, if the page is missing or was changed;
    `name` and `hint` are part of its message. With `apart`, bodies are stored in separate items, so
    that large ones are read only when needed.
    """

    store: BaseStore
    namespace: tuple[str, ...]
    name: str
    error: type[StorageError] = DatabaseCorruptError
    hint: str = ""
    apart: bool = False

    def put(self, page: Page) -> Call[object]:
        """Return a call that writes a page, which never expires; repeating it changes nothing."""
        assert page.body is not None  # noqa: S101 - a page that was made or read whole
        value = {"before": page.before, **page.facts, "body": page.digest}
        if self.apart:
            # One batch is one transaction: a page never exists without its body.
            body = {"body": frozen(page.body, dense=True)}
            return put_items(self.store, self.namespace, {f"{page.id}{BODY}": body, page.id: value})
        value["body"] = frozen(page.body)
        return put_items(self.store, self.namespace, {page.id: value})

    def get(self, page_id: str) -> Steps[Page]:
        """Read one page. With `apart` it comes without its body, which the method `body` reads.

        Raises the chain's `error` if the page is missing or was changed.
        """
        pages = self._pages((yield from self._item(page_id)))
        if not pages:
            raise self.damaged(page_id)
        return pages[-1]  # a packed item holds several pages and has the id of its newest

    def body(self, page: Page) -> Steps[Any]:
        """Read the values of a page whose body is stored separately (`apart`).

        Raises the chain's `error` if the body is missing or was changed.
        """
        item = yield from self._item(f"{page.id}{BODY}")
        try:
            with reading(f"Page {page.id!r}"):
                data = b"" if item is None else bytes_of(item.value["body"])
        except DatabaseCorruptError as error:
            raise self.damaged(page.id) from error
        if _digest(data) != page.digest:
            raise self.damaged(page.id)
        return self.values(replace(page, body=data))

    def values(self, page: Page) -> Any:
        """Return the values of a page that has its body; for one without it (`apart`) use `body`.

        Raises the chain's `error` if they cannot be decoded.
        """
        try:
            return unpacked(page.body or b"")
        except DatabaseCorruptError as error:
            raise self.damaged(page.id) from error

    def read_all(self, page_id: str | None) -> Steps[list[Page]]:
        """Read the chain that ends at `page_id` in few round trips, oldest first; empty for `None`.

        Raises the chain's `error` if a page is missing or was changed.
        """
        if page_id is None:
            return []
        listed: list[list[Page]] = []
        # One damaged item fails the whole search. Read one by one, only pages of this chain count.
        with suppress(DatabaseCorruptError):
            listed = yield from read_items(self.store, self.namespace, self._pages)
        page_by_id = {page.id: page for pages in listed for page in pages}
        chain: list[Page] = []
        while page_id is not None:
            # A search can miss a page that another process is packing, and skips damaged ones.
            page = page_by_id.get(page_id) or (yield from self.get(page_id))
            chain.append(page)
            page_id = page.before
        return chain[::-1]

    def pack(self, page_id: str | None) -> Steps[None]:
        """Replace the newest pages in the store by one item that holds them all, to save space.

        It packs up to `MOST_PACKED` pages from `page_id` back, and stops before the first page that
        was packed earlier. Fewer than `WORTH_PACKING` pages stay as they are. The ids and the order
        of the pages do not change. Raises the chain's `error` if a page was changed.
        """
        # Many small items take three times the space of one. Source: own measurement.
        loose: list[Page] = []
        while page_id is not None and len(loose) < MOST_PACKED:
            item = yield from self._item(page_id)
            # Without an item the page was packed with later ones: a host went back to its state.
            if item is None or "pages" in item.value:
                break
            pages = self._pages(item)
            if not pages:
                raise self.damaged(page_id)
            loose += pages
            page_id = pages[-1].before
        if len(loose) < WORTH_PACKING:
            return
        values = [
            {"before": page.before, **page.facts, "body": page.body} for page in reversed(loose)
        ]
        # Written before the old items are deleted: a crash in between leaves each page twice, with
        # the same content, and the other way round it would lose pages. The state refers to the newest
        # page, so its id is the key.
        yield from put_items(
            self.store, self.namespace, {loose[0].id: {"pages": freeze(values, dense=True)}}
        )
        yield from drop_items(self.store, self.namespace, [page.id for page in loose[1:]])

    def _item(self, key: str) -> Steps[Item | None]:
        """Read the item of a page or a body; `None` if it is missing.

        Raises the chain's `error` if unsay's database finds the item damaged.
        """
        try:
            return (yield from get_item(self.store, self.namespace, key))
        except DatabaseCorruptError as error:
            raise self.damaged(key.removesuffix(BODY)) from error

    def damaged(self, page_id: str | None) -> StorageError:
        """Return the chain's `error` for a missing or changed page; the caller raises it."""
        return self.error(
            f"Page {page_id!r} of {self.name} is missing or was changed: {BACKUP}{self.hint}"
        )

    def _pages(self, item: Item | None) -> list[Page]:
        """Return the pages in an item, oldest first.

        The list is empty without an item, and for one that is damaged or stored under a wrong key.
        """
        if item is None:
            return []
        try:
            with reading(f"Page {item.key!r}"):
                values = thaw(item.value["pages"]) if "pages" in item.value else [item.value]
                pages = [self._page(dict(value)) for value in values]
                return pages if pages[-1].id == item.key else []
        except DatabaseCorruptError:
            return []

    def _page(self, value: dict[str, Any]) -> Page:
        before, body = value.pop("before"), value.pop("body")
        if self.apart:
            return _linked(before, value, None, body)
        data = body if isinstance(body, bytes) else bytes_of(body)
        return _linked(before, value, data, _digest(data))


def make_page(before: str | None, facts: Mapping[str, Any], values: Any) -> Page:
    """Return the page after the one with the id `before` (`None`: the first); nothing is stored.

    `facts` are plain JSON, read without the body. `values` are the body: `InputError` if they
    cannot be stored. The same arguments make the same page; the order of keys counts in `values`.
    """
    body = packed(values)
    return _linked(before, storable(facts), body, _digest(body))


def _linked(before: str | None, facts: Mapping[str, Any], body: bytes | None, digest: str) -> Page:
    # Sorted, so that equal facts in another order give the same id.
    named = json.dumps([before, facts, digest], sort_keys=True)
    name = f"page-{_digest(named.encode())[:32]}"
    return Page(id=name, before=before, facts=facts, body=body, digest=digest)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
