"""`python -m tests.cases PATH…` runs case files and says how many pass."""

import sys
from pathlib import Path

from tests.cases.run import failure, read_cases


def main(arguments: list[str]) -> int:
    """Run the cases; a line for each failure, then the counts."""
    if not arguments:
        print("usage: python -m tests.cases PATH…", file=sys.stderr)
        return 2
    passed = failed = 0
    for case in read_cases(Path(path) for path in arguments):
        problem = failure(case)
        passed = passed + (problem is None)
        failed = failed + (problem is not None)
        if problem is not None:
            print(f"{case['id']}: {problem}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
