"""The model calls of a turn: what each was sent, by which rules, at what cost."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from langchain_core.messages import AnyMessage

from unsay.context.manifest import digest_of, manifest_in
from unsay.context.model_call import CallView, Rule, read_manifest
from unsay.conversation.branching import LIVE
from unsay.conversation.thread import Talk
from unsay.conversation.timeline import asked_turn
from unsay.effects import Steps
from unsay.errors import UnknownViewError
from unsay.history.branch import list_cuts
from unsay.history.token_usage import Key, key_of
from unsay.messages.annotations import mark_of
from unsay.messages.content import preview, text_of
from unsay.state import State
from unsay.types import Cut

PENDING = "pending"
"""Where a draft stands that a person has not decided about yet."""


SHOWN_CHARS = 60
"""How much of an answer a list shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnCall:
    """One model call of a turn."""

    stands: str
    """Where what it returned is now: `live`, a cut's id, or `pending`."""

    kind: str
    """Who or what took it back, as of a branch; `live` where nobody did."""

    score: float | None
    """Of the answer, from 0 to 1; `None` for unscored, and for a step that called tools."""

    words: str
    """The beginning of what it returned; empty where that called tools only."""

    view: CallView


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnCalls:
    """All model calls of a turn that are kept, in the order in which they were made."""

    turn: int
    question: str
    calls: tuple[TurnCall, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON: places as lists."""
        calls = [{**asdict(each), "view": _view_dict(each.view)} for each in self.calls]
        return {"turn": self.turn, "question": self.question, "calls": calls}


def view(talk: Talk, turn: int | None = None, *, attempt: int | None = None) -> Steps[TurnCalls]:
    """Return what the model was sent in a turn, call by call, rejected drafts included.

    Args:
        talk: The thread.
        turn: The turn's number; `None` is the last turn.
        attempt: Only the calls of this attempt, from 1.

    Raises:
        NothingToUndoError: There is no such turn.
        UnknownViewError: Nothing is kept of it, because a host or an older version answered.
    """
    state = yield from talk.whole()
    asked = asked_turn(talk.timeline_now(state).turns, turn)
    cuts = yield from list_cuts(talk.database.store, talk.thread_id)
    calls = _calls(state, cuts, asked.question_id or "")
    found = [each for each in calls if attempt in (None, each.view.attempt)]
    if not found:
        raise UnknownViewError(_missing(asked.number, attempt, calls))
    return TurnCalls(turn=asked.number, question=asked.question, calls=tuple(found))


def _missing(turn: int, attempt: int | None, calls: Sequence[TurnCall]) -> str:
    if calls:
        known = sorted({each.view.attempt for each in calls})
        return f"Turn {turn!r} has no attempt {attempt!r}; there are {known!r}"
    return (
        f"What the model was sent in turn {turn!r} is not kept: a host or an older version "
        "answered it; `replay` plans its request anew"
    )


def _calls(state: State, cuts: Sequence[Cut], question_id: str) -> list[TurnCall]:
    """The calls that answered a question; what stands in two places is told where it is live."""
    question, record = digest_of([question_id]), state["messages"]
    found: dict[Key, TurnCall] = {}
    for stands, kind, messages, cut in _places(state, cuts):
        told = ((message, manifest_in(message)) for message in messages)
        asked = [(m, made) for m, made in told if made and made["question"] == question]
        line = record if cut is None or not asked else _as_it_was(record, cut, cuts)
        for message, manifest in asked:
            found.setdefault(
                key_of(message),
                TurnCall(
                    stands=stands,
                    kind=kind,
                    score=mark_of(message).get("score"),
                    words=preview(text_of(message), SHOWN_CHARS),
                    view=read_manifest(message, manifest, line),
                ),
            )
    return sorted(found.values(), key=lambda each: (each.view.attempt, each.view.call))


_Place = tuple[str, str, Sequence[AnyMessage], Cut | None]


def _places(state: State, cuts: Sequence[Cut]) -> Iterable[_Place]:
    """Where messages stand, what took them there, and the cut that holds them."""
    yield LIVE, LIVE, state["messages"], None
    for cut in cuts:
        yield cut["id"], cut["kind"], [*cut["messages"], *cut["drafts"]], cut
    turn = state.get("turn")
    drafts = [m for each in (turn["rejections"] if turn else ()) for m in each["messages"]]
    yield PENDING, "draft", drafts, None


def _as_it_was(record: Sequence[AnyMessage], cut: Cut, cuts: Sequence[Cut]) -> Sequence[AnyMessage]:
    """The record with what a cut took in its place again, and what stands there now behind it."""
    places = {message.id: index for index, message in enumerate(record)}
    if cut["base"] is not None and cut["base"] not in places:
        others = [each for each in cuts if each["id"] != cut["id"]]
        holders = [c for c in others if any(m.id == cut["base"] for m in c["messages"])]
        if not holders:
            return record
        record = _as_it_was(record, holders[-1], others)
        places = {message.id: index for index, message in enumerate(record)}
    start = places.get(cut["base"], -1) + 1
    back = {message.id for message in cut["messages"]}
    behind = [message for message in record[start:] if message.id not in back]
    return [*record[:start], *cut["messages"], *behind]


def _view_dict(seen: CallView) -> dict[str, Any]:
    rules = {each.name: _rule_dict(each) for each in (seen.sent, *seen.rules)}
    return {**asdict(seen), "sent": rules.pop("sent"), "rules": rules}


def _rule_dict(rule: Rule) -> Mapping[str, Any]:
    return {"places": list(rule.places), "message_ids": list(rule.message_ids)}
