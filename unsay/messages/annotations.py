"""Annotations: what unsay stores with a message in `response_metadata["unsay"]`."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import takewhile
from typing import Any, TypeVar

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage

from unsay.messages.content import text_of
from unsay.protocols import Verdict

KEY = "unsay"  # key of the annotations in `response_metadata`, which no provider gets
DOCUMENT = "document"  # name of a user message that holds retrieved material
_ADDED = ("summary", "recalled")  # kinds of user messages that a context adds

M = TypeVar("M", bound=BaseMessage)


def annotation_of(message: BaseMessage) -> dict[str, Any]:
    """Return what unsay stored with a message, by name; an empty dict if it stored nothing."""
    annotation = message.response_metadata.get(KEY)
    # A host may write anything under our key, so any other type counts as no annotation.
    return annotation if isinstance(annotation, dict) else {}


def annotate(message: M, **noted: Any) -> M:
    """Return a copy of the message with these annotations added; known names are replaced."""
    metadata = {**message.response_metadata, KEY: {**annotation_of(message), **noted}}
    return message.model_copy(update={"response_metadata": metadata})


def with_annotation(message: M, annotation: Mapping[str, Any]) -> M:
    """Return a message with exactly this annotation; the message itself if it has none and gets none."""
    if not annotation and KEY not in message.response_metadata:
        return message
    metadata = {key: each for key, each in message.response_metadata.items() if key != KEY}
    plain = message.model_copy(update={"response_metadata": metadata})
    return annotate(plain, **annotation) if annotation else plain


def without(message: M, name: str) -> M:
    """Return a message without one of its annotations."""
    annotations = {key: value for key, value in annotation_of(message).items() if key != name}
    if len(annotations) == len(annotation_of(message)):
        return message
    metadata = {**message.response_metadata, KEY: annotations}
    return message.model_copy(update={"response_metadata": metadata})


def without_earlier(message: M) -> M:
    """Return a message without its annotation `earlier_answers`, the answers that a retry replaced.

    Copies of a message for a fork or a pick lack it: a retry there would show these answers to the
    model.
    """
    return without(message, "earlier_answers")


def with_verdict(message: M, verdict: Verdict, *, turn: int, topic: str, **more: Any) -> M:
    """Return a copy of a judged message with verdict, turn, topic label and `more` annotations."""
    always = ("outcome", "score", "reason", "source")
    verdict_fields = {
        name: each for name, each in asdict(verdict).items() if name in always or each
    }
    return annotate(message, **verdict_fields, turn=turn, topic=topic, **more)


def notice(text: str, message_id: str, answers: Sequence[str]) -> AIMessage:
    """Return a notice: a message that people see and that every context leaves out.

    `answers` has the ids of the messages that it answers, such as a command. Contexts leave these
    out as well.
    """
    return annotate(AIMessage(text, id=message_id), kind="notice", answers=list(answers))


def is_notice(message: BaseMessage) -> bool:
    """Return whether a message is a notice: people see it, models never do; `notice` makes it."""
    # Not `annotation_of`: this runs for every message, many times in a turn.
    annotation = message.response_metadata.get(KEY)
    return isinstance(annotation, dict) and annotation.get("kind") == "notice"


def is_document(message: BaseMessage) -> bool:
    """Return whether a message is retrieved material: a user message with the name `document`."""
    return message.type == "human" and message.name == DOCUMENT


def is_irrelevant(message: BaseMessage) -> bool:
    """Return whether a judge found a document or the result of a search irrelevant.

    `False` if none judged it.
    """
    if not message.response_metadata or not (is_document(message) or message.type == "tool"):
        return False
    return annotation_of(message).get("outcome") == "failed"


def found_nothing(messages: Iterable[BaseMessage]) -> bool:
    """Return whether there are documents or judged search results, and all of them are irrelevant.

    `False` if a document was not judged.
    """
    findings = [
        m
        for m in messages
        if is_document(m) or (m.type == "tool" and "outcome" in annotation_of(m))
    ]
    return bool(findings) and all(map(is_irrelevant, findings))


def is_question(message: BaseMessage) -> bool:
    """Return whether a message is the user's own: not a document, summary or recalled messages.

    A slash command counts as well.
    """
    if message.type != "human" or message.name == DOCUMENT:
        return False
    return not message.response_metadata or annotation_of(message).get("kind") not in _ADDED


def is_answer(message: BaseMessage) -> bool:
    """Return whether a message is an assistant's final answer: without tool calls, not a notice."""
    return isinstance(message, AIMessage) and not message.tool_calls and not is_notice(message)


def spoken(messages: Iterable[AnyMessage]) -> list[AnyMessage]:
    """Return the messages except notices and the commands that notices answer."""
    all_messages = list(messages)
    notices = [message for message in all_messages if is_notice(message)]
    if not notices:
        return all_messages
    answered_ids = {
        name for message in notices for name in annotation_of(message).get("answers", ())
    }
    return [
        message
        for message in all_messages
        if message.id not in answered_ids and not is_notice(message)
    ]


def in_turns(messages: Iterable[AnyMessage]) -> list[AnyMessage]:
    """Return the messages except notices, the commands that they answer, and what follows notices.

    After a notice, other agents of a parent graph can write messages until the next user message.
    These are left out too, but they stay if a question waited for its answer when the notice came.
    """
    all_messages = list(messages)
    spoken_ids = {message.id for message in spoken(all_messages)}
    turn_messages: list[AnyMessage] = []
    is_asked = is_noticed = False
    for message in all_messages:
        if is_notice(message):
            is_noticed = not is_asked
        elif message.id in spoken_ids:
            if message.type == "human":
                is_asked, is_noticed = True, False
            elif is_answer(message):
                is_asked = False
            if not is_noticed:
                turn_messages.append(message)
    return turn_messages


def first_questions(messages: Iterable[AnyMessage]) -> list[AnyMessage]:
    """Return the questions of the first turn: those before the first answer, which they share."""
    return [m for m in takewhile(lambda m: not is_answer(m), messages) if is_question(m)]


def answers_by_turn(
    messages: Iterable[AnyMessage], *, goes_on: bool = False
) -> list[list[AnyMessage]]:
    """Return the answers of each answered turn, oldest first: all answers up to the next question.

    A turn has several if other agents of a parent graph answer too, or if a host adds answers. With
    `goes_on` the messages follow a turn that is not among them: answers before the first question
    are of that turn and are left out.
    """
    turns: list[list[AnyMessage]] = []
    opens = not goes_on
    for message in in_turns(messages):
        if is_question(message):
            opens = True
        elif is_answer(message):
            if opens:
                turns.append([])
            if turns:
                turns[-1].append(message)
            opens = False
    return turns


def answer_of_turn(answers: Sequence[AnyMessage]) -> AnyMessage:
    """Return the answer of a turn: the first of `answers` that unsay judged, else the last one.

    `answers` has one or more messages; other agents of a parent graph or a host may have added
    some.
    """
    return next((m for m in answers if "turn" in annotation_of(m)), answers[-1])


def turn_numbers(messages: Iterable[AnyMessage], before: int = 0) -> dict[str | None, int]:
    """Return, by message id, the number of answered turns up to and including the message.

    A turn counts from its first answer on, so its question has the number of the turn before.
    `before` is the number of answered turns before the first message.
    """
    all_messages = list(messages)
    first = {answers[0].id for answers in answers_by_turn(all_messages, goes_on=before > 0)}
    numbers: dict[str | None, int] = {}
    for message in all_messages:
        before += message.id in first
        numbers[message.id] = before
    return numbers


def exchange_start(messages: Sequence[AnyMessage], answer: int) -> int:
    """Return the index where an answer's exchange starts: its first document, else its question.

    `answer` is the answer's index. It is returned if the answer has no question of its own, because
    it comes first, or after another answer or a notice.
    """
    for index in range(answer - 1, -1, -1):
        if is_question(messages[index]):
            while index > 0 and is_document(messages[index - 1]):
                index -= 1  # noqa: PLW2901 - its documents belong to the exchange
            return index
        if is_answer(messages[index]) or is_notice(messages[index]):
            break
    return answer


def answered_turns(messages: Sequence[AnyMessage]) -> list[tuple[str, AnyMessage]]:
    """Return the question's text and the answer of each answered turn, oldest first.

    The text is empty if the messages begin after the question.
    """
    answers_by_id = {each[0].id: answer_of_turn(each) for each in answers_by_turn(messages)}
    turns: list[tuple[str, AnyMessage]] = []
    question = ""
    for message in in_turns(messages):
        if is_question(message):
            question = text_of(message)
        elif message.id in answers_by_id:
            turns.append((question, answers_by_id[message.id]))
    return turns
