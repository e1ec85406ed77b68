"""Every text is in both languages, and the code uses each of them with its placeholders."""

import ast
import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import unsay
from unsay.messages.content import language_of
from unsay.phrases import Option, Phrase, Setting, Verb
from unsay.prompts.catalogue import Door, Texts, placeholders
from unsay.types import Language

PACKAGE = Path(unsay.__file__).parent
FILES = ["prompts", "notices", "chat"]
SAME = {"budget", "timeline_line"}
"""Texts without a word, which are the same in both languages."""
WORDLESS = SAME | {"at_message", "forgotten_line"}
"""Texts without a word, of which some have quotation marks."""


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
        else:
            rows |= {f"{name}.{row}": phrase for row, phrase in text.items()}
    return rows


ENGLISH = load("en")
JAPANESE = load("ja")


@cache
def code() -> list[tuple[Path, ast.AST]]:
    """The nodes of the files that use texts."""
    return [
        (path.relative_to(PACKAGE), node)
        for path in sorted(PACKAGE.rglob("*.py"))
        if ".say(" in (source := path.read_text(encoding="utf-8")) or ".table(" in source
        for node in ast.walk(ast.parse(source))
    ]


def names_in(node: ast.expr) -> Iterator[str]:
    """The literal names that an expression can be: a string, or one of two."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.IfExp):
        yield from names_in(node.body)
        yield from names_in(node.orelse)


def test_the_code_says_texts_that_exist_with_their_placeholders() -> None:
    """Each `say("name", a=…)` names a text and hands in all its values, and no other."""
    wrong = []
    name_count = 0
    for path, node in code():
        if not (isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "say"):
            continue
        names = [name for argument in node.args[:1] for name in names_in(argument)]
        placeholders_needed = [placeholders(ENGLISH.get(name, "{none}")) for name in names]
        keyword_names = {keyword.arg for keyword in node.keywords}
        surplus = keyword_names - {None} - set().union(*placeholders_needed)
        if names and (
            surplus
            or (None not in keyword_names and set().union(*placeholders_needed) - keyword_names)
        ):
            wrong.append((f"{path}:{node.lineno}", names, keyword_names))
        name_count += len(names)

    assert wrong == []
    assert name_count > 150


def test_no_text_is_unused() -> None:
    """The code names each text; of a table that it asks for whole, each row may be used."""
    constants = {node.value for _, node in code() if isinstance(node, ast.Constant)}
    assert set() == {
        name for name in ENGLISH if constants.isdisjoint((name, name.partition(".")[0]))
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
    text_by_code = {
        n: re.sub(r"\{.*?\}", "", text) for n, text in texts.items() if n not in WORDLESS
    }
    assert [] == [name for name, text in text_by_code.items() if language_of(text) != language]


def test_no_japanese_text_is_the_english_one() -> None:
    """Nothing is left untranslated, except texts without a word."""
    assert {name for name in ENGLISH if ENGLISH[name] == JAPANESE[name]} == SAME


def errors(language: str) -> dict[str, str]:
    """The texts of errors by their codes."""
    data = (PACKAGE / "prompts" / language / "errors.toml").read_text(encoding="utf-8")
    texts: dict[str, str] = tomllib.loads(data)["errors"]
    return texts


ERRORS = errors("ja")
ERRORS_IN_ENGLISH = errors("en")
COMPOSED = {"elsewhere", "too_many_turns", "unusable_id"}
"""Codes whose English is put together where it is raised."""


def phrases() -> Iterator[Phrase]:
    """Each error and other phrase with a code, with values like those that the code gives."""
    names = {"Verb": Verb, "Setting": Setting, "Option": Option}
    for path in sorted(PACKAGE.rglob("*.py")):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(call, ast.Call):
                continue
            arguments = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
            code = arguments.pop("code", None)
            if not isinstance(code, ast.Constant) or code.value == "":
                continue
            english = template(call.args[0]) if call.args else ERRORS_IN_ENGLISH[code.value]
            spread = any(keyword.arg is None for keyword in call.keywords)
            values: dict[str, Any] = dict.fromkeys(placeholders(english), 3) if spread else {}
            for name, value in arguments.items():
                function = value.func if isinstance(value, ast.Call) else None
                kind = names.get(getattr(function, "id", ""))
                try:
                    values[name] = kind and eval(ast.unparse(value), dict(names))  # noqa: S307
                except NameError:
                    values[name] = Option("since", 3)
                values[name] = values[name] or 3
            typed_node = arguments.get("typed")
            if typed_node is not None:
                values["typed"] = ast.literal_eval(typed_node)
            values.pop("settings" if code.value == "budget_declined" else "", None)
            yield Phrase(english, code=code.value, **values)


def template(node: ast.expr) -> str:
    """A text of the code, in which an `s` stands for a part that the code computes."""
    if isinstance(node, ast.JoinedStr):
        return "".join(map(template, node.values))
    return str(node.value) if isinstance(node, ast.Constant) else "s"


PHRASES = list(phrases())
NAMES = """
approve reject edit live chat budget ask soft mode fallback model timeout seconds my py pip install mcp unsay
langchain JSON UTF ISO ID URL GIF JPEG PNG WebP API LLM Ollama vLLM llama cpp mytools weather mcpServers NAME
command args url http OPENAI API KEY BASE URL
"""
LATIN = set(NAMES.split())
"""Words of the Japanese errors that are names: of settings, formats, programs and what is typed."""


def test_every_error_with_a_code_is_in_japanese() -> None:
    """Each code has a Japanese text with the same values, and no text is left over."""
    assert {phrase.code for phrase in PHRASES} == ERRORS.keys()
    assert ERRORS.keys() - ERRORS_IN_ENGLISH.keys() == COMPOSED
    assert ERRORS_IN_ENGLISH.keys() <= ERRORS.keys()
    wrong = {
        phrase.code
        for phrase in PHRASES
        if phrase.english != "s"
        and not placeholders(phrase.english)
        == placeholders(ERRORS[phrase.code])
        == {*phrase.values}
    }
    assert wrong == {"mcp_form"} & wrong
    assert len(PHRASES) > 150


def test_a_code_has_one_text() -> None:
    """What two places say under one code is the same."""
    texts = {phrase.code: phrase.english for phrase in PHRASES}
    assert [] == [phrase.code for phrase in PHRASES if texts[phrase.code] != phrase.english]


@pytest.mark.parametrize("door", ["chat", "shell"])
@pytest.mark.parametrize("language", ["en", "ja"])
def test_errors_say_what_can_be_typed(language: Language, door: Door) -> None:
    """At no door an error has an open placeholder or a Python call; Japanese has no English word."""
    messages = {phrase.code: Texts(language).message(phrase, door) for phrase in PHRASES}
    assert [] == [code for code, text in messages.items() if "{" in text and code != "mcp_form"]
    assert [] == [code for code, text in messages.items() if "()" in text or "=…" in text]
    if language == "ja":
        own_texts = {
            code: re.sub(r"`[^`]+`|UNSAY_\w+|(?<!\w)(?:--|/)[a-z-]+", "", t)
            for code, t in messages.items()
        }
        text_by_code = {
            code: {*re.findall("[A-Za-z]{2,}", text)} - LATIN for code, text in own_texts.items()
        }
        assert {} == {
            code: latin_words for code, latin_words in text_by_code.items() if latin_words
        }
        assert {} == {
            code: t for code, t in messages.items() if not re.search("[ぁ-んァ-ヶ一-龠]", t)
        }


@pytest.mark.parametrize(
    ("value", "chat", "shell"),
    [
        (Verb("timeline"), "/timeline", "`unsay timeline`"),
        (Verb("events"), "`unsay events`", "`unsay events`"),
        (Verb("resume", command="say --resume"), "/resume", "`unsay say --resume`"),
        (
            Verb("approve", "resume()", "approve", "say --decide x"),
            "approve",
            "`unsay say --decide x`",
        ),
        (Setting("primers"), "UNSAY_PRIMERS", "UNSAY_PRIMERS"),
        (Option("since", "now"), "--since 'now'", "--since 'now'"),
        (Option("turns", typed="turn"), "--turn", "--turn"),
        (Phrase("a {b}", b=Verb("undo")), "a /undo", "a `unsay undo`"),
    ],
)
def test_values_are_named_as_they_are_typed(value: object, chat: str, shell: str) -> None:
    """A chat names its commands, and others as the shell does; variables and options are named."""
    phrase = Phrase("See {it}.", it=value)
    assert f"See {chat}." == Texts("en").message(phrase, "chat")
    assert f"See {shell}." == Texts("en").message(phrase, "shell")


def test_people_who_type_may_get_another_text() -> None:
    """Where Python's words would not help, and the Japanese text by the code."""
    phrase = Phrase("Pass confirm.", typed="Use a terminal.", code="unconfirmed", calls="f")
    assert "Pass confirm." == str(phrase)
    assert "Use a terminal." == Texts("en").message(phrase, "shell")
    assert "ターミナル" in Texts("ja").message(phrase, "shell")
