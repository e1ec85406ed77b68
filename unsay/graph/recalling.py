"""Recall by order from outside of a run."""

from unsay.effects import Steps
from unsay.graph.talk import Talk
from unsay.nodes.recalled_by_order import Find, ids_of, recalled_by_order
from unsay.state import Update


def recall(talk: Talk, words: str) -> Steps[tuple[Find, ...]]:
    """What was said that bears on some words; the next view shows it.

    Raises:
        UnknownThreadError: Nothing was ever said in it.
        InputError: There are no words.
    """
    state, scope = (yield from talk.known()), talk.scope()
    finds = yield from recalled_by_order(state, scope, words)
    if finds:
        yield from talk.write(state, scope, Update(asked_for=list(ids_of(finds))))
    return tuple(finds)
