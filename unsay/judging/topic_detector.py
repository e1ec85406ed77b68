"""`LexicalDetector`, which assigns a question to a topic by its words, and labels of topics.

It adds up three kinds of evidence: how many words of the question the current topic has, what the
wording announces (a change of subject, a reference to the previous message), and whether an earlier
topic has more of the words.
"""

import math
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, get_args

from unsay.arguments import check_arity
from unsay.errors import ConfigurationError
from unsay.judging.vocabulary import Unit, normal, terms, units, vocabulary
from unsay.messages.content import preview
from unsay.topic_shift import ShiftKind, TopicMemory, TopicShift

LABEL_CHARS = 40  # longest label, in characters

_UNITS_READ = 60  # distinct content words of a question that are compared
_TAIL = 200  # length below which a message that ends with a question awaits an answer
_SEVERAL = 2  # texts of a topic that must have a word for its full weight
_PASSING = 0.5  # weight of a word that fewer texts of the topic have
_COMMONPLACE = 0.5  # how much each other topic with a word lowers the word's weight
_HALF_A_WORD = 0.5  # added to the total, so that one word alone never has a share of 1
_SHORT = 0.54  # value of `length` below which a question may be a fragment
_UNKNOWN = 0.1  # share of known words below which a question is `fresh`
_ENOUGH_TO_EXPLAIN = 2  # content words from which a text explains its own references
_STEEPEST = 30.0  # limit of the log-odds: `exp` of a large number overflows

_DATED = r"(?: (?:year|week(?:end)?|month|morning|afternoon|evening|summer|winter|spring|season)\b)"
_THING = (
    r"(?:answer|response|explanation|information|info|advice|description|reply|summary|list|point"
    r"|text|article|paragraph|sentence|story|poem|version|headline|suggestion|message|data|content"
    r"|code|definition|statement)s?"
)

# What the wording of a question announces; the patterns match texts of `vocabulary.normal`.
# `change` and `return` announce a topic clearly, `turn` and `earlier` perhaps; the others refer to
# the previous message or to the form of the question.
CUES: Mapping[str, re.Pattern[str]] = {
    "change": re.compile(
        r"\bby the way\b|\bbtw\b|\bunrelated\b|\bmoving on\b|\boff[- ]topic\b|\bbefore i forget\b"
        r"|\b(?:another|different|new|separate|next|other|unrelated) (?:\w+ )?"
        r"(?:question|topic|thing|subject|matter|note)\b"
        r"|\bswitch(?:ing)? (?:gears|topics?|subjects?|to)\b"
        r"|\bchang(?:e|ing) (?:of |the )?(?:topics?|subjects?)\b"
        r"|\bsomething (?:else|completely different)\b|\bthat reminds me\b|\bspeaking of\b"
        r"|ところで|話は?が?変わ|話題?を変(?:え|更)|別の(?:話|質問|件|こと|相談)|別件|それはそうと|そういえば"
        r"|次の(?:質問|話題|相談|件)|全然違う|関係ない"
    ),
    "turn": re.compile(
        r"^\W*(?:next|finally|another)\b|\bout of curiosity\b|\bquestions? about\b"
        r"|\bfollowing\b|\bbelow\b"
        r"|\bi(?:'ve been| was| am|'m) (?:wondering|curious)\b"
        r"|^\W*(?:次に|さて|あと|最後に)|。(?:次に|あと|また|それと)|一つ(?:質問|お聞き)"
        r"|以下の|次の(?:文|段落|記事|コード|レビュー|データ|テキスト)"
        r"|も(?:探|調べ|お願い|教えて|予約)"
    ),
    "reference": re.compile(
        r"\b(?:it|its|they|them|their|he|she|his|her|him|that|those|these|such"
        r"|(?:get|go|from) there"
        rf"|this(?!{_DATED}))\b"
        r"|それ|その|そこ|そちら|そう|これ|この|ここ|こちら|あれ|あの|上記|前述|先ほど|同じ|両者|両方"
        r"|残り|今の|さっき|あなたの|も[^、。]{0,10}(?:られ|でき)(?:る|ます)"
    ),
    "opener": re.compile(
        r"^\W*(?:and|but|so|or|then|what about|how about|ok(?:ay)?|yes|yeah|no|nope|thanks?"
        r"|thank you|great|good|sure|i see|cool|wow|oh|well|hmm|right|really|also|why|now|however"
        r"|alright|interesting|haha|lol)\b"
        r"|^\W*(?:では|じゃ|それ|そうですか|なるほど|はい|いいえ|ありがとう|でも|しかし|ただ|なら|なぜ"
        r"|どうして|もし|もう|もっと|すみません|わかりました|分かりました|了解|承知|いや|うん|続き|詳しく)"
    ),
    "condition": re.compile(
        r"^\W*(?:if|what if|suppose|assuming|given|with|when|considering|based on|for|in"
        r"|regarding)\b"
    ),
    "request": re.compile(
        r"\btell me about\b|\b(?:what(?:'s| is| are| was| were) (?:an?|the))\b"
        r"|\bwho (?:is|was|won|wrote|painted|invented)\b|\bcould you\b"
        r"|\bhow (?:do (?:i|you)|does)\b"
        r"|\bcan you (?:recommend|suggest|explain|tell)\b|\bplease (?:tell|explain|give)\b"
        r"|\bi(?:'m (?:planning|looking|trying|thinking|going)| need| want| have)\b"
        r"|\b(?:write|imagine|explain|describe)\b"
        r"|について|とは|に関する|書いて|作成し|作って|あなたは|を想定|たいの|探し|考えて|提案して|お願い|教えて"
    ),
    "rework": re.compile(
        r"\b(?:re(?:phras|format|formulat|writ|structur|organi[sz]|word|stat)\w*|paraphras\w*"
        r"|condens\w*|summari[sz]\w*|simplif\w*|simpler|short(?:en\w*|er)|concise\w*|bullet\w*"
        r"|outline|analogy|metaphor\w*|tweet|format(?:ted)?|tone|elaborate|expand on|version"
        r"|(?:turn|present|put|formulate) (?:it|that|this|your)|as (?:if you|though)"
        r"|in the (?:style|form|manner) of|in (?:simple|plain|other) (?:words|terms|language))\b"
        r"|\b(?:your|that|this|the same|the previous|the above|those|these) "
        rf"(?:previous |last |earlier |same |first )?{_THING}\b"
        r"|書き直|言い換え|要約|まとめて|箇条書き|形式で|口調|トーン|短くし|短縮|簡潔|修正|書き換え|翻訳して"
        r"|その(?:回答|答え|説明)|[0-9一二三](?:つ|番|本|個|行|人|日)目|再度|(?:答え|回答|説明)を"
        r"|(?:最初|最後|次|前|先)の(?:例|文|段落|質問|回答|案)|加えて|追加して|変え(?:て|たら)|変更して"
        r"|変わったら|としたら"
    ),
    "doubt": re.compile(
        r"\bare you sure\b|\b(?:in)?correct\b|\bwrong\b|\bmistaken?\b|\bdoesn't (?:sound|seem)\b"
        r"|\bdon't think\b|\bi thought\b|\bcheck (?:that|it|again)\b"
        r"|^\W*(?:いや|それは)?違(?:います|う)|間違って(?:い)?(?:ません|ない)|本当ですか"
    ),
    "question": re.compile(r"\?|か。?\s*$"),
    "return": re.compile(
        r"^\W*(?:(?:ok(?:ay)?|anyway|so|now|well|great|thanks|but|and|alright|right)\W+)*"
        r"(?:let's |let us |(?:can|could|shall) we |i(?:'d| would) like to |i want to )?"
        r"(?:(?:go|get|com|circl|jump|switch|head)(?:ing|e)? )?(?:back|return(?:ing)?) to\b"
        r"|\bas for\b.*\bagain\b"
        r"|(?:話|話題|件|質問|テーマ|本題)[をにへ]戻|[にへ]戻(?:りますが|りましょう|ると、|って(?:も|、))"
    ),
    "earlier": re.compile(
        r"\b(?:back|return(?:ing)?) to\b|\bwe (?:were )?(?:talk|discuss)\w*|\bearlier\b|\btoo\W*$"
        r"|\b(?:previous|first|original) (?:topic|question|discussion|subject|conversation)\b"
        r"|さっき|先ほど|先程|(?:最初|前)の(?:話|質問|件|話題)|[にへ]戻|についても"
    ),
}

_DUMMY = re.compile(
    r"\b(?:is|was|does|would|if|how) it (?:ok|okay|better|possible|true|safe|necessary|normal|worth"
    r"|an?|take|too|hard|easy|important|legal)\b|\bit's (?:been|time|okay|true|important)\b"
    r"|\bthat reminds me\b|\bi heard that\b|それはそうと|それぞれ|そういえば"
)
_ASKS = re.compile(
    r"(?:\?|どうですか。?|ください。?|でしょうか。?|ますか。?)[\s\"')」]*$"
    r"|\b(?:please|go ahead and|could you|let me know)\b[^.?!]*[.?!]\W*$"
)
_ANNOUNCING = frozenset({"change", "turn", "request"})
_JAPANESE = re.compile(r"[\u3041-\u30ff]")

# What each feature adds to the log-odds of a change.
# Source: logistic regression on the train and dev parts of MT-Bench-101 (Apache-2.0), MT-Bench-ja as
# in sbintuitions/flexeval (Apache-2.0), TIAGE (MIT) and JMultiWOZ-TC (CC BY 4.0), rounded; `change`
# was set by hand because it is too rare there.
WEIGHTS: Mapping[str, float] = {
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
    "length": 1.4,
    "japanese": -1.35,
    "japanese_length": 3.2,
    "fragment": -1.8,
    "awaited": -2.1,
}

BIAS = -2.7  # log-odds of a change if every feature is 0; from the same regression


@dataclass(frozen=True, slots=True, kw_only=True)
class LexicalDetector:
    """A topic detector for English and Japanese that compares words and asks no model.

    In doubt it returns `same`, because a wrong `new` removes messages that are still needed from the
    context. Shares, probabilities and factors are from 0 to 1.
    """

    threshold: float = 0.45  # probability of a change at which a question leaves its topic
    evidence: float = 0.75  # weight of new words, about 1 each, that a new topic needs
    unannounced_evidence: float = 1.5  # the same if the wording announces and requests nothing
    decay: float = 0.8  # factor on the weight of a text for each exchange after it

    # Share of the question that a topic to go back to needs, and its lead over the current topic.
    back_overlap: float = 0.12
    back_margin: float = 0.1
    back_weight: float = 2.0  # what an excess of 1 adds to the log-odds of a change
    back_fade: float = 0.9  # factor on the share of a topic for each one left after it

    def detect(
        self, question: str, current: TopicMemory, others: Sequence[TopicMemory]
    ) -> TopicShift:
        """Assign a question to a topic: the `current` one, a new one or one of the `others`."""
        reading = _read(question, current, others, decay=self.decay)
        rival = _best_rival(reading, others, fade=self.back_fade)
        excess = max(rival.similarity - reading.share, 0.0) if rival else 0.0
        log_odds = BIAS + sum(WEIGHTS[name] * value for name, value in reading.features.items())
        log_odds += self.back_weight * excess
        changes = self.threshold <= 1 / (1 + math.exp(-max(min(log_odds, _STEEPEST), -_STEEPEST)))
        if rival:
            says_back = "return" in reading.cues and reading.share < self.back_overlap
            clear = rival.similarity >= max(self.back_overlap, reading.share + self.back_margin)
            if says_back or (clear and (changes or "earlier" in reading.cues)):
                return rival
        announced = reading.cues & _ANNOUNCING
        needed = self.evidence if announced else self.unannounced_evidence
        is_new = changes and reading.novelty >= needed
        return TopicShift(kind="new" if is_new else "same", similarity=reading.share)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """What the words and the wording of a question tell about its topic."""

    content: tuple[Unit, ...]  # its first distinct words and runs
    cues: frozenset[str]  # keys of `CUES`
    share: float  # of the content, that the current topic has too, from 0 to 1
    novelty: float  # weight of the content that the current topic does not have
    common: Mapping[str, int]  # in how many earlier topics each word occurs
    features: Mapping[str, float]  # keys of `WEIGHTS`


def _read(
    question: str, current: TopicMemory, others: Sequence[TopicMemory], *, decay: float
) -> _Reading:
    text = normal(question)
    content = tuple({unit.whole: unit for unit in units(question)}.values())[:_UNITS_READ]
    bags = [_bag(other.texts) for other in others]
    common = {unit.whole: sum(unit.whole in bag for bag in bags) for unit in content}
    known = {unit.whole: _known(unit, current.texts, decay) for unit in content}
    share = _share(content, {w: k / (1 + _COMMONPLACE * common[w]) for w, k in known.items()})
    novelty = sum(unit.weight * (1 - known[unit.whole]) for unit in content)
    cues = _cues(text)

    def share_of(texts: tuple[str, ...]) -> float:
        return _share(content, {unit.whole: _known(unit, texts, 1.0) for unit in content})

    japanese = bool(_JAPANESE.search(text))
    length = math.log1p(len(text) / (1.0 if japanese else 2.5)) / 5
    newest = normal(current.texts[-1]) if current.texts else ""
    features = {
        "known": share**0.5,
        "newest": share_of(current.texts[-1:]) ** 0.5,
        "asked": share_of(current.texts[-2:-1]) ** 0.5,
        "novelty": math.log1p(novelty),
        "fresh": float(share < _UNKNOWN and "question" in cues),
        **{name: float(name in cues) for name in CUES if name in WEIGHTS},
        "length": length,
        "japanese": float(japanese),
        "japanese_length": length * japanese,
        "fragment": float(length < _SHORT and not cues & {"question", "request"}),
        "awaited": float(len(newest) < _TAIL and bool(_ASKS.search(newest))),
    }
    return _Reading(
        content=content, cues=cues, share=share, novelty=novelty, common=common, features=features
    )


def _best_rival(
    reading: _Reading, others: Sequence[TopicMemory], *, fade: float
) -> TopicShift | None:
    """Return the shift to the earlier topic with most of the words; `None` if there is none."""
    shifts: list[TopicShift] = []
    for position, other in enumerate(others):
        bag = _bag(other.texts)
        known = {
            unit.whole: _match(unit, bag)
            / (1 + _COMMONPLACE * max(reading.common[unit.whole] - 1, 0))
            for unit in reading.content
        }
        share = _share(reading.content, known) * fade**position
        shifts.append(TopicShift(kind="back", similarity=share, topic_id=other.topic_id))
    return max(shifts, key=lambda shift: shift.similarity, default=None)


def _cues(text: str) -> frozenset[str]:
    # A reference counts only before the content, or at the end of a text with little content.
    found = {name for name, cue in CUES.items() if cue.search(text)}
    plain = _DUMMY.sub(" ", text)
    reference = CUES["reference"].search(plain)
    if reference is not None:
        before = len(units(plain[: reference.start()]))
        closes = not plain[reference.end() :].strip(" ?.!。か")
    if reference is None or (before and not (closes and before < _ENOUGH_TO_EXPLAIN)):
        found.discard("reference")
    return frozenset(found)


@lru_cache(maxsize=128)
def _bag(texts: tuple[str, ...]) -> Mapping[str, float]:
    """Return the terms of texts, each with its weight from 0 to 1."""
    counts = Counter(term for text in texts for term in vocabulary(text))
    several = min(_SEVERAL, len(texts))
    return {term: 1.0 if count >= several else _PASSING for term, count in counts.items()}


def _known(unit: Unit, texts: Sequence[str], decay: float) -> float:
    """Return from 0 to 1 how well texts have a word; the older the text, the less it counts."""
    best = 0.0
    for age, text in enumerate(reversed(texts)):
        # An exchange is two texts, a question and its answer.
        weight = decay ** (age // 2)
        if weight <= best:
            break
        best = max(best, weight * _match(unit, _bag((text,))))
    return best


def _match(unit: Unit, bag: Mapping[str, float]) -> float:
    if unit.whole in bag:
        return bag[unit.whole]
    pairs = [part for part in unit.parts if len(part) == 2]
    return sum(bag.get(part, 0.0) for part in pairs) / len(pairs) if pairs else 0.0


def _share(content: Sequence[Unit], known: Mapping[str, float]) -> float:
    total = sum(unit.weight for unit in content)
    return sum(unit.weight * known[unit.whole] for unit in content) / (total + _HALF_A_WORD)


def check_detector(detector: Any) -> None:
    """Raise `ConfigurationError` unless an object has the method `detect` with its three arguments."""
    if isinstance(detector, type) or not callable(getattr(detector, "detect", None)):
        raise ConfigurationError(
            f"{detector!r} is no topic detector: pass an object with the method 'detect'"
        )
    takes = "the question, the current topic and the other topics"
    check_arity(detector.detect, 3, "detector.detect", takes)


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


def label_of(question: str) -> str:
    """Return a label for a question: its first sentence from the first content word to the last.

    >>> label_of("Please tell me about Python list comprehensions.")
    'Python list comprehensions'
    >>> label_of("ところで、今日の天気はどうですか?")
    '天気'
    """
    for sentence in _SENTENCE_END.split(question[:2_000]):
        telling = [found for found in _TOKEN.finditer(sentence) if terms(found.group())]
        if telling:
            return preview(sentence[telling[0].start() : telling[-1].end()], LABEL_CHARS)
    return preview(question, LABEL_CHARS)
