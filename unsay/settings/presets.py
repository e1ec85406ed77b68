"""Presets, and the errors that refuse an impossible setting."""

import logging
import re
import tomllib
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from os.path import abspath
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import SettingsError

from unsay.arguments import hint, nearest
from unsay.errors import ConfigurationError

LOG = logging.getLogger(__name__)

Values = Mapping[str, Any]
_TABLES = tomllib.loads(Path(__file__).with_name("presets.toml").read_text("utf-8"))
PRESETS: Mapping[str, Values] = MappingProxyType(_TABLES["presets"])
ALIASES: Mapping[str, str] = MappingProxyType(_TABLES["aliases"])

BUDGET_ALIASES = ("hard_limit", "require_approval")
"""Two flags for `budget_mode`: a hard limit, else approval, else a soft limit. Source: Zhang 2026,
chapters 7.5 and 7.9."""

DEBUGGING_WINDOW = "context_window_debugging"
"""Another name of `window_messages` in the preset `debugging`. Source: Zhang 2026, chapter 7.7."""

OTHER_NAMES = (*ALIASES, *BUDGET_ALIASES, DEBUGGING_WINDOW)
"""All names that stand for a setting and are not its own."""

UNPREFIXED = ("COMPRESSION_TRIGGER_RATIO", "COMPRESSION_TARGET_RATIO")
"""Variables that are also read without the prefix. Source: Zhang 2026, chapter 7.9; Shannon."""

_FLAG = TypeAdapter(bool)

TYPO = 0.8
"""Least likeness of a misspelt setting. One wrong letter is above it for every setting; variables
that an orchestrator makes (`UNSAY_SERVICE_HOST`, `UNSAY_PORT`) are below it. Own measurement."""

SLIP = 0.9
"""Least likeness of a misspelt key of a run's context, which may have keys of a host's own."""

HOSTS_OWN = frozenset({"checkpoint_ns", "command", "label", "models", "price", "streams", "topic"})
"""Keys that a host may give a run's context, although they resemble settings."""


def without_aliases(values: Values) -> dict[str, Any]:
    """Return settings under their own names, without other names for them.

    Raises `ConfigurationError` if a setting has different values under two names; also the errors
    of `_budget_mode`.
    """
    own_values: dict[str, Any] = {}
    others = {name: value for name, value in values.items() if name not in BUDGET_ALIASES}
    for name, value in {**others, **_budget_mode(values)}.items():
        own = ALIASES.get(name, name)
        if own in own_values and own_values[own] != value:
            raise ConfigurationError(
                f"{own!r} has two values, {own_values[own]!r} and {value!r}, under different names: "
                f"remove {name!r} or the other one"
            )
        own_values[own] = value
    if DEBUGGING_WINDOW in own_values:
        window = {"window_messages": own_values.pop(DEBUGGING_WINDOW)}
        presets = own_values.get("presets", {})
        own_values["presets"] = {**presets, "debugging": {**presets.get("debugging", {}), **window}}
    return own_values


def _budget_mode(values: Values) -> dict[str, Any]:
    """Return the `budget_mode` that `hard_limit` and `require_approval` mean, as a mapping.

    It is empty without these two. Raises `ConfigurationError` if `budget_mode` is given and
    differs, pydantic's `ValidationError` if one of the two is not a boolean.
    """
    flags = {name: values[name] for name in BUDGET_ALIASES if values.get(name) is not None}
    if not flags:
        return {}
    hard, approval = (_FLAG.validate_python(flags.get(name, False)) for name in BUDGET_ALIASES)
    mode = "hard" if hard else "ask" if approval else "soft"
    if values.get("budget_mode", mode) != mode:
        raise ConfigurationError(
            f"{flags} mean budget_mode={mode!r}, and budget_mode is {values['budget_mode']!r}: "
            "remove one of them"
        )
    return {"budget_mode": mode}


def aliases_in(variables: Values, prefix: str) -> dict[str, Any]:
    """Return the settings that environment variables set under another name, by their own names.

    An empty variable counts as not set. `prefix` is that of unsay's variables; a few are read without it as well. The errors are those
    of `without_aliases`.
    """
    by_name = {name.upper(): value for name, value in variables.items() if value}
    values = {
        alias: by_name[name]
        for alias in OTHER_NAMES
        for name in (alias.upper(), prefix + alias.upper())
        if name in by_name and (name.startswith(prefix) or name in UNPREFIXED)
    }
    return without_aliases(values)


def _plain(name: str) -> str:
    return name.strip().casefold().replace("-", "_")


def preset_values(named: Values) -> dict[str, Any]:
    """Return the values of the preset that the settings `named` name; its own name is under `preset`.

    In the name, letter case, and `-` for `_`, do not matter. Empty if they name none. Raises `ConfigurationError` if there is no preset of this name, and the
    errors of `without_aliases` for a preset of the user.
    """
    name, custom = named.get("preset"), named.get("presets")
    # Pydantic refuses other types of both later.
    custom_presets = custom if isinstance(custom, Mapping) else {}
    if not isinstance(name, str):
        return {}
    preset_names = sorted({*PRESETS, *map(str, custom_presets)})
    alike = (each for each in preset_names if _plain(each) == _plain(name))
    preset_name = name if name in preset_names else next(alike, None)
    if preset_name is None:
        raise ConfigurationError(
            f"There is no preset {name!r}{hint(name, preset_names)}: write one of "
            f"{', '.join(map(repr, preset_names))}, or add it under `presets`"
        )
    values = custom_presets.get(preset_name)
    own = without_aliases(values) if isinstance(values, Mapping) else {}
    return {**PRESETS.get(preset_name, {}), **own, "preset": preset_name}


def merged(below: Values, given: Values) -> dict[str, Any]:
    """Return all settings: those in `given`, over those of the preset, over those in `below`.

    `below` has the values of the environment and the file. Either of the two may name the preset.
    Raises the errors of `preset_values`.
    """
    preset = preset_values({**below, **given})
    name = {"preset": preset["preset"]} if preset else {}
    return {**below, **preset, **given, **name}


@contextmanager
def refusing(names: Iterable[str], origins: Mapping[str, str] | None = None) -> Iterator[None]:
    """Turn errors in reading settings, within a `with` block, into `ConfigurationError`.

    These are impossible values and a file that cannot be read. `names` are the known settings, from
    which the message suggests the nearest. `origins` says where a setting was read from, by its
    name, and may be filled within the block; of arguments it has nothing.
    """
    try:
        yield
    except ValidationError as error:
        raise _refusal(error, names, origins or {}) from error
    except SettingsError as error:
        match = re.search(r'field "(\w+)"', str(error))
        value = f"the variable UNSAY_{match[1].upper()}" if match else str(error)
        raise ConfigurationError(
            f"These settings cannot be used: {value} is a list or a table: write it as JSON, such "
            'as ["score"] or {"ja": 0.4}'
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise ConfigurationError(
            f"The file {abspath('unsay.toml')!r} cannot be read: {_read_fault(error)}"
        ) from error


def _read_fault(error: Exception) -> str:
    """Return what is wrong with a file of settings; where its text is wrong, with the line."""
    if isinstance(error, UnicodeDecodeError):
        line = error.object[: error.start].count(b"\n") + 1
        return f"it is not UTF-8 text (at line {line})"
    # The text of an `OSError` repeats the path.
    return getattr(error, "strerror", None) or str(error)


def _refusal(
    error: ValidationError, names: Iterable[str], origins: Mapping[str, str]
) -> ConfigurationError:
    """Return an error, for the caller to raise, with each fault, its origin and the nearest names."""
    setting_names, faults = list(names), []
    # Of a value with several possible types pydantic reports what is wrong with it for each type.
    # The place inside of a list is the most exact one.
    exact = {
        fault["loc"][:1]: fault for fault in sorted(error.errors(), key=lambda f: len(f["loc"]))
    }
    for fault in error.errors():
        if len(fault["loc"]) < len(exact[fault["loc"][:1]]["loc"]):
            continue
        origin = origins.get(str(fault["loc"][0])) if fault["loc"] else None
        faults.append(_fault(fault, setting_names) + (f" (from {origin})" if origin else ""))
    return ConfigurationError(f"These settings cannot be used: {'; '.join(faults)}")


def _fault(fault: ErrorDetails, names: list[str]) -> str:
    # With several possible types pydantic names the type as well, such as `literal['all','none']`.
    place = ".".join(part for part in map(str, fault["loc"]) if "[" not in part)
    if fault["type"] == "extra_forbidden":
        meant = hint(place, names) or " (`unsay settings` lists them)"
        return f"{place}: there is no such setting{meant}"
    if not place:  # a check of several settings, which names them
        return fault["msg"].removeprefix("Value error, ")
    # Several values are written as a list, whatever type they become.
    words = fault["msg"].removeprefix("Value error, ").replace("frozenset", "list")
    choices = re.findall(r"'([^']+)'", str(fault.get("ctx", {}).get("expected", "")))
    return f"{place}: {words}, got {fault['input']!r:.80}{hint(fault['input'], choices)}"


def refuse_misspelt(variables: Iterable[str], names: Iterable[str], *, prefix: str) -> None:
    """Raise `ConfigurationError` if a variable with the prefix is a misspelt setting.

    Other variables are left alone, because they may belong to another program.
    """
    setting_names = list(names)
    for variable in sorted(variables):
        name = variable.upper().removeprefix(prefix).lower()
        if not variable.upper().startswith(prefix) or name in setting_names:
            continue
        if (meant := nearest(name, setting_names, least=TYPO)) is not None:
            raise ConfigurationError(
                f"There is no setting for the variable {variable!r}: did you mean "
                f"{prefix + meant.upper()!r}?"
            )


@lru_cache(maxsize=256)
def warn_of_misspelt(key: str, names: frozenset[str]) -> None:
    """Warn of a key of a run's context that is a setting of all runs, or looks like a misspelt one.

    The first is logged, since the key can be the host's own; the second is a Python warning that
    names the right key. Both usually come once in a process.
    """
    if key in names:
        LOG.warning("key=%r this setting holds for all runs: give it in settings", key)
    elif key not in HOSTS_OWN and (meant := nearest(key, names, least=SLIP)) is not None:
        warnings.warn(f"The context has no setting {key!r}: did you mean {meant!r}?", stacklevel=2)
