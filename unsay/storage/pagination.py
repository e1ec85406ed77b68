"""Lists that are read in pages: full scans of a store, stable cursors, time bounds, labels."""

import json
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar, get_args

from unsay.effects import Call, Steps
from unsay.errors import InputError
from unsay.phrases import Option

if TYPE_CHECKING:  # `unsay threads` checks its filters without loading LangGraph
    from langgraph.store.base import BaseStore, SearchItem

T = TypeVar("T")

# Items that one search of a store returns; shorter lists are read in one consistent search.
PAGE = 20_000
MOST = 1_000

# Position of an entry in a list: its start time, and two ids that order equal times.
_Place = tuple[datetime, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice(Generic[T]):
    """One page of a list; `cursor` asks for the next page and is `None` on the last."""

    items: tuple[T, ...]
    cursor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The filters of a list, and the page of it that is wanted; `window` checks and makes it.

    `since` is included and `until` excluded; `None` sets no bound. The page begins after the place
    `after`, and `None` is the start of the list.
    """

    kind: str
    since: datetime | None
    until: datetime | None

    labels: Mapping[str, str]
    after: _Place | None
    limit: int

    def holds(self, moment: datetime, labels: Mapping[str, str] | None = None) -> bool:
        """Return whether an entry with this start time and these labels matches the filters.

        `moment` is from `since` on and before `until`. `labels` has all labels of the filter with
        the same values; `None` means that the entry has no labels.
        """
        early = self.since is not None and moment < self.since
        late = self.until is not None and moment >= self.until
        return not early and not late and has_labels(labels or {}, self.labels)

    def page(
        self, items: Iterable[T], place: Callable[[T], _Place], *, newest_first: bool
    ) -> Slice[T]:
        """Sort entries by `place`; return those of this page and the cursor of the next page.

        The cursor is `None` on the last page. With `newest_first` the order is descending. The
        filters are not applied here: `items` are the entries for which `holds` is true.
        """
        after = self.after
        rest = (
            (place(item), item)
            for item in items
            if after is None or (place(item) < after if newest_first else place(item) > after)
        )
        ordered = sorted(rest, key=lambda entry: entry[0], reverse=newest_first)
        page = ordered[: self.limit]
        cursor = None
        if len(ordered) > self.limit:
            moment, *ids = page[-1][0]
            cursor = encode_cursor(self.kind, moment.isoformat(), *ids)
        return Slice(items=tuple(item for _, item in page), cursor=cursor)


def window(
    kind: str,
    *,
    labels: Mapping[str, str] | None = None,
    since: str | datetime | None = None,
    until: str | datetime | None = None,
    cursor: str | None = None,
    limit: int = 50,
) -> Window:
    """Check the filters that a caller gave for a list, and return them.

    `kind` names the list, so that a cursor of another list is refused. `since` and `until` are
    times in ISO 8601 with a zone, and `cursor` is the one of the previous page. Raises `InputError`
    if an argument is invalid.
    """
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MOST:
        raise InputError(
            f"limit={limit!r} is not a page length: give a whole number from 1 to {MOST}"
        )
    return Window(
        kind=kind,
        since=_bound("since", since),
        until=_bound("until", until),
        labels=check_labels(labels),
        after=None if cursor is None else _place_in(kind, cursor),
        limit=limit,
    )


def moment_of(text: str) -> datetime:
    """Return the time in a stored text; without a zone it is in UTC.

    Raises `TypeError` or `ValueError` if the text is not a time.
    """
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def scan(
    store: "BaseStore",
    namespace: tuple[str, ...],
    read: "Callable[[SearchItem], T | None]",
    *,
    equal: Mapping[str, str] | None = None,
) -> Steps[list[T]]:
    """Return `read(item)` of each item in a namespace and in those below it, in no certain order.

    Items for which `read` returns `None` are left out. Only items whose fields have the values in
    `equal` are read. The keys of `equal` must not come from a user: a store puts them into its
    query. In unsay's SQLite database a damaged item has an empty value. Raises what `read` raises.
    """
    # Stores page by offset, and concurrent writes move items. Pages therefore overlap by one item:
    # if the overlap is missing, an item was deleted and the previous page is read again. Items that
    # a write moved to the front are found by reading the first page once more at the end.
    values: dict[tuple[tuple[str, ...], str], T | None] = {}
    under, fields = tuple(namespace), dict(equal) if equal else None

    def search(offset: int) -> "Call[list[SearchItem]]":
        return Call.of(store.search, store.asearch, under, filter=fields, limit=PAGE, offset=offset)

    offset = furthest = 0
    while True:
        page = yield from search(offset)
        if offset and (not page or (page[0].namespace, page[0].key) not in values):
            offset = max(0, offset - PAGE + 1)
            continue
        values |= {(item.namespace, item.key): read(item) for item in page}
        furthest = max(furthest, offset)
        if len(page) < PAGE:
            break
        offset += PAGE - 1
    if furthest:
        front = yield from search(0)
        values |= {(item.namespace, item.key): read(item) for item in front}
    return [value for value in values.values() if value is not None]


def read_items(
    store: "BaseStore", namespace: tuple[str, ...], read: "Callable[[SearchItem], T | None]"
) -> Steps[list[T]]:
    """Return `read(item)` of each item in exactly one namespace, in no certain order.

    Items for which `read` returns `None` are left out. Raises as `scan`.
    """

    def read_own(item: "SearchItem") -> T | None:
        return read(item) if tuple(item.namespace) == namespace else None

    return (yield from scan(store, namespace, read_own))


def check_word(name: str, word: Any, choices: Any) -> None:
    """Raise `InputError` unless a value is one of the words of the `Literal` type `choices`.

    `name` is the argument's name, for the message.
    """
    if word not in get_args(choices):
        raise InputError(f"{name}={word!r} is unknown: use one of {', '.join(get_args(choices))}")


def check_labels(labels: Mapping[str, Any] | None) -> dict[str, str]:
    """Return labels as a dict, empty for `None`; `InputError` if one cannot be stored."""
    label_values = {} if labels is None else labels
    if not isinstance(label_values, Mapping):
        raise InputError(
            f"labels={label_values!r} are not labels: give a dict with names and values as text"
        )
    for name, value in label_values.items():
        if not (_is_text(name) and name and _is_text(value)):
            raise InputError(code="label_unusable", name=name, value=value)
    return dict(label_values)


def are_labels(value: Any) -> bool:
    """Return whether a value from JSON is a dict of labels: all its values are text, as its keys are."""
    return isinstance(value, dict) and all(isinstance(label, str) for label in value.values())


def has_labels(given: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    """Return whether `given` has all wanted labels with the same values."""
    return all(given.get(name) == value for name, value in wanted.items())


def _is_text(value: Any) -> bool:
    """Return whether a value is text without lone surrogates, which a store's JSON cannot hold."""
    return isinstance(value, str) and not any("\ud800" <= char <= "\udfff" for char in value)


def _bound(name: str, given: str | datetime | None) -> datetime | None:
    """Return a time, or the time in a text; `None` for `None`.

    Raises `InputError` unless it has a zone, and a text is ISO 8601. `name` is the argument's name,
    for the message.
    """
    if given is None:
        return None
    if isinstance(given, datetime):
        if given.tzinfo is None:
            raise InputError(f"{name}={given!r} has no zone: give one, such as tzinfo=UTC")
        return given
    try:
        moment = datetime.fromisoformat(given)
    except (TypeError, ValueError):
        moment = None
    if moment is None or moment.tzinfo is None:
        raise InputError(code="not_a_time", option=Option(name, given))
    return moment


def encode_cursor(*parts: Any) -> str:
    """Return a cursor, an opaque text, that holds these plain JSON values; see `decode_cursor`."""
    return urlsafe_b64encode(json.dumps(parts).encode("ascii")).decode("ascii")


def decode_cursor(cursor: str) -> Any:
    """Return the JSON value in a cursor, which is a list if `encode_cursor` made it.

    Raises `ValueError` or `TypeError` if there is none.
    """
    try:
        return json.loads(b64decode(cursor, altchars=b"-_", validate=True))
    except RecursionError as error:  # a cursor can be any text, also deeply nested JSON
        raise ValueError(str(error)) from error


def _place_in(kind: str, cursor: str) -> _Place:
    """Return the place in a list that a cursor names.

    Raises `InputError` unless it is a cursor of this `kind` of list.
    """
    with suppress(TypeError, ValueError):
        cursor_kind, moment, first, second = decode_cursor(cursor)
        if cursor_kind == kind and isinstance(first, str) and isinstance(second, str):
            return moment_of(moment), first, second
    raise InputError(code="strange_cursor", option=Option("cursor", cursor))


def page_text(items: Sequence[object], cursor: str | None) -> str:
    """Return a page as lines for a person, with the cursor of the next page if there is one.

    An empty page gives a text that says so.
    """
    lines = [*map(str, items)] or ["Nothing here."]
    return "\n".join([*lines, f"More: cursor={cursor!r}"] if cursor else lines)
