"""Run one case and compare its result with the expected one."""

import json
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from langchain_core.messages.utils import convert_to_messages

from tests.cases.assertions import ERROR_CLAIMS, holds
from tests.cases.operations import OPERATIONS
from tests.cases.seen import Case, Seen
from tests.cases.transcripts import plain
from tests.cases.world import NotBoundError

ALIASES = {"ContextOverflow": "ContextOverflowError", "SessionEnded": "SessionEndedError"}


def read_cases(paths: Iterable[Path]) -> Iterator[Case]:
    """Yield the cases of some files, each a JSON list or one JSON object a line."""
    for path in paths:
        text = path.read_text(encoding="utf-8")
        if text.lstrip().startswith("["):
            yield from json.loads(text)
        else:
            yield from (json.loads(line) for line in text.splitlines() if line.strip())


def failure(case: Case) -> str | None:
    """Return why a case fails, with expected and actual values; `None` if it passes."""
    operation = OPERATIONS.get(case["operation"])
    if operation is None:
        return f"operation {case['operation']} is not bound"
    expected = case["expected"]
    with TemporaryDirectory() as folder:
        try:
            seen = operation(case, Path(folder))
        except NotBoundError as error:
            return f"operation {case['operation']} is not bound for {error}"
        except Exception as error:  # noqa: BLE001 - what a case raises is its result
            seen = Seen(error=error)
        try:
            return next(_differences(expected, seen), None)
        except NotBoundError as error:
            return f"operation {case['operation']} is not bound for {error}"
        except (LookupError, TypeError) as error:
            return f"the result of {case['operation']} cannot be compared: {error!r}"


def _wrong_error(expected: Case, error: Exception | None) -> str | None:
    """Return how the error differs from the expected one; `None` if it does not."""
    if error is None:
        return f"expected {expected['raises']}, got no error" if "raises" in expected else None
    if "raises" not in expected and any(
        claim["op"] in ERROR_CLAIMS for claim in expected.get("assertions", ())
    ):
        return None
    wanted = [ALIASES.get(name, name) for name in expected.get("raises", "").split("|")]
    names = {each.__name__ for each in type(error).__mro__}
    fits = "*" in wanted or names & set(wanted)
    if fits and expected.get("match", "").lower() in str(error).lower():
        return None
    return f"expected {_shortened(expected)}, got {type(error).__name__}: {error}"


def _shortened(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 300 else f"{text[:300]} …"


def _differences(expected: Case, seen: Seen) -> Iterator[str]:
    if wrong := _wrong_error(expected, seen.error):
        yield wrong
        return
    for key, value in expected.items():
        if key not in ("raises", "match"):
            yield from _differences_of(key, value, seen)


def _differences_of(key: str, value: Any, seen: Seen) -> Iterator[str]:
    if key == "assertions":
        failed = [claim for claim in value if not holds(claim, seen)]
        yield from (f"expected {claim}, got {_summary(seen)}" for claim in failed)
    elif key == "state":
        yield from _state_differences(value, seen)
    elif key in ("unchanged", "messages"):
        yield from _message_differences(key, value, seen)
    elif not key.startswith("returns"):
        raise NotBoundError(f"expected {key}")
    elif not _returned(key, value, seen.value):
        yield f"expected {key} {value!r}, got {seen.value!r}"


def _message_differences(key: str, wanted: Any, seen: Seen) -> Iterator[str]:
    """Yield a difference unless the messages are the expected ones, or the given ones."""
    if seen.messages is None or wanted is False or (key == "unchanged" and seen.given is None):
        raise NotBoundError(f"expected {key}")
    expected = seen.given if key == "unchanged" else convert_to_messages(wanted)
    if [plain(m) for m in expected or ()] != [plain(m) for m in seen.messages]:
        yield f"expected {key} {_shortened(wanted)}, got {_summary(seen)}"


def _state_differences(wanted: Case, seen: Seen) -> Iterator[str]:
    counters = {**(seen.world.counters() if seen.world else {}), **(seen.state or {})}
    for name, value in wanted.items():
        if name not in counters:
            raise NotBoundError(f"state {name}")
        if counters[name] != value:
            yield f"expected {name} {value!r}, got {counters[name]!r}"


def _returned(key: str, wanted: Any, got: Any) -> bool:
    if key == "returns_one_of":
        return any(_same(each, got) for each in wanted)
    if key == "returns_between":
        return got is not None and wanted[0] <= got <= wanted[1]
    if key == "returns_ge":
        return got is not None and got >= wanted
    return key == "returns" and _same(wanted, got)


def _same(wanted: Any, got: Any) -> bool:
    numbers = isinstance(wanted, float | int) and isinstance(got, float | int)
    return math.isclose(wanted, got, abs_tol=1e-9) if numbers else wanted == got


def _summary(seen: Seen) -> str:
    if seen.messages is not None:
        return f"{[f'{m.type}: {m.content}'[:200] for m in seen.messages]}"
    if seen.world is None:
        return f"{seen.value!r}"
    transcript = [f"{m.type}: {m.content}" for m in seen.world.messages()]
    return f"{transcript} {seen.world.counters()}"
