"""Terms by which messages are found: words between spaces, pairs of characters elsewhere.

Latin words are reduced to their stem; identifiers count as a whole and by their parts. In Japanese,
Chinese and Korean every two neighbouring characters are a term, and so is a single Han character
among kana, which is mostly a word.
"""

import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

from langchain_core.messages import AnyMessage

from unsay.messages.content import calls_of, text_of

_STOP = """
a about after again all also am an and any are aren as at be because been before being but by can
could couldn d did didn do does doesn doing don done down each for from had hadn has hasn have haven
having he her here hers him his how i if in into is isn it its just ll m may me might mine more most
must my no nor not of off on once only or other our ours out over own re s same shall she should
shouldn so some such t than that the their theirs them then there these they this those to too under
up us ve very was wasn we were weren what when where which who whom whose why will with won would
wouldn you your yours
"""

STOP_WORDS = frozenset(_STOP.split())  # words that any two messages share; they are not indexed
_IRREGULAR = """
become became; begin began begun; bend bent; bite bit bitten; bleed bled; blow blew blown; break
broke broken; breed bred; bring brought; build built; buy bought; catch caught; choose chose
chosen; come came; deal dealt; die died dying; dig dug; draw drew drawn; dream dreamt; drive drove
driven; eat ate eaten; fall fell fallen; feed fed; feel felt; fight fought; find found; fly flew
flown; forget forgot forgotten; forgive forgave forgiven; freeze froze frozen; get got gotten; give
gave given; go goes going went gone; grow grew grown; hang hung; hear heard; hide hid hidden; hold
held; keep kept; know knew known; lay laid; lead led; learn learnt; leave left; lend lent; lie lay
lain lied lying; lose lost; make made; mean meant; meet met; pay paid; ride rode ridden; rise rose
risen; run ran; say said; see saw seen; seek sought; sell sold; send sent; shake shook shaken;
shoot shot; show shown; sing sang sung; sit sat; sleep slept; speak spoke spoken; spend spent;
stand stood; steal stole stolen; stick stuck; strike struck; swear swore sworn; swim swam swum;
take took taken; teach taught; tear tore torn; tell told; think thought; throw threw thrown;
understand understood; use used using; wake woke woken; wear wore worn; win won; write wrote
written; child children; foot feet; life lives; man men; mouse mice; person people; tooth teeth;
wife wives; woman women; good better best; bad worse worst
"""

# Irregular forms, with their base form.
IRREGULAR = {
    form: base
    for base, *forms in (line.split() for line in _IRREGULAR.split(";"))
    for form in forms
}
_KIN = """
pet: dog cat puppy kitten hamster turtle bird fish rabbit bunny horse; animal: dog cat horse bird
cow rabbit fish bear; job: work career occupation profession employ hire boss office company
position; career: job work profession; vehicle: car truck bike motorcycle van bus drive; sport: run
swim soccer football tennis basketball baseball hockey ski golf yoga gym climb race; exercise: run
gym yoga swim workout walk; instrument: guitar piano violin drum flute accordion cello trumpet
saxophone; music: song band concert sing album listen; family: mother mom father dad sister brother
son daughter aunt uncle cousin grandmother grandma grandfather grandpa wife husband parent child;
parent: mother mom father dad; sibling: sister brother; partner: husband wife boyfriend girlfriend
spouse fiance; marry: wedding husband wife bride engaged; child: kid son daughter baby toddler;
die: pass death funeral loss; food: eat cook dish meal recipe dinner lunch restaurant bake; drink:
tea coffee beer wine juice; hobby: enjoy love fun paint read garden cook hike craft collect; art:
paint draw sketch sculpture gallery museum; book: read novel author story; movie: film watch
cinema; film: watch cinema; school: class study teacher student college university degree exam;
degree: college university graduate major; study: college university exam course; travel: trip
visit fly vacation journey tour; vacation: trip holiday beach; trip: visit vacation flight; home:
house apartment flat live move; hometown: home grow live; live: house apartment move; country: move
live born; health: doctor hospital sick surgery injury pain disease; illness: sick disease cancer
hospital doctor; injury: hurt break tear sprain hospital pain; money: pay buy cost price save sell
afford; buy: purchase get shop order; begin: start; like: love enjoy favorite; favorite: love good;
fear: afraid scared; happy: glad excited proud; sad: upset cry; gift: give present birthday receive
get; prize: win award medal trophy ribbon; win: award medal trophy place; celebrate: party birthday
dinner; event: festival party concert conference show; friend: meet buddy; age: old year; color:
red blue green yellow black white purple pink orange colour; colour: red blue green yellow black
white purple pink orange; name: call; clothes: wear dress shirt shoe jacket; plan: going want next;
goal: want hope dream plan; dream: want hope wish; adopt: shelter rescue; volunteer: help charity
shelter; charity: donate raise fund; religion: church god pray faith
"""

_ANSWERS = """
when: yesterday today tonight tomorrow last next week weekend month year ago monday tuesday
wednesday thursday friday saturday sunday january february march april june july august september
october november december summer winter spring morning evening recently soon; where: city town
country street place beach park house restaurant; long: year month week day hour ago; often: week
month day year time; many: one two three four five six seven eight nine ten dozen couple few
"""

# Characters of a message that are indexed, half from either end: a pasted file costs little.
TEXT_LIMIT = 40_000
# Weight of a word related to a word of the question, which counts 1. Source: own measurement.
KIN_WEIGHT = 0.2
ANSWER_WEIGHT = 0.1  # weight of a word that often answers such a question
_RUNNING = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7a3々〆"

_RUN = re.compile(rf"[{_RUNNING}]")
_TOKENS = re.compile(rf"[{_RUNNING}]+|[^\W_{_RUNNING}]+(?:_+[^\W_{_RUNNING}]+)*")
_HAN = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_LONE = re.compile(rf"(?<![{_HAN}])[{_HAN}](?![{_HAN}])")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|_+")
_CONTRACTED = re.compile(r"(?<=\w)['’](?:s|t|d|m|re|ve|ll)\b", re.IGNORECASE)
_SHORTEST = 3
_DERIVATIONS = re.compile(
    r"(?:ational|ization|fulness|[ai]tion|ment|ness|[ae]nce?|[ai]bl|ful|ist|er|or|li|ion|al|i[vc])$"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """The terms to look for."""

    weights: Mapping[str, float]  # 1 for terms of the question, less for related ones
    words: Mapping[str, str]  # the word of the question that each term comes from


def terms(text: str) -> list[str]:
    """Return the terms of a text, in order and with repetitions, without English stop words.

    Of a text of more than `TEXT_LIMIT` characters only the two ends count.

    >>> terms("She was running parse_config twice")
    ['run', 'parseconfig', 'pars', 'config', 'twic']
    >>> terms("京都の宿")
    ['京都', '都の', 'の宿', '宿']
    """
    return [term for token in _tokens(text) for term in _terms_of(token)]


def terms_of(message: AnyMessage) -> list[str]:
    """Return the terms of a message's text and of the names and arguments of its tool calls."""
    calls = (f" {call.name} {json.dumps(call.args, default=str)}" for call in calls_of(message))
    return terms(text_of(message) + "".join(calls))


def query_of(question: str, *, names: frozenset[str] = frozenset()) -> Query:
    """Return the terms of a question and, with less weight, terms related to them.

    `names`, terms of speakers' names, are not taken from the question, but can be related terms.
    """
    words: dict[str, str] = {}
    for token in _tokens(question):
        for term in _terms_of(token):
            if term not in names:
                words.setdefault(term, token)
    weights = dict.fromkeys(words, 1.0)
    for term, word in list(words.items()):
        for other in _related(_KIN, is_kin=True).get(term, ()):
            words.setdefault(other, word)
            weights.setdefault(other, KIN_WEIGHT)
    for word in _tokens(question):
        for other in _related(_ANSWERS, is_kin=False).get(word.lower(), ()):
            words.setdefault(other, word)
            weights.setdefault(other, ANSWER_WEIGHT)
    return Query(weights=weights, words=words)


@cache
def _related(table: str, *, is_kin: bool) -> Mapping[str, Sequence[str]]:
    """Return the words of a table, each with the stems of the words related to it.

    With `is_kin` the keys are stems, and a row's first word is related to the others and they to
    it.
    """
    # Kin go both ways and are looked up by stem; answers by the question's own word.
    relations: dict[str, list[str]] = {}
    for row in table.split(";"):
        word, others = row.strip().split(":")
        for other in others.split():
            relations.setdefault(word, []).append(other)
            if is_kin:
                relations.setdefault(other, []).append(word)
    return {stem(word) if is_kin else word: list(map(stem, relations[word])) for word in relations}


def _tokens(text: str) -> list[str]:
    if len(text) > TEXT_LIMIT:
        text = f"{text[: TEXT_LIMIT // 2]} {text[-TEXT_LIMIT // 2 :]}"
    # ASCII is in NFKC already: skip a pass over the text.
    plain = text if text.isascii() else unicodedata.normalize("NFKC", text)
    if "'" in plain or "’" in plain:
        plain = _CONTRACTED.sub(" ", plain)
    return _TOKENS.findall(plain)


def _terms_of(token: str) -> Sequence[str]:
    if token.isascii() or not _RUN.match(token):
        return _words_of(token)
    pairs = [token[i : i + 2] for i in range(len(token) - 1)]
    return [*pairs, *_LONE.findall(token)] if pairs else [token]


@lru_cache(maxsize=65_536)
def _words_of(token: str) -> tuple[str, ...]:
    """Return the words of a token, and the whole token if it is an identifier."""
    pieces = [piece for piece in _HUMP.split(token) if piece]
    whole = [stem("".join(pieces).lower())] if len(pieces) > 1 else []
    words = (piece.lower() for piece in pieces)
    return (*whole, *(stem(word) for word in words if word not in STOP_WORDS))


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """Return the stem of a lower-case English word, also an irregular one; non-ASCII stays as it is.

    >>> [stem(word) for word in ("running", "ran", "cities", "painter")]
    ['run', 'run', 'citi', 'paint']
    """
    if not word.isascii():
        return word
    base = _inflected(IRREGULAR.get(word, word))
    derived = _DERIVATIONS.search(base, _SHORTEST + 1)
    return base[: derived.start()] if derived else base


def _inflected(word: str) -> str:
    if word.endswith("ies") and len(word) > len("ties"):
        word = word[:-3] + "y"
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")) and len(word) > _SHORTEST:
        word = word[:-1]
    for ending in ("ing", "ed"):
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST:
            word = word[: -len(ending)]
            # `plann` as `plan`, but `call` as it is.
            if len(word) > _SHORTEST and word[-1] == word[-2] and word[-1] not in "lsz":
                word = word[:-1]
            break
    word = IRREGULAR.get(word, word)
    # `bake` and `baking`, `city` and `cities` are one word.
    if word.endswith("e") and len(word) > _SHORTEST:
        return word[:-1]
    return word[:-1] + "i" if word.endswith("y") and len(word) >= _SHORTEST else word
