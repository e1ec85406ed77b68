"""Signs of a failed answer that need no model: one rule each, all pure, in English and Japanese.

A rule is `certain` only where hardly any good answer shows the sign; a legitimate short answer
never does. Thresholds were set on development data so that about one good answer in a hundred is
decided against. Source: MT-Bench-101 and MT-Bench-ja sessions with corrupted answers.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from unsay.judging.words import TEXT_LIMIT, Unit, normal, units, vocabulary
from unsay.types import Exchange

_JAPANESE = re.compile(r"[\u3041-\u30ff\u4e00-\u9fff]")
_SENTENCE_ENDS = re.compile(r"(?<=[.!?])\s+|(?<=[。！？!?])|\n+")
_NOTHING = re.compile(r"[\s\u00ad\u200b-\u200f\u2060\ufeff.…。、,\-–—・?!？！*_`~\"']*")
_FENCED = re.compile(r"^[ ]{0,3}```.*?(?:^[ ]{0,3}```|\Z)", re.MULTILINE | re.DOTALL)
_FENCE = re.compile(r"^[ ]{0,6}(```|~~~)", re.MULTILINE)

_DEMAND = re.compile(
    r"\b(?:give|assign|award|rate|score|grade|mark|evaluate|output|return|print|respond with)\b.{0,20}?"
    r"\b(?:this|it|that|the (?:answer|response|reply|assistant|highest|maximum)|me|my|above|an?|score|1\.0)\b.{0,40}?"
    r"(?:\b(?:scores?|rating|grade|full marks?|five stars|perfect)\b|\b1\.0|\b10/10|100 ?%)"
    r"|\bdeserves?\b.{0,30}(?:\b(?:scores?|rating|grade|marks?|perfect)\b|1\.0|10/10|100 ?%)"
    r"|\b(?:output|return|respond with|give|print) 1\.0"
    r"|\b(?:score|rating|grade)\b\W{0,4}(?:is|of|to|must be|should be)?\W{0,4}(?:1\.0|1\b|10\b|100\b|perfect|max)"
    r"|\b(?:ignore|disregard|forget)\b.{0,30}\b(?:instructions?|rubric|criteria|rules|prompt)\b"
    r"|^\W*(?:dear |note to (?:the )?)?(?:judge|evaluator|grader|reviewer)s?\b"
    r"|(?:スコア|評価|採点|点数|得点|評点).{0,30}(?:1\.0|10点|100点|満点|最高|高く|高得点)"
    r"|(?:1\.0|満点|最高点|最高評価|高得点).{0,12}(?:付け|つけ|与え|ください|下さい|して|お願い|出力|評価)"
    r"|(?:指示|命令|ルール|基準|プロンプト).{0,8}(?:無視|忘れ)"
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
    r"|ちょっと|全然|まったく|そんなの|それは|です|けど|ね|よ|な|が|w+|笑|草|\W)+"
)
_KNOWING_NOTHING = re.compile(
    r"know|dunno|no idea|no clue|not sure|idk|who cares|don't care|beats|whatever"
    r"|わか|分か|知ら|知り|さあ|さぁ|興味ない|どうでも|めんどくさい"
)
_ABOUT_USER = re.compile(r"\b(?:my|mine|am i|did i|do i|was i)\b|私[のはが]|僕[のはが]|俺[のはが]|自分の")
_REPEATS = re.compile(
    r"\brepeat|\b(?:[0-9]+|two|three|four|five|six|ten|twenty|fifty|hundred) times\b|\bover and over\b"
    r"|\bagain and again\b|\blyrics\b|\bchorus\b|\bchant|\bmantra\b|\bpattern\b"
    r"|繰り返|くり返|[0-9一二三四五六七八九十百]+回.{0,6}(?:書|言|入力|出力|表示|唱|並べ)|歌詞|連呼|パターン"
)
_WANTS_AGAIN = re.compile(
    r"\brepeat|\b(?:once )?again\b|\bonce more\b|\bsame\b|\b(?:sure|wrong|correct|mistake)\b|\bcop(?:y|ies)\b"
    r"|繰り返|くり返|もう一度|もう一回|再度|同じ|そのまま|本当|間違|違(?:う|い)"
)
_REWORKS = re.compile(
    r":|\n|[\"“「『]|\b(?:correct|fix|proofread|paraphras\w*|translat\w*|re(?:write|word|phrase|peat)\w*|format|grammar|say"
    r"|spell|echo|case|sort|cop(?:y|ied)|edit|punctuat\w*|improve)\b|校正|訂正|修正|翻訳|言い換え|書き直|添削|復唱"
    r"|そのまま|並べ替|直して|敬語|丁寧"
)
_AGREES = re.compile(
    r"\W*(?:yes|yeah|yep|no|nope|right|correct|true|false|indeed|exactly|sure|of course|はい|いいえ|ええ|うん|そう|いや|もちろん|正解)"
)
_TERMINAL = re.compile(
    r"(?:[.!?。！？…;；～〜♪☆★)）\]】」』”\"'’`>|}*_~#=$\-―—0-9０-９%％°℃/]|https?://\S+|[^\w\s,、（(「『\[{+&])\Z"
)
_ITEM = re.compile(r"[ \t]*(?:[-*+•・◦▪■●○◆]|[0-9]{1,3}[.)）、:]|[(（]?[0-9a-z①-⑳][)）.]|#{1,6}|\||>)\s*")
_UNFINISHED = re.compile(r"\A(?:#{1,6}\s.*|#{2,6}|[-*+•・]|[0-9]{1,3}[.)])\Z|[：:,、，]\Z")
_FORMULAS = (("\\[", "\\]"), ("\\(", "\\)"))
_LABEL_LINE = re.compile(r"[ \t]*(?:\*\*[^*]+\*\*|[^。.!?:：]{1,24}[:：])")
_DANGLING = re.compile(
    r"(?:[,、，(（「『\[{+&]|\b(?:the|an?|of|to|and|or|with|for|in|on|at|by|from|as|that|which|is|are|was|were|be|been"
    r"|has|have|had|its|their|your|our|his|than|into|while|because|such|including|can|will|would|should|could|may|not"
    r"|but|if|when|where|who|whose|more|most|very|also|these|those|this|between|about|through|during|without|like)"
    r"|(?<=[^\W\d_a-z])[はがをにへとので、も])\Z"
)
_INVENTS = re.compile(
    r"translat|english|japanese|french|spanish|german|chinese|korean|language|\bcode\b|\bpoem|\bstory|\bjoke|\bsong"
    r"|\bhaiku|\briddle|翻訳|訳して|英語|日本語|英文|和訳|英訳|フランス語|中国語|韓国語|ドイツ語|スペイン語|コード|詩|物語|小説"
    r"|冗談|ジョーク|俳句|短歌|歌|なぞなぞ"
)
_RUN = re.compile(r"(.{2,80}?)\1{2,}")
_STOPS = (".", "!", "?", "。", "！", "？", "…", "」", '"', ")", "）")
_BARE_REST, _BARE_WIDTH = 3, 400
_LOOP_READ, _LOOP_UNIT, _LOOP_SMALL, _LOOP_LENGTH, _LOOP_SHARE, _LOOP_LONG = 2000, 4, 60, 12, 0.6, 160
_SENTENCE_WIDTH, _AGAIN_SHARE = 12, 0.4
_GRAM_WORDS, _GRAM_JAPANESE, _GRAMS_NEEDED, _GRAMS_AGAIN = 3, 6, 24, 0.5
_ECHO_WIDTH, _ECHO_NEAR = 12, 0.9
_REPETITION_WIDTH, _REPETITION_LONG, _SAME_QUESTION = 44, 120, 0.8
_REPETITION_NEAR, _REPETITION_SAME = 0.78, 0.9
_CUT_WIDTH, _DANGLING_WIDTH, _LINE_WIDTH, _LINES_ENDED = 64, 40, 16, 0.7
_STRAY_SHARE, _STRAY_SAID, _STRAY_LONG, _STRAY_ASKED, _BEGINNING = 0.08, 4, 8, 2, 5


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


def without_demands(answer: str) -> str:
    """The answer without sentences that tell a judge what to say; they count for nothing."""
    parts = sentences(answer)
    kept = [part for part in parts if not _DEMAND.search(normal(part))]
    return answer if len(kept) == len(parts) else "\n".join(kept)


def sentences(text: str) -> list[str]:
    """The sentences and lines of a text, without empty ones."""
    return [part for part in _SENTENCE_ENDS.split(text) if part and part.strip()]


def width(text: str) -> int:
    """The length of a text in Latin letters; a Japanese character tells about as much as two."""
    return len(text) + len(_JAPANESE.findall(text))


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
    refused = [part for part in parts if _REFUSAL.search(part)]
    if not refused:
        return None
    rest = [part for part in parts if part not in refused and not _COURTESY.search(part)]
    bare = not _GROUNDS.search(answer) and sum(len(units(part)) for part in rest) <= _BARE_REST
    return Signal(
        name="refusal",
        certain=bare and width(answer) <= _BARE_WIDTH,
        score=0.2 if bare else 0.85,
        reason="The answer refuses the request." if bare else "The answer declines in part.",
    )


def _ignorance(exchange: Exchange) -> Signal | None:
    answer = normal(exchange.answer)
    if not (_KNOWS_NOTHING.fullmatch(answer) and _KNOWING_NOTHING.search(answer)):
        return None
    honest = _ABOUT_USER.search(normal(exchange.question)) is not None
    return Signal(
        name="refusal",
        certain=not honest,
        score=0.4 if honest else 0.15,
        reason="The answer only says that it does not know.",
    )


def _loop(exchange: Exchange) -> Signal | None:
    answer = _FENCED.sub("\n", normal(exchange.answer))
    if max(_repeated_unit(answer), _repeated_sentences(answer), _repeated_words(answer)) < 1:
        return None
    wanted = _REPEATS.search(normal(exchange.question)) is not None
    return Signal(
        name="loop",
        certain=not wanted,
        score=0.7 if wanted else 0.1,
        reason="The answer repeats itself.",
    )


def _repeated_unit(answer: str) -> float:
    """How far beyond the limit one unit follows itself; 1 is the limit."""
    text = squeezed(answer)[-_LOOP_READ:]
    found = max(_RUN.finditer(text), key=lambda match: len(match[0]), default=None)
    if found is None or found[1].isdigit():
        return 0.0
    length = len(found[0])
    small = len(found[1]) < _LOOP_UNIT and width(found[0]) < _LOOP_SMALL
    if small or length < _LOOP_LENGTH:
        return 0.0
    return max(length / len(text) / _LOOP_SHARE, width(found[0]) / _LOOP_LONG)


def _repeated_sentences(answer: str) -> float:
    """How far beyond the limit sentences come again; 1 is the limit."""
    said = [squeezed(part) for part in sentences(answer)]
    said = [part for part in said if width(part) >= _SENTENCE_WIDTH]
    total = sum(map(len, said))
    again = sum(len(part) * (count - 1) for part, count in Counter(said).items())
    return again / total / _AGAIN_SHARE if total else 0.0


def _repeated_words(answer: str) -> float:
    """How far beyond the limit word triples come again; 1 is the limit."""
    words = re.findall(r"[^\W\d_]|\d+" if _JAPANESE.search(answer) else r"\w+", answer)
    size = _GRAM_JAPANESE if _JAPANESE.search(answer) else _GRAM_WORDS
    grams = list(zip(*(words[start:] for start in range(size)), strict=False))
    if len(grams) < _GRAMS_NEEDED:
        return 0.0
    return (1 - len(set(grams)) / len(grams)) / _GRAMS_AGAIN


def squeezed(text: str) -> str:
    """The letters and digits of a normal text."""
    return "".join(re.findall(r"[^\W_]+", text))


def similarity(one: str, other: str) -> float:
    """Share of character grams that two squeezed texts have in common, from 0 to 1."""
    size = 2 if _JAPANESE.search(one) else 4
    first, second = (
        Counter(text[i : i + size] for i in range(len(text) - size + 1)) for text in (one, other)
    )
    total = first.total() + second.total()
    return 2 * (first & second).total() / total if total else float(one == other)


def _echo(exchange: Exchange) -> Signal | None:
    question, answer = normal(exchange.question), normal(exchange.answer)
    asked, said = squeezed(question), squeezed(answer)
    if width(asked) < _ECHO_WIDTH or not said:
        return None
    exact = question.strip() == answer.strip()
    if not exact and (_REWORKS.search(question) or _AGREES.match(answer)):
        return None
    near = exact or (_asks(question) == _asks(answer) and similarity(asked, said) >= _ECHO_NEAR)
    if not near:
        return None
    return Signal(name="echo", certain=True, score=0.1, reason="The answer repeats the question.")


def _asks(text: str) -> bool:
    return text.rstrip(" \n。.」\"”').").endswith(("?", "か", "ください", "下さい", "please"))


def _repetition(exchange: Exchange) -> Signal | None:
    question, answer = normal(exchange.question), _prose(exchange.answer)
    if width(answer) < _REPETITION_WIDTH:
        return None
    asked = squeezed(question)
    again = [
        similarity(answer, _prose(earlier_answer))
        for earlier_question, earlier_answer in exchange.earlier
        if similarity(asked, squeezed(normal(earlier_question))) < _SAME_QUESTION
    ]
    near = _REPETITION_NEAR if width(answer) >= _REPETITION_LONG else _REPETITION_SAME
    if max(again, default=0.0) < near:
        return None
    wanted = _WANTS_AGAIN.search(question) is not None
    return Signal(
        name="repetition",
        certain=not wanted,
        score=0.6 if wanted else 0.25,
        reason="The answer repeats an earlier answer to another question.",
    )


def _prose(text: str) -> str:
    """The letters outside code blocks: code may well come again with one line changed."""
    return squeezed(normal(_FENCED.sub("\n", text)))


def _truncation(exchange: Exchange) -> Signal | None:
    if exchange.truncated:
        reason = "The provider cut the answer off at its length limit."
    elif len(_FENCE.findall(exchange.answer)) % 2:
        reason = "The answer's last code block is never closed."
    elif stops_short(exchange.answer) and not _is_casual(exchange):
        reason = "The answer stops in the middle of a sentence."
    else:
        return None
    return Signal(name="truncation", certain=True, score=0.4, reason=reason)


def _is_casual(exchange: Exchange) -> bool:
    """Whether earlier answers, or this one's other sentences, do without stops or capitals."""
    earlier = [answer for _, answer in exchange.earlier if width(answer) >= _LINE_WIDTH]
    starts = [part.lstrip() for part in sentences(_FENCED.sub("\n", exchange.answer))]
    small = sum(part[:1].islower() for part in starts)
    return any(not _ends(answer.rstrip()) for answer in earlier) or small * 2 > len(starts)


def _ends(line: str) -> bool:
    return _TERMINAL.search(line) is not None or line.split()[-1].startswith(("#", "@", "http"))


def stops_short(answer: str) -> bool:
    """Whether a long answer breaks off before its last sentence ends."""
    lines = [line.strip() for line in _FENCED.sub("\n```\n", answer).splitlines() if line.strip()]
    if not lines or width(answer) < _DANGLING_WIDTH:
        return False
    last = lines[-1]
    if last.count("**") % 2 or _UNFINISHED.search(last) or _unclosed_formula(answer):
        return True
    dangles = _DANGLING.search(last.lower()) is not None
    if not dangles and (_ends(last) or width(answer) < _CUT_WIDTH):
        return False
    return _others_end(last, lines[:-1], otherwise=dangles or len(sentences(last)) > 1)


def _unclosed_formula(answer: str) -> bool:
    return any(answer.count(opens) > answer.count(closes) for opens, closes in _FORMULAS)


def _others_end(last: str, before: list[str], *, otherwise: bool) -> bool:
    """Whether lines of the last one's kind end as sentences do, so that it should have, too."""
    item = _ITEM.match(last) is not None
    alike = [line for line in before if (_ITEM.match(line) is not None) == item]
    alike = [line for line in alike if width(line) >= _LINE_WIDTH and not line.endswith((":", "："))]
    if alike:
        ended = sum(line.endswith(_STOPS) if item else _ends(line) for line in alike)
        return ended / len(alike) >= _LINES_ENDED
    return otherwise or (not item and width(last) >= _CUT_WIDTH)


def _off_topic(exchange: Exchange) -> Signal | None:
    """No shared word is one sign; an answer that long without one is the second."""
    shared = overlap(exchange)
    stray = shared.with_context <= _STRAY_SHARE * shared.said and not shared.with_question
    if not stray or shared.said < _STRAY_SAID or not shared.asked:
        return None
    question, answer = normal(exchange.question), normal(exchange.answer)
    if _INVENTS.search(question):
        return None
    other_language = bool(_JAPANESE.search(question)) != bool(_JAPANESE.search(answer))
    long = shared.said >= _STRAY_LONG and shared.asked >= _STRAY_ASKED
    return Signal(
        name="off_topic",
        certain=other_language or long,
        score=0.3 if long else 0.45,
        reason="The answer shares no word with the question or the talk before it.",
    )


def _distinct(text: str) -> list[Unit]:
    return list({unit.whole: unit for unit in units(text)}.values())


def _known(texts: Iterable[str]) -> frozenset[str]:
    """The terms of texts, and the beginnings of their longer words: `anxi…` meets `anxious`."""
    terms = frozenset(term for text in texts for term in vocabulary(text))
    return terms | {_beginning(term) for term in terms}


def _beginning(term: str) -> str:
    return f"{term[:_BEGINNING]}…" if term.isascii() and len(term) >= _BEGINNING else term


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
