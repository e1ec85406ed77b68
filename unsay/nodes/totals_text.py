"""A conversation's tokens in words, for people: tables whose columns stand below each other."""

from collections.abc import Mapping, Sequence

from unsay.budget.budgets import Gauge
from unsay.budget.pricing import MICROS
from unsay.context.call_view import CallView
from unsay.history.tokens import Spent, Tokens
from unsay.nodes.totals import Totals
from unsay.prompts.texts import Texts
from unsay.transcript.text import cells_of

PURPOSES = ("live", "abandoned", "judging", "summaries", "titles")
"""On what tokens are spent, as `Spent` has it."""

ROUND_FROM = 9.95
"""Percent from which on a share is shown without a digit behind the point: two are enough."""

SEPARATOR = " · "
"""Between the parts of a line."""


def totals_text(totals: Totals, texts: Texts) -> str:
    """Who uses the window, what was spent and how much of the budgets is left."""
    budgets = [_gauge_row(gauge, texts) for gauge in totals.gauges]
    parts = [window_text(totals.window, texts), _spent_text(totals.spent, texts), _table(budgets)]
    return "\n".join(filter(None, parts))


def brief_text(totals: Totals, texts: Texts) -> str:
    """The same in a line or two, without what used nothing."""
    names, spent = texts.tokens_names, totals.spent
    paid = [(name, getattr(spent, name).total) for name in PURPOSES]
    window = [window_head(totals.window, texts), *_brief(_parts(totals.window), names)]
    lines = [window, [spent_head(spent, texts), *_brief(paid, names)]]
    return "\n".join(SEPARATOR.join(line) for line in lines)


def _brief(found: Sequence[tuple[str, int]], names: Mapping[str, str]) -> list[str]:
    return [f"{names[name]} {number(tokens)}" for name, tokens in found if tokens]


def window_text(window: CallView | None, texts: Texts) -> str:
    """Who used the window at a call, part by part."""
    whole = 0 if window is None else window.window or sum(window.parts.values())
    rows = [
        (texts.tokens_names[part], number(tokens), percent(tokens, whole))
        for part, tokens in _parts(window)
    ]
    return "\n".join(filter(None, (window_head(window, texts), _table(rows))))


def window_head(window: CallView | None, texts: Texts) -> str:
    """How full the window was at a call."""
    if window is None:
        return texts.tokens_unknown
    used = sum(window.parts.values())
    if not window.window:
        return texts.tokens_used.format(used=number(used))
    share = percent(used, window.window)
    return texts.tokens_window.format(used=number(used), window=number(window.window), share=share)


def spent_head(spent: Spent, texts: Texts) -> str:
    """How much was spent in all."""
    words = texts.tokens_spent if spent.is_whole else texts.tokens_least
    return words.format(total=number(spent.total.total)) + _cost(spent.total, texts)


def flow_text(tokens: Tokens, texts: Texts) -> str:
    """What went in and out, and how much of it a provider's cache had."""
    return texts.tokens_flow.format(
        input=number(tokens.input),
        cached=percent(tokens.cached, tokens.input),
        output=number(tokens.output),
    )


def number(value: int) -> str:
    """A number with its thousands apart."""
    return f"{value:,}"


def percent(part: int, whole: int) -> str:
    """A share in percent, with a digit behind the point where it is small."""
    share = 100 * part / whole if whole else 0.0
    return f"{share:.1f} %" if 0 < share < ROUND_FROM else f"{share:.0f} %"


def _spent_text(spent: Spent, texts: Texts) -> str:
    rows = [
        (
            texts.tokens_names[name],
            number(tokens.total),
            flow_text(tokens, texts) + _cost(tokens, texts),
        )
        for name in PURPOSES
        if (tokens := getattr(spent, name)).total or name == PURPOSES[0]
    ]
    return f"{spent_head(spent, texts)}\n{_table(rows)}"


def _parts(window: CallView | None) -> list[tuple[str, int]]:
    return [] if window is None else [(k, v) for k, v in window.parts.items() if v]


def _cost(tokens: Tokens, texts: Texts) -> str:
    return texts.tokens_cost.format(cost=f"{tokens.cost:.4f}") if tokens.micros else ""


def _gauge_row(gauge: Gauge, texts: Texts) -> tuple[str, ...]:
    used, limit = number(gauge.used), number(gauge.limit)
    if gauge.unit == "micros":
        used, limit = f"{gauge.used / MICROS:.4f}", f"{gauge.limit / MICROS:g}"
    share = percent(gauge.used, gauge.limit)
    words = texts.tokens_budget.format(used=used, limit=limit, share=share)
    return texts.tokens_names[gauge.layer], words


def _table(rows: Sequence[Sequence[str]]) -> str:
    """Rows with the second of three columns, which are numbers, flush right."""
    widths = [max(map(cells_of, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  " + _row(row, widths) for row in rows)


def _row(row: Sequence[str], widths: Sequence[int]) -> str:
    spaces = [" " * (width - cells_of(cell)) for cell, width in zip(row, widths, strict=True)]
    cells = [f"{cell}{space}" for cell, space in zip(row, spaces, strict=True)]
    if len(row) > 2:
        cells[1] = f"{spaces[1]}{row[1]}"
    return "  ".join(cells).rstrip()
