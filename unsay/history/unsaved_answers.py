"""Answers that are paid for and not saved yet, kept in this process until their turn is saved."""

import weakref
from asyncio import CancelledError
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any

from langchain_core.messages import AnyMessage

from unsay.errors import StorageError, UnsayError
from unsay.messages.content import text_of
from unsay.verdicts import Verdict

# Answers of one process; the oldest is dropped first.
ANSWERS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class UnsavedAnswer:
    """A draft that ended a turn, tool steps first, with its verdict and flag, before it is saved.

    `question` is the question's text: another text with the same id has another answer. A rejected
    draft (`is_rejected`) ended only an attempt.
    """

    question: str
    draft: Sequence[AnyMessage]
    verdict: Verdict
    flag: str | None = None
    is_rejected: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    owner: "weakref.ref[Any]"
    answer: UnsavedAnswer
    is_of_run: bool  # whether the run under way made it


class UnsavedAnswers:
    """The answers of all threads, by thread and question; safe for several Python threads.

    `owner` is the thread's store, or the services of its graph without one. A store with a
    `location` is the same database as any other store with this location.
    """

    def __init__(self, most: int = ANSWERS) -> None:
        self._most, self._lock = most, Lock()
        self._known: OrderedDict[tuple[object, str, str], _Entry] = OrderedDict()

    def keep(
        self,
        owner: object,
        thread_id: str,
        question_id: str,
        answer: UnsavedAnswer,
        *,
        is_of_run: bool = True,
    ) -> None:
        """Keep an answer, in place of an earlier one, until the run that made it was saved.

        With `is_of_run=False` the answer is not of the run under way: the next run can deliver it.
        """
        key = (*_place(owner, thread_id), question_id)
        with self._lock:
            self._known[key] = _Entry(owner=weakref.ref(owner), answer=answer, is_of_run=is_of_run)
            self._known.move_to_end(key)
            while len(self._known) > self._most:
                self._known.popitem(last=False)

    def find(
        self, owner: object, thread_id: str, question_id: str, question: str
    ) -> UnsavedAnswer | None:
        """Return the answer that an ended run gave to a question; `None` if none is kept.

        `question` is the question's text. Answers of runs under way are not returned, so that runs
        at the same time, as in a parent graph, do not get each other's.
        """
        key = (*_place(owner, thread_id), question_id)
        with self._lock:
            entry = self._known.get(key)
            # Python reuses the ids of deleted objects.
            is_others = entry and isinstance(key[0], int) and entry.owner() is not owner
            if entry is None or entry.is_of_run or is_others:
                return None
            return entry.answer if entry.answer.question == question else None

    @contextmanager
    def run(self, owner: object, thread_id: str | None) -> Iterator[None]:
        """Return a context manager for one run; when the run was saved, it drops the run's answers.

        If the run fails, they are kept, and the error gets the text of the newest (`with_answer`);
        only rejected drafts are dropped after an error of a model or a budget. If the run is
        cancelled, all are kept. Without a thread nothing is done. The caller holds the thread's
        lock.
        """
        if thread_id is None:
            yield
            return
        place = _place(owner, thread_id)
        try:
            yield
        except Exception as error:
            # An error of a model or a budget ends the attempts; the next run begins with the first.
            if isinstance(error, UnsayError) and not isinstance(error, StorageError):
                self._drop(place, only_rejected=True)
            made = [each for each in self._of_run(place) if not each.is_rejected]
            if made:
                with_answer(error, text_of(made[-1].draft[-1]))
            raise
        except (
            GeneratorExit,
            CancelledError,
        ):  # the reader of a stream left, or the host stopped it
            self._of_run(place)
            raise
        except BaseException:
            self._drop(place)
            raise
        else:
            self._drop(place)

    def _of_run(self, place: tuple[object, str]) -> list[UnsavedAnswer]:
        """Return the answers that the run which just ended has made.

        They stay in memory, but a second call does not return them.
        """
        with self._lock:
            keys = [
                key for key, entry in self._known.items() if key[:2] == place and entry.is_of_run
            ]
            for key in keys:
                self._known[key] = replace(self._known[key], is_of_run=False)
            return [self._known[key].answer for key in keys]

    def _drop(self, place: tuple[object, str], *, only_rejected: bool = False) -> None:
        with self._lock:
            for key, entry in list(self._known.items()):
                is_kept = only_rejected and not entry.answer.is_rejected
                if key[:2] == place and entry.is_of_run and not is_kept:
                    del self._known[key]

    def forget(self, thread_id: str) -> None:
        """Delete the answers of a thread for all stores; a purge calls this."""
        with self._lock:
            for key in [key for key in self._known if key[1] == thread_id]:
                del self._known[key]


def with_answer(error: BaseException, answer: str) -> None:
    """Add to an error, in place, the text of the answer that could not be saved.

    It is the attribute `answer`; a note says how to deliver it.
    """
    error.answer = answer  # type: ignore[attr-defined]
    error.add_note(
        "The model had answered, and the answer was not saved. It is in the attribute `answer`: send "
        "the message again with the same turn_id, and in another process with answer=error.answer. "
        "The model is not called again."
    )


def _place(owner: object, thread_id: str) -> tuple[object, str]:
    return getattr(owner, "location", None) or id(owner), thread_id


UNSAVED = UnsavedAnswers()
