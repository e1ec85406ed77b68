"""A conversation with every form of stored message, written by the LangGraph that is on the path.

Its arguments: the path of the file, and `write` or `read`. It prints the version and the transcript.
"""

import json
import sys
from importlib.metadata import version

from tests.graph.kit import Numbered, config, make, say, scores
from tests.reading import said
from unsay.messages.annotations import annotation_of
from unsay.storage.sqlite import open_database


def main(path: str, task: str) -> None:
    """Write or read the file."""
    database = open_database(path)
    settings = {"live_messages": 20}
    graph = make(
        Numbered(),
        scores(0.9, 0.1, 0.9),
        settings=settings,
        checkpointer=database.saver,
        store=database.store,
    )
    if task == "write":
        # More updates than lie between two snapshots of the transcript, rollbacks, and a name.
        for number in range(45):
            say(graph, f"question {number}")
        say(graph, "/checkpoint here", "more", "/rollback here", "/undo", "/undo")
    else:
        say(graph, "and now?", "/undo", "/rollback here", "/undo")
    messages = graph.get_state(config()).values["messages"]
    verdicts = [annotation_of(message).get("score") for message in messages]
    print(json.dumps([version("langgraph"), said(messages), verdicts]))
    database.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
