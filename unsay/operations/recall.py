"""Recall: earlier messages are added to a context, for a question or by a person's order."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from langchain_core.messages import AnyMessage, HumanMessage

from unsay.context.plan import TokenCounter
from unsay.context.tool_results import words_of
from unsay.effects import Steps
from unsay.errors import InputError
from unsay.events import event_types
from unsay.history.recall_cache import Memory
from unsay.messages.content import preview, text_of
from unsay.operations.recall_source import RecallSource, keep_vectors, source_of
from unsay.prompts.catalogue import ENGLISH, Texts
from unsay.retrieval.excerpts import quoting, speaker
from unsay.retrieval.selection import Bars, Recalled, Recollection, recall
from unsay.retrieval.vectors import Vectors, embed
from unsay.runtime import Scope
from unsay.state import State
from unsay.tokens import counter

_T = TypeVar("_T")

# Most messages, the newest first, that are compared by their embeddings.
VECTORS = 2_000
# Estimates are raised by 1/32, so that the chosen messages rarely exceed the budget when counted.
SPARE = 32

_OPENING = "opening"
# Most new messages that one turn embeds; later turns embed the rest.
FRESH_VECTORS = 512
# Weight that the shared words of an automatic match need, as a share of a word that only it has.
# Source: own measurement, `benchmarks/retention.py`: .863 of the evidence in 1,166 tokens with the
# defaults of the settings; the bar only decides whether a question needs recall.
BAR = 0.3
# Most messages that one search by order finds, the best first.
MOST_FOUND = 20
# Most tokens of a person's matches if automatic recall is off.
ASKED_TOKENS = 4_000
# Characters of each match that a person sees.
QUOTED_CHARS = 200
# Least score of a match, as a share of that of the best one; half of it in a search by a person or
# the model. Source: own measurement.
FLOOR = 0.4
# Nothing is recalled unless the words of one match are worth this many times those of the best
# message that the context has anyway. Source: own measurement.
GAIN = 0.6


@dataclass(frozen=True, slots=True, kw_only=True)
class _Search:
    """One search: its question, the messages it may read, and the budget of what it returns."""

    source: RecallSource
    shown: Collection[str]
    question: str
    budget_tokens: int
    count: TokenCounter
    messages: Sequence[AnyMessage]
    memory: Memory

    def cost(self, messages: Sequence[AnyMessage]) -> int:
        """Return the tokens of one message that quotes all of these; 0 for none."""
        return self.count([quoting(messages, self.source.texts)]) if messages else 0

    def estimate(self, messages: Sequence[AnyMessage]) -> int:
        """Return a fast estimate of `cost`; for several messages it can be a tenth too low.

        It adds up the counts of single messages, which it keeps in `memory`. Counting each candidate
        would be slow, but the final choice must be counted.
        """
        known = self.memory.costs
        if _OPENING not in known:
            empty = HumanMessage("")
            known[_OPENING] = 2 * self.cost([empty]) - self.cost([empty, empty])
        for message in messages:
            if message.id not in known:
                known[message.id or ""] = self.cost([message]) - known[_OPENING]
        tokens = sum(known[message.id or ""] for message in messages)
        return known[_OPENING] + tokens + tokens // SPARE


def recall_for_turn(state: State, scope: Scope) -> Steps[RecallSource | None]:
    """Return where an attempt searches earlier messages; `None` if reading failed.

    Also `None` if automatic recall is off and a person has not searched.
    """
    if not (scope.settings.recall_tokens or state.get("asked_for")):
        return None
    return (yield from if_possible(source_of(state, scope), scope))


def if_possible(steps: Steps[_T], scope: Scope) -> Steps[_T | None]:
    """Return the result of a search or a part of one; `None` after an error.

    The error is streamed as `recall_failed`.
    """
    try:
        return (yield from steps)
    except Exception as error:  # noqa: BLE001 - a user's embeddings; an answer needs no recall
        scope.report_failure("recall_failed", error)
        return None


def search_transcript(
    source: RecallSource,
    shown: Collection[str],
    *,
    question: str,
    budget_tokens: int,
    asked_tokens: int = 0,
    count: TokenCounter,
) -> Steps[Recalled]:
    """Return the messages that fit a question best and that a context does not show (ids `shown`).

    Those of `source.asked_for` are taken first. A search by a person or the model also finds weak
    matches. The matches come in the transcript's order, offloaded ones without images and files.
    The result is empty if nothing fits.

    `count` counts the tokens of a quotation of the result. The limit is `budget_tokens`; messages
    of `source.asked_for` may take `asked_tokens` if that is larger.
    """
    excluded = source.hidden.union(shown)
    if source.head is None and all(message.id in excluded for message in source.live):
        return Recalled()
    messages, memory = source.indexed()
    search = _Search(
        source=source,
        shown=shown,
        question=question,
        budget_tokens=budget_tokens,
        count=count,
        messages=messages,
        memory=memory,
    )
    known = {message.id or "": message for message in (*source.deep, *messages)}
    taken: list[str] = []
    most = max(asked_tokens, budget_tokens)
    for name in source.asked_for:
        wanted = [known[each] for each in (*taken, name) if each in known]
        if name in known and name not in excluded and search.cost(wanted) <= most:
            taken.append(name)
    asked = [message for name, message in known.items() if name in taken]
    matches = Recalled()
    if question.strip() and search.cost(asked) < budget_tokens:
        matches = yield from _matching(search, asked)
    if not asked:
        return matches
    reasons = [Recollection(message=m, why="asked", words=(), score=0.0) for m in asked]
    places = {name: place for place, name in enumerate(known)}
    both = sorted(
        [*reasons, *matches.reasons], key=lambda each: places.get(each.message.id or "", -1)
    )
    return Recalled(reasons=tuple(both), tokens=search.cost([each.message for each in both]))


def _matching(search: _Search, asked: Sequence[AnyMessage]) -> Steps[Recalled]:
    """Return the messages that match the question by words or embeddings, without those in `asked`.

    `asked` are those that a person searched for: they are taken already, and use up budget. If
    the embeddings fail or cannot be compared, the error is streamed, and words alone decide.
    """
    source, scope = search.source, search.source.scope
    hidden = source.hidden.union(message.id or "" for message in asked)
    bars = Bars(floor=FLOOR / 2) if source.by_hand else Bars(floor=FLOOR, bar=BAR, gain=GAIN)
    choose = partial(
        recall,
        search.question,
        search.messages,
        budget_tokens=search.budget_tokens - search.cost(asked),
        count=search.cost,
        shown=search.shown,
        hidden=hidden,
        index=search.memory.index,
        bars=bars,
        estimate=search.estimate,
    )
    vectors = yield from _vectors(search, hidden.union(search.shown))
    try:
        return choose(vectors=vectors)
    except Exception as error:  # vectors of a user's embeddings may be anything
        if vectors is None:
            raise
        scope.report_failure("recall_failed", error)
        # Vectors of another model do not compare with these: drop them, and use words alone.
        keep_vectors(scope, {})
        return choose(vectors=None)


def _vectors(search: _Search, excluded: Collection[str]) -> Steps[Vectors | None]:
    """Return vectors of question and newest messages; `None` without embeddings or on failure."""
    scope, remembered = search.source.scope, search.memory.vectors
    embeddings = scope.services.embeddings
    if embeddings is None:
        return None
    newest = [message for message in search.messages if message.id not in excluded][-VECTORS:]
    known = {m.id or "": v for m in newest if (v := remembered.get(m.id or ""))}
    new = [m for m in newest if m.id not in known and text_of(m).strip()][-FRESH_VECTORS:]
    embedding = embed(embeddings, search.question, new, known=known)
    vectors = yield from if_possible(embedding, scope)
    if vectors is None:
        return None
    # Also those of messages that the context shows now: they are needed when it drops them.
    recent = {m.id or "" for m in search.messages[-VECTORS:]}
    others = {name: vector for name, vector in remembered.items() if name in recent}
    keep_vectors(scope, {**others, **vectors.messages})
    return vectors


@dataclass(frozen=True, slots=True, kw_only=True)
class Find:
    """One match of a person's search, with its turn's number from 1; `search_command` makes it.

    An offloaded message has no images and files.
    """

    message: AnyMessage
    turn: int
    reason: Recollection

    def __str__(self) -> str:
        return find_text(self, ENGLISH)


def search_command(state: State, scope: Scope, query: str) -> Steps[list[Find]]:
    """Return what a person's search of the whole transcript finds, in the transcript's order.

    It is at most `MOST_FOUND` matches, maybe none, and they are added to the events to log. Damaged
    segments are skipped. Raises `InputError` for an empty query.
    """
    if not query.strip():
        raise InputError("The query is empty: give words to search for")
    calibration = state.get("calibration") or counter.uncalibrated()
    source = yield from source_of(state, scope, by_hand=True)
    matches = yield from search_transcript(
        source,
        (),
        question=query,
        budget_tokens=scope.settings.recall_tokens or ASKED_TOKENS,
        count=counter.TokenCounter(calibration=calibration).count,
    )
    numbers = source.turn_numbers()
    finds = [
        Find(message=each.message, turn=numbers.get(each.message.id or "", 0), reason=each)
        for each in matches.reasons
    ]
    best = set(ids_of(finds)[:MOST_FOUND])
    chosen = [each for each in finds if each.message.id in best]
    if chosen:
        turn = state.get("turn")
        names = [each.message.id or "" for each in chosen]
        asked_by = turn["question_id"] if turn else None
        scope.step_log.later_events.append(event_types.recall(names, asked_by))
    return chosen


def ids_of(finds: Sequence[Find]) -> tuple[str, ...]:
    """Return the ids of the matches, the best first."""
    best_first = sorted(finds, key=lambda each: each.reason.score, reverse=True)
    return tuple(each.message.id or "" for each in best_first)


def finds_text(finds: Sequence[Find], query: str, texts: Texts) -> str:
    """Return the matches as text for a person: a heading and a line for each, or that there are none."""
    if not finds:
        return texts.say("recalled_none", words=preview(query))
    lines = [find_text(each, texts) for each in finds]
    return "\n".join([texts.say("recalled_list"), *lines])


def find_text(find: Find, texts: Texts) -> str:
    """Return a match as one line for a person: its turn, speaker, first words and the reason."""
    role, _, name = speaker(find.message).partition(" ")
    return texts.say(
        "recalled_line",
        turn=find.turn,
        speaker=" ".join([texts.table("speakers").get(role, role), name]).rstrip(),
        words=preview(words_of(find.message, texts), QUOTED_CHARS),
        why=texts.table("recall_reasons")[find.reason.why].format(
            words=", ".join(find.reason.words)
        ),
    )
