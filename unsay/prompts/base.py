"""A catalogue of texts: each entry is written in all languages in one place."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from unsay.types import Language

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Text(Generic[T]):
    """One entry in both languages; braces are filled by `str.format`."""

    en: T
    ja: T

    @staticmethod
    def table(rows: Mapping[str, tuple[str, str]]) -> "Text[Mapping[str, str]]":
        """Return an entry with several named texts, each given in English and Japanese."""
        return Text(
            {name: en for name, (en, _) in rows.items()},
            {name: ja for name, (_, ja) in rows.items()},
        )

    def in_language(self, language: Language) -> T:
        """Return the text in one language."""
        return self.ja if language == "ja" else self.en

    def __get__(self, catalogue: "Catalogue", owner: type["Catalogue"]) -> T:
        return self.in_language(catalogue.language)


@dataclass(frozen=True)
class Catalogue:
    """The base of a catalogue: its entries are read in this language."""

    language: Language
