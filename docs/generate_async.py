"""Write the classes for async code from those for scripts: `python docs/generate_async.py`.

A public method becomes a coroutine, a stream an async generator, and a docstring refers to the
method that it was made from. Private methods stay with the class for scripts.
"""

import ast
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "unsay" / "conversation"
TWIN = FOLDER / "asynchronous.py"
SOURCES = ("collections", "conversation", "registry")
NAMES = {
    **{name: f"Async{name}" for name in ("Conversation", "Registry", "Pins", "Lessons", "Ratings")},
    "Blocking": "OnLoop",
    "Generator": "AsyncGenerator",
    "streamed": "astreamed",
    "drive": "adrive",
}


class Twin(ast.NodeTransformer):
    """Turns the parts of a module for scripts into those of its async twin."""

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST | None:
        """Import the twins of what the module imports, but not what is in the same file."""
        if node.module == "unsay.conversation.collections":
            return None
        names = [ast.alias(NAMES.get(each.name, each.name), each.asname) for each in node.names]
        return ast.ImportFrom(node.module, names, 0)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        """Keep the public methods, each with a docstring of one line."""
        methods = [
            each
            for each in node.body
            if isinstance(each, ast.FunctionDef) and not each.name.startswith("_")
        ]
        for each in methods:
            each.body[0] = ast.Expr(ast.Constant(f"As `{node.name}.{each.name}`."))
        node.body = [ast.Expr(ast.Constant(f"`{node.name}` for async code.")), *methods]
        node.name = NAMES[node.name]
        return self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """Make a coroutine of a method, except of a property and of a stream."""
        self.generic_visit(node)
        is_stream = ast.unparse(node.returns or node).startswith("AsyncGenerator")
        if is_stream or node.decorator_list:
            return node
        return ast.AsyncFunctionDef(**dict(ast.iter_fields(node)), lineno=0)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """Use the twin of a name."""
        return ast.Name(NAMES.get(node.id, node.id))

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Await the steps that are driven."""
        self.generic_visit(node)
        is_driven = ast.unparse(node.func) == "adrive"
        return ast.Await(node) if is_driven else node


def twin() -> str:
    """Return the module of the async twins, as ruff formats it."""
    parts: dict[str, ast.stmt] = {}  # by their text: modules import the same names
    for source in SOURCES:
        tree = ast.parse((FOLDER / f"{source}.py").read_text(encoding="utf-8"))
        for part in Twin().visit(tree).body[1:]:  # without the docstring
            names = part.names if isinstance(part, ast.ImportFrom) else []
            single = [ast.ImportFrom(part.module, [name], 0) for name in names] or [part]
            parts |= {ast.unparse(each): each for each in single}
    title = (
        "The classes for async code, written by `docs/generate_async.py` from those for scripts."
    )
    body = sorted(parts.values(), key=lambda part: isinstance(part, ast.ClassDef))  # imports first
    module = ast.Module([ast.Expr(ast.Constant(title)), *body], [])
    text = ast.unparse(module).replace("Event, None, None", "Event, None")
    for command in ("check --fix --select=F401,I", "format"):
        ruff = [sys.executable, "-m", "ruff", *command.split(), "--quiet"]
        ruff += ["--stdin-filename", str(TWIN), "-"]
        text = subprocess.run(ruff, input=text, capture_output=True, text=True, check=True).stdout  # noqa: S603 - our own tool
    return text


if __name__ == "__main__":
    TWIN.write_text(twin(), encoding="utf-8")
