"""`LexicalDetector`, which assigns a question to a topic by its words, and labels of topics.

It adds up three kinds of evidence: how many words of the question the current topic has, what the
wording announces (a change of subject, a reference to the previous message), and whether an earlier
topic has more of the words.
"""

import json
import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from unsay.arguments import check_arity, check_returns
from unsay.errors import ConfigurationError
from unsay.judging.topic_cues import points_elsewhere
from unsay.judging.topic_reading import (
    COMMONPLACE,
    Reading,
    bag,
    match,
    read,
    runs,
    share_of_content,
)
from unsay.judging.vocabulary import terms
from unsay.messages.content import preview, without_files
from unsay.topic_shift import ShiftKind, TopicMemory, TopicShift

LABEL_CHARS = 40  # longest label, in characters

_STEEPEST = 30.0  # limit of the log-odds: `exp` of a large number overflows
_ANNOUNCING = frozenset({"change", "turn", "request"})

# What each feature, and each run of words in hundredths, adds to the log-odds of a change. Fitted by
# `benchmarks/fit_topics.py`; the file names its sources and their licences.
_FITTED = json.loads(Path(__file__).with_name("topics.json").read_text("utf-8"))
WEIGHTS: Mapping[str, float] = _FITTED["weights"]
RUNS: Mapping[str, int] = _FITTED["runs"]
BIAS: float = _FITTED["bias"]

# The same for Japanese that is not about services, of which there is too little for runs of words.
# Source: logistic regression on the train and dev parts of the same sources, rounded; `change` was set
# by hand because it is too rare there.
JAPANESE: Mapping[str, float] = {
    "known": -0.7,
    "newest": -1.5,
    "asked": -5.5,
    "novelty": 1.2,
    "fresh": 1.0,
    "change": 2.5,
    "turn": 1.0,
    "reference": -2.8,
    "opener": -1.8,
    "condition": -1.3,
    "request": 0.7,
    "rework": -3.1,
    "doubt": -1.9,
    "question": 0.4,
    "length": 4.6,
    "fragment": -1.8,
    "awaited": -2.1,
}
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
        needed = self.evidence if announced else unannounced
        is_new = changes and reading.novelty >= needed
        return TopicShift(kind="new" if is_new else "same", similarity=reading.share)


def change_log_odds(reading: Reading, found: Collection[str]) -> float:
    """Return the log-odds that a question changes the topic; above 0, a change is likely.

    `found` are the runs of words that `runs` returned.
    """
    features = reading.features
    if features["japanese"] and not features["service"]:
        return JAPANESE_BIAS + _sum(JAPANESE, features)
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
        known = {
            unit.whole: match(unit, known_terms)
            / (1 + COMMONPLACE * max(reading.common[unit.whole] - 1, 0))
            for unit in reading.content
        }
        shares[other.topic_id] = share_of_content(reading.content, known) * fade**position
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
        telling = [found for found in _TOKEN.finditer(sentence) if terms(found.group())]
        if telling:
            whole = [word for word in telling if not _is_cut(sentence, word)]
            # The subject of 桜は何色ですか is 桜.
            named = [word for word in whole if not word.group().startswith(_ASKING)] or whole
            start, end = telling[0].start(), named[-1].end() if named else len(sentence)
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
