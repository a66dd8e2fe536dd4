"""Clusters to install the charts on: a sandbox without its controllers, or a real control plane."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import yaml

from control_plane.cluster import ControlPlane, control_plane
from helpers.helm import NAMESPACE, Helm, Json
from helpers.real_cluster import Kubectl, until

NODES: Final = ("first", "second")
_PATIENCE: Final = 60.0
_SIZE: Final = {"cpu": "8", "memory": "32Gi", "pods": "110"}


class Charted(Kubectl):
    """A cluster with two nodes, ``kubectl`` and ``helm``."""

    def __init__(self, kubeconfig: Path, helm: Helm, plane: ControlPlane | None = None) -> None:
        super().__init__(kubeconfig)
        self.helm: Final = helm.on(kubeconfig)
        self.plane: Final = plane

    def get(self, kind: str, name: str, namespace: str = NAMESPACE) -> Json:
        """One object."""
        found: Json = json.loads(self("get", kind, name, "-n", namespace, "-o", "json"))
        return found

    def releases(self) -> dict[str, str]:
        """The releases of all namespaces, with the namespace of each."""
        listed = json.loads(self.helm("list", "--all-namespaces", "-o", "json"))
        return {each["name"]: each["namespace"] for each in listed}

    def clean(self) -> None:
        """Take away what a test has installed."""
        for name, namespace in self.releases().items():
            self.helm("uninstall", name, "--namespace", namespace, "--wait")
        self("delete", "deployments", "--all", "--all-namespaces", "--timeout=60s")
        ours = [name for name in self.names("crd") if "karpenter" in name or "buffer" in name]
        if ours:
            self("delete", ",".join(ours), "--all", "--all-namespaces", "--timeout=60s")
            self("delete", "crd", *ours, "--wait=false")
            until(lambda: not self.names("crd") & set(ours), "CRDs go", seconds=_PATIENCE * 3)
        self("uncordon", *self.names("nodes"))


@contextmanager
def charted_sandbox(folder: Path, helm: Helm) -> Iterator[Charted]:
    """A sandbox in a process of its own."""
    kubeconfig = folder / "kubeconfig"
    options = ("--no-controllers", "--nodes", "2", "--kubeconfig", str(kubeconfig))
    with (folder / "sandbox.log").open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "karpenter", "sandbox", *options],
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        until(kubeconfig.exists, "a kubeconfig is written", seconds=_PATIENCE)
        yield Charted(kubeconfig, helm)
        process.send_signal(signal.SIGINT)
        process.wait(_PATIENCE)
    finally:
        process.kill()
        process.wait()


@contextmanager
def charted_control_plane(folder: Path, helm: Helm) -> Iterator[Charted]:
    """A real control plane whose kubelet is kwok."""
    with control_plane(folder) as plane:
        plane.start_kwok()
        cluster = Charted(plane.kubeconfig, helm, plane)
        cluster("apply", "-f", "-", given=yaml.safe_dump_all(map(_node, NODES)))
        cluster("wait", "node", "--all", "--for=condition=Ready", "--timeout=60s")
        yield cluster


def _node(name: str) -> Json:
    """A node in a zone of its own, which kwok brings to life."""
    labels = {"kubernetes.io/os": "linux", "topology.kubernetes.io/zone": f"zone-{name}"}
    annotations = {"kwok.x-k8s.io/node": "fake"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "annotations": annotations, "labels": labels},
        "status": {"capacity": _SIZE, "allocatable": _SIZE},
    }
