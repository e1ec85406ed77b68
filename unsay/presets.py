"""Presets, and the errors that refuse an impossible setting."""

import re
from collections.abc import Iterable, Mapping
from difflib import SequenceMatcher
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from unsay.errors import ConfigurationError

Values = Mapping[str, Any]
PRESETS: Mapping[str, Values] = MappingProxyType(
    {
        "chat": {
            "window_messages": 30,
            "agent_budget_tokens": 25_000,
            "primers": 2,
            "recents": 10,
        },
        "debugging": {
            "window_messages": 100,
            "agent_budget_tokens": 75_000,
            "primers": 5,
            "recents": 30,
        },
        "long_task": {
            "window_messages": 75,
            "task_budget_tokens": 300_000,
            "live_messages": 1_000,
        },
    }
)
"""Source: Zhang 2026, chapter 7.7 (`token_budget_per_…`, `…_count`, `max_history`)."""

TYPO = 0.8
"""Least likeness of a misspelt setting. One wrong letter is above it for every setting; variables
that an orchestrator makes (`UNSAY_SERVICE_HOST`, `UNSAY_PORT`) are below it. Own measurement."""


def nearest(name: object, names: Iterable[str], *, least: float = 0.6) -> str | None:
    """Return the most similar name, with its words in any order; `None` if none is `least` similar."""
    wanted = str(name).lower()
    likeness, best = max(((_likeness(wanted, each), each) for each in names), default=(0.0, None))
    return best if likeness >= least else None


def _likeness(one: str, other: str) -> float:
    one_sorted, other_sorted = ("_".join(sorted(name.split("_"))) for name in (one, other))
    spelt = SequenceMatcher(None, one, other).ratio()
    return float(max(spelt, SequenceMatcher(None, one_sorted, other_sorted).ratio()))


def merged(below: Values, given: Values) -> dict[str, Any]:
    """Return the given settings over the preset's, over those of the environment and file (`below`).

    It raises `ConfigurationError` if there is no preset of the given name.
    """
    named = {**below, **given}
    name, custom = named.get("preset"), named.get("presets")
    # Pydantic refuses other types of both later.
    custom_presets = custom if isinstance(custom, Mapping) else {}
    if not isinstance(name, str):
        return named
    if name not in PRESETS and name not in custom_presets:
        known = sorted({*PRESETS, *map(str, custom_presets)})
        raise ConfigurationError(
            f"There is no preset {name!r}{hint(name, known)}: write one of "
            f"{', '.join(map(repr, known))}, or add it under `presets`"
        )
    values = custom_presets.get(name)
    preset = {**PRESETS.get(name, {}), **(values if isinstance(values, Mapping) else {})}
    return {**below, **preset, **given}


def hint(name: object, names: Iterable[str]) -> str:
    """Return a question that suggests the most similar name; empty if none is similar."""
    meant = nearest(name, names)
    return "" if meant is None else f" (did you mean {meant!r}?)"


def refusal(error: ValidationError, names: Iterable[str]) -> ConfigurationError:
    """Return an error, to be raised, that names each fault and suggests the nearest names."""
    known = list(names)
    faults = "; ".join(_fault(each, known) for each in error.errors())
    return ConfigurationError(f"These settings cannot be used: {faults}")


def _fault(fault: ErrorDetails, names: list[str]) -> str:
    place = ".".join(str(part) for part in fault["loc"]) or "settings"
    if fault["type"] == "extra_forbidden":
        meant = hint(place, names) or " (unsay.settings.Settings lists them)"
        return f"{place}: there is no such setting{meant}"
    if fault["type"] != "literal_error":
        return f"{place}: {fault['msg']}"
    choices = re.findall(r"'([^']+)'", str(fault.get("ctx", {}).get("expected", "")))
    return f"{place}: {fault['msg']}{hint(fault['input'], choices)}"


def refuse_misspelt(variables: Iterable[str], names: Iterable[str], *, prefix: str) -> None:
    """Raise `ConfigurationError` if a variable with the prefix is a misspelt setting.

    Other variables are left alone, because they may belong to another program.
    """
    known = list(names)
    for variable in sorted(variables):
        name = variable.upper().removeprefix(prefix).lower()
        if not variable.upper().startswith(prefix) or name in known:
            continue
        meant = nearest(name, known, least=TYPO)
        if meant is not None:
            raise ConfigurationError(
                f"There is no setting for the variable {variable!r}: did you mean "
                f"{prefix + meant.upper()!r}?"
            )
