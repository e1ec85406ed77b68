"""Operations on settings."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import chdir, contextmanager
from pathlib import Path

from tests.cases.observation import Case, Observation, Operation
from tests.cases.world import NotBoundError
from unsay.settings.settings import context_of, load_settings

DEBUGGING = "HISTORY_WINDOW_DEBUG_MESSAGES"
SHIPPED = {DEBUGGING: "75", "HISTORY_WINDOW_MESSAGES": "50"}
"""Defaults of the ancestor's variables for the window, and for that of its debugging preset.

Ours are 40, as another ancestor has it, and 100, as in the configuration that its source prints.
"""

FIELDS = {"history_window_size": "window_messages", "use_case_preset": "preset"}


@contextmanager
def _environment(folder: Path, values: Mapping[str, str]) -> Iterator[None]:
    """Set these variables and no other of unsay's, in an empty folder."""
    variables = dict(os.environ)
    for name in variables:
        if name.startswith("UNSAY_"):
            del os.environ[name]
    os.environ.update(values)
    try:
        with chdir(folder):
            yield
    finally:
        os.environ.clear()
        os.environ.update(variables)


def history_window(case: Case, folder: Path) -> Observation:
    """Return the number of messages in a run's window."""
    inputs = case["given"]
    request = dict(inputs.get("request", {}))
    variables = {**SHIPPED, **inputs.get("env", {})}
    if unknown := set(request) - set(FIELDS) | set(variables) - {
        *SHIPPED,
    }:
        raise NotBoundError(f"{sorted(unknown)}")
    debugging = {"window_messages": variables[DEBUGGING]}
    values = {"UNSAY_PRESETS": json.dumps({"debugging": debugging})}
    values["UNSAY_WINDOW_MESSAGES"] = variables["HISTORY_WINDOW_MESSAGES"]
    with _environment(folder, values):
        context = context_of({FIELDS[name]: value for name, value in request.items()})
        return Observation(value=load_settings().for_run(context).window_messages)


OPERATIONS: dict[str, Operation] = {"config.history_window": history_window}
