"""What runs are called: as the host says, else by what they began with."""

import hashlib

from langgraph.runtime import ExecutionInfo


def run_id_of(info: ExecutionInfo | None) -> str | None:
    """The host's name for the run, else one that a step run twice makes again."""
    if info is None:
        return None
    if info.run_id:
        return str(info.run_id)
    return run_named_after(info.thread_id, info.checkpoint_id)


def run_named_after(thread_id: str | None, origin: str | None) -> str:
    """A run's id that follows from what it began with.

    Args:
        thread_id: Whose.
        origin: Id of the question, or of the checkpoint that the run set out from.
    """
    seed = f"{thread_id}\x00{origin}"
    return f"run-{hashlib.sha256(seed.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"
