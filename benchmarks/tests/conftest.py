"""The environment of the other tests."""

from tests.conftest import _bare_environment  # noqa: F401 - a fixture
