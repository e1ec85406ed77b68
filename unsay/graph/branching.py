"""Other lines of a conversation: listing, comparing, and going on from one in a thread of its own."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from uuid import uuid4

from langchain_core.messages import AnyMessage

from unsay.effects import Steps
from unsay.errors import (
    ConflictError,
    UnknownBranchError,
    UnknownCheckpointError,
)
from unsay.graph.branches import LIVE, Branch, Diff, compare, first_words
from unsay.graph.opened import check_thread
from unsay.graph.restoring import CUT, find_cut
from unsay.graph.talk import Talk
from unsay.history.catalogue import THREADS, ThreadEntry, entry_of
from unsay.history.checkpoints import find_checkpoint
from unsay.history.cuts import list_cuts
from unsay.history.line import Label, Line, put_back, take_back
from unsay.history.paging import scan
from unsay.history.sessions import find_session, revise
from unsay.history.tokens import key_of, tokens_of
from unsay.nodes.booking import disown
from unsay.nodes.commands import answered_turns
from unsay.nodes.landings import landing_of, safe_base
from unsay.nodes.moves import OPERATIONS, line_of, settle, turns_left
from unsay.nodes.pinning import unsealed_pins
from unsay.state import State
from unsay.transcript.events import fork as forked
from unsay.transcript.marks import is_answer, spoken
from unsay.types import Cut, Operation

COMPARED = Label(kind="person", reason="compared", created_at="")
"""Of changes that are only looked at."""


def fork(talk: Talk, at: str | None, turns: int | None, thread: str | None) -> Steps[Talk]:
    """A thread of its own that begins as this one was at a place.

    Raises:
        ConflictError: The thread exists already.
        InvalidNameError: It cannot have that name.
        UnsayError: As a rollback to that place.
    """
    name = str(uuid4()) if thread is None else check_thread(thread)
    state = yield from talk.reading(lambda reader: reader.whole())
    line = _until(state, at, turns)
    other = replace(talk, thread_id=name, writes=True)
    yield from other.alone(_begin(talk, other, state, line))
    return other


def _until(state: State, at: str | None, turns: int | None) -> Line:
    """The line up to a place; by default all that was answered."""
    line, turn = line_of(state), state.get("turn")
    if at is not None or turns is not None:
        base = landing_of(line, at, turns)
    elif turn is not None and not turn["done"] and turn["pending"]:
        places = line.positions()
        first = min((places[name] for name in turn["pending"] if name in places), default=0)
        base = safe_base(line, line.id_at(first - 1))
    else:
        base = line.id_at(len(line.messages) - 1)
    return take_back(line, base, label=COMPARED).line


def _begin(talk: Talk, other: Talk, state: State, line: Line) -> Steps[None]:
    """Write a line as the beginning of a thread that does not exist."""
    listed = yield from find_session(talk.database.store, other.thread_id)
    there = yield from other.snapshot()
    if listed is not None or there.values:
        raise ConflictError(
            f"There is a thread {other.thread_id!r} already; give another name, or none for a new one"
        )
    unchanged = put_back(line, line.id_at(len(line.messages) - 1), [], label=COMPARED)
    update = settle(state, unchanged, [])
    update["messages"] = list(line.messages)
    update["operations"] = _steps_of(line)
    update["pins"] = unsealed_pins(state.get("pins", []))
    update["forgotten"] = list(state.get("forgotten", []))
    scope = other.scope()
    yield from disown(line.messages, scope, talk.thread_id)
    scope.journal.returned |= {m.id or "" for m in line.messages}
    scope.journal.happenings.append(
        lambda stamp: [forked(line.messages, line.checkpoints, source=talk.thread_id, stamp=stamp)]
    )
    yield from other.write(State(), scope, update)
    entry = yield from find_session(talk.database.store, talk.thread_id)
    yield from revise(
        talk.database.store,
        other.thread_id,
        now=scope.now(),
        title=entry.title if entry else "",
        turns=turns_left(line.messages),
        forked_from=talk.thread_id,
        forked_at=line.id_at(len(line.messages) - 1),
    )


def _steps_of(line: Line) -> list[Operation]:
    """A step for each turn, so that the fork's own undo takes them back one by one."""
    ends = [m.id for m in spoken(line.messages) if is_answer(m)]
    bases = [line.id_at(_before_first(line)), *ends[:-1]] if ends else []
    return [Operation(kind="turn", base=base, cuts=[]) for base in bases][-OPERATIONS:]


def _before_first(line: Line) -> int:
    """Index of the last of the system messages that lead."""
    lead = (i for i, m in enumerate(line.messages) if m.type != "system")
    return next(lead, len(line.messages)) - 1


def branches(talk: Talk) -> Steps[tuple[Branch, ...]]:
    """The live line, those that were left, the newest first, and the threads forked from it."""
    state = yield from talk.whole()
    record = state["messages"]
    cuts = yield from list_cuts(talk.database.store, talk.thread_id)
    entries = yield from scan(talk.database.store, THREADS, entry_of)
    children = [each for each in entries if each.forked_from == talk.thread_id]
    forks: tuple[Branch, ...] = ()
    for entry in children:
        forks = (*forks, (yield from _thread(talk, entry)))
    live = Branch(
        id=LIVE,
        kind=LIVE,
        base=None,
        reason="",
        created_at="",
        turns=turns_left(record),
        messages=len(spoken(record)),
        tokens=tokens_of(record),
        words=first_words(record),
    )
    return (live, *_abandoned(record, cuts), *forks)


def _abandoned(record: Sequence[AnyMessage], cuts: Sequence[Cut]) -> Iterable[Branch]:
    """The cuts that hold what is not on the record, each line once, the newest first."""
    standing = {key_of(message) for message in record}
    seen: set[tuple[object, ...]] = set()
    for cut in reversed(cuts):
        said = [*spoken(cut["messages"]), *cut["drafts"]]
        keys = tuple(key_of(message) for message in said)
        if cut["kind"] == "order" or standing.issuperset(keys) or keys in seen:
            continue
        seen.add(keys)
        yield Branch(
            id=cut["id"],
            kind=cut["kind"],
            base=cut["base"],
            reason=cut["reason"],
            created_at=cut["created_at"],
            turns=len(answered_turns(cut["messages"])),
            messages=len(said),
            tokens=tokens_of(said),
            words=first_words(said),
        )


def _thread(talk: Talk, entry: ThreadEntry) -> Steps[Branch]:
    """A thread that began as a copy of this one, by what it has said since."""
    record = (yield from _state(talk, entry.thread_id)).get("messages", [])
    places = [index for index, m in enumerate(record) if m.id == entry.forked_at]
    own = record[places[0] + 1 :] if places else record
    return Branch(
        id=entry.thread_id,
        kind="thread",
        base=entry.forked_at,
        reason=entry.title,
        created_at=entry.created_at,
        turns=turns_left(own),
        messages=len(spoken(own)),
        tokens=tokens_of(own),
        words=first_words(own),
    )


def _state(talk: Talk, thread_id: str) -> Steps[State]:
    """Another thread's state, empty where it is not there."""
    return (yield from replace(talk, thread_id=thread_id, writes=False).read())


def diff(talk: Talk, a: str, b: str) -> Steps[Diff]:
    """How two lines differ.

    Raises:
        UnknownBranchError: One of them is neither `live` nor a checkpoint, a cut or a thread.
        AmbiguousCheckpointError: Several checkpoints answer to it.
    """
    first = yield from _line(talk, a)
    second = yield from _line(talk, b)
    return compare((a, first), (b, second))


def _line(talk: Talk, name: str) -> Steps[Line]:
    """The line that a name stands for."""
    state = yield from talk.whole()
    line = line_of(state)
    if name == LIVE:
        return line
    if name.startswith(CUT):
        cuts = yield from list_cuts(talk.database.store, talk.thread_id)
        return _with_cut(line, find_cut(cuts, name), cuts)
    try:
        mark = find_checkpoint(line.checkpoints, name)
    except UnknownCheckpointError:
        return (yield from _line_of_thread(talk, name))
    return take_back(line, safe_base(line, mark["message_id"]), label=COMPARED).line


def _line_of_thread(talk: Talk, name: str) -> Steps[Line]:
    other = yield from _state(talk, name)
    if not other:
        raise UnknownBranchError(
            f"{name!r} is neither 'live' nor a checkpoint, a cut or a thread; branches() and "
            "checkpoints() list those there are"
        )
    return line_of(other)


def _with_cut(line: Line, cut: Cut, cuts: Sequence[Cut]) -> Line:
    """The line as it was with what a cut took, and the draft that it keeps."""
    there = line.positions()
    if cut["base"] is not None and cut["base"] not in there:
        holders = [c for c in cuts if any(m.id == cut["base"] for m in c["messages"])]
        others = [each for each in cuts if each["id"] != cut["id"]]
        if not holders or holders[-1]["id"] == cut["id"]:
            return replace(line, messages=(*cut["messages"], *cut["drafts"]))
        line = _with_cut(line, holders[-1], others)
    base = cut["base"] if cut["base"] is None or cut["base"] in line.positions() else None
    whole = put_back(line, base, [cut], label=COMPARED).line
    return replace(whole, messages=(*whole.messages, *cut["drafts"]))
