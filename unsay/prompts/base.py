"""A catalogue of texts: each entry is written in all languages in one place."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass, fields
from string import Formatter
from typing import Any, Generic, Self, TypeVar

from unsay.errors import ConfigurationError
from unsay.presets import hint
from unsay.types import Language

T = TypeVar("T")


class Entry(ABC, Generic[T]):
    """One text of a catalogue, or a table of texts, with its default in both languages.

    Placeholders in braces are filled by `str.format`. A text without any is used as it is, so that
    it may show JSON.
    """

    def __init__(self, en: T, ja: T) -> None:
        self.en = en
        self.ja = ja
        self.name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, catalogue: "Catalogue | None", owner: type) -> T:
        # `dataclass` asks the class for the field's default: the entry itself, whose language is
        # known only when a catalogue is made.
        value: T = self if catalogue is None else vars(catalogue)[self.name]  # type: ignore[assignment]
        return value

    def __set__(self, catalogue: "Catalogue", value: T) -> None:
        is_default = isinstance(value, Entry)
        default = self.ja if catalogue.language == "ja" else self.en
        vars(catalogue)[self.name] = default if is_default else value

    @abstractmethod
    def check(self, given: object) -> None:
        """Raise `ConfigurationError` if `given`, which a user wrote, cannot replace the default."""


class Text(Entry[str]):
    """A field of a catalogue with one text, such as a notice."""

    def check(self, given: object) -> None:
        """Raise `ConfigurationError` unless `given` is a text with the default's placeholders.

        A blank text raises too, and so does a placeholder that is unknown or has a format.
        """
        needed = placeholders(self.en)
        _check_text(self.name, given, needed, is_template=bool(needed))


class Table(Entry[Mapping[str, str]]):
    """A field of a catalogue with several texts, each under a name."""

    @classmethod
    def of(cls, rows: Mapping[str, tuple[str, str]]) -> "Table":
        """Return a table made of rows: by name, the English and the Japanese text."""
        return cls(
            {name: en for name, (en, _) in rows.items()},
            {name: ja for name, (_, ja) in rows.items()},
        )

    def check(self, given: object) -> None:
        """Raise `ConfigurationError` unless `given` has the default's names and placeholders.

        A blank text and a placeholder with a format raise too. A table with an empty default takes
        any names.
        """
        if not isinstance(given, Mapping):
            raise ConfigurationError(f"{self.name}={given!r}: give a mapping of names to texts")
        if self.en and (wrong := sorted(map(str, set(self.en) ^ set(given)))):
            problem = "unknown" if wrong[0] in given else "missing"
            raise ConfigurationError(f"{self.name}: the name {wrong[0]!r} is {problem}")
        is_template = any(map(placeholders, self.en.values()))
        for name, text in given.items():
            needed = placeholders(self.en.get(name, ""))
            _check_text(f"{self.name}[{name!r}]", text, needed, is_template=is_template)


def placeholders(text: str) -> set[str]:
    """Return the names in braces in a default text. Names in JSON are quoted and do not count.

    Raises `ValueError` for a single brace, which no default has.
    """
    names = (name for _, name, _, _ in Formatter().parse(text))
    return {name for name in names if name and name.isidentifier()}


def _check_text(field: str, text: object, needed: set[str], *, is_template: bool) -> None:
    if not isinstance(text, str) or not text.strip():
        raise ConfigurationError(f"{field}={text!r}: give a text that is not blank")
    if not is_template:
        return
    try:
        parts = [part for part in Formatter().parse(text) if part[1] is not None]
    except ValueError as error:
        raise ConfigurationError(f"{field}: {error}; write {{{{ or }}}} for a brace") from error
    used = {str(name) for _, name, _, _ in parts}
    for name in sorted(needed - used):
        raise ConfigurationError(f"{field}: the placeholder {{{name}}} is missing; add it")
    known = ", ".join(f"{{{name}}}" for name in sorted(needed)) or "no placeholder"
    for name in sorted(used - needed):
        raise ConfigurationError(
            f"{field}: the placeholder {{{name}}} is unknown, this text has {known}; "
            "write {{ or }} for a brace"
        )
    for _, written, spec, conversion in parts:
        if spec or conversion not in (None, "r", "s"):
            raise ConfigurationError(f"{field}: write {{{written}}} without a format")


@dataclass(frozen=True)
class Catalogue:
    """The base class of catalogues: a field that is not given has its default in `language`."""

    language: Language
    salt = ""  # the secret of a thread, for the keys of its fences

    def salted(self, salt: str) -> Self:
        """Return the same texts for the thread that has this secret."""
        texts = copy(self)
        vars(texts)["salt"] = salt
        return texts

    def __new__(cls, *_: Any, **given: Any) -> Self:
        """Raise `ConfigurationError` for the name of a text that the catalogue does not have."""
        known = cls.__dataclass_fields__
        for name in given:
            if name not in known:
                raise ConfigurationError(f"There is no text {name!r}{hint(name, known)}")
        return super().__new__(cls)

    def __post_init__(self) -> None:
        """Raise a `ConfigurationError` for an unknown language or a text that is not valid."""
        if self.language not in ("en", "ja"):
            raise ConfigurationError(f"language={self.language!r}: choose 'en' or 'ja'")
        for field in fields(self)[1:]:
            entry: Entry[Any] = field.default  # type: ignore[assignment]
            given = getattr(self, field.name)
            # A default needs no check. With `dataclasses.replace`, it may be that of the other
            # language.
            if given is not entry.en and given is not entry.ja:
                entry.check(given)

    def sentences(self, parts: Iterable[str]) -> str:
        """Return sentences as one text; empty ones are left out. Japanese has no space between them."""
        return ("" if self.language == "ja" else " ").join(filter(None, parts))

    def listed(self, items: Iterable[str]) -> str:
        """Return items as a list within a sentence."""
        return ("、" if self.language == "ja" else ", ").join(items)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepChange:
    """What undoing or redoing a step did: the numbers of messages and of answered turns.

    `what` is a key of `Texts.step_changes` for a step that changed no message, else empty.
    `repeatable`: the step can be redone; the question of a stopped turn cannot.
    """

    what: str = ""
    removed: int = 0
    restored: int = 0
    removed_turns: int = 0
    restored_turns: int = 0
    repeatable: bool = True
