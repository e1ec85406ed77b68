"""Write the tables of `docs/settings.md` from the code: `python docs/generate_settings.py`.

Names, defaults and ranges are those of the classes in `unsay.settings.SECTIONS`, the effects the
docstrings below their fields. A test sets each example, in each of the sources.
"""

import ast
import inspect
import json
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from unsay.settings.presets import ALIASES, PRESETS
from unsay.settings.settings import SECTIONS, Context, Settings

PAGE = Path(__file__).with_name("settings.md")

START, END = "<!-- start of what docs/generate_settings.py writes -->", "<!-- end -->"

EXAMPLES: Mapping[str, Any] = {
    "model": "gpt-5-mini",
    "judge_model": "gpt-5-nano",
    "summarizer_model": "gpt-5-nano",
    "title_model": "gpt-5-nano",
    "judging": "local",
    "judge_scale": [1, 5],
    "quality_threshold": 0.6,
    "quality_thresholds": {"ja": 0.4},
    "judge_share": 0.5,
    "judge_rubric": ["Answers name their source."],
    "judge_panel": ["gpt-5", "gpt-5-mini"],
    "checkpoint_threshold": 0.9,
    "max_rollbacks": 5,
    "rollback_to": "checkpoint",
    "confirm_rollback": True,
    "on_exhausted": "ask",
    "stream": "held",
    "checkpoint_on": ["order"],
    "topics": "off",
    "language": "ja",
    "system_prompt": "Be brief.",
    "judge_timeout_seconds": 10.0,
    "model_timeout_seconds": 60.0,
    "thread_wait_seconds": 0.0,
    "max_tool_steps": 3,
    "live_messages": 40,
    "preset": "chat",
    "presets": {"brief": {"recents": 4}},
    "strategy": "sliding",
    "context_window_tokens": 32_000,
    "recall_tokens": 500,
    "memory_tools": "off",
    "window_messages": 60,
    "primers": 0,
    "recents": 7,
    "session_budget_tokens": 500_000,
    "task_budget_tokens": 100_000,
    "agent_budget_tokens": 25_000,
    "session_budget_cost": 1.5,
    "task_budget_cost": 0.5,
    "agent_budget_cost": 0.25,
    "budget_mode": "hard",
    "budget_warning": 0.5,
    "backpressure": [[0.5, 10], [1.0, 20]],
    "prices": {"gpt-5-mini": {"input": 2.5, "output": 10.0, "cache_read": 1.25}},
    "fallback_model": "gpt-4.1-mini",
    "parallel_calls": 4,
    "commands": ["help"],
    "trigger_ratio": 0.85,
    "target_ratio": 0.25,
    "summary_ratio": 0.5,
    "preserve_recent_messages": 4,
    "per_turn": 3,
    "summaries": "local",
    "summary_tokens": 200,
    "summary_temperature": 0.5,
    "summary_system_prompt": "Keep every number.",
    "truncate_results": False,
    "on_topic_change": "delete",
    "topic_change_threshold": 0.5,
}
"""For each setting a possible value that is not its default."""

NOUNS = {
    "boolean": "`true`, `false`",
    "integer": "whole number",
    "null": "none",
    "number": "number",
    "string": "text",
}
BOUNDS = {"exclusiveMinimum": "above", "minimum": "from", "maximum": "to"}

INTRODUCTION = """\
In `unsay.toml` a setting is a line such as `recents = 30`. Its variable is `UNSAY_` and the name in capitals; a list or a table there is JSON.
A setting with a star can also be set for one run, as a key of its `Context`. `None` (no value) is written by leaving the setting out.
Other names come from the articles that the numbers come from. They are accepted in the same places.
`COMPRESSION_TRIGGER_RATIO` and `COMPRESSION_TARGET_RATIO` are also read without `UNSAY_`.

`unsay settings` prints the values in force and where each one comes from.
"""

MORE: Mapping[str, str] = {
    "budget_mode": "Also set by two flags: `hard_limit: true` is `hard`, else `require_approval: true` is `ask`, else `soft`.",
    "presets": "`context_window_debugging` sets `window_messages` of the preset `debugging`.",
}
"""Other names that are more than a name."""


def tables() -> str:
    """Return a table of settings for each section, and one of the presets, as Markdown."""
    described = Settings.model_json_schema()["properties"]
    parts = [INTRODUCTION]
    for title, kind in SECTIONS.items():
        rows = [row(name, words, described[name]) for name, words in effects(kind).items()]
        parts.append(
            f"### {title}\n\n{table(('setting', 'default', 'range', 'effect', 'example'), rows)}"
        )
    presets = [
        (f"`{name}`", ", ".join(f"`{key} = {value}`" for key, value in values.items()))
        for name, values in PRESETS.items()
    ]
    parts.append(f"### Presets\n\n{table(('preset', 'it sets'), presets)}")
    return "\n".join(parts)


def effects(kind: type) -> dict[str, str]:
    """Return the docstring below each setting of a class, on one line, by the setting's name."""
    body = ast.parse(inspect.getsource(kind)).body[0].body
    found = {}
    for field, below in pairwise(body):
        if isinstance(field, ast.AnnAssign) and not field.target.id.startswith("_"):
            found[field.target.id] = " ".join(ast.literal_eval(below.value).split())
    return found


def row(name: str, effect: str, described: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the cells of a setting; `described` is its JSON Schema."""
    star = " \\*" if name in Context.__annotations__ else ""
    others = [f"`{alias}`" for alias, own in ALIASES.items() if own == name]
    more = [f"Also called {', '.join(others)}."] if others else []
    more += [MORE[name]] if name in MORE else []
    return (
        f"`{name}`{star}<br>`UNSAY_{name.upper()}`",
        value(described["default"]),
        span(described),
        " ".join([effect, *more]),
        f"`{toml(EXAMPLES[name])}`",
    )


def value(default: Any) -> str:
    """Return a default as the file has it; `none` for `None` and for an empty one."""
    return "none" if default in (None, [], {}) else f"`{toml(default)}`"


def span(described: Mapping[str, Any]) -> str:
    """Return in words what values a JSON Schema allows."""
    if "anyOf" in described:
        return " or ".join(map(span, described["anyOf"]))
    if "enum" in described:
        return ", ".join(f"`{each}`" for each in described["enum"])
    if described["type"] == "array":
        if "prefixItems" in described:
            return f"pair of {span(described['prefixItems'][0])}s"
        items = described["items"]
        pair = items.get("prefixItems")
        return f"list of pairs: {', '.join(map(span, pair))}" if pair else f"list of {span(items)}"
    if described["type"] == "object":
        values = described["additionalProperties"]
        of = span(values) if isinstance(values, dict) else "any value"
        return f"table of {of}"
    noun = NOUNS[described["type"]]
    return " ".join(
        [
            noun,
            *(
                f"{word} {plain(described[key])}"
                for key, word in BOUNDS.items()
                if key in described
            ),
        ]
    )


def plain(number: float) -> str:
    """Return a number without an exponent."""
    return f"{number:,.6f}".rstrip("0").rstrip(".")


def toml(given: Any) -> str:
    """Return a value as `unsay.toml` has it."""
    if isinstance(given, dict):
        return (
            f"{{{', '.join(f'{json.dumps(key)} = {toml(each)}' for key, each in given.items())}}}"
        )
    return json.dumps(given)


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Return a Markdown table."""
    lines = [head, ("---",) * len(head), *rows]
    return "".join(f"| {' | '.join(each.replace('|', '/') for each in line)} |\n" for line in lines)


def page() -> str:
    """Return `docs/settings.md` with fresh tables; the text around them stays."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(START)
    return f"{before}{START}\n\n{tables()}\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
