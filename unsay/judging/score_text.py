"""The score in the prose of a judge's reply: numbers, their scales, and the sentences that state one.

A sentence counts only if it has a known form, such as `Score: 0.8` or `スコアは0.8です。`. What it
says about the number beyond that (`not`, `→`, `or`, another number) makes the score uncertain.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

OBJECT = "\ufffc"  # replaces a JSON object in the prose

_NUMBER = (
    r"(?<![0-9A-Za-z_/])(?<![0-9][.,~–〜-])"
    r"[-+]?(?:[01],[0-9]{1,2}|[0-9]++(?:\.[0-9]++)?|\.[0-9]++)(?:[eE][-+]?[0-9]{1,4})?"
    r"(?![0-9A-Za-z_]|[.,~–〜-][0-9])"
)
_VALUE = (
    rf"(?:(?P<full>[0-9]{{1,3}})[ ]?(?:点満点(?:中|で|の|のうち)?|段階(?:評価)?(?:中|で|の)?|点(?:中|のうち))[、: ]{{0,3}})?"
    r"(?:(?<![0-9.])(?P<tenths>[0-9]|10|[一二三四五六七八九十])割(?:(?P<hundredths>[0-9一二三四五六七八九])分)?"
    rf"|(?P<value>{_NUMBER})"
    r"(?:[ ]{0,3}点?[ ]{0,3}\(?(?:/|out of|of)[ ]{0,3}(?P<scale>[0-9]{1,3}(?:\.0+)?)(?![0-9]|\.[0-9]|[ ]{0,3}/)\)?点?"
    r"|[ ]{0,3}点?[ ]{0,3}\((?P<most>[0-9]{1,3})点満点\)"
    r"|[ ]{0,3}(?P<percent>%|percent|パーセント)"
    r"|[ ]{0,3}(?P<points>点)(?!満点))?)"
)
_VALUES = re.compile(_VALUE, re.IGNORECASE)
_VALUE_LINE = re.compile(
    rf"[\s(\[<「“\"']{{0,9}}{_VALUE}[\s)\]>」”\"']{{0,9}}(?:points?|stars?)?[ ]?(?:です|だ)?[.。!]?",
    re.IGNORECASE,
)
_KANJI_DIGITS = {digit: number for number, digit in enumerate("一二三四五六七八九十", 1)}

_LABEL = r"(?:score|rating|grade|verdict|quality|スコア|点数|得点|評点|採点|評価[点値]?|(?:評価|採点|判定)結果|総合点|評定)s?"
_TOTAL = r"(?:overall|total|final|合計|総合|最終)"
_IS = (
    r"(?:(?:は|が|を|として|is|of|->|→|[-–—](?=\s))[\s:=]{0,3}|[:=]|(?<=[a-z])>)?[\s\"'\[「『“*]{0,9}"
    r"(?:(?:about|around|approximately|roughly|約|およそ|~|≈)\s?)?"
)
_STATED = re.compile(
    rf"(?P<lead>[^:=]{{0,60}}?)(?<![a-z])(?:{_LABEL}['\"]?\s{{0,9}}(?:\([^()\n]{{0,24}}\)\s{{0,3}})?{_IS}"
    rf"|{_TOTAL}\s?[:=]\s?){_VALUE}[\s\"'\])」』”>]{{0,9}}(?P<tail>.*)",
    re.IGNORECASE | re.DOTALL,
)
_LABEL_FIRST = re.compile(rf"(?<![a-z]){_LABEL}|^\W*{_TOTAL}\s?[:=]", re.IGNORECASE)
LABEL_ONLY = re.compile(rf"[\w ]{{0,12}}{_LABEL}", re.IGNORECASE)

# What may precede the label in a sentence that states the judge's own score, and what may follow.
_PLAIN_LEAD = re.compile(
    r"(?:(?:the|my|our|a|an|its|final|overall|total|quality|so|thus|hence|therefore|answer|response|judge|i|would|will"
    r"|'d|'ll|give|assign|award|this|it|result|verdict|here|is|deserves"
    r"|(?:採点|評価|審査)の結果|最終|最終的な|総合|総合的な|全体|全体の|品質|回答|応答|の|判定|私の|この|本|今回の|よって|したがって|以上より|以上から"
    r"|結論として|結果)[\s_、,:]{0,3})*"
)
_PLAIN_TAIL = re.compile(
    r"(?:points?|stars?|overall|in my view|in total)?[\s*]{0,4}"
    r"(?:[^\w+±~<>=?→-]*\Z|[,;:、()（）—–\n]|-\s|(?:because|since|as|due|given|and|for (?:this|the|its) (?:answer|response|reply))\b"
    r"|(?:(?:と(?:評価|判断|採点))?(?:です|だ|であ[るり]|でした|とします|とする|と(?:なり|致し)ました|になりました|となります|になります|します|しました|する"
    r"|と(?:いた|致)します|を[付つ]け(?:ます|ました|る))(?!か|は|と(?!思|考え)))|で(?:、|\Z)|と(?:評価|判断|採点))",
    re.IGNORECASE,
)
_TAIL_DOUBTS = re.compile(
    r"\A\W*(?:no|not|nope|wait|or|rather|if|unless|which (?:is|was|would|seems)|いや|いいえ|ではな|じゃな)\b"
    r"|\b(?:wait|scratch that|or rather|just kidding)\b|\bif (?:it|the|there|this)\b"
    r"|ではな|ではあり|じゃな|→|->|=>|に(?:修正|訂正|変更)|もし",
    re.IGNORECASE,
)
_NAMED = re.compile(rf"[^\n:=0-9]{{1,30}}[:=]\s?{_VALUE}[,;.。、]?", re.IGNORECASE)
# A short sentence without a label that ends with a score may correct one, as in `Actually, 0.3.`
_ENDS_WITH_SCORE = re.compile(
    rf"[^\n]{{0,60}}?{_VALUE}(?:です|とします|にします|だ)?[.。!]?", re.IGNORECASE
)
_CRITERION = re.compile(
    rf"\W*[\w'-]+(?:[ _][\w'-]+){{0,2}}?[ _]?{_LABEL}['\"]?\s?(?:\([^()\n]{{0,24}}\)\s?)?[:=]\s?{_VALUE}",
    re.IGNORECASE,
)
_CORRECTION = re.compile(
    r"^\W*(?:(?:no|nope|wait|sorry)(?=\s*(?:[,.:;!—–-]|\Z))|(?:correction|corrected|revised|revision|scratch that"
    r"|on (?:second thoughts?|reflection))\b|(?:いや|いえ|いいえ)(?=[、,。 ]|\Z)|訂正|修正[:、しに]|撤回|やはり|やっぱり)"
    r"|\b(?:i (?:take (?:it|that) back|change my|was wrong)|changed? my mind|i (?:correct|revise|lower|raise) (?:it|this|that|the|my))\b"
    r"|(?:訂正|修正|変更|撤回)(?:し|いた)(?:ます|ました)|[下上]げます|引き[下上]げ|に(?:訂正|修正|変更)",
    re.IGNORECASE,
)
# Words before or after a text that say that it is quoted, or that it is not the judge's verdict.
_QUOTES_BEFORE = re.compile(
    r"\b(?:not|never|refuse|instead of|rather than|without|says?|said|contains?|contained|includ\w+|inject\w*|asks?|asked"
    r"|asking|demand\w*|wants?|tells?|told|tries|tried|claim\w*|wrote|writ(?:es?|ing|ten)|quot\w+|instruct\w*|request\w*"
    r"|outputs?|example|if)\b|n't\b|(?:と|を)(?:書|述|言|主張|要求|指示|求)|含|埋め込|要求|指示|例えば|例:",
    re.IGNORECASE,
)
_QUOTES_AFTER = re.compile(
    r"\A\W*(?:is (?:not|wrong|what)|isn't|would|was|should|と|という|を|が(?:含|書)|では|じゃ|は(?:誤|間違|違))",
    re.IGNORECASE,
)
_REASON_TAG = re.compile(r"<(reason|comment|理由)>.*?</\1>", re.IGNORECASE | re.DOTALL)
# A number as a formula, such as `$0.8$`; a scale beside the label, as in `Score (0-10): 4`.
_FORMULA = re.compile(r"\$\s?([0-9./]+)\s?\$|\\\(\s?([0-9./]+)\s?\\\)")
_NAMED_SCALE = re.compile(
    r"\b(score|rating)\s?\(0\s?(?:-|–|to)\s?(5|10|100)\)\s?[:=]\s?([0-9]+(?:\.[0-9]+)?)(?![0-9./])",
    re.IGNORECASE,
)
_RATED = re.compile(
    r"^(?:以上より|以上から|よって|したがって)?[、,]?\s?([0-9]+(?:\.[0-9]+)?点?)と(?:評価|採点|判定)"
    r"(?:する|します|しました|いたします)。?\s*$",
    re.MULTILINE,
)
_SCORE_TAG = re.compile(r"<(score|rating|grade)>([^<>]{1,40})</\1>", re.IGNORECASE)
_ITEM_NUMBER = re.compile(r"^[ \t]*[0-9]{1,2}[.)][ \t]+(?=\S)", re.MULTILINE)
_SENTENCE = re.compile(r"(?:[^\n.。!?！？]|\.(?=[\w/]))+[.。!?！？]*|\n|[.。!?！？]+")
_BROKEN_OFF = re.compile(
    r"(?:[,、(（「『\[{+&:：=/]|(?<![0-9.])0\.|(?-i:\b(?:the|an?|of|to|and|or|but|because|with|score is)))\s*\Z",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The score of a reply, or why it has none."""

    score: float | None
    problem: str = ""  # one clause; empty with a score


@dataclass(slots=True, kw_only=True)
class Statements:
    """The scores that a text states."""

    own: list[float | None] = field(default_factory=list)  # `None`: stated, but not a valid score
    others: set[float] = field(default_factory=set)  # in other sentences that mention a score
    criteria: int = 0  # scores for one criterion each
    problem: str = ""  # what makes every score of the text uncertain

    def reading(self) -> Reading:
        """Return the score if the text states exactly one, else the problem."""
        if self.problem:
            return Reading(score=None, problem=self.problem)
        scores = set(self.own)
        if not scores:
            missing = "scores of criteria without a total" if self.criteria else "no stated score"
            return Reading(score=None, problem=missing)
        if None in scores:
            return Reading(score=None, problem="a score without a valid value")
        known = {score for score in scores if score is not None}
        differing = sorted(known | self.others)
        if len(differing) > 1:
            listed = ", ".join(f"{score:g}" for score in differing)
            return Reading(score=None, problem=f"scores that differ: {listed}")
        return Reading(score=differing[0])


def in_words(text: str) -> str:
    """Return a reply with its scores in tags, formulas and scales written as plain sentences.

    A reason in a tag is removed.
    """
    text = _SCORE_TAG.sub(r"\nScore: \2\n", _REASON_TAG.sub(" ", text))
    text = _FORMULA.sub(r"\1\2", _NAMED_SCALE.sub(r"\1: \3/\2", text))
    return _RATED.sub(r"スコアは\1です。", text)


def score_of_value(text: str) -> float | None:
    """Return the score, from 0 to 1, of a text that is a value and nothing else, such as `8/10`.

    `None` for another text, and for a value without a certain scale or outside its scale.
    """
    return _score(_VALUE_LINE.fullmatch(text.strip()))


def is_value(text: str) -> bool:
    """Return whether a text is a value and nothing else, such as `0.8`, `8/10` or `80%`.

    The value need not be a valid score.
    """
    return _VALUE_LINE.fullmatch(text.strip()) is not None


def is_quoted(before: str, after: str) -> bool:
    """Return whether the words before or after a text say that the text is not the judge's own."""
    return bool(_QUOTES_BEFORE.search(before) or _QUOTES_AFTER.search(after))


def read_prose(prose: str) -> Statements:
    """Return the scores that a text states, as a judge writes them in sentences.

    Quotations and code are already blanked out. If the text breaks off or corrects a score, the
    result's `problem` says so, and its scores must not be used.
    """
    found = Statements()
    if _BROKEN_OFF.search(prose.rstrip()):
        found.problem = "the reply breaks off"
    quoted = False  # whether the line before announces a quotation
    for sentence in _sentences(prose):
        if _CORRECTION.search(sentence):
            found.problem = "the score is corrected"
        _read_sentence(sentence, found, quoted=quoted)
        quoted = sentence.endswith(":") and bool(_QUOTES_BEFORE.search(sentence))
    return found


def _sentences(prose: str) -> Iterator[str]:
    """Yield the sentences of a text; a label at a line's end is joined with the next line."""
    label = ""
    for match in _SENTENCE.finditer(_ITEM_NUMBER.sub("", prose)):
        sentence = f"{label} {match[0].strip()}".strip()
        if not sentence:
            continue
        if LABEL_ONLY.fullmatch(sentence.strip(" :*=-は")) and not label:
            label = sentence
            continue
        label = ""
        yield sentence


def _read_sentence(sentence: str, found: Statements, *, quoted: bool) -> None:
    if is_value(sentence) and not quoted:
        score = _score(_VALUE_LINE.fullmatch(sentence))
        if score is not None:
            found.own.append(score)
        return
    if not _LABEL_FIRST.search(sentence):
        if _NAMED.fullmatch(sentence):
            found.criteria += 1
        elif _ENDS_WITH_SCORE.fullmatch(sentence):
            found.others |= _scores_without_counts(sentence)
        return
    match = _STATED.match(sentence.lstrip(" \t{[(<,'\"→-・•:0123456789.)"))
    if match is None:
        found.others |= _scores_without_counts(sentence)
        return
    lead = match["lead"].strip(" \t{[(<,'\"→-・•:_").lower()
    score, tail = _score(match), match["tail"]
    if quoted or not _PLAIN_LEAD.fullmatch(lead):
        named = (
            not quoted
            and not _QUOTES_BEFORE.search(lead)
            and not lead.endswith(("は", "が", "の", "も"))
        )
        if named and _CRITERION.match(sentence):
            found.criteria += 1
        else:
            found.others |= _scores_without_counts(sentence)
    elif _is_certain(score, tail):
        found.own.append(score)
    else:
        found.problem = "the score is not stated plainly"


def _is_certain(score: float | None, tail: str) -> bool:
    """Return whether the rest of a sentence (`tail`) leaves no doubt about the score before it.

    With `None`, a score without a valid value, this can be `True` as well.
    """
    ending = tail.rstrip(" .。!！")
    if tail.endswith(("?", "？")) or _TAIL_DOUBTS.search(ending):
        return False
    return bool(_PLAIN_TAIL.match(ending)) and not scores_in(tail) - {score}


def _score(match: re.Match[str] | None) -> float | None:
    """Return the score from 0 to 1 of a match of `_VALUE`; `None` if its scale is not certain."""
    if match is None:
        return None
    if match["tenths"]:
        return _of_tenths(match["tenths"], match["hundredths"] or "0")
    value = float(match["value"].replace(",", "."))
    named = match["full"] or match["scale"] or match["most"]
    if named:
        scale = float(named)
    elif match["percent"]:
        scale = 100.0
    else:
        scale = _scale_of_points(match["value"], value) if match["points"] else 1.0
    in_range = 0 <= value <= scale and scale > 0
    return value / scale + 0.0 if in_range else None  # adding 0.0 turns -0.0 into 0.0


def _of_tenths(tenths: str, hundredths: str) -> float:
    first, second = (_KANJI_DIGITS.get(digit) or int(digit) for digit in (tenths, hundredths))
    return min(1.0, (first * 10 + second) / 100)


def _scale_of_points(written: str, value: float) -> float:
    """Return the scale of a number with 点: 1 for 0.8点, 10 for 2点 to 10点, 100 for more.

    It is 0 for 1点, which has no certain scale. `written` is the number as the judge wrote it. The
    caller finds that 150点 is outside its scale.
    """
    if value <= 1:
        return 1.0 if "." in written or value == 0 else 0.0
    return 10.0 if value <= 10 else 100.0


def scores_in(text: str) -> set[float]:
    """Return the scores in a text, each from 0 to 1: 8/10 and 80% are 0.8.

    Whole numbers without a scale are left out, because they may count something.
    """
    return {
        score
        for match in _VALUES.finditer(text)
        if (score := _score(match)) is not None
        and not ((match["value"] or "").isdigit() and not _names_scale(match))
    }


def _scores_without_counts(text: str) -> set[float]:
    """Return the scores in a sentence as `scores_in` does, without those such as `2点`.

    These may count points.
    """
    return scores_in(re.sub(r"(?<![0-9.])[0-9]+点(?!満点)", " ", text))


def _names_scale(match: re.Match[str]) -> bool:
    return any(match[name] for name in ("full", "scale", "most", "percent", "points"))
