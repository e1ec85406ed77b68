"""Conversations that benchmarks replay turn by turn: from files, or made up."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, ToolMessage
from tokens import conversations
from traffic import WORDS, Speech

from unsay.tokens.counter import REPLY_TOKENS, TokenCounter

TOOL_EACH = 16
"""A tool is called once in this number of turns of a generated conversation."""

RESULT_WORDS = (300, 700, 2_000)
"""Lengths of its results, all equally frequent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A question, and what came of it."""

    asked: tuple[AnyMessage, ...]
    """The user's words; at least one message."""

    steps: tuple[tuple[AnyMessage, ...], ...]
    """What each request brought: the model's words, and the results of the tools it called."""


@dataclass(frozen=True, slots=True)
class Costs:
    """Counts tokens, each message once in all its requests."""

    _known: dict[tuple[str, str], int] = field(default_factory=dict)

    def count(self, messages: Sequence[BaseMessage]) -> int:
        """The tokens of a request, the sum of its messages'."""
        return REPLY_TOKENS + sum(map(self._of, messages)) if messages else 0

    def _of(self, message: BaseMessage) -> int:
        key = str(message.content), str(getattr(message, "tool_calls", ""))
        if key not in self._known:
            self._known[key] = TokenCounter().count([message]) - REPLY_TOKENS
        return self._known[key]


def read(path: Path, turns: int) -> list[Turn]:
    """The first turns of a file's conversations, one after the other as if they were one.

    Raises:
        ValueError: The format is unknown, or the file has no answers.
    """
    said = [message for each in conversations(path) for message in each]
    found = list(islice(_turns(said), turns))
    if not found:
        raise ValueError(f"{path} has no turn with an answer; see --help")
    return found


def _turns(said: Sequence[BaseMessage]) -> Iterator[Turn]:
    """The turns of messages; instructions among them, and a question at the end, are left out."""
    asked: list[AnyMessage] = []
    steps: list[tuple[AnyMessage, ...]] = []
    for place, message in enumerate(said):
        each = message.model_copy(update={"id": f"m{place}"})
        if isinstance(each, HumanMessage):
            if steps:
                yield Turn(asked=tuple(asked), steps=tuple(steps))
                asked, steps = [], []
            asked.append(each)
        elif isinstance(each, AIMessage) and asked:
            steps.append((each,))
        elif isinstance(each, ToolMessage) and steps:
            steps[-1] = (*steps[-1], each)
    if steps:
        yield Turn(asked=tuple(asked), steps=tuple(steps))


def made_up(turns: int, seed: int = 0) -> list[Turn]:
    """ThreadHandle on subjects that change and return; now and then a tool with a large result."""
    chance = random.Random(seed)
    exchanges = enumerate(Speech(seed).exchanges(turns), 1)
    return [
        Turn(
            asked=(HumanMessage(exchange.question, id=f"q{number}"),),
            steps=(
                *(
                    [_looked_up(number, exchange.question, chance)]
                    if not number % TOOL_EACH
                    else []
                ),
                (AIMessage(exchange.drafts[-1], id=f"a{number}"),),
            ),
        )
        for number, exchange in exchanges
    ]


def _looked_up(number: int, question: str, chance: random.Random) -> tuple[AnyMessage, ...]:
    """A call of a tool, and its result."""
    call = {"name": "search", "args": {"query": question[:60]}, "id": f"call-{number}"}
    found = " ".join(chance.choices(WORDS, k=chance.choice(RESULT_WORDS)))
    return (
        AIMessage("", id=f"c{number}", tool_calls=[call]),
        ToolMessage(found, id=f"r{number}", name="search", tool_call_id=f"call-{number}"),
    )
