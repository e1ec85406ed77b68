"""A change as JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, cast

from tests.log.changes import Change, Entry, Splice, Stack, Swap, Value
from unsay.log.ranges import Ranges


def record_of(change: Change) -> dict[str, Any]:
    """Return a change as JSON; `change_of` reads it."""
    return {
        "cause": change.cause,
        "splices": [[each.after, each.removed, each.inserted] for each in change.splices],
        "swaps": _swaps_as_json(change.swaps),
        "entry": None
        if change.entry is None
        else {**asdict(change.entry), "swaps": _swaps_as_json(change.entry.swaps)},
        "takes_back": change.takes_back,
        "keeps_redo": change.keeps_redo,
        "end": change.end,
    }


def change_of(record: Mapping[str, Any]) -> Change:
    """Return the change that `record_of` wrote."""
    entry = record["entry"]
    return Change(
        cause=record["cause"],
        splices=tuple(
            Splice(after=after, removed=_ranges(removed), inserted=_ranges(inserted))
            for after, removed, inserted in record["splices"]
        ),
        swaps=_swaps(record["swaps"]),
        entry=entry and _entry(entry),
        takes_back=cast("Stack | None", record["takes_back"]),
        keeps_redo=record["keeps_redo"],
        end=record["end"],
    )


def _entry(record: Mapping[str, Any]) -> Entry:
    return Entry(
        moves=record["moves"],
        base=record["base"],
        is_open=record["is_open"],
        leaving=_ranges(record["leaving"]),
        returning=_ranges(record["returning"]),
        places=tuple((after, _ranges(pairs)) for after, pairs in record["places"]),
        swaps=_swaps(record["swaps"]),
    )


def _ranges(pairs: Sequence[Sequence[int]]) -> Ranges:
    return tuple((start, stop) for start, stop in pairs)


def _swaps_as_json(swaps: Mapping[str, Swap]) -> dict[str, Any]:
    return {
        name: [value and [value.data, value.anchor] for value in pair]
        for name, pair in swaps.items()
    }


def _swaps(record: Mapping[str, Any]) -> dict[str, Swap]:
    return {name: (_value(old), _value(new)) for name, (old, new) in record.items()}


def _value(pair: Sequence[Any] | None) -> Value | None:
    return None if pair is None else Value(data=pair[0], anchor=pair[1])
