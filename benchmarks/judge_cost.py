"""What judging costs with skipping, and what it still notices, in conversations with scripted models.

`judging.py --turns` prints these figures. The questions and answers are those of a file, one
conversation after the other, until there are enough turns.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from unittest.mock import patch

from answers import CORRUPTIONS, Case
from langchain_core.messages import AIMessage, BaseMessage
from report import Figure, Figures, Hit, mean_of, share_in

from unsay import Conversation
from unsay.errors import EmptyAnswerError
from unsay.memory import lessons
from unsay.messages.content import text_of
from unsay.settings.settings import Settings
from unsay.tokens.counter import TokenCounter

# Without lessons the newest message is the question itself.
without_lessons = patch.object(lessons, "MAX_LESSONS", 0)

VERDICT = '{"score": 0.9, "consistency": 1.0, "reason": "It answers the question.", "advice": "", "blamed": []}'
"""A verdict as a judge writes it."""

LOW_SHARE = 0.2  # of the answers' tokens, with which the judge skips plainly good answers
TALKS = 6  # conversations that are played with corrupted answers
TURNS = 50  # turns of each
EVERY = 4  # of which every fourth is corrupted, from the first that may be skipped on
JUDGED = 4  # first turns of a thread, which are always judged


@dataclass(slots=True)
class Model:
    """A model with a reply for each question; it counts tokens as unsay does, which it does not report."""

    replies: Mapping[str, str]
    calls: int = 0
    tokens: int = 0

    def __call__(self, messages: list[BaseMessage]) -> AIMessage:
        """Return the reply to the newest message; `VERDICT` if it is no known question."""
        reply = AIMessage(self.replies.get(text_of(messages[-1]), VERDICT))
        self.calls += 1
        self.tokens += TokenCounter().count([*messages, reply])
        return reply


@without_lessons
def cost_figures(cases: Sequence[Case], lengths: Sequence[int]) -> Figures:
    """Return the share of judge tokens over answering tokens, and the share of skipped turns."""
    figures: dict[str, Figure] = {}
    for length in lengths:
        share, skipped = judged_share(cases, length, judge_share=LOW_SHARE)
        whole, _ = judged_share(cases, length, judge_share=1)
        figures[f"judge_share_{length}"] = Figure(value=share, items=length)
        figures[f"skipped_share_{length}"] = Figure(value=skipped, items=length)
        figures[f"judge_share_{length}_unskipped"] = Figure(value=whole, items=length)
    return figures


def judged_share(cases: Sequence[Case], length: int, **settings: object) -> tuple[float, float]:
    """Return judge tokens over answering tokens, and the share of turns without a judge's call."""
    turns = {asked(number, cases): cases[number % len(cases)] for number in range(length)}
    chat, judge = Model({text: case.exchange.answer for text, case in turns.items()}), Model({})
    with opened(chat, judge, **settings) as conversation:
        for question in turns:
            conversation.say(question)
    return judge.tokens / chat.tokens, 1 - judge.calls / length


def asked(number: int, cases: Sequence[Case]) -> str:
    """Return the question of a turn with its number; after the last case the first one follows."""
    return f"[{number}] {cases[number % len(cases)].exchange.question}"


def opened(chat: Model, judge: Model, **settings: object) -> Conversation:
    """Return a new conversation that delivers each answer at once."""
    options = Settings(topics="off", max_rollbacks=0, **settings)  # type: ignore[arg-type]
    return Conversation.open(":memory:", model=chat, judge=judge, settings=options)


@without_lessons
def played_figures(cases: Sequence[Case]) -> Figures:
    """Return which corrupted answers fail or are read in whole conversations, and which good ones are."""
    kinds: dict[str, list[Hit]] = {}
    for start in range(0, min(len(cases), TALKS * TURNS), TURNS):
        for kind, noticed in played(cases, range(start, min(start + TURNS, len(cases)))):
            kinds.setdefault(kind, []).append((str(start), noticed))
    good = kinds.pop("", [])
    return {"played_recall": mean_of(list(kinds.values())), "played_read_share": share_in(good)}


def played(cases: Sequence[Case], numbers: Sequence[int]) -> list[tuple[str, bool]]:
    """Play one conversation and return for each turn the kind of corruption and whether it is noticed.

    The kind of an answer as it was is empty. The first turns are left out: they are always judged.
    """
    names, found = list(CORRUPTIONS), []
    judge = Model({})
    chat = Model(replies := {})
    with opened(chat, judge, judge_share=LOW_SHARE) as conversation:
        for place, number in enumerate(numbers):
            question, answer, kind = asked(number, cases), cases[number].exchange.answer, ""
            if place >= JUDGED and place % EVERY == 0:
                name = names[number // EVERY % len(names)]
                # An echo has the question as it is asked, with its number.
                bad = question if name == "echo" else CORRUPTIONS[name](cases, number)
                answer, kind = (answer, "") if bad is None else (bad, name)
            replies[question], calls = answer, judge.calls
            try:
                failed = conversation.say(question).outcome == "failed"
            except EmptyAnswerError:
                failed = True
            if place >= JUDGED:
                found.append((kind, failed or judge.calls > calls))
    return found
