"""Ratings: a person's thumbs on answers, which are labels to calibrate thresholds with."""

from typing import Literal, NotRequired, cast, get_args

from langchain_core.messages import AnyMessage
from typing_extensions import TypedDict

from unsay.errors import InputError
from unsay.messages.annotations import annotation_of, answer_of_turn, is_answer
from unsay.messages.content import text_of
from unsay.operations.lessons import LESSONS, make_lesson, set_annotations
from unsay.runtime import Scope
from unsay.state import Update

RATING = "rating"
"""Name of the annotation."""

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
    made = Rating(label=cast("Label", label), note=note.strip(), at=scope.now())
    before = rating_of(answer)
    old = make_lesson(before["note"], answer.id or "", rejected="")["id"] if before else ""
    lessons = [each for each in annotation_of(answer).get(LESSONS, ()) if each["id"] != old]
    if label == "bad" and made["note"]:
        lessons.append(make_lesson(made["note"], answer.id or "", rejected=text_of(answer)))
    return set_annotations(answer, scope, **{RATING: made, LESSONS: lessons})


def typed_rating(argument: str) -> tuple[str | None, str]:
    """Return the turn and the note in the argument of `/good` or `/bad`; `None` is the newest turn.

    >>> typed_rating("3 too long")
    ('3', 'too long')
    >>> typed_rating("too long")
    (None, 'too long')
    """
    first, _, rest = argument.partition(" ")
    return (first, rest.strip()) if first.isdigit() else (None, argument)
