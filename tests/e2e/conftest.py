"""Clusters to test against from outside: a sandbox process and a real control plane."""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
import yaml

from control_plane.fixtures import control_plane as control_plane
from control_plane.fixtures import control_plane_programs as control_plane_programs
from control_plane.processes import Process
from differential.clusters import Cluster
from helpers.helm import helm as helm

_TESTS: Final = Path(__file__).parents[1]
_START_SECONDS: Final = 30


@pytest.fixture(scope="session")
def kubectl() -> str:
    """Where ``kubectl`` is; tests that ask for it are skipped without it."""
    found = shutil.which("kubectl")
    if found is None:
        pytest.skip("kubectl is not installed")
    return found


@pytest.fixture(scope="session")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A bare sandbox cluster in a process of its own."""
    folder = tmp_path_factory.mktemp("sandbox")
    kubeconfig = folder / "kubeconfig"
    process = Process(
        "sandbox",
        [sys.executable, "-m", "differential.serving", kubeconfig],
        folder,
        environment={**os.environ, "PYTHONPATH": str(_TESTS)},
    )
    try:
        process.wait_until(kubeconfig.exists, seconds=_START_SECONDS)
        content = yaml.safe_load(kubeconfig.read_text("utf-8"))
        url, _, token = content["clusters"][0]["cluster"]["server"].rpartition("/")
        yield Cluster(url, token, kubeconfig)
    finally:
        process.stop()
