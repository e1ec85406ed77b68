"""Cases of our own for the operators and parameters that the format lists."""

from pathlib import Path
from typing import Any

import pytest

from tests.cases.run import failure, read_cases

FOLDER = Path(__file__).parent


def _cases(name: str) -> list[Any]:
    return [pytest.param(case, id=case["id"]) for case in read_cases([FOLDER / f"{name}.jsonl"])]


@pytest.mark.parametrize("case", _cases("operators_pass"))
def test_a_true_case_passes(case: dict[str, Any]) -> None:
    """Each operator and parameter holds where the product behaves as the case says."""
    assert failure(case) is None


@pytest.mark.parametrize("case", _cases("operators_fail"))
def test_a_false_case_fails(case: dict[str, Any]) -> None:
    """Each operator fails where the case claims something else, and says what it expected."""
    assert (failure(case) or "").startswith("expected ")
