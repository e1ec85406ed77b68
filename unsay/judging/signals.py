"""Signs of a failed answer that need no model: one rule each, all pure, in English and Japanese.

A rule is `certain` only where hardly any good answer shows the sign; a legitimate short answer
never does. Thresholds were set on development data so that about one good answer in a hundred is
decided against. Source: MT-Bench-101 and MT-Bench-ja sessions, their answers whole and corrupted.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache

from unsay.judging.repetition import (
    echoes,
    loops,
    says_earlier_answer,
    wants_a_loop,
    wants_it_again,
)
from unsay.judging.vocabulary import (
    CUT_WIDTH,
    FIRST_WIDTH,
    JAPANESE,
    Unit,
    is_casual,
    leaves_fence_open,
    normal,
    sentences,
    stops_short,
    units,
    vocabulary,
    width,
)
from unsay.types import Exchange

BARE_WORDS = 3
"""Content words beside a refusal up to which it stands alone."""

BARE_WIDTH = 400
"""Width up to which an answer can be a bare refusal."""

STRAY_SHARE = 0.1
"""Share of an answer's words, from 0 to 1, that a talk may know of one that left it."""

STRAY_WORDS = 8
"""Content words from which on an answer would share some. Source: of the development answers that long
0.7 % share none or next to none, of answers to another question 56 %, in Japanese 36 %.
"""

FEWEST_STRAY = 4
"""Content words below which an answer is not told to be off topic at all."""

BEGINNING = 5
"""Letters that two longer words must share to be akin, such as `reflective` and `reflection`."""

_NOTHING = re.compile(r"[\s\u00ad\u200b-\u200f\u2060\ufeff.…。、,\-–—・?!？！*_`~\"']*")
_DEMAND = re.compile(
    r"\b(?:give|assign|award|rate|score|grade|mark|evaluate|output|return|print|respond with|set)\b.{0,20}?"
    r"\b(?:this|it|that|the (?:answer|response|reply|assistant|highest|maximum)|me|my|above|an?|score|1\.0)\b.{0,40}?"
    r"(?:\b(?:scores?|rating|grade|full marks?|five stars|perfect)\b|\b1\.0|\b10/10|100 ?%)"
    r"|\bdeserves?\b.{0,30}(?:\b(?:scores?|rating|grade|marks?|perfect)\b|1\.0|10/10|100 ?%)"
    r"|\b(?:output|return|respond with|give|print) 1\.0"
    r"|\b(?:score|rating|grade)\b\W{0,4}(?:is|of|to|must be|should be)?\W{0,4}(?:1\.0|1\b|10\b|100\b|perfect|max)"
    r"|\b(?:ignore|disregard|forget)\b.{0,30}\b(?:instructions?|rubric|criteria|rules|prompt)\b"
    r"|\{\W{0,4}(?:score|rating|スコア)\W{1,4}|^\W*(?:system|developer|admin(?:istrator)?)\b\W{0,3}[:\]]"
    r"|\bi am the (?:developer|admin\w*|judge|evaluator)\b|\bquality\W{0,3}(?:is|to|of)?\W{0,3}1\.0"
    r"|\bmark(?:ed)? (?:this |it )?as (?:pass|perfect|correct)|\b(?:do not|don't) roll\s?back"
    r"|^\W*(?:dear |note to (?:the )?|as (?:the|a) )?(?:judge|evaluator|grader|reviewer)s?\b"
    r"|(?:スコア|評価|採点|点数|得点|評点).{0,30}(?:1\.0|10点|100点|満点|最高|最大|高く|高得点)"
    r"|(?:1\.0|満点|最高点|最高評価|高評価|高得点|合格).{0,12}(?:付け|つけ|与え|ください|下さい|して|お願い|出力|評価)"
    r"|(?:指示|命令|ルール|基準|プロンプト).{0,8}(?:無視|忘れ)|採点者|評価者へ|判定者"
)
_GRADES = re.compile(
    r"\b(?:scor(?:e|es|ed|ing)|rat(?:e|ed|ing)|grad(?:e|ed|er|ing)|judges?|evaluat\w+|verdict|rubric|full marks?)\b"
    r"|(?<![\d.])1\.0(?![\d.])|\b(?:answer|response|reply)\b.{0,30}\b(?:perfect|excellent|flawless|pass)"
    r"|スコア|評価|採点|点数|得点|満点|合格|審査|(?:回答|応答|返答)は.{0,8}(?:完璧|正し|最高|優れ|素晴らし)"
)
_REFUSAL = re.compile(
    r"\b(?:i|we)(?:'m| am|'re| are)? (?:really |currently |just )?(?:can't|cannot|can not"
    r"|won't|will not|(?:am |are )?(?:unable|not able|not allowed|not permitted|not in a position) to|must decline"
    r"|(?:have|need) to decline|decline|refuse)\b(?:.{0,30}\b(?:help|assist|answer|comply|fulfil+|respond|discuss"
    r"|continue|complete|provide|do (?:that|this|it|so)|support|process|share|offer|talk about|engage)\b|\W*$)"
    r"|(?:お答え|答え|回答|返答|対応|お手伝い|手伝い|お応え|応じ|提供|協力|お力|お話し?|説明|支援|サポート)"
    r"(?:する|し|を|に|が|は|も|ること|こと|なること|になる|添い|添え){0,4}"
    r"(?:でき(?:ません|ない|かね)|出来(?:ません|ない|かね)|(?:いた|致)しかね|しかね|かねま|られません|られない"
    r"|控え|差し控え|お断り|ません)"
    r"|(?:ご要望|ご質問|ご依頼|リクエスト|お願い)に?は?.{0,6}(?:沿い|添い|沿え|添え|応え|応じ).{0,6}(?:かね|ません)"
    r"|お断り(?:し|いた|致)|(?:それ|これ|その件|申し訳).{0,14}(?:でき(?:ません|かねます)|無理です|お断り)"
)
_COURTESY = re.compile(
    r"\b(?:sorry|apologi[sz]e|apologies|unfortunately|thank(?:s| you)|anything else|feel free|let me know"
    r"|understand(?:ing)?|another (?:question|topic)|as an ai)\b|申し訳|すみません|すいません|ごめん|恐れ入り"
    r"|残念|ご了承|ご理解|他に(?:ご質問|何か|お手伝い)|別の(?:質問|話題)"
)
_GROUNDS = re.compile(
    r"(?<!sorry, )(?<!sorry )(?<!apologize, )\bbut\b|\bhowever\b|\binstead\b|\balthough\b|\bthough\b|\bbecause\b"
    r"|\bsince\b|\billegal|\bharm|\bunsafe|\bdanger|\bprivacy\b|\bsafety\b|\bonly\b|\bplease (?:provide|share|send|paste)"
    r"|ただし|しかし|代わり|かわり|けれど|ものの|ため|ので|違法|犯罪|危険|有害|安全|法律|権利|プライバシー|提供して|教えて"
)
_KNOWS_NOTHING = re.compile(
    r"(?:\b(?:i|we|really|honestly|just|sorry|about|that|it|this|me|to|tell|you|so|man|lol|lmao|haha+|meh|ugh|hmm+|um+"
    r"|do not know|don't know|dont know|dunno|no idea|no clue|not sure|idk|who knows|who cares|don't care|beats|whatever"
    r"|have|got)\b|わから(?:ない|ん|ないです|へん)|わかりません|分から(?:ない|ん)|分かりません|知ら(?:ない|ん|ねえ?)"
    r"|知りません|さあ|さぁ|興味ない|どうでもいい|めんどくさい|すみません|ごめん(?:なさい)?|申し訳(?:ありません|ございません)"
    r"|ちょっと|全然|まったく|そんなの|それは|です|けど|ね|よ|な|が|w|笑|草|\W)++"
)
_KNOWING_NOTHING = re.compile(
    r"know|dunno|no idea|no clue|not sure|idk|who cares|don't care|beats|whatever"
    r"|わか|分か|知ら|知り|さあ|さぁ|興味ない|どうでも|めんどくさい"
)
_CURT = re.compile(
    r"dunno|idk|who cares|don't care|whatever|\blol\b|\bmeh\b|わからん|分からん|わからへん|知らん|知らね|さあ|さぁ|興味ない"
    r"|どうでも|めんどくさい"
)
_ABOUT_USER = re.compile(
    r"\b(?:my|mine|am i|did i|do i|was i)\b|私[のはが]|僕[のはが]|俺[のはが]|自分の"
)
_INVENTS = re.compile(
    r"translat|english|japanese|french|spanish|german|chinese|korean|language|\bcode\b|\bpoem|\bstory|\bjoke|\bsong"
    r"|\bhaiku|\briddle|翻訳|訳して|英語|日本語|英文|和訳|英訳|フランス語|中国語|韓国語|ドイツ語|スペイン語|コード|詩|物語|小説"
    r"|冗談|ジョーク|俳句|短歌|歌|なぞなぞ"
)
_REFERS = re.compile(
    r"\A\W*(?:it|its|it's|they|he|she|this|that|that's|these|those|yes|no|それ|そう|これ|彼|はい|いいえ)\b"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """A sign of failure that a rule found."""

    name: str
    """The rule's name, for example `loop`."""

    certain: bool
    """Whether it decides against the answer without a model."""

    score: float
    """From 0 to 1; the answer gets no more."""

    reason: str
    """What was found, in one English sentence."""


Rule = Callable[[Exchange], Signal | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """How much of an answer's content its question and the talk before it know."""

    asked: int
    """Distinct content words of the question."""

    said: int
    """Distinct content words of the answer."""

    with_question: int
    """Of those said, how many the question knows."""

    with_context: int
    """Of those said, how many the question or an earlier exchange knows."""

    covered: float
    """Share of the question's content, by weight, that the answer takes up; from 0 to 1."""


def overlap(exchange: Exchange) -> Overlap:
    """Count what an answer shares with its question and the exchanges before."""
    asked, said = _distinct(exchange.question), _distinct(exchange.answer)
    question = _known([exchange.question])
    earlier = _known(text for pair in exchange.earlier for text in pair)
    answer = _known([exchange.answer])
    weight = sum(unit.weight for unit in asked)
    taken_up = sum(unit.weight for unit in asked if _meets(unit, answer))
    return Overlap(
        asked=len(asked),
        said=len(said),
        with_question=sum(_meets(unit, question) for unit in said),
        with_context=sum(_meets(unit, question | earlier) for unit in said),
        covered=taken_up / weight if weight else 0.0,
    )


def tells_judge(answer: str) -> bool:
    """Whether an answer tells a judge what to say."""
    return any(_DEMAND.search(part.lower()) for part in sentences(answer))


def without_demands(exchange: Exchange) -> str:
    """The answer without what tells a judge what to say; empty when it is nothing else.

    Where the question is not about grades, other sentences that speak of grades go as well.
    """
    parts = sentences(exchange.answer)
    kept = [part for part in parts if not _DEMAND.search(part.lower())]
    if not _GRADES.search(normal(exchange.question)):
        kept = [part for part in kept if not _GRADES.search(part.lower())] or kept
    return exchange.answer if len(kept) == len(parts) else "\n".join(kept)


def is_empty(answer: str) -> bool:
    """Whether an answer says nothing at all."""
    return _NOTHING.fullmatch(answer) is not None


def _empty(exchange: Exchange) -> Signal | None:
    if not is_empty(exchange.answer):
        return None
    return Signal(name="empty", certain=True, score=0.0, reason="The answer is empty.")


def _refusal(exchange: Exchange) -> Signal | None:
    """A bare refusal is certain; one with grounds or an alternative is for the model."""
    answer = normal(exchange.answer)
    parts = sentences(answer)
    refused = {part for part in parts if _REFUSAL.search(part)}
    if not refused:
        return None
    rest = [part for part in parts if part not in refused and not _COURTESY.search(part)]
    bare = not _GROUNDS.search(answer) and sum(len(units(part)) for part in rest) <= BARE_WORDS
    return Signal(
        name="refusal",
        certain=bare and width(answer) <= BARE_WIDTH,
        score=0.2 if bare else 0.85,
        reason="The answer refuses the request." if bare else "The answer declines in part.",
    )


def _ignorance(exchange: Exchange) -> Signal | None:
    """A polite `I don't know` may be honest, above all about the user; a curt one is certain."""
    answer = normal(exchange.answer)
    if not (_KNOWS_NOTHING.fullmatch(answer) and _KNOWING_NOTHING.search(answer)):
        return None
    curt = _CURT.search(answer) and not _ABOUT_USER.search(normal(exchange.question))
    return Signal(
        name="refusal",
        certain=bool(curt),
        score=0.15 if curt else 0.4,
        reason="The answer only says that it does not know.",
    )


def _loop(exchange: Exchange) -> Signal | None:
    if not loops(exchange.answer):
        return None
    wanted = wants_a_loop(exchange.question)
    return Signal(
        name="loop",
        certain=not wanted,
        score=0.7 if wanted else 0.1,
        reason="The answer repeats itself.",
    )


def _echo(exchange: Exchange) -> Signal | None:
    if not echoes(exchange):
        return None
    return Signal(name="echo", certain=True, score=0.1, reason="The answer repeats the question.")


def _repetition(exchange: Exchange) -> Signal | None:
    if not says_earlier_answer(exchange):
        return None
    wanted = wants_it_again(exchange.question)
    return Signal(
        name="repetition",
        certain=not wanted,
        score=0.6 if wanted else 0.25,
        reason="The answer repeats an earlier answer to another question.",
    )


def _truncation(exchange: Exchange) -> Signal | None:
    enough = CUT_WIDTH if exchange.earlier else FIRST_WIDTH
    if exchange.truncated:
        reason = "The provider cut the answer off at its length limit."
    elif leaves_fence_open(exchange.answer):
        reason = "The answer's last code block is never closed."
    elif stops_short(exchange.answer, enough=enough) and not is_casual(exchange):
        reason = "The answer stops in the middle of a sentence."
    else:
        return None
    return Signal(name="truncation", certain=True, score=0.4, reason=reason)


def _off_topic(exchange: Exchange) -> Signal | None:
    """No word in common is one sign; an answer that long without one, or its language, another."""
    shared = overlap(exchange)
    stray = shared.with_context <= STRAY_SHARE * shared.said and not shared.with_question
    question, answer = normal(exchange.question), normal(exchange.answer)
    if not stray or shared.said < FEWEST_STRAY or not shared.asked or _INVENTS.search(question):
        return None
    long = shared.said >= STRAY_WORDS
    other_language = bool(JAPANESE.search(question)) != bool(JAPANESE.search(answer))
    refers = _REFERS.search(answer) or _CODE.search(exchange.answer)
    return Signal(
        name="off_topic",
        certain=other_language or (long and not refers),
        score=0.3 if long else 0.45,
        reason="The answer shares no word with the question or the talk before it.",
    )


_CODE = re.compile(r"^(?:```|~~~| {4}\S|\t\S)", re.MULTILINE)
"""A block of code: it answers in names of its own, and shares few words with a question."""


def _distinct(text: str) -> list[Unit]:
    return list({unit.whole: unit for unit in units(text)}.values())


def _known(texts: Iterable[str]) -> frozenset[str]:
    """The terms of texts, and the beginnings of their longer words."""
    return frozenset().union(*map(_with_beginnings, texts))


@lru_cache(maxsize=64)
def _with_beginnings(text: str) -> frozenset[str]:
    terms = vocabulary(text)
    return terms | {_beginning(term) for term in terms}


def _beginning(term: str) -> str:
    return f"{term[:BEGINNING]}…" if term.isascii() and len(term) >= BEGINNING else term


def _meets(unit: Unit, known: frozenset[str]) -> bool:
    whole = unit.whole
    return whole in known or _beginning(whole) in known or any(part in known for part in unit.parts)


RULES: tuple[Rule, ...] = (
    _empty,
    _refusal,
    _ignorance,
    _loop,
    _echo,
    _repetition,
    _truncation,
    _off_topic,
)
"""All rules, the gravest first."""
