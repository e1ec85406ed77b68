"""Run the notebooks and store their results: `python docs/run_notebooks.py [NAME…]`.

A result is stored as the notebook shows it, except for what differs in each run: ids that unsay draws at
random are replaced by fixed ones, and text that was printed at once is one piece.
"""

import re
import sys
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import NAMESPACE_URL, uuid5

import nbformat
from nbclient import NotebookClient
from traitlets.config import Config

FOLDER = Path(__file__).parents[1] / "notebooks"
RANDOM = re.compile(r"\bcp-[0-9a-f]{10}\b|\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
"""Ids of checkpoints and of threads without a name."""


def run(path: Path) -> Any:
    """Run each cell of a notebook in its folder, and return the notebook with its results."""
    notebook = nbformat.read(path, as_version=4)
    metadata = notebook.metadata.copy()
    with TemporaryDirectory() as folder:
        # Sockets in a folder: a port that is chosen now can be taken before the kernel listens.
        kernel = Config(KernelManager={"transport": "ipc", "ip": f"{folder}/kernel"})
        place = {"metadata": {"path": str(path.parent)}}
        NotebookClient(
            notebook, config=kernel, timeout=120, record_timing=False, resources=place
        ).execute()
    notebook.metadata = metadata  # without the version of this machine's Python
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = joined(cell.outputs)
    return notebook


def joined(outputs: list[Any]) -> list[Any]:
    """Return outputs of which no two neighbours are text of the same stream."""
    pieces: list[Any] = []
    for output in outputs:
        last = pieces[-1] if pieces else {}
        if output.output_type == "stream" and last.get("name") == output.name:
            last["text"] += output.text
        else:
            pieces.append(output)
    return pieces


def with_fixed_ids(text: str, name: str) -> str:
    """Replace each random id in a notebook's text by one that follows from its order in it."""
    ids = list(dict.fromkeys(RANDOM.findall(text)))
    fixed = {drawn: fixed_id(drawn, f"{name}-{number}") for number, drawn in enumerate(ids)}
    return RANDOM.sub(lambda found: fixed[found[0]], text)


def fixed_id(drawn: str, seed: str) -> str:
    """Return an id of the same form as a random one."""
    if drawn.startswith("cp-"):
        return f"cp-{sha256(seed.encode()).hexdigest()[:10]}"
    return str(uuid5(NAMESPACE_URL, seed))


if __name__ == "__main__":
    for path in sorted(FOLDER.glob("*.ipynb")):
        if not sys.argv[1:] or path.stem in sys.argv[1:]:
            text = nbformat.writes(run(path))
            path.write_text(with_fixed_ids(text, path.stem) + "\n", encoding="utf-8")
