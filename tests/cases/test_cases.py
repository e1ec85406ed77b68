import os
from pathlib import Path

import pytest

from tests.cases.operations import OPERATIONS
from tests.cases.run import failure, read_cases

FOLDER = Path(os.environ.get("UNSAY_CASES", Path(__file__).parents[3] / "shared" / "cases"))
FILE = FOLDER / "cases.json"
AREAS = {
    "backpressure",
    "budget",
    "checkpoint",
    "circuit",
    "compress",
    "compress_rate",
    "compress_trigger",
    "config",
    "judge",
    "overflow_detect",
    "overflow_retry",
    "pinning",
    "proactive",
    "reducer",
    "reminder",
    "repair",
    "rollback",
    "run",
    "session",
    "shape",
    "sliding_window",
    "snapshot",
    "store",
    "summarize",
    "summary_size",
    "token_estimate",
    "tool_truncation",
    "topic",
    "turn",
    "turns",
    "validate",
}


def _bound() -> list[dict]:
    if not FILE.exists():
        return []
    return [
        case
        for case in read_cases([FILE])
        if case["area"] in AREAS or case["operation"] in OPERATIONS
    ]


BOUND = _bound()


@pytest.mark.sample(every=2)
@pytest.mark.skipif(not BOUND, reason="the acceptance cases lie beside the repository, not in it")
@pytest.mark.parametrize("case", BOUND, ids=[case["id"] for case in BOUND])
def test_case(case: dict) -> None:
    """Each bound acceptance case passes."""
    problem = failure(case)

    if problem is not None and case["area"] not in AREAS and "is not bound" in problem:
        pytest.skip(problem)
    assert problem is None
