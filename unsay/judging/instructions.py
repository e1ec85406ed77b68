"""Detection of lasting instructions in a user's message, in English and Japanese.

A sentence counts if it says that it is for the future ("from now on", 「今後は」), forbids something
("never", 「禁止」) or asks to remember. Questions, quotations, code and requests for this time only
never count. In doubt a sentence does not count: a checkpoint too many replaces a good one.
"""

import re

from unsay.judging.vocabulary import TEXT_LIMIT, normal

_QUOTED = re.compile(
    r"```.*?(?:```|\Z)|`[^`\n]*`|^\s*>.*$|\"[^\"\n]*\"|“[^”]*”|(?<!\w)'[^'\n]*'(?!\w)|「[^」]*」|『[^』]*』",
    re.DOTALL | re.MULTILINE,
)
_SENTENCE = re.compile(r"[^.!?。\n]+(?:\.(?!\s|$)[^.!?。\n]*)*[.!?。]*")

_POLITE = (
    r"^(?:(?:ok|okay|and|also|but|so|then|oh|hey|hi|thanks|thank you|great|good|right|well|now|important|"
    r"note|rule|remember|one more thing|for the record)\b[,:;! ]*)*(?:(?:please|kindly|just)\b,? *)?"
)
_VERB = (
    r"(?:add|address|answer|ask|assume|avoid|begin|be|call|check|cite|cut|don't|do|drop|end|explain|follow|"
    r"format|give|ignore|include|keep|leave|limit|list|make|mention|never|always|only|output|prefer|put|"
    r"quote|refer|reply|respond|return|round|send|show|sign|skip|speak|spell|start|stay|stick|stop|suggest|"
    r"summarize|talk|tell|translate|treat|use|write)\b"
)
_ASKED = rf"(?:{_POLITE[1:]}(?:{_VERB}|no (?:more )?\w+|every (?:answer|reply|response)|all (?:your |the )?(?:answers|replies|responses|code)|i(?:'d| would)? (?:want|like|need|expect) you|you (?:must|should|will|are to|can(?:not|'t)|may not)|we (?:will )?(?:use|write|speak)))"
_LASTING = (
    r"(?:from now on|from here on(?: out)?|from this point on|going forward|henceforth|hereafter|"
    r"for the rest of (?:this|the|our) (?:conversation|chat|session|thread|project)|"
    r"(?:throughout|during|in) (?:this|the|our) (?:whole |entire )?(?:conversation|chat|session|thread)|"
    r"(?:in|for) (?:all|every|each|any)(?: of)?(?: your| my| our| the)? ?(?:future |further |following |later )?"
    r"(?:answers?|repl(?:y|ies)|responses?|messages?|code|examples?)|in (?:the )?future,?)"
)
_NOT_MEANT = (
    r"(?:worry|mind|know|think|bother|panic|apologi[sz]e|be (?:sorry|shy|afraid|silly|upset|mad|offended)|get me wrong|"
    r"you|we|i|they|get (?:it|why|how)|understand|see|have|feel|want|need|like|believe|care|forget|"
    r"remember|really|even|agree|quite|laugh|judge|let|miss|hesitate|tell me|be so|give up|stop)\b"
)
_THIS_ONCE = re.compile(
    r"\b(?:this time|for now|yet|right now|just once|in this (?:case|one|sentence|answer|table|file|function|example)|"
    r"this (?:one|sentence|table|file|function|paragraph|email)|today|tonight|tomorrow)\b"
)
_ENGLISH = tuple(
    re.compile(pattern)
    for pattern in (
        rf"{_POLITE}{_LASTING},? *{_ASKED}",
        rf"{_POLITE}{_ASKED}.*\b{_LASTING} *[.!]*$",
        rf"{_POLITE}(?:always|never|at all times|under no circumstances) +(?!mind\b|ever\b|the\b|been\b|had\b|have i\b|again\b|heard\b|seen\b|thought\b|knew\b|tried\b|a\b|wanted\b|in\b)\w+",
        rf"{_POLITE}(?:you (?:must|should|are to|have to|need to|shall)|i(?:'d| would)? (?:want|like|need) you to) (?:always|never)\b",
        rf"{_POLITE}you (?:must not|must never|may not|are not (?:allowed|permitted) to|are never to)\b",
        rf"{_POLITE}(?:make sure|be sure|see to it)(?: that)?(?: you| to)* (?:always|never)\b",
        rf"{_POLITE}(?:do not|don't) (?:ever )?(?!{_NOT_MEANT})\w+",
        r"^(?:(?:ok|okay|and|also|but|so|please|important)\b[,:;! ]*)*(?:remember|keep in mind|bear in mind|don't forget|do not forget|make a note|note down)(?:,|:| that\b| to\b| my\b| our\b| this\b| the following\b| i(?:'m| am)\b| we\b)",
        rf"{_POLITE}(?:every|each) time you (?:answer|reply|respond|write|cite|quote|show|give|use|suggest|translate)\b",
        rf"{_POLITE}(?:whenever|when) you (?:answer|reply|respond|write (?:code|an? answer)|cite|quote)\b.*,",
        rf"{_POLITE}(?:call me|refer to me as|address me as) (?!back\b|when\b|if\b|later\b|a\b|crazy\b|old\b|at\b|on\b)\w+",
        rf"{_POLITE}(?:it is|it's) (?:strictly )?(?:forbidden|prohibited) to\b",
        rf"{_POLITE}(?:(?:we|we've|we have) (?:have )?(?:decided|agreed) (?:to|on|that)|decision:|we(?:'ll| will| are|'re) (?:go|going) with|let's stick with|let's go with (?:option|plan|the|version)\b)",
        rf"{_POLITE}stop (?:using|adding|saying|calling|writing|apologi[sz]ing|repeating|ending|starting|asking|including)\b",
    )
)

_REQUEST = r"(?:て|で)(?:ください|下さい|くれ|ほしい|欲しい|もらえ|いただ|頂|ね|よ|ちょうだい|おいて|いこう|いきましょう)?(?:です|ますか|ると|たい)?(?:ね|よ)?"
_ENDING = (
    rf"(?:{_REQUEST}|[うくぐすつぬぶむるい](?:こと|ように|よう)(?:に)?(?:して(?:ください|下さい|ね|ほしい|くれ)?|お願い(?:します|いたします|致します|ね)?|とする|とします|です)?|"
    r"(?:を|で|は|と|に)?(?:お願い(?:します|いたします|致します|ね|したい(?:です)?)?|頼みます|頼む)|にする|とする|にします|とします|にしよう|でいきます|でいこう|"
    r"(?:する|使う|書く|言う|出す)な(?:よ)?|なさい|せよ|ましょう|べし|厳守|のみ|だけ)"
)
_TAIL = rf"{_ENDING}[。!…〜ー ]*$"
_ONCE = re.compile(
    r"今回(?:は|だけ|のみ)|今日は|今だけ|一旦|いったん|とりあえず|まだ|この(?:文|表|質問|段落|ファイル|関数|例|一文)(?:では|だけ|は|を)"
)
_NO_HARM = r"(?:心配し|気にし|遠慮し|無理し|怒ら|笑わ|誤解し|焦ら|急が|がっかりし|悪く思わ|泣か|驚か|慌て|悩ま|諦め)"
_JAPANESE = tuple(
    re.compile(pattern)
    for pattern in (
        rf"(?:今後(?:は|も|、|の(?:回答|返答|返事|説明|会話)(?:は|では))|これからは|これからも|これ以降|これより|以後|以降(?:は|、|の(?:回答|返答))|今からは|次回(?:から|以降)|次から|ここから先は|この会話では|この先は|すべての(?:回答|返答)|全ての(?:回答|返答)|毎回の?(?:回答|返答)).*{_TAIL}",
        rf"(?:必ず|常に|いつも|絶対に|毎回|決して|くれぐれも|二度と).*(?:{_REQUEST}|[うくぐすつぬぶむるい](?:こと|ように)(?:して(?:ください|下さい|ね)?|お願い(?:します)?)?|とする|とします|お願い(?:します)?|なさい|するな|せよ|使うな|書くな)[。!…〜ー ]*$",
        r"(?:覚え|記憶し|憶え|おぼえ|記録し|肝に銘じ|心に留め|念頭に置い)て(?:おい(?:て|といて)?|おけ)?(?:て)?(?:ください|下さい|くれ|ほしい|欲しい|ね|よ|いただけ|ちょうだい)?(?:です|ますか)?(?:ね|よ)?[。!…〜ー ]*$|忘れないで|忘れずに.*"
        + _TAIL,
        rf"^(?!.*{_NO_HARM}).*(?<!て)(?:ないで(?:ください|下さい|くれ|ほしい|欲しい|ね|よ|いただ)?(?:です|きたい)?(?:ね|よ)?|ないこと|ないように(?:して(?:ください|下さい|ね)?|お願いします)?|てはいけません|てはならない|ちゃだめ(?:です)?(?:よ|ね)?|てはだめ(?:です)?|のはやめて(?:ください|下さい|ね)?|はやめて(?:ください|下さい|ね)?)[。!…〜ー ]*$",
        r"^(?!.*(?:で|に|内|場所)は.*禁止)(?=.*(?:禁止|厳禁|NG|ng)(?:です|だ|とする|とします|にします|で|ね|よ|でお願いします|事項)*[。! ]*$)(?!.*(?:法律|条例|法|国|駐車|校則|寺|館内|構内|区域)).*(?:は|を|も)(?:一切|絶対に?|全面的に)?、?(?:禁止|厳禁|ng)",
        r"(?:回答|返答|返事|返信|出力|説明|文章|コード|会話)(?:で|に|の中で)は?.*(?:禁止|厳禁)(?:です|だ|とする|とします|にします|で)?[。! ]*$",
        r"と呼んで(?:ください|下さい|くれ|ね|ほしい|欲しい)?(?:です)?[。! ]*$",
        r"(?:ルール|決まり|方針|約束|前提)(?:は|として|:)、?.*" + _TAIL,
        r"(?:ことに|に)(?:しました|決めました|決めた|決まりました|決定しました|決定です|決定)(?:ので|から)?(?:ね|よ)?[。! ]*$",
    )
)


# Short messages that ask in words for what only a command does; the model can only pretend.
_WANTS_BACK = re.compile(
    r"(?:(?:can|could|would|will) you |i want to |i'd like to |let's |please )*"
    r"(?:undo|redo|revert|roll ?back|(?:go|step) back|take .{1,20} back)(?: [^?]{0,40})?\??"
    r"|[^?]{0,20}(?:戻って|戻して|取り消し|なかったことに)[^?]{0,10}"
)


def wants_back(text: str) -> bool:
    """Return whether a message asks in words to undo a turn or to go back, in one short line.

    >>> wants_back("Go back to the second question, please.")
    True
    >>> wants_back("一つ前に戻して")
    True
    """
    return bool(_WANTS_BACK.fullmatch(normal(text).strip(" .!。")))


def is_lasting(text: str) -> bool:
    """Return whether a user's message gives a lasting instruction or decision, worth a checkpoint.

    >>> is_lasting("Please always answer in French."), is_lasting("今後は敬語を使ってください。")
    (True, True)
    >>> is_lasting("Why do people always say 'from now on'?")
    False
    """
    # Only the beginning is read, so instructions after a pasted file are missed.
    unquoted = _QUOTED.sub(" x ", normal(text[:TEXT_LIMIT]))
    return any(_holds(match.group().strip(" -*・•\t()")) for match in _SENTENCE.finditer(unquoted))


def _holds(sentence: str) -> bool:
    if "?" in sentence or re.search(r"(?:か|かな|かしら|の)[。 ]*$", sentence):
        return False
    english = not _THIS_ONCE.search(sentence) and any(p.search(sentence) for p in _ENGLISH)
    return english or (not _ONCE.search(sentence) and any(p.search(sentence) for p in _JAPANESE))
