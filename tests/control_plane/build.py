"""Build a Kubernetes control plane, helm and promtool for tests from the published Go modules.

``python -m control_plane build`` puts etcd, kube-apiserver, kube-controller-manager,
kube-scheduler, kwok, helm and promtool into a cache folder outside the source tree and prints that
folder. What is there already is not built again. The versions and the hashes of all sources stand in
``go.mod`` and ``go.sum``. A first build takes about a quarter of an hour on two cores and needs Go and
a module proxy.
``python -m control_plane build helm`` builds helm alone, in about two minutes.

``KUBEBUILDER_ASSETS``, when set, names a folder of ready programs and is looked into first.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parent
ASSETS: Final = "KUBEBUILDER_ASSETS"
_VERSION_VARIABLES: Final = "k8s.io/component-base/version"
# What helm takes charts to be for where it sees no cluster
_HELM_VARIABLES: Final = ("helm.sh/helm/v3/pkg/chartutil", "helm.sh/helm/v3/pkg/lint/rules")


class BuildError(Exception):
    """A program is missing and cannot be built."""


@dataclass(frozen=True, slots=True)
class Program:
    """A program and the Go package it is built from."""

    name: str
    package: str
    folder: Path = HERE  # holds the go.mod that fixes its sources


PROGRAMS: Final = (
    Program("etcd", "go.etcd.io/etcd/server/v3"),
    Program("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"),
    Program("kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager"),
    Program("kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler"),
    Program("kwok", "sigs.k8s.io/kwok/cmd/kwok", HERE / "kwok"),
)
HELM: Final = Program("helm", "helm.sh/helm/v3/cmd/helm", HERE / "helm")
PROMTOOL: Final = Program(
    "promtool", "github.com/prometheus/prometheus/cmd/promtool", HERE / "promtool"
)


def kubernetes_version() -> str:
    """The version of Kubernetes that is built, such as ``v1.35.4``."""
    required = re.search(r"k8s\.io/kubernetes (v\S+)", (HERE / "go.mod").read_text("utf-8"))
    assert required is not None, "go.mod requires k8s.io/kubernetes"
    return required[1]


def cache_folder() -> Path:
    """Where built programs are kept."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "karpenter-control-plane" / kubernetes_version()


def find(name: str) -> Path | None:
    """A program of the control plane, if it is there already."""
    folders = [Path(os.environ[ASSETS])] if os.environ.get(ASSETS) else []
    for folder in (*folders, cache_folder()):
        if (folder / name).is_file():
            return folder / name
    return None


def missing() -> Iterator[Program]:
    """The programs that would have to be built."""
    return (program for program in PROGRAMS if find(program.name) is None)


def build(program: Program) -> Path:
    """Build one program into the cache folder; it appears there complete or not at all."""
    go = shutil.which("go")
    if go is None:
        raise BuildError(
            f"{program.name} is not built yet and there is no Go to build it with;"
            f" install Go, or set {ASSETS} to a folder of ready programs"
        )
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / f".{program.name}.{os.getpid()}"
    command = [go, "build", "-trimpath", "-ldflags", _link_flags(), "-o", str(partial)]
    try:
        subprocess.run(
            [*_modestly(), *command, program.package],
            cwd=program.folder,
            env={**os.environ, "GOFLAGS": "-mod=readonly -buildvcs=false"},
            check=True,
        )
        partial.replace(folder / program.name)
    except subprocess.CalledProcessError as error:
        raise BuildError(f"go could not build {program.name} (exit {error.returncode})") from error
    finally:
        partial.unlink(missing_ok=True)
    return folder / program.name


def _link_flags() -> str:
    version = kubernetes_version()
    major, minor, _ = version.removeprefix("v").split(".")
    facts = {"gitVersion": version, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    settings = [f"-X {_VERSION_VARIABLES}.{name}={value}" for name, value in facts.items()]
    for package in _HELM_VARIABLES:  # the linker ignores variables of other programs
        settings += [
            f"-X {package}.k8sVersionMajor={major}",
            f"-X {package}.k8sVersionMinor={minor}",
        ]
    return " ".join(["-s", "-w", *settings])


def _modestly() -> list[str]:
    nice = shutil.which("nice")
    return [nice, "-n", "10"] if nice else []


def main(programs: Iterable[Program]) -> int:
    """Build what is missing and say where it is."""
    for program in programs:
        found = find(program.name)
        if found is not None:
            print(f"{program.name}: {found}", flush=True)
            continue
        print(f"{program.name}: building {program.package} …", flush=True)
        started = time.monotonic()
        try:
            path = build(program)
        except BuildError as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
        print(f"{program.name}: {path} ({time.monotonic() - started:.0f} s)", flush=True)
    return 0
