"""What a person thinks of answers: ratings, and the lessons from them."""

from collections.abc import Iterable, Mapping
from typing import Any

from langchain_core.messages import AnyMessage, ToolMessage

from unsay.conversation.memory import load_turns
from unsay.conversation.results import Rows
from unsay.conversation.thread import ThreadHandle
from unsay.effects import Steps
from unsay.generation.judge import exchange_of
from unsay.messages.annotations import (
    annotation_of,
    answer_of_turn,
    answers_by_turn,
    in_turns,
    is_question,
)
from unsay.messages.content import language_of, text_of
from unsay.operations import lessons as kept
from unsay.operations.lessons import Lesson, Rating, rate_answer, rating_of
from unsay.state import State
from unsay.verdicts import Exchange


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
    for number, question, answer, exchange in exchanges(state):
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


Answered = tuple[int, str, AnyMessage, Exchange]


def exchanges(state: State) -> Iterable[Answered]:
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
