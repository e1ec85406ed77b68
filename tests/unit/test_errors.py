"""One tree of errors."""

import inspect
import re

import pytest

from unsay import errors
from unsay.errors import UnsayError

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
