"""Operations on settings."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import Any

from tests.cases.seen import Case, Operation, Seen
from tests.cases.world import NotBoundError
from unsay.settings import Settings, context_of, load_settings

DEBUGGING = "HISTORY_WINDOW_DEBUG_MESSAGES"
SHIPPED = {DEBUGGING: "75"}
"""What the ancestor's own variable says of its debugging preset unless an operator changes it.

The seed's configuration for debugging, which ours follows, sets 100 there.
"""

FIELDS = {"history_window_size": "window_messages", "use_case_preset": "preset"}


@contextmanager
def _environment(folder: Path, values: Mapping[str, str]) -> Iterator[None]:
    """An environment with these variables and none of the person's, in an empty folder."""
    kept = dict(os.environ)
    for name in kept:
        if name.startswith("UNSAY_"):
            del os.environ[name]
    os.environ.update(values)
    try:
        with chdir(folder):
            yield
    finally:
        os.environ.clear()
        os.environ.update(kept)


def _granted(asked: Any) -> Any:
    """A window as it was asked for, and the nearest possible one where it is impossible.

    So the ancestor's server does it. Ours refuses such a window and names its bounds, to which a
    gateway may take it.
    """
    bounds = Settings.model_fields["window_messages"].metadata
    least, most = (next(getattr(b, x) for b in bounds if hasattr(b, x)) for x in ("ge", "le"))
    return asked if least <= int(asked) <= most else max(least, min(most, int(asked)))


def history_window(case: Case, folder: Path) -> Seen:
    """How many messages a run's window has."""
    given = case["given"]
    request, variables = dict(given.get("request", {})), {**SHIPPED, **given.get("env", {})}
    if unknown := set(request) - set(FIELDS) | set(variables) - {
        *SHIPPED,
        "HISTORY_WINDOW_MESSAGES",
    }:
        raise NotBoundError(f"{sorted(unknown)}")
    debugging = {"window_messages": _granted(variables[DEBUGGING])}
    values = {"UNSAY_PRESETS": json.dumps({"debugging": debugging})}
    if "HISTORY_WINDOW_MESSAGES" in variables:
        values["UNSAY_WINDOW_MESSAGES"] = str(_granted(variables["HISTORY_WINDOW_MESSAGES"]))
    if "history_window_size" in request:
        request["history_window_size"] = _granted(request["history_window_size"])
    with _environment(folder, values):
        context = context_of({FIELDS[name]: value for name, value in request.items()})
        return Seen(value=load_settings().for_run(context).window_messages)


OPERATIONS: dict[str, Operation] = {"config.history_window": history_window}
