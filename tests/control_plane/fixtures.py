"""The control plane as a fixture; a ``conftest.py`` that imports it makes it available."""

from collections.abc import Iterator

import pytest

from control_plane.build import BuildError
from control_plane.cluster import ControlPlane, build_missing, obstacle
from control_plane.cluster import control_plane as running


@pytest.fixture(scope="session")
def control_plane_programs() -> None:
    """Whatever a control plane needs; tests that ask for it are skipped without."""
    problem = obstacle()
    if problem is not None:
        pytest.skip(problem)
    try:
        build_missing()
    except BuildError as error:
        pytest.skip(f"no control plane: {error}; see what `make control-plane` says")


@pytest.fixture(scope="session")
def control_plane(
    control_plane_programs: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """A real control plane for the whole session."""
    with running(tmp_path_factory.mktemp("control-plane")) as cluster:
        yield cluster
