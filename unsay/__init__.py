"""Conversations that can take things back.

The public names are those of `__init__.pyi`. They are loaded when they are first used, so that
`import unsay` and `unsay --help` stay instant. `docs/api.md` describes each of them.
"""

import re
from importlib import import_module
from pathlib import Path
from typing import Any

from unsay.errors import *  # noqa: F403 - every error can be imported from here

_STUB = Path(__file__).with_name("__init__.pyi").read_text("utf-8")
_MODULES = {name: module for module, name in re.findall(r"^from (\S+) import (\w+)", _STUB, re.M)}
__all__ = sorted(_MODULES)  # noqa: PLE0605 - one list of the names


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'unsay' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return __all__
