"""What a question's words and wording tell about its topic, as numbers and as runs of words."""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain

from unsay.judging.topic_cues import ALSO, ASKS, CUES, cues_of, is_task, other_service
from unsay.judging.vocabulary import JAPANESE, Unit, normal, units, vocabulary
from unsay.topic_shift import TopicMemory

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
        "also": float(ALSO.search(normal(question)) is not None),
    }
    return Reading(
        content=reading.content,
        cues=reading.cues,
        share=reading.share,
        novelty=reading.novelty,
        common=reading.common,
        features=features,
    )


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
        found = _RUN_WORDS.findall(text)[:words]
        letters = ["^", *("0" if word.isdigit() else word for word in found), "$"]
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
    known = {unit.whole: _known(unit, current.texts, decay) for unit in content}
    share = share_of_content(
        content, {w: k / (1 + COMMONPLACE * common[w]) for w, k in known.items()}
    )
    novelty = sum(unit.weight * (1 - known[unit.whole]) for unit in content)
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
        "awaited": float(len(newest) < _TAIL and bool(ASKS.search(newest))),
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
