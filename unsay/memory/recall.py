"""Recall: earlier messages are added to a context, for a question or by a person's order."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import accumulate, chain
from typing import Any, TypeVar

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from unsay.context.compaction import words_of
from unsay.context.plan import TokenCounter
from unsay.context.topics import forgotten_ids, named_ids, topic_starts
from unsay.effects import Steps
from unsay.errors import DatabaseCorruptError, InputError
from unsay.events import event_types
from unsay.history.threads import MEMORIES, CachedPage, Memory
from unsay.messages.annotations import annotate, answers_by_turn, is_irrelevant, spoken
from unsay.messages.content import CALL_TYPES, blocks_of, calls_of, is_thinking, preview, text_of
from unsay.prompts.catalogue import ENGLISH, Texts
from unsay.retrieval.selection import (
    LACKING,
    Bars,
    Recalled,
    Recollection,
    is_quoting,
    quoting,
    recall,
    speaker,
)
from unsay.retrieval.terms import TEXT_LIMIT
from unsay.retrieval.vectors import Vectors, embed
from unsay.runtime import Scope
from unsay.state import State, offloaded_of
from unsay.storage.pages import older_part, read_back, read_page
from unsay.tokens import counter
from unsay.types import Forgotten, Offloaded, Segment

# Most messages, roughly, that one turn reads and indexes; later turns read more. Source: own
# measurement, 0.1 s.
INDEXED_AT_ONCE = 1_600
# Most segments that one turn reads, also if they are small.
PAGES_AT_ONCE = 64
# Messages, the newest, that a turn searches, rounded up to whole segments; a search by order has no
# limit. Source: own measurement, about 12 ms at 2,000 and 20 ms at 10,000.
SEARCHED = 2_000
# Longest field of a content block, in characters; a longer one is the data of an image or a file.
SMALL = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallSource:
    """The part of the transcript that one search may read, without the pending question.

    Attributes:
        live: The messages of the state.
        head: The newest offloaded segment; `None` if the state holds the whole transcript.
        pages: The offloaded segments by their ids, newest first, without images and files.
        hidden: Ids of forgotten messages.
        asked_for: Ids of the messages that a person searched for.
        deep: The messages of `asked_for` that are in segments not read, oldest first.
        by_hand: Whether a person or the model searches; then all segments are read.
    """

    scope: Scope
    texts: Texts
    live: Sequence[AnyMessage]
    head: Offloaded | None
    pages: Mapping[str, CachedPage]
    hidden: frozenset[str]
    asked_for: Sequence[str] = ()
    deep: Sequence[AnyMessage] = ()
    by_hand: bool

    @property
    def messages(self) -> list[AnyMessage]:
        """The messages that were read, oldest first."""
        pages = reversed(list(self.pages.values()))
        return [*(message for page in pages for message in page.messages), *self.live]

    def indexed(self) -> tuple[list[AnyMessage], Memory]:
        """Index the messages that were read, and keep the thread's new cache in memory for later searches.

        Return the messages that are in the index, and that cache. Unless a person or the model
        searches, at most `INDEXED_AT_ONCE` new messages are read into the index; then the oldest
        messages are missing in it.
        """
        messages, cache = self.messages, _memory(self.scope)
        new = [page.messages for name, page in self.pages.items() if name not in cache.pages]
        prints = {
            message.id or "": hash(text_of(message)[: TEXT_LIMIT // 2])
            for message in chain(*new, self.live)
        }
        edited = {name for name, each in prints.items() if cache.prints.get(name, each) != each}
        pages = self.pages.items()
        counts = accumulate((len(page.messages) for _, page in pages), initial=0)
        large = len(cache.prints) > SEARCHED + len(messages)
        # Without its print, a later edit of a message would not be noticed: so the index forgets too.
        if edited or large:
            cache.index.forget(edited)
        memory = Memory(
            pages={
                n: page for (n, page), newer in zip(pages, counts, strict=False) if newer < SEARCHED
            },
            index=cache.index.covering(messages, unread=None if self.by_hand else INDEXED_AT_ONCE),
            prints=prints if large else {**cache.prints, **prints},
            vectors={name: each for name, each in cache.vectors.items() if name not in edited},
            costs={} if edited or large else cache.costs,
        )
        _keep(self.scope, memory)
        return messages[len(messages) - len(memory.index) :], memory

    def turn_numbers(self) -> dict[str, int]:
        """Return the turn's number of each message that was read, from 1, by message id."""
        end = list(self.pages.values())[-1].before if self.pages else self.head
        numbers, number = {}, 1 + (end["turns"] if end else 0)
        turns = answers_by_turn(self.messages, goes_on=number > 1)
        ends = {answers[-1].id for answers in turns}
        for message in self.messages:
            numbers[message.id or ""] = number
            number += message.id in ends
        return numbers


def source_of(state: State, scope: Scope, *, by_hand: bool = False) -> Steps[RecallSource]:
    """Read what a search may find: the newest offloaded segments, or all of them with `by_hand`.

    `by_hand` means that a person or the model is searching. Without it the source also has the
    messages that a person found before (`asked_for` of the state), and `DatabaseCorruptError` is
    raised if the segment of one cannot be read. All other damaged segments are skipped and streamed
    as `segment_lost`.
    """
    head, forgotten, pending = offloaded_of(state), state.get("forgotten", []), _pending(state)
    pages = yield from _read_pages(head, scope, _memory(scope).pages, wholly=by_hand)
    source = RecallSource(
        scope=scope,
        texts=scope.texts(state["messages"]),
        live=[
            m for m in _searchable(state["messages"]) if m.id not in pending and m.type != "system"
        ],
        head=head,
        pages=pages,
        hidden=frozenset(hidden_ids(state) | _hidden_offloaded(pages, forgotten)),
        by_hand=by_hand,
    )
    requested_ids = (
        [] if by_hand else [n for n in state.get("asked_for", []) if n not in source.hidden]
    )
    if not requested_ids:
        return source
    indexed_ids = {message.id for message in source.indexed()[0]}
    deep: list[AnyMessage] = []
    missing = [name for name in requested_ids if name not in indexed_ids]
    if missing and head is not None and scope.address is not None:
        holding = yield from read_back(*scope.address, head, missing)
        deep = [m for page in reversed(holding) for m in page.messages if m.id in missing]
    return replace(source, asked_for=requested_ids, deep=deep)


def _hidden_offloaded(pages: Mapping[str, CachedPage], forgotten: Sequence[Forgotten]) -> set[str]:
    """Return the ids of forgotten messages in `pages`; a topic may go on from one page to the next."""
    hidden: set[str] = set()
    topic: str | None = None
    for page in reversed(list(pages.values())) if forgotten else ():
        starts, segments = {each["start"] for each in page.segments}, list(page.segments)
        if topic is not None and page.messages and page.messages[0].id not in starts:
            segments.insert(0, Segment(topic_id=topic, start=page.messages[0].id or ""))
        hidden |= forgotten_ids(page.messages, segments, forgotten)
        topic = segments[-1]["topic_id"] if segments else topic
    return hidden


def page_of_result(state: State, scope: Scope, tool_call_id: str) -> Steps[tuple[AnyMessage, ...]]:
    """Return the messages of the newest segment that holds a call's result; empty if none does.

    The tool that reads the rest of a long result uses it. A damaged segment is skipped; the event
    `segment_lost` reports it. Raises `DatabaseCorruptError` if the segment that holds the result was
    damaged after this process had read it.
    """
    cached_pages, head = _memory(scope).pages, offloaded_of(state)
    while head is not None and scope.address is not None:
        name = head["page_id"]
        page = cached_pages.get(name) or (yield from _cached_page(name, scope))
        results = (m.tool_call_id for m in page.messages if isinstance(m, ToolMessage))
        if tool_call_id in results:
            return (yield from read_page(*scope.address, name)).messages
        head = page.before
    return ()


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
    head: Offloaded | None, scope: Scope, known: Mapping[str, CachedPage], *, wholly: bool
) -> Steps[dict[str, CachedPage]]:
    """Return the segments up to `head`, by id, newest first; `known` ones are not read again.

    Unless `wholly`, only as many are read as one turn may read.
    """
    pages: dict[str, CachedPage] = {}
    messages, fresh, page_count = 0, 0, 0
    while head is not None and scope.address is not None:
        name = head["page_id"]
        page = known.get(name)
        if page is None:
            if not wholly and (
                messages >= SEARCHED or fresh >= INDEXED_AT_ONCE or page_count >= PAGES_AT_ONCE
            ):
                break
            page = yield from _cached_page(name, scope)
            fresh, page_count = fresh + len(page.messages), page_count + 1
        pages[name] = page
        messages += len(page.messages)
        head = page.before
    return pages


def _cached_page(page_id: str, scope: Scope) -> Steps[CachedPage]:
    """Read a segment for the cache, without images, files and system messages.

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
        return CachedPage(before=before, messages=())
    searchable = [each for each in _searchable(page.messages) if each.type != "system"]
    dropped = {m.id or "" for m in page.messages} - {m.id or "" for m in searchable}
    segments, _ = topic_starts(page.messages, page.segments, (), dropped)
    return CachedPage(
        before=page.before, messages=tuple(map(_light, searchable)), segments=tuple(segments)
    )


def _searchable(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """Return the messages that recall may find.

    Notices, commands and irrelevant documents are left out, and so are the calls and results of the
    recall tool, which repeat messages.
    """
    conversation = [m for m in spoken(messages) if m.type == "tool" or not is_irrelevant(m)]
    results = (m for m in conversation if isinstance(m, ToolMessage))
    quoting = {m.tool_call_id for m in results if is_quoting(m) or is_irrelevant(m)}
    return [
        m
        for m in conversation
        if quoting.isdisjoint(_call_ids(m)) or (m.type == "ai" and text_of(m).strip())
    ]


def _call_ids(message: AnyMessage) -> list[str]:
    if isinstance(message, ToolMessage):
        return [message.tool_call_id]
    return [call.id for call in calls_of(message)]


def _light(message: AnyMessage) -> AnyMessage:
    """Return a message without images, files, thinking and usage, and with a long text shortened."""
    content = message.content
    update: dict[str, Any] = {"additional_kwargs": {}, "response_metadata": {}}
    update["content"] = _indexed_part(content) if isinstance(content, str) else _blocks(message)
    if isinstance(message, AIMessage):
        calls = [asdict(call) | {"type": "tool_call"} for call in calls_of(message)]
        update |= {"tool_calls": calls, "usage_metadata": None}
    light = message.model_copy(update=update)
    lacking = len(text_of(message)) - len(text_of(light))
    return annotate(light, **{LACKING: lacking}) if lacking else light


def _blocks(message: AnyMessage) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    for block in blocks_of(message):
        if block.get("type") == "text":
            blocks.append({"type": "text", "text": _indexed_part(str(block.get("text", "")))})
        elif not is_thinking(block) and block.get("type") not in CALL_TYPES:
            small = (e for e in block.items() if e[1] is None or len(str(e[1])) <= SMALL)
            blocks.append(dict(small))
    return blocks


def _indexed_part(text: str) -> str:
    half = TEXT_LIMIT // 2
    return text if len(text) <= TEXT_LIMIT else f"{text[:half]}\n[…]\n{text[-half:]}"


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
        cost_by_id = self.memory.costs
        if _OPENING not in cost_by_id:
            empty = HumanMessage("")
            cost_by_id[_OPENING] = 2 * self.cost([empty]) - self.cost([empty, empty])
        for message in messages:
            if message.id not in cost_by_id:
                cost_by_id[message.id or ""] = self.cost([message]) - cost_by_id[_OPENING]
        tokens = sum(cost_by_id[message.id or ""] for message in messages)
        return cost_by_id[_OPENING] + tokens + tokens // SPARE


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
    messages_by_id = {message.id or "": message for message in (*source.deep, *messages)}
    requested_ids: list[str] = []
    most = max(asked_tokens, budget_tokens)
    for name in source.asked_for:
        candidates = [
            messages_by_id[each] for each in (*requested_ids, name) if each in messages_by_id
        ]
        if name in messages_by_id and name not in excluded and search.cost(candidates) <= most:
            requested_ids.append(name)
    requested_messages = [
        message for name, message in messages_by_id.items() if name in requested_ids
    ]
    matches = Recalled()
    if question.strip() and search.cost(requested_messages) < budget_tokens:
        matches = yield from _matching(search, requested_messages)
    if not requested_messages:
        return matches
    reasons = [
        Recollection(message=m, why="asked", words=(), score=0.0) for m in requested_messages
    ]
    places = {name: place for place, name in enumerate(messages_by_id)}
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
    cached_vectors = {m.id or "": v for m in newest if (v := remembered.get(m.id or ""))}
    new = [m for m in newest if m.id not in cached_vectors and text_of(m).strip()][-FRESH_VECTORS:]
    embedding = embed(embeddings, search.question, new, known=cached_vectors)
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
    numbers = source.turn_numbers()
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
