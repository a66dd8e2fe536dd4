"""Real ``helm``, and what it makes of the charts."""

import json
import os
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

import charts

MAIN: Final = charts.MAIN
CRDS: Final = charts.CRDS
RELEASE: Final = "karpenter"
NAMESPACE: Final = "kube-system"
_PATIENCE: Final = 300.0  # for one command; whatever needs it has failed

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Ran:
    """How a command ended."""

    code: int
    out: str
    err: str


@dataclass(frozen=True, slots=True)
class Helm:
    """The program, with or without a cluster."""

    program: Path
    home: Path  # for its caches
    kubeconfig: Path = field(default=Path(os.devnull))
    rendered: dict[tuple[str, ...], str] = field(default_factory=dict)

    def on(self, kubeconfig: Path) -> "Helm":
        """The same for a cluster."""
        return Helm(self.program, self.home, kubeconfig)

    def run(self, *arguments: str | Path) -> Ran:
        """Run a command, and say how it ended."""
        done = subprocess.run(
            [self.program, *arguments],
            env={
                **os.environ,
                "KUBECONFIG": str(self.kubeconfig),
                "HELM_CACHE_HOME": str(self.home / "cache"),
                "HELM_CONFIG_HOME": str(self.home / "config"),
                "HELM_DATA_HOME": str(self.home / "data"),
                "HELM_NAMESPACE": NAMESPACE,
            },
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    def __call__(self, *arguments: str | Path) -> str:
        """Run a command that must succeed, and return what it prints."""
        ran = self.run(*arguments)
        assert ran.code == 0, f"helm {' '.join(map(str, arguments))}: {ran.err}"
        return ran.out

    def template(self, values: Json | None = None, *, chart: Path = MAIN) -> list[Json]:
        """The objects of a chart."""
        arguments = ("template", RELEASE, str(chart), *self.given(values))
        if arguments not in self.rendered:
            self.rendered[arguments] = self(*arguments)
        return read(self.rendered[arguments])

    def refusal(self, values: Json, *, chart: Path = MAIN) -> str:
        """Why values are refused."""
        ran = self.run("template", RELEASE, chart, *self.given(values))
        assert ran.code != 0, "the values were taken"
        return ran.err

    def given(self, values: Json | None) -> list[str]:
        """The flags for values, each as JSON, which says what is text and what is not."""
        flags = [
            ("--set-json", f"{name}={json.dumps(each)}") for name, each in (values or {}).items()
        ]
        return [part for flag in flags for part in flag]


def read(text: str) -> list[Json]:
    """The objects in a text."""
    return [each for each in yaml.safe_load_all(text) if each]


def of_kind(objects: Iterable[Json], kind: str) -> Json:
    """The only object of a kind."""
    (found,) = all_of_kind(objects, kind)
    return found


def all_of_kind(objects: Iterable[Json], kind: str) -> list[Json]:
    """The objects of a kind."""
    return [each for each in objects if each["kind"] == kind]


def pod_spec(objects: Iterable[Json]) -> Json:
    """The pods of the Deployment."""
    found: Json = of_kind(objects, "Deployment")["spec"]["template"]["spec"]
    return found


def container(objects: Iterable[Json]) -> Json:
    """The controller's container."""
    found: Json = pod_spec(objects)["containers"][0]
    return found


def environment(objects: Iterable[Json]) -> dict[str, str]:
    """The environment of the controller, without what the kubelet fills in."""
    variables = container(objects)["env"]
    names = [each["name"] for each in variables]
    assert len(names) == len(set(names)), names
    return {each["name"]: each["value"] for each in variables if "value" in each}


def role_names(objects: Iterable[Json]) -> set[str]:
    """The ClusterRoles that are bound."""
    return {each["roleRef"]["name"] for each in all_of_kind(objects, "ClusterRoleBinding")}


@pytest.fixture(scope="session")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """Real helm; tests that ask for it are skipped without."""
    program = charts.find_helm()
    if program is None:
        pytest.skip("there is no helm: build it with `make helm` (needs Go)")
    return Helm(program, tmp_path_factory.mktemp("helm"))
