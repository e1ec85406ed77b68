"""What one step did, kept until the ledger and the state are told."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from unsay.budget.tally import Tally
from unsay.history.line import Change
from unsay.transcript.events import Stamp
from unsay.types import Event, Owed

Happening = Callable[[Stamp], Sequence[Event]]
"""Makes the events of one thing that happened, once their place in the ledger is known."""


@dataclass(slots=True)
class Journal:
    """What one step did, in order."""

    happenings: list[Happening] = field(default_factory=list)
    """What the ledger must tell of the record that the step began with."""

    afterwards: list[Happening] = field(default_factory=list)
    """What it must tell once the step's own messages are on the record."""

    returned: set[str] = field(default_factory=set)
    """Ids of messages that the step put back: the ledger has their words."""

    changes: list[Change] = field(default_factory=list)
    """What the step did to the record: calls of tools may have to be taken back for it."""

    owed: list[Owed] = field(default_factory=list)
    """The calls that the step took off the record or put back, once they are in their journal."""

    spent: dict[str, Tally] = field(default_factory=dict)
    """By purpose what the step's calls beside the answer used."""
