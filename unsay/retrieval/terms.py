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
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from math import log
from pathlib import Path
from threading import Lock
from typing import Literal, NamedTuple

from langchain_core.messages import AnyMessage

from unsay.messages.annotations import is_document
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


COUNT_BITS = 8  # bits of a posting that hold how often the message has the term
COUNT_MASK = (1 << COUNT_BITS) - 1

# A table is rebuilt when more unused messages than the index has, plus this many, come before it.
SPARE = 1_024


class Entry(NamedTuple):
    """An indexed message."""

    key: str  # see `key_of`; empty in a table if the message has to be read again
    speaker: str  # see `speaker_of`
    length: int  # number of terms
    substance: float  # how much it says: the logarithm of the number of its different terms


@dataclass(slots=True, kw_only=True, eq=False)
class Table:
    """The messages that were read, in this order, with their terms.

    Several indexes can share a table: each is a range of it.
    """

    # A table only grows: an index is a range of it, and stays valid while another thread adds.

    entries: list[Entry] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)  # of entries, by the messages' keys
    # By term: the numbers of the messages that have it, ascending, each with its frequency.
    postings: dict[str, list[int]] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)

    def read(self, message: AnyMessage) -> None:
        """Add a message with its terms; the caller checks that the table lacks it."""
        counts = Counter(terms_of(message))
        for term, times in counts.items():
            # A higher count does not fit into the bits, and BM25 would hardly score it higher.
            posting = len(self.entries) << COUNT_BITS | min(times, COUNT_MASK)
            self.postings.setdefault(term, []).append(posting)
        entry = Entry(key_of(message), speaker_of(message), counts.total(), log(1 + len(counts)))
        self.add(entry)

    def add(self, entry: Entry) -> None:
        """Add an entry without the terms of its message; the caller adds those to `postings`."""
        self.numbers[entry.key] = len(self.entries)
        self.entries.append(entry)

    def reordered(self, messages: Sequence[AnyMessage]) -> "Table":
        """Return a new table of only these messages in this order.

        Messages that this table has are not read again.
        """
        new_table = Table()
        new_places: dict[int, list[int]] = {}
        for place, message in enumerate(messages):
            number = self.numbers.get(key_of(message))
            if number is None:
                new_table.read(message)
            else:
                new_places.setdefault(number, []).append(place)
                new_table.add(self.entries[number])
        for term, old in self.postings.items():
            new_postings = [
                place << COUNT_BITS | posting & COUNT_MASK
                for posting in old
                for place in new_places.get(posting >> COUNT_BITS, ())
            ]
            if new_postings:
                new_table.postings[term] = sorted(
                    [*new_table.postings.get(term, ()), *new_postings]
                )
        return new_table


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallIndex:
    """Which messages of a transcript have which terms; an index never changes.

    `covering` makes the index of a longer transcript.
    """

    entries: tuple[Entry, ...] = ()
    start: int = 0  # number of the first message in the table
    table: Table = field(default_factory=Table, repr=False)

    def __len__(self) -> int:
        return len(self.entries)

    def covering(
        self, messages: Sequence[AnyMessage], *, unread: int | None = None
    ) -> "RecallIndex":
        """Return the index of these messages, in their order; known messages are not read again.

        At most `unread` unknown messages are read, the newest ones. The index then leaves out the
        last one that was not read and all before it. `None` sets no limit.
        """
        keys, table = list(map(key_of, messages)), self.table
        with table.lock:
            if unread is not None:
                fresh = [place for place, key in enumerate(keys) if key not in table.numbers]
                first = fresh[-unread - 1] + 1 if len(fresh) > unread else 0
                keys, messages = keys[first:], messages[first:]
            start = table.numbers.get(keys[0], len(table.entries)) if keys else 0
            table_keys = [entry.key for entry in table.entries[start : start + len(keys)]]
            if table_keys != keys[: len(table_keys)] or start > len(keys) + SPARE:
                table, start = table.reordered(messages), 0
            else:
                for message in messages[len(table_keys) :]:
                    table.read(message)
            entries = tuple(table.entries[start : start + len(keys)])
        return RecallIndex(entries=entries, start=start, table=table)

    def forget(self, keys: Collection[str]) -> None:
        """Make the shared table forget these messages, and all that this index does not have.

        It is for messages that were edited, or for a table that became large. `covering` reads the
        messages again when they are needed.
        """
        kept_keys, table = {entry.key for entry in self.entries}.difference(keys), self.table
        with table.lock:
            for key in [key for key in table.numbers if key not in kept_keys]:
                number = table.numbers.pop(key)
                table.entries[number] = table.entries[number]._replace(key="")

    def places(self, keys: Collection[str]) -> set[int]:
        """Return the places (indices) of the messages with these keys; unknown keys are skipped."""
        key_set = frozenset(keys)
        return {place for place, entry in enumerate(self.entries) if entry.key in key_set}

    def matches(self, term: str) -> list[tuple[int, int]]:
        """Return, for each message that has a term, its place and how often it has the term."""
        postings, start = self.table.postings.get(term, []), self.start
        return [
            ((posting >> COUNT_BITS) - start, posting & COUNT_MASK)
            for posting in postings[self._range(postings)]
        ]

    def having(self, term: str) -> int:
        """Return the number of messages that have a term."""
        postings = self.table.postings.get(term, [])
        return len(postings[self._range(postings)])

    def has(self, place: int, term: str) -> bool:
        """Return whether the message at a place has a term."""
        postings, number = self.table.postings.get(term, []), self.start + place
        position = bisect_left(postings, number << COUNT_BITS)
        return position < len(postings) and postings[position] >> COUNT_BITS == number

    def _range(self, postings: Sequence[int]) -> slice:
        first = bisect_left(postings, self.start << COUNT_BITS)
        end = (self.start + len(self)) << COUNT_BITS
        return slice(first, bisect_left(postings, end, lo=first))


def key_of(message: AnyMessage) -> str:
    """Return the key of a message: its id, or its type and content if it has no id."""
    return message.id or f"{message.type} {message.content}"


def speaker_of(message: AnyMessage) -> str:
    """Return the speaker of a message in lower case: its name if it has one, else its type.

    The names of tools and documents do not count.
    """
    name = message.name if message.type in ("human", "ai") and not is_document(message) else None
    return (name or message.type).lower()
