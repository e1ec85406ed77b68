"""Signs of a failed answer that need no model, one rule each, in English and Japanese.

A rule is `certain` only where hardly any good answer shows the sign; a legitimate short answer
never does. Thresholds were set on development data so that about one good answer in a hundred is
decided against. Source: MT-Bench-101 and MT-Bench-ja sessions, their answers whole and corrupted.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from unsay.judging.repetition import (
    WANTS_AGAIN,
    WANTS_LOOP,
    echoes,
    loops,
    says_earlier_answer,
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

BARE_WORDS = 3  # content words beside a refusal up to which it is bare
BARE_WIDTH = 400  # width up to which an answer can be a bare refusal
STRAY_SHARE = 0.1  # share of its words that an off-topic answer may have in common with the thread
# Content words from which an answer would share some. Source: of the development answers that long
# 0.7 % share none or next to none, of answers to another question 56 %, in Japanese 36 %.
STRAY_WORDS = 8
FEWEST_STRAY = 4  # content words below which an answer never counts as off topic
BEGINNING = 5  # letters that two related words share, such as `reflective` and `reflection`

_NOTHING = re.compile(r"[\s\u00ad\u200b-\u200f\u2060\ufeff.…。、,\-–—・?!？！*_`~\"']*")
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
# A block of code answers in names of its own, and shares few words with a question.
_CODE = re.compile(r"^(?:```|~~~| {4}\S|\t\S)", re.MULTILINE)
_REFERS = re.compile(
    r"\A\W*(?:it|its|it's|they|he|she|this|that|that's|these|those|yes|no|それ|そう|これ|彼|はい|いいえ)\b"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """A sign of failure that a rule found."""

    name: str
    certain: bool
    """Whether it decides against the answer without a model."""

    score: float
    """The most that the answer can get, from 0 to 1."""

    reason: str
    """One English sentence."""


Rule = Callable[[Exchange], Signal | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """How many content words an answer shares with its question and the earlier exchanges."""

    asked: int
    """Distinct content words of the question."""

    said: int
    """Distinct content words of the answer."""

    with_question: int
    """Of `said`, those that the question has too."""

    with_context: int
    """Of `said`, those that the question or an earlier exchange has too."""

    covered: float
    """Share of the question's content, by weight, that the answer has too; from 0 to 1."""


def overlap(exchange: Exchange) -> Overlap:
    """Count what an answer shares with its question and the exchanges before."""
    asked = {unit.whole: unit for unit in units(exchange.question)}.values()
    said = {unit.whole: unit for unit in units(exchange.answer)}.values()
    question, answer = _known(exchange.question), _known(exchange.answer)
    known = question.union(*(_known(text) for pair in exchange.earlier for text in pair))
    weight = sum(unit.weight for unit in asked)
    taken_up = sum(unit.weight for unit in asked if _meets(unit, answer))
    return Overlap(
        asked=len(asked),
        said=len(said),
        with_question=sum(_meets(unit, question) for unit in said),
        with_context=sum(_meets(unit, known) for unit in said),
        covered=taken_up / weight if weight else 0.0,
    )


def is_empty(answer: str) -> bool:
    """Whether an answer has no words."""
    return _NOTHING.fullmatch(answer) is not None


def _rule(
    name: str,
    shows: Callable[[Exchange], bool],
    *,
    score: float,
    reason: str,
    wanted: re.Pattern[str] | None = None,
    wanted_score: float = 1.0,
) -> Rule:
    """Make a rule for a sign that is certain, unless the question wants it."""

    def rule(exchange: Exchange) -> Signal | None:
        if not shows(exchange):
            return None
        if wanted is not None and wanted.search(normal(exchange.question)):
            return Signal(name=name, certain=False, score=wanted_score, reason=reason)
        return Signal(name=name, certain=True, score=score, reason=reason)

    return rule


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


@lru_cache(maxsize=64)
def _known(text: str) -> frozenset[str]:
    """The terms of a text, and the beginnings of the longer ones."""
    terms = vocabulary(text)
    return terms | {_beginning(term) for term in terms}


def _beginning(term: str) -> str:
    return f"{term[:BEGINNING]}…" if term.isascii() and len(term) >= BEGINNING else term


def _meets(unit: Unit, known: frozenset[str]) -> bool:
    whole = unit.whole
    return whole in known or _beginning(whole) in known or any(part in known for part in unit.parts)


RULES: tuple[Rule, ...] = (
    _rule(
        "empty",
        lambda exchange: is_empty(exchange.answer),
        score=0.0,
        reason="The answer is empty.",
    ),
    _refusal,
    _ignorance,
    _rule(
        "loop",
        lambda exchange: loops(exchange.answer),
        score=0.1,
        reason="The answer repeats itself.",
        wanted=WANTS_LOOP,
        wanted_score=0.7,
    ),
    _rule("echo", echoes, score=0.1, reason="The answer repeats the question."),
    _rule(
        "repetition",
        says_earlier_answer,
        score=0.25,
        reason="The answer repeats an earlier answer to another question.",
        wanted=WANTS_AGAIN,
        wanted_score=0.6,
    ),
    _truncation,
    _off_topic,
)
"""All rules, the gravest first."""
