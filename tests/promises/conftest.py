"""What the tests of the promises are given: the same as those of whole conversations."""

from tests.graph.conftest import _every_stream_event_fits, open_thread  # noqa: F401 - fixtures
from tests.postgres.conftest import machine, url  # noqa: F401 - fixtures

collect_ignore = ["crash_child.py", "writer_child.py"]
