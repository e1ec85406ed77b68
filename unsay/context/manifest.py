"""What one model call was sent, told message by message in a few hundred bytes.

A manifest is plain JSON and stands in the mark of the message that the call
returned, where no provider sees it. It names messages by their places on the
record; a digest of their ids tells whether they still stand there.
"""

import json
import re
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NotRequired, TypedDict, TypeVar, cast

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage

from unsay.context.compaction import is_summary
from unsay.context.plan import Omission, TokenCounter
from unsay.context.tool_results import shortened
from unsay.errors import InputError
from unsay.messages.annotations import mark_of, spoken, with_mark
from unsay.messages.content import has_other_content, text_of
from unsay.messages.truncation import REASON, cut, is_omission
from unsay.tokens.pricing import Usage, usage_of

READABLE_CHARS = 64
"""Up to this length places are written as ranges; past it, as bits where those are shorter."""

MOST = 10_000_000
"""More places than any record has: who writes of more was not `write_places`."""

_RANGES = re.compile(r"(\d+(-\d+)?)(,\d+(-\d+)?)*", re.ASCII)
_BITS = re.compile(r"(\d+):([A-Za-z0-9_-]+)", re.ASCII)


def write_places(places: Collection[int]) -> str:
    """Places, from 1, as ranges; where they are many and scattered, as the bits of a number.

    >>> write_places([1, 2, 3, 190, 212, 211])
    '1-3,190,211-212'
    """
    ranges = write_ranges(places)
    if len(ranges) <= READABLE_CHARS:
        return ranges
    first = min(places)
    number = sum(1 << (place - first) for place in set(places))
    data = zlib.compress(number.to_bytes((number.bit_length() + 7) // 8, "little"), 9, -15)
    bits = f"{first}:{urlsafe_b64encode(data).decode('ascii').rstrip('=')}"
    return min(ranges, bits, key=len)


def write_ranges(places: Collection[int]) -> str:
    """Places as ranges, however many.

    >>> write_ranges({7, 9, 8, 1})
    '1,7-9'
    """
    rows: list[list[int]] = []
    for place in sorted(places):
        if rows and place <= rows[-1][1] + 1:
            rows[-1][1] = place
        else:
            rows.append([place, place])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in rows)


def read_places(text: str) -> tuple[int, ...]:
    """What `write_places` wrote, ascending.

    Raises:
        InputError: It is nothing that it writes.

    >>> read_places("1-3,190")
    (1, 2, 3, 190)
    """
    if bits := _BITS.fullmatch(text):
        first, data = int(bits[1]), bits[2]
        try:
            packed = urlsafe_b64decode(data + "=" * (-len(data) % 4))
            unpacked = zlib.decompressobj(-15).decompress(packed, MOST // 8)
        except (ValueError, zlib.error) as error:
            raise InputError(f"{data!r} holds no places: it was not packed here") from error
        return tuple(
            first + bit for bit in range(8 * len(unpacked)) if unpacked[bit // 8] >> bit % 8 & 1
        )
    if text and not _RANGES.fullmatch(text):
        raise InputError(f"{text!r} names no places: write them as '1-3,190'")
    ends = [each.partition("-") for each in text.split(",") if each]
    rows = [range(int(first), int(last or first) + 1) for first, _, last in ends]
    if sum(map(len, rows)) > MOST:
        raise InputError(f"{text!r} names more places than {MOST}, which no record has")
    return tuple(place for row in rows for place in row)


M = TypeVar("M", bound=BaseMessage)

NOTE = "manifest"
"""What a manifest is called among the notes of a mark."""

RECALLED = "recalled"
"""Kind of a view's message that quotes what was recalled, and the rule of what it quotes."""

BESIDE = ("summarized", RECALLED, "pinned")
"""Rules that say more of messages which were sent, or stand under another rule, as well."""

SEALED = "sealed"
"""Rule of messages that the state let go of, and that no view needed."""

MODEL_CHARS = 64
"""Longest name of a model that is kept."""


class Manifest(TypedDict):
    """Which messages of the record a call was sent, and what became of the others.

    Each place, from 1, sealed ones counted, is in `sent`, which means word for word, or under one
    rule; the rules of `BESIDE` come on top. `unplaced` counts messages that were quoted and whose
    places nobody knew. `parts` are tokens as counted before the call, `reply` the most that the
    answer might take; `window` is 0 where nobody knew it. `question` and `digest` are of ids.
    """

    sent: str
    by_rule: dict[str, str]
    unplaced: NotRequired[int]
    parts: dict[str, int]
    window: int
    question: str
    digest: str
    attempt: int
    call: int
    model: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What one call asked of a model.

    `view` is what was planned, summaries and quotes still in messages of their own; `sent`
    what the provider got of it. `call` counts the attempt's calls, from 1.
    """

    record: Sequence[AnyMessage]
    """As far as the state holds it, the pending question last."""

    view: Sequence[AnyMessage]
    sent: Sequence[AnyMessage]
    question_id: str | None
    attempt: int
    call: int
    model: str
    left_out: Sequence[Omission] = ()
    """By which rules; of two that name one message the first counts."""

    pins: Collection[str] = frozenset()
    recalled: Collection[str] = frozenset()
    """Ids of the messages that the view quotes."""

    before: int = 0
    """How many messages are sealed."""

    sealed_places: Mapping[str, int] = field(default_factory=dict)
    """Places, from 1, of sealed messages that the view shows or quotes, by id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What the call was expected to take of the window, in tokens; 0 is no known window.

    `tools`, their schemas, and `summary`, in the system message, are part of the `prompt`.
    """

    prompt: int
    tools: int = 0
    summary: int = 0
    reply: int = 0
    window: int = 0


def manifest_of(asked: Asked, room: Room, count: TokenCounter) -> Manifest:
    """The manifest of a call; only its small parts are counted."""
    own = {m.id or "": place for place, m in enumerate(asked.record, start=asked.before + 1)}
    places = {**asked.sealed_places, **own}
    rules = _rules(asked, places)
    by_place = {place: message_id for message_id, place in places.items()}
    told = {place for rule in rules if rule != SEALED for place in rules[rule]}
    unplaced = len(set(asked.recalled).difference(by_place.values()))
    manifest = Manifest(
        sent=write_places(rules.pop("sent", [])),
        by_rule={rule: write_places(places) for rule, places in rules.items() if places},
        parts=parts_of(asked.view, room, count),
        window=room.window,
        question=digest_of([asked.question_id or ""]),
        digest=digest_of(by_place[place] for place in sorted(told)),
        attempt=asked.attempt,
        call=asked.call,
        model=cut(asked.model, MODEL_CHARS),
    )
    return {**manifest, "unplaced": unplaced} if unplaced else manifest


def with_manifest(message: M, manifest: Manifest) -> M:
    """A copy of what a call returned that carries the call's manifest, as one compact text."""
    text = json.dumps(manifest, ensure_ascii=False, separators=(",", ":"))
    return with_mark(message, **{NOTE: text})


def manifest_in(message: AnyMessage) -> Manifest | None:
    """The manifest of the call that returned a message; `None` where it has none."""
    found = mark_of(message).get(NOTE)
    return cast("Manifest", json.loads(found)) if isinstance(found, str) else None


def parts_of(view: Sequence[AnyMessage], room: Room, count: TokenCounter) -> dict[str, int]:
    """Who uses the window: tokens of each part that has any, in the order of a prompt."""
    apart: dict[str, list[AnyMessage]] = {
        "system": [m for m in view if m.type == "system" and not is_summary(m)],
        "summary": [m for m in view if is_summary(m)],
        RECALLED: [m for m in view if mark_of(m).get("kind") == RECALLED],
    }
    own = {part: count(messages) if messages else 0 for part, messages in apart.items()}
    rest = max(0, room.prompt - room.tools - sum(own.values()))
    parts = {
        "system": max(0, own["system"] - room.summary),
        "tools": room.tools,
        "summary": own["summary"] + room.summary,
        "recents": rest,
        RECALLED: own[RECALLED],
        "reply": room.reply,
    }
    return {part: tokens for part, tokens in parts.items() if tokens}


def digest_of(ids: Collection[str] | Iterator[str]) -> str:
    """Eight digits that tell whether ids are the same, in the same order."""
    return f"{zlib.crc32(chr(0).join(ids).encode('utf-8', 'surrogatepass')):08x}"


def _rules(asked: Asked, places: Mapping[str, int]) -> dict[str, list[int]]:
    fates = _fates(asked)
    rules: dict[str, list[int]] = {}
    for message_id, rule in fates.items():
        rules.setdefault(rule, []).append(places[message_id])
    told = {places[message_id] for message_id in fates}
    rules[SEALED] = [each for each in range(1, asked.before + 1) if each not in told]
    with_summary = (each for each in asked.left_out if each.summary)
    summarized = {i for each in with_summary for i in each.message_ids if fates.get(i) == each.why}
    beside = zip(BESIDE, (summarized, asked.recalled, asked.pins), strict=True)
    return {**rules, **{rule: [places[i] for i in ids if i in places] for rule, ids in beside}}


def _fates(asked: Asked) -> dict[str, str]:
    """What became of each message: `sent`, or the rule that left it out or changed it."""
    why = {name: each.why for each in reversed(asked.left_out) for name in each.message_ids}
    shown = {m.id or "": m for m in asked.view}
    went = {m.id or "": m for m in asked.sent}
    talk = {m.id for m in spoken(asked.record)}
    head = "\n".join(text_of(m) for m in asked.sent if m.type == "system")
    fates = {i: _shown_as(shown[i], went.get(i)) for i in asked.sealed_places if i in shown}
    for message in asked.record:
        name = message.id or ""
        if name in shown:
            fates[name] = _shown_as(shown[name], went.get(name))
        elif message.type == "system":
            fates[name] = "sent" if text_of(message).strip() in head else "unsendable"
        else:
            fates[name] = why.get(name, "other" if name in talk else "notice")
    return fates


def _shown_as(planned: AnyMessage, went: AnyMessage | None) -> str:
    """How a message of the view reached the provider; one that was joined to another did."""
    if went is not None and is_omission(text_of(went)) and not is_omission(text_of(planned)):
        return REASON
    calls = isinstance(planned, AIMessage) and planned.tool_calls
    full = calls or text_of(planned).strip() or has_other_content(planned)
    if went is not None or (planned.type != "tool" and full):
        return shortened(planned) or "sent"
    return "unsendable"


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
    """One model call: what it was sent, by which rules, at what cost; see `Manifest`."""

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
    parts: Mapping[str, int]

    window: int
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
    rules: list[Rule] = []
    # By the first message that a rule names; those that come on top are last.
    for name, places in sorted(named.items(), key=lambda each: (each[0] in BESIDE, each[1])):
        ids = [record[place - 1].id or "" for place in places] if fits else []
        rules.append(Rule(name=name, places=places, message_ids=tuple(ids)))
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
