"""The strategy that leaves out nothing."""

from dataclasses import dataclass

from unsay.context.base import PerTurn
from unsay.context.situation import Plan, Situation


@dataclass(frozen=True, slots=True, kw_only=True)
class Null:
    """Shows everything; an overflow is the caller's to deal with.

    Source:
        strands-agents, `NullConversationManager`.
    """

    per_turn: PerTurn = False
    """Of no consequence here."""

    def plan(self, now: Situation) -> Plan:
        """The view as it is."""
        return now.keep()

    def reduce(self, now: Situation) -> Plan:
        """The view as it is."""
        return now.keep()
