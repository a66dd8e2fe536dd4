"""The wheel and the source archive: each installed into an empty environment, on every Python there is.

The wheels of what the program depends on are those that `requirements/run.txt` pins; `make wheels` fetches
them once, and nothing here needs a network.
"""

import subprocess
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from helpers.pythons import Environment, need, plain_environment, wheelhouse
from helpers.real_cluster import Kubectl, sandbox_process
from helpers.scale_walk import EXAMPLE
from karpenter import __version__
from releasing import wheels

pytestmark = pytest.mark.slow

PATIENCE = 60.0
PLAN = wheels.ROOT / "examples" / "plan"
WHERE = "import karpenter, karpenter_sandbox; print(karpenter.__file__, karpenter_sandbox.__file__)"


class Distributions(NamedTuple):
    wheel: Path
    archive: Path


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Distributions:
    wheelhouse()
    return Distributions(*wheels.build(wheels.ROOT, tmp_path_factory.mktemp("dist")))


def test_two_builds_are_equal(distributions: Distributions, tmp_path: Path) -> None:
    again = Distributions(*wheels.build(wheels.ROOT, tmp_path))

    assert [file.name for file in distributions] == [file.name for file in again]
    assert [file.read_bytes() for file in distributions] == [file.read_bytes() for file in again]


def test_the_archive_builds_the_same_wheel(distributions: Distributions, tmp_path: Path) -> None:
    with tarfile.open(distributions.archive) as archive:
        archive.extractall(tmp_path, filter="data")
    (source,) = tmp_path.iterdir()

    assert {"LICENSE", "README.md", "pyproject.toml", "src"} <= {p.name for p in source.iterdir()}
    wheel, _ = wheels.build(source, tmp_path / "dist")
    assert distributions.wheel.read_bytes() == wheel.read_bytes()


def test_the_wheel_holds_the_program_its_licence_and_nothing_else(
    distributions: Distributions,
) -> None:
    with zipfile.ZipFile(distributions.wheel) as archive:
        names = archive.namelist()

    description = f"karpenter-{__version__}.dist-info"
    assert {"karpenter", "karpenter_sandbox", description} == {name.split("/")[0] for name in names}
    assert f"{description}/licenses/LICENSE" in names
    assert "karpenter/py.typed" in names
    assert [] == [name for name in names if "/tests/" in name or name.endswith(".pyc")]


@pytest.mark.case("OPS-24")
@pytest.mark.parametrize("version", wheels.PYTHONS)
def test_both_install_and_run_in_an_empty_environment(
    version: str, distributions: Distributions, tmp_path: Path, kubectl: str
) -> None:
    assert kubectl
    python = need(version)
    environment = Environment(python, tmp_path / "environment")
    environment.install("--require-hashes", "-r", wheels.REQUIREMENTS / "run.txt")
    wheel = tmp_path / "wheel.txt"
    digest = wheels.Wheel(distributions.wheel).sha256
    wheel.write_text(f"karpenter @ {distributions.wheel.as_uri()} --hash=sha256:{digest}\n")

    environment.install("--require-hashes", "-r", wheel)
    works(environment, tmp_path)
    with sandbox(environment, tmp_path) as cluster:
        cluster("apply", "-f", str(EXAMPLE / "nodepool.yaml"), "-f", str(EXAMPLE / "app.yaml"))
        cluster("scale", "deployment", "app", "--replicas=5")
        cluster("rollout", "status", "deployment", "app", f"--timeout={PATIENCE:g}s")
        assert cluster.names("nodeclaims")

    environment.install("--force-reinstall", distributions.archive)
    works(environment, tmp_path)
    with sandbox(environment, tmp_path) as cluster:
        assert cluster.names("nodes")


def works(environment: Environment, folder: Path) -> None:
    """What is installed runs, and is what was installed."""
    where = environment.run("python", "-c", WHERE, cwd=folder).split()
    assert all(Path(each).is_relative_to(environment.folder) for each in where)
    assert f"karpenter {__version__}\n" == environment.run("karpenter", "--version", cwd=folder)
    files = (PLAN / "cluster.yaml", PLAN / "workloads.yaml")
    assert "Nodes to create" in environment.run("kubectl-karpenter", "plan", *files, cwd=folder)


@contextmanager
def sandbox(environment: Environment, folder: Path) -> Iterator[Kubectl]:
    """Start a sandbox, and stop it after a block."""
    kubeconfig, log = folder / "kubeconfig", folder / "sandbox.log"
    bed = ("--instance-types", EXAMPLE / "instance-types.json", "--load", EXAMPLE / "cluster.yaml")
    program = environment.folder / "bin" / "karpenter"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [program, "sandbox", "--speed", "10", "--kubeconfig", kubeconfig, *bed],
            cwd=folder,
            env=plain_environment(),
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        with sandbox_process(process, kubeconfig, log) as cluster:
            yield cluster
    finally:
        kubeconfig.unlink(missing_ok=True)
