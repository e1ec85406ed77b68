"""A model call as its manifest tells of it, laid over the record."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from langchain_core.messages import AIMessage, AnyMessage

from unsay.context.manifest import BESIDE, SEALED, Manifest, digest_of, read_places
from unsay.tokens.pricing import Usage, usage_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What one rule did."""

    name: str
    """`sent`, `truncated`, `topic`, a strategy's own, and so on."""

    places: tuple[int, ...]
    message_ids: tuple[str, ...]
    """At those places; empty where the record has changed since."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallView:
    """One model call: what it was sent, by which rules, at what cost."""

    message_id: str | None
    attempt: int
    call: int
    model: str
    fits: bool
    """Whether the record still has what was meant, so that messages can be named."""

    sent: Rule
    rules: tuple[Rule, ...]
    """What became of the rest; those of `BESIDE` come on top, and stand last."""

    unplaced: int
    """How many messages were quoted whose places nobody knew."""

    parts: Mapping[str, int]
    """Who used the window: tokens as counted before the call, in the order of a prompt."""

    window: int
    """In tokens; 0 where nobody knew it."""

    usage: Usage | None

    @property
    def prompt(self) -> int:
        """Tokens of the prompt, as counted before the call."""
        return sum(tokens for part, tokens in self.parts.items() if part != "reply")


def read_manifest(
    message: AnyMessage, manifest: Manifest, record: Sequence[AnyMessage]
) -> CallView:
    """A call as its manifest tells of it.

    The record is whole, offloaded messages first, as it was then or longer.

    Raises:
        InputError: The manifest was changed, and names no places.
    """
    named = {name: read_places(text) for name, text in manifest["by_rule"].items()}
    named["sent"] = read_places(manifest["sent"])
    told = {place for name in named if name != SEALED for place in named[name]}
    fits = not told or max(told) <= len(record)
    ids = [record[place - 1].id or "" for place in sorted(told)] if fits else []
    fits = fits and digest_of(ids) == manifest["digest"]
    rules = [
        Rule(
            name=name,
            places=places,
            message_ids=tuple(record[place - 1].id or "" for place in places) if fits else (),
        )
        # By the first message that a rule names; those that come on top are last.
        for name, places in sorted(named.items(), key=lambda each: (each[0] in BESIDE, each[1]))
    ]
    used = message.usage_metadata if isinstance(message, AIMessage) else None
    return CallView(
        message_id=message.id,
        attempt=manifest["attempt"],
        call=manifest["call"],
        model=manifest["model"],
        fits=fits,
        sent=next(each for each in rules if each.name == "sent"),
        rules=tuple(each for each in rules if each.name != "sent"),
        unplaced=manifest.get("unplaced", 0),
        parts=manifest["parts"],
        window=manifest["window"],
        usage=usage_of(used) if used else None,
    )
