"""All of a thread's tokens: who uses the window, and what its lines cost."""

from unsay.conversation.thread import Talk
from unsay.effects import Steps
from unsay.events.replay import replay
from unsay.history.branch import list_cuts
from unsay.history.threads import find_session
from unsay.history.token_usage import Key, key_of
from unsay.operations.record_events import EMPTY
from unsay.operations.usage_report import Totals, gauges_of, newest_call, spent_on
from unsay.state import State
from unsay.storage.event_log import Head, read_events


def totals(talk: Talk) -> Steps[Totals]:
    """A thread's totals.

    They are added up when asked for, from the record and the cuts: a total in the state would
    have to know of every message whether it was counted, and that grows without bound. What a
    fork began with was paid for in the thread it came from.
    """
    state, scope = (yield from talk.whole()), talk.scope()
    inherited = yield from _inherited(talk, state)
    cuts = yield from list_cuts(talk.database.store, talk.thread_id)
    own = [m for m in state["messages"] if key_of(m) not in inherited]
    gone = [m for cut in cuts for m in (*cut["messages"], *cut["drafts"])]
    gone = [m for m in gone if key_of(m) not in inherited]
    spent = yield from spent_on(state, scope, own, gone)
    gauges = yield from gauges_of(state, scope)
    return Totals(window=newest_call(state["messages"]), spent=spent, gauges=gauges)


def _inherited(talk: Talk, state: State) -> Steps[set[Key]]:
    """The messages that a fork began with."""
    entry = yield from find_session(talk.database.store, talk.thread_id)
    if entry is None or entry.forked_from is None:
        return set()
    head = state.get("ledger", EMPTY)
    place = Head(page_id=head["page_id"], count=head["count"])
    events = yield from read_events(talk.database.store, talk.thread_id, place)
    return {key_of(m) for m in replay(events[:1]).messages}
