"""Judgements of a thread after the fact: ratings, lessons, scores of old answers, and bisection."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from langchain_core.messages import AnyMessage, ToolMessage

from unsay.conversation.memory import load_turns
from unsay.conversation.results import Rows, counted
from unsay.conversation.thread import ThreadHandle
from unsay.effects import Steps
from unsay.errors import UnknownTurnError
from unsay.generation.judge import exchange_of, judge_exchange
from unsay.messages.annotations import (
    annotation_of,
    answer_of_turn,
    answers_by_turn,
    in_turns,
    is_question,
)
from unsay.messages.content import language_of, text_of
from unsay.operations import lessons as kept
from unsay.operations import visibility
from unsay.operations.commands import score_text
from unsay.operations.lessons import Lesson, Rating, rate_answer, rating_of
from unsay.state import State
from unsay.types import Printed
from unsay.verdicts import Exchange, Verdict

SHOWN_EXCHANGES = 10
"""Earlier exchanges that a judge is shown of each beginning of the thread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedTurn:
    """The verdict on the answer of one turn, given now."""

    turn: int
    question: str
    verdict: Verdict

    def __str__(self) -> str:
        words = f"{self.turn}. {score_text(self.verdict.score)}  {self.verdict.outcome}"
        return f"{words}  {self.question}\n   {self.verdict.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bisection(Printed):
    """The first turn from which a thread fails.

    Attributes:
        turn: Its number; `None` if the whole thread passes, or its last answer could not be judged.
        reason: The judge's reason there, or why the last answer could not be judged; empty if the
            thread passes.
        confirmed: Whether the thread still fails with one turn more; also `True` for the last turn,
            and if the thread passes. `False` if the last answer could not be judged.
        judgements: How many beginnings were judged.
        turns: How many turns the thread has.
    """

    turn: int | None
    reason: str
    confirmed: bool
    judgements: int
    turns: int

    @property
    def to_roll_back(self) -> int:
        """The number for `rollback(turns=…)` to go back to before the turn; 0 without a turn."""
        return 0 if self.turn is None else self.turns - self.turn + 1

    def __str__(self) -> str:
        effort = f"({counted(self.judgements, 'judgement')} of {counted(self.turns, 'turn')})"
        if self.turn is None and not self.confirmed:
            return f"The last answer could not be judged {effort}: {self.reason}"
        if self.turn is None:
            return f"No turn fails {effort}"
        return f"It went wrong in turn {self.turn} {effort}: {self.reason}"


def rate(thread: ThreadHandle, turn: int, label: str, *, note: str = "") -> Steps[Rating]:
    """Rate the answer of a turn; ratings are labels for `unsay calibrate`."""
    state = yield from thread.decided()
    state, messages = yield from load_turns(thread, state, turn)
    scope = thread.scope()
    update = rate_answer(messages, scope, label, note)
    yield from thread.write(state, scope, update)
    rating = rating_of(update["messages"][0])
    assert rating is not None  # noqa: S101 - it was just given
    return rating


def ratings(thread: ThreadHandle) -> Steps[tuple[Mapping[str, Any], ...]]:
    """Return the rated turns as plain JSON, oldest first: the lines that `unsay calibrate` reads."""
    state = yield from thread.whole()
    rows = []
    for number, question, answer, exchange in _exchanges(state):
        rating = rating_of(answer)
        if rating is not None:
            rows.append(
                {
                    "thread": thread.thread_id,
                    "turn": number,
                    "message_id": answer.id,
                    "lang": language_of(question or text_of(answer)),
                    "question": question,
                    "answer": exchange.answer,
                    "earlier": [list(pair) for pair in exchange.earlier],
                    "label": rating["label"],
                    "note": rating["note"],
                    "score": annotation_of(answer).get("score"),
                    "source": annotation_of(answer).get("source"),
                }
            )
    return Rows(rows)


def import_ratings(thread: ThreadHandle, rows: Iterable[Mapping[str, Any]]) -> Steps[int]:
    """Give the ratings of rows that `ratings` returned to the turns of this thread."""
    given, found = list(rows), list(_exchanges((yield from thread.whole())))
    by_id = {answer.id: number for number, _, answer, _ in found}
    by_text = {(question, each.answer): number for number, question, _, each in found}
    count = 0
    for line in given:
        words = (line.get("question"), line.get("answer"))
        turn = by_id.get(line.get("message_id")) or by_text.get(words)  # type: ignore[arg-type]
        if turn is not None:
            yield from rate(thread, turn, str(line.get("label")), note=str(line.get("note") or ""))
            count += 1
    return count


def lessons(thread: ThreadHandle) -> Steps[tuple[Lesson, ...]]:
    """List why drafts were rejected, oldest first; later turns on the same topic are sent this."""
    return Rows(kept.lessons_in((yield from thread.known())["messages"]))


def edit_lesson(thread: ThreadHandle, lesson: str | int, text: str) -> Steps[Lesson]:
    """Change the text of a lesson, and return the lesson."""
    return (yield from _change(thread, str(lesson), text))


def remove_lesson(thread: ThreadHandle, lesson: str | int) -> Steps[Lesson]:
    """Remove a lesson, and return it; no later turn is sent it."""
    return (yield from _change(thread, str(lesson), None))


def _change(thread: ThreadHandle, name: str, text: str | None) -> Steps[Lesson]:
    state, scope = (yield from thread.decided()), thread.scope()
    lesson = kept.lesson_named(state, name)
    yield from thread.write(state, scope, kept.change_lesson(state, scope, lesson, text))
    return lesson if text is None else {**lesson, "text": text.strip()}


def judge(thread: ThreadHandle, *, turn: int | None = None) -> Steps[tuple[JudgedTurn, ...]]:
    """Score the answers of a thread again with the current judge, and return the verdicts."""
    found, scope = list(_exchanges((yield from thread.whole()))), thread.scope()
    chosen = [each for each in found if turn in (None, each[0])]
    if not chosen and turn is not None:
        raise visibility.no_turn(turn, len(found))
    judged = []
    for number, question, answer, exchange in chosen:
        key = f"judge-{answer.id}"
        verdict = yield from judge_exchange(exchange, answer, scope, key=key)
        judged.append(JudgedTurn(turn=number, question=question, verdict=verdict))
    return Rows(judged)


def bisect(thread: ThreadHandle) -> Steps[Bisection]:
    """Find the turn from which the thread went wrong; nothing is rolled back."""
    found, scope = list(_exchanges((yield from thread.whole()))), thread.scope()
    if not found:
        raise UnknownTurnError("The conversation has no turns yet: ask a question first")
    verdicts: dict[int, Verdict] = {}
    earlier = [(question, exchange.answer) for _, question, _, exchange in found]
    turns = len(found)

    def fails(number: int) -> Steps[bool]:
        if number not in verdicts:
            _, _, answer, exchange = found[number - 1]
            before = tuple(earlier[max(0, number - 1 - SHOWN_EXCHANGES) : number - 1])
            whole = replace(exchange, earlier=before, earlier_ids=())
            key = f"bisect-{answer.id}"
            verdicts[number] = yield from judge_exchange(whole, answer, scope, key=key)
        return verdicts[number].outcome == "failed"

    if not (yield from fails(turns)):
        is_judged = verdicts[turns].outcome != "unscored"
        reason = "" if is_judged else verdicts[turns].reason
        return Bisection(
            turn=None, reason=reason, confirmed=is_judged, judgements=len(verdicts), turns=turns
        )
    good, bad = 0, turns
    while bad - good > 1:
        middle = (good + bad) // 2
        if (yield from fails(middle)):
            bad = middle
        else:
            good = middle
    # Two beginnings before it, one by one: a single good answer may hide an earlier fault.
    for number in range(bad - 1, max(0, bad - 4), -1):
        if (yield from fails(number)):
            bad = number
    confirmed = bad == turns or (yield from fails(bad + 1))
    return Bisection(
        turn=bad,
        reason=verdicts[bad].reason,
        confirmed=confirmed,
        judgements=len(verdicts),
        turns=turns,
    )


_Answered = tuple[int, str, AnyMessage, Exchange]


def _exchanges(state: State) -> Iterable[_Answered]:
    """Yield each answered turn: its number, question (maybe empty), answer, and what a judge is sent."""
    messages = in_turns(state["messages"])
    places = {message.id: place for place, message in enumerate(messages)}
    start = 0
    for number, answers in enumerate(answers_by_turn(messages), 1):
        answer = answer_of_turn(answers)
        steps = messages[start : places[answer.id]]
        question = next((m for m in reversed(steps) if is_question(m)), None)
        tools = [m for m in steps if isinstance(m, ToolMessage) or m.type == "ai"]
        exchange = exchange_of(question, answer, messages[:start], tools)
        yield number, exchange.question, answer, exchange
        start = places[answers[-1].id] + 1
