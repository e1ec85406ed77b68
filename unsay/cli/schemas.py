"""The JSON that each command prints with `--json`, as models that give its JSON Schema.

The fields are those of the results that methods return. An object of a command has `schema_version`
beside them. Costs are in millionths of the currency of the prices, times are ISO 8601 in UTC.
"""

from collections.abc import Mapping
from dataclasses import is_dataclass
from types import GenericAlias
from typing import Any, Literal, NotRequired, get_args, get_origin, get_type_hints

from pydantic import BaseModel, create_model

import unsay
from unsay.budget.limits import Gauge
from unsay.cli.setup import Check
from unsay.context.manifest import PURPOSES, Tokens
from unsay.context.plan import Omission
from unsay.evaluation.judging import Bisection, JudgedTurn
from unsay.history.runs import Run
from unsay.history.threads import ThreadInfo
from unsay.judging.calibration import Calibration
from unsay.memory.lessons import Label, Lesson, Rating
from unsay.protocols import Judge
from unsay.results.results import Checkpoint, EventKind, Preview, Reply, RollbackResult
from unsay.results.timeline import TimelineData
from unsay.settings.settings import Source
from unsay.storage.base import Purged
from unsay.types import Event, Forgotten, Language, Pin

JSON = dict[str, Any]


def _fields_of(kind: type) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return (
        {name: hints[name] for name in kind.__dataclass_fields__} if is_dataclass(kind) else hints
    )


def _object(name: str, kind: type | None = None, /, *, extra: str = "forbid", **own: Any) -> Any:
    """Return a model of objects with the fields of a result class; `own` ones replace them."""
    config: Any = {"extra": extra, "arbitrary_types_allowed": True}
    hints = {**(_fields_of(kind) if kind else {}), **own}
    declared: dict[str, Any] = {field: (hint, ...) for field, hint in hints.items()}
    for field, hint in hints.items():
        if get_origin(hint) is NotRequired:
            declared[field] = (*get_args(hint), None)
    return create_model(name, __doc__=kind.__doc__ if kind else None, __config__=config, **declared)


def _list(name: str, kind: type | None = None, /, **own: Any) -> Any:
    return GenericAlias(list, (_object(name, kind, **own),))


_REPLAY, _DIFF = _fields_of(unsay.Replay), _fields_of(unsay.Diff)
(_CALL, _) = get_args(_fields_of(unsay.TurnCalls)["calls"])

BUDGETS = _list("Budget", Gauge, share=float)
# The newest context by parts, in tokens; `size` is that of the model's window, if known.
WINDOW = _object("Window", size=int | None, parts=dict[str, int])
SPENT: dict[str, Any] = dict.fromkeys((*PURPOSES, "total"), Tokens)
USAGE: JSON = {"window": WINDOW | None, "spent": _object("Spending", **SPENT), "budgets": BUDGETS}
# The context of a call has the places and ids of the messages by rule.
CALLS_SENT = _list("CallSent", _CALL, context=JSON)
COMPARED = _object("Compared", _DIFF["a"], only=list[JSON])
AGAIN = _object("Again", _REPLAY["recorded"], model=str)
FAILURE = _object("Failure", type=str, message=str, answer=NotRequired[str])
# `why` names the rule of a search, `words` are the words that match.
FOUND: JSON = {**dict.fromkeys(("message_id", "speaker", "text", "why"), str), "turn": int}
# `variable` is the name of a setting's environment variable.
SETTING: JSON = {**dict.fromkeys(("name", "variable"), str), "value": Any, "default": Any}
MEASURED: JSON = {"held_out": JSON, "curve": list[JSON], "claim": str | None}
# One line of `unsay ratings`, which `unsay calibrate` reads; `earlier` has pairs of texts.
RATED: JSON = {
    **dict.fromkeys(("thread", "message_id", "question", "answer", "note"), str),
    "turn": int,
    "lang": Language,
    "earlier": list[tuple[str, str]],
    "label": Label,
    "score": float | None,
    "source": Judge | None,
}

THREAD: Mapping[str, Any] = {"thread_id": str}
PAGE: Mapping[str, Any] = {"cursor": str | None}
_EVENT: Mapping[str, Any] = {
    "event": EventKind | Literal["thread", "demo", "added", "question", "timeline", "error"],
    "text": str,
    "message_id": str | None,
    "data": JSON,
}
# `chat` prints the thread first, and maybe errors.
_OF_CHAT = {"thread_id": NotRequired[str], "error": NotRequired[FAILURE]}

OBJECTS: Mapping[str, Mapping[str, Any]] = {
    "chat": {**_EVENT, **_OF_CHAT},
    "demo": _EVENT,
    **{name: {**THREAD, **_fields_of(Reply)} for name in ("say", "retry", "edit")},
    "compact": {**THREAD, **_fields_of(Omission)},
    "threads": {"threads": list[ThreadInfo], "cursor": NotRequired[str | None]},
    "timeline": {**_fields_of(TimelineData), "tokens": _object("Usage", **USAGE)},
    "timeline --context": {**THREAD, **_fields_of(unsay.TurnCalls), "calls": CALLS_SENT},
    "tokens": {**THREAD, **USAGE},
    "checkpoints": {**THREAD, "checkpoints": list[Checkpoint]},
    **{name: {**THREAD, "checkpoint": Checkpoint} for name in ("checkpoint", "task")},
    **{
        name: {**THREAD, **_fields_of(RollbackResult)}
        for name in ("rollback", "undo", "redo", "remove", "restore", "pick")
    },
    "rollback --preview": {**THREAD, **_fields_of(Preview)},
    "fork": {**THREAD, "forked_from": str, "turns": int, "at": str},
    "branches": {**THREAD, "branches": list[unsay.Branch]},
    "diff": {**THREAD, **_DIFF, "a": COMPARED, "b": COMPARED},
    **{name: {**THREAD, "pins": list[Pin]} for name in ("pin", "unpin")},
    **{name: {**THREAD, "forgotten": list[Forgotten]} for name in ("forget", "forgotten")},
    "same": {**THREAD, "topic": str},
    "recall": {**THREAD, "recalled": _list("Recalled", **FOUND, words=list[str])},
    "lessons": {**THREAD, "lessons": list[Lesson]},
    **{name: {**THREAD, "lesson": Lesson} for name in ("lesson", "unlearn")},
    "rate": {**THREAD, "rating": Rating},
    "ratings": RATED,
    "ratings --import": {**THREAD, "imported": int},
    "judge": {**THREAD, "turns": list[JudgedTurn]},
    "bisect": {**THREAD, **_fields_of(Bisection), "rolled_back": bool},
    "calibrate": {
        "languages": _list("Calibrated", Calibration, **MEASURED),
        "written": str | None,
    },
    **{name: _fields_of(ThreadInfo) for name in ("label", "end")},
    "purge": {**THREAD, **_fields_of(Purged)},
    "runs": {"runs": list[Run], **PAGE, "thread_id": NotRequired[str]},
    "events": {**THREAD, "events": list[Event], **PAGE},
    "events --verify": {**THREAD, "verified": bool, "events": int, "messages": int},
    "replay": {**THREAD, **_REPLAY, "messages": list[JSON], "again": AGAIN | None},
    "replay --payload": {"model": str, "messages": list[JSON]},
    "doctor": {"ok": bool, "checks": list[Check]},
    "settings": {"settings": _list("Setting", **SETTING, source=Source)},
    "schema": {"type": Literal["object"], "properties": JSON},
    "completion": {"shell": str, "script": str},
    "error": {"error": FAILURE},
}
"""The fields of each command's object; `chat`, `demo` and `ratings` print one object a line.

`error` is what any command prints if it fails.
"""

FOREIGN = frozenset({"replay --payload", "schema"})
"""Commands whose object is of another format, and may have more fields than are listed here."""


def model_of(command: str) -> type[BaseModel] | None:
    """Return a pydantic model of the object that a command prints with `--json`.

    `command` can name an option too, as the keys of `OBJECTS` do. `None` if it is not one of them.
    """
    if command not in OBJECTS:
        return None
    # Lines of data for another command, and objects of other formats, are not versioned.
    version = {} if command in {"ratings", *FOREIGN} else {"schema_version": int}
    extra = "allow" if command in FOREIGN else "forbid"
    model: type[BaseModel] = _object(command, extra=extra, **version, **OBJECTS[command])
    return model
