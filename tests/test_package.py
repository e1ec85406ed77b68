import subprocess
import sys
from importlib import import_module

import pytest

import unsay

LIGHT = "import sys, unsay; print(sorted(m for m in ('langgraph', 'pydantic', 'langchain_core') if m in sys.modules))"


@pytest.mark.parametrize("name", unsay.__all__)
def test_every_public_name_is_there(name: str) -> None:
    """The lazy front door gives what it lists."""
    assert getattr(unsay, name).__name__ == name
    assert name in dir(unsay)


def test_an_unknown_name_is_an_attribute_error() -> None:
    """The front door does not hide a misspelling."""
    with pytest.raises(AttributeError, match="nothing_here"):
        unsay.nothing_here  # noqa: B018 - the access is what is tested


def test_importing_the_package_loads_nothing_heavy() -> None:
    """`import unsay` stays instant."""
    shown = subprocess.run(
        [sys.executable, "-c", LIGHT], capture_output=True, text=True, check=True
    ).stdout

    assert shown.strip() == "[]"


def test_the_exported_graph_has_neither_checkpointer_nor_store() -> None:
    """LangGraph's servers bring their own."""
    graph = import_module("unsay.graph.app").graph

    assert graph.checkpointer is None
    assert graph.store is None
