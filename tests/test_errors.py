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
    each
    for _, each in inspect.getmembers(errors, inspect.isclass)
    if each.__module__ == errors.__name__
]


def drawn() -> dict[str, str | None]:
    """Each error in the docstring's drawing, with the one it hangs from."""
    parents: dict[str, str | None] = {}
    path: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        found = re.match(r"^((?:│   |    )*(?:├── |└── )?)(\w+Error)\b", line)
        if found:
            depth = len(found[1]) // 4
            parents[found[2]] = path[depth - 1] if depth else None
            path[depth:] = [found[2]]
    return parents


def test_the_tree_is_drawn_as_it_is() -> None:
    """Every class is in the drawing, under its own base, and no other."""
    bases = {each.__name__: each.__base__.__name__ for each in CLASSES}

    assert {**bases, "UnsayError": None} == drawn()
    assert "Exception" == bases["UnsayError"]


@pytest.mark.parametrize("error", CLASSES)
def test_one_except_catches_them_all(error: type[Exception]) -> None:
    """Every error is an `UnsayError`, ends in `Error`, and says what it means."""
    assert issubclass(error, UnsayError)
    assert error.__name__.endswith("Error")
    assert (error.__doc__ or "").endswith(".")
    assert "why" == str(error("why"))


@pytest.mark.parametrize(
    "copied",
    [copy.copy, copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))],  # noqa: S301
)
def test_an_error_is_copied_whole(copied: Callable[[UnsayError], UnsayError]) -> None:
    """A copy, or what another process gets, has the same text, code, values and answer."""
    error = UnknownTurnError("No turn {turn}; {all}", code="none", turn=9, all=Verb("timeline"))
    error.answer = "An answer."
    other = copied(error)
    assert ("No turn 9; timeline()", "none", error.values) == (str(other), other.code, other.values)
    assert ("An answer.", repr(error)) == (other.answer, repr(other))

    declined = copied(BudgetDeclinedError("No {why}", settings=["a"], code="no", why="money"))
    assert ("No money", ("a",), "no") == (str(declined), declined.settings, declined.code)


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
