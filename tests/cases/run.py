"""Run one case and compare its result with the expected one."""

import json
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from langchain_core.messages.utils import convert_to_messages

from tests.cases.assertions import ERROR_CLAIMS, holds
from tests.cases.observation import Case, Observation
from tests.cases.operations import OPERATIONS
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
            observation = operation(case, Path(folder))
        except NotBoundError as error:
            return f"operation {case['operation']} is not bound for {error}"
        except Exception as error:  # noqa: BLE001 - what a case raises is its result
            observation = Observation(error=error)
        try:
            return next(_differences(expected, observation), None)
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
    error_names = [ALIASES.get(name, name) for name in expected.get("raises", "").split("|")]
    names = {base.__name__ for base in type(error).__mro__}
    fits = "*" in error_names or names & set(error_names)
    if fits and expected.get("match", "").lower() in str(error).lower():
        return None
    return f"expected {_shorten(expected)}, got {type(error).__name__}: {error}"


def _shorten(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 300 else f"{text[:300]} …"


def _differences(expected: Case, observation: Observation) -> Iterator[str]:
    if wrong := _wrong_error(expected, observation.error):
        yield wrong
        return
    for key, value in expected.items():
        if key not in ("raises", "match"):
            yield from _differences_of(key, value, observation)


def _differences_of(key: str, value: Any, observation: Observation) -> Iterator[str]:
    if key == "assertions":
        failures = [claim for claim in value if not holds(claim, observation)]
        yield from (f"expected {claim}, got {_summary(observation)}" for claim in failures)
    elif key == "state":
        yield from _state_differences(value, observation)
    elif key in ("unchanged", "messages"):
        yield from _message_differences(key, value, observation)
    elif not key.startswith("returns"):
        raise NotBoundError(f"expected {key}")
    elif not _is_returned(key, value, observation.value):
        yield f"expected {key} {value!r}, got {observation.value!r}"


def _message_differences(key: str, expectation: Any, observation: Observation) -> Iterator[str]:
    """Yield a difference unless the messages are the expected ones, or the given ones."""
    if (
        observation.messages is None
        or expectation is False
        or (key == "unchanged" and observation.given is None)
    ):
        raise NotBoundError(f"expected {key}")
    expected = observation.given if key == "unchanged" else convert_to_messages(expectation)
    if [plain(m) for m in expected or ()] != [plain(m) for m in observation.messages]:
        yield f"expected {key} {_shorten(expectation)}, got {_summary(observation)}"


def _state_differences(state: Case, observation: Observation) -> Iterator[str]:
    counters = {
        **(observation.world.counters() if observation.world else {}),
        **(observation.state or {}),
    }
    for name, value in state.items():
        if name not in counters:
            raise NotBoundError(f"state {name}")
        if counters[name] != value:
            yield f"expected {name} {value!r}, got {counters[name]!r}"


def _is_returned(key: str, expectation: Any, got: Any) -> bool:
    if key == "returns_one_of":
        return any(_same(value, got) for value in expectation)
    if key == "returns_between":
        return got is not None and expectation[0] <= got <= expectation[1]
    if key == "returns_ge":
        return got is not None and got >= expectation
    return key == "returns" and _same(expectation, got)


def _same(expectation: Any, got: Any) -> bool:
    numbers = isinstance(expectation, float | int) and isinstance(got, float | int)
    return math.isclose(expectation, got, abs_tol=1e-9) if numbers else expectation == got


def _summary(observation: Observation) -> str:
    if observation.messages is not None:
        return f"{[f'{m.type}: {m.content}'[:200] for m in observation.messages]}"
    if observation.world is None:
        return f"{observation.value!r}"
    transcript = [f"{m.type}: {m.content}" for m in observation.world.messages()]
    return f"{transcript} {observation.world.counters()}"
