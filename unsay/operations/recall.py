"""Recall: earlier messages are added to a context, for a question or by a person's order."""

from array import array
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from langchain_core.messages import AnyMessage, HumanMessage

from unsay.context.plan import TokenCounter
from unsay.context.tool_results import words_of
from unsay.effects import Steps
from unsay.errors import InputError, UnsayError
from unsay.history.recall_cache import Memory
from unsay.messages.content import preview
from unsay.operations.recall_source import RecallSource, keep_vectors, source_of
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
class _Search:
    """One search: the question, the indexed messages, and the limits."""

    question: str
    source: RecallSource
    messages: Sequence[AnyMessage]
    memory: Memory
    shown: Collection[str]
    hidden: frozenset[str]
    budget_tokens: int
    cost: TokenCounter

    def about(self, messages: Sequence[AnyMessage]) -> int:
        """Estimate what quoting messages costs from the cost of quoting each."""
        known = self.memory.costs
        if _OPENING not in known:
            empty = HumanMessage("")
            known[_OPENING] = 2 * self.cost([empty]) - self.cost([empty, empty])
        for message in messages:
            if message.id not in known:
                known[message.id or ""] = self.cost([message]) - known[_OPENING]
        each = sum(known[message.id or ""] for message in messages)
        return known[_OPENING] + each + each // SPARE


def recallable(state: State, scope: Scope) -> Steps[RecallSource | None]:
    """Read what the contexts of an attempt may recall; `None` recalls nothing. A turn never fails for it."""
    settings = scope.settings
    if not (settings.recall_tokens and settings.recall_share):
        return None
    try:
        return (yield from source_of(state, scope))
    except Exception as error:  # noqa: BLE001 - a context without what was recalled is still a context
        scope.tell("recall_failed", error=f"{type(error).__name__}: {error}")
        return None


def recalled(
    source: RecallSource | None,
    shown: Collection[str],
    *,
    question: str,
    budget_tokens: int,
    count: TokenCounter,
) -> Steps[Recalled]:
    """Search what one context leaves out, see `looked_up`; a turn never fails for it."""
    if source is None or budget_tokens <= 0:
        return Recalled()
    try:
        return (
            yield from looked_up(
                source, shown, question=question, budget_tokens=budget_tokens, count=count
            )
        )
    except Exception as error:  # noqa: BLE001 - a context without what was recalled is still a context
        source.scope.tell("recall_failed", error=f"{type(error).__name__}: {error}")
        return Recalled()


def looked_up(
    source: RecallSource,
    shown: Collection[str],
    *,
    question: str,
    budget_tokens: int,
    count: TokenCounter,
) -> Steps[Recalled]:
    """Search the messages that a context does not show; by hand, weak matches are found as well.

    `budget_tokens` is what quoting the matches may cost. They come in the transcript's order,
    offloaded ones without their images and files.
    """
    out = source.hidden.union(shown)
    if source.head is None and all(message.id in out for message in source.live):
        return Recalled()
    messages, memory = source.indexed()

    def cost(messages: Sequence[AnyMessage]) -> int:
        return count([quoting(messages, source.texts)]) if messages else 0

    asked = _asked_for(source, messages, out, budget_tokens, cost)
    found = Recalled()
    if question.strip():
        hidden = source.hidden.union(message.id or "" for message in asked)
        search = _Search(
            question=question,
            source=source,
            messages=messages,
            memory=memory,
            shown=shown,
            hidden=hidden,
            budget_tokens=max(0, budget_tokens - cost(asked)),
            cost=cost,
        )
        found = yield from _matching(search)
    if not asked:
        return found
    places = {message.id: place for place, message in enumerate(messages)}
    reasons = [Recollection(message_id=m.id or "", why="asked", words=(), score=0.0) for m in asked]
    both = [*zip(asked, reasons, strict=True), *zip(found.messages, found.reasons, strict=True)]
    both.sort(key=lambda each: places.get(each[0].id, -1))
    chosen = tuple(message for message, _ in both)
    return Recalled(
        messages=chosen, reasons=tuple(reason for _, reason in both), tokens=cost(chosen)
    )


def _asked_for(
    source: RecallSource,
    messages: Sequence[AnyMessage],
    out: Collection[str],
    budget: int,
    cost: TokenCounter,
) -> list[AnyMessage]:
    """The messages that a person asked for, as far as they fit, oldest first."""
    known = {message.id or "": message for message in (*source.deep, *messages)}
    taken: list[AnyMessage] = []
    for name in source.asked_for:
        if name in known and name not in out and cost([*taken, known[name]]) <= budget:
            taken.append(known[name])
    places = {name: place for place, name in enumerate(known)}
    return sorted(taken, key=lambda message: places[message.id or ""])


def _matching(search: _Search) -> Steps[Recalled]:
    """The messages that match a question by words and, with embeddings, by meaning."""
    scope, settings = search.source.scope, search.source.scope.settings
    bars = Bars(floor=settings.recall_floor)
    if not search.source.by_hand:
        bars = replace(bars, bar=BAR, gain=settings.recall_gain)

    def chosen(vectors: Vectors | None) -> Recalled:
        return recall(
            search.question,
            search.messages,
            budget_tokens=search.budget_tokens,
            count=search.cost,
            shown=search.shown,
            hidden=search.hidden,
            index=search.memory.index,
            vectors=vectors,
            bars=bars,
            about=search.about,
        )

    vectors = yield from _vectors(search)
    try:
        return chosen(vectors)
    except UnsayError as error:
        if vectors is None:
            raise
        scope.tell("recall_failed", error=str(error))
        keep_vectors(scope, {})
        return chosen(None)


def _vectors(search: _Search) -> Steps[Vectors | None]:
    """Embed a question and the newest messages; `None` searches by words alone."""
    scope = search.source.scope
    embeddings = scope.services.embeddings
    if embeddings is None:
        return None
    out, remembered = search.hidden.union(search.shown), search.memory.vectors
    newest = [message for message in search.messages if message.id not in out][-VECTORS:]
    known = {m.id or "": v for m in newest if (v := remembered.get(m.id or ""))}
    new = [message for message in newest if message.id not in known][-FRESH_VECTORS:]
    timeout = scope.settings.model_timeout_seconds
    try:
        found = yield from embed(
            embeddings, search.question, new, known=known, timeout_seconds=timeout
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


MOST_FOUND = 20
"""How many messages an order finds at most, the best."""

QUOTED_CHARS = 200
"""How many characters of each message a person is shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Find:
    """One message that was recalled by order."""

    message: AnyMessage
    """Of the transcript; an offloaded one without its images and files."""

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
    source = yield from source_of(state, scope, by_hand=True)
    found = yield from looked_up(
        source,
        (),
        question=words,
        budget_tokens=scope.settings.recall_tokens or 4_000,
        count=counter.TokenCounter(calibration=calibration).count,
    )
    numbers = source.turn_numbers()
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
