"""The manifest of a model call: which messages were sent, and which rules left out the others.

A manifest is a few hundred bytes of JSON in the annotations of the message that the call returned;
providers never get it. It refers to messages by their places in the transcript, and a checksum of
their ids shows whether the transcript still has them.
"""

import json
import re
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, NotRequired, TypeVar

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage
from pydantic import TypeAdapter
from typing_extensions import TypedDict

from unsay.context.compaction import is_summary, shortened
from unsay.context.plan import Omission, TokenCounter
from unsay.errors import DatabaseCorruptError
from unsay.messages.annotations import annotate, annotation_of, spoken
from unsay.messages.content import REASON, clip, is_empty, is_omission, text_of
from unsay.tokens.pricing import MICROS, Tally, Usage, amount_of, reply_prices, usage_of

READABLE_CHARS = 64  # longest list of ranges that is never replaced by bits
# More places than any transcript has: a changed manifest must not fill the memory.
MAX_PLACES = 10_000_000

_RANGES = re.compile(r"(\d+(-\d+)?)(,\d+(-\d+)?)*", re.ASCII)
_BITS = re.compile(r"(\d+):([A-Za-z0-9_-]+)", re.ASCII)


def write_places(places: Collection[int]) -> str:
    """Return places (positions in the transcript, from 1) as a text that `read_places` reads.

    It has ranges, or compressed bits if the ranges are long and the bits are shorter.

    >>> write_places([1, 2, 3, 190, 212, 211])
    '1-3,190,211-212'
    """
    ranges = write_ranges(places)
    if len(ranges) <= READABLE_CHARS:
        return ranges
    first = min(places)
    number = sum(1 << (place - first) for place in set(places))
    # Raw deflate (-15) lacks the header and the checksum of zlib, which would be six bytes.
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
        DatabaseCorruptError: The text has another format, or ranges of more than `MAX_PLACES`
            places.

    >>> read_places("1-3,190")
    (1, 2, 3, 190)
    """
    if bits := _BITS.fullmatch(text):
        first, data = int(bits[1]), bits[2]
        try:
            packed = urlsafe_b64decode(data + "=" * (-len(data) % 4))
            unpacked = zlib.decompressobj(-15).decompress(packed, MAX_PLACES // 8)
        except (ValueError, zlib.error) as error:
            raise _changed(f"{data!r} is not a list of places") from error
        return tuple(
            first + bit for bit in range(8 * len(unpacked)) if unpacked[bit // 8] >> bit % 8 & 1
        )
    if text and not _RANGES.fullmatch(text):
        raise _changed(f"{text!r} is not a list of places")
    ends = [each.partition("-") for each in text.split(",") if each]
    rows = [range(int(first), int(last or first) + 1) for first, _, last in ends]
    if sum(map(len, rows)) > MAX_PLACES:
        raise _changed(f"{text!r} has more than {MAX_PLACES} places")
    return tuple(place for row in rows for place in row)


def _changed(problem: str) -> DatabaseCorruptError:
    return DatabaseCorruptError(f"What is kept of a model call was changed: {problem}")


M = TypeVar("M", bound=BaseMessage)

NOTE = "manifest"  # key of a manifest in a message's annotations
RECALLED = "recalled"  # kind of a message that quotes recalled ones, and their rule
EXTRA_RULES = ("summarized", RECALLED, "pinned")  # of messages that are sent or have another rule
OFFLOADED = "offloaded"  # rule of offloaded messages that the call did not need
MODEL_CHARS = 64  # longest name of a model that is kept


class Manifest(TypedDict):
    """Which messages of the transcript a call was sent, and which rules left out the others."""

    sent: str  # places of messages sent unchanged, from 1, with offloaded ones included
    by_rule: dict[
        str, str
    ]  # all other places by rule; those of `EXTRA_RULES` have another one, too
    unplaced: NotRequired[int]  # number of quoted messages with unknown places
    parts: dict[str, int]  # tokens counted before the call; `reply` is the longest possible answer
    window: int  # in tokens; 0 if unknown
    question: str  # checksum of the question's id
    digest: str  # checksum of the ids of all places except `OFFLOADED` ones
    attempt: int
    call: int
    model: str


@cache
def _adapter() -> TypeAdapter[Manifest]:
    return TypeAdapter(Manifest)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCall:
    """One request to a model and the messages that it was made from."""

    transcript: Sequence[AnyMessage]  # without the offloaded messages at its beginning
    context: Sequence[AnyMessage]  # as planned; summaries and quotes are separate messages
    sent: Sequence[AnyMessage]  # what the provider got
    question_id: str | None
    attempt: int
    call: int
    model: str
    left_out: Sequence[Omission] = ()  # if two of them name a message, the first one counts
    pins: Collection[str] = frozenset()
    recalled: Collection[str] = frozenset()
    before: int = 0  # number of offloaded messages
    offloaded_places: Mapping[str, int] = field(default_factory=dict)  # of those shown, by id


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowUse:
    """Expected use of the window in tokens."""

    prompt: int  # includes `tools` and `summary`
    tools: int = 0  # the schemas of tools
    summary: int = 0  # the summaries in the system message
    reply: int = 0  # the longest possible answer
    window: int = 0  # 0 if unknown


def manifest_of(call: ModelCall, use: WindowUse, count: TokenCounter) -> Manifest:
    """Return the manifest of a call: its messages by rule, and the tokens expected before it."""
    own = {m.id or "": place for place, m in enumerate(call.transcript, start=call.before + 1)}
    places = {**call.offloaded_places, **own}
    rules = _rules(call, places)
    by_place = {place: message_id for message_id, place in places.items()}
    checked = {place for rule in rules if rule != OFFLOADED for place in rules[rule]}
    unplaced = len(set(call.recalled).difference(by_place.values()))
    manifest = Manifest(
        sent=write_places(rules.pop("sent", [])),
        by_rule={rule: write_places(places) for rule, places in rules.items() if places},
        parts=parts_of(call.context, use, count),
        window=use.window,
        question=ids_checksum([call.question_id or ""]),
        digest=ids_checksum(by_place[place] for place in sorted(checked)),
        attempt=call.attempt,
        call=call.call,
        model=clip(call.model, MODEL_CHARS),
    )
    return {**manifest, "unplaced": unplaced} if unplaced else manifest


def with_manifest(message: M, manifest: Manifest) -> M:
    """Return a copy of a call's reply with the manifest in its annotations, as JSON text."""
    text = json.dumps(manifest, ensure_ascii=False, separators=(",", ":"))
    return annotate(message, **{NOTE: text})


def manifest_in(message: AnyMessage) -> Manifest | None:
    """Return the manifest of the call that returned a message; `None` if the message has none.

    Raises `DatabaseCorruptError` if the manifest was changed and cannot be read.
    """
    raw_manifest = annotation_of(message).get(NOTE)
    if not isinstance(raw_manifest, str):
        return None
    try:
        return _adapter().validate_json(raw_manifest)
    except ValueError as error:  # not JSON, or a value is missing or of another type
        raise _changed(f"the manifest of message {message.id!r} cannot be read") from error


def parts_of(context: Sequence[AnyMessage], use: WindowUse, count: TokenCounter) -> dict[str, int]:
    """Return the tokens of each part of the window, in prompt order; empty parts are left out.

    The parts are system, tools, summary, recents, recalled, and reply (the longest possible
    answer).
    """

    def counted(messages: list[AnyMessage]) -> int:
        return count(messages) if messages else 0

    system = counted([m for m in context if m.type == "system" and not is_summary(m)])
    summary = counted([m for m in context if is_summary(m)])
    recalled = counted([m for m in context if annotation_of(m).get("kind") == RECALLED])
    parts = {
        "system": max(0, system - use.summary),
        "tools": use.tools,
        "summary": summary + use.summary,
        "recents": max(0, use.prompt - use.tools - system - summary - recalled),
        RECALLED: recalled,
        "reply": use.reply,
    }
    return {part: tokens for part, tokens in parts.items() if tokens}


def ids_checksum(ids: Iterable[str]) -> str:
    """Return a checksum of ids in their order: eight hexadecimal digits."""
    return f"{zlib.crc32(chr(0).join(ids).encode('utf-8', 'surrogatepass')):08x}"


def _rules(call: ModelCall, places: Mapping[str, int]) -> dict[str, list[int]]:
    """Return the places under each rule; messages sent unchanged are under `sent`.

    A place under one of `EXTRA_RULES` is under another rule as well.
    """
    fates = _fates(call)
    rules: dict[str, list[int]] = {}
    for message_id, rule in fates.items():
        rules.setdefault(rule, []).append(places[message_id])
    fate_places = {places[message_id] for message_id in fates}
    rules[OFFLOADED] = [place for place in range(1, call.before + 1) if place not in fate_places]
    omissions = (omission for omission in call.left_out if omission.summary)
    summarized = {i for o in omissions for i in o.message_ids if fates.get(i) == o.why}
    beside = zip(EXTRA_RULES, (summarized, call.recalled, call.pins), strict=True)
    return {**rules, **{rule: [places[i] for i in ids if i in places] for rule, ids in beside}}


def _fates(call: ModelCall) -> dict[str, str]:
    """Return for each message, by id, `sent` or the rule that left it out or shortened it.

    That is for the transcript's messages and the offloaded ones that the context shows.
    """
    omission_rules = {
        name: omission.why for omission in reversed(call.left_out) for name in omission.message_ids
    }
    context = {m.id or "": m for m in call.context}
    went = {m.id or "": m for m in call.sent}
    thread = {m.id for m in spoken(call.transcript)}
    head = "\n".join(text_of(m) for m in call.sent if m.type == "system")
    fates = {i: _shown_as(context[i], went.get(i)) for i in call.offloaded_places if i in context}
    for message in call.transcript:
        name = message.id or ""
        if name in context:
            fates[name] = _shown_as(context[name], went.get(name))
        elif message.type == "system":
            fates[name] = "sent" if text_of(message).strip() in head else "unsendable"
        else:
            fates[name] = omission_rules.get(name, "other" if name in thread else "notice")
    return fates


def _shown_as(planned: AnyMessage, went: AnyMessage | None) -> str:
    """Return `sent`, or why a planned message was not sent unchanged.

    `went` is what was sent under its id. For `None` a message that has content still counts as
    sent, because it was joined to its neighbour; a tool result or an empty message does not.
    """
    if went is not None and is_omission(text_of(went)) and not is_omission(text_of(planned)):
        return REASON
    # A message with content that was not sent under its own id was joined to its neighbour.
    calls = isinstance(planned, AIMessage) and planned.tool_calls
    full = calls or not is_empty(planned)
    if went is not None or (planned.type != "tool" and full):
        return shortened(planned) or "sent"
    return "unsendable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """The places and messages that one rule of a manifest covers."""

    name: str
    places: tuple[int, ...]  # counted from 1
    message_ids: tuple[str, ...]  # empty if the transcript has changed since the call


@dataclass(frozen=True, slots=True, kw_only=True)
class CallContext:
    """What one model call was sent, and its cost; see `Manifest`."""

    message_id: str | None
    attempt: int
    call: int
    model: str
    fits: bool  # whether the transcript still has the manifest's messages
    sent: Rule
    rules: tuple[Rule, ...]  # `EXTRA_RULES` come last
    unplaced: int
    parts: Mapping[str, int]
    window: int
    usage: Usage | None

    @property
    def prompt(self) -> int:
        """The tokens of the prompt, as counted before the call; the reply's are not included."""
        return sum(tokens for part, tokens in self.parts.items() if part != "reply")


def read_manifest(
    message: AnyMessage, manifest: Manifest, transcript: Sequence[AnyMessage], before: int = 0
) -> CallContext:
    """Return what a manifest says about the call that returned `message`.

    `transcript` may have grown since the call, and lacks the `before` oldest messages, whose ids are
    not returned. If it does not have the manifest's other messages, or the call was sent one of the
    oldest ones, `fits` is false and the rules have no ids. Raises
    `DatabaseCorruptError` if the places in the manifest cannot be read, because it was changed.
    """
    rule_places = {name: read_places(text) for name, text in manifest["by_rule"].items()}
    rule_places["sent"] = read_places(manifest["sent"])
    checked = {place for name in rule_places if name != OFFLOADED for place in rule_places[name]}
    ids_by_place = {place: each.id or "" for place, each in enumerate(transcript, before + 1)}
    ids = [ids_by_place[place] for place in sorted(checked) if place in ids_by_place]
    fits = checked <= ids_by_place.keys() and ids_checksum(ids) == manifest["digest"]
    rules: list[Rule] = []
    for name, places in sorted(
        rule_places.items(), key=lambda item: (item[0] in EXTRA_RULES, item[1])
    ):
        ids = [ids_by_place[place] for place in places if place in ids_by_place] if fits else []
        rules.append(Rule(name=name, places=places, message_ids=tuple(ids)))
    usage = message.usage_metadata if isinstance(message, AIMessage) else None
    return CallContext(
        message_id=message.id,
        attempt=manifest["attempt"],
        call=manifest["call"],
        model=manifest["model"],
        fits=fits,
        sent=next(rule for rule in rules if rule.name == "sent"),
        rules=tuple(rule for rule in rules if rule.name != "sent"),
        unplaced=manifest.get("unplaced", 0),
        parts=manifest["parts"],
        window=manifest["window"],
        usage=usage_of(usage) if usage else None,
    )


# Identifies a message; an id alone does not, since some servers give two messages the same id.
Key = tuple[str | None, str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """Tokens that models read and wrote, as they reported them.

    `cached` is the part of the input from the provider's cache. `micros` is the cost in millionths
    of the prices' currency; 0 if no price is known.
    """

    input: int = 0
    output: int = 0
    total: int = 0
    cached: int = 0
    micros: int = 0

    @property
    def cost(self) -> float:
        """Cost in the currency of the prices."""
        return self.micros / MICROS

    def __add__(self, other: "Tokens") -> "Tokens":
        names = [field.name for field in fields(Tokens)]
        return Tokens(**{name: getattr(self, name) + getattr(other, name) for name in names})

    def __str__(self) -> str:
        return f"{self.total} tokens ({self.input} in, {self.output} out)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """Tokens that a conversation used; each message counts once, also on several branches.

    `live` counts the transcript, `abandoned` the drafts and answers that were removed and not
    restored. Without `is_whole`, some messages could not be counted, and the sums are too low.
    """

    live: Tokens
    abandoned: Tokens
    judging: Tokens = Tokens()
    summaries: Tokens = Tokens()
    titles: Tokens = Tokens()
    is_whole: bool = True

    @property
    def total(self) -> Tokens:
        """Sum of all parts."""
        return sum((getattr(self, purpose) for purpose in PURPOSES), Tokens())

    def __str__(self) -> str:
        purposes = (name for name in PURPOSES if name in PURPOSES[:2] or getattr(self, name).total)
        return "; ".join(f"{name}: {getattr(self, name)}" for name in purposes)


# The fields of `Spent` that count tokens, in the order of a report.
PURPOSES = ("live", "abandoned", "judging", "summaries", "titles")


def tokens_of(
    messages: Iterable[BaseMessage],
    prices: Mapping[str, Mapping[Any, float]] | None = None,
    model: str | None = None,
    fallback: str | None = None,
) -> Tokens:
    """Return the sum of the tokens of messages, each counted once; copies of `pick` do not count.

    Only assistant messages with the usage that their provider reported are counted. `prices` are by
    model name, in a currency for a million tokens; without a price the cost is 0. `model` is used
    for messages that do not name their model, and for the thread's own answers by a name without a
    price, unless this is the name of the `fallback` model.
    """
    sums = Tokens()
    for message in {key_of(m): m for m in messages if isinstance(m, AIMessage)}.values():
        usage_data = message.usage_metadata
        if not usage_data or "picked" in annotation_of(message):
            continue
        usage, manifest = usage_of(usage_data), manifest_in(message)
        metadata = message.response_metadata
        reported = metadata.get("model_name") or metadata.get("model")
        model_name = reported or (manifest["model"] if manifest else None) or model
        name = model_name if isinstance(model_name, str) else None
        # The thread's own answers have a manifest: their model may report a name without a price.
        request_model = model if manifest else None
        model_prices = reply_prices(name, prices or {}, model=request_model, fallback=fallback)
        sums += Tokens(
            input=usage_data["input_tokens"],
            output=usage_data["output_tokens"],
            total=usage_data["total_tokens"],
            cached=usage.cache_read,
            micros=amount_of(usage, model_prices).micros,
        )
    return sums


def tokens_in(tallies: Mapping[str, Tally], purpose: str) -> Tokens:
    """Return the tokens counted for one purpose, such as `judge`; zeros if it has no tally."""
    tally = tallies.get(purpose)
    return Tokens() if tally is None else Tokens(**tally)


def key_of(message: BaseMessage) -> Key:
    """Return a key that differs for messages of different id, content or tokens."""
    usage = message.usage_metadata if isinstance(message, AIMessage) else None
    return message.id, repr(message.content), usage["total_tokens"] if usage else 0
