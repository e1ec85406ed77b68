"""Measure what a provider's prompt cache can serve: `python benchmarks/prefix.py [FILE…] [--turns N]`.

Replays a long conversation turn by turn and builds every request: by the product's default, by each
strategy alone, and by the rules of other libraries. A FILE holds conversations as those of
`tokens.py`; they are joined into one. Without a FILE the conversation is generated (`traffic.py`):
topics change and return, and every 16th turn has a large tool result. The product's own detector
finds the topics; labels are not used. No turn is rolled back. One short line of instructions comes
before the conversation, and no tool schemas: with longer ones all shares are higher.

A cache can serve the longest prefix that a request shares with an earlier request of the same
conversation: whole messages, and the first words of the message in which they differ. A cache serves
a multiple of 128 tokens, and nothing under 1,024. Source: OpenAI's cookbook, Prompt Caching 201. A
provider forgets after minutes; the figures do not include that.

- `cacheable_share`: of all prompt tokens, the share that the cache could have served; the product's
  default, `TopicScoped(within=ThreeStage())`.
- `cost_per_turn`: tokens a turn, where one from the cache costs a tenth. Source: Anthropic's price
  list, cache reads at 0.1 of the input price.
- `prompt_tokens_per_turn`: the same where the cache costs as much as the rest.
- the same with a rule's name behind it: `with_recall` is the default with what is recalled before
  each question, which no cache can know; `null` (only as far as it fits the window), `sliding`,
  `summarizing`, `three_stage`, `by_turns` are our strategies without topics;
  `last_tokens`, `last_turns`, `summary_of_older`, `cleared_results`, `primers_and_recents` are
  others' rules, see `peers.py`.

Items are requests.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, takewhile
from pathlib import Path
from typing import Protocol

from langchain_core.messages import AnyMessage, SystemMessage, convert_to_openai_messages
from peers import ClearedResults, LastTokens, LastTurns, PrimersAndRecents, SummaryOfOlder
from replays import Costs, Turn, made_up, read
from report import Figure, Figures, overall, plain
from views import SYSTEM, Views

from unsay.context.strategy import Null, Strategy
from unsay.context.summarizing import ByTurns, Summarizing
from unsay.context.topics import TopicScoped
from unsay.context.windows import SlidingWindow, ThreeStage

TURNS = 500
WINDOW = 32_000

LEAST_TOKENS = 1_024
"""Fewer are not cached. Source: OpenAI's cookbook, Prompt Caching 201."""

BLOCK_TOKENS = 128
"""Cached tokens come in blocks of this size. Source: OpenAI's cookbook, Prompt Caching 201."""

CACHED_PRICE = 0.1
"""Of a token from the cache, beside 1 of any other. Source: Anthropic's price list."""

TRIGGER = 0.75
"""Share of the window at which others' rules begin where they name no share: `ThreeStage`'s own."""

FIGURES = ("cacheable_share", "cost_per_turn", "prompt_tokens_per_turn")

DEFAULT = "default"

COUNT = Costs().count


class View(Protocol):
    """A rule of somebody else."""

    def view(self, said: Sequence[AnyMessage]) -> Sequence[AnyMessage]:
        """Return the messages that are sent."""
        ...


@dataclass(slots=True)
class Cache:
    """What a provider could have kept of one conversation."""

    requests: int = 0
    """How many were sent."""

    tokens: int = 0
    """All that they cost."""

    served: int = 0
    """How many of them came from the cache."""

    turns: int = 0
    """How many turns they make up."""

    _seen: dict[int, set[str]] = field(default_factory=dict)
    """By the beginning of a request, the messages that followed it."""

    @property
    def share(self) -> float | None:
        """What the cache served of all tokens; `None` where nothing was sent."""
        return self.served / self.tokens if self.tokens else None

    def per_turn(self, price: float) -> float | None:
        """Tokens a turn, those from the cache at this price."""
        paid = self.tokens - self.served * (1 - price)
        return paid / self.turns if self.turns else None

    def take(self, request: Sequence[AnyMessage]) -> None:
        """Send a request, and keep it."""
        sent = [json.dumps(each) for each in convert_to_openai_messages(list(request))]
        beginnings = list(accumulate(sent, _with, initial=0))
        known = self._known(request, sent, beginnings)
        self.requests += 1
        self.tokens += COUNT(request)
        self.served += 0 if known < LEAST_TOKENS else known // BLOCK_TOKENS * BLOCK_TOKENS
        for beginning, each in zip(beginnings, sent, strict=False):
            self._seen.setdefault(beginning, set()).add(each)

    def _known(
        self, request: Sequence[AnyMessage], sent: Sequence[str], beginnings: Sequence[int]
    ) -> int:
        """How many tokens of a request's beginning were sent before."""
        pairs = zip(beginnings, sent, strict=False)
        whole = sum(1 for _ in takewhile(lambda each: each[1] in self._after(each[0]), pairs))
        tokens = COUNT(request[:whole])
        if whole == len(sent):
            return tokens
        others = self._after(beginnings[whole])
        shared = max((_shared(sent[whole], each) for each in others), default=0)
        return tokens + COUNT(request[whole : whole + 1]) * shared // len(sent[whole])

    def _after(self, beginning: int) -> set[str]:
        return self._seen.get(beginning, set())


def _shared(one: str, other: str) -> int:
    """How many characters two texts have in common at their beginning."""
    alike = takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
    return sum(1 for _ in alike)


def _with(beginning: int, message: str) -> int:
    return hash((beginning, message))


def strategies(window: int) -> dict[str, Strategy]:
    """Ours, each by itself and with its defaults."""
    return {
        "null": Null(),
        "sliding": SlidingWindow(),
        "summarizing": Summarizing(),
        "three_stage": ThreeStage(),
        "by_turns": ByTurns(compress_at_tokens=int(TRIGGER * window), keep_turns=12),
    }


def peers(window: int) -> dict[str, View]:
    """Others' rules at a budget."""
    count, tokens = COUNT, int(TRIGGER * window)
    return {
        "last_tokens": LastTokens(count=count, tokens=tokens),
        "last_turns": LastTurns(),
        "summary_of_older": SummaryOfOlder(count=count, window=window),
        "cleared_results": ClearedResults(count=count, tokens=tokens),
        "primers_and_recents": PrimersAndRecents(count=count, tokens=tokens),
    }


def replay(turns: Sequence[Turn], window: int) -> dict[str, Cache]:
    """Send a conversation's requests by every rule."""
    default = TopicScoped(within=ThreeStage())
    caches = {
        DEFAULT: _ours(turns, default, window, with_topics=True),
        "with_recall": _ours(turns, default, window, with_topics=True, with_recall=True),
    }
    for name, strategy in strategies(window).items():
        caches[name] = _ours(turns, strategy, window)
    for name, peer in peers(window).items():
        caches[name] = _theirs(turns, peer)
    return caches


def _ours(
    turns: Sequence[Turn],
    strategy: Strategy,
    window: int,
    *,
    with_topics: bool = False,
    with_recall: bool = False,
) -> Cache:
    """Send what the product would send, until a request is larger than the window."""
    cache = Cache()
    views = Views(
        strategy=strategy,
        window=window,
        count=COUNT,
        with_topics=with_topics,
        with_recall=with_recall,
    )
    requests = (
        (number, each) for number, turn in enumerate(turns, 1) for each in views.requests(turn)
    )
    for number, request in requests:
        if COUNT(request) > window:
            break
        cache.take(request)
        cache.turns = number
    return cache


def _theirs(turns: Sequence[Turn], peer: View) -> Cache:
    """Send what another library would send."""
    cache, said = Cache(), []
    for number, turn in enumerate(turns, 1):
        said += turn.asked
        for step in turn.steps:
            cache.take([SystemMessage(SYSTEM), *peer.view(said)])
            said += step
        cache.turns = number
    return cache


def measure(turns: Sequence[Turn], window: int = WINDOW) -> dict[str, Figure]:
    """Give the figures of one conversation."""
    found = {}
    for name, cache in replay(turns, window).items():
        behind = "" if name == DEFAULT else f"_{name}"
        values = (cache.share, cache.per_turn(CACHED_PRICE), cache.per_turn(1))
        for figure, value in zip(FIGURES, values, strict=True):
            found[f"{figure}{behind}"] = Figure(value=value, items=cache.requests)
    return found


def table(rows: Mapping[str, Figures]) -> str:
    """Give the figures as a table for people: a line for each rule of each file."""
    lines = [f"{'':<24}{'from cache':>12}{'cost a turn':>13}{'tokens a turn':>15}{'requests':>10}"]
    for name, figures in rows.items():
        lines.append(name)
        for rule in (key.removeprefix(FIGURES[0]) for key in figures if key.startswith(FIGURES[0])):
            share, cost, tokens = (figures[f"{figure}{rule}"] for figure in FIGURES)
            lines.append(
                f"  {rule.removeprefix('_') or DEFAULT:<22}{_cell(share, 3):>12}"
                f"{_cell(cost, 0):>13}{_cell(tokens, 0):>15}{share.items:>10}"
            )
    return "\n".join(lines)


def _cell(figure: Figure, places: int) -> str:
    return "-" if figure.value is None else f"{figure.value:,.{places}f}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what the command line names and print; give the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE")
    parser.add_argument("--turns", type=int, default=TURNS, help="how many at most")
    parser.add_argument("--window", type=int, default=WINDOW, help="in tokens")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(arguments)
    try:
        talks = {str(path): read(path, options.turns) for path in options.files}
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    talks = talks or {"made up": made_up(options.turns)}
    rows = {name: measure(turns, options.window) for name, turns in talks.items()}
    total = overall(rows.values())
    if options.json:
        by_file = {name: plain(figures) for name, figures in rows.items()}
        print(json.dumps({**plain(total), "files": by_file}, ensure_ascii=False))
    else:
        print(table(rows if len(rows) == 1 else {**rows, "overall": total}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
