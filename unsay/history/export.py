"""Snapshots: a thread as one plain JSON object, which can be loaded in full or in part."""

import json
from collections.abc import Collection, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Literal

from langchain_core.messages import BaseMessage, message_to_dict, messages_from_dict
from pydantic import TypeAdapter, ValidationError

from unsay.context.topics import live_topics
from unsay.errors import DatabaseCorruptError, InputError, SnapshotError
from unsay.messages.content import sources_of
from unsay.storage.items import freeze, thaw
from unsay.storage.pagination import are_labels, moment_of
from unsay.types import Checkpoint, ExpandedTopic, Segment, Topic

# Version of the format; other versions are refused.
VERSION = "1.0"
# Key of the packed form of a message that JSON cannot hold, such as one with bytes.
FROZEN = "frozen"
_LISTS: dict[str, Any] = {
    "checkpoints": Checkpoint,
    "segments": Segment,
    "topics": Topic,
    "expanded": ExpandedTopic,
}
# Key of the message id in the entries of these fields.
_MARKS: dict[str, str] = {"checkpoints": "message_id", "segments": "start", "expanded": "at"}
FIELDS = ("messages", *_LISTS, "current_topic", "title", "labels", "settings")
Preset = Literal["session", "record"]

# Fields that are exported together: the whole thread, or its messages alone.
PRESETS: dict[Preset, tuple[str, ...]] = {
    "session": tuple(each for each in FIELDS if each != "settings"),
    "record": ("messages",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Portable:
    """A snapshot of some fields of a thread, made by `take_snapshot` or `from_dict`.

    It is for apps; unsay itself takes no snapshots. `created_at` is ISO 8601 with a zone. A field
    that is not in `data` stays as it is when the snapshot is loaded. `app_data` is plain JSON of
    the host.
    """

    created_at: str
    data: Mapping[str, Any] = field(default_factory=dict)
    app_data: Mapping[str, Any] = field(default_factory=dict)


def resolve_fields(
    *, preset: Preset | None = None, include: Collection[str] = (), exclude: Collection[str] = ()
) -> tuple[str, ...]:
    """Return the fields of a preset and the included ones, without the excluded ones.

    They are the `fields` of `take_snapshot`; without a preset only the included ones are chosen.

    Raises:
        SnapshotError: A name is unknown, or no field remains.
    """
    if preset is not None and preset not in PRESETS:
        raise SnapshotError(f"preset={preset!r} is unknown: use one of {', '.join(PRESETS)}")
    for name in (*include, *exclude):
        if name not in FIELDS:
            raise SnapshotError(f"{name!r} is not a field of a snapshot: use {', '.join(FIELDS)}")
    field_names = {*(PRESETS[preset] if preset else ()), *include} - {*exclude}
    if not field_names:
        raise SnapshotError("No field is selected: give a preset, or the fields to include")
    return tuple(name for name in FIELDS if name in field_names)


def take_snapshot(
    live: Mapping[str, Any],
    fields: Iterable[str],
    *,
    now: str,
    app_data: Mapping[str, Any] | None = None,
) -> Portable:
    """Return a snapshot of those `fields` that a thread has; an app calls this.

    `live` has the thread's values by field name, such as those of a graph's state. `now` is ISO
    8601 with a zone. `app_data` is a host's own data, kept with the snapshot; `None` is none. It
    raises no error: `to_dict` checks the values.
    """
    data = {name: _portable(name, live[name]) for name in fields if name in live}
    return Portable(created_at=now, data=data, app_data=deepcopy(dict(app_data or {})))


def load_snapshot(
    live: Mapping[str, Any], snapshot: Portable, fields: Iterable[str] | None = None
) -> dict[str, Any]:
    """Return the fields of a thread (`live`) with those of a snapshot in their place.

    `fields` names those to replace, `None` all. If the messages are replaced, an entry of another
    field stays only if its message exists or it is at the beginning, and the summary of a topic
    only if the last message that it covers exists. A field that the snapshot does not have stays as
    it is in `live`, which is not changed. Raises no error.
    """
    field_names = (
        snapshot.data if fields is None else [name for name in fields if name in snapshot.data]
    )
    after = {**live, **{name: deepcopy(snapshot.data[name]) for name in field_names}}
    if "messages" in field_names:
        # A checkpoint at the beginning has no message.
        message_ids = {None, *(message.id for message in after["messages"])}
        for name, key in _MARKS.items():
            if name in live and name not in field_names:
                after[name] = [entry for entry in live[name] if entry[key] in message_ids]
        if "topics" in live and "topics" not in field_names:
            sources = set(sources_of(after["messages"]))
            after["topics"] = live_topics(after["messages"], live["topics"], sources)
    return after


def to_dict(snapshot: Portable) -> dict[str, Any]:
    """Return a snapshot as plain JSON; `from_dict` reads it.

    Raises:
        SnapshotError: A message cannot be stored, or other data is not JSON.
    """
    data = dict(snapshot.data)
    if "messages" in data:
        data["messages"] = [_plain(message) for message in data["messages"]]
    plain: dict[str, Any] = {
        "schema_version": VERSION,
        "created_at": snapshot.created_at,
        "data": data,
        "app_data": dict(snapshot.app_data),
    }
    if not _is_json(plain):
        raise SnapshotError("The snapshot has values that JSON cannot hold: give plain values")
    return deepcopy(plain)


def from_dict(value: Any) -> Portable:
    """Check plain JSON and return the snapshot in it.

    Raises:
        SnapshotError: It is not a snapshot, has another version, or has an invalid field.
    """
    if not isinstance(value, Mapping) or not isinstance(value.get("data"), Mapping):
        raise SnapshotError(
            "This is not a snapshot of a thread: it has no object under the key 'data'"
        )
    version = value.get("schema_version")
    if version != VERSION:
        raise SnapshotError(
            f"schema_version={version!r} is unknown, this version reads {VERSION!r}: load the snapshot "
            "with the version of unsay that wrote it"
        )
    created_at: Any = value.get("created_at")
    app_data = value.get("app_data", {})
    try:
        moment_of(created_at)
    except (TypeError, ValueError) as error:
        raise SnapshotError(
            f"created_at={created_at!r} is not a time: give ISO 8601 with a zone"
        ) from error
    if not isinstance(app_data, Mapping):
        raise SnapshotError(
            f"app_data={app_data!r} is not a JSON object: give the host's data as names and values"
        )
    data = {name: _checked(name, each) for name, each in value["data"].items()}
    _refuse_dangling(data)
    return Portable(created_at=created_at, data=data, app_data=deepcopy(dict(app_data)))


def _portable(name: str, value: Any) -> Any:
    """Return a copy of the field `name` without keys that refer to items of a store."""
    if name not in _LISTS:
        return deepcopy(value)
    keys = _LISTS[name].__required_keys__  # the other keys refer to items of a store
    return [{key: entry[key] for key in entry if key in keys} for entry in value]


def _plain(message: BaseMessage) -> dict[str, Any]:
    """Return a message as JSON, packed as text if JSON cannot hold its values.

    Raises `SnapshotError` if they cannot be packed either.
    """
    plain: dict[str, Any] = message_to_dict(message)
    try:
        return plain if _is_json(plain) else {FROZEN: freeze(plain)}
    except InputError as error:
        raise SnapshotError(
            f"The message {message.id!r} cannot be in a snapshot: {error}"
        ) from error


def _is_json(value: Any) -> bool:
    """Return whether a value is the same after a round trip through JSON."""
    try:
        # JSON turns tuples into lists, and numbers as keys into text: both would not come back.
        return bool(json.loads(json.dumps(value, allow_nan=False)) == value)
    except (RecursionError, TypeError, ValueError):
        return False


def _checked(name: str, value: Any) -> Any:
    """Return the value of the field `name` as snapshots have it: messages as objects, else a copy.

    `value` is JSON. Raises `SnapshotError` if it is not valid, or there is no such field.
    """
    if name == "messages":
        return _messages(value)
    if name in _LISTS:
        fits = isinstance(value, list) and all(_fits(each, _LISTS[name]) for each in value)
    elif name == "labels":
        fits = are_labels(value)
    elif name == "settings":
        fits = isinstance(value, dict) and _is_json(value)
    else:
        fits = name in FIELDS and isinstance(value, str)
    if not fits:
        raise _unfit(name)
    return deepcopy(value)


def _messages(value: Any) -> list[BaseMessage]:
    if not isinstance(value, list):
        raise _unfit("messages")
    try:
        plain = [thaw(message[FROZEN]) if FROZEN in message else message for message in value]
        return messages_from_dict(plain)
    except (DatabaseCorruptError, LookupError, TypeError, ValueError) as error:
        raise _unfit("messages") from error


def _fits(entry: Any, kind: Any) -> bool:
    """Return whether JSON is an entry of a list, without keys that refer to items of a store."""
    try:
        TypeAdapter(kind).validate_python(entry, strict=True)
    except ValidationError:
        return False
    return bool(kind.__required_keys__ == set(entry))


def _refuse_dangling(data: Mapping[str, Any]) -> None:
    """Raise `SnapshotError` if an entry refers to a message that the snapshot lacks."""
    if "messages" not in data:
        return
    message_ids = {None, *(message.id for message in data["messages"])}
    for name, key in _MARKS.items():
        lost = [entry[key] for entry in data.get(name, []) if entry[key] not in message_ids]
        if lost:
            raise SnapshotError(
                f"{name!r} names the message {lost[0]!r}, which the snapshot does not have: "
                "it was changed, so take a new snapshot"
            )


def _unfit(name: str) -> SnapshotError:
    if name not in FIELDS:
        return SnapshotError(
            f"{name!r} is not a field of a snapshot: leave it out, or upgrade unsay"
        )
    return SnapshotError(f"The field {name!r} has an invalid value: take a new snapshot")
