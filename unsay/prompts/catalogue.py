"""The catalogue of each language: every text that a model or a person reads, by name.

The texts are in `en/*.toml` and `ja/*.toml`: `prompts` for models, `notices` for persons, `chat` for
the command line, and in `errors` those of phrases by their codes.
"""

import dataclasses
import tomllib
from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field
from functools import cache
from pkgutil import get_data
from string import Formatter
from typing import Any, Literal, Self, get_args

from unsay.arguments import hint
from unsay.errors import ConfigurationError
from unsay.phrases import Option, Phrase, Setting, Verb
from unsay.types import CommandName, Language

_FILES = ("prompts", "notices", "chat", "errors")
_TYPED_IN_CHAT = frozenset({*get_args(CommandName), "resume"})

Door = Literal["chat", "shell"]  # where a person types and reads


@cache
def defaults(language: Language) -> Mapping[str, Any]:
    """Return unsay's own texts in a language, by name: texts, tables, and rows as `table.row`."""
    texts: dict[str, Any] = {}
    for file in _FILES:
        # Read by the loader of modules, as in an import, which an event loop may wait for.
        data = get_data("unsay.prompts", f"{language}/{file}.toml") or b""
        texts |= tomllib.loads(data.decode())
    return _with_rows(texts)


def _with_rows(texts: Mapping[str, Any]) -> dict[str, Any]:
    tables = {name: table for name, table in texts.items() if isinstance(table, Mapping)}
    rows = {f"{name}.{row}": text for name, table in tables.items() for row, text in table.items()}
    return {**texts, **rows}


@dataclass(frozen=True, slots=True, kw_only=True)
class StepChange:
    """What undoing or redoing a step did: the numbers of messages and of answered turns.

    `what` is a row of the table `step_changes` for a step that changed no message, else empty.
    `repeatable`: the step can be redone; the question of a stopped turn cannot.
    """

    what: str = ""
    removed: int = 0
    restored: int = 0
    removed_turns: int = 0
    restored_turns: int = 0
    repeatable: bool = True


@dataclass(frozen=True, init=False)
class Texts:
    """All texts in one language, for a model and for a person; a user may replace any of them.

    Placeholders in braces are filled by `str.format`. A text without any is used as it is, so that
    it may show JSON.
    """

    language: Language
    salt: str = field(
        repr=False, compare=False
    )  # the secret of a thread, for the keys of its fences
    own: Mapping[str, Any] = field(repr=False)  # the texts that replace defaults
    door: Door = field(repr=False, compare=False)  # where the texts are read

    def __init__(
        self,
        language: Language,
        *,
        salt: str = "",
        own: Mapping[str, Any] | None = None,
        door: Door = "chat",
        **texts: str | Mapping[str, str],
    ) -> None:
        """Make the texts of a language, of which `texts` replace some, by name.

        Raises `ConfigurationError` for an unknown language or name, or a text that is not valid.
        """
        if language not in ("en", "ja"):
            raise ConfigurationError(f"language={language!r}: choose 'en' or 'ja'")
        for name, text in texts.items():
            known = [name for name in defaults("en") if "." not in name]
            if name not in known:
                raise ConfigurationError(f"There is no text {name!r}{hint(name, known)}")
            _check(name, text, defaults("en")[name])
        replaced = {**(own or {}), **_with_rows(texts)}
        vars(self).update(language=language, salt=salt, own=replaced, door=door)

    def replace(self, **texts: Any) -> Self:
        """Return a copy in which the texts that are named here replace the defaults.

        A table, such as `counts`, is given whole, as a mapping.

        Raises:
            ConfigurationError: A name is unknown, or a text is blank or has wrong placeholders.
        """
        return dataclasses.replace(self, **texts)

    def salted(self, salt: str) -> Self:
        """Return the same texts for the thread that has this secret."""
        texts = copy(self)
        vars(texts)["salt"] = salt
        return texts

    def at(self, door: Door) -> Self:
        """Return the same texts, with verbs as one types them at this door."""
        texts = copy(self)
        vars(texts)["door"] = door
        return texts

    def with_read_tool(self) -> Self:
        """Return a copy whose shortened tool results name the tool that reads them in full."""
        texts = copy(self)
        every = {**defaults(self.language), **self.own}
        truncated, cleared = every["readable_truncated"], every["readable_cleared"]
        shown = {"result_truncated": truncated, "result_cleared": cleared}
        vars(texts)["own"] = {**self.own, **shown}
        return texts

    def say(self, name: str, /, **values: object) -> str:
        """Return the text with this name, or the row `table.row`, filled with the values."""
        text: str = self.own[name] if name in self.own else defaults(self.language)[name]
        has_values = values or "{/" in text
        return text.format_map(_Values(self.door, values)) if has_values else text

    def table(self, name: str) -> Mapping[str, str]:
        """Return the texts of a table by the names of its rows."""
        rows: Mapping[str, str]
        rows = self.own[name] if name in self.own else defaults(self.language)[name]
        return rows

    def sentences(self, parts: Iterable[str]) -> str:
        """Return sentences as one text; empty ones are left out. Japanese has no space between them."""
        return ("" if self.language == "ja" else " ").join(filter(None, parts))

    def listed(self, items: Iterable[str]) -> str:
        """Return items as a list within a sentence."""
        return ("、" if self.language == "ja" else ", ").join(items)

    def refusal(self, error: Phrase) -> str:
        """Return the notice for a command that failed with this error."""
        return self.say("refused", reason=self.message(error, "chat").rstrip(".。"))

    def message(self, phrase: Phrase, door: Door) -> str:
        """Return the text of an error or another phrase as people read it who type at this door.

        Verbs, settings and options have the names that one types there. A phrase without a
        translation stays English.
        """
        english = phrase.typed or phrase.english
        is_english = self.language == "en"
        template = english if is_english else self.table("errors").get(phrase.code, english)
        if not phrase.values:
            return template
        return template.format(**{n: self._shown(v, door) for n, v in phrase.values.items()})

    def _shown(self, value: Any, door: Door) -> Any:
        if isinstance(value, Phrase):
            return self.message(value, door)
        if isinstance(value, Verb):
            return _typed(value, door)
        if isinstance(value, Setting):
            return f"UNSAY_{value.name.upper()}"
        if isinstance(value, Option):
            option = f"--{value.typed or value.name}"
            return option if value.value is ... else f"{option} {value.value!r}"
        return value

    def changes(self, *, turns: int, removed: int, restored: int = 0) -> str:
        """Return sentences with the numbers of messages removed and restored, and of turns left.

        A number of messages that is 0 gets no sentence.
        """
        counted = {"removed": removed, "restored": restored}
        return self.sentences([self._counted(counted), self._count("turns", turns)])

    def step_text(self, change: StepChange) -> str:
        """Return sentences about what undoing or redoing a step did; also if it changed nothing."""
        if change.what:
            return self.table("step_changes")[change.what]
        counted = {
            "removed_turns": change.removed_turns,
            "removed": 0 if change.removed_turns else change.removed,
            "restored_turns": change.restored_turns,
            "restored": 0 if change.restored_turns else change.restored,
        }
        return self._counted(counted) or self.say("step_changes.nothing")

    def _counted(self, counts: Mapping[str, int]) -> str:
        return self.sentences(self._count(name, count) for name, count in counts.items() if count)

    def _count(self, name: str, count: int) -> str:
        row = name if count != 1 else f"{name}_one"
        return self.table("counts")[row].format(count=count)

    def removal_text(self, removed: Iterable[Mapping[str, Any]]) -> str:
        """Return the text of a notice about what automatic rollbacks removed, and why.

        Each mapping has the numbers of `turns` and `messages`, the id of the `branch`, and the
        `reason`; equal reasons come once. Without mappings, the text is empty.
        """
        listed = list(removed)
        parts = [
            self.say(
                "removed_by_judge",
                turns=each["turns"],
                messages=each["messages"],
                branch=each["branch"],
            )
            for each in listed
        ]
        reasons = dict.fromkeys(each["reason"] for each in listed if each["reason"])
        parts += [self.say("removal_reason", reason=reason) for reason in reasons]
        return self.sentences(parts)


ENGLISH = Texts("en")
JAPANESE = Texts("ja")


def by_language(prompts: Texts | Iterable[Texts] | None = None) -> Mapping[Language, Texts]:
    """Return the catalogue of each language: the one in `prompts`, or unsay's own.

    Raises `ConfigurationError` if an object is not a catalogue (`Texts`), or if two of them have
    the same language.
    """
    given = () if prompts is None else prompts
    chosen: dict[Language, Texts] = {}
    for each in given if isinstance(given, Iterable) else [given]:
        if not isinstance(each, Texts):
            raise ConfigurationError(
                f"prompts={each!r}: give a catalogue, such as ENGLISH.replace(...) "
                "with ENGLISH from unsay.prompts"
            )
        if each.language in chosen:
            raise ConfigurationError(f"prompts: two catalogues have language={each.language!r}")
        chosen[each.language] = each
    return {"en": ENGLISH, "ja": JAPANESE, **chosen}


class _Values(dict[str, object]):
    """The values of a text, and its verbs, such as `{/undo}`, as one types them at a door."""

    def __init__(self, door: Door, values: Mapping[str, object]) -> None:
        super().__init__(values)
        self.door = door

    def __missing__(self, name: str) -> str:
        if not name.startswith("/"):
            if self:
                raise KeyError(name)
            return f"{{{name}}}"  # a text that is asked for without values keeps its placeholders
        return name if self.door == "chat" else f"`unsay {name[1:]}`"


def _typed(verb: Verb, door: Door) -> str:
    """Return what a person types for a verb; in a chat without a command for it, the shell's."""
    if door == "chat" and (verb.chat or verb.name in _TYPED_IN_CHAT):
        return verb.chat or f"/{verb.name}"
    return f"`unsay {verb.command or verb.name}`"


def placeholders(text: str) -> set[str]:
    """Return the names in braces in a default text. Names in JSON are quoted and do not count.

    Raises `ValueError` for a single brace, which no default has.
    """
    names = (name for _, name, _, _ in Formatter().parse(text))
    return {name for name in names if name and name.isidentifier()}


def _check(name: str, given: object, default: str | Mapping[str, str]) -> None:
    """Raise `ConfigurationError` unless `given`, which a user wrote, can replace the default.

    It can if it has the default's names and placeholders, no blank text, and no placeholder with a
    format.
    """
    if isinstance(default, str):
        _check_text(name, given, placeholders(default), is_template=bool(placeholders(default)))
        return
    if not isinstance(given, Mapping):
        raise ConfigurationError(f"{name}={given!r}: give a mapping of names to texts")
    if wrong := sorted(map(str, set(default) ^ set(given))):
        problem = "unknown" if wrong[0] in given else "missing"
        raise ConfigurationError(f"{name}: the name {wrong[0]!r} is {problem}")
    is_template = any(map(placeholders, default.values()))
    for row, text in given.items():
        needed = placeholders(default.get(row, ""))
        _check_text(f"{name}[{row!r}]", text, needed, is_template=is_template)


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
