"""Tokens of the judge beside those of the answers, in a conversation with scripted models.

`judging.py --turns` prints these figures. The questions and answers are those of a file, one
conversation after the other, until there are enough turns.
"""

from collections.abc import Iterator, Sequence

from langchain_core.messages import AIMessage
from report import Figure, Figures

from unsay import Conversation
from unsay.settings import Settings
from unsay.testing import ScriptedChat, ScriptedJudge
from unsay.testing.scripted_models import Scripted
from unsay.tokens.counter import TokenCounter

Turn = tuple[str, str]

EVERY = 4  # the setting `judge_every` with which skipping is measured

VERDICT = '{"score": 0.9, "consistency": 1.0, "reason": "It answers the question.", "advice": "", "blamed": []}'
"""A verdict as a judge writes it."""


def cost_figures(turns: Sequence[Turn], lengths: Sequence[int]) -> Figures:
    """Return the share of judge tokens over answering tokens, and the share of skipped turns."""
    figures: dict[str, Figure] = {}
    for length in lengths:
        chosen = list(repeated(turns, length))
        share, _ = judged_share(chosen)
        sampled, skipped = judged_share(chosen, judge_every=EVERY)
        figures[f"judge_share_{length}"] = Figure(value=share, items=length)
        figures[f"judge_share_{length}_every_{EVERY}"] = Figure(value=sampled, items=length)
        figures[f"skipped_share_{length}_every_{EVERY}"] = Figure(value=skipped, items=length)
    return figures


def repeated(turns: Sequence[Turn], length: int) -> Iterator[Turn]:
    """Yield so many turns, again from the first if there are fewer; each question is numbered."""
    for number in range(length):
        question, answer = turns[number % len(turns)]
        yield f"[{number}] {question}", answer


def judged_share(turns: Sequence[Turn], **settings: object) -> tuple[float, float]:
    """Return judge tokens over answering tokens, and the share of turns without a judge's call."""
    chat = ScriptedChat(replies=dict(turns))
    judge = ScriptedJudge()
    options = Settings(topics="off", max_rollbacks=0, **settings)  # type: ignore[arg-type]
    with Conversation.open(":memory:", model=chat, judge=judge, settings=options) as conversation:
        for question, _ in turns:
            conversation.say(question)
    answers = [AIMessage(answer) for _, answer in turns]
    verdicts = [AIMessage(VERDICT) for _ in judge.calls]
    spent, judged = tokens_of(chat, answers), tokens_of(judge, verdicts)
    return judged / spent, 1 - len(judge.calls) / len(turns)


def tokens_of(model: Scripted, replies: Sequence[AIMessage]) -> int:
    """Return the tokens of all requests to a scripted model, and of its replies."""
    counter = TokenCounter()
    sent = sum(counter.count(messages) for messages in model.calls)
    return sent + sum(counter.count([reply]) for reply in replies)
