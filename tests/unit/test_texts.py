"""Every text is in both languages, and the code uses each of them with its placeholders."""

import ast
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import unsay
from unsay.messages.content import language_of
from unsay.prompts.catalogue import placeholders

PACKAGE = Path(unsay.__file__).parent
FILES = ["prompts", "notices", "chat", "errors"]
SAME = {"budget", "timeline_line"}
"""Texts without a word, which are the same in both languages."""
WORDLESS = SAME | {"at_message", "forgotten_line"}
"""Texts without a word, of which some have quotation marks."""
BY_SENTENCE = {"refusals", "rules"}
"""Tables whose names are English sentences, so that English has none."""


def load(language: str) -> dict[str, Any]:
    """All texts of a language, by name, with each row of a table as `table.row`."""
    texts: dict[str, Any] = {}
    for file in FILES:
        data = (PACKAGE / "prompts" / language / f"{file}.toml").read_text(encoding="utf-8")
        new = tomllib.loads(data)
        assert not texts.keys() & new.keys()
        texts |= new
    rows: dict[str, str] = {}
    for name, text in texts.items():
        if isinstance(text, str):
            rows[name] = text
        elif name not in BY_SENTENCE:
            rows |= {f"{name}.{row}": words for row, words in text.items()}
    return rows


ENGLISH, JAPANESE = load("en"), load("ja")


CODE = [
    (path.relative_to(PACKAGE), node)
    for path in sorted(PACKAGE.rglob("*.py"))
    if ".say(" in (source := path.read_text(encoding="utf-8")) or ".table(" in source
    for node in ast.walk(ast.parse(source))
]
"""The nodes of the files that use texts."""


def named(node: ast.expr) -> Iterator[str]:
    """The literal names that an expression can be: a string, or one of two."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.IfExp):
        yield from named(node.body)
        yield from named(node.orelse)


def test_the_code_says_texts_that_exist_with_their_placeholders() -> None:
    """Each `say("name", a=…)` names a text and hands in all its values, and no other."""
    wrong, checked = [], 0
    for path, node in CODE:
        if not (isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "say"):
            continue
        names = [name for argument in node.args[:1] for name in named(argument)]
        needed = [placeholders(ENGLISH.get(name, "{none}")) for name in names]
        given = {each.arg for each in node.keywords}
        unneeded = given - {None} - set().union(*needed)
        if names and (unneeded or (None not in given and set().union(*needed) - given)):
            wrong.append((f"{path}:{node.lineno}", names, given))
        checked += len(names)

    assert wrong == []
    assert checked > 150


def test_no_text_is_unused() -> None:
    """The code names each text; of a table that it asks for whole, each row may be used."""
    mentioned = {node.value for _, node in CODE if isinstance(node, ast.Constant)}
    assert set() == {
        name for name in ENGLISH if mentioned.isdisjoint((name, name.partition(".")[0]))
    }


def test_both_languages_have_the_same_texts() -> None:
    """A text, and a row of a table, has the same name and placeholders in both languages."""
    english = {name: placeholders(text) for name, text in ENGLISH.items()}
    assert english == {name: placeholders(text) for name, text in JAPANESE.items()}
    assert [] == [name for name in ENGLISH if not ENGLISH[name].strip()]


@pytest.mark.parametrize("language", ["en", "ja"])
def test_each_text_is_in_its_language(language: str) -> None:
    """English has no Japanese in it, and what Japanese says in words is Japanese."""
    texts: Mapping[str, str] = ENGLISH if language == "en" else JAPANESE
    words = {n: re.sub(r"\{.*?\}", "", text) for n, text in texts.items() if n not in WORDLESS}
    assert [] == [name for name, text in words.items() if language_of(text) != language]


def test_no_japanese_text_is_the_english_one() -> None:
    """Nothing is left untranslated, except texts without a word."""
    assert {name for name in ENGLISH if ENGLISH[name] == JAPANESE[name]} == SAME
