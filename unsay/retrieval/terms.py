"""Terms by which messages are found, and the index of messages by their terms.

Terms are words between spaces, and pairs of characters elsewhere.
Latin words are reduced to their stem; identifiers count as a whole and by their parts. In Japanese,
Chinese and Korean every two neighbouring characters are a term, and so is a single Han character
among kana, which is mostly a word.
"""

import json
import re
import tomllib
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import accumulate, chain
from math import log
from pathlib import Path
from typing import Literal, NamedTuple
from zlib import crc32

from langchain_core.messages import AnyMessage

from unsay.messages.annotations import is_document
from unsay.messages.boundaries import steps
from unsay.messages.content import calls_of, text_of

TABLES = tomllib.loads(Path(__file__).with_name("terms.toml").read_text("utf-8"))
STOP_WORDS = frozenset(TABLES["stop_words"].split())
# Irregular forms, with their base form.
IRREGULAR = {form: base for base, forms in TABLES["irregular"].items() for form in forms.split()}
# Characters of a message that are indexed, half from either end: a pasted file costs little.
TEXT_LIMIT = 40_000
# Weight of a word related to a word of the question, which counts 1. Source: own measurement.
KIN_WEIGHT = 0.2
ANSWER_WEIGHT = 0.1  # weight of a word that often answers such a question
_RUNNING = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7a3々〆"

_RUN = re.compile(rf"[{_RUNNING}]")
_TOKENS = re.compile(rf"[{_RUNNING}]+|[^\W_{_RUNNING}]+(?:_+[^\W_{_RUNNING}]+)*")
_HAN = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_LONE = re.compile(rf"(?<![{_HAN}])[{_HAN}](?![{_HAN}])")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|_+")
_CONTRACTED = re.compile(r"(?<=\w)['’](?:s|t|d|m|re|ve|ll)\b", re.IGNORECASE)
_SHORTEST = 3
_DERIVATIONS = re.compile(
    r"(?:ational|ization|fulness|[ai]tion|ment|ness|[ae]nce?|[ai]bl|ful|ist|er|or|li|ion|al|i[vc])$"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """The terms to look for."""

    weights: Mapping[str, float]  # 1 for terms of the question, less for related ones
    words: Mapping[str, str]  # the word of the question that each term comes from


def terms(text: str) -> list[str]:
    """Return the terms of a text, in order and with repetitions, without English stop words.

    Of a text of more than `TEXT_LIMIT` characters only the two ends count.

    >>> terms("She was running parse_config twice")
    ['run', 'parseconfig', 'pars', 'config', 'twic']
    >>> terms("京都の宿")
    ['京都', '都の', 'の宿', '宿']
    """
    return [term for token in _tokens(text) for term in _terms_of(token)]


def terms_of(message: AnyMessage) -> list[str]:
    """Return the terms of a message's text and of the names and arguments of its tool calls."""
    calls = (f" {call.name} {json.dumps(call.args, default=str)}" for call in calls_of(message))
    return terms(text_of(message) + "".join(calls))


def query_of(question: str, *, names: frozenset[str] = frozenset()) -> Query:
    """Return the terms of a question and, with less weight, terms related to them.

    `names`, terms of speakers' names, are not taken from the question, but can be related terms.
    """
    words: dict[str, str] = {}
    for token in _tokens(question):
        for term in _terms_of(token):
            if term not in names:
                words.setdefault(term, token)
    weights = dict.fromkeys(words, 1.0)
    for term, word in list(words.items()):
        for other in _related("kin").get(term, ()):
            words.setdefault(other, word)
            weights.setdefault(other, KIN_WEIGHT)
    for word in _tokens(question):
        for other in _related("answers").get(word.lower(), ()):
            words.setdefault(other, word)
            weights.setdefault(other, ANSWER_WEIGHT)
    return Query(weights=weights, words=words)


@cache
def _related(table: Literal["kin", "answers"]) -> Mapping[str, Sequence[str]]:
    """Return the words of a table, kin by their stem, each with the stems of the words related to it."""
    # Kin go both ways and are looked up by stem; answers by the question's own word.
    is_kin = table == "kin"
    relations: dict[str, list[str]] = {}
    for word, others in TABLES[table].items():
        for other in others.split():
            relations.setdefault(word, []).append(other)
            if is_kin:
                relations.setdefault(other, []).append(word)
    return {stem(word) if is_kin else word: list(map(stem, relations[word])) for word in relations}


def _tokens(text: str) -> list[str]:
    if len(text) > TEXT_LIMIT:
        text = f"{text[: TEXT_LIMIT // 2]} {text[-TEXT_LIMIT // 2 :]}"
    # ASCII is in NFKC already: skip a pass over the text.
    plain = text if text.isascii() else unicodedata.normalize("NFKC", text)
    if "'" in plain or "’" in plain:
        plain = _CONTRACTED.sub(" ", plain)
    return _TOKENS.findall(plain)


def _terms_of(token: str) -> Sequence[str]:
    if token.isascii() or not _RUN.match(token):
        return _words_of(token)
    pairs = [token[i : i + 2] for i in range(len(token) - 1)]
    return [*pairs, *_LONE.findall(token)] if pairs else [token]


@lru_cache(maxsize=65_536)
def _words_of(token: str) -> tuple[str, ...]:
    """Return the words of a token, and the whole token if it is an identifier."""
    pieces = [piece for piece in _HUMP.split(token) if piece]
    whole = [stem("".join(pieces).lower())] if len(pieces) > 1 else []
    words = (piece.lower() for piece in pieces)
    return (*whole, *(stem(word) for word in words if word not in STOP_WORDS))


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """Return the stem of a lower-case English word, also an irregular one; non-ASCII stays as it is.

    >>> [stem(word) for word in ("running", "ran", "cities", "painter")]
    ['run', 'run', 'citi', 'paint']
    """
    if not word.isascii():
        return word
    base = _inflected(IRREGULAR.get(word, word))
    derived = _DERIVATIONS.search(base, _SHORTEST + 1)
    return base[: derived.start()] if derived else base


def _inflected(word: str) -> str:
    if word.endswith("ies") and len(word) > len("ties"):
        word = word[:-3] + "y"
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")) and len(word) > _SHORTEST:
        word = word[:-1]
    for ending in ("ing", "ed"):
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST:
            word = word[: -len(ending)]
            # `plann` as `plan`, but `call` as it is.
            if len(word) > _SHORTEST and word[-1] == word[-2] and word[-1] not in "lsz":
                word = word[:-1]
            break
    word = IRREGULAR.get(word, word)
    # `bake` and `baking`, `city` and `cities` are one word.
    if word.endswith("e") and len(word) > _SHORTEST:
        return word[:-1]
    return word[:-1] + "i" if word.endswith("y") and len(word) >= _SHORTEST else word


FILTER_BITS = 8  # of a filter, for each term: about one in eight pages is read for nothing
FILTER_LEAST = 16  # bytes of the smallest filter
FENCE_TOKENS = 12  # tokens that a quotation adds to a message
RESULT_CHARS = 1_000  # characters of a recalled tool result that are shown at each end
BYTES_PER_TOKEN = 4  # Source: Zhang 2026, chapter 7


class Entry(NamedTuple):
    """What a search needs of one message; a plain JSON list of its fields makes it again."""

    key: str  # see `key_of`
    speaker: str  # see `speaker_of`
    counts: Mapping[str, int]  # how often the message has each term
    length: int  # number of terms
    substance: float  # how much it says: the logarithm of the number of its different terms
    tokens: int  # a rough estimate of what quoting it costs
    place: int = 0  # index of the message in its page
    back: int = 0  # entries between it and the first one of its step
    turn: int = 0  # answered turns between the page's beginning and the message
    topic: str = ""  # id of its topic


def entry_of(message: AnyMessage) -> Entry:
    """Return the entry of a message, without its surroundings."""
    counts = Counter(terms_of(message))
    text = text_of(message)[: TEXT_LIMIT if message.type != "tool" else 2 * RESULT_CHARS]
    return Entry(
        key=key_of(message),
        speaker=speaker_of(message),
        counts=dict(counts),
        length=counts.total(),
        substance=log(1 + len(counts)),
        # Source: own measurement; a quotation adds the fence and the speaker to each message.
        tokens=FENCE_TOKENS + -(-len(text.strip().encode("utf-8", "replace")) // BYTES_PER_TOKEN),
    )


class Part(NamedTuple):
    """A run of entries, in the order of the transcript, with their terms."""

    entries: Sequence[Entry]
    # For each term, the places in the part that have it, each followed by how often.
    postings: Mapping[str, Sequence[int]]


class RecallIndex:
    """Which messages have which terms, in the order of the transcript; an index never changes."""

    def __init__(self, *parts: Part) -> None:
        self.entries = tuple(chain.from_iterable(part.entries for part in parts))
        starts = accumulate((len(part.entries) for part in parts), initial=0)
        self._parts = list(zip(starts, parts, strict=False))
        self._matches: dict[str, dict[int, int]] = {}

    def __len__(self) -> int:
        return len(self.entries)

    def places(self, keys: Collection[str]) -> set[int]:
        """Return the places (indices) of the messages with these keys; unknown keys are skipped."""
        key_set = frozenset(keys)
        return {place for place, entry in enumerate(self.entries) if entry.key in key_set}

    def matches(self, term: str) -> Mapping[int, int]:
        """Return how often each message that has a term has it, by its place."""
        found = self._matches.get(term)
        if found is None:
            found = self._matches[term] = {}
            for start, part in self._parts:
                pairs = part.postings.get(term, ())
                for index in range(0, len(pairs), 2):
                    found[start + pairs[index]] = pairs[index + 1]
        return found

    def having(self, term: str) -> int:
        """Return the number of messages that have a term."""
        return len(self.matches(term))

    def has(self, place: int, term: str) -> bool:
        """Return whether the message at a place has a term."""
        found = self._matches.get(term)
        return place in (self.matches(term) if found is None else found)

    def step_at(self, place: int) -> range:
        """Return the places of the messages of one step; see `messages.boundaries.steps`."""
        first = last = place - self.entries[place].back
        while last + 1 < len(self) and self.entries[last + 1].back == last + 1 - first:
            last += 1
        return range(first, last + 1)


def index_of(messages: Sequence[AnyMessage]) -> RecallIndex:
    """Return the index of the messages of a transcript."""
    return RecallIndex(part_of(with_steps(map(entry_of, messages), messages)))


def part_of(entries: Sequence[Entry]) -> Part:
    """Return entries with their terms, so that a search of many is fast."""
    postings: dict[str, list[int]] = {}
    for place, entry in enumerate(entries):
        for term, times in entry.counts.items():
            postings.setdefault(term, []).extend((place, times))
    return Part(entries, postings)


def with_steps(entries: Iterable[Entry], messages: Sequence[AnyMessage]) -> list[Entry]:
    """Return the entries of these messages with the steps that they belong to."""
    backs = [offset for step in steps(messages) for offset in range(len(step))]
    return [
        entry if entry.back == back else entry._replace(back=back)
        for entry, back in zip(entries, backs, strict=True)
    ]


def filter_of(terms: Collection[str]) -> bytes:
    """Return a bit for each hash of a term: a missing bit says that none has the term."""
    bits = bytearray(max(FILTER_LEAST, len(terms) * FILTER_BITS // 8))
    for term in terms:
        byte, bit = _bit_of(term, bits)
        bits[byte] |= bit
    return bytes(bits)


def may_have(bits: bytes, term: str) -> bool:
    """Return whether entries may have a term; `bits` is their filter."""
    byte, bit = _bit_of(term, bits)
    return bool(bits[byte] & bit)


def _bit_of(term: str, bits: Sequence[int]) -> tuple[int, int]:
    byte, bit = divmod(crc32(term.encode("utf-8", "surrogatepass")) % (8 * len(bits)), 8)
    return byte, 1 << bit


def key_of(message: AnyMessage) -> str:
    """Return the key of a message: its id, or its type and content if it has no id."""
    return message.id or f"{message.type} {message.content}"


def speaker_of(message: AnyMessage) -> str:
    """Return the speaker of a message in lower case: its name if it has one, else its type.

    The names of tools and documents do not count.
    """
    name = message.name if message.type in ("human", "ai") and not is_document(message) else None
    return (name or message.type).lower()
