"""An API server in memory, for the tests of its requests."""

import pytest

from helpers.server import Cluster, cluster


@pytest.fixture
def api() -> Cluster:
    """A server with nothing in it; some tests furnish their own."""
    return cluster()
