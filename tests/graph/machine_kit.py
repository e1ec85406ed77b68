"""What the machine of `machine.py` is set up with."""

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AnyMessage

from tests.graph.differential import MAX_ROLLBACKS
from tests.graph.scripted_parts import ScriptedParts
from unsay.errors import ConflictError, InputError, NotFoundError
from unsay.messages.content import text_of

KNOWN = frozenset({"R1", "S4"})
"""Where the graph does otherwise than the model, and shall.
R1: a retry answers a pending question as a separate turn, which an undo removes whole.
S4: a failed draft looks for its checkpoint in the live part alone, see decision 11."""

REFUSALS = (ConflictError, InputError, NotFoundError)
SETTINGS = {"checkpoint_on": ["score"], "max_rollbacks": MAX_ROLLBACKS}
"""Checkpoints are made by score alone."""

WINDOW = {"live_messages": 4}
"""Every other thread and its forks: all but the newest messages are in the store."""

LEADS = ("", "", "NEW: ", "BACK: ")
"""How a question begins; the detector goes by it."""

SCORES = {0.1: "A BAD", 0.6: "A MIDDLING", 0.9: "A fine"}
"""How an answer begins that gets a score; see `ScriptedParts.judge`."""

PROCESSES = 2
"""How many hold the database open at the same time."""


class Actors(ScriptedParts):
    """The people of one thread; what they are shown is kept, the judge's pages too."""

    def judge(self, messages: Any) -> Any:
        """See `ScriptedParts.judge`."""
        self.views.append(list(messages))
        return super().judge(messages)


class Script:
    """Texts and branch names, each with a unique number."""

    number: int
    names: list[str]
    heard: dict[str, set[str]]

    def _way(self, target_kind: str | None, turns: int, position: int) -> dict[str, Any]:
        """A place to go to."""
        if target_kind == "name":
            return {"to": self.names[position % len(self.names)] if self.names else "nowhere"}
        return {"turns": turns} if target_kind == "turns" else {}

    def _name(self) -> str:
        self.names.append(f"mark{len(self.names)}")
        return self.names[-1]

    def _next(self, name: str) -> int:
        self.number += 1
        self.heard[name].add(str(self.number))
        return self.number

    def _question(self, name: str, lead: str) -> str:
        return f"{lead}What of {name}, #{self._next(name)}?"

    def _answer(self, name: str, score: float) -> tuple[str, float]:
        return f"{SCORES[score]} reply #{self._next(name)}, about what was asked.", score


def roles_and_texts(messages: Sequence[AnyMessage]) -> list[tuple[str, str]]:
    """Real messages as the model tells its own."""
    return [(m.type, text_of(m)) for m in messages]
