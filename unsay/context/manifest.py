"""The manifest of a model call: which messages it was sent, and what became of the others.

A manifest is a few hundred bytes of JSON in the annotations of the message that the call returned,
where no provider sees it. It refers to messages by their places in the transcript; a checksum of
their ids shows whether they are still there.
"""

import json
import re
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NotRequired, TypedDict, TypeVar, cast

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage

from unsay.context.compaction import is_summary
from unsay.context.plan import Omission, TokenCounter
from unsay.context.tool_results import shortened
from unsay.errors import InputError
from unsay.messages.annotations import annotate, annotation_of, spoken
from unsay.messages.content import has_other_content, text_of
from unsay.messages.truncation import REASON, clip, is_omission
from unsay.tokens.pricing import Usage, usage_of

READABLE_CHARS = 64  # longest list of ranges that is never replaced by bits
MAX_PLACES = 10_000_000  # more places than any transcript has

_RANGES = re.compile(r"(\d+(-\d+)?)(,\d+(-\d+)?)*", re.ASCII)
_BITS = re.compile(r"(\d+):([A-Za-z0-9_-]+)", re.ASCII)


def write_places(places: Collection[int]) -> str:
    """Return places, from 1, as ranges; many scattered ones as compressed bits.

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
    """Return places as ranges.

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
    """Return the places that `write_places` wrote, ascending.

    Raises:
        InputError: The text has another format.

    >>> read_places("1-3,190")
    (1, 2, 3, 190)
    """
    if bits := _BITS.fullmatch(text):
        first, data = int(bits[1]), bits[2]
        try:
            packed = urlsafe_b64decode(data + "=" * (-len(data) % 4))
            unpacked = zlib.decompressobj(-15).decompress(packed, MAX_PLACES // 8)
        except (ValueError, zlib.error) as error:
            raise InputError(f"{data!r} holds no places: it was not packed here") from error
        return tuple(
            first + bit for bit in range(8 * len(unpacked)) if unpacked[bit // 8] >> bit % 8 & 1
        )
    if text and not _RANGES.fullmatch(text):
        raise InputError(f"{text!r} names no places: write them as '1-3,190'")
    ends = [each.partition("-") for each in text.split(",") if each]
    rows = [range(int(first), int(last or first) + 1) for first, _, last in ends]
    if sum(map(len, rows)) > MAX_PLACES:
        raise InputError(f"{text!r} names more places than {MAX_PLACES}, which no record has")
    return tuple(place for row in rows for place in row)


M = TypeVar("M", bound=BaseMessage)

NOTE = "manifest"  # key of a manifest in a message's annotations
RECALLED = "recalled"  # kind of a message that quotes recalled ones, and their rule
EXTRA_RULES = (
    "summarized",
    RECALLED,
    "pinned",
)  # rules of messages that are sent or have another rule
OFFLOADED = "offloaded"  # rule of offloaded messages that the call did not need
MODEL_CHARS = 64  # longest name of a model that is kept


class Manifest(TypedDict):
    """Which messages of the transcript a call was sent, and what became of the others.

    Each place, from 1 and with offloaded messages, is in `sent`, which means word for word, or
    under one rule; the rules of `EXTRA_RULES` come on top. `unplaced` counts quoted messages whose
    places are unknown. `parts` are tokens as counted before the call, with `reply` as the most that
    the answer might take; `window` is 0 if unknown. `question` and `digest` are checksums of ids.
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
class ModelCall:
    """One request to a model, and what it was made of.

    `transcript` is the transcript without its `before` offloaded messages. `view` is what was planned,
    with summaries and quotes in messages of their own, and `sent` what the provider got of it. If
    two omissions of `left_out` name a message, the first counts. `offloaded_places` has the places,
    from 1, of offloaded messages that are shown or quoted, by id.
    """

    transcript: Sequence[AnyMessage]
    view: Sequence[AnyMessage]
    sent: Sequence[AnyMessage]
    question_id: str | None
    attempt: int
    call: int
    model: str
    left_out: Sequence[Omission] = ()
    pins: Collection[str] = frozenset()
    recalled: Collection[str] = frozenset()
    before: int = 0
    offloaded_places: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowUse:
    """Expected use of the window in tokens; `window` is 0 if unknown.

    `prompt` includes `tools`, the schemas, and `summary`, the summaries in the system message.
    """

    prompt: int
    tools: int = 0
    summary: int = 0
    reply: int = 0
    window: int = 0


def manifest_of(asked: ModelCall, room: WindowUse, count: TokenCounter) -> Manifest:
    """Return the manifest of a call."""
    own = {m.id or "": place for place, m in enumerate(asked.transcript, start=asked.before + 1)}
    places = {**asked.offloaded_places, **own}
    rules = _rules(asked, places)
    by_place = {place: message_id for message_id, place in places.items()}
    told = {place for rule in rules if rule != OFFLOADED for place in rules[rule]}
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
        model=clip(asked.model, MODEL_CHARS),
    )
    return {**manifest, "unplaced": unplaced} if unplaced else manifest


def with_manifest(message: M, manifest: Manifest) -> M:
    """Return a copy of the message that a call returned, with the call's manifest."""
    text = json.dumps(manifest, ensure_ascii=False, separators=(",", ":"))
    return annotate(message, **{NOTE: text})


def manifest_in(message: AnyMessage) -> Manifest | None:
    """Return the manifest of the call that returned a message; `None` if it has none."""
    found = annotation_of(message).get(NOTE)
    return cast("Manifest", json.loads(found)) if isinstance(found, str) else None


def parts_of(view: Sequence[AnyMessage], room: WindowUse, count: TokenCounter) -> dict[str, int]:
    """Return the tokens of each part of the window that has any, in the order of a prompt."""

    def counted(messages: list[AnyMessage]) -> int:
        return count(messages) if messages else 0

    system = counted([m for m in view if m.type == "system" and not is_summary(m)])
    summary = counted([m for m in view if is_summary(m)])
    recalled = counted([m for m in view if annotation_of(m).get("kind") == RECALLED])
    parts = {
        "system": max(0, system - room.summary),
        "tools": room.tools,
        "summary": summary + room.summary,
        "recents": max(0, room.prompt - room.tools - system - summary - recalled),
        RECALLED: recalled,
        "reply": room.reply,
    }
    return {part: tokens for part, tokens in parts.items() if tokens}


def digest_of(ids: Iterable[str]) -> str:
    """Return a checksum of ids in their order, as eight digits."""
    return f"{zlib.crc32(chr(0).join(ids).encode('utf-8', 'surrogatepass')):08x}"


def _rules(asked: ModelCall, places: Mapping[str, int]) -> dict[str, list[int]]:
    fates = _fates(asked)
    rules: dict[str, list[int]] = {}
    for message_id, rule in fates.items():
        rules.setdefault(rule, []).append(places[message_id])
    told = {places[message_id] for message_id in fates}
    rules[OFFLOADED] = [each for each in range(1, asked.before + 1) if each not in told]
    with_summary = (each for each in asked.left_out if each.summary)
    summarized = {i for each in with_summary for i in each.message_ids if fates.get(i) == each.why}
    beside = zip(EXTRA_RULES, (summarized, asked.recalled, asked.pins), strict=True)
    return {**rules, **{rule: [places[i] for i in ids if i in places] for rule, ids in beside}}


def _fates(asked: ModelCall) -> dict[str, str]:
    """For each message by id `sent`, or the rule that left it out or changed it."""
    why = {name: each.why for each in reversed(asked.left_out) for name in each.message_ids}
    shown = {m.id or "": m for m in asked.view}
    went = {m.id or "": m for m in asked.sent}
    thread = {m.id for m in spoken(asked.transcript)}
    head = "\n".join(text_of(m) for m in asked.sent if m.type == "system")
    fates = {i: _shown_as(shown[i], went.get(i)) for i in asked.offloaded_places if i in shown}
    for message in asked.transcript:
        name = message.id or ""
        if name in shown:
            fates[name] = _shown_as(shown[name], went.get(name))
        elif message.type == "system":
            fates[name] = "sent" if text_of(message).strip() in head else "unsendable"
        else:
            fates[name] = why.get(name, "other" if name in thread else "notice")
    return fates


def _shown_as(planned: AnyMessage, went: AnyMessage | None) -> str:
    """How a planned message reached the provider."""
    if went is not None and is_omission(text_of(went)) and not is_omission(text_of(planned)):
        return REASON
    # A message with content that did not go under its own id was joined to its neighbour.
    calls = isinstance(planned, AIMessage) and planned.tool_calls
    full = calls or text_of(planned).strip() or has_other_content(planned)
    if went is not None or (planned.type != "tool" and full):
        return shortened(planned) or "sent"
    return "unsendable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """The messages of one rule; without `message_ids` if the transcript has changed since."""

    name: str
    places: tuple[int, ...]
    message_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallContext:
    """What one model call was sent, and at what cost; see `Manifest`.

    `fits` is true if the transcript still has the messages that were meant. In `rules` those of
    `EXTRA_RULES` come last.
    """

    message_id: str | None
    attempt: int
    call: int
    model: str
    fits: bool
    sent: Rule
    rules: tuple[Rule, ...]
    unplaced: int
    parts: Mapping[str, int]
    window: int
    usage: Usage | None

    @property
    def prompt(self) -> int:
        """Tokens of the prompt, as counted before the call."""
        return sum(tokens for part, tokens in self.parts.items() if part != "reply")


def read_manifest(
    message: AnyMessage, manifest: Manifest, transcript: Sequence[AnyMessage]
) -> CallContext:
    """Return what a manifest says of the call that returned a message.

    `transcript` is the transcript with offloaded messages, as it was at the call or longer.

    Raises:
        InputError: The manifest was changed, and a list of places cannot be read.
    """
    named = {name: read_places(text) for name, text in manifest["by_rule"].items()}
    named["sent"] = read_places(manifest["sent"])
    told = {place for name in named if name != OFFLOADED for place in named[name]}
    fits = not told or max(told) <= len(transcript)
    ids = [transcript[place - 1].id or "" for place in sorted(told)] if fits else []
    fits = fits and digest_of(ids) == manifest["digest"]
    rules: list[Rule] = []
    # In the order of the first message of each rule; those that come on top are last.
    for name, places in sorted(named.items(), key=lambda each: (each[0] in EXTRA_RULES, each[1])):
        ids = [transcript[place - 1].id or "" for place in places] if fits else []
        rules.append(Rule(name=name, places=places, message_ids=tuple(ids)))
    used = message.usage_metadata if isinstance(message, AIMessage) else None
    return CallContext(
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
