"""The lists that a person asks for by a typed command; they change nothing."""

from collections.abc import Callable

from unsay.effects import Steps
from unsay.history.branch import branches_beside
from unsay.memory.lessons import lessons_in
from unsay.orders.order import Show
from unsay.orders.orders import chat_help
from unsay.prompts.catalogue import Texts
from unsay.results import lists
from unsay.results.usage import current_usage, usage_text
from unsay.runtime import Scope
from unsay.state import State, StateDraft, offloaded_of
from unsay.storage.segments import offloaded_ids
from unsay.transcript.live import readable_branches
from unsay.verbs.outcome import Outcome, load

Notice = Callable[[Texts], str]


def show(order: Show, draft: StateDraft, scope: Scope) -> Steps[Outcome[None]]:
    """Show the checkpoints, the newest turns, branches, lessons, tokens and so on."""
    if order.subject == "timeline":
        yield from load(draft, scope, turns=lists.TIMELINE_TURNS)
    notice = yield from _LISTS[order.subject](order, draft.state, scope)
    return Outcome(result=None, notice=notice)


def _branches(order: Show, state: State, scope: Scope) -> Steps[Notice]:
    del order
    refs = state.get("branches", [])
    branches = yield from readable_branches([ref["id"] for ref in refs], scope, refs)
    offloaded: list[str] = []
    if scope.address is not None:
        ids = [m.id for branch in branches for m in (*branch["messages"], *branch["drafts"])]
        offloaded = yield from offloaded_ids(*scope.address, offloaded_of(state), ids)
    beside = branches_beside(state["messages"], branches, offloaded=offloaded)
    removed = list(map(lists.removed_branch, beside))
    return lambda texts: lists.branches_text(removed, texts)


def _tokens(order: Show, state: State, scope: Scope) -> Steps[Notice]:
    del order
    totals = yield from current_usage(state, scope)
    return lambda texts: usage_text(totals, texts)


def _help(order: Show, state: State, scope: Scope) -> Steps[Notice]:
    del state
    yield from ()  # only a generator is a step

    def notice(texts: Texts) -> str:
        allows = scope.settings.allows
        text = chat_help(texts.language, only=order.argument, allows=allows)
        return text or texts.say("not_in_chat", verb=order.argument.removeprefix("/"))

    return notice


def _listed(text_of_state: Callable[[State, Texts], str]) -> Callable[..., Steps[Notice]]:
    """Return a list that is made of the state alone."""

    def read(order: Show, state: State, scope: Scope) -> Steps[Notice]:
        del order, scope
        yield from ()  # only a generator is a step
        return lambda texts: text_of_state(state, texts)

    return read


_LISTS: dict[str, Callable[[Show, State, Scope], Steps[Notice]]] = {
    "timeline": _listed(lists.timeline_text),
    "branches": _branches,
    "tokens": _tokens,
    "help": _help,
    "checkpoints": _listed(
        lambda s, texts: lists.checkpoints_text(s.get("checkpoints", []), texts)
    ),
    "forgotten": _listed(lists.forgotten_text),
    "lessons": _listed(lambda s, texts: lists.lessons_text(lessons_in(s["messages"]), texts)),
}
