"""`LexicalDetector`, which assigns a question to a topic by its words, and labels of topics.

It adds up three kinds of evidence: how many words of the question the current topic has, what the
wording announces (a change of subject, a reference to the previous message), and whether an earlier
topic has more of the words.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, get_args

from unsay.arguments import check_arity, check_returns
from unsay.errors import ConfigurationError
from unsay.judging.vocabulary import (
    JAPANESE,
    WORDING,
    Unit,
    known_terms,
    normal,
    patterns,
    terms,
    units,
    vocabulary,
)
from unsay.messages.content import preview, without_files
from unsay.protocols import ShiftKind, TopicMemory, TopicShift

_UNITS_READ = 60  # distinct content words of a question that are compared
_TAIL = 200  # length below which a message that ends with a question awaits an answer
_SEVERAL = 2  # texts of a topic that must have a word for its full weight
_PASSING = 0.5  # weight of a word that fewer texts of the topic have
COMMONPLACE = 0.5  # how much each other topic with a word lowers the word's weight
_HALF_A_WORD = 0.5  # added to the total, so that one word alone never has a share of 1
_SHORT = 0.54  # value of `length` below which a question may be a fragment
_UNKNOWN = 0.1  # share of known words below which a question is `fresh`

_KANA = re.compile(r"[\u3041-\u30ff]")
_SENTENCE_ENDS = re.compile(r"(?<=[.!?。！？])\s*|\n+")
_RUN_WORDS = re.compile(r"[a-z']+|[0-9]+|[?!]")
# Words of the question's last and first sentence, and of the last sentence before it, whose runs
# are read; of Japanese, three times as many characters.
_LAST_WORDS, _FIRST_WORDS, _BEFORE_WORDS = 24, 10, 20
_ENOUGH_TO_EXPLAIN = 2  # content words from which a text explains its own references
_FEW_WORDS = 25  # words up to which a question does not explain what it points at

CUES: Mapping[str, re.Pattern[str]] = patterns("cues")
SERVICES: Mapping[str, re.Pattern[str]] = patterns("services")
_PATTERNS = patterns("topics")


def services_in(texts: Sequence[str]) -> frozenset[str]:
    """Return the kinds of services, keys of `SERVICES`, that at least one of the texts names."""
    return frozenset[str]().union(*map(_services, texts))


@lru_cache(maxsize=128)  # the texts of a topic are read again for each question
def _services(text: str) -> frozenset[str]:
    normal_text = normal(text)
    return frozenset(kind for kind, pattern in SERVICES.items() if pattern.search(normal_text))


def other_service(question: str, texts: Sequence[str]) -> bool:
    """Return whether a question names a kind of service, such as taxis, that is new to its topic.

    `texts` are those of the topic. `False` if they name no service, or the question names none.
    """
    topic_services = services_in(texts)
    return bool(topic_services) and not topic_services >= services_in((question,))


def is_task(topic: TopicMemory) -> bool:
    """Return whether a topic names a service that one books or looks for, such as a hotel.

    The weather does not count.
    """
    return bool(services_in(topic.texts) - {"weather"})


def points_elsewhere(question: str, current: TopicMemory) -> bool:
    """Return whether a short question points at a thing, such as `this drug`, that its topic lacks.

    `False` for a longer question, which explains what it points at.
    """
    text = normal(question)
    match = _PATTERNS["known_thing"].search(text)
    if match is None or len(text.split()) > _FEW_WORDS or text.startswith("i "):
        return False
    thing_units = units(match[1] or match[2])
    topic_terms = frozenset[str]().union(*(known_terms(text) for text in current.texts))
    return bool(thing_units) and not any(unit.whole in topic_terms for unit in thing_units)


def cues_of(text: str) -> frozenset[str]:
    """Return the keys of `CUES` that match a text; the text is a result of `normal`.

    A reference to the previous message counts only before the content of the text, or at the end of
    a text with little content.
    """
    # A reference counts only before the content, or at the end of a text with little content.
    cues = {name for name, cue in CUES.items() if cue.search(text)}
    plain = _PATTERNS["dummy"].sub(" ", text)
    reference = CUES["reference"].search(plain)
    if reference is not None:
        before = len(units(plain[: reference.start()]))
        closes = not plain[reference.end() :].strip(" ?.!。か")
    if reference is None or (before and not (closes and before < _ENOUGH_TO_EXPLAIN)):
        cues.discard("reference")
    return frozenset(cues)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What the words and the wording of a question tell about its topic."""

    content: tuple[Unit, ...]  # its first distinct words and runs
    cues: frozenset[str]  # keys of `CUES`
    share: float  # of the content, that the current topic has too, from 0 to 1
    novelty: float  # weight of the content that the current topic does not have
    common: Mapping[str, int]  # in how many earlier topics each word occurs
    features: Mapping[str, float]


def read(
    question: str, current: TopicMemory, others: Sequence[TopicMemory], *, decay: float
) -> Reading:
    """Return what the words and the wording of a question tell about its topic.

    `others` are the earlier topics, most recently left first. `decay`, from 0 to 1, is the factor
    on the weight of a text for each exchange after it.
    """
    reading = _read(question, current, others, decay=decay)
    parts = _sentences(normal(question))
    last = _read(parts[-1], current, others, decay=decay) if len(parts) > 1 else reading
    before = normal(current.texts[-1]) if current.texts else ""
    service = is_task(current)
    features = {
        **reading.features,
        **{
            f"last_{name}": last.features[name]
            for name in ("known", "novelty", "fresh", "reference")
        },
        "sentences": math.log1p(len(parts)),
        "turns": math.log1p(len(current.texts)),
        "before_length": math.log1p(len(before)) / 5,
        "other_service": float(other_service(normal(question), current.texts)),
        "service": float(service),
        "japanese_service": reading.features["japanese"] * service,
        "also": float(_PATTERNS["also"].search(normal(question)) is not None),
    }
    return replace(reading, features=features)


def runs(question: str, current: TopicMemory) -> frozenset[str]:
    """Return the runs of one to three words of a question; in Japanese, of one to four characters.

    They are read in its first and last sentence, and in the last sentence of the text before it.
    Each begins with its place: `first`, `last` or `before`. For a Japanese question in a topic
    about services it begins with `task` and the place (`task last …`), because `教えてください`
    asks for more of the same there, and elsewhere for something new.
    """
    task = "task " if JAPANESE.search(question) and is_task(current) else ""
    parts = _sentences(normal(question)) or [""]
    before = _sentences(normal(current.texts[-1])) if current.texts else []
    return frozenset(
        [
            *_runs(parts[-1], f"{task}last", _LAST_WORDS),
            *_runs(parts[0], f"{task}first", _FIRST_WORDS),
            *_runs(before[-1] if before else "", f"{task}before", _BEFORE_WORDS),
        ]
    )


def _sentences(text: str) -> list[str]:
    return [part for part in _SENTENCE_ENDS.split(text) if part.strip(" .!?。！？")]


def _runs(text: str, place: str, words: int) -> list[str]:
    if JAPANESE.search(text):
        letters = ["^", *re.sub(r"\s+", "", text)[: 3 * words], "$"]
        longest, joint = 4, ""
    else:
        run_words = _RUN_WORDS.findall(text)[:words]
        letters = ["^", *("0" if word.isdigit() else word for word in run_words), "$"]
        longest, joint = 3, " "
    return [
        f"{place} {joint.join(letters[start : start + size])}"
        for size in range(1, longest + 1)
        for start in range(len(letters) - size + 1)
    ]


def _read(
    question: str, current: TopicMemory, others: Sequence[TopicMemory], *, decay: float
) -> Reading:
    text = normal(question)
    content = tuple({unit.whole: unit for unit in units(question)}.values())[:_UNITS_READ]
    bags = [bag(other.texts) for other in others]
    common = {unit.whole: sum(unit.whole in terms for terms in bags) for unit in content}
    familiarity = {unit.whole: _known(unit, current.texts, decay) for unit in content}
    share = share_of_content(
        content, {w: k / (1 + COMMONPLACE * common[w]) for w, k in familiarity.items()}
    )
    novelty = sum(unit.weight * (1 - familiarity[unit.whole]) for unit in content)
    cues = cues_of(text)

    def share_in(texts: tuple[str, ...]) -> float:
        return share_of_content(content, {unit.whole: _known(unit, texts, 1.0) for unit in content})

    japanese = bool(_KANA.search(text))
    length = math.log1p(len(text) / (1.0 if japanese else 2.5)) / 5
    newest = normal(current.texts[-1]) if current.texts else ""
    features = {
        "known": share**0.5,
        "newest": share_in(current.texts[-1:]) ** 0.5,
        "asked": share_in(current.texts[-2:-1]) ** 0.5,
        "novelty": math.log1p(novelty),
        "fresh": float(share < _UNKNOWN and "question" in cues),
        **{name: float(name in cues) for name in CUES if name not in ("return", "earlier")},
        "length": length,
        "japanese": float(japanese),
        "japanese_length": length * japanese,
        "fragment": float(length < _SHORT and not cues & {"question", "request"}),
        "awaited": float(len(newest) < _TAIL and bool(_PATTERNS["asks"].search(newest))),
    }
    return Reading(
        content=content, cues=cues, share=share, novelty=novelty, common=common, features=features
    )


@lru_cache(maxsize=128)
def bag(texts: tuple[str, ...]) -> Mapping[str, float]:
    """Return the terms of texts, each with its weight from 0 to 1.

    A term that only one of several texts has weighs less.
    """
    counts = Counter(chain.from_iterable(map(vocabulary, texts)))
    several = min(_SEVERAL, len(texts))
    return {term: 1.0 if count >= several else _PASSING for term, count in counts.items()}


def _known(unit: Unit, texts: Sequence[str], decay: float) -> float:
    """Return how well texts know a word, from 0 to 1; the older a text, the less it counts.

    `decay` is the factor on a text's weight for each exchange after it.
    """
    best = 0.0
    for age, text in enumerate(reversed(texts)):
        # An exchange is two texts, a question and its answer.
        weight = decay ** (age // 2)
        if weight <= best:
            break
        best = max(best, weight * match(unit, bag((text,))))
    return best


def match(unit: Unit, terms: Mapping[str, float]) -> float:
    """Return the weight of a word in the terms that `bag` returned; 0 if they do not have it.

    For a run of kanji or katakana that is not there as a whole, it is the mean weight of its
    pairs of neighbouring characters; a missing pair counts as 0.
    """
    if unit.whole in terms:
        return terms[unit.whole]
    pairs = [part for part in unit.parts if len(part) == 2]
    return sum(terms.get(part, 0.0) for part in pairs) / len(pairs) if pairs else 0.0


def share_of_content(content: Sequence[Unit], known: Mapping[str, float]) -> float:
    """Return which share of a question's words, by weight, is known.

    `known` says for each word, by its `whole`, how well it is known, from 0 to 1. The share is
    below 1, and for few words much below.
    """
    total = sum([unit.weight for unit in content])
    return sum([unit.weight * known[unit.whole] for unit in content]) / (total + _HALF_A_WORD)


LABEL_CHARS = 40  # longest label, in characters

_STEEPEST = 30.0  # limit of the log-odds: `exp` of a large number overflows
_ANNOUNCING = frozenset({"change", "turn", "request"})

# What each feature, and each run of words in hundredths, adds to the log-odds of a change. Fitted by
# `benchmarks/fit_topics.py`; the file names its sources and their licences.
_FITTED = json.loads(Path(__file__).with_name("topics.json").read_text("utf-8"))
WEIGHTS: Mapping[str, float] = _FITTED["weights"]
RUNS: Mapping[str, int] = _FITTED["runs"]
BIAS: float = _FITTED["bias"]

JAPANESE_WEIGHTS: Mapping[str, float] = WORDING["japanese_weights"]
JAPANESE_BIAS = -4.45


@dataclass(frozen=True, slots=True, kw_only=True)
class LexicalDetector:
    """A topic detector for English and Japanese that compares words and asks no model.

    In doubt it returns `same`, because a wrong `new` removes messages that are still needed from the
    context. Shares, probabilities and factors are from 0 to 1.
    """

    threshold: float = 0.35  # probability of a change at which a question leaves its topic
    evidence: float = 0.5  # weight of new words, about 1 each, that a new topic needs
    unannounced_evidence: float = 0.75  # the same if the wording announces and requests nothing
    japanese_evidence: float = 1.5  # the same in Japanese, whose words weigh more
    decay: float = 0.8  # factor on the weight of a text for each exchange after it

    # Share of the question that a topic to go back to needs, and its lead over the current topic.
    back_overlap: float = 0.05
    back_margin: float = 0.0
    back_weight: float = 2.0  # what an excess of 1 adds to the log-odds of a change
    back_fade: float = 0.9  # factor on the share of a topic for each one left after it

    def detect(
        self, question: str, current: TopicMemory, others: Sequence[TopicMemory]
    ) -> TopicShift:
        """Return the topic of a question: the `current` one, a new one or one of the `others`.

        `others` are earlier topics, the most recently left one first.
        """
        reading = read(question, current, others, decay=self.decay)
        rival = likeliest_return(reading, others, fade=self.back_fade)
        excess = max(rival.similarity - reading.share, 0.0) if rival else 0.0
        log_odds = change_log_odds(reading, runs(question, current)) + self.back_weight * excess
        changes = self.threshold <= 1 / (1 + math.exp(-max(min(log_odds, _STEEPEST), -_STEEPEST)))
        if rival:
            says_back = "return" in reading.cues and reading.share < self.back_overlap
            points_back = changes and not reading.share and points_elsewhere(question, current)
            ahead = rival.similarity >= max(self.back_overlap, reading.share + self.back_margin)
            if says_back or points_back or (ahead and (changes or "earlier" in reading.cues)):
                return rival
        announced = reading.cues & _ANNOUNCING
        japanese = reading.features["japanese"]
        unannounced = self.japanese_evidence if japanese else self.unannounced_evidence
        least_evidence = self.evidence if announced else unannounced
        is_new = changes and reading.novelty >= least_evidence
        return TopicShift(kind="new" if is_new else "same", similarity=reading.share)


def change_log_odds(reading: Reading, found: Collection[str]) -> float:
    """Return the log-odds that a question changes the topic; above 0, a change is likely.

    `found` are the runs of words that `runs` returned.
    """
    features = reading.features
    if features["japanese"] and not features["service"]:
        return JAPANESE_BIAS + _sum(JAPANESE_WEIGHTS, features)
    return BIAS + _sum(WEIGHTS, features) + sum(RUNS.get(run, 0) for run in found) / 100


def _sum(weights: Mapping[str, float], features: Mapping[str, float]) -> float:
    return sum(weight * features[name] for name, weight in weights.items())


def likeliest_return(
    reading: Reading, others: Sequence[TopicMemory], *, fade: float
) -> TopicShift | None:
    """Return the shift to the earlier topic that has most of the question's words, even if few.

    `None` without earlier topics. `fade` is the factor on a topic's share for each topic left after
    it. The caller decides whether its `similarity` is enough.
    """
    shares: dict[str, float] = {}
    for position, other in enumerate(others):
        known_terms = bag(other.texts)
        match_scores = {
            unit.whole: match(unit, known_terms)
            / (1 + COMMONPLACE * max(reading.common[unit.whole] - 1, 0))
            for unit in reading.content
        }
        shares[other.topic_id] = share_of_content(reading.content, match_scores) * fade**position
    if not shares:
        return None
    likeliest = max(shares, key=shares.__getitem__)
    return TopicShift(kind="back", similarity=shares[likeliest], topic_id=likeliest)


def check_detector(detector: Any) -> None:
    """Raise `ConfigurationError` unless an object has the method `detect` with its three arguments."""
    if isinstance(detector, type) or not callable(getattr(detector, "detect", None)):
        raise ConfigurationError(
            f"{detector!r} is no topic detector: pass an object with the method 'detect'"
        )
    takes = "the question, the current topic and the other topics"
    check_arity(detector.detect, 3, "detector.detect", takes)
    check_returns(detector.detect, "detector.detect")


def check_shift(shift: Any, known: Collection[str]) -> None:
    """Raise `ConfigurationError` unless a detector's result is a valid shift.

    A shift `back` must name one of the `known` topics, by id.
    """
    is_valid = (
        isinstance(shift, TopicShift)
        and shift.kind in get_args(ShiftKind)
        and isinstance(shift.similarity, int | float)
        and (shift.kind != "back" or shift.topic_id in known)
    )
    if not is_valid:
        raise ConfigurationError(
            f"The detector returned {shift!r}: return a TopicShift with the kind 'same', 'new' or 'back', "
            "a similarity, and for 'back' the topic_id of one of the other topics"
        )


_SENTENCE_END = re.compile(r"[.!?。！？\n]")
_TOKEN = re.compile(r"[\u3400-\u9fff々]+|[\u30a0-\u30ff]+|[^\W_\u3040-\u30ff\u3400-\u9fff々]+[+#]*")


# Hiragana behind a word's stem in Chinese characters, and not a particle or a copula. After a single
# character more of them are endings: 話す, 見た.
_STEM = re.compile(r"[\u3400-\u9fff々]+")
_PARTICLES = "はがをにでとものへやかなだよね"
_ENDING = re.compile(rf"(?![{_PARTICLES}さしすせじずたま])[ぁ-ん]|し[いくかけ]")
_ENDING_OF_ONE = re.compile(rf"(?![{_PARTICLES}])[ぁ-ん]")

# A word in Chinese characters that begins with one of these asks: 何日, 誰.
_ASKING = ("何", "誰")
_BRACKETS = (("「", "」"), ("『", "』"), ("（", "）"), ("(", ")"), ("“", "”"))


def _is_cut(sentence: str, word: re.Match[str]) -> bool:
    """Return whether a Japanese word goes on in hiragana after the match, as in 咲 of 咲きます."""
    ending = _ENDING_OF_ONE if len(word.group()) == 1 else _ENDING
    return bool(_STEM.fullmatch(word.group()) and ending.match(sentence, word.end()))


def label_of(question: str) -> str:
    """Return a label for a question: its first sentence from the first content word to the last.

    A Japanese verb, adjective or question word at its end is left out; a verb that is alone is taken
    to the sentence's end. A number before the first word, and both brackets of a pair, belong to it.
    If no sentence has a content word, the label is the question. It is shortened to `LABEL_CHARS`.

    >>> label_of("Please tell me about Python list comprehensions.")
    'Python list comprehensions'
    >>> label_of("ところで、今日の天気はどうですか?")
    '天気'
    """
    words = without_files(question)
    for sentence in _SENTENCE_END.split(words[:2_000]):
        telling = [token for token in _TOKEN.finditer(sentence) if terms(token.group())]
        if telling:
            whole = [word for word in telling if not _is_cut(sentence, word)]
            # The subject of 桜は何色ですか is 桜.
            subject_words = [
                word for word in whole if not word.group().startswith(_ASKING)
            ] or whole
            start = telling[0].start()
            end = subject_words[-1].end() if subject_words else len(sentence)
            while start and sentence[start - 1].isdecimal():
                start -= 1
            return preview(_with_brackets(sentence, start, end), LABEL_CHARS)
    return preview(words, LABEL_CHARS)


def _with_brackets(sentence: str, start: int, end: int) -> str:
    """Return a part of a sentence, extended where it has only one bracket of a pair."""
    for opening, closing in _BRACKETS:
        part = sentence[start:end]
        if part.count(closing) > part.count(opening):
            before = sentence.rfind(opening, 0, start)
            start = start if before < 0 else before
        elif part.count(opening) > part.count(closing):
            end = sentence.find(closing, end) + 1 or end
    return sentence[start:end]
