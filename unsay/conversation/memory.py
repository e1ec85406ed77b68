"""Pins, forgetting, summaries, recall and topics of a thread: what contexts include and leave out."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from langchain_core.messages import AnyMessage, HumanMessage, ToolMessage

from unsay.context.compaction import with_partners
from unsay.context.plan import Omission
from unsay.context.topics import by_topic, current_topic_id, pinned_ids
from unsay.conversation.navigation import settle
from unsay.conversation.thread import ThreadHandle
from unsay.effects import Steps
from unsay.errors import InputError
from unsay.generation.judge import exchange_of
from unsay.generation.relevance import judge_document
from unsay.judging.verdict import relevance
from unsay.judging.vocabulary import vocabulary
from unsay.memory import lessons as kept
from unsay.memory import visibility
from unsay.memory.lessons import Lesson, Rating, rate_answer, rating_of
from unsay.memory.manual_compaction import compact_up_to
from unsay.memory.recall import Find, ids_of, search_command
from unsay.messages.annotations import (
    annotation_of,
    answer_of_turn,
    answers_by_turn,
    in_turns,
    is_question,
)
from unsay.messages.content import language_of, text_of
from unsay.protocols import Exchange
from unsay.results.results import RollbackResult, Rows
from unsay.runtime import Scope
from unsay.state import Command, State, Update
from unsay.transcript.forget import Cause, forget_step, forget_topic, left_out, make_entry
from unsay.transcript.pending import unanswered_ids
from unsay.types import Forgotten, Operation, Pin
from unsay.verbs.dispatch import messages_needed


def pins(thread: ThreadHandle) -> Steps[tuple[Pin, ...]]:
    """List the pins, oldest first."""
    return Rows((yield from thread.known()).get("pins", []))


def pin(
    thread: ThreadHandle, message_id: str | None = None, *, turn: int | None = None
) -> Steps[tuple[Pin, ...]]:
    """Pin a message: always include it in the context, with its tool calls and results."""
    state, scope = (yield from thread.decided()), thread.scope()
    page = None
    if message_id is None:
        state, messages = yield from load_turns(thread, state, turn)
        ids = [message.id or "" for message in messages]
    else:
        ids, page = [message_id], (yield from visibility.page_with(state, scope, message_id))
    update = visibility.pin(state, scope, ids, page)
    yield from thread.write(state, scope, update)
    return Rows(update["pins"])


def unpin(
    thread: ThreadHandle, message_id: str | None = None, *, turn: int | None = None
) -> Steps[tuple[Pin, ...]]:
    """Remove a pin, or the pins of a whole turn."""
    state, scope = (yield from thread.decided()), thread.scope()
    ids = [message_id or ""]
    if message_id is None:
        state, messages = yield from load_turns(thread, state, turn)
        ids = [message.id or "" for message in messages]
    update = visibility.unpin(state, scope, ids)
    yield from thread.write(state, scope, update)
    return Rows(update["pins"])


def same_topic(thread: ThreadHandle) -> Steps[str]:
    """Say that the topic did not change, and return the label of the topic that goes on."""
    state, scope = (yield from thread.decided()), thread.scope()
    load_args = messages_needed(state, Command(verb="same", argument=""))
    state = yield from thread.reached(state, *load_args)
    update = visibility.join_topics(state, scope)
    yield from thread.write(state, scope, update)
    return update["current_topic"]


def forgotten(thread: ThreadHandle) -> Steps[tuple[Forgotten, ...]]:
    """List what is forgotten, oldest first; `restore` takes the `id` of an entry."""
    return Rows((yield from thread.known()).get("forgotten", []))


def forget(
    thread: ThreadHandle,
    what: str | None = None,
    through: str | None = None,
    *,
    turns: str | int | None = None,
    reason: str = "",
) -> Steps[Forgotten]:
    """Forget messages: never send them to a model again; the transcript keeps them."""
    if (what is None) == (turns is None):
        raise InputError(
            "Give a message or a topic, or turns=…: exactly one of the two, got "
            + ("neither" if what is None else f"{what!r} and turns={turns!r}")
        )
    state, scope = (yield from thread.settled()), thread.scope()
    cause = Cause(reason=reason, created_at=scope.now())
    if what is None:
        state, messages = yield from load_turns(thread, state, turns)
        step = visibility.forget_turns(state, messages, unanswered_ids(state), cause)
    else:
        ends = {what} if through is None else {what, through}
        state = yield from thread.reached(state, ends)
        if through is None and what not in {message.id for message in state["messages"]}:
            topic = visibility.topic_named(state, what)
            step = forget_topic(state, topic, unanswered_ids(state), cause)
        else:
            step = visibility.forget_span(state, what, through, unanswered_ids(state), cause)
    yield from commit_step(thread, state, scope, step)
    return step["forgotten"][0]


def commit_step(
    thread: ThreadHandle, state: State, scope: Scope, step: Operation
) -> Steps[RollbackResult]:
    """Commit a step that forgets messages or lets models see them again.

    In the result, `restored` is the number of messages that contexts can show again. Raises
    `ConflictError` if too much would be forgotten.
    """
    update = yield from visibility.take_step(state, scope, step)
    visible = left_out(state, state.get("forgotten", [])) - left_out(state, update["forgotten"])
    result = yield from settle(thread, state, scope, update)
    return replace(result, restored=len(visible))


def forget_tool_results(
    thread: ThreadHandle, below: float, *, question: str | None = None, reason: str = ""
) -> Steps[Forgotten]:
    """Replace irrelevant tool results in contexts by a short line; the transcript keeps them."""
    if not 0 <= below <= 1:
        raise InputError(f"tool_results_below={below!r} is not a score: give a number from 0 to 1")
    state, scope = (yield from thread.settled()), thread.scope()
    segments = state.get("segments", [])
    messages, topic = state["messages"], current_topic_id(segments) or ""
    in_topic = by_topic(messages, segments).get(topic, [])
    questions = [question] if question else [text_of(m) for m in in_topic if is_question(m)]
    pinned = {messages[i].id for i in with_partners(messages, pinned_ids(state))}
    protected_ids = {*pinned, *left_out(state, state.get("forgotten", [])), *unanswered_ids(state)}
    ids: list[str] = []
    for message in in_topic:
        if isinstance(message, ToolMessage) and message.id not in protected_ids:
            score = yield from _score(questions, message, scope)
            if score is not None and score < below:
                ids.append(message.id or "")
    cause = Cause(reason=reason or f"scored below {below!r}", created_at=scope.now())
    entry = make_entry("tool_results", ids, cause)
    if ids:
        yield from commit_step(thread, state, scope, forget_step(state, entry))
    return entry


def compact(thread: ThreadHandle, up_to: int | str | None = None) -> Steps[Omission]:
    """Summarize the messages of the context up to a turn or a checkpoint; `undo` reverses this."""
    state, scope = (yield from thread.settled()), thread.scope()
    place = "" if up_to is None else str(up_to)
    update, omission = yield from compact_up_to(state, scope, place, unanswered_ids(state))
    yield from thread.write(state, scope, update)
    return omission


def recall(thread: ThreadHandle, words: str) -> Steps[tuple[Find, ...]]:
    """Search earlier messages and add the matches to the next question's context."""
    state, scope = (yield from thread.decided()), thread.scope()
    finds = yield from search_command(state, scope, words)
    if finds:
        yield from thread.write(state, scope, Update(asked_for=list(ids_of(finds))))
    return Rows(finds)


def _score(questions: Sequence[str], result: ToolMessage, scope: Scope) -> Steps[float | None]:
    """Score from 0 to 1 how relevant a result is to the questions; `None` if that is impossible."""
    if scope.settings.judging == "model":
        question = HumanMessage("\n".join(questions))
        return (yield from judge_document(question, result, scope)).score
    words = text_of(result)
    comparable = (question for question in questions if vocabulary(question))
    return max((relevance(question, words).score for question in comparable), default=None)


def load_turns(
    thread: ThreadHandle, state: State, turns: str | int | None
) -> Steps[tuple[State, list[AnyMessage]]]:
    """Load the named turns and commit this; return the state, and the messages of these turns.

    `turns` is a number, a range such as `3-5`, or `None` for the newest turn. Raises `InputError`
    for another text, `UnknownTurnError` if there is no such answered turn, `DatabaseCorruptError`
    if an offloaded segment is missing or damaged.
    """
    argument = None if turns is None else str(turns)
    state = yield from thread.reached(state, (), visibility.turns_needed(state, argument))
    return state, visibility.turns_named(state, argument, unanswered_ids(state))


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
