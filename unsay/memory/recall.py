"""Recall: earlier messages are added to a context, for a question or by a person's order."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from typing import TypeVar

from langchain_core.messages import AnyMessage, ToolMessage

from unsay.context.compaction import words_of
from unsay.context.plan import TokenCounter
from unsay.context.topics import by_topic, forgotten_ids, named_ids
from unsay.effects import Steps
from unsay.errors import DatabaseCorruptError, InputError
from unsay.events import event_types
from unsay.history.threads import MEMORIES, Memory
from unsay.memory.searchable import light, page_entries, searchable, turns_of
from unsay.messages.content import preview, text_of
from unsay.prompts.catalogue import ENGLISH, Texts
from unsay.retrieval.quotation import quoting, speaker
from unsay.retrieval.selection import (
    Bars,
    Recalled,
    Recollection,
    choose,
    rarity,
)
from unsay.retrieval.terms import (
    FENCE_TOKENS,
    TEXT_LIMIT,
    Entry,
    RecallIndex,
    entry_of,
    may_have,
    part_of,
    query_of,
    with_steps,
)
from unsay.retrieval.vectors import Vectors, embed
from unsay.runtime import Scope
from unsay.state import State, offloaded_of
from unsay.storage.segment_index import IndexedSegment, indexed_segment, read_terms
from unsay.storage.segments import older_part, read_holding, read_messages, read_page
from unsay.tokens import counter
from unsay.types import Forgotten, Offloaded

# Messages, the newest, that a turn searches, rounded up to whole segments; a search by order also
# reads as many of the older ones as have its words. Source: own measurement.
SEARCHED = 2_000
# Most offloaded messages that a thread's cache keeps because a search chose them.
BODIES = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallSource:
    """The part of the transcript that one search may read, without the pending question.

    Attributes:
        live: The messages of the state.
        head: The newest offloaded segment; `None` if the state holds the whole transcript.
        pages: What a search needs of the offloaded segments, by their ids, newest first.
        forgotten: The entries of the state.
        hidden: Ids of forgotten messages, of those in `pages` too unless `by_hand`.
        asked_for: Ids of the messages that a person searched for.
        by_hand: Whether a person or the model searches; then `pages` has all segments.
    """

    scope: Scope
    texts: Texts
    live: Sequence[AnyMessage]
    head: Offloaded | None
    pages: Mapping[str, IndexedSegment]
    forgotten: Sequence[Forgotten]
    hidden: frozenset[str]
    asked_for: Sequence[str] = ()
    by_hand: bool

    def narrowed(self, question: str) -> "RecallSource":
        """Return the source for one question: of older segments only those with most of its words."""
        pages = _pages_for(question, self.pages) if self.by_hand else self.pages
        hidden = self.hidden | _hidden_offloaded(pages.values(), self.forgotten)
        return replace(self, pages=pages, hidden=hidden)

    def index(self) -> RecallIndex:
        """Return the index of these messages, and keep the entries of new ones for later searches."""
        memory = _memory(self.scope)
        live: dict[str, tuple[int, Entry]] = {}
        for message in self.live:
            name, checksum = message.id or "", hash(text_of(message)[: TEXT_LIMIT // 2])
            known = memory.live.get(name)
            is_known = known is not None and known[0] == checksum
            live[name] = known if known and is_known else (checksum, entry_of(message))
        edited = {n for n in live.keys() & memory.live.keys() if live[n][0] != memory.live[n][0]}
        counts = accumulate((page.size for page in self.pages.values()), initial=0)
        newest = {
            name: page
            for (name, page), newer in zip(self.pages.items(), counts, strict=False)
            if newer < SEARCHED
        }
        vectors = {name: each for name, each in memory.vectors.items() if name not in edited}
        _keep(self.scope, replace(memory, pages=newest, live=live, vectors=vectors))
        offloaded = (page.part for page in reversed(list(self.pages.values())))
        entries = with_steps([entry for _, entry in live.values()], self.live)
        return RecallIndex(*offloaded, part_of(entries))

    def messages(self, names: Collection[str]) -> Steps[dict[str, AnyMessage]]:
        """Read messages by their ids; those of damaged segments are left out and streamed."""
        memory = _memory(self.scope)
        found = {m.id or "": m for m in self.live if m.id in names}
        found |= {n: memory.bodies[n] for n in names if n not in found and n in memory.bodies}
        wanted: dict[str, list[Entry]] = {}
        for page_id, page in self.pages.items():
            if missing := [e for e in page.part.entries if e.key in names and e.key not in found]:
                wanted[page_id] = missing
        if not wanted or self.scope.address is None:
            return found
        bodies: dict[str, AnyMessage] = {}
        try:
            bodies = yield from self._read(wanted)
        except DatabaseCorruptError:
            for page_id, entries in wanted.items():
                try:
                    bodies |= yield from self._read({page_id: entries})
                except DatabaseCorruptError as error:
                    self.scope.emit("segment_lost", error=str(error))
        newest = [*memory.bodies.items(), *bodies.items()][-BODIES:]
        _keep(self.scope, replace(_memory(self.scope), bodies=dict(newest)))
        return {**found, **bodies}

    def _read(self, wanted: Mapping[str, Sequence[Entry]]) -> Steps[dict[str, AnyMessage]]:
        assert self.scope.address is not None  # noqa: S101 - checked by the caller
        places = {page_id: [entry.place for entry in wanted[page_id]] for page_id in wanted}
        messages = yield from read_messages(*self.scope.address, places)
        return {message.id or "": light(message) for message in messages}

    def turn_numbers(self) -> dict[str, int]:
        """Return the turn's number of each message, from 1, by message id."""
        turns = self.head["turns"] if self.head else 0
        live = turns_of(self.live, goes_on=self.head is not None)
        numbers = {m.id or "": 1 + turns + turn for m, turn in zip(self.live, live, strict=True)}
        for page in self.pages.values():
            numbers |= {entry.key: 1 + page.turns + entry.turn for entry in page.part.entries}
        return numbers


def source_of(state: State, scope: Scope, *, by_hand: bool = False) -> Steps[RecallSource]:
    """Return what a search may find: in the newest offloaded segments, or in all with `by_hand`.

    `by_hand` means that a person or the model is searching. Without it the source also has the
    messages that a person found before (`asked_for` of the state). Damaged segments are skipped and
    streamed as `segment_lost`.
    """
    head, pending = offloaded_of(state), _pending(state)
    pages = yield from _read_pages(head, scope, _memory(scope).pages, wholly=by_hand)
    live = [m for m in searchable(state["messages"]) if m.id not in pending]
    source = RecallSource(
        scope=scope,
        texts=scope.texts(state["messages"]),
        live=live if by_hand else live[-SEARCHED:],
        head=head,
        pages=pages,
        forgotten=state.get("forgotten", []),
        hidden=frozenset(hidden_ids(state)),
        asked_for=[] if by_hand else state.get("asked_for", []),
        by_hand=by_hand,
    )
    return source if by_hand else source.narrowed("")


def _pages_for(question: str, pages: Mapping[str, IndexedSegment]) -> dict[str, IndexedSegment]:
    """Return the newest segments, and of the older ones those with most of the question's words."""
    sizes = accumulate((page.size for page in pages.values()), initial=0)
    newest = {name for name, newer in zip(pages, sizes, strict=False) if newer < SEARCHED}
    scores = dict.fromkeys(pages, 0.0)
    for term, weight in query_of(question).weights.items():
        having = [name for name, page in pages.items() if may_have(page.bits, term)]
        for name in having:
            scores[name] += weight * rarity(len(having), len(pages))
    chosen, size = set(newest), 0
    for name in sorted(pages.keys() - newest, key=scores.__getitem__, reverse=True):
        if scores[name] and size < SEARCHED:
            chosen.add(name)
            size += pages[name].size
    return {name: page for name, page in pages.items() if name in chosen}


def _hidden_offloaded(pages: Iterable[IndexedSegment], forgotten: Sequence[Forgotten]) -> set[str]:
    """Return the ids of forgotten messages in `pages` and of the other messages of their steps."""
    hidden: set[str] = set()
    for page in pages if forgotten else ():
        index, names = RecallIndex(page.part), set(named_ids(forgotten))
        for entry in forgotten:
            if "topic_id" in entry:
                of_topic = [e.key for e in page.part.entries if e.topic == entry["topic_id"]]
                ends = [n for n, key in enumerate(of_topic, 1) if key in entry["message_ids"]]
                names.update(of_topic[: ends[-1] if ends else None])
        for place in index.places(names):
            hidden.update(index.entries[member].key for member in index.step_at(place))
    return hidden


def page_of_result(
    state: State, scope: Scope, tool_call_id: str
) -> Steps[tuple[Sequence[AnyMessage], Collection[str]]]:
    """Return the messages of the newest segment with a call's result, and ids of forgotten ones.

    Both are empty if no segment has the result. The tool that reads the rest of a long result uses
    them. A damaged segment is skipped; the event `segment_lost` reports it. Raises
    `DatabaseCorruptError` if the segment that may hold the result is damaged.
    """
    pages = yield from _read_pages(offloaded_of(state), scope, _memory(scope).pages, wholly=True)
    for name, page in pages.items():
        if may_have(page.bits, tool_call_id) and may_have(page.bits, tool_call_id[::-1]):
            assert scope.address is not None  # noqa: S101 - only with a store are there segments
            segment = yield from read_page(*scope.address, name)
            results = (m for m in searchable(segment.messages) if isinstance(m, ToolMessage))
            if any(result.tool_call_id == tool_call_id for result in results):
                return segment.messages, _hidden_offloaded([page], state.get("forgotten", []))
    return (), ()


def hidden_ids(state: State) -> set[str]:
    """Return the ids of forgotten messages, pending ones not included.

    Of a forgotten topic's offloaded messages only those that its entry names are included.
    """
    forgotten, segments = state.get("forgotten", []), state.get("segments", [])
    hidden = forgotten_ids(state["messages"], segments, forgotten, pending=_pending(state))
    return {*hidden, *named_ids(forgotten)}


def _pending(state: State) -> Sequence[str]:
    turn = state.get("turn")
    return turn["pending"] if turn and not turn["done"] else ()


def _memory(scope: Scope) -> Memory:
    if scope.thread_id is None:
        return Memory()
    return MEMORIES.get(scope.store or scope.services, scope.thread_id)


def _keep(scope: Scope, memory: Memory) -> None:
    if scope.thread_id is not None:
        MEMORIES.keep(scope.store or scope.services, scope.thread_id, memory)


def keep_vectors(scope: Scope, vectors: Mapping[str, Sequence[float]]) -> None:
    """Replace the thread's cached embeddings, such as with `{}` after they did not fit together."""
    _keep(scope, replace(_memory(scope), vectors=vectors))


def _read_pages(
    head: Offloaded | None, scope: Scope, known: Mapping[str, IndexedSegment], *, wholly: bool
) -> Steps[dict[str, IndexedSegment]]:
    """Return what a search needs of the segments up to `head`, by id, newest first.

    `known` ones are not read again. Unless `wholly`, only the newest are read that a turn searches.
    """
    pages: dict[str, IndexedSegment] = {}
    following: Sequence[tuple[str, int]] = [(head["page_id"], 0)] if head else []
    searched = 0
    while following and scope.address is not None and (wholly or searched < SEARCHED):
        newer = accumulate((size for _, size in following), initial=searched)
        names = [
            name
            for (name, _), before in zip(following, newer, strict=False)
            if wholly or before < SEARCHED
        ]
        missing = [name for name in names if name not in known]
        read = (yield from read_terms(*scope.address, missing)) if missing else {}
        for name in names:
            page = known.get(name) or read.get(name)
            pages[name] = page or (yield from _unindexed(name, scope))
        following = pages[names[-1]].trail
        searched = sum(page.size for page in pages.values())
    return pages


def _unindexed(page_id: str, scope: Scope) -> Steps[IndexedSegment]:
    """Return what a search needs of a segment whose index is missing or damaged.

    A damaged or missing segment is streamed as `segment_lost`, and has no messages.
    """
    assert scope.address is not None  # noqa: S101 - only with a store are there segments
    try:
        page = yield from read_page(*scope.address, page_id)
    except DatabaseCorruptError as error:
        scope.emit("segment_lost", error=str(error))
        try:
            before = yield from older_part(*scope.address, page_id)
        except DatabaseCorruptError:
            before = None
        return indexed_segment([(before["page_id"], 0)] if before else [], 0, (), ())
    grouped = by_topic(page.messages, page.segments)
    topic_ids = {m.id or "": name for name, messages in grouped.items() for m in messages}
    trail = [(page.before["page_id"], 0)] if page.before else []
    turns = page.before["turns"] if page.before else 0
    entries, call_ids = page_entries(page.messages, topic_ids, goes_on=page.before is not None)
    return indexed_segment(trail, turns, entries, call_ids)


_T = TypeVar("_T")

# Most messages, the newest first, that are compared by their embeddings.
VECTORS = 2_000
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
    index: RecallIndex

    def cost(self, messages: Sequence[AnyMessage]) -> int:
        """Return the tokens of one message that quotes all of these; 0 for none."""
        return self.count([quoting(messages, self.source.texts)]) if messages else 0

    def estimate(self, places: Sequence[int]) -> int:
        """Return a rough estimate of `cost`, for which the messages need not be read."""
        return sum(self.index.entries[place].tokens for place in places)


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
    source = source.narrowed(question) if source.by_hand else source
    index = source.index()
    search = _Search(
        source=source,
        shown=shown,
        question=question,
        budget_tokens=budget_tokens,
        count=count,
        index=index,
    )
    excluded = source.hidden.union(shown)
    messages_by_id = yield from _asked_for(source, excluded, index)
    requested: list[AnyMessage] = []
    most = max(asked_tokens, budget_tokens)
    for name in source.asked_for:
        if name in messages_by_id and search.cost([*requested, messages_by_id[name]]) <= most:
            requested.append(messages_by_id[name])
    matches = Recalled()
    if question.strip() and search.cost(requested) < budget_tokens:
        matches = yield from _matching(search, requested)
    if not requested:
        return matches
    reasons = [Recollection(message=m, why="asked", words=(), score=0.0) for m in requested]
    places = {name: place for place, name in enumerate(messages_by_id)}
    places |= {entry.key: len(places) + place for place, entry in enumerate(index.entries)}
    both = sorted([*reasons, *matches.reasons], key=lambda each: places[each.message_id])
    return Recalled(reasons=tuple(both), tokens=search.cost([each.message for each in both]))


def _asked_for(
    source: RecallSource, excluded: Collection[str], index: RecallIndex
) -> Steps[dict[str, AnyMessage]]:
    """Return the messages that a person searched for, by id, those of older segments first.

    Raises `DatabaseCorruptError` if an older segment cannot be read.
    """
    names = {name for name in source.asked_for if name not in excluded}
    if not names:
        return {}
    found = yield from source.messages(names)
    older = names - found.keys() - {entry.key for entry in index.entries}
    if not older or source.head is None or source.scope.address is None:
        return found
    holding = yield from read_holding(*source.scope.address, source.head, older)
    deep = {m.id or "": m for page in reversed(holding) for m in page.messages if m.id in older}
    return {**deep, **found}


def _matching(search: _Search, asked: Sequence[AnyMessage]) -> Steps[Recalled]:
    """Return the messages that match the question by words or embeddings, without those in `asked`.

    `asked` are those that a person searched for: they are taken already, and use up budget. If
    the embeddings fail or cannot be compared, the error is streamed, and words alone decide.
    """
    source, scope = search.source, search.source.scope
    hidden = source.hidden.union(message.id or "" for message in asked)
    bars = Bars(floor=FLOOR / 2) if source.by_hand else Bars(floor=FLOOR, bar=BAR, gain=GAIN)
    budget_tokens = search.budget_tokens - search.cost(asked)
    chosen = partial(
        choose,
        search.question,
        search.index,
        budget_tokens=budget_tokens,
        shown=search.shown,
        hidden=hidden,
        bars=bars,
        estimate=search.estimate,
    )
    vectors = yield from _vectors(search, hidden.union(search.shown))
    try:
        choice = chosen(vectors=vectors)
    except Exception as error:  # vectors of a user's embeddings may be anything
        if vectors is None:
            raise
        scope.report_failure("recall_failed", error)
        # Vectors of another model do not compare with these: drop them, and use words alone.
        keep_vectors(scope, {})
        choice = chosen(vectors=None)
    messages = yield from source.messages(choice.keys)
    return choice.fitted(messages, budget_tokens, search.cost)


def _vectors(search: _Search, excluded: Collection[str]) -> Steps[Vectors | None]:
    """Return vectors of question and newest messages; `None` without embeddings or on failure."""
    scope = search.source.scope
    remembered = _memory(scope).vectors
    embeddings = scope.services.embeddings
    if embeddings is None:
        return None
    recent_ids = {entry.key for entry in search.index.entries[-VECTORS:]}
    newest = [e for e in search.index.entries if e.key not in excluded][-VECTORS:]
    cached_vectors = {e.key: vector for e in newest if (vector := remembered.get(e.key))}
    with_text = [e.key for e in newest if e.tokens > FENCE_TOKENS]
    fresh = [name for name in with_text if name not in cached_vectors][-FRESH_VECTORS:]
    bodies = yield from search.source.messages(fresh)
    new = [bodies[name] for name in fresh if name in bodies]
    embedding = embed(embeddings, search.question, new, known=cached_vectors)
    vectors = yield from if_possible(embedding, scope)
    if vectors is None:
        return None
    # Also those of messages that the context shows now: they are needed when it drops them.
    others = {name: vector for name, vector in remembered.items() if name in recent_ids}
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
        raise InputError(code="query_empty")
    calibration = state.get("calibration") or counter.uncalibrated()
    source = yield from source_of(state, scope, by_hand=True)
    matches = yield from search_transcript(
        source,
        (),
        question=query,
        budget_tokens=scope.settings.recall_tokens or ASKED_TOKENS,
        count=counter.TokenCounter(calibration=calibration).count,
    )
    numbers = source.narrowed(query).turn_numbers()
    finds = [
        Find(message=each.message, turn=numbers.get(each.message.id or "", 0), reason=each)
        for each in matches.reasons
    ]
    best = set(ids_of(finds)[:MOST_FOUND])
    best_finds = [each for each in finds if each.message.id in best]
    if best_finds:
        turn = state.get("turn")
        names = [each.message.id or "" for each in best_finds]
        asked_by = turn["question_id"] if turn else None
        scope.step_log.later_events.append(event_types.recall(names, asked_by))
    return best_finds


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
