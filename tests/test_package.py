import ast
import io
import json
import re
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import get_args

import pytest

import unsay
from unsay import errors
from unsay.results.results import EventKind
from unsay.state import State
from unsay.types import BranchKind, EventType, ForgottenKind, OperationKind

LIGHT = "import sys, unsay; print(sorted(m for m in ('langgraph', 'pydantic', 'langchain_core') if m in sys.modules))"


PACKAGE = Path(unsay.__file__).parent
NODES = {
    "create_checkpoint",
    "detect_topic_change",
    "evaluate_quality",
    "process_message",
    "rollback",
}


@pytest.mark.parametrize("name", unsay.__all__)
def test_every_public_name_is_there(name: str) -> None:
    """The lazy front door gives what it lists; a union of types has no name of its own."""
    assert getattr(getattr(unsay, name), "__name__", name) == name
    assert name in dir(unsay)


DOCUMENTED = {
    section.split("`", 1)[0]: re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)
    for section in (PACKAGE.parent / "docs" / "api.md").read_text("utf-8").split("\n## `")[1:]
}


@pytest.mark.parametrize("name", sorted(DOCUMENTED))
def test_the_documented_names_are_the_public_names(name: str) -> None:
    """`docs/api.md` describes each public name, and each name that it describes is there."""
    package = import_module(name)

    assert sorted(package.__all__) == DOCUMENTED[name]
    assert all(hasattr(package, name) for name in DOCUMENTED[name])


@pytest.mark.parametrize("package", ["messages", "events"])
def test_a_package_gives_its_public_names(package: str) -> None:
    """The names are what they say, even where every module of the package is loaded."""
    home = import_module(f"unsay.{package}")
    for file in Path(home.__path__[0]).glob("[a-z]*.py"):
        import_module(f"unsay.{package}.{file.stem}")

    assert home.__all__ == [getattr(home, name).__name__ for name in home.__all__]
    assert home.__all__ == dir(home)
    with pytest.raises(AttributeError, match="nothing_here"):
        home.nothing_here  # noqa: B018 - the access is what is tested


def test_every_error_can_be_imported_from_the_front_door() -> None:
    """`from unsay import ConflictError` is the first guess."""
    error_names = [name for name, value in vars(errors).items() if isinstance(value, type)]

    assert {name: getattr(errors, name) for name in error_names} == {
        name: getattr(unsay, name) for name in error_names
    }


def test_an_unknown_name_is_an_attribute_error() -> None:
    """The front door does not hide a misspelling."""
    with pytest.raises(AttributeError, match="nothing_here"):
        unsay.nothing_here  # noqa: B018 - the access is what is tested


def test_importing_the_package_loads_nothing_heavy() -> None:
    """`import unsay` stays instant."""
    output = subprocess.run(
        [sys.executable, "-c", LIGHT], capture_output=True, text=True, check=True
    ).stdout

    assert output.strip() == "[]"


def test_the_exported_graph_has_neither_checkpointer_nor_store() -> None:
    """LangGraph's servers bring their own."""
    graph = import_module("unsay.graph.app").graph

    assert graph.checkpointer is None
    assert graph.store is None


def test_nodes_holds_the_five_nodes_and_nothing_else() -> None:
    """A reader of these five files understands the agent."""
    assert NODES | {"__init__"} == {
        path.stem for path in (PACKAGE / "nodes").iterdir() if path.suffix
    }


@pytest.mark.parametrize(("folder", "limit"), [("nodes", 250), (".", 600)])
def test_files_are_short(folder: str, limit: int) -> None:
    """A file is read in one sitting."""
    lengths = {
        str(path.relative_to(PACKAGE)): len(path.read_text("utf-8").splitlines())
        for path in (PACKAGE / folder).rglob("*.py")
    }

    assert {} == {name: length for name, length in lengths.items() if length > limit}


TABLE = Path(__file__).with_name("code_lines.json")


def code_lines(path: Path) -> int:
    """Return how many lines of a file hold code: no docstring, comment or blank line."""
    source = path.read_text("utf-8")
    docstrings = {
        line
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    lines = {
        line
        for token in tokens
        if token.type not in NO_CODE
        for line in range(token.start[0], token.end[0] + 1)
    }
    return len(lines - docstrings)


NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def test_code_grows_nowhere_unseen() -> None:
    """`code_lines.json` has the code lines of each package; the total goes down or stays.

    After a move between packages, or when code became less, write the new numbers into the table.
    """
    packages: Counter[str] = Counter()
    for path in PACKAGE.rglob("*.py"):
        packages[path.relative_to(PACKAGE).parts[0].removesuffix(".py")] += code_lines(path)
    table = json.loads(TABLE.read_text("utf-8"))
    modules = {name for name in packages if (PACKAGE / f"{name}.py").is_file()}
    lines_by_package = {name: lines for name, lines in packages.items() if name not in modules}
    lines_by_package["(modules)"] = sum(packages[name] for name in modules)

    assert table["packages"] == dict(sorted(lines_by_package.items()))
    assert table["total"] == packages.total()


RETIRED = frozenset(
    [
        "anew",
        "bill",
        "book",
        "cut",
        "cuts",
        "fold",
        "folded",
        "folds",
        "journal",
        "landing",
        "landings",
        "ledger",
        "ledgers",
        "line",
        "lines",
        "logbook",
        "mark",
        "marks",
        "move",
        "moves",
        "record",
        "records",
        "remembering",
        "sealed",
        "sight",
        "situation",
        "situations",
        "talk",
        "talks",
        "told",
        "unfolded",
        "unsealed",
        "view",
        "views",
    ]
)
ORDINARY = {
    "cli/screen.py": {"end_line"},
    "cli/terminal.py": {"line", "padded.line"},
    "results/timeline.py": {"one_line", "forgotten_line"},
    "context/summaries.py": {"lines_of"},
    "judging/vocabulary.py": {"LINE_WIDTH", "LINES_ENDED"},
    "transcript/forget.py": {"move_pins"},
    "testing/scripts.py": {"Line", "lines_of", "line_for"},
}
"""Names with a retired word in its ordinary sense, such as a line of text."""


def names_in(node: ast.AST) -> Iterator[str]:
    """The public names that a statement defines: functions, parameters, classes, fields, constants."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        if node.name.startswith("_"):
            return
        yield node.name
        if isinstance(node, ast.ClassDef):
            for inner in node.body:
                yield from names_in(inner)
        else:
            arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            yield from (f"{node.name}.{argument.arg}" for argument in arguments)
    elif isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        yield from (target.id for target in targets if isinstance(target, ast.Name))


def is_retired(name: str) -> bool:
    """Whether a name has a retired word in it."""
    name_words = re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])", name.rpartition(".")[2])
    return not name.startswith("_") and not RETIRED.isdisjoint(word.lower() for word in name_words)


def test_no_public_name_has_a_retired_word() -> None:
    """One word for one thing: the terms of the glossary, in names of code, state and fields."""
    names_used = {
        f"{path.relative_to(PACKAGE)}: {name}"
        for path in PACKAGE.rglob("*.py")
        for statement in ast.parse(path.read_text("utf-8")).body
        for name in names_in(statement)
        if is_retired(name) and name not in ORDINARY.get(str(path.relative_to(PACKAGE)), ())
    }

    assert names_used == set()


def test_no_event_kind_state_key_or_json_key_has_a_retired_word() -> None:
    """What a host reads from the stream, the state, the event log and `--json`."""
    kinds = [*get_args(EventKind), *get_args(EventType), *get_args(BranchKind)]
    kinds += [*get_args(OperationKind), *get_args(ForgottenKind)]
    keys = {*State.__annotations__, *kinds}
    strings = {
        keyword.arg
        for path in (PACKAGE / "cli").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call)
        and getattr(node.func, "id", "") + getattr(node.func, "attr", "") == "show"
        for keyword in node.keywords
        if keyword.arg
    }

    assert {name for name in keys | strings if is_retired(name)} == set()
