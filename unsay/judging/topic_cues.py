"""What the wording of a question tells about its topic, in English and Japanese."""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

from unsay.judging.vocabulary import known_terms, normal, units
from unsay.protocols import TopicMemory

_ENOUGH_TO_EXPLAIN = 2  # content words from which a text explains its own references

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
ASKS = re.compile(
    r"(?:\?|どうですか。?|ください。?|でしょうか。?|ますか。?)[\s\"')」]*$"
    r"|\b(?:please|go ahead and|could you|let me know)\b[^.?!]*[.?!]\W*$"
)

# Kinds of services: a question about another kind than before asks for something new.
SERVICES: Mapping[str, re.Pattern[str]] = {
    "bed": re.compile(
        r"\b(?:hotels?|guest ?houses?|hostels?|accommodations?|(?:places?|somewhere) to stay|lodging)\b"
        r"|ホテル|宿|旅館"
    ),
    "food": re.compile(
        r"\b(?:restaurants?|(?:place|somewhere|where) to (?:eat|dine)|dining|cafes?|eat(?:ery)?)\b"
        r"|飲食店|レストラン|食事|居酒屋|カフェ|食べ"
    ),
    "sight": re.compile(
        r"\b(?:attractions?|museums?|theat(?:re|er)s?|tourist|sightseeing|landmarks?"
        r"|(?:places?|things) to (?:visit|see|do))\b|観光|名所"
    ),
    "taxi": re.compile(r"\b(?:taxis?|cabs?|a ride)\b|タクシー"),
    "train": re.compile(r"\b(?:trains?|railway)\b|電車|新幹線"),
    "bus": re.compile(r"\bbus(?:es)?\b|バス"),
    "flight": re.compile(r"\b(?:flights?|fly|planes?|airlines?)\b|飛行機|航空"),
    "car": re.compile(r"\b(?:rental|rent(?:ing)?(?: an?)?) cars?\b|レンタカー"),
    "weather": re.compile(r"\b(?:weather|forecast)\b|天気|気温|予報"),
    "film": re.compile(r"\b(?:movies?|films?|cinema)\b|映画"),
    "event": re.compile(
        r"\b(?:concerts?|events?|shows?|games?|match)\b|イベント|コンサート|ライブ"
    ),
    "music": re.compile(r"\b(?:songs?|music|album)\b|音楽|曲"),
    "health": re.compile(
        r"\b(?:doctors?|dentists?|therapists?|hospitals?|physician|dermatologist|gynecologist"
        r"|psych\w+)\b|病院|医者|歯科"
    ),
    "hair": re.compile(r"\b(?:hair|salons?|stylists?)\b|美容"),
    "bank": re.compile(r"\b(?:bank|transfer|balance|savings|checking)\b|銀行|振込"),
    "home": re.compile(r"\b(?:apartments?|house|property|properties)\b|部屋探し|物件"),
    "time": re.compile(
        r"\b(?:calendar|reminders?|alarms?|appointments?|schedule)\b|リマインダ|アラーム"
    ),
    "shop": re.compile(r"\b(?:shops?|shopping|store)\b|ショッピング|買い物|お店"),
}
ALSO = re.compile(
    r"\b(?:also|as well|too|additionally|in addition|another thing|one more)\b"
    r"|も(?:探|調|教|お願い|予約|知り|案内|検索|ほし|欲し)|また、|あと、|それと|加えて"
)


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


# Something that the conversation knows: `this drug`, but not `this weekend` or `this sentence`.
_KNOWN_THING = re.compile(
    rf"\b(?:this|these|the same)\s+(?!{_THING}\b|(?:way|time|kind|case|problem|question|regard|task"
    r"|situation|paper|passage|number|scenario|quarter|year|week(?:end)?|month|morning|afternoon"
    r"|evening|summer|winter|spring|season)s?\b)([a-z-]{3,}(?: [a-z-]{3,})?)"
    r"|この([^\s、。]{2,6})"
)
_FEW_WORDS = 25  # words up to which a question does not explain what it points at


def points_elsewhere(question: str, current: TopicMemory) -> bool:
    """Return whether a short question points at a thing, such as `this drug`, that its topic lacks.

    `False` for a longer question, which explains what it points at.
    """
    text = normal(question)
    match = _KNOWN_THING.search(text)
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
    plain = _DUMMY.sub(" ", text)
    reference = CUES["reference"].search(plain)
    if reference is not None:
        before = len(units(plain[: reference.start()]))
        closes = not plain[reference.end() :].strip(" ?.!。か")
    if reference is None or (before and not (closes and before < _ENOUGH_TO_EXPLAIN)):
        cues.discard("reference")
    return frozenset(cues)
