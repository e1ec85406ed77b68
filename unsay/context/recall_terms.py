"""The terms by which messages are recalled: words between spaces, pairs of characters elsewhere.

Latin words are brought to a common stem, identifiers are taken whole and apart.
Japanese, Chinese and Korean run together: every two neighbouring characters are
a term, and so is a Han character among kana, which is mostly a word.
"""

import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

from langchain_core.messages import AnyMessage

from unsay.context.recall_words import ANSWERS, IRREGULAR, KIN, STOP_WORDS
from unsay.transcript.parts import calls_of
from unsay.transcript.text import text_of

TEXT_LIMIT = 40_000
"""Characters of a message that are indexed, half from either end: a pasted file costs little."""

KIN_WEIGHT = 0.2
"""What a word that goes with a word of the question counts; the word itself counts 1.

Source: own measurement.
"""

ANSWER_WEIGHT = 0.1
"""What a word counts that often answers such a question."""

_RUNNING = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7a3々〆"
_TOKENS = re.compile(rf"[{_RUNNING}]+|[^\W_{_RUNNING}]+(?:_+[^\W_{_RUNNING}]+)*")
_IS_RUNNING = re.compile(rf"[{_RUNNING}]")
_HAN = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_LONE = re.compile(rf"(?<![{_HAN}])[{_HAN}](?![{_HAN}])")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|_+")
_CONTRACTED = re.compile(r"(?<=\w)['’](?:s|t|d|m|re|ve|ll)\b", re.IGNORECASE)
_SHORTEST = 3
_INFLECTIONS = ("ing", "ed")
_DERIVATIONS = re.compile(
    r"(?:ational|ization|fulness|[ai]tion|ment|ness|[ae]nce?|[ai]bl|ful|ist|er|or|li|ion|al|i[vc])$"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """What is looked for."""

    weights: Mapping[str, float]
    """By term: 1 for those of the question, less for those that go with them."""

    words: Mapping[str, str]
    """The word of the question that each term comes from."""


def terms(text: str) -> list[str]:
    """The terms of a text, repeated as often as they occur.

    >>> terms("She was running parse_config twice")
    ['run', 'parseconfig', 'pars', 'config', 'twic']
    >>> terms("京都の宿")
    ['京都', '都の', 'の宿', '宿']
    """
    return [term for token in _tokens(text) for term in _terms_of(token)]


def terms_of(message: AnyMessage) -> list[str]:
    """The terms of a message: its words, and the tools that it calls with their arguments."""
    calls = (f" {call.name} {json.dumps(call.args, default=str)}" for call in calls_of(message))
    return terms(text_of(message) + "".join(calls))


def query_of(question: str, *, names: frozenset[str] = frozenset()) -> Query:
    """What to look for, to answer a question.

    Args:
        question: The user's words.
        names: Of the speakers, as terms; who speaks is no word to look for.
    """
    words: dict[str, str] = {}
    for token in _tokens(question):
        for term in _terms_of(token):
            if term not in names:
                words.setdefault(term, token)
    weights = dict.fromkeys(words, 1.0)
    for term, word in list(words.items()):
        for other in _kin().get(term, ()):
            words.setdefault(other, word)
            weights.setdefault(other, KIN_WEIGHT)
    for word in _tokens(question):
        for other in map(stem, ANSWERS.get(word.lower(), ())):
            words.setdefault(other, word)
            weights.setdefault(other, ANSWER_WEIGHT)
    return Query(weights=weights, words=words)


@cache
def _kin() -> Mapping[str, tuple[str, ...]]:
    return {stem(word): tuple(map(stem, others)) for word, others in KIN.items()}


def _tokens(text: str) -> list[str]:
    if len(text) > TEXT_LIMIT:
        text = f"{text[: TEXT_LIMIT // 2]} {text[-TEXT_LIMIT // 2 :]}"
    plain = text if text.isascii() else unicodedata.normalize("NFKC", text)
    if "'" in plain or "’" in plain:
        plain = _CONTRACTED.sub(" ", plain)
    return _TOKENS.findall(plain)


def _terms_of(token: str) -> Sequence[str]:
    if token.isascii() or not _IS_RUNNING.match(token):
        return _words_of(token)
    pairs = [token[i : i + 2] for i in range(len(token) - 1)]
    return [*pairs, *_LONE.findall(token)] if pairs else [token]


@lru_cache(maxsize=65_536)
def _words_of(token: str) -> tuple[str, ...]:
    """The words of a token between spaces, and the whole where it is an identifier."""
    pieces = [piece for piece in _HUMP.split(token) if piece]
    whole = [stem("".join(pieces).lower())] if len(pieces) > 1 else []
    words = (piece.lower() for piece in pieces)
    return (*whole, *(stem(word) for word in words if word not in STOP_WORDS))


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """A lower-case word without its English endings; other words as they are.

    >>> [stem(word) for word in ("running", "ran", "cities", "painter")]
    ['run', 'run', 'citi', 'paint']
    """
    if not word.isascii():
        return word
    return _derived(_inflected(IRREGULAR.get(word, word)))


def _inflected(word: str) -> str:
    """Without the ending of a plural or a tense."""
    if word.endswith("ies") and len(word) > len("ties"):
        word = word[:-3] + "y"
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")) and len(word) > _SHORTEST:
        word = word[:-1]
    for ending in _INFLECTIONS:
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST:
            word = _single(word[: -len(ending)])
            break
    return _without_vowel(IRREGULAR.get(word, word))


def _single(word: str) -> str:
    """`plann` as `plan`, but `call` as it is."""
    doubled = len(word) > _SHORTEST and word[-1] == word[-2] and word[-1] not in "lsz"
    return word[:-1] if doubled else word


def _without_vowel(word: str) -> str:
    """`bake` and `baking`, `city` and `cities` are one word."""
    if word.endswith("e") and len(word) > _SHORTEST:
        return word[:-1]
    return word[:-1] + "i" if word.endswith("y") and len(word) >= _SHORTEST else word


def _derived(word: str) -> str:
    """Without the ending that makes a noun, an adjective or an adverb of a word."""
    found = _DERIVATIONS.search(word, _SHORTEST + 1)
    return word[: found.start()] if found else word
