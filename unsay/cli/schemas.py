"""The JSON that each command prints with `--json`, as models that give its JSON Schema.

An object of a command has `schema_version` beside the fields here. Costs are in millionths of the
currency of the prices, times are ISO 8601 in UTC.
"""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Literal, NotRequired, get_type_hints

from pydantic import BaseModel, ConfigDict, create_model
from typing_extensions import TypedDict

from unsay.budget.accounts import Layer, Unit
from unsay.context.manifest import Tokens
from unsay.context.plan import Omission
from unsay.conversation.branching import Branch
from unsay.conversation.model_calls import Replay
from unsay.evaluation.judging import Bisection, JudgedTurn
from unsay.history.runs import Run
from unsay.history.threads import ThreadInfo
from unsay.memory.lessons import Label, Lesson, Rating
from unsay.protocols import Judge
from unsay.results.results import Checkpoint, EventKind, Preview, Reply, RollbackResult
from unsay.results.timeline import TimelineData
from unsay.settings.settings import Source
from unsay.storage.base import Purged
from unsay.types import Event, Forgotten, Language, Pin


class Budget(TypedDict):
    """The use of one limit; `share` is a fraction from 0, and above 1 the limit is exceeded."""

    layer: Layer
    unit: Unit
    used: int
    asked: int
    limit: int
    since: str | None
    share: float


class Window(TypedDict):
    """The newest context by parts, in tokens; `size` is that of the model's window, if known."""

    size: int | None
    parts: dict[str, int]


class Spending(TypedDict):
    """Tokens by purpose."""

    live: Tokens
    abandoned: Tokens
    judging: Tokens
    summaries: Tokens
    titles: Tokens
    total: Tokens


class Usage(TypedDict):
    """What `unsay tokens` prints, without the thread."""

    window: Window | None
    spent: Spending
    budgets: list[Budget]


class Recalled(TypedDict):
    """One message that a search found; `why` names the rule, `words` are the words that match."""

    message_id: str
    turn: int
    speaker: str
    text: str
    why: str
    words: list[str]


class Compared(TypedDict):
    """One side of a comparison; `only` has the messages that the other side lacks."""

    name: str
    messages: int
    topics: list[str]
    mean_score: float | None
    last_score: float | None
    only: list[dict[str, Any]]
    tokens: Tokens


class Again(TypedDict):
    """The answer of another model to a replayed request; all but `model` is as in `recorded`."""

    model: str
    answer: str
    calls: list[str]
    score: float | None
    reason: str
    error: str | None


class CallSent(TypedDict):
    """One model call of a turn; `context` has the places and ids of the messages by rule."""

    branch: str
    kind: str
    score: float | None
    words: str
    context: dict[str, Any]


class Check(TypedDict):
    """One check of `unsay doctor`; `advice` is empty if nothing is to be done."""

    check: str
    status: Literal["ok", "warning", "failed"]
    found: str
    advice: str


class RatedTurn(TypedDict):
    """One line of `unsay ratings`, which `unsay calibrate` reads; `earlier` has pairs of texts."""

    thread: str
    turn: int
    message_id: str
    lang: Language
    question: str
    answer: str
    earlier: list[tuple[str, str]]
    label: Label
    note: str
    score: float | None
    source: Judge | None


class Calibrated(TypedDict):
    """The threshold of one language; `held_out` was measured on labels that it was not fitted to.

    `curve` has the same figures by threshold. `claim` says why the figures prove little, if so.
    """

    language: Language
    threshold: float
    labels: int
    held_out: dict[str, Any]
    curve: list[dict[str, Any]]
    claim: str | None


class Failure(TypedDict):
    """An error; `answer` is a model's answer that could not be saved."""

    type: str
    message: str
    answer: NotRequired[str]


class EffectiveSetting(TypedDict):
    """One setting; `variable` is the name of its environment variable."""

    name: str
    value: Any
    default: Any
    source: Source
    variable: str


THREAD: Mapping[str, Any] = {"thread_id": str}
PAGE: Mapping[str, Any] = {"cursor": str | None}


def _fields_of(kind: type) -> dict[str, Any]:
    assert is_dataclass(kind)  # noqa: S101 - the tables here name only dataclasses
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}


_EVENT: Mapping[str, Any] = {
    "event": EventKind | Literal["thread", "demo", "added", "question", "timeline", "error"],
    "text": str,
    "message_id": str | None,
    "data": dict[str, Any],
}

OBJECTS: Mapping[str, Mapping[str, Any]] = {
    **dict.fromkeys(("chat", "demo"), _EVENT),
    **{name: {**THREAD, **_fields_of(Reply)} for name in ("say", "retry", "edit")},
    "compact": {**THREAD, **_fields_of(Omission)},
    "threads": {"threads": list[ThreadInfo]},
    "timeline": {**_fields_of(TimelineData), "tokens": Usage},
    "timeline --context": {**THREAD, "turn": int, "question": str, "calls": list[CallSent]},
    "tokens": {**THREAD, **get_type_hints(Usage)},
    "checkpoints": {**THREAD, "checkpoints": list[Checkpoint]},
    **{name: {**THREAD, "checkpoint": Checkpoint} for name in ("checkpoint", "task")},
    **{
        name: {**THREAD, **_fields_of(RollbackResult)}
        for name in ("rollback", "undo", "redo", "remove", "restore", "pick")
    },
    "rollback --preview": {**THREAD, **_fields_of(Preview)},
    "fork": {**THREAD, "forked_from": str, "turns": int, "at": str},
    "branches": {**THREAD, "branches": list[Branch]},
    "diff": {**THREAD, "common": int, "a": Compared, "b": Compared},
    **{name: {**THREAD, "pins": list[Pin]} for name in ("pin", "unpin")},
    **{name: {**THREAD, "forgotten": list[Forgotten]} for name in ("forget", "forgotten")},
    "same": {**THREAD, "topic": str},
    "recall": {**THREAD, "recalled": list[Recalled]},
    "lessons": {**THREAD, "lessons": list[Lesson]},
    **{name: {**THREAD, "lesson": Lesson} for name in ("lesson", "unlearn")},
    "rate": {**THREAD, "rating": Rating},
    "ratings": get_type_hints(RatedTurn),
    "ratings --import": {**THREAD, "imported": int},
    "judge": {**THREAD, "turns": list[JudgedTurn]},
    "bisect": {**THREAD, **_fields_of(Bisection), "rolled_back": bool},
    "calibrate": {"languages": list[Calibrated], "written": str | None},
    **{name: _fields_of(ThreadInfo) for name in ("label", "end")},
    "purge": {**THREAD, **_fields_of(Purged)},
    "runs": {"runs": list[Run], **PAGE},
    "events": {**THREAD, "events": list[Event], **PAGE},
    "events --verify": {**THREAD, "verified": bool, "events": int, "messages": int},
    "replay": {
        **THREAD,
        **_fields_of(Replay),
        "messages": list[dict[str, Any]],
        "again": Again | None,
    },
    "replay --payload": {"model": str, "messages": list[dict[str, Any]]},
    "doctor": {"ok": bool, "checks": list[Check]},
    "settings": {"settings": list[EffectiveSetting]},
    "schema": {"type": Literal["object"], "properties": dict[str, Any]},
    "completion": {"shell": str, "script": str},
    "error": {"error": Failure},
}
"""The fields of each command's object; `chat`, `demo` and `ratings` print one object a line.

`error` is what any command prints if it fails.
"""

SOMETIMES: Mapping[str, Mapping[str, Any]] = {
    "chat": {**THREAD, "error": Failure},
    "threads": PAGE,
    "runs": THREAD,
}
"""Fields that only some objects of a command have: of `chat` the first, and those of errors."""

FOREIGN = frozenset({"replay --payload", "schema"})
"""Commands whose object is of another format, and may have more fields than are listed here."""


def model_of(command: str) -> type[BaseModel] | None:
    """Return a pydantic model of the object that a command prints with `--json`.

    `command` can name an option too, as the keys of `OBJECTS` do. `None` if it is not one of them.
    """
    own = OBJECTS.get(command)
    if own is None:
        return None
    # Lines of data for another command, and objects of other formats, are not versioned.
    is_versioned = command not in {"ratings", *FOREIGN}
    declared: dict[str, Any] = {"schema_version": (int, ...)} if is_versioned else {}
    declared |= {name: (kind, ...) for name, kind in own.items()}
    declared |= {name: (kind, None) for name, kind in SOMETIMES.get(command, {}).items()}
    extra: Literal["allow", "forbid"] = "allow" if command in FOREIGN else "forbid"
    configured = ConfigDict(extra=extra, arbitrary_types_allowed=True)
    return create_model(command, __config__=configured, **declared)


def schema_of(command: str) -> dict[str, Any] | None:
    """Return the JSON Schema of the object that a command prints with `--json`.

    `None` if the command is not a key of `OBJECTS`.
    """
    model = model_of(command)
    return None if model is None else model.model_json_schema(mode="serialization")
