"""One tree of errors."""

import copy
import inspect
import pickle
import re
from collections.abc import Callable

import pytest

from unsay import errors
from unsay.errors import BudgetDeclinedError, UnknownTurnError, UnsayError
from unsay.phrases import Option, Setting, Verb

CLASSES = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if kind.__module__ == errors.__name__
]


def tree_in_docstring() -> dict[str, str | None]:
    """Each error in the docstring's drawing, with the one it hangs from."""
    parents: dict[str, str | None] = {}
    path: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        match = re.match(r"^((?:│   |    )*(?:├── |└── )?)(\w+Error)\b", line)
        if match:
            depth = len(match[1]) // 4
            parents[match[2]] = path[depth - 1] if depth else None
            path[depth:] = [match[2]]
    return parents


def test_the_tree_is_drawn_as_it_is() -> None:
    """Every class is in the drawing, under its own base, and no other."""
    bases = {kind.__name__: kind.__base__.__name__ for kind in CLASSES}

    assert {**bases, "UnsayError": None} == tree_in_docstring()
    assert "Exception" == bases["UnsayError"]


@pytest.mark.parametrize("error", CLASSES)
def test_one_except_catches_them_all(error: type[Exception]) -> None:
    """Every error is an `UnsayError`, ends in `Error`, and says what it means."""
    assert issubclass(error, UnsayError)
    assert error.__name__.endswith("Error")
    assert (error.__doc__ or "").endswith(".")
    assert "why" == str(error("why"))


@pytest.mark.parametrize(
    "copy",
    [copy.copy, copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))],  # noqa: S301
)
def test_an_error_is_copied_whole(copy: Callable[[UnsayError], UnsayError]) -> None:
    """A copy, or what another process gets, has the same text, code, values and answer."""
    error = UnknownTurnError("No turn {turn}; {all}", code="none", turn=9, all=Verb("timeline"))
    error.answer = "An answer."
    error_copy = copy(error)
    assert ("No turn 9; timeline()", "none", error.values) == (
        str(error_copy),
        error_copy.code,
        error_copy.values,
    )
    assert ("An answer.", repr(error)) == (error_copy.answer, repr(error_copy))

    declined_error = copy(BudgetDeclinedError("No {why}", settings=["a"], code="no", why="money"))
    assert ("No money", ("a",), "no") == (
        str(declined_error),
        declined_error.settings,
        declined_error.code,
    )


def test_a_text_without_values_may_have_braces() -> None:
    """It is shown as it is."""
    assert '{"a": 1}' == str(UnsayError('{"a": 1}'))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Verb("timeline"), "timeline()"),
        (Verb("lessons", python="lessons.list()"), "lessons.list()"),
        (Setting("judge_share"), "the setting judge_share"),
        (Option("since", "now"), "since='now'"),
        (Option("turns"), "turns=…"),
    ],
)
def test_values_have_the_names_of_python(value: object, text: str) -> None:
    """`str(error)` names methods, settings and arguments."""
    assert f"See {text}." == str(UnsayError("See {it}.", it=value))
