"""What the lines of a conversation cost."""

from unsay.effects import Steps
from unsay.graph.talk import Talk
from unsay.graph.tokens import Key, Spent, key_of, tokens_of
from unsay.history.cuts import list_cuts
from unsay.history.runlog import Head, read_events
from unsay.history.sessions import find_session
from unsay.nodes.logbook import EMPTY
from unsay.state import State
from unsay.transcript.replay import replay


def spent(talk: Talk) -> Steps[Spent]:
    """What the thread cost.

    It is added up when asked for, from the record and the cuts: a total in the state would have
    to know of every message whether it was counted, and that grows without bound. What a fork
    began with was paid for in the thread it came from.
    """
    state = yield from talk.whole()
    inherited = yield from _inherited(talk, state)
    cuts = yield from list_cuts(talk.database.store, talk.thread_id)
    live = [m for m in state["messages"] if key_of(m) not in inherited]
    standing = {key_of(m) for m in live} | inherited
    gone = [m for cut in cuts for m in (*cut["messages"], *cut["drafts"])]
    return Spent(
        live=tokens_of(live),
        abandoned=tokens_of(m for m in gone if key_of(m) not in standing),
    )


def _inherited(talk: Talk, state: State) -> Steps[set[Key]]:
    """The messages that a fork began with."""
    entry = yield from find_session(talk.database.store, talk.thread_id)
    if entry is None or entry.forked_from is None:
        return set()
    head = state.get("ledger", EMPTY)
    place = Head(page_id=head["page_id"], count=head["count"])
    events = yield from read_events(talk.database.store, talk.thread_id, place)
    return {key_of(m) for m in replay(events[:1]).messages}
