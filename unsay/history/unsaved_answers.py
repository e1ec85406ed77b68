"""Answers and attempts that are paid for and not saved, kept in this process until they are."""

import weakref
from asyncio import CancelledError
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from threading import Lock
from types import UnionType
from typing import Any, TypeVar

from langchain_core.messages import AnyMessage

from unsay.errors import StorageError, UnsayError
from unsay.messages.content import text_of
from unsay.protocols import Verdict

T = TypeVar("T", "UnsavedAnswer", "UnsavedAttempt")

# Answers and attempts of one process; the oldest is dropped first.
ANSWERS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class UnsavedAnswer:
    """A draft that ended a turn, tool steps first, with its verdict and flag, before it is saved.

    `question` is the question's text: another text with the same id has another answer.
    """

    question: str
    draft: Sequence[AnyMessage]
    verdict: Verdict
    flag: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnsavedAttempt:
    """The messages of one attempt so far, and its `verdict` if it was judged.

    `values` are what its last call of the model left for the next one; see `CallCarryover`.
    """

    question: str
    draft: Sequence[AnyMessage]
    values: Mapping[str, Any]
    verdict: Verdict | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    owner: "weakref.ref[Any]"
    kept: UnsavedAnswer | UnsavedAttempt
    is_of_run: bool  # whether the run under way made it


class UnsavedAnswers:
    """The answers and attempts of all threads, by thread and name; safe for several Python threads.

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
        name: str,
        kept: UnsavedAnswer | UnsavedAttempt,
        *,
        is_of_run: bool = True,
    ) -> None:
        """Keep an answer or an attempt, in place of an earlier one, until its run was saved.

        The `name` is the question's id, or that of the attempt. With `is_of_run` the run under way
        made it, and `find` returns it only after this run has ended without saving; else at once.
        """
        key = (*_place(owner, thread_id), name)
        with self._lock:
            self._known[key] = _Entry(owner=weakref.ref(owner), kept=kept, is_of_run=is_of_run)
            self._known.move_to_end(key)
            while len(self._known) > self._most:
                self._known.popitem(last=False)

    def find(
        self, kind: type[T], owner: object, thread_id: str, name: str, question: str
    ) -> T | None:
        """Return what an ended run kept under a name for this question; `None` without it.

        `kind` is `UnsavedAnswer` or `UnsavedAttempt`, `question` the question's text. What runs
        under way made is not returned, so that runs at the same time, as in a parent graph, do not
        get each other's.
        """
        key = (*_place(owner, thread_id), name)
        with self._lock:
            entry = self._known.get(key)
            # Python reuses the ids of deleted objects.
            is_others = entry and isinstance(key[0], int) and entry.owner() is not owner
            if entry is None or entry.is_of_run or is_others:
                return None
            record = entry.kept
            return record if isinstance(record, kind) and record.question == question else None

    @contextmanager
    def run(self, owner: object, thread_id: str | None) -> Iterator[None]:
        """Return a context manager for one run; when the run was saved, it drops what the run kept.

        If the run fails or is cancelled, the next run can find that, and an error gets the text of
        the newest answer (`with_answer`). Attempts are dropped as well after an error of unsay that
        is not about storage, and all is dropped after a `KeyboardInterrupt`. Without a thread
        nothing is done. The caller holds the thread's lock.
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
                self._drop(place, UnsavedAttempt)
            answers = [each for each in self._of_run(place) if isinstance(each, UnsavedAnswer)]
            if answers:
                with_answer(error, text_of(answers[-1].draft[-1]))
            raise
        except (GeneratorExit, CancelledError):
            # The reader of a stream left, or the host stopped it.
            self._of_run(place)
            raise
        except BaseException:
            self._drop(place)
            raise
        else:
            self._drop(place)

    def _of_run(self, place: tuple[object, str]) -> list[UnsavedAnswer | UnsavedAttempt]:
        """Return what the run that just ended has made; from now on `find` returns it.

        A second call does not return it.
        """
        with self._lock:
            keys = [
                key for key, entry in self._known.items() if key[:2] == place and entry.is_of_run
            ]
            for key in keys:
                self._known[key] = replace(self._known[key], is_of_run=False)
            return [self._known[key].kept for key in keys]

    def _drop(
        self,
        place: tuple[object, str],
        kinds: type[UnsavedAnswer | UnsavedAttempt] | UnionType = UnsavedAnswer | UnsavedAttempt,
    ) -> None:
        with self._lock:
            for key, entry in list(self._known.items()):
                if key[:2] == place and entry.is_of_run and isinstance(entry.kept, kinds):
                    del self._known[key]

    def forget(self, thread_id: str) -> None:
        """Delete what is kept of a thread, for all stores; a purge calls this."""
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
