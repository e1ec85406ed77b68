"""Usage report: the parts of the context window, the tokens spent, and the budgets' use."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from langchain_core.messages import AnyMessage
from wcwidth import ljust, rjust

from unsay.budget.accounts import AccountKey
from unsay.budget.limits import Gauge, check, limits_of
from unsay.context.manifest import (
    PURPOSES,
    CallContext,
    Spent,
    Tokens,
    key_of,
    manifest_in,
    read_manifest,
    tokens_in,
    tokens_of,
)
from unsay.context.topics import current_topic_id
from unsay.effects import Steps
from unsay.history.branch import BRANCH_REFS
from unsay.llm.call import AGENT
from unsay.llm.usage_account import account_of_thread, spent_outside
from unsay.messages.content import cells_of
from unsay.prompts.catalogue import Texts, by_language
from unsay.runtime import Scope
from unsay.state import State, offloaded_of
from unsay.tokens.pricing import MICROS, Amount, Tally, merged
from unsay.transcript.live import readable_branches
from unsay.types import Language, Printed

_TEXTS = by_language()
_NOT_COUNTED = Spent(live=Tokens(), abandoned=Tokens(), is_whole=False)

# Percent from which a share is shown without a decimal.
ROUND_FROM = 9.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage(Printed):
    """A thread's newest context (`None` before a call), the tokens spent, and each budget's use.

    It prints as text in the `language` of the thread. `topic` is its current one, empty without one.
    """

    window: CallContext | None
    spent: Spent
    gauges: tuple[Gauge, ...]
    topic: str = ""
    language: Language = "en"

    def __str__(self) -> str:
        texts, label = _TEXTS[self.language], "話題" if self.language == "ja" else "Topic"
        if self.spent != _NOT_COUNTED:
            return usage_text(self, texts)
        topic = f"{label}: {self.topic}" if self.topic else ""
        budgets = _table([_gauge_row(gauge, texts) for gauge in self.gauges])
        return "\n".join(filter(None, (topic, window_head(self.window, texts), budgets)))


def status_of(state: State, scope: Scope) -> Steps[Usage]:
    """Return a thread's usage from its state; no spent tokens are added up, so nothing is loaded.

    If a budget is set, the usage account is read: `QueueFullError` if calls use it for too long,
    `DatabaseCorruptError` if it is damaged.
    """
    return (yield from _with_spent(state, scope, _NOT_COUNTED))


def _with_spent(state: State, scope: Scope, spent: Spent) -> Steps[Usage]:
    gauges = yield from _gauges(state, scope)
    return Usage(
        window=_newest_context(state),
        spent=spent,
        gauges=gauges,
        topic=state.get("current_topic", ""),
        language=scope.language(state.get("messages", [])),
    )


def _newest_context(state: State) -> CallContext | None:
    transcript, offloaded = state.get("messages", []), offloaded_of(state)
    before = offloaded["messages"] if offloaded else 0
    manifests = ((m, manifest_in(m)) for m in reversed(transcript))
    contexts = (
        read_manifest(m, manifest, transcript, before) for m, manifest in manifests if manifest
    )
    return next(contexts, None)


def current_usage(state: State, scope: Scope) -> Steps[Usage]:
    """Return the tokens of the state and its kept branches, with a bounded number of reads.

    Used by `/tokens`. `spent.is_whole` is false if some are not counted: those in offloaded
    segments, in damaged branches, and in branches that are not kept. In a fork the copied messages
    count too. Raises the errors of `usage_of`.
    """
    transcript, refs = state.get("messages", []), state.get("branches", [])
    branches = yield from readable_branches([ref["id"] for ref in refs], scope, refs)
    removed = [m for branch in branches for m in (*branch["messages"], *branch["drafts"])]
    is_whole = offloaded_of(state) is None and len(branches) == len(refs) < BRANCH_REFS
    totals = yield from usage_of(state, scope, transcript, removed)
    return replace(totals, spent=replace(totals.spent, is_whole=is_whole))


def usage_of(
    state: State, scope: Scope, live: Sequence[AnyMessage], removed: Sequence[AnyMessage]
) -> Steps[Usage]:
    """Return the use of the context window in the newest call, the tokens spent, and the budgets.

    `live` and `removed` are the messages whose tokens are counted, each message once; those of the
    turn's rejected drafts are added. The tokens of judge, summaries and titles are counted by their
    calls. `window` is `None` before the first answer. Raises `DatabaseCorruptError` if the thread's
    stored usage is damaged and, with a budget, `QueueFullError` if calls use its account for too
    long.
    """
    settings = scope.settings
    count = partial(
        tokens_of,
        prices=settings.prices,
        model=settings.model,
        fallback=settings.fallback_model,
    )
    live_keys, turn = {key_of(m) for m in live}, state.get("turn")
    rejections = turn["rejections"] if turn else []
    removed = [*removed, *(m for each in rejections for m in each["messages"])]
    tallies: dict[str, Tally] = state.get("spent", {})
    if scope.address is not None:
        tallies = merged(tallies, (yield from spent_outside(*scope.address)))
    usage_by_purpose = Spent(
        live=count(live),
        abandoned=count([m for m in removed if key_of(m) not in live_keys]),
        judging=tokens_in(tallies, "judge"),
        summaries=tokens_in(tallies, "summary"),
        titles=tokens_in(tallies, "title"),
    )
    return (yield from _with_spent(state, scope, usage_by_purpose))


def _gauges(state: State, scope: Scope) -> Steps[tuple[Gauge, ...]]:
    limits = limits_of(scope.settings)
    if not limits.is_set:
        return ()
    account = yield from account_of_thread(scope).read()
    topic = current_topic_id(state.get("segments", []))
    place = AccountKey(task_id=topic or scope.task_id, agent_id=scope.labels.get(AGENT, AGENT))
    return check(account, limits, Amount(), place=place).gauges


def usage_text(totals: Usage, texts: Texts) -> str:
    """Format all tokens as tables for a person: the context's parts, the tokens spent, the budgets."""
    budgets = [_gauge_row(gauge, texts) for gauge in totals.gauges]
    parts = [window_text(totals.window, texts), _spent_text(totals.spent, texts), _table(budgets)]
    return "\n".join(filter(None, parts))


def brief_text(totals: Usage, texts: Texts) -> str:
    """Format the tokens in two lines, the context's and the spent ones, without unused parts."""
    usage_by_purpose = totals.spent
    paid = [(name, getattr(usage_by_purpose, name).total) for name in PURPOSES]
    lines = [
        (window_head(totals.window, texts), _parts(totals.window)),
        (_spent_head(usage_by_purpose, texts), paid),
    ]
    return "\n".join(
        " · ".join([head, *(f"{texts.table('tokens_names')[k]} {v:,}" for k, v in parts if v)])
        for head, parts in lines
    )


def window_text(window: CallContext | None, texts: Texts) -> str:
    """Format a call's context: its size, then a table of its parts; `None` gives a text for unknown."""
    whole = 0 if window is None else window.window or sum(window.parts.values())
    rows = [
        (texts.table("tokens_names")[part], f"{tokens:,}", percent(tokens, whole, texts))
        for part, tokens in _parts(window)
    ]
    return "\n".join(filter(None, (window_head(window, texts), _table(rows))))


def window_head(window: CallContext | None, texts: Texts) -> str:
    """Format the size of a call's context; `None` gives a text that says it is unknown."""
    if window is None:
        return texts.say("tokens_unknown")
    token_count = sum(window.parts.values())
    if not window.window:
        return texts.say("tokens_used", used=f"{token_count:,}")
    share = percent(token_count, window.window, texts)
    return texts.say(
        "tokens_window", used=f"{token_count:,}", window=f"{window.window:,}", share=share
    )


def _spent_head(spent: Spent, texts: Texts) -> str:
    total = f"{spent.total.total:,}"
    head = texts.say("tokens_spent" if spent.is_whole else "tokens_least", total=total)
    return head + _cost(spent.total, texts)


def percent(part: int, whole: int, texts: Texts) -> str:
    """Format a share in percent, a small one with one decimal; 0 % if the whole is 0."""
    share = 100 * part / whole if whole else 0.0
    sign = "%" if texts.language == "ja" else " %"
    return f"{share:.1f}{sign}" if 0 < share < ROUND_FROM else f"{share:.0f}{sign}"


def _spent_text(spent: Spent, texts: Texts) -> str:
    rows = []
    for name in PURPOSES:
        tokens: Tokens = getattr(spent, name)
        if tokens.total or name == PURPOSES[0]:
            flow = texts.say(
                "tokens_flow",
                input=f"{tokens.input:,}",
                cached=percent(tokens.cached, tokens.input, texts),
                output=f"{tokens.output:,}",
            )
            label = texts.table("tokens_names")[name]
            rows.append((label, f"{tokens.total:,}", flow + _cost(tokens, texts)))
    return f"{_spent_head(spent, texts)}\n{_table(rows)}"


def _parts(window: CallContext | None) -> list[tuple[str, int]]:
    return [] if window is None else [(k, v) for k, v in window.parts.items() if v]


def _cost(tokens: Tokens, texts: Texts) -> str:
    return texts.say("tokens_cost", cost=f"{tokens.cost:.4f}") if tokens.micros else ""


def _gauge_row(gauge: Gauge, texts: Texts) -> tuple[str, ...]:
    is_cost = gauge.unit == "micros"
    used = f"{gauge.used / MICROS:.4f}" if is_cost else gauge.amount(gauge.used)
    share = percent(gauge.used, gauge.limit, texts)
    limit = gauge.amount(gauge.limit)
    text = texts.say("tokens_budget", used=used, limit=limit, share=share)
    if gauge.since is not None:
        text += texts.say("tokens_since", since=gauge.since[:16].replace("T", " "))
    elif not gauge.used:
        text += texts.say("tokens_not_yet")
    return texts.table("tokens_names")[gauge.layer], text


def _table(rows: Sequence[Sequence[str]]) -> str:
    """Format rows as a table; with three columns, the second one has numbers and is aligned right."""
    widths = [max(map(cells_of, column)) for column in zip(*rows, strict=True)]
    aligns = [ljust, rjust, ljust] if len(widths) > 2 else [ljust, ljust]
    lines = []
    for row in rows:
        cells = zip(aligns, row, widths, strict=True)
        lines.append("  ".join(align(cell, width) for align, cell, width in cells))
    return "\n".join(f"  {line.rstrip()}" for line in lines)
