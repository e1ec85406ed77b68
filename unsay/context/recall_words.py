"""What recall knows of English: words that tell nothing, odd forms, and words that go together."""

from collections.abc import Iterator, Mapping

_STOP = """
a about after again all also am an and any are aren as at be because been before being but by can
could couldn d did didn do does doesn doing don done down each for from had hadn has hasn have haven
having he her here hers him his how i if in into is isn it its just ll m may me might mine more most
must my no nor not of off on once only or other our ours out over own re s same shall she should
shouldn so some such t than that the their theirs them then there these they this those to too under
up us ve very was wasn we were weren what when where which who whom whose why will with won would
wouldn you your yours
"""

STOP_WORDS = frozenset(_STOP.split())
"""Words that any two messages share; they are not indexed."""

_IRREGULAR = """
become became; begin began begun; bend bent; bite bit bitten; bleed bled; blow blew blown;
break broke broken; breed bred; bring brought; build built; buy bought; catch caught;
choose chose chosen; come came; deal dealt; die died dying; dig dug; draw drew drawn; dream dreamt;
drive drove driven; eat ate eaten; fall fell fallen; feed fed; feel felt; fight fought; find found;
fly flew flown; forget forgot forgotten; forgive forgave forgiven; freeze froze frozen;
get got gotten; give gave given; go goes going went gone; grow grew grown; hang hung; hear heard;
hide hid hidden; hold held; keep kept; know knew known; lay laid; lead led; learn learnt; leave left;
lend lent; lie lay lain lied lying; lose lost; make made; mean meant; meet met; pay paid; ride rode ridden;
rise rose risen; run ran; say said; see saw seen; seek sought; sell sold; send sent;
shake shook shaken; shoot shot; show shown; sing sang sung; sit sat; sleep slept;
speak spoke spoken; spend spent; stand stood; steal stole stolen; stick stuck; strike struck;
swear swore sworn; swim swam swum; take took taken; teach taught; tear tore torn; tell told;
think thought; throw threw thrown; understand understood; use used using;
wake woke woken; wear wore worn; win won;
write wrote written; child children; foot feet; life lives; man men; mouse mice; person people;
tooth teeth; wife wives; woman women; good better best; bad worse worst
"""

IRREGULAR = {
    form: base
    for base, *forms in (line.split() for line in _IRREGULAR.split(";"))
    for form in forms
}
"""Forms that no ending explains, with the word that they are forms of."""

_KIN = """
pet: dog cat puppy kitten hamster turtle bird fish rabbit bunny horse
animal: dog cat horse bird cow rabbit fish bear
job: work career occupation profession employ hire boss office company position
career: job work profession
vehicle: car truck bike motorcycle van bus drive
sport: run swim soccer football tennis basketball baseball hockey ski golf yoga gym climb race
exercise: run gym yoga swim workout walk
instrument: guitar piano violin drum flute accordion cello trumpet saxophone
music: song band concert sing album listen
family: mother mom father dad sister brother son daughter aunt uncle cousin grandmother grandma
family: grandfather grandpa wife husband parent child
parent: mother mom father dad
sibling: sister brother
partner: husband wife boyfriend girlfriend spouse fiance
marry: wedding husband wife bride engaged
child: kid son daughter baby toddler
die: pass death funeral loss
food: eat cook dish meal recipe dinner lunch restaurant bake
drink: tea coffee beer wine juice
hobby: enjoy love fun paint read garden cook hike craft collect
art: paint draw sketch sculpture gallery museum
book: read novel author story
movie: film watch cinema
film: watch cinema
school: class study teacher student college university degree exam
degree: college university graduate major
study: college university exam course
travel: trip visit fly vacation journey tour
vacation: trip holiday beach
trip: visit vacation flight
home: house apartment flat live move
hometown: home grow live
live: house apartment move
country: move live born
health: doctor hospital sick surgery injury pain disease
illness: sick disease cancer hospital doctor
injury: hurt break tear sprain hospital pain
money: pay buy cost price save sell afford
buy: purchase get shop order
begin: start
like: love enjoy favorite
favorite: love good
fear: afraid scared
happy: glad excited proud
sad: upset cry
gift: give present birthday receive get
prize: win award medal trophy ribbon
win: award medal trophy place
celebrate: party birthday dinner
event: festival party concert conference show
friend: meet buddy
age: old year
color: red blue green yellow black white purple pink orange colour
colour: red blue green yellow black white purple pink orange
name: call
clothes: wear dress shirt shoe jacket
plan: going want next
goal: want hope dream plan
dream: want hope wish
adopt: shelter rescue
volunteer: help charity shelter
charity: donate raise fund
religion: church god pray faith
"""

_ANSWERS = """
when: yesterday today tonight tomorrow last next week weekend month year ago monday tuesday
when: wednesday thursday friday saturday sunday january february march april june july august
when: september october november december summer winter spring morning evening recently soon
where: city town country street place beach park house restaurant
long: year month week day hour ago
often: week month day year time
many: one two three four five six seven eight nine ten dozen couple few
"""


def _pairs(table: str) -> Iterator[tuple[str, str]]:
    for line in table.strip().splitlines():
        word, others = line.split(": ")
        yield from ((word, other) for other in others.split())


def _grouped(pairs: Iterator[tuple[str, str]]) -> Mapping[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for word, other in pairs:
        found.setdefault(word, []).append(other)
    return {word: tuple(others) for word, others in found.items()}


KIN = _grouped(pair for one in _pairs(_KIN) for pair in (one, one[::-1]))
"""Words that often stand in an answer for a word of its question, and the other way round."""

ANSWERS = _grouped(_pairs(_ANSWERS))
"""Words that often stand in the answer to a question with such a word in it."""
