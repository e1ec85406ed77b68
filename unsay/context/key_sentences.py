"""The sentences of answers that a summary made without a model quotes."""

import re
from collections.abc import Sequence

SENTENCE_CHARS = 160  # longest quoted sentence

# Words of a decision or of its reason, and of what is still open.
_DECISION = re.compile(
    r"\b(?:decid\w*|decision|agree\w*|choos\w*|chose\w*|chosen|settled?|recommend\w*|will|must|should"
    r"|use[sd]?|because|therefore|confirm\w*|book(?:ed)?|cancel\w*|approv\w*|reject\w*|instead"
    r"|deadline|plan(?:ned)?|fixed|found|cause[sd]?|open question|not yet|remains?)\b"
    r"|決定|決め|決ま|採用|選び|選択|にします|にしました|ことに(?:し|なり)|確定|合意|承認|却下|推奨|おすすめ"
    r"|予約|予定|変更|中止|原因|理由|判明|必要|べき|期限|未定|未解決|しましょう",
    re.IGNORECASE,
)
_NUMBER = re.compile(
    r"\d|(?<![一二三四五六七八九十百千万億])[一二三四五六七八九十百千万億]+(?:円|人|日|月|年|時|分|個|件|回|つ|名|泊|割|%)"
)
# A name: a capitalized word that does not begin the sentence, katakana, a quotation, or code.
_NAME = re.compile(
    r"(?<=[a-z,;:] )[A-Z][\w.-]+|\b[A-Z]{2,}\b|[ァ-ヴー]{3,}|「[^」]+」|`[^`]+`|\b\w+[_/.]\w+"
    r"|[一-龥々]{1,6}(?:さん|氏|様|市|県|駅|寺|社)"
)
_END = re.compile(r"(?<=[.!?])\s+|(?<=[。!?])|\n+")
_MARKUP = re.compile(r"^(?:[-*•#>]+|\d+[.)])\s+")


def key_sentences(answers: Sequence[str], chars: int) -> list[str]:
    """Return the most important sentences that fit into `chars`, in their order; maybe none.

    A sentence is important if it has a decision, a name or a number. If not all fit, those with
    more of these are chosen first, where a decision counts double, and of equal ones the newer.
    Each is cut to `SENTENCE_CHARS`, and 3 characters more are counted for it.
    """
    found: list[tuple[int, int, str]] = []
    for answer in answers:
        sentences = [_shortened(each) for each in _END.split(answer) if each.strip()]
        scored = [(_weight(sentence), sentence) for sentence in sentences]
        weighty = [pair for pair in scored if pair[0]]
        found += [
            (weight, len(found) + place, text) for place, (weight, text) in enumerate(weighty)
        ]
    chosen, room = set[int](), chars
    for _, place, text in sorted(found, reverse=True):
        if len(text) + 3 <= room:
            chosen.add(place)
            room -= len(text) + 3
    return list(dict.fromkeys(text for _, place, text in found if place in chosen))


def _weight(sentence: str) -> int:
    """Return the importance of a sentence, from 0 to 4.

    A decision counts 2, a number 1 and a name 1.
    """
    kinds = bool(_NUMBER.search(sentence)) + bool(_NAME.search(sentence))
    return 2 * bool(_DECISION.search(sentence)) + kinds


def _shortened(sentence: str) -> str:
    """Return a sentence on one line without list marks, at most `SENTENCE_CHARS` long.

    A longer one is cut around its first decision, number or name.
    """
    line = " ".join(_MARKUP.sub("", sentence.strip()).split())
    if len(line) <= SENTENCE_CHARS:
        return line
    telling = _DECISION.search(line) or _NUMBER.search(line) or _NAME.search(line)
    start = max(0, telling.start() - SENTENCE_CHARS // 2) if telling else 0
    start = min(start, len(line) - SENTENCE_CHARS)
    return f"{'…' if start else ''}{line[start : start + SENTENCE_CHARS - 2]}…"
