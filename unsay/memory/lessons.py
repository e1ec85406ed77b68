"""Lessons: why drafts were rejected, kept with the answer that followed, for later turns.

A lesson is stored in its answer's annotation, so that undo, redo, rollback and forks carry it along.
It applies while its topic is the current one.
"""

import hashlib
from collections.abc import Sequence
from typing import Literal, NotRequired, cast, get_args

from langchain_core.messages import AnyMessage
from typing_extensions import TypedDict

from unsay.context.topics import by_topic, current_topic_id, forgotten_ids
from unsay.errors import InputError, NotFoundError
from unsay.messages.annotations import annotate, annotation_of, answer_of_turn, is_answer
from unsay.messages.content import has_sources, preview, sources_of, text_of
from unsay.phrases import Verb
from unsay.runtime import Scope
from unsay.state import State, Update
from unsay.transcript.automatic import reasons_of
from unsay.transcript.record import log_verdict
from unsay.types import Turn

RATING = "rating"
"""Name of the annotation."""

# Most lessons that a turn is sent.
MAX_LESSONS = 3

Label = Literal["good", "bad"]


class Rating(TypedDict):
    """A person's label of an answer; `note` says why, and is empty without a reason."""

    label: Label
    note: str
    at: NotRequired[str]


def rating_of(answer: AnyMessage) -> Rating | None:
    """Return the rating of an answer; `None` if it has none."""
    rating: Rating | None = annotation_of(answer).get(RATING)
    return rating


def rate_answer(turn: list[AnyMessage], scope: Scope, label: str, note: str) -> Update:
    """Return the update that rates the answer of a turn; `note` may be empty.

    `turn` has the messages of one answered turn; `answer_of_turn` says which answer counts. A bad
    rating with a note is a lesson as well. A new rating replaces the old one and its lesson. The
    change is added to the events to log.

    Raises:
        InputError: The label is neither `good` nor `bad`.
    """
    if label not in get_args(Label):
        raise InputError(f"{label!r} is not a rating: write 'good' or 'bad'")
    answer = answer_of_turn([message for message in turn if is_answer(message)])
    rating = Rating(label=cast("Label", label), note=note.strip(), at=scope.now())
    before = rating_of(answer)
    old = make_lesson(before["note"], answer.id or "", rejected="")["id"] if before else ""
    lessons = [each for each in annotation_of(answer).get(LESSONS, ()) if each["id"] != old]
    if label == "bad" and rating["note"]:
        lessons.append(make_lesson(rating["note"], answer.id or "", rejected=text_of(answer)))
    return set_annotations(answer, scope, **{RATING: rating, LESSONS: lessons})


LESSONS = "lessons"
"""Name of the annotation."""

REJECTED_CHARS = 120
"""Characters of the rejected draft that a person is shown with its lesson."""

LESSON_CHARS = 500
"""Longest text of a lesson."""


class Lesson(TypedDict):
    """Why a draft was rejected; `text` is what later turns are sent.

    `rejected` is the beginning of the draft, for a person. `message_id` is the answer that was
    delivered in its place.
    """

    id: str
    text: str
    rejected: str
    message_id: str


def lessons_of_turn(turn: Turn, answer_id: str) -> list[Lesson]:
    """Return the lessons of a turn's rejected drafts, oldest first; equal ones once.

    The text is a judge's advice, or else its reason. `answer_id` is that of the delivered answer.
    """
    lessons: dict[str, Lesson] = {}
    for rejection in turn["rejections"]:
        reasons, draft = reasons_of(rejection), text_of(rejection["messages"][-1])
        if reasons:
            lessons.setdefault(reasons[-1], make_lesson(reasons[-1], answer_id, rejected=draft))
    return list(lessons.values())


def make_lesson(text: str, answer_id: str, *, rejected: str) -> Lesson:
    """Return a lesson; its id is a hash of the answer's id and the text.

    `rejected` is the whole text of the draft. It and the text are shortened.
    """
    digest = hashlib.sha256(f"{answer_id}\x00{text}".encode("utf-8", "surrogatepass")).hexdigest()
    excerpt = preview(rejected, REJECTED_CHARS)
    text = text[:LESSON_CHARS]
    return Lesson(id=f"ls-{digest[:8]}", text=text, rejected=excerpt, message_id=answer_id)


def lessons_in(messages: Sequence[AnyMessage]) -> list[Lesson]:
    """Return all lessons of the messages, oldest first, those of forgotten answers too.

    A lesson may quote the question of its answer, and is left out without that question.
    """
    lessons: list[Lesson] = []
    for message in messages:
        own: list[Lesson] = annotation_of(message).get(LESSONS, [])
        if own and is_answer(message) and has_sources(annotation_of(message), sources_of(messages)):
            # A picked copy of an answer has another id than the answer for which the lesson was made.
            lessons += [{**lesson, "message_id": message.id or ""} for lesson in own]
    return lessons


def applying(state: State, scope: Scope) -> list[str]:
    """Return the newest different lessons of the current topic, oldest first, as texts.

    Those of forgotten answers are left out. They are at most `MAX_LESSONS`.
    """
    messages, segments = state["messages"], state.get("segments", [])
    topic = current_topic_id(segments) or ""
    hidden = forgotten_ids(messages, segments, state.get("forgotten", []))
    visible_messages = [
        m for m in by_topic(messages, segments).get(topic, []) if m.id not in hidden
    ]
    texts = list(dict.fromkeys(lesson["text"] for lesson in reversed(lessons_in(visible_messages))))
    return texts[:MAX_LESSONS][::-1]


def lesson_named(state: State, name: str) -> Lesson:
    """Return the lesson with this id, or with this number in the list, from 1.

    Raises `NotFoundError` if there is none.
    """
    lessons = lessons_in(state["messages"])
    for number, lesson in enumerate(lessons, 1):
        if name in (lesson["id"], str(number)):
            return lesson
    raise NotFoundError(
        code="no_lesson", name=name, lessons=Verb("lessons", python="lessons.list()")
    )


def change_lesson(state: State, scope: Scope, lesson: Lesson, text: str | None) -> Update:
    """Return the update that gives a lesson another text, or with `None` removes it.

    The change is added to the events to log. Raises `InputError` for a text that is blank or longer
    than `LESSON_CHARS`.
    """
    if text is not None and not (0 < len(text.strip()) <= LESSON_CHARS):
        raise InputError(code="lesson_length", limit=LESSON_CHARS, count=len(text.strip()))
    answer = next(m for m in state["messages"] if m.id == lesson["message_id"])
    lessons = [
        each if each["id"] != lesson["id"] else {**each, "text": (text or "").strip()}
        for each in annotation_of(answer)[LESSONS]
        if each["id"] != lesson["id"] or text is not None
    ]
    return set_annotations(answer, scope, **{LESSONS: lessons})


def set_annotations(answer: AnyMessage, scope: Scope, **annotations: object) -> Update:
    """Return the update that sets annotations of an answer; its other annotations stay.

    The change is added to the events to log.
    """
    stamped = annotate(answer, **annotations)
    log_verdict(stamped, scope)
    return Update(messages=[stamped])
