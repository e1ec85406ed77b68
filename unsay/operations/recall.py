"""Recall: earlier messages are added to a context, for a question or by a person's order."""

from array import array
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from langchain_core.messages import AnyMessage, HumanMessage

from unsay.context.plan import TokenCounter
from unsay.context.tool_results import words_of
from unsay.effects import Steps
from unsay.errors import InputError, UnsayError
from unsay.messages.content import preview
from unsay.operations.recall_source import (
    Recollected,
    hidden_ids,
    keep_vectors,
    recollect,
    turn_numbers,
    words_for,
)
from unsay.operations.record_events import log_recall
from unsay.prompts.fields import Texts
from unsay.retrieval.excerpts import quoting, speaker
from unsay.retrieval.selection import Bars, Recalled, Recollection, recall
from unsay.retrieval.vectors import Vectors, embed
from unsay.runtime import Scope
from unsay.state import State
from unsay.tokens import counter

VECTORS = 2_000
"""How many of the newest messages that a context leaves out are compared by meaning."""

SPARE = 32
"""An estimate is 1/32 too high, so that its messages rarely have to be counted twice."""

_OPENING = "opening"

FRESH_VECTORS = 512
"""How many new messages a turn embeds at most; later turns embed the rest."""


BAR = 0.5
"""Where nobody asked for a message it must have words that are worth this share of one that it has
alone. Source: own measurement: kept 0.65 of the evidence as without, with two thirds of the tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """One search: the question, the messages, and the limits."""

    question: str
    said: Recollected
    shown: frozenset[str]
    hidden: frozenset[str]
    bars: Bars
    budget: int
    cost: TokenCounter

    def about(self, messages: Sequence[AnyMessage]) -> int:
        """Estimate what quoting messages costs from the cost of quoting each."""
        known, opening = self.said.memory.costs, self._opening
        for message in messages:
            if message.id not in known:
                known[message.id or ""] = self.cost([message]) - opening
        each = sum(known[message.id or ""] for message in messages)
        return opening + each + each // SPARE

    @property
    def _opening(self) -> int:
        known = self.said.memory.costs
        if _OPENING not in known:
            empty = HumanMessage("")
            known[_OPENING] = 2 * self.cost([empty]) - self.cost([empty, empty])
        return known[_OPENING]


def recalled(
    state: State,
    scope: Scope,
    shown: Collection[str],
    *,
    question: str,
    budget_tokens: int,
    count: TokenCounter,
    forgotten: Collection[str] = (),
) -> Steps[Recalled]:
    """What one view shows again of what it leaves out; a turn never fails for it.

    Args:
        state: With the question under way.
        scope: Of the run.
        shown: Ids of the messages that the view shows whole.
        question: The words that are asked.
        budget_tokens: What `excerpts.quoting` it may cost.
        count: Of the chat model.
        forgotten: Ids of messages that a person wants left out.

    Returns:
        In the record's order; messages that are sealed come without their images and files.
    """
    if budget_tokens <= 0:
        return Recalled()
    try:
        return (
            yield from looked_up(
                state,
                scope,
                shown,
                question=question,
                budget_tokens=budget_tokens,
                count=count,
                forgotten=forgotten,
            )
        )
    except Exception as error:  # noqa: BLE001 - a view without what was recalled is still a view
        scope.tell("recall_failed", error=f"{type(error).__name__}: {error}")
        return Recalled()


def looked_up(
    state: State,
    scope: Scope,
    shown: Collection[str],
    *,
    question: str,
    budget_tokens: int,
    count: TokenCounter,
    forgotten: Collection[str] = (),
    by_hand: bool = False,
) -> Steps[Recalled]:
    """Search the messages that a context leaves out.

    Args:
        state: As it is.
        scope: Of the run or the verb.
        shown: Ids of messages that the context includes.
        question: What to search for.
        budget_tokens: What quoting the matches may cost.
        count: Of the chat model.
        forgotten: Ids of messages that must not be found.
        by_hand: Whether a person asked for it: then the whole transcript is searched, however long
            that takes, and weak matches are found as well.

    Returns:
        In the transcript's order; offloaded messages come without their images and files.

    Raises:
        StorageError: The transcript cannot be read.
    """
    texts = scope.texts(state["messages"])
    hidden = set(forgotten)
    said = yield from recollect(state, scope, shown=hidden.union(shown), wholly=by_hand)
    if not said.messages and said.head is None:
        return Recalled()
    hidden |= said.forgotten(state.get("forgotten", []))
    wanted = [each for each in state.get("asked_for", []) if each not in hidden.union(shown)]

    def cost(messages: Sequence[AnyMessage]) -> int:
        return count([quoting(messages, texts)]) if messages else 0

    asked = yield from _asked_for(said, scope, wanted, budget_tokens, cost)
    found = Recalled()
    if question.strip():
        hidden |= {message.id or "" for message in asked}
        look = _Look(
            question=question,
            said=said,
            shown=frozenset(shown),
            hidden=frozenset(hidden),
            bars=_bars(scope, by_hand=by_hand),
            budget=max(0, budget_tokens - cost(asked)),
            cost=cost,
        )
        found = yield from _bearing(look, scope)
    return _joined(asked, found, said, cost)


def _bars(scope: Scope, *, by_hand: bool) -> Bars:
    settings = scope.settings
    if by_hand:
        return Bars(floor=settings.recall_floor)
    return Bars(floor=settings.recall_floor, bar=BAR, gain=settings.recall_gain)


def _asked_for(
    said: Recollected,
    scope: Scope,
    wanted: Sequence[str],
    budget: int,
    cost: TokenCounter,
) -> Steps[list[AnyMessage]]:
    """The messages that a person asked for, as far as they fit."""
    if not wanted:
        return []
    known = {message.id or "": message for message in said.messages}
    missing = [name for name in wanted if name not in known]
    deep = yield from words_for(said.head, scope, missing)
    known.update({message.id or "": message for message in deep})
    taken: list[AnyMessage] = []
    for name in wanted:
        if name in known and cost([*taken, known[name]]) <= budget:
            taken.append(known[name])
    places = {message.id: place for place, message in enumerate((*deep, *said.messages))}
    return sorted(taken, key=lambda message: places[message.id])


def _bearing(look: _Look, scope: Scope) -> Steps[Recalled]:
    """The messages that match a question by words and, with embeddings, by meaning."""
    vectors = yield from _vectors(look, scope)
    try:
        return recall(
            look.question,
            look.said.messages,
            budget_tokens=look.budget,
            count=look.cost,
            shown=look.shown,
            hidden=look.hidden,
            index=look.said.memory.index,
            vectors=vectors,
            bars=look.bars,
            about=look.about,
        )
    except UnsayError as error:
        if vectors is None:
            raise
        scope.tell("recall_failed", error=str(error))
        keep_vectors(scope, {})
        alone = replace(scope, services=replace(scope.services, embeddings=None))
        return (yield from _bearing(look, alone))


def _vectors(look: _Look, scope: Scope) -> Steps[Vectors | None]:
    """Embeddings of the question and the newest messages; `None` searches by words alone."""
    embeddings = scope.services.embeddings
    if embeddings is None:
        return None
    out, remembered = look.shown | look.hidden, look.said.memory.vectors
    newest = [each for each in look.said.messages if each.id not in out][-VECTORS:]
    known = {m.id or "": v for m in newest if (v := remembered.get(m.id or ""))}
    new = [message for message in newest if message.id not in known][-FRESH_VECTORS:]
    timeout = scope.settings.model_timeout_seconds
    try:
        found = yield from embed(
            embeddings, look.question, new, known=known, timeout_seconds=timeout
        )
    except Exception as error:  # noqa: BLE001 - a user's own code may raise anything; words remain
        scope.tell("recall_failed", error=f"{type(error).__name__}: {error}")
        return None
    packed = {
        name: each if isinstance(each, array) else array("d", each)
        for name, each in found.messages.items()
    }
    keep_vectors(scope, packed)
    return replace(found, messages=packed)


def _joined(
    asked: Sequence[AnyMessage], found: Recalled, said: Recollected, cost: TokenCounter
) -> Recalled:
    if not asked:
        return found
    places = {message.id: place for place, message in enumerate(said.messages)}
    reasons = [Recollection(message_id=m.id or "", why="asked", words=(), score=0.0) for m in asked]
    both = [*zip(asked, reasons, strict=True), *zip(found.messages, found.reasons, strict=True)]
    both.sort(key=lambda each: places.get(each[0].id, -1))
    messages = tuple(message for message, _ in both)
    return Recalled(
        messages=messages, reasons=tuple(reason for _, reason in both), tokens=cost(messages)
    )


MOST_FOUND = 20
"""How many messages an order finds at most, the best."""

QUOTED_CHARS = 200
"""How many characters of each message a person is shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Find:
    """One message that was recalled by order."""

    message: AnyMessage
    """Of the record; one that is sealed without its images and files."""

    turn: int
    reason: Recollection


def recalled_by_order(state: State, scope: Scope, words: str) -> Steps[list[Find]]:
    """Search the whole transcript; matches come in its order, and the event log records them.

    Raises:
        InputError: There are no words.
        StorageError: The record cannot be read.
    """
    if not words.strip():
        raise InputError("There are no words to look for: write some that it may have")
    calibration = state.get("calibration") or counter.uncalibrated()
    found = yield from looked_up(
        {**state, "asked_for": []},
        scope,
        (),
        question=words,
        budget_tokens=scope.settings.recall_tokens or 4_000,
        count=counter.TokenCounter(calibration=calibration).count,
        forgotten=hidden_ids(state),
        by_hand=True,
    )
    numbers = yield from turn_numbers(state, scope)
    finds = [
        Find(message=each, turn=numbers.get(each.id or "", 0), reason=reason)
        for each, reason in zip(found.messages, found.reasons, strict=True)
    ]
    best = {each.message.id for each in _best_first(finds)[:MOST_FOUND]}
    chosen = [each for each in finds if each.message.id in best]
    if chosen:
        turn = state.get("turn")
        names = [each.message.id or "" for each in chosen]
        log_recall(scope, names, turn["question_id"] if turn else None)
    return chosen


def ids_of(finds: Sequence[Find]) -> tuple[str, ...]:
    """Return the ids of the matches, the best first."""
    return tuple(each.message.id or "" for each in _best_first(finds))


def _best_first(finds: Sequence[Find]) -> list[Find]:
    return sorted(finds, key=lambda each: each.reason.score, reverse=True)


def finds_text(finds: Sequence[Find], words: str, texts: Texts) -> str:
    """Return the matches as text for a person."""
    if not finds:
        return texts.recalled_none.format(words=preview(words))
    lines = [
        texts.recalled_line.format(
            turn=each.turn,
            speaker=speaker(each.message),
            words=preview(words_of(each.message, texts), QUOTED_CHARS),
            why=why_text(each.reason, texts),
        )
        for each in finds
    ]
    return "\n".join([texts.recalled_list, *lines])


def why_text(reason: Recollection, texts: Texts) -> str:
    """Return in words why a message was recalled."""
    return texts.recall_reasons[reason.why].format(words=", ".join(reason.words))
